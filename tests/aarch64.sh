#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# aarch64.sh - a release for 64-bit Arm, and a network of it on an emulated CPU.
#
#     sh tests/aarch64.sh SOURCES SPCTUNE
#
# Skipped where the cross compiler, the emulator or the libraries for arm64 are
# missing (cmake/aarch64.cmake names the packages).
set -eu
sources=$1 spctune=$2
for tool in aarch64-linux-gnu-gcc qemu-aarch64; do
    command -v $tool >/dev/null || { echo "skipped: no $tool"; exit 77; }
done
[ -e /usr/lib/aarch64-linux-gnu/libsqlite3.so ] ||
    { echo "skipped: no libsqlite3-dev:arm64"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "FAILED: $*"; exit 1; }

cmake -S "$sources" -B "$work/build" -G Ninja -DCMAKE_BUILD_TYPE=Release \
    -DCMAKE_TOOLCHAIN_FILE="$sources/cmake/aarch64.cmake" -DSPC_TESTS=OFF \
    -DSPC_HOST_SPCTUNE="$spctune" ${SPC_TEST_CMAKE:-} >"$work/log" 2>&1 ||
    fail "configure: $(tail -5 "$work/log")"
cmake --build "$work/build" >"$work/log" 2>&1 ||
    fail "build: $(tail -20 "$work/log")"
! grep 'warning:' "$work/log" || fail "warnings"
[ -s "$work/build/share/spctune/nvidia-h200.db" ] || fail "nothing was packed"

export SPC_CC=aarch64-linux-gnu-gcc SPC_DATABASE=
for type in f32 f16; do
    timeout 600 qemu-aarch64 -L / "$work/build/tuner/spctune" -d cpu run \
        --network "$sources/tests/networks/chain.lua" --dtype $type \
        --scene gen:uniform,n=60,extent=10 --check >"$work/run" 2>&1 ||
        fail "$type: $(tail -3 "$work/run")"
    grep 'as the oracle says' "$work/run"
done
echo "ok: aarch64"
