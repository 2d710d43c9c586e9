#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# merge_ships.sh - merges new measurements into a file of tuned/.
#
#     sh tools/merge_ships.sh SPCTUNE TEXT NEW...
#
# TEXT, which receives the result, and each NEW are outputs of tools/tune_ships.sh or
# 'db export --choices'. If two choices are for one problem, the newer one is kept.
# Review the difference before you commit it: the build counts stale choices.
set -eu
[ $# -ge 3 ] || {
    echo "merge_ships.sh SPCTUNE TEXT NEW..." >&2
    exit 2
}
spctune=$1 text=$2
shift 2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export SPC_DATABASE="$work/joined.db" SPC_SHIPPED= SPC_CONFIG=
"$spctune" -q --device cpu db import "$text" "$@" | grep ' accepted, '
"$spctune" -q --device cpu db export --choices -o "$work/joined"
mv "$work/joined" "$text"
echo "$text: $(grep -c '^choice' "$text") choices"
