#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# keep_choices.sh - keeps the choices that stay valid although their templates changed.
#
#     sh tools/keep_choices.sh SPCTUNE OLD NEW TEXT [WORK] >KEPT
#
# A record is valid for the text of the template that was measured. If the text has
# changed, but compiles to the same machine code with the same launch, the record
# still describes what runs, so it gets the hash of the new text. OLD and NEW are
# folders of templates (`git worktree add` makes the OLD one). TEXT is a file of
# tuned/, or the output of 'db export --choices'; KEPT has the same records. Others
# are not changed, and are stale. Needs NVRTC but no GPU. It takes minutes;
# the folder WORK is kept and has OLD's code, for another NEW.
set -eu
[ $# -ge 4 ] || {
    echo "keep_choices.sh SPCTUNE OLD NEW TEXT [WORK]" >&2
    exit 2
}
spctune=$1 old=$2 new=$3 text=$4
here=$(cd "$(dirname "$0")" && pwd)
work=${5:-$(mktemp -d)}
[ $# -gt 4 ] || trap 'rm -rf "$work"' EXIT
mkdir -p "$work"
export SPC_DATABASE= SPC_SHIPPED= SPC_CONFIG=

# hashes FOLDER: each template with its hash, as the build embeds them.
hashes() {
    files=$(find "$1" -name '*.lua' -o -name '*.cuh' -o -name '*.h' | paste -sd';')
    cmake "-DFILES=$files" -DOUT="$work/embedded" -DWITHOUT_TEXT=ON \
        -P "$here/../templates/embed.cmake"
    sed -n 's/^ *{"\([a-z0-9_]*\)[.]cu*[.]lua", .*, "\([0-9a-f]*\)"},$/\1 \2/p' \
        "$work/embedded"
}
# The records of TEXT, each as a line with the names of all fields.
rm -f "$work/text.db" "$work/none.db" "$work/kept.db"
"$spctune" -q --device cpu --database "$work/none.db" db import /dev/null >/dev/null
"$spctune" -q --device cpu --database "$work/text.db" db import --trust "$text" >/dev/null
"$spctune" -q --device cpu --database "$work/text.db" db diff "$work/none.db" |
    sed -n 's/^- //p' >"$work/records"

hashes "$old" >"$work/old.hashes"
hashes "$new" >"$work/new.hashes"

# Lines of templates with OLD's hash that NEW has changed.
awk -v old="$work/old.hashes" -v new="$work/new.hashes" '
BEGIN {
    while ((getline <old) > 0) was[$1] = $2
    while ((getline <new) > 0) is[$1] = $2
}
match($0, / template=[a-z0-9_]+ hash=[0-9a-f]+/) {
    split(substr($0, RSTART, RLENGTH), word, /[ =]/)
    if (was[word[3]] == word[5] && is[word[3]] != word[5]) print
}' "$work/records" >"$work/changed"

# code FOLDER: a line for each choice: its name, a tab, launch and machine code.
code() {
    rm -f "$work/$2.db"
    "$spctune" -q --device cpu --templates "$1" --database "$work/$2.db" \
        db import "$work/changed" >/dev/null
    for target in $(sed -n 's/^choice .* target=\([^ ]*\) .*/\1/p' \
        "$work/changed" | sort -u); do
        "$spctune" -q --device cpu --templates "$1" --database "$work/$2.db" \
            build --choices --target "$target" >&2 || true
    done
    "$spctune" -q --device cpu --templates "$1" --database "$work/$2.db" \
        db export --code -o "$work/$2.txt"
    sed -n 's/^code .* \(target=[^ ]*\) .*\(launch=[^ ]*\) .* \(sha256=[0-9a-f]*\) is="*\([^ "]*\).*/\1|\4\t\2 \3/p' \
        "$work/$2.txt" | sed 's/,offsets=[0-9]*,centre=[-0-9]*//' | sort
}
: >"$work/same"
if [ "$(wc -l <"$work/changed")" -gt 0 ]; then
    cmp -s "$work/changed" "$work/old.changed" || {
        code "$old" old >"$work/old.code"
        cp "$work/changed" "$work/old.changed"
    }
    code "$new" new >"$work/new.code"
    comm -12 "$work/old.code" "$work/new.code" | cut -f1 >"$work/same"
fi

awk -v same="$work/same" -v old="$work/old.hashes" -v new="$work/new.hashes" '
function value(name) {
    return match($0, " " name "=[^ ]+") ? \
        substr($0, RSTART + length(name) + 2, RLENGTH - length(name) - 2) : ""
}
BEGIN {
    while ((getline <same) > 0) holds[$0] = 1
    while ((getline <old) > 0) was[$1] = $2
    while ((getline <new) > 0) is[$1] = $2
}
/^(choice|trial) / {
    tpl = value("template"); hash = value("hash")
    what = "target=" value("target") "|" tpl "|" value("layer") "|" value("config")
    if (hash == is[tpl]) fate = "fresh"
    else if (hash == was[tpl] && what in holds) {
        sub("hash=" hash, "hash=" is[tpl]); fate = "the same code"
    } else { fate = "stale" }
    if ($1 == "choice") count[fate]++
}
{ print }
END {
    printf "%d fresh, %d kept, as their code is the same, %d stale\n",
        count["fresh"], count["the same code"], count["stale"] >"/dev/stderr"
}' "$work/records" >"$work/kept.records"
"$spctune" -q --device cpu --database "$work/kept.db" \
    db import --trust "$work/kept.records" >/dev/null
"$spctune" -q --device cpu --database "$work/kept.db" db export --choices
