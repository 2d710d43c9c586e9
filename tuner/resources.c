/* SPDX-License-Identifier: Apache-2.0 */
/* resources.c - registers, spills and shared memory against the target. */
#include "tuner/resources.h"

#include <stdio.h>

/* Registers are given out by the warp, in units of 256, to groups of four
 * warps. */
static int64_t block_registers(int64_t registers, int64_t block)
{
    int64_t warps = (block + 31) / 32;
    int64_t of_warp = (registers * 32 + 255) / 256 * 256;

    return (warps + 3) / 4 * 4 * of_warp;
}

bool spc__resources_refuse(char *why, size_t bytes, const spc__entry *entry,
                           const spc__attrs *target, bool allow_spills)
{
    const spc__attrs *resources = &entry->trial.resources;
    const spc__attrs *launch = &entry->trial.launch;
    int64_t spills = spc__attrs_number(resources, "spill_bytes", 0);
    int64_t local = spc__attrs_number(resources, "local_bytes", 0);
    int64_t registers = spc__attrs_number(resources, "registers", 0);
    int64_t all = spc__attrs_number(target, "registers_sm", 0);
    int64_t shared = spc__attrs_number(launch, "shared", 0) +
                     spc__attrs_number(resources, "static_shared_bytes", 0);
    int64_t limit = spc__attrs_number(target, "shared_block", 0);
    int64_t needs =
        block_registers(registers, spc__attrs_number(launch, "block", 0));

    /*
     * A default stays even if it spills: untuned plans run it, so it is
     * measured for comparison.
     */
    if ((spills > 0 || local > 0) && !allow_spills &&
        !entry->candidate->is_default)
        snprintf(why, bytes,
                 "spills: %lld bytes spilled, %lld bytes of local memory",
                 (long long)spills, (long long)local);
    else if (all > 0 && needs > all)
        snprintf(why, bytes,
                 "registers: a block needs %lld of the %lld of a "
                 "multiprocessor",
                 (long long)needs, (long long)all);
    else if (limit > 0 && shared > limit)
        snprintf(why, bytes,
                 "shared memory: a block needs %lld of at most %lld bytes",
                 (long long)shared, (long long)limit);
    else
        return false;
    return true;
}
