/* SPDX-License-Identifier: Apache-2.0 */
/*
 * device_table.c - the table of devices, and opening one by name.
 *
 * A new device is a new file and a row here, best first. An emulation is never
 * chosen by default.
 */
#include "base/error.h"
#include "base/text/scan.h"
#include "device/device.h"
#include "device/device_absent.h"
#include <stdio.h>
#include <string.h>

extern const spc__device_ops spc__device_cuda; /* device_cuda.c */
extern const spc__device_ops spc__device_cpu;  /* device_cpu.c */
extern const spc__device_ops spc__device_sim;  /* device_sim.c */

const spc__device_ops *const spc__device_table[] = {
    &spc__device_cuda,
    &spc__device_cpu,
#ifndef SPC_RUNTIME_ONLY
    &spc__device_sim, /* only for authors of kernels */
#endif
    NULL,
};

/*
 * Splits "cuda:1" into a row of the table and an ordinal. "cuda" has no
 * ordinal, which is returned as -1. Returns NULL if no row has the name or the
 * rest is not a small number.
 */
static const spc__device_ops *parse_id(const char *id, int *ordinal)
{
    spc__span rest = spc__span_of(id), name = spc__scan_part(&rest, ':');
    int64_t value = -1;

    for (int i = 0; spc__device_table[i]; i++) {
        const spc__device_ops *ops = spc__device_table[i];
        if (spc__span_is(name, ops->name) &&
            (rest.at == NULL || spc__scan_integer(&value, rest, 0, 9999))) {
            *ordinal = (int)value;
            return ops;
        }
    }
    return NULL;
}

/* Fails with the names of all devices. */
static spc_status fail_unknown(const char *id, spc_error *error)
{
    char words[128] = "";
    size_t used = 0;

    for (int i = 0; spc__device_table[i]; i++)
        used += (size_t)snprintf(words + used, sizeof words - used, "%s%s",
                                 i ? ", " : "", spc__device_table[i]->name);
    return spc__fail(error, SPC_EINVAL,
                     "unknown device '%.40s' (%s; cuda:1 is the second GPU)",
                     id, words);
}

/* Opens the first device that is present. If it is present but cannot be used,
 * such as a GPU in exclusive use by another process, the call fails and the
 * caller may name another device. */
static spc_status open_best(spc__device **out,
                            const spc__device_options *options,
                            spc_error *error)
{
    spc_status status = SPC_ENODEVICE;

    for (int i = 0; spc__device_table[i] && status == SPC_ENODEVICE; i++) {
        const spc__device_ops *ops = spc__device_table[i];
        if (ops->is_emulation)
            continue;
        spc__error_clear(error); /* clears the error of an earlier device */
        status = ops->open(out, -1, options, error);
        if (status != SPC_OK && status != SPC_ENODEVICE &&
            !ops->runs_on_host_cores)
            spc__fail_prefix(error,
                             "the device %s is there but cannot be used (name "
                             "\"cpu\" to do without): ",
                             ops->name);
    }
    return status;
}

spc_status spc__device_open(spc__device **out, const char *id,
                            const spc__device_options *options,
                            spc_error *error)
{
    const spc__device_ops *ops;
    spc_error own;
    int ordinal;

    *out = NULL;
    if (!error)
        error = &own;
    spc__error_clear(error);
    if (!id)
        return open_best(out, options, error);
#ifndef SPC_RUNTIME_ONLY
    if (strncmp(id, "sm_", 3) == 0)
        return spc__absent_open(out, id, options, error);
#endif
    if (!(ops = parse_id(id, &ordinal)))
        return fail_unknown(id, error);
    return ops->open(out, ordinal, options, error);
}

void spc__device_close(spc__device *device)
{
    if (device)
        spc__device_ops_of(device)->close(device);
}
