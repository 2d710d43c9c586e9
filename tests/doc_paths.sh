#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# doc_paths.sh - do the files that the documents name exist?
#
#     sh tests/doc_paths.sh SOURCES
#
# A path is a word in backquotes with a slash and an ending of ours, from the
# top, from runtime/ or from tuner/; a word in capitals stands for any name.
set -u
cd "$1" || exit 1
named=0 missing=0
for document in README.md CONTRIBUTING.md templates/README.md docs/*.md \
    docs/dev/*.md; do
    for path in $(grep -oE '`[A-Za-z0-9_/*.-]+/[A-Za-z0-9_*.-]+\.(c|h|lua|cuh|sh|py|cmake|md|txt)`' \
        "$document" | tr -d '`' | sed -E 's/[A-Z]{2,}/*/g' | sort -u); do
        named=$((named + 1))
        # shellcheck disable=SC2086 # a pattern may stand there
        ls -d $path runtime/$path tuner/$path 2>/dev/null | grep -q . || {
            echo "$document names $path, which is not there"
            missing=$((missing + 1))
        }
    done
done
echo "$named paths, $missing missing"
[ "$missing" = 0 ] && [ "$named" -gt 0 ]
