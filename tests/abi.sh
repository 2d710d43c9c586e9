#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# abi.sh - programs that were built against an earlier libspc still work.
#
#     sh tests/abi.sh [--record] HEADERS LIBRARY DUMP
#
# Compares the binary interface of LIBRARY (types of the folder HEADERS, functions,
# soname) with DUMP, by libabigail. New functions are fine. Everything else is a break:
# a release that breaks the interface has a new major version, and --record writes the
# new DUMP. Before version 1.0.0 is released, a break needs --record alone.
set -u
record=
[ "$1" != --record ] || { record=yes; shift; }
headers=$1
library=$2
dump=$3
private=$(dirname "$0")/abi/private.suppr
for tool in abidw abidiff; do
    command -v "$tool" >/dev/null ||
        { echo "skipped: no $tool on this machine (package abigail-tools)"; exit 77; }
done

# The dump omits opaque types, source lines and parameter names.
if [ -n "$record" ]; then
    mkdir -p "$(dirname "$dump")"
    exec abidw --suppressions "$private" --headers-dir "$headers" \
        --drop-private-types --no-elf-needed \
        --exported-interfaces-only --no-write-default-sizes --no-show-locs \
        --no-parameter-names --no-corpus-path --no-comp-dir-path \
        --type-id-style hash --out-file "$dump" "$library"
fi
# abidiff's exit status: 1 and 2 are errors, 4 is a change, 8 an incompatible
# change.
report=$(abidiff --suppressions "$private" --no-added-syms "$dump" "$library")
status=$?
[ "$status" != 0 ] || { echo "$(basename "$library"): nothing changed"; exit 0; }
printf '%s\n' "$report"
echo "the binary interface of $(basename "$library") changed (abidiff: $status)." \
    "If that is intended: sh tests/abi.sh --record $headers $library $dump," \
    "and a line in CHANGELOG.md"
exit 1
