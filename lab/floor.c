/* SPDX-License-Identifier: Apache-2.0 */
/* floor.c - the least time a device could need for a layer. */
#include "lab/floor.h"

#include "base/dtype.h"
#include "context/ctx.h"
#include "operators/geometry.h"
#include "operators/operands.h"
#include <string.h>

/* ---- peak rates of a device ---------------------------------------------- */

typedef struct ceilings {
    double matrix_tflops;
    spc_bandwidth memory, cache;
    double gather_gbps;
    double cache_bytes; /* 0: unknown, so all data fit */
    double launch_us;
} ceilings;

/*
 * Devices that were not measured get more than they can do. A multiprocessor
 * has a fixed number of products a clock, and takes at most 128 bytes a clock
 * from its own cache and shared memory (all of these architectures: their white
 * papers, and "Memory Throughput" in NVIDIA's CUDA C++ Programming Guide). Data
 * from the last cache passes through the same path. The clock is the highest
 * that the driver allows ("Max Clocks" of nvidia-smi -q), not the boost clock
 * of the data sheet, which short kernels exceed. Memory is the data sheet's
 * peak, rounded up. The first row whose text occurs in the device's name is
 * taken; where boards differ, the larger figure.
 */
typedef struct device_class {
    const char *name;
    int multiprocessors;
    double ghz;
    double memory_gbps;
    /* Products and sums of one multiprocessor a clock. */
    int f16, tf32, f32, i8;
} device_class;

static const device_class classes[] = {
    /* NVIDIA H200 data sheet: HBM3e, 4.8 TB/s (GH200's: 4.9); the rest as H100
     * SXM. */
    {"H200", 132, 1.98, 4900, 4096, 2048, 256, 8192},
    /* NVIDIA H100 white paper, table 2 (SXM5), and H100 NVL data sheet: HBM3 of
     * 3.94 TB/s. */
    {"H100", 132, 1.98, 3940, 4096, 2048, 256, 8192},
    /* NVIDIA A100 white paper, table 5; 80 GB SXM data sheet: 2.04 TB/s. */
    {"A100", 108, 1.41, 2040, 2048, 1024, 128, 4096},
    /* NVIDIA L40S data sheet (864 GB/s; 362 and 183 TFLOP/s at 2.52 GHz);
     * NVIDIA Ada white paper, appendix A. */
    {"L40", 142, 2.52, 864, 1024, 512, 256, 2048},
    {"RTX 4090", 128, 3.12, 1008, 1024, 512, 256, 2048},
    /* NVIDIA GA102 white paper, table 2. */
    {"RTX 3090", 84, 2.1, 1008, 512, 256, 256, 2048},
};

static double larger(double a, double b)
{
    return a > b ? a : b;
}

static double rate_of(spc_dtype dtype, double f16, double tf32, double f32,
                      double i8)
{
    if (dtype == SPC_F32)
        return larger(f32, tf32 / 3);
    if (spc__dtype_is_whole(dtype))
        return i8;
    return spc__dtype_of(dtype)->bytes == 2 ? f16 : tf32;
}

/*
 * Returns the best rate for rows of up to twice as many bytes: a long row may
 * be gathered as several shorter ones, and a short one together with its
 * neighbour.
 */
static double gather_rate(const spc_device_info *device, double row_bytes)
{
    double best = 0;

    for (int size = 0; size < SPC_GATHER_SIZES; size++) {
        best = larger(best, larger(device->gather_near_gbps[size],
                                   device->gather_far_gbps[size]));
        if (8 << size >= row_bytes)
            break;
    }
    return best;
}

static bool is_known(const spc_bandwidth *of)
{
    return of->read_gbps > 0 && of->write_gbps > 0 && of->copy_gbps > 0;
}

/* Ceilings that were measured on the device; false if one that the floor needs
 * is missing. */
static bool measured_ceilings(ceilings *out, const spc_device_info *device,
                              spc_dtype dtype, double row_bytes)
{
    *out = (ceilings){
        .matrix_tflops = rate_of(dtype, device->f16_tflops, device->tf32_tflops,
                                 device->f32_tflops, device->i8_tflops),
        .memory = device->memory,
        .cache = device->cache,
        .gather_gbps = gather_rate(device, row_bytes),
        .cache_bytes = (double)device->cache_bytes,
        .launch_us = device->launch_us,
    };
    return out->matrix_tflops > 0 && out->gather_gbps > 0 &&
           is_known(&out->memory) && is_known(&out->cache);
}

