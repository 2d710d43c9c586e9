#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# tune_lists.sh - lists for 'spctune tune': the layers of common networks.
#
#     sh tools/tune_lists.sh networks|layers|all|ships [DTYPE] >list
#     spctune tune list --scenes DIR --effort quick --budget 2h
#
# `ships` has the layers of tuned/, the most important first (--in-order; see
# tools/tune_ships.sh): networks that are deployed and compared, the layers of
# `bench --suite`, then layers that others are likely to be near to, and gradients.
# `networks` are those of examples/networks on scenes of their kind: every layer on
# the voxels of its level. `layers` are plain layers of 4 to 512 channels with
# kernels of 2, 3 and 5, at their usual levels, for layers outside of those networks:
# rows and density come from the scene and its level. Files of scenes have the names
# of the benchmarks' samples; see docs/performance.md.
set -eu
what=${1:-all}
dtype=${2:-f16}
networks=$(cd "$(dirname "$0")/../examples/networks" && pwd)

scans="kitti_hdl64_full.bin@0.05 waymo_frame.bin@0.1"
scenes="$scans nuscenes_sweep1.bin@0.1 indoor_rgbd_fragment.bin@0.02 gen:shell,r=256"

# on SCENES NETWORK...
on() {
    wanted=$1
    shift
    for network in "$@"; do
        for scene in $wanted; do
            echo "$networks/$network.lua --scene $scene --dtype $dtype"
        done
    done
}

list_networks() {
    echo "# detectors, on their own grids"
    on kitti_hdl64_full.bin second unetv2
    on nuscenes_sweep1.bin centerpoint voxelnext largekernel3d
    echo "# segmentation"
    on "$scans indoor_rgbd_fragment.bin@0.02" minkunet18a minkunet34c minkunet_w20 \
        spunet ptv3
    echo "# those that engines are compared on"
    on "$scans" resn21 resnl unet42
    echo "# a decoder of meshes, on a grid of 64"
    on gen:shell,r=64 trellis_mesh
}

# at LEVEL KERNEL CHANNELS...: CHANNELS is CIN-COUT
at() {
    level=$1 kernel=$2
    shift 2
    for scene in $scenes; do
        for pair in "$@"; do
            echo "subm,cin=${pair%-*},cout=${pair#*-},k=$kernel,dtype=$dtype" \
                "--scene $scene,level=$level"
        done
    done
}

