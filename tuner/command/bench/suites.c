/* SPDX-License-Identifier: Apache-2.0 */
/*
 * suites.c - the table of `bench --suite`.
 *
 * `peers` has the layers and maps for which docs/peers/ has figures of other
 * engines (--against), and the rows that we measure with them. `deep` has the
 * layers of networks that take most of their time: many channels at levels of
 * few rows, and wide kernels.
 */
#include "command/bench/suites.h"

#include <stddef.h>
#include <string.h>

#define KITTI "kitti_hdl64_full.bin@0.05"
#define WAYMO "waymo_frame.bin@0.1"
#define SHELL "gen:shell,r=256"
#define F16(cin, cout, k) "subm,cin=" #cin ",cout=" #cout ",k=" #k ",dtype=f16"
#define F32(c, type) "subm,cin=" #c ",cout=" #c ",k=3,dtype=" #type
/*
 * The strided layers of detectors (footprint) and of U-nets (floor). An inverse
 * layer runs on the scene that is the input of the strided one.
 */
#define K3S2(op, cin, cout)                                                    \
    op ",cin=" #cin ",cout=" #cout ",k=3,stride=2,padding=1,rule=footprint"
#define K2S2(op, cin, cout)                                                    \
    op ",cin=" #cin ",cout=" #cout ",k=2,stride=2,rule=floor"

static const suite_row peers[] = {
    {KITTI, F16(4, 32, 3), false},
    {KITTI, F16(16, 32, 3), false},
    {KITTI, F16(32, 32, 3), false},
    {KITTI, F16(32, 64, 3), false},
    {KITTI, F16(64, 64, 3), false},
    {KITTI, F16(128, 128, 3), false},
    {KITTI, F16(256, 256, 3), false},
    {WAYMO, F16(4, 32, 3), false},
    {WAYMO, F16(16, 32, 3), false},
    {WAYMO, F16(32, 32, 3), false},
    {WAYMO, F16(32, 64, 3), false},
    {WAYMO, F16(64, 64, 3), false},
    {WAYMO, F16(128, 128, 3), false},
    {WAYMO, F16(256, 256, 3), false},
    {SHELL, F16(16, 32, 3), false},
    {SHELL, F16(32, 32, 3), false},
    {SHELL, F16(64, 64, 3), false},
    {SHELL, F16(128, 128, 3), false},
    {SHELL, F16(256, 256, 3), false},
    {KITTI, F16(16, 16, 5), false},
    {KITTI, F16(32, 32, 5), false},
    {KITTI, F16(32, 64, 5), false},
    {WAYMO, F16(32, 32, 5), false},
    {KITTI, F32(32, f32), false},
    {KITTI, F32(64, f32), false},
    {KITTI, F32(32, tf32), false},
    {KITTI, F32(64, tf32), false},
    {KITTI, K3S2("conv", 32, 64), false},
    {KITTI, K2S2("conv", 32, 64), false},
    {KITTI, K3S2("inverse", 64, 32), false},
    {KITTI, K2S2("inverse", 64, 32), false},
    {WAYMO, K3S2("conv", 32, 64), false},
    {WAYMO, K2S2("conv", 32, 64), false},
    {WAYMO, K3S2("inverse", 64, 32), false},
    {WAYMO, K2S2("inverse", 64, 32), false},
    {KITTI, F16(32, 32, 3), true},
    {KITTI, F16(32, 32, 5), true},
    {KITTI, K3S2("conv", 32, 64), true},
    {KITTI, K2S2("conv", 32, 64), true},
    {WAYMO, F16(32, 32, 3), true},
    {WAYMO, F16(32, 32, 5), true},
    {WAYMO, K3S2("conv", 32, 64), true},
    {WAYMO, K2S2("conv", 32, 64), true},
    {SHELL, F16(32, 32, 3), true},
    {SHELL, F16(32, 32, 5), true},
    {NULL, NULL, false},
};

#define LEVEL(scene, n) scene ",level=" #n

static const suite_row deep[] = {
    {LEVEL(KITTI, 3), F16(128, 128, 3), false},
    {LEVEL(KITTI, 3), F16(256, 256, 3), false},
    {LEVEL(KITTI, 4), F16(256, 256, 3), false},
    {LEVEL(KITTI, 3), F16(384, 256, 3), false},
    {LEVEL(KITTI, 4), F16(128, 256, 3), false},
    {LEVEL(KITTI, 3), F16(64, 128, 5), false},
    {LEVEL(KITTI, 3), F16(128, 128, 5), false},
    {LEVEL(WAYMO, 2), F16(32, 64, 5), false},
    {LEVEL(WAYMO, 2), F16(64, 64, 5), false},
    {KITTI, F16(64, 128, 5), false},
    {KITTI, F16(64, 64, 4), false},
    {KITTI, F16(32, 32, 7), false},
    {KITTI, F16(160, 160, 3), false},
    {NULL, NULL, false},
};

/* Small enough for any machine; no file is needed. */
static const suite_row quick[] = {
    {"gen:uniform,n=2000,extent=24,seed=1", F16(16, 32, 3), false},
    {"gen:uniform,n=2000,extent=24,seed=1", F32(32, f32), false},
    {"gen:shell,r=32", F32(32, f32), false},
    {NULL, NULL, false},
};

static const cli_suite suites[] = {
    {"peers", "layers that other engines were measured on", peers},
    {"deep", "the layers that take most of a network's time", deep},
    {"quick", "three small rows, to see that it works", quick},
};

const cli_suite *suite_find(const char *name)
{
    for (size_t i = 0; i < sizeof(suites) / sizeof(suites[0]); i++)
        if (strcmp(suites[i].name, name) == 0)
            return &suites[i];
    return NULL;
}

const char *suite_names(void)
{
    return "peers, deep and quick";
}
