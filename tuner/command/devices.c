/* SPDX-License-Identifier: Apache-2.0 */
/* devices.c - spctune devices: lists the devices and their speed. */
#include "command/cli/output.h"
#include "spc/lab.h"

#include "command/cli/cli.h"
#include <stdio.h>
#include <string.h>

struct args {
    bool measure;
};

static const cli_option options[] = {
    {'m', "measure", NULL, CLI_FLAG, offsetof(struct args, measure),
     "measure the device of --device (default: the best) and store that"},
    {0, NULL, NULL, CLI_FLAG, 0, NULL},
};

enum { MOST = 32 };

static void print_devices(const spc_device_info *all, int count)
{
    static const char *const titles[] = {"device",          "name",
                                         "target",          "--driver",
                                         ">-units",         ">-GiB",
                                         ">--read GB/s",    ">-copy GB/s",
                                         ">---cached read", ">---cached copy",
                                         ">----64 B: near", ">----far",
                                         ">-f16",           ">--tf32",
                                         ">-f32 TF/s",      ">--i8",
                                         ">--launch us",    NULL};
    table out;

    table_init(&out, titles);
    for (int i = 0; i < count; i++) {
        const spc_device_info *d = &all[i];
        const double figures[] = {d->memory.read_gbps,
                                  d->memory.copy_gbps,
                                  d->cache.read_gbps,
                                  d->cache.copy_gbps,
                                  d->gather_near_gbps[3],
                                  d->gather_far_gbps[3],
                                  d->f16_tflops,
                                  d->tf32_tflops,
                                  d->f32_tflops,
                                  d->i8_tflops,
                                  d->launch_us};
        table_cell(&out, "%s", d->id);
        table_cell(&out, "%s", d->name);
        table_cell(&out, "%s", d->target);
        table_cell(&out, "%s", d->driver);
        table_cell(&out, "%d", d->multiprocessors);
        table_cell(&out, "%.1f", (double)d->memory_bytes / (1 << 30));
        for (size_t f = 0; f < sizeof(figures) / sizeof(figures[0]); f++)
            if (figures[f] > 0)
                table_cell(&out, "%.3g", figures[f]);
            else
                table_cell(&out, "-");
    }
    table_print(&out, stdout);
    table_release(&out);
}

static void write_bandwidth(spc__json *json, const char *name,
                            const spc_bandwidth *of)
{
    spc__json_object(json, name);
    spc__json_real(json, "read_gbps", of->read_gbps);
    spc__json_real(json, "write_gbps", of->write_gbps);
    spc__json_real(json, "copy_gbps", of->copy_gbps);
    spc__json_end_object(json);
}

/* Writes a member for each size of rows, in bytes. */
static void write_gather(spc__json *json, const char *name,
                         const double *figures)
{
    char bytes[16];

    spc__json_object(json, name);
    for (int size = 0; size < SPC_GATHER_SIZES; size++) {
        snprintf(bytes, sizeof(bytes), "%d", 8 << size);
        spc__json_real(json, bytes, figures[size]);
    }
    spc__json_end_object(json);
}

static spc_status write_devices(const spc_device_info *all, int count)
{
    spc__buf text = SPC__BUF_INIT;
    spc__json json;

    spc__json_init(&json, &text);
    spc__json_array(&json, NULL);
    for (int i = 0; i < count; i++) {
        const spc_device_info *d = &all[i];
        spc__json_object(&json, NULL);
        spc__json_text(&json, "id", d->id);
        spc__json_text(&json, "name", d->name);
        spc__json_text(&json, "target", d->target);
        spc__json_text(&json, "driver", d->driver);
        spc__json_int(&json, "multiprocessors", d->multiprocessors);
        spc__json_int(&json, "memory_bytes", (int64_t)d->memory_bytes);
        spc__json_int(&json, "cache_bytes", (int64_t)d->cache_bytes);
        write_bandwidth(&json, "memory", &d->memory);
        write_bandwidth(&json, "cache", &d->cache);
        write_gather(&json, "gather_near_gbps", d->gather_near_gbps);
        write_gather(&json, "gather_far_gbps", d->gather_far_gbps);
        write_gather(&json, "gather_cold_gbps", d->gather_cold_gbps);
        spc__json_real(&json, "f16_tflops", d->f16_tflops);
        spc__json_real(&json, "tf32_tflops", d->tf32_tflops);
        spc__json_real(&json, "f32_tflops", d->f32_tflops);
        spc__json_real(&json, "i8_tflops", d->i8_tflops);
        spc__json_real(&json, "launch_us", d->launch_us);
        spc__json_end_object(&json);
    }
    spc__json_end_array(&json);
    return output_json(&text);
}

