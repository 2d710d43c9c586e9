/* SPDX-License-Identifier: Apache-2.0 */
/*
 * device_absent.c - a GPU that is not here, named by its target: "sm_87".
 *
 * Plans and networks on it compile and store their kernels, for machines that
 * have such a GPU and no compiler. Nothing runs: launches do nothing, and the
 * device refuses to copy results or to measure.
 */
#include "device/device_absent.h"

#include "base/error.h"
#include "device/host_device.h"
#include "device/targets.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern const spc__device_ops spc__device_absent;

typedef struct absent_device {
    spc__host_device host; /* must be first */
    spc__attrs target;
    spc__compiler *nvrtc; /* NULL: not opened yet */
} absent_device;

static absent_device *self(spc__device *device)
{
    return (absent_device *)device;
}

static const char *target_of(const spc__device *device)
{
    return spc__attrs_text(&((const absent_device *)device)->target, "target",
                           "");
}

/* ---- facts ----------------------------------------------------------- */

static int absent_list(spc_device_info *out, int capacity)
{
    return 0;
}

static void absent_info(const spc__device *device, spc_device_info *out)
{
    const absent_device *absent = (const absent_device *)device;

    memset(out, 0, sizeof(*out));
    snprintf(out->id, sizeof(out->id), "%s", target_of(device));
    snprintf(out->target, sizeof(out->target), "%s", target_of(device));
    spc__any_device(out->name, sizeof(out->name), out->target);
    out->multiprocessors =
        (int)spc__attrs_number(&absent->target, "multiprocessors", 0);
    out->memory_bytes = spc__host_memory();
}

static void absent_target(const spc__device *device, spc__attrs *out)
{
    *out = ((const absent_device *)device)->target;
}

/* ---- opening --------------------------------------------------------- */

static void absent_close(spc__device *device)
{
    absent_device *absent = self(device);

    spc__compiler_close(absent->nvrtc);
    spc__host_release(&absent->host);
    free(absent);
}

spc_status spc__absent_open(spc__device **out, const char *target,
                            const spc__device_options *options,
                            spc_error *error)
{
    absent_device *absent = calloc(1, sizeof(*absent));
    spc_status status;

    *out = NULL;
    if (absent == NULL)
        return spc__fail_memory(error, sizeof(*absent));
    if ((status = spc__target_facts(&absent->target, target, error)) !=
            SPC_OK ||
        (status = spc__host_init(&absent->host, &spc__device_absent, -1,
                                 options, error)) != SPC_OK) {
        free(absent);
        return status;
    }
    *out = (spc__device *)absent;
    return SPC_OK;
}

/* ---- memory ---------------------------------------------------------- */

/* Nothing reads device memory, so that of a large capacity stays untouched and
 * costs no pages. */
static spc_status absent_copy_in(spc__device *device, void *to,
                                 const void *from, size_t bytes, void *stream,
                                 spc_error *error)
{
    return SPC_OK;
}

static spc_status absent_fill(spc__device *device, void *to, int byte,
                              size_t bytes, void *stream, spc_error *error)
{
    return SPC_OK;
}

static spc_status fail_results(const spc__device *device, spc_error *error)
{
    return spc__fail(error, SPC_EUNSUPPORTED,
                     "%s is not here: kernels are compiled for it, and no "
                     "results exist",
                     target_of(device));
}

static spc_status absent_copy_out(spc__device *device, void *to,
                                  const void *from, size_t bytes, void *stream,
                                  spc_error *error)
{
    return fail_results(device, error);
}

static spc_status absent_collect(spc__device *device, const spc__part *parts,
                                 int count, void *stream, spc_error *error)
{
    return fail_results(device, error);
}

/* ---- code ------------------------------------------------------------ */

static spc_status absent_compiler(spc__device *device, spc__compiler **out,
                                  const char **options, spc_error *error)
{
    absent_device *absent = self(device);
    spc_status status = SPC_OK;

    *options = "";
    /* Background compilation calls this from another thread. */
    pthread_mutex_lock(&absent->host.lock);
    if (absent->nvrtc == NULL &&
        (status = spc__nvrtc_open(&absent->nvrtc, error)) == SPC_OK &&
        (status = spc__nvrtc_check_target(absent->nvrtc, target_of(device),
                                          error)) != SPC_OK) {
        spc__compiler_close(absent->nvrtc);
        absent->nvrtc = NULL;
    }
    *out = absent->nvrtc;
    pthread_mutex_unlock(&absent->host.lock);
    return status;
}

/* A module or kernel is only a place in memory. */
static spc_status absent_module_load(spc__device *device, spc__module **out,
                                     const void *code, size_t bytes,
                                     spc_error *error)
{
    int sm = (int)spc__attrs_number(&self(device)->target, "sm", 0);
    spc_status status = spc__cubin_check(code, bytes, sm, error);

    *out = status == SPC_OK ? calloc(1, sizeof(**out)) : NULL;
    if (status == SPC_OK && *out == NULL)
        status = spc__fail_memory(error, sizeof(**out));
    return status;
}

static void absent_module_unload(spc__device *device, spc__module *module)
{
    free(module);
}

static spc_status absent_kernel_get(spc__device *device, spc__module *module,
                                    const char *name, size_t shared_bytes,
                                    spc__kernel **out, spc_error *error)
{
    *out = (spc__kernel *)module;
    return SPC_OK;
}

/* One block serves as well as another, since nothing is launched; code does not
 * depend on it. */
static spc_status absent_occupancy(spc__device *device, int *out,
                                   spc__kernel *kernel, unsigned block,
                                   size_t shared_bytes, spc_error *error)
{
    *out = 1;
    return SPC_OK;
}

static spc_status absent_launch(spc__device *device, spc__kernel *kernel,
                                const spc__launch *launch, const void *args,
                                size_t args_bytes, void *stream,
                                spc_error *error)
{
    return SPC_OK;
}

static spc_status absent_measure(spc__device *device,
                                 const spc__measure *measure, double *samples,
                                 int *count, spc_error *error)
{
    *count = 0;
    return fail_results(device, error);
}

const spc__device_ops spc__device_absent = {
    .name = "absent",
    .list = absent_list,
    .close = absent_close,
    .info = absent_info,
    .target = absent_target,
    .alloc = spc__host_alloc,
    .dealloc = spc__host_dealloc,
    .copy_in = absent_copy_in,
    .copy_out = absent_copy_out,
    .collect = absent_collect,
    .fill = absent_fill,
    .sync = spc__host_sync,
    .compiler = absent_compiler,
    .module_load = absent_module_load,
    .module_unload = absent_module_unload,
    .kernel_get = absent_kernel_get,
    .occupancy = absent_occupancy,
    .launch = absent_launch,
    .measure = absent_measure,
    .graph_create = spc__host_graph_create,
    .graph_launch = spc__host_graph_launch,
    .graph_free = spc__host_graph_free,
};
