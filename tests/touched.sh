#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# touched.sh - the suites that tests/areas.txt names for what changed, a line each.
#
#     sh tests/touched.sh [FILE...]
#
# Without a FILE: the files that differ from the point where HEAD left origin/main,
# or, on that branch itself, from HEAD's parent. So it is the same for a commit on any
# day. $SPC_TEST_BASE names another commit to compare with. A file test_NAME.c of
# tests/ is the suite NAME.
set -uf
cd "$(dirname "$0")/.." || exit 1

changed() {
    head=$(git rev-parse HEAD) || return
    base=${SPC_TEST_BASE:-$(git merge-base HEAD origin/main 2>/dev/null)}
    [ -n "$base" ] && [ "$base" != "$head" ] || base=HEAD^
    git diff --name-only "$base" 2>/dev/null
    git ls-files --others --exclude-standard
}

{
    if [ $# -gt 0 ]; then printf '%s\n' "$@"; else changed; fi
    echo any
} | while read -r file; do
    case $file in
    tests/*/test_*.c)
        file=${file##*/test_}
        echo "${file%.c}"
        continue
        ;;
    esac
    while read -r pattern suites; do
        # shellcheck disable=SC2254 # it is a pattern
        case $file in
        $pattern) printf '%s\n' "$suites" | tr ' ' '\n' ;;
        esac
    done <tests/areas.txt
done | grep -v '^#' | sort -u
