/* SPDX-License-Identifier: Apache-2.0 */
/* launch_geometry.c - reads the launch geometry that a template declares. */
#include "plan/launch_geometry.h"

#include "base/error.h"
#include "coords/map.h"
#include <limits.h>
#include <stdio.h>
#include <string.h>

typedef struct number {
    int64_t *to;
    const char *name;
    int64_t otherwise, low, high;
} number;

/* Reads a number of the launch attributes. A value outside [low, high] is a bug
 * in the template. */
static spc_status read_number(const number *n, const spc__attrs *launch,
                              spc_error *error)
{
    *n->to = spc__attrs_number(launch, n->name, n->otherwise);
    if (*n->to >= n->low && *n->to <= n->high)
        return SPC_OK;
    return spc__fail(error, SPC_ETEMPLATE,
                     "its launch geometry has %s=%lld: expected %lld to %lld",
                     n->name, (long long)*n->to, (long long)n->low,
                     (long long)n->high);
}

/* The other attributes of a launch. */
static bool is_word(const char *name)
{
    static const char *const words[] = {"order",    "grid",      "layout",
                                        "gradient", "few_tiles", "preference"};

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (strcmp(words[i], name) == 0)
            return true;
    return false;
}

/* A misspelt attribute would be ignored, and the kernel launched without it. */
static spc_status check_names(const number *numbers, size_t count,
                              const spc__attrs *launch, spc_error *error)
{
    for (int a = 0; a < launch->count; a++) {
        const char *name = launch->at[a].name;
        size_t i = 0;
        while (i < count && strcmp(numbers[i].name, name) != 0)
            i++;
        if (i == count && !is_word(name))
            return spc__fail(error, SPC_ETEMPLATE,
                             "its launch geometry has an unknown name '%s' "
                             "(templates/README.md lists them)",
                             name);
    }
    return SPC_OK;
}

/* Reads the row order that the kernel needs. */
static spc_status read_order(char out[8], const spc__attrs *launch,
                             spc_error *error)
{
    const char *order = spc__attrs_text(launch, "order", "none");
    if (strcmp(order, "none") != 0 && !spc__row_order_find(order))
        return spc__fail(error, SPC_ETEMPLATE,
                         "its launch geometry has order=%s: expected %s", order,
                         spc__row_order_names());
    snprintf(out, 8, "%s", order);
    return SPC_OK;
}

/* Checks the kind of grid. */
static spc_status check_grid(const spc__attrs *launch, spc_error *error)
{
    const char *grid = spc__attrs_text(launch, "grid", "tiles");
    if (strcmp(grid, "tiles") == 0 || strcmp(grid, "persistent") == 0 ||
        strcmp(grid, "steps") == 0 || strcmp(grid, "blocks") == 0)
        return SPC_OK;
    return spc__fail(error, SPC_ETEMPLATE,
                     "its launch geometry has grid=%s: expected tiles, "
                     "persistent, steps or blocks",
                     grid);
}

/* Reads which forms of the map the kernel reads. */
static spc_status read_layout(spc__launch_geometry *out,
                              const spc__attrs *launch, spc_error *error)
{
    const char *layout = spc__attrs_text(launch, "layout", "table");
    bool both = strcmp(layout, "both") == 0;

    out->reads_table = both || strcmp(layout, "table") == 0;
    out->reads_pairs = both || strcmp(layout, "pairs") == 0;
    out->reads_bundles = strcmp(layout, "bundles") == 0;
    out->reads_inputs = strcmp(layout, "inputs") == 0;
    out->reads_triplets = out->reads_bundles || strcmp(layout, "triplets") == 0;
    if (out->reads_table || out->reads_pairs || out->reads_triplets ||
        out->reads_inputs)
        return SPC_OK;
    return spc__fail(error, SPC_ETEMPLATE,
                     "its launch geometry has layout=%s: expected table, "
                     "pairs, both, triplets, bundles or inputs",
                     layout);
}

/* Reads the attributes of templates/README.md. Kernels number threads in 32
 * bits, and a grid has at most 65535 rows of blocks. */
