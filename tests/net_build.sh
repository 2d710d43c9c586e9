#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# net_build.sh - kernels that 'net build' compiles without a GPU serve one
# without a compiler.
#
#     sh tests/net_build.sh SOURCES SPCTUNE DEPLOYED FAKE_CUDA FAKE_NVRTC
#
# The GPU is a double of the driver, in the folder FAKE_CUDA; it reports an H200.
# FAKE_NVRTC knows sm_80 and sm_90.
set -eu
sources=$1 spctune=$2 deployed=$3 driver=$4 nvrtc=$5
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "FAILED: $*"; exit 1; }
cd "$work"
export SPC_DATABASE="$work/net.db" SPC_CONFIG=
scene=gen:uniform,n=60,extent=10
serve() { # DATABASE
    SPC_NVRTC=/nonexistent SPC_CUBLASLT=/nonexistent \
        LD_LIBRARY_PATH="$driver" "$deployed" "$1" chain cuda few.npy
}
build() { SPC_NVRTC=$nvrtc "$spctune" net build chain --scene $scene "$@"; }

"$spctune" -q scene $scene -o few.npy >scene.txt
"$spctune" -q net add "$sources/tests/networks/chain.lua" --name chain --seed 1
if serve net.db 2>err; then fail "nothing was built"; fi
grep -q '^deployed: ' err || fail "$(cat err)"

# Another target's code does not serve.
build --target sm_80 >built
if serve net.db 2>err; then fail "code of sm_80 served sm_90a"; fi

build --target sm_90a >built
cat built
grep -q 'chain for sm_90a: \([0-9]*\) kernels, \1 compiled now' built ||
    fail "not all were compiled"
kernels=$(sed 's/.*: \([0-9]*\) kernels.*/\1/' built)
build --target sm_90a | grep -q ' 0 compiled now' || fail "compiled again"
build --target sm_90a --json | grep -q "\"kernels\":$kernels,\"compiled\":0" ||
    fail "its JSON"
serve net.db | tee served
grep -q " $kernels kernels loaded, 0 compiled" served || fail "not all serve"

mkdir packed
"$spctune" -q db pack --whole packed/net.db >/dev/null
serve packed/net.db | tee served
grep -q " $kernels kernels loaded, 0 compiled" served || fail "the pack"

# ---- what cannot be built is refused once, not for each candidate
refuse() { # STATUS SENTENCE ARGUMENT...: of net build chain --scene ...
    want=$1 sentence=$2
    shift 2
    refuse_command "$want" "$sentence" net build chain --scene $scene "$@"
}
refuse_command() {
    want=$1 sentence=$2 status=0
    shift 2
    SPC_NVRTC=$nvrtc "$spctune" "$@" >out 2>err || status=$?
    [ $status = "$want" ] || fail "$*: status $status, $(cat err)"
    [ "$(wc -l <err)" -le 2 ] || fail "$*: $(cat err)"
    grep -q "$sentence" err || fail "$*: $(cat err)"
}
refuse 7 "does not know the target 'sm_87', but sm_80 sm_90" --target sm_87
refuse 7 "unknown target 'sm_91' (sm_75," --target sm_91
refuse 2 "'cuda' is not a target" --target cuda
refuse 2 'takes one scene and a target'
refuse_command 7 "does not know the target 'sm_87', but sm_80 sm_90" \
    build subm,cin=8,cout=8,k=3 --target sm_87 --effort quick
refuse_command 7 'sm_80 is not here: kernels are compiled for it' -d sm_80 \
    run --network chain --scene $scene
echo "ok: net build"
