#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# tensorrt.sh - the plugin of TensorRT gives the bits of libspc, called as
# TensorRT would; on cuda also in a graph, on two streams, and as fast.
#
#     sh tests/integrations/tensorrt.sh SOURCES SPCTUNE PLUGIN HOST [cuda]
set -eu
sources=$1 spctune=$2 plugin=$3 host=$4 device=${5:-cpu}
[ "$device" = cpu ] || "$spctune" devices | grep -q '^cuda' || {
    echo "skipped: there is no GPU"
    exit 77
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# An engine that embeds its database leaves no file.
mkdir "$work/tmp"
export TMPDIR="$work/tmp"
export SPC_DATABASE="$work/trt.db" SPC_SHIPPED=

cat >"$work/small.lua" <<'END'
network "small"
local x = input {channels = 4, shape = {64, 64, 8}}
x = conv(x, "subm,cout=16,k=3,epilogue=scale+bias+relu", {name = "first"})
output(x, "same")
x = conv(x, "conv,cout=32,k=3,stride=2,padding=1,rule=footprint,epilogue=bias+relu",
         {name = "down"})
output(x, "rows")
output(feature(x, "bev,order=zyx"), "bev")
END
for dtype in f32 f16; do
    "$spctune" net add "$work/small.lua" --name small_$dtype --dtype $dtype \
        --seed 1
    for output in bev rows same; do
        "$host" "$plugin" "$SPC_DATABASE" small_$dtype $output 3000 \
            "$device"
    done
done
if [ "$device" != cpu ]; then
    unset SPC_SHIPPED
    "$spctune" net add "$sources/examples/networks/second.lua" --name second \
        --dtype f16 --seed 1
    "$host" "$plugin" "$SPC_DATABASE" second bev 60000 "$device" times
fi
[ -z "$(ls -A "$TMPDIR")" ] || { echo "FAILED: left $(ls "$TMPDIR")"; exit 1; }
