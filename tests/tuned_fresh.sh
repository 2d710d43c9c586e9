#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# tuned_fresh.sh - checks that no shipped record is stale.
#
#     sh tests/tuned_fresh.sh SPCTUNE TEXT...
#
# A record is stale if its template has changed since it was measured. Templates
# may change between releases; a release ships none of these records.
set -eu
spctune=$1
shift
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export SPC_SHIPPED= SPC_CONFIG=
for text; do
    "$spctune" -q --device cpu --database "$work/db" db import "$text" |
        grep ' accepted, ' >"$work/says"
    cat "$work/says"
    grep -q ' 0 stale, 0 rejected' "$work/says"
done
