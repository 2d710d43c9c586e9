#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# winners.sh FILE...: lists which dataflow won which layers, from records as text
# (`spctune db export`, or the shipped tuned/*.txt). Prints a line for each template
# and split of a choice: the number of layers, their operators, channels, voxels and
# microseconds. docs/dataflows.md has the lines of the shipped choices.
set -eu

[ $# -gt 0 ] || {
    echo "usage: sh tools/winners.sh FILE..." >&2
    exit 2
}
for file in "$@"; do # a wrong name is not an empty table
    [ -r "$file" ] || { echo "winners.sh: cannot read '$file'" >&2; exit 2; }
done

# The value of NAME in fields separated by blanks or commas.
awk '
function field(text, name) {
    if (!match(" " text, "[ ,=]" name "=[^ ,]*"))
        return ""
    text = substr(" " text, RSTART + 1, RLENGTH - 1)
    return substr(text, length(name) + 2)
}
function widen(at, value) {
    if (!(at in low) || value < low[at]) low[at] = value
    if (!(at in high) || value > high[at]) high[at] = value
}
function range(at) {
    return low[at] == high[at] ? low[at] : low[at] " to " high[at]
}
function add_word(list, word) {
    return index(" " list " ", " " word " ") ? list : \
           list == "" ? word : list " " word
}
{ sub(/\r$/, "") }
$1 == "choice" {
    split_of = field($0, "split")
    name = field($0, "template") (split_of == "" || split_of == "none" ? "" : \
           ", " split_of)
    pass = field($0, "pass")
    count[name]++
    all++
    kinds[name] = add_word(kinds[name], \
                  pass == "" || pass == "forward" ? field($0, "op") : pass)
    types[name] = add_word(types[name], field($0, "dtype"))
    widen(name " in", field($0, "cin") + 0)
    widen(name " out", field($0, "cout") + 0)
    # Buckets are half octaves.
    widen(name " rows", int(2 ^ (field($0, "rows") / 2) + 0.5))
}
END {
    print "| dataflow | layers | operators, passes | types | cin | cout | rows, about |"
    print "|---|---:|---|---|---:|---:|---:|"
    fflush()
    for (name in count)
        printf "| `%s` | %d | %s | %s | %s | %s | %s |\n", name, count[name], \
               kinds[name], types[name], range(name " in"), \
               range(name " out"), range(name " rows") | "sort -t\"|\" -k3,3nr -k2,2"
    close("sort -t\"|\" -k3,3nr -k2,2")
    print "\n" all " choices" > "/dev/stderr"
}' "$@"