spc_status spc__launch_read(spc__launch_geometry *out, const spc__attrs *launch,
                            spc_error *error)
{
    int64_t block, grid_y, tile_rows, per_block, clear, pdl, atomics;
    int64_t shared, packed, work, row_work, block_work, per_sm;
    int64_t cluster, sum_block, sum_grid_y, sum_shared, pair_work, clear_work;
    int64_t depth, grid_x, sum_grid_x, sum_per_sm, first, first_rows;
    /* A weight gradient reads no weights, so it packs none. */
    bool gradient = spc__attrs_number(launch, "gradient", 0) != 0;
    bool blocks = strcmp(spc__attrs_text(launch, "grid", ""), "blocks") == 0;
    const number numbers[] = {
        {&block, "block", 0, 1, 1024},
        {&shared, "shared", 0, 0, INT_MAX},
        {&tile_rows, "tile_rows", 0, 1, SPC_ROW_PAD},
        {&per_block, "tiles_per_block", 1, 1, INT_MAX},
        {&grid_y, "grid_y", 1, 1, 65535},
        {&packed, "packed_bytes", 0, gradient ? 0 : 1, INT64_MAX},
        {&out->pack_threads, "pack_threads", 0, gradient ? 0 : 1, INT_MAX},
        {&grid_x, "grid_x", 0, blocks ? 1 : 0, INT_MAX},
        {&sum_grid_x, "sum_grid_x", 0, 0, INT_MAX},
        {&per_sm, "blocks_per_sm", 0, 0, 1024},
        {&sum_per_sm, "sum_blocks_per_sm", 0, 0, 1024},
        {&work, "workspace_bytes", 0, 0, INT64_MAX},
        {&row_work, "workspace_row_bytes", 0, 0, INT_MAX},
        {&block_work, "workspace_block_bytes", 0, 0, INT_MAX},
        {&cluster, "cluster", 1, 1, 8},
        {&first, "first_block", 0, 0, 1024},
        {&first_rows, "first_rows", 1, 1, SPC_ROW_PAD},
        {&sum_block, "sum_block", 0, 0, 1024},
        {&sum_grid_y, "sum_grid_y", 1, 1, 65535},
        {&sum_shared, "sum_shared", 0, 0, INT_MAX},
        {&pair_work, "workspace_pair_bytes", 0, 0, INT_MAX},
        {&clear_work, "clear_workspace", 0, 0, 1},
        {&depth, "gemm_depth", 0, 0, INT_MAX},
        {&clear, "clear", 0, 0, 1},
        {&pdl, "pdl", 0, 0, 1},
        {&atomics, "atomics", 0, 0, 1},
    };
    size_t count = sizeof(numbers) / sizeof(numbers[0]);
    spc_status status = check_names(numbers, count, launch, error);

    if (status == SPC_OK)
        status = read_order(out->order, launch, error);
    if (status == SPC_OK)
        status = check_grid(launch, error);
    if (status == SPC_OK)
        status = read_layout(out, launch, error);
    for (size_t i = 0; i < count && status == SPC_OK; i++)
        status = read_number(&numbers[i], launch, error);
    if (status != SPC_OK)
        return status;
    /* Rows are padded to SPC_ROW_PAD, so that the last tile is whole. */
    if (SPC_ROW_PAD % tile_rows != 0)
        return spc__fail(
            error, SPC_ETEMPLATE,
            "its launch geometry has tile_rows=%lld: expected a divisor of %d",
            (long long)tile_rows, SPC_ROW_PAD);
    out->groups = spc__row_order_groups(spc__row_order_find(out->order));
    /* Groups write partial sums, so they need a kernel that adds them and
     * memory for each row. */
    if (out->groups > 1 && (sum_block == 0 || row_work == 0))
        return spc__fail(error, SPC_ETEMPLATE,
                         "its launch geometry has order=%s, but no kernel "
                         "spc_sum or no workspace for the sums of each group",
                         out->order);
    out->block = (unsigned)block;
    out->shared_bytes = (size_t)shared;
    out->tile_rows = (int)tile_rows;
    out->tiles_per_block = (int)per_block;
    out->grid_y = (unsigned)grid_y;
    out->packed_bytes = (size_t)packed;
    out->workspace_bytes = (size_t)work;
    out->workspace_row_bytes = (size_t)row_work;
    out->workspace_block_bytes = (size_t)block_work;
    out->shares_tiles =
        strcmp(spc__attrs_text(launch, "grid", "tiles"), "steps") == 0;
    out->cluster = (unsigned)cluster;
    out->first_block = (unsigned)first;
    out->first_rows = (int)first_rows;
    out->sum_block = (unsigned)sum_block;
    out->sum_grid_y = (unsigned)sum_grid_y;
    out->sum_shared_bytes = (size_t)sum_shared;
    out->workspace_pair_bytes = (size_t)pair_work;
    out->clear_workspace = clear_work != 0;
    out->gemm_depth = (int)depth;
    out->clear = clear != 0;
    out->pdl = pdl != 0;
    out->atomics = atomics != 0;
    /* Found by the plan, which knows the device. */
    out->persistent = 0;
    out->blocks_per_sm = (int)per_sm;
    out->gradient = gradient;
    out->grid_x = blocks ? (unsigned)grid_x : 0;
    out->sum_grid_x = (unsigned)sum_grid_x;
    out->sum_per_sm = (unsigned)sum_per_sm;
    return SPC_OK;
}

spc_status spc__launch_check(const spc__attrs *launch, spc_error *error)
{
    spc__launch_geometry ignored;
    return spc__launch_read(&ignored, launch, error);
}
