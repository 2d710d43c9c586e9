#!/bin/sh
# centerpoint.sh - the example gives one plane, from the file and from a database
# in which the same network is stored.
#
#     sh tests/centerpoint.sh SPCTUNE CENTERPOINT SOURCES
set -eu
spctune=$1 centerpoint=$2 sources=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
scan="$sources/tests/golden/corner.bin"

# Where others have compiled the kernels already, that is not done again.
[ ! -s "${SPC_TEST_DATABASE:-}" ] || cp "$SPC_TEST_DATABASE" "$work/c.db"
cp "$sources/tests/corpus/small.onnx" "$work/small.onnx"
cd "$work"
"$spctune" --quiet --database c.db net add small.onnx --name small \
    --voxel 0.075,0.075,0.2 --range -54,-54,-5,54,54,3
"$centerpoint" small.onnx cpu c.db "$scan" >file.bin
rm small.onnx
"$centerpoint" small cpu c.db "$scan" >stored.bin
cmp file.bin stored.bin
[ "$(stat -c %s stored.bin)" -gt 1000 ]
if "$centerpoint" smell cpu c.db "$scan" 2>err; then exit 1; fi
grep -q "the database has no network 'smell'" err
