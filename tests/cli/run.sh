#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# run.sh - runs recorded command lines and compares their output.
#
#     sh tests/cli/run.sh SPCTUNE [--record] CASE...
#
# A case is a transcript. Lines that start with "$ " are commands for sh; what
# follows is their output (both streams) and, in brackets, an exit status that is
# not 0. Other lines are commentary, up to the first command. --record writes
# the new output into the case: review the difference before you commit it.
set -u
spctune=$1
shift
record=no
if [ "$1" = --record ]; then
    record=yes
    shift
fi

case $spctune in
/*) ;;
*) spctune=$PWD/$spctune ;;
esac
[ -x "$spctune" ] || {
    echo "run.sh: '$spctune' is not a program" >&2
    exit 2
}
here=$(cd "$(dirname "$0")" && pwd)
# A private folder at the front of PATH makes 'spctune' the program under test.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# Times are not part of the recorded output.
mkdir -p "$work/bin" "$work/home/.config/spctune"
echo "progress = none" >"$work/home/.config/spctune/config"
ln -s "$spctune" "$work/bin/spctune"
cp "$here/helpers.sh" "$work/bin/"
ln -s "$here/../templates/tuner" "$work/templates"
ln -s "$here/../.." "$work/source"

play() {
    before=yes
    while IFS= read -r line; do
        case $line in
        '$ '*)
            before=no
            printf '%s\n' "$line"
            (cd "$work/now" && sh -c ". ../bin/helpers.sh; ${line#??}" 2>&1)
            status=$?
            [ $status = 0 ] || printf '[%d]\n' $status
            ;;
        *) [ $before = no ] || printf '%s\n' "$line" ;;
        esac
    done <"$1"
}

failed=0
for case in "$@"; do
    name=$(basename "$case" .case)
    rm -rf "$work/now"
    mkdir "$work/now"
    ln -s ../templates "$work/now/templates"
    export PATH="$work/bin:$PATH" HOME="$work/home" LC_ALL=C \
        SPC_DATABASE=spc.db SPC_CPU_ISA=portable SPC_SHIPPED=
    unset COLUMNS XDG_CACHE_HOME XDG_CONFIG_HOME SPC_CONFIG SPC_CC SPC_NVRTC SPC_SIM_TARGET
    play "$case" >"$work/$name.out"
    if cmp -s "$case" "$work/$name.out"; then
        echo "ok: $name"
    elif [ $record = yes ]; then
        cp "$work/$name.out" "$case"
        echo "recorded: $name"
    else
        echo "FAILED: $name"
        diff -u "$case" "$work/$name.out"
        failed=1
    fi
done
exit $failed
