#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# aarch64.sh - Debian packages for 64-bit Arm, and networks of them on an
# emulated CPU.
#
#     sh tests/aarch64.sh SOURCES SPCTUNE
#
# Skipped where the cross compiler, the emulator or the libraries for arm64 are
# missing (cmake/aarch64.cmake names the packages).
set -eu
sources=$1 spctune=$2
for tool in aarch64-linux-gnu-gcc qemu-aarch64 dpkg-deb; do
    command -v $tool >/dev/null || { echo "skipped: no $tool"; exit 77; }
done
[ -e /usr/lib/aarch64-linux-gnu/libsqlite3.so ] ||
    { echo "skipped: no libsqlite3-dev:arm64"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "FAILED: $*"; exit 1; }

(cd "$sources" && cmake --preset deb-aarch64 -B "$work/build" \
    -DSPC_HOST_SPCTUNE="$spctune" ${SPC_TEST_CMAKE:-}) >"$work/log" 2>&1 ||
    fail "configure: $(tail -5 "$work/log")"
cmake --build "$work/build" >"$work/log" 2>&1 ||
    fail "build: $(tail -20 "$work/log")"
! grep 'warning:' "$work/log" || fail "warnings"
[ -s "$work/build/share/spctune/nvidia-h200.db" ] || fail "nothing was packed"

# ---- the packages
(cd "$work/build" && env -u LD_LIBRARY_PATH cpack -B "$work/deb") \
    >"$work/log" 2>&1 || fail "cpack: $(tail -5 "$work/log")"
root=$work/root lib=$work/root/usr/lib/aarch64-linux-gnu
for deb in "$work"/deb/*.deb; do
    architecture=$(dpkg-deb -f "$deb" Architecture)
    case $deb in
    *spctune-data_*) [ "$architecture" = all ] ;;
    *) [ "$architecture" = arm64 ] ;;
    esac || fail "$(basename "$deb") is for $architecture"
    dpkg-deb -x "$deb" "$root"
    echo "$(basename "$deb"): $(stat -c %s "$deb") bytes," \
        "needs $(dpkg-deb -f "$deb" Depends)"
done
[ -e "$lib/libspc.so.1" ] || fail "libspc is not in the folder of arm64"

# ---- the command
export SPC_CC=aarch64-linux-gnu-gcc SPC_DATABASE=
emulated() { timeout 600 qemu-aarch64 -L / -E "LD_LIBRARY_PATH=$lib" "$@"; }
command=$root/usr/bin/spctune scene=gen:uniform,n=60,extent=10
for type in f32 f16; do
    emulated "$command" -d cpu run \
        --network "$sources/tests/networks/chain.lua" --dtype $type \
        --scene $scene --check >"$work/run" 2>&1 ||
        fail "$type: $(tail -3 "$work/run")"
    grep 'as the oracle says' "$work/run"
done

# ---- a program with the library, which takes all code from the database
aarch64-linux-gnu-gcc "$sources/examples/deployed.c" -I"$root/usr/include" \
    -L"$lib" -lspc -lm -Wl,--unresolved-symbols=ignore-in-shared-libs \
    -o "$work/deployed" || fail "deployed.c does not compile"
"$spctune" -q scene $scene -o "$work/voxels.npy" >/dev/null
SPC_DATABASE=$work/arm.db
emulated "$command" -q net add "$sources/tests/networks/chain.lua" \
    --name chain --seed 1
emulated "$command" -q -d cpu run --network chain --scene $scene >"$work/run"
emulated "$work/deployed" "$SPC_DATABASE" chain cpu "$work/voxels.npy" \
    >"$work/run" 2>&1 || fail "deployed: $(cat "$work/run")"
cat "$work/run"
grep -q ' 0 compiled' "$work/run" || fail "it compiled again"
echo "ok: aarch64"
