#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# runtime_image.sh - a root file system with a database, a program, libspc for
# the runtime, the shared libraries that they need, and nothing else.
#
#     sh tools/runtime_image.sh DATABASE FOLDER [FILE...]
#
# The program is examples/deployed.c, or $SPC_PROGRAM: one that is linked with
# libspc.so. FILEs, such as voxels, go along. Prints what takes how much room.
# Run it by chroot, or make an image of a container of it:
#
#     chroot FOLDER /deployed /net.db NETWORK cpu /voxels.npy
#     tar -C FOLDER -c . | docker import - spctune-runtime
#
# For a GPU the container also needs the driver's libcuda.so.1, which NVIDIA's
# container runtime adds.
set -eu
[ $# -ge 2 ] || { sed -n '3,18s/^# \{0,1\}//p' "$0"; exit 2; }
database=$1 root=$2
shift 2
sources=$(cd "$(dirname "$0")/.." && pwd)
[ -f "$database" ] || { echo "there is no database '$database'" >&2; exit 1; }
[ ! -e "$root" ] || { echo "'$root' is there already" >&2; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cmake -S "$sources" -B "$work/build" -G Ninja -DCMAKE_BUILD_TYPE=Release \
    -DSPC_RUNTIME_ONLY=ON -DSPC_TESTS=OFF ${SPC_TEST_CMAKE:-} >"$work/log" &&
    cmake --build "$work/build" >>"$work/log" || {
    tail -n 20 "$work/log" >&2
    exit 1
}
cmake --install "$work/build" --strip --prefix "$work/usr" >>"$work/log"
library=$(find "$work/usr" -name 'libspc.so.1')
program=${SPC_PROGRAM:-$work/deployed}
[ -n "${SPC_PROGRAM:-}" ] ||
    ${CC:-cc} -O2 -s "$sources/examples/deployed.c" -I"$work/usr/include" \
        -L"$(dirname "$library")" -lspc -lm -o "$program"

# Each library goes where the program interpreter looks for it: where it is here,
# but for libspc, which is in a folder that every interpreter searches.
mkdir -p "$root/usr/lib" "$root/tmp"
chmod 1777 "$root/tmp"
cp -L "$library" "$root/usr/lib/libspc.so.1"
LD_LIBRARY_PATH=$(dirname "$library") ldd "$program" |
    grep -o '/[^ ]*' | grep -v libspc.so >"$work/libraries"
while read -r file; do
    mkdir -p "$root/$(dirname "$file")"
    cp -L "$file" "$root/$file"
done <"$work/libraries"
cp "$program" "$root/$(basename "$program")"
cp "$database" "$root/net.db"
for file in "$@"; do
    cp "$file" "$root/"
done
(cd "$root" && find . -type f -printf '%s %p\n' | sort -rn |
    awk '{ all += $1; printf "%9d  %s\n", $1, substr($2, 2) }
         END { printf "%9d  in all\n", all }')
