/*
 * suites.c - the table of `bench --suite`.
 *
 * `peers`: GPU times of the best of FlexGEMM, TorchSparse++ and Spira on one
 * NVIDIA H200, fp16 in and out, warm caches; for the indexing row Spira's pack,
 * sort and map, without a row order. They are figures of that GPU: on another
 * the ratio says nothing about the engines.
 */
#include "suites.h"

#include <stddef.h>
#include <string.h>

#define KITTI "kitti_hdl64_full.bin@0.05"
#define WAYMO "waymo_frame.bin@0.1"
#define SHELL "gen:shell,r=256"
#define F16(cin, cout, k) "subm,cin=" #cin ",cout=" #cout ",k=" #k ",dtype=f16"
#define F32(c, type) "subm,cin=" #c ",cout=" #c ",k=3,dtype=" #type

static const suite_row peers[] = {
    {KITTI, F16(4, 32, 3), 34, 12, 7, false},
    {KITTI, F16(16, 32, 3), 21, 8.6, 7, false},
    {KITTI, F16(32, 32, 3), 20, 10.2, 8.3, false},
    {KITTI, F16(64, 64, 3), 45, 17.6, 12.6, false},
    {KITTI, F16(128, 128, 3), 103, 50, 36, false},
    {KITTI, F16(256, 256, 3), 270, 133, 119, false},
    {WAYMO, F16(4, 32, 3), 53, 16, 10, false},
    {WAYMO, F16(16, 32, 3), 36, 10.7, 9, false},
    {WAYMO, F16(32, 32, 3), 32, 14.5, 12.4, false},
    {WAYMO, F16(64, 64, 3), 78, 33.7, 21, false},
    {WAYMO, F16(128, 128, 3), 167, 99, 75, false},
    {WAYMO, F16(256, 256, 3), 456, 296, 249, false},
    {SHELL, F16(16, 32, 3), 81, 26.7, 20, false},
    {SHELL, F16(32, 32, 3), 67, 37.8, 33, false},
    {SHELL, F16(64, 64, 3), 152, 97, 72, false},
    {SHELL, F16(128, 128, 3), 344, 237, 200, false},
    {SHELL, F16(256, 256, 3), 1055, 765, 700, false},
    {KITTI, F16(16, 16, 5), 169, 55, 30, false},
    {KITTI, F16(32, 32, 5), 139, 50, 30, false},
    {KITTI, F16(32, 64, 5), 318, 70, 40, false},
    {KITTI, F32(32, f32), 0, 0, 0, false},
    {KITTI, F32(64, f32), 0, 0, 0, false},
    {KITTI, F32(32, tf32), 0, 0, 0, false},
    {KITTI, F32(64, tf32), 0, 0, 0, false},
    {KITTI, F16(32, 32, 3), 68, 45, 30, true},
    {NULL, NULL, 0, 0, 0, false},
};

/* Small enough for any machine; no file is needed. */
static const suite_row quick[] = {
    {"gen:uniform,n=2000,extent=24,seed=1", F16(16, 32, 3), 0, 0, 0, false},
    {"gen:uniform,n=2000,extent=24,seed=1", F32(32, f32), 0, 0, 0, false},
    {"gen:shell,r=32", F32(32, f32), 0, 0, 0, false},
    {NULL, NULL, 0, 0, 0, false},
};

static const cli_suite suites[] = {
    {"peers", "layers that other engines were measured on", peers},
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
    return "peers and quick";
}
