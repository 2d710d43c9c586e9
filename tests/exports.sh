#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# exports.sh - a shared library shows its public functions and nothing else.
#
#     sh tests/exports.sh LIBRARY HEADER...
#
# All that it defines for others begins with spc_, has a version, and stands in
# the headers; but for what libspc shows to libspclab of its version alone. It has
# a soname.
set -eu
library=$1
shift
all=$(nm -D --defined-only "$library" | awk '$2 != "A" { print $3 }' | sort -u)
private=$(echo "$all" | grep '^spc__.*@@SPC_PRIVATE_[0-9.]*$' || true)
[ -z "$private" ] || case $(basename "$library") in
libspc.so*) ;;
*) echo "what is private is shown"; exit 1 ;;
esac
versioned=$(echo "$all" | grep -v '@@SPC_PRIVATE_')
odd=$(echo "$versioned" | grep -v '@@SPC\(LAB\|_IMPORT\|\)_[0-9]*$' || true)
[ -z "$odd" ] || { echo "no version of it:" $odd; exit 1; }
shown=$(echo "$versioned" | sed 's/@@.*//')
[ "$(echo "$shown" | wc -l)" -gt 10 ]
odd=$(echo "$shown" | grep -v '^spc_[a-z]' || true)
[ -z "$odd" ] || { echo "shown to everybody:" $odd; exit 1; }
declared=$(grep -h -o 'spc_[a-z0-9_]*(' "$@" | tr -d '(' | sort -u)
for name in $shown; do
    case "
$declared
" in
    *"
$name
"*) ;;
    *) echo "no header has $name"; exit 1 ;;
    esac
done
readelf -d "$library" | grep -q "SONAME.*$(basename "$library" | sed 's/\.so.*//')\.so\.[0-9]"
echo "$(basename "$library"): $(echo "$shown" | wc -l) functions"