/*
 * Earlier measurements are in the database, which only a context reads. A
 * device that cannot be opened keeps its plain row.
 */
static spc_status fill_in(cli *self, spc_device_info *info, bool measure)
{
    spc_ctx *ctx = NULL;
    spc_status status;

    self->globals.device = info->id;
    if ((status = cli_open(&ctx, self)) != SPC_OK)
        return status;
    if (measure && (status = spc_device_measure(ctx)) != SPC_OK)
        cli_fail_ctx(status, ctx);
    if (status == SPC_OK)
        spc_ctx_device(info, ctx);
    spc_ctx_free(ctx);
    return status;
}

/* Opens a device that is not listed, and returns its error. */
static spc_status open_unlisted(const char *wanted, spc_error *error)
{
    spc_ctx_options asked = SPC_CTX_OPTIONS_INIT;
    spc_ctx *ctx = NULL;

    asked.device = wanted;
    asked.database = "";
    spc_status status = spc_ctx_create(&ctx, &asked, error);
    spc_ctx_free(ctx);
    return status;
}

/*
 * An invalid name is the caller's mistake. A device that exists but cannot be
 * used reports the reason.
 */
static spc_status refuse(const char *wanted)
{
    spc_error error = {0};
    spc_status status = open_unlisted(wanted, &error);

    if (status != SPC_OK && status != SPC_ENODEVICE)
        return cli_fail(status, "%s", error.text);
    return cli_fail(
        SPC_ENODEVICE,
        "there is no device '%s' here: 'spctune devices' lists them", wanted);
}

/* Explains a list without a GPU: none is installed, or it cannot be used. */
static spc_status check_best(const spc_device_info *all, int count)
{
    spc_error error = {0};
    spc_status status = SPC_OK;

    if (count > 0 && strncmp(all[0].id, "cuda", 4) == 0)
        return SPC_OK;
    if ((status = open_unlisted(NULL, &error)) != SPC_OK)
        cli_fail(status, "%s", error.text);
    return status;
}

/* Lists all devices, or the one of --device; with --measure, only the best one
 * by default. */
static spc_status command_devices(cli *self, void *to)
{
    const struct args *args = to;
    spc_device_info all[MOST];
    const char *wanted = self->globals.device;
    spc_status first = SPC_OK;
    int count = spc_devices_list(all, MOST), kept = 0;

    if (self->operands.count > 0)
        return cli_fail(SPC_EINVAL, "devices takes no operands, only options");
    count = count < MOST ? count : MOST;
    if (wanted == NULL)
        first = check_best(all, count);
    for (int i = 0; i < count; i++) {
        /* "cuda" means the first GPU. */
        size_t length = wanted != NULL ? strlen(wanted) : 0;
        bool is_wanted = wanted == NULL
                             ? kept == 0 || !args->measure
                             : strncmp(all[i].id, wanted, length) == 0 &&
                                   strchr(":", all[i].id[length]) != NULL &&
                                   (kept == 0 || all[i].id[length] == '\0');
        if (!is_wanted)
            continue;
        all[kept] = all[i];
        spc_status status = fill_in(self, &all[kept], args->measure);
        if (first == SPC_OK)
            first = status;
        kept++;
    }
    if (wanted != NULL && kept == 0)
        return refuse(wanted);
    if (!self->globals.json) {
        print_devices(all, kept);
        return first;
    }
    spc_status status = write_devices(all, kept);
    return first != SPC_OK ? first : status;
}

const cli_command cli_devices = {
    .name = "devices",
    .operands = "",
    .summary = "list the devices, or measure one",
    .more = "Lists the devices of this machine, best first, with the ceilings "
            "that were\nmeasured: copy bandwidth (read plus written), gather "
            "bandwidth out of cache,\nmatrix rates and the cost of a launch. "
            "They give the floor in 'spctune bench'.",
    .options = options,
    .args_bytes = sizeof(struct args),
    .run = command_devices,
};
