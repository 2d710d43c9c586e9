#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# centerpoint.sh - the example gives one plane, from the file, from a database in
# which the same network is stored, from that packed as one file, and from the file
# with that pack.
#
#     sh tests/centerpoint.sh SPCTUNE CENTERPOINT SOURCES [CENTERPOINT_CPP]
#
# The example in C++ runs as many voxels, and compiles nothing new.
set -eu
spctune=$1 centerpoint=$2 sources=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
scan="$sources/tests/golden/corner.bin"

# Uses kernels that other tests have compiled.
[ ! -s "${SPC_TEST_DATABASE:-}" ] || cp "$SPC_TEST_DATABASE" "$work/c.db"
cp "$sources/tests/corpus/small.onnx" "$work/small.onnx"
mkdir "$work/pack"
cd "$work"
"$spctune" --quiet --database c.db net add small.onnx --name small \
    --voxel 0.075,0.075,0.2 --range -54,-54,-5,54,54,3
"$centerpoint" small.onnx cpu c.db "$scan" >file.bin
mv small.onnx kept.onnx
"$centerpoint" small cpu c.db "$scan" >stored.bin
cmp file.bin stored.bin
[ "$(stat -c %s stored.bin)" -gt 1000 ]
"$spctune" --quiet --database c.db db pack --whole pack/c.db >packed
"$centerpoint" small cpu pack/c.db "$scan" >packed.bin
cmp file.bin packed.bin
"$centerpoint" kept.onnx cpu pack/c.db "$scan" >both.bin
cmp file.bin both.bin
[ "$(ls pack | tr '\n' ' ')" = "c.db c.manifest " ]
if "$centerpoint" smell cpu c.db "$scan" 2>err; then exit 1; fi
grep -q "has no network 'smell'" err

if [ -n "${4:-}" ]; then
    "$4" c.db small cpu "$scan" "$scan" >cpp.txt
    [ "$(grep -c ': 60 points, 53 voxels, [0-9.]* ms$' cpp.txt)" = 2 ]
    grep -q '^2 frames: median [0-9.]* ms, worst' cpp.txt
    if "$4" c.db smell cpu "$scan" 2>err; then exit 1; fi
    grep -q "centerpoint_cpp: .*has no network 'smell'" err
    if "$4" c.db small cpu none.bin >cpp.txt 2>err; then exit 1; fi
    grep -q "centerpoint_cpp: .*none.bin" err
fi