/* Ceilings of the device's class, from data sheets; false if the device's name
 * belongs to no class. Figures of data sheets are at least what a device
 * reaches, so the floor is still a bound. */
static bool class_ceilings(ceilings *out, const spc_device_info *device,
                           spc_dtype dtype)
{
    for (size_t i = 0; i < sizeof(classes) / sizeof(classes[0]); i++) {
        const device_class *c = &classes[i];
        double clocks = c->ghz * c->multiprocessors; /* per nanosecond */
        double near = 128 * clocks, memory = c->memory_gbps;
        if (strstr(device->name, c->name) == NULL)
            continue;
        *out = (ceilings){
            .matrix_tflops =
                rate_of(dtype, c->f16, c->tf32, c->f32, c->i8) * clocks / 1e3,
            .memory = {memory, memory, memory},
            .cache = {near, near, 2 * near},
            .gather_gbps = near,
            .cache_bytes = (double)device->cache_bytes,
        };
        return true;
    }
    return false;
}

/* ---- bytes that a layer must move ---------------------------------------- */

/*
 * Returns the bytes of the index at its information content: as a list or as
 * the dense table, whichever is smaller.
 */
static double index_bytes(const spc__work *work)
{
    double offsets = work->offsets, rows = (double)work->rows_out;
    double listed = (double)work->pairs;

    /* The centre's input is the output row, so no kernel has to look it up. */
    if (spc__geometry_centre(&work->conv->geometry) >= 0) {
        listed = larger(listed - rows, 0);
        offsets = larger(offsets - 1, 0);
    }
    double list = 4 * listed + rows * offsets / 8;
    double table = 4 * rows * offsets;

    return list < table ? list : table;
}

/*
 * Returns the bytes of a row of inputs, or of a row of sums if a kernel adds to
 * sums instead. For a weight gradient, whose sums stay in place, returns the
 * bytes of a row of dy.
 */
static double bytes_of_pair(const spc_conv *conv)
{
    double row = (double)spc__operand_of(conv, SPC_OPERAND_IN, 1).bytes;
    double other = (double)conv->cout * spc__dtype_of(SPC_F32)->bytes;

    if (conv->pass == SPC_WGRAD)
        other = (double)spc__operand_of(conv, SPC_OPERAND_RESIDUAL, 1).bytes;
    return row < other ? row : other;
}

/* Returns the bytes that any kernel must move: used inputs, weights of used
 * offsets, the map, the output. Gathered bytes count every pair, and may come
 * from a cache. */
static void count_bytes(spc__floor *out, const spc__work *work)
{
    const spc_conv *conv = work->conv;
    spc__operand of[SPC_OPERANDS];

    spc__operands(of, conv, work->rows_in, work->rows_out);
    double an_offset =
        (double)of[SPC_OPERAND_WEIGHTS].bytes / spc__conv_offsets(conv);

    out->gathered_bytes =
        (double)work->pairs *
        (double)spc__operand_of(conv, SPC_OPERAND_IN, 1).bytes;
    out->read_bytes = (double)of[SPC_OPERAND_IN].dense_bytes +
                      work->offsets * an_offset + index_bytes(work) +
                      (double)of[SPC_OPERAND_BIAS].bytes +
                      (double)of[SPC_OPERAND_SCALE].bytes +
                      (double)of[SPC_OPERAND_RESIDUAL].dense_bytes;
    out->written_bytes = (double)of[SPC_OPERAND_OUT].dense_bytes;
}

/*
 * Returns the least time to read and write these bytes. The mixes that are
 * possible in a nanosecond form a convex set, as any two mixes can follow each
 * other. Three of its border points are known: only reading, only writing, and
 * equal parts. So a mix with more reads than writes lies below the straight
 * line from only writing through the equal mix, and vice versa. If reads and
 * writes share one path, the result is their sum; if each has a path of its
 * own, the longer of both.
 */
