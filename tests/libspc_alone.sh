#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# libspc_alone.sh - libspc has nothing of libspclab, and runs what that one tuned.
#
#     sh tests/libspc_alone.sh LIBSPC.so LIBSPCLAB.a SPCTUNE DEPLOYED PLAN
#
# DEPLOYED and PLAN link libspc.so alone.
set -eu
library=$1 lab=$2 spctune=$3 deployed=$4 plan=$5
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "FAILED: $*"; exit 1; }

# libspc must not contain functions of libspclab: no name may be defined in
# both.
names() { nm --defined-only "$1" | awk 'NF == 3 && $2 ~ /'"$2"'/ { print $3 }' |
    grep '^spc_' | sort -u; }
names "$lab" '^[TDBR]$' >"$work/lab"
names "$library" . >"$work/library"
[ "$(wc -l <"$work/lab")" -gt 100 ] || fail "libspclab has few functions"
[ "$(wc -l <"$work/library")" -gt 500 ] || fail "libspc is stripped"
both=$(comm -12 "$work/lab" "$work/library")
[ -z "$both" ] || fail "libspc has functions of libspclab:" $both
for file in "$library" "$deployed" "$plan"; do
    ! readelf -d "$file" | grep -q 'NEEDED.*libspclab' ||
        fail "$file needs libspclab"
done
for file in "$deployed" "$plan"; do
    readelf -d "$file" | grep -q 'NEEDED.*libspc\.so' || fail "$file is static"
done
echo "ok: $(wc -l <"$work/lab") functions are in libspclab alone"

export SPC_DATABASE="$work/tuned.db"
scene=gen:uniform,n=60,extent=10
"$spctune" -q -d cpu tune subm,cin=4,cout=4,k=3,dtype=f32 --only generic \
    --effort quick --scene $scene >"$work/log"
"$spctune" -q net add "$here/networks/chain.lua" --name chain --seed 1
"$spctune" -q -d cpu tune --network chain --only generic --effort quick \
    --scene $scene >>"$work/log"
"$spctune" -q scene $scene -o "$work/voxels.npy" >>"$work/log"
for command in "$plan $SPC_DATABASE" \
    "$deployed $SPC_DATABASE chain cpu $work/voxels.npy"; do
    got=$($command) || fail "$got"
    echo "$got"
    case $got in
    *" 0 compiled"*) ;;
    *) fail "it compiles" ;;
    esac
done

# ---- a file without voxels
echo nothing >"$work/voxels.npy"
! "$deployed" "$SPC_DATABASE" chain cpu "$work/voxels.npy" 2>"$work/err" ||
    fail "it took a file of something else"
grep -q "has no voxels: expected an array of int32" "$work/err" || fail "$(cat "$work/err")"
