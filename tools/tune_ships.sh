#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# tune_ships.sh - tunes the shipped choices for the GPUs of this host, and writes them.
#
#     sh tools/tune_ships.sh SPCTUNE SCENES OUT [BUDGET [LIMIT [KNOWN [LIST]]]]
#
# SPCTUNE is the command (that of the preset `static` runs anywhere), SCENES the
# folder with the files of scenes, OUT the folder that receives nvidia-h200.txt, or
# another device's name: review it, and put it in tuned/. Measurements are stored in
# OUT/tuning.db: the same command continues with it. No layer starts after BUDGET
# (default: 8m); after LIMIT (540s) running ones are stopped, and their measurements
# are kept. KNOWN is the file shipped before: layers whose choices there are neither
# stale nor hasty are skipped, and the text has both. LIST replaces the list of
# `tune_lists.sh ships`. tools/merge_ships.sh merges such texts.
set -eu
[ $# -ge 3 ] || {
    echo "tune_ships.sh SPCTUNE SCENES OUT [BUDGET [LIMIT [KNOWN [LIST]]]]" >&2
    exit 2
}
spctune=$1 scenes=$2 out=$3 budget=${4:-8m} limit=${5:-540s} known=${6:-}
list=${7:-$out/list}
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$out"
export SPC_DATABASE="$out/tuning.db" SPC_SHIPPED=

[ -z "$known" ] || "$spctune" -q db import "$known" | tail -1
[ $# -ge 7 ] || sh "$here/tune_lists.sh" ships >"$list"
status=0
timeout -s TERM -k 20 "$limit" \
    "$spctune" --device "${SPC_SHIPS_DEVICE:-cuda:all}" --progress plain \
    tune "$list" --scenes "$scenes" --effort quick --missing --in-order \
    --budget "$budget" || status=$?
"$spctune" db export --choices -o "$out/choices"
# As runtime/context/shipped.c writes the device's name.
name=$(sed -n 's/^for device="\([^"]*\)".*/\1/p' "$out/choices" | head -1 |
    tr '[:upper:]' '[:lower:]' | sed -E 's/[^a-z0-9.]+/-/g; s/-$//')
[ -n "$name" ] || {
    echo "tune_ships.sh: nothing was chosen" >&2
    exit 1
}
mv "$out/choices" "$out/$name.txt"
# The reason of a choice stands in its line, or in a note.
hasty=$(awk '/^note .*; its search was cut short"$/ { key["$" $2] = 1 }
    NR == FNR { next }
    $1 == "choice" { count += $7 in key || /; its search was cut short"/ }
    END { print count + 0 }' "$out/$name.txt" "$out/$name.txt")
echo "$out/$name.txt: $(grep -c '^choice' "$out/$name.txt") choices," \
    "$(wc -c <"$out/$name.txt") bytes, $hasty hasty"
exit $status