static double time_of(const spc_bandwidth *of, double read, double written)
{
    /* One side of the equal mix: either a copy, or first all reads and then all
     * writes. */
    double half =
        larger(of->copy_gbps / 2, 1 / (1 / of->read_gbps + 1 / of->write_gbps));
    double most_read = larger(of->read_gbps, half);
    double most_written = larger(of->write_gbps, half);
    double mixed =
        read >= written
            ? read * (1 / half - 1 / most_written) + written / most_written
            : written * (1 / half - 1 / most_read) + read / most_read;

    return larger(mixed, larger(read / most_read, written / most_written)) /
           1e3;
}

/* Returns the bytes of a set that a cache cannot keep from one run to the
 * next. */
static double beyond(double bytes, double cache_bytes)
{
    return cache_bytes > 0 ? larger(bytes - cache_bytes, 0) : 0;
}

/* Returns the bytes that a warm run must exchange with memory under any
 * schedule. */
static double warm_memory_us(const ceilings *most, const spc__floor *floor)
{
    const spc_bandwidth *memory = &most->memory;
    double bytes =
        beyond(floor->read_bytes + floor->written_bytes, most->cache_bytes);
    double best = larger(memory->copy_gbps,
                         larger(memory->read_gbps, memory->write_gbps));

    return bytes / (best * 1e3);
}

/* A cold run reads everything from memory; its writes may stay in the cache. */
static double cold_memory_us(const ceilings *most, const spc__floor *floor)
{
    return time_of(&most->memory, floor->read_bytes,
                   beyond(floor->written_bytes, most->cache_bytes));
}

/* ---- the floor ----------------------------------------------------------- */

typedef struct term {
    const char *name;
    double us;
} term;

static term largest(const term *terms, int count)
{
    term most = {"", 0};

    for (int i = 0; i < count; i++)
        if (terms[i].us > most.us)
            most = terms[i];
    return most;
}

void spc__floor_compute(spc__floor *out, const spc__work *work,
                        const spc_device_info *device)
{
    enum { TERMS = 5 };
    const spc_conv *conv = work->conv;
    double moved_a_pair = bytes_of_pair(conv);
    ceilings most;

    memset(out, 0, sizeof(*out));
    out->warm_by = out->cold_by = "";
    out->flops =
        2.0 * (double)work->pairs * spc__conv_group_in(conv) * conv->cout;
    count_bytes(out, work);
    out->measured = measured_ceilings(&most, device, conv->dtype, moved_a_pair);
    if (!out->measured && !class_ceilings(&most, device, conv->dtype))
        return;
    /* GB/s are 1e3 bytes a microsecond, TFLOP/s 1e6 operations. */
    term terms[TERMS] = {
        {"launch", most.launch_us},
        {"matrix", out->flops / (most.matrix_tflops * 1e6)},
        {"gather",
         (double)work->pairs * moved_a_pair / (most.gather_gbps * 1e3)},
        {"cache", time_of(&most.cache, out->read_bytes, out->written_bytes)},
        {"memory", warm_memory_us(&most, out)},
    };
    term warm = largest(terms, TERMS);

    terms[TERMS - 1].us = cold_memory_us(&most, out);
    term cold = largest(terms, TERMS);
    out->warm_us = warm.us;
    out->warm_by = warm.name;
    out->cold_us = cold.us;
    out->cold_by = cold.name;
}

void spc__floor_of_bytes(spc__floor *out, double read, double written,
                         const spc_device_info *device)
{
    enum { TERMS = 3, ROW_BYTES = 16 };
    ceilings most;

    memset(out, 0, sizeof(*out));
    out->warm_by = out->cold_by = "";
    out->read_bytes = read;
    out->written_bytes = written;
    out->measured = measured_ceilings(&most, device, SPC_F32, ROW_BYTES);
    if (!out->measured && !class_ceilings(&most, device, SPC_F32))
        return;
    term terms[TERMS] = {
        {"launch", most.launch_us},
        {"cache", time_of(&most.cache, read, written)},
        {"memory", warm_memory_us(&most, out)},
    };
    term warm = largest(terms, TERMS);

    terms[TERMS - 1].us = cold_memory_us(&most, out);
    term cold = largest(terms, TERMS);
    out->warm_us = warm.us;
    out->warm_by = warm.name;
    out->cold_us = cold.us;
    out->cold_by = cold.name;
}
