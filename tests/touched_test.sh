#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# touched_test.sh - tests/areas.txt names suites that exist, for every folder of
# sources, and touched.sh finds them.
#
#     sh tests/touched_test.sh PROGRAMS TESTS
#
# PROGRAMS: programs.txt of the build, a suite at the start of each line. TESTS: a file
# with the names of the other tests.
set -u
here=$(cd "$(dirname "$0")" && pwd)
cd "$here/.." || exit 1
status=0

fail() {
    echo "$*" >&2
    status=1
}

grep -v '^#' tests/areas.txt | tr ' ' '\n' | grep '^[a-z0-9_]*$' | sort -u |
    while read -r suite; do
        grep -q "^$suite " "$1" || grep -qx "$suite" "$2" ||
            echo "tests/areas.txt: there is no suite '$suite'"
    done | grep . >&2 && status=1

core=$(sh tests/touched.sh no/such/file)
[ -n "$core" ] || fail "no suites are always tested"
for folder in base cache compiler import tuner runtime/* lab templates/*; do
    [ -d "$folder" ] || continue
    [ "$(sh tests/touched.sh "$folder/x.c")" != "$core" ] ||
        fail "tests/areas.txt: no line for $folder"
done
for folder in $(grep -v '^[#*]' tests/areas.txt | sed 's|/[*].*||'); do
    [ -d "$folder" ] || fail "tests/areas.txt: there is no folder '$folder'"
done
sh tests/touched.sh templates/forward/os_split.lua | grep -qx splits ||
    fail "a change of templates/forward/os_split.lua does not test 'splits'"
sh tests/touched.sh tests/tuner/test_joint.c | grep -qx joint ||
    fail "a change of a suite does not test the suite"
exit $status
