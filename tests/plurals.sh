#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# plurals.sh - "1 problems": does a count in a sentence of the command have a
# noun that is always plural?
#
#     sh tests/plurals.sh SOURCES
#
# spc__count() of base/plural.h writes numbers with their nouns. A count that
# cannot be one, such as a limit, stands in the list below.
set -u
cd "$1" || exit 1
allowed='%d of the templates|more than %d devices|%d of %d cases|%dx%dx%d voxels|%zu bytes|%lld bytes|%d bytes'
allowed="$allowed|%[a-z]+ (is|has|was|class|us|pass|as)\\b"
found=$(grep -rnE '"[^"]*%(d|i|u|lld|zu) ([a-z]+ )?[a-z]{2,}s\b' --include=*.c tuner/command |
    grep -vE "$allowed")
[ -z "$found" ] || {
    echo "counts whose nouns are always plural; spc__count() is there for them:"
    echo "$found"
    exit 1
}
echo "no count with a noun that is always plural"
