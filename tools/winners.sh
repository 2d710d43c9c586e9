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
# Where `name` stands in the list of names that the word `list` of a line gives.
function place(line, list, name,    names, count, i) {
    if (!match(line, " " list "=[^ ]*"))
        return 0
    count = split(substr(line, RSTART + length(list) + 2, \
                         RLENGTH - length(list) - 2), names, ",")
    for (i = 1; i <= count; i++)
        if (names[i] == name || index(names[i], name "=") == 1)
            return i
    return 0
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
# A template names the attributes whose values stand in the cells of its rows.
$1 == "template" {
    rows_at[$2] = place($0, "buckets", "rows")
    split_at[$2] = place($0, "config", "split")
}
$1 == "for" && match($0, / layer=[^ ]*/) {
    layer = substr($0, RSTART + 7, RLENGTH - 7)
}
$1 == "choice" {
    split($2, bucket, ",")
    split($4, config, ",")
    split_of = split_at[$3] > 0 ? config[split_at[$3]] : ""
    rows = rows_at[$3] > 0 ? bucket[rows_at[$3]] : 0
    name = $3 (split_of == "" || split_of == "none" ? "" : ", " split_of)
    pass = field(layer, "pass")
    count[name]++
    all++
    kinds[name] = add_word(kinds[name], \
                  pass == "" || pass == "forward" ? field(layer, "op") : pass)
    types[name] = add_word(types[name], field(layer, "dtype"))
    widen(name " in", field(layer, "cin") + 0)
    widen(name " out", field(layer, "cout") + 0)
    # Buckets are half octaves.
    widen(name " rows", int(2 ^ (rows / 2) + 0.5))
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
