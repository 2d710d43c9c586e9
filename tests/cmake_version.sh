#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# cmake_version.sh - no file of the build asks for a later CMake than the top
# file does, and the documents state that version.
#
#     sh tests/cmake_version.sh SOURCES
set -eu
cd "$1"
asked() { sed -n 's/^cmake_minimum_required(VERSION \([0-9.]*\).*/\1/p' "$@"; }
least=$(asked CMakeLists.txt)
for file in $(find . -path ./build -prune -o \
    \( -name CMakeLists.txt -o -name '*.cmake' -o -name '*.cmake.in' \) -print); do
    for version in $(asked "$file"); do
        [ "$(printf '%s\n' "$version" "$least" | sort -V | tail -1)" = "$least" ] || {
            echo "FAILED: $file asks for CMake $version; CMakeLists.txt for $least"
            exit 1
        }
    done
done
for file in README.md CONTRIBUTING.md; do
    grep -q "CMake $least" "$file" ||
        { echo "FAILED: $file does not say CMake $least"; exit 1; }
done
echo "ok: CMake $least"