# between LEVEL CHANNELS...: down from it, by both rules, and up to it again
between() {
    level=$1
    shift
    floor=k=2,stride=2,rule=floor
    footprint=k=3,stride=2,padding=1,rule=footprint
    for scene in $scenes; do
        for pair in "$@"; do
            fine=${pair%-*} coarse=${pair#*-}
            for words in $floor $footprint; do
                echo "conv,cin=$fine,cout=$coarse,$words,dtype=$dtype" \
                    "--scene $scene,level=$level"
                echo "inverse,cin=$coarse,cout=$fine,$words,dtype=$dtype" \
                    "--scene $scene,level=$level"
            done
        done
    done
}

list_layers() {
    echo "# kernels of 3"
    at 0 3 4-16 4-32 16-16 16-32 32-32 32-64 64-64 96-96 128-96 128-128
    at 1 3 16-32 32-32 32-64 64-64 96-96 128-96
    at 2 3 64-64 64-128 128-128 192-128
    at 3 3 64-128 128-128 128-256 256-256 384-256
    at 4 3 128-256 256-256 256-512 512-512
    echo "# kernels of 5"
    at 0 5 4-32 16-16 32-32 32-64
    at 1 5 32-32 32-64
    at 2 5 32-64 64-64
    at 3 5 64-128 128-128
    echo "# kernels of 2"
    at 0 2 32-32 64-64
    echo "# from level to level"
    between 0 16-32 32-32 32-64
    between 1 32-64 64-64
    between 2 64-128 128-128
    between 3 128-256
}

# strided LEVEL CHANNELS...: as `between`, on the scans alone
strided() {
    all=$scenes
    scenes=$scans
    between "$@"
    scenes=$all
}

# ranked SCENES LEVEL KERNEL CHANNELS...: as `at`, on these
ranked() {
    all=$scenes
    scenes=$1
    shift
    at "$@"
    scenes=$all
}

# trained PASS SCENES LEVEL CHANNELS...: a gradient of kernels of 3; level 0 is the
# scene itself
trained() {
    pass=$1 on=$2 level=$3
    shift 3
    for pair in "$@"; do
        for scene in $on; do
            echo "subm,cin=${pair%-*},cout=${pair#*-},k=3,dtype=$dtype,pass=$pass" \
                "--scene $scene,level=$level"
        done
    done
}

# depthwise SCENES CHANNELS...: kernels of 3
depthwise() {
    on=$1
    shift
    for c in "$@"; do
        for scene in $on; do
            echo "subm,cin=$c,cout=$c,k=3,groups=$c,dtype=$dtype --scene $scene,level=0"
        done
    done
}

# Layers with a goal come first (tools/figures.py), plain ones before others: their
# code is the same on all scenes and levels, a few seconds each, and they are near to
# the layers of networks, which need other code for each epilogue. Until a gradient
# of inputs is tuned, the choice of its forward layer serves it.
list_ships() {
    kitti=kitti_hdl64_full.bin@0.05 waymo=waymo_frame.bin@0.1
    echo "# the suites peers and deep"
    ranked "$scans" 0 3 4-32 16-32 32-32 32-64 64-64 128-128 256-256
    ranked "$scans" 2 3 64-64 128-128
    strided 0 32-64
    ranked "$scans" 0 5 32-32 16-16 32-64
    ranked "$kitti" 3 3 128-128 256-256 384-256
    ranked "$kitti" 4 3 256-256 128-256
    ranked "$kitti" 3 5 64-128 128-128
    ranked "$waymo" 2 5 32-64 64-64
    echo "# training: gradients of weights, and of inputs where no forward layer is theirs"
    trained wgrad "$scans gen:shell,r=256" 0 128-128 256-256 16-32 32-32 64-64
    trained dgrad "$scans gen:shell,r=256" 0 16-32
    ranked "$scans gen:shell,r=256" 0 3 32-16
    echo "# depthwise"
    depthwise "$kitti" 64 256
    echo "# networks that are deployed, and those that engines are compared on"
    on kitti_hdl64_full.bin second centerpoint voxelnext
    on kitti_hdl64_full.bin second centerpoint | sed 's/$/ --int8/'
    on "$kitti" minkunet34c resn21 unet42
    on "$waymo" resn21 unet42
    on "$scans" resnl
    echo "# what is left of the suites"
    ranked "$kitti" 0 5 64-128
    ranked "$kitti" 0 4 64-64
    ranked "$kitti" 0 7 32-32
    ranked "$kitti" 0 3 160-160
    ranked gen:shell,r=256 0 3 16-32 32-32 64-64 128-128 256-256
    echo "# what is left of training"
    trained dgrad "$scans gen:shell,r=256" 0 32-32 64-64 128-128 256-256
    trained dgrad "$scans" 2 64-64 128-128
    trained wgrad "$scans" 2 64-64 128-128
    on nuscenes_sweep1.bin centerpoint
    echo "# kernels of 2, and where networks begin and end"
    ranked "$kitti" 0 2 32-32 64-64
    ranked "$scans" 0 5 4-32
    ranked "$scans" 0 3 4-16 16-16 128-96
    ranked "$kitti" 1 3 128-96
    ranked "$kitti" 2 3 192-128 64-128
    ranked "$kitti" 4 3 256-512 512-512
    echo "# what lies between"
    ranked "$scans" 1 3 32-32 64-64 96-96
    ranked nuscenes_sweep1.bin@0.1 0 3 16-16 32-32 64-64 128-128
    strided 1 32-64 64-128
    strided 2 64-128 128-256
    ranked "$waymo" 3 3 128-128 256-256
    ranked "$scans" 4 3 256-512 512-512
    ranked "$kitti" 1 2 32-32 64-64
    for type in tf32 f32; do
        for pair in 32 64; do
            echo "subm,cin=$pair,cout=$pair,k=3,dtype=$type --scene $kitti"
        done
    done
    ranked "$scans" 0 3 16-16 96-96 4-16 8-16 24-24 48-48
    ranked indoor_rgbd_fragment.bin@0.02 0 3 16-16 32-32 64-64 96-96 128-128
    ranked indoor_rgbd_fragment.bin@0.02 0 5 4-32 16-16 32-32
    ranked "$kitti" 2 5 32-32 64-64
    echo "# networks that take longer"
    on kitti_hdl64_full.bin unetv2
    on nuscenes_sweep1.bin voxelnext
    on "$kitti" spunet minkunet18a ptv3
    on nuscenes_sweep1.bin largekernel3d
    on "$kitti" minkunet_w20
    on gen:shell,r=64 trellis_mesh
    echo "# plain layers on all scenes; most of them are there by now"
    list_layers
}

case $what in
networks) list_networks ;;
layers) list_layers ;;
ships) list_ships | awk '/^#/ || !seen[$0]++' ;; # a layer that comes again is there already
all)
    list_networks
    list_layers
    ;;
*)
    echo "tune_lists.sh: '$what' is not right: networks, layers, all or ships is" >&2
    exit 2
    ;;
esac
