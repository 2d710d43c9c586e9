#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# exports.sh - a shared library shows its public functions and nothing else.
#
#     sh tests/exports.sh LIBRARY HEADER...
#
# All that it defines for others begins with spc_, nothing with spc__, and all of
# it stands in the headers; it has a soname; it needs nothing of Lua's.
set -eu
library=$1
shift
shown=$(nm -D --defined-only "$library" | awk '$2 != "A" { print $3 }' |
    grep -v -x -e _init -e _fini | sort -u)
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
