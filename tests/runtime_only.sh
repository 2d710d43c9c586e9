#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# runtime_only.sh - builds libspc without Lua, compilers and tuner, and serves a
# database with it.
#
#     sh tests/runtime_only.sh SOURCES SPCTUNE DEPLOYED
#
# DEPLOYED is the example with the whole library: both must give the same bits.
# Prints the size of the library and what it needs.
set -eu
sources=$1 spctune=$2 deployed=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "FAILED: $*"; exit 1; }

cmake -S "$sources" -B "$work/build" -G Ninja -DCMAKE_BUILD_TYPE=Release \
    -DSPC_RUNTIME_ONLY=ON ${SPC_TEST_CMAKE:-} >"$work/log" 2>&1 ||
    fail "configure: $(tail -5 "$work/log")"
cmake --build "$work/build" >>"$work/log" 2>&1 ||
    fail "build: $(tail -20 "$work/log")"

library="$work/build/runtime/libspc.so.1"
sh "$sources/tests/exports.sh" "$library" "$sources"/include/spc/*.h
! nm -D --defined-only "$library" | grep spc__ || fail "it shows what is private"
needs=$(readelf -d "$library" | sed -n 's/.*NEEDED.*\[\(.*\)\]/\1/p')
odd=$(echo "$needs" |
    grep -v -E '^(libsqlite3|libzstd|libsodium|libm|libc|libdl|libpthread|ld-linux.*)\.so' ||
    true)
[ -z "$odd" ] || fail "it needs" $odd
strip -o "$work/stripped" "$library"
echo "runtime only: $(stat -c %s "$work/stripped") bytes, needs" $needs
[ "$(stat -c %s "$work/stripped")" -lt 1000000 ] || fail "it is large"

# ---- the full build makes a database, the runtime uses it
export SPC_DATABASE="$work/ship.db"
scene=gen:uniform,n=60,extent=10
voxels() { # SPEC FILE
    "$spctune" -q scene "$1" -o "$2" >"$work/scene"
}
voxels $scene "$work/few.npy"
voxels gen:uniform,n=300,extent=9 "$work/every.npy"
"$spctune" -q net add "$sources/tests/networks/chain.lua" --name chain --seed 1
"$spctune" -q -d cpu tune --network chain --only generic --effort quick \
    --scene $scene >"$work/tuned"
want=$("$deployed" "$SPC_DATABASE" chain cpu "$work/few.npy")
got=$("$work/build/examples/deployed" "$SPC_DATABASE" chain cpu "$work/few.npy")
echo "$got"
[ "${want##*sum}" = "${got##*sum}" ] || fail "other bits: $want"
case $got in
*" 0 compiled"*) ;;
*) fail "it has no compiler" ;;
esac

# ---- the runtime reports missing code
"$spctune" -q net add "$sources/tests/networks/every.lua" --name every --seed 1
if "$work/build/examples/deployed" "$SPC_DATABASE" every cpu \
    "$work/every.npy" 2>"$work/err"; then
    fail "nobody tuned this"
fi
grep -q "and this libspc has no compiler: tune the layer" "$work/err" ||
    fail "$(cat "$work/err")"
echo "ok: what is missing is said"

# ---- the runtime also uses compiled defaults
"$spctune" -q -d cpu run --network every --scene gen:uniform,n=300,extent=9 \
    --growth 8 >"$work/ran"
want=$("$deployed" "$SPC_DATABASE" every cpu "$work/every.npy")
got=$("$work/build/examples/deployed" "$SPC_DATABASE" every cpu "$work/every.npy")
echo "$got"
[ "${want##*sum}" = "${got##*sum}" ] || fail "other bits: $want"

# ---- imported networks need no importer
shell=gen:shell,r=12
imported=yes
added=$("$spctune" -q net add "$sources/tests/corpus/small.onnx" \
    --name centerpoint 2>&1 || true)
case $added in
*"was built without"*) echo "skipped: $added"; imported=no ;;
*)
    voxels $shell "$work/shell.npy"
    "$spctune" -q -d cpu run --network centerpoint --scene $shell >"$work/ran"
    got=$("$work/build/examples/deployed" "$SPC_DATABASE" centerpoint cpu "$work/shell.npy")
    echo "$got"
    ;;
esac

# ---- a packed file has networks, weights, choices and code
mkdir "$work/target"
"$spctune" -q -d cpu db pack --whole "$work/target/ship.db" >"$work/packed"
rm "$work/target/ship.manifest"
chmod -R a-w "$work/target"
serve() { # NETWORK VOXELS
    want=$("$deployed" "$SPC_DATABASE" "$1" cpu "$2")
    got=$(cd / && "$work/build/examples/deployed" "$work/target/ship.db" "$1" cpu "$2")
    echo "packed: $got"
    [ "${want##*sum}" = "${got##*sum}" ] || fail "other bits: $want"
}
serve chain "$work/few.npy"
[ $imported = no ] || serve centerpoint "$work/shell.npy"
[ "$(ls "$work/target")" = ship.db ] || fail "left $(ls "$work/target")"
chmod -R u+w "$work/target"

# ---- an image with this alone
sh "$sources/tools/runtime_image.sh" "$work/target/ship.db" "$work/image" \
    "$work/few.npy"
if [ "$(id -u)" = 0 ]; then
    want=$("$deployed" "$SPC_DATABASE" chain cpu "$work/few.npy")
    got=$(chroot "$work/image" /deployed /net.db chain cpu /few.npy)
    echo "image: $got"
    [ "${want##*sum}" = "${got##*sum}" ] || fail "other bits: $want"
else
    echo "skipped: only root can enter the image"
fi
