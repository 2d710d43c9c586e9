/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_floor.c - the floor is a lower bound. It is compared with manual
 * calculations, recorded times, and new measurements. `test_floor cuda`
 * measures on a GPU.
 */
#include "base/error.h"
#include "base/file.h"
#include "base/random.h"
#include "compiler/template.h"
#include "context/ceilings.h"
#include "context/ctx.h"
#include "harness/suite.h"
#include "lab/floor.h"
#include "spc/lab.h"
#include "device/targets.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static spc_error error;
static const char *only_device; /* from the command line */

static spc_conv layer_of(const char *text)
{
    spc_conv conv;

    ck_assert_msg(spc_conv_parse(&conv, text, &error) == SPC_OK, "%s",
                  error.text);
    return conv;
}

/* ---- by hand ------------------------------------------------------------- */

/* A device that takes no time. Tests slow down single resources. */
static spc_device_info fast_device(void)
{
    const double most = 1e12;
    spc_device_info device = {
        .name = "abacus",
        .multiprocessors = 4,
        .cache_bytes = 1 << 20,
        .memory = {most, most, most},
        .cache = {most, most, most},
        .f16_tflops = most,
        .tf32_tflops = most,
        .f32_tflops = most,
        .launch_us = 1e-9,
    };

    for (int i = 0; i < SPC_GATHER_SIZES; i++)
        device.gather_near_gbps[i] = device.gather_far_gbps[i] = most;
    return device;
}

static spc__floor floor_of(const char *layer, int64_t rows, int64_t pairs,
                           const spc_device_info *device)
{
    spc_conv conv = layer_of(layer);
    spc__work work = {&conv, rows, rows, pairs, spc__conv_offsets(&conv)};
    spc__floor out;

    spc__floor_compute(&out, &work, device);
    return out;
}

/*
 * The layer has 1000 rows, 3000 pairs, 16 channels in, 32 out, f16 and 27
 * offsets. It reads 32000 bytes of inputs, 27648 of weights, 4 * 2000 of the
 * index and 3250 of masks (26 bits a row), and writes 64000.
 */
static const double read_bytes = 32000 + 27648 + 8000 + 3250;
static const double written_bytes = 64000;

START_TEST(what_must_be_moved_is_counted_once)
{
    spc_device_info device = fast_device();
    spc__floor f = floor_of("subm,cin=16,cout=32", 1000, 3000, &device);

    ck_assert(f.measured);
    ck_assert_double_eq(f.flops, 2.0 * 3000 * 16 * 32);
    ck_assert_double_eq(f.gathered_bytes, 3000 * 32);
    ck_assert_double_eq(f.read_bytes, read_bytes);
    ck_assert_double_eq(f.written_bytes, written_bytes);
    /* If nearly every offset is present, the dense table without its centre is
     * smaller. */
    f = floor_of("subm,cin=16,cout=32", 1000, 27000, &device);
    ck_assert_double_eq(f.read_bytes, 32000 + 27648 + 4 * 26 * 1000);
    /* Only used data count. Here half of the inputs and two offsets are
     * used. */
    spc_conv conv =
        layer_of("conv,cin=16,cout=32,k=2,stride=2,rule=floor,bias=1");
    spc__work work = {&conv, 500, 200, 500, 2};
    spc__floor_compute(&f, &work, &device);
    ck_assert_double_eq(f.read_bytes,
                        500 * 32 + 2 * 16 * 32 * 2 + 4 * 200 * 2 + 4 * 32);
    ck_assert_double_eq(f.written_bytes, 200 * 64);
}
END_TEST

/* The slow figures, and the floor that they give for the layer above. */
static const struct {
    const char *warm_by, *cold_by;
    double launch_us, tflops, gather, cache, memory;
    size_t cache_bytes;
    double warm_us, cold_us;
} slowed[] = {
    {"launch", "launch", 3, 1e6, 1e6, 1e6, 1e6, 0, 3, 3},
    {"matrix", "matrix", 0, 1e-3, 1e6, 1e6, 1e6, 0, 3072, 3072},
    {"gather", "gather", 0, 1e6, 1, 1e6, 1e6, 0, 96, 96},
    {"cache", "cache", 0, 1e6, 1e6, 1, 1e6, 0, 134.898, 134.898},
    {"", "memory", 0, 1e6, 1e6, 1e6, 1, 1 << 20, 0, 70.898},
    /*
     * 60000 bytes stay cached. A warm run moves the rest. A cold run also
     * writes the 4000 bytes beyond.
     */
    {"memory", "memory", 0, 1e6, 1e6, 1e6, 1, 60000, 74.898, 74.898},
};

START_TEST(the_floor_is_the_largest_of_five_times)
{
    spc_device_info device = fast_device();
    double cache = slowed[_i].cache, memory = slowed[_i].memory;

    device.launch_us = slowed[_i].launch_us;
    device.f16_tflops = slowed[_i].tflops;
    device.cache = (spc_bandwidth){cache, cache, cache};
    device.memory = (spc_bandwidth){memory, memory, memory};
    device.cache_bytes = slowed[_i].cache_bytes;
    for (int i = 0; i < SPC_GATHER_SIZES; i++)
        device.gather_near_gbps[i] = device.gather_far_gbps[i] =
            slowed[_i].gather;
    /* Neighbouring rows can be read as a stream. */
    if (slowed[_i].gather < cache)
        device.cache.read_gbps = slowed[_i].gather,
        device.cache.copy_gbps = 1e6;
    spc__floor f = floor_of("subm,cin=16,cout=32", 1000, 3000, &device);
    if (slowed[_i].warm_us > 0) {
        ck_assert_str_eq(f.warm_by, slowed[_i].warm_by);
        ck_assert_double_eq_tol(f.warm_us, slowed[_i].warm_us, 1e-3);
    }
    ck_assert_str_eq(f.cold_by, slowed[_i].cold_by);
    ck_assert_double_eq_tol(f.cold_us, slowed[_i].cold_us, 1e-3);
}
END_TEST

START_TEST(a_pair_moves_its_inputs_or_its_sums)
{
    spc_device_info device = fast_device();

    for (int i = 0; i < SPC_GATHER_SIZES; i++) /* 1, 2, 4, ... GB/s */
        device.gather_far_gbps[i] = device.gather_near_gbps[i] = 1 << i;
    device.cache.read_gbps = 1e-3;
    device.cache.copy_gbps = 1e12;
    /* Rows of 256 bytes in and 8 sums of 4 bytes: the third size. */
    spc__floor f = floor_of("subm,cin=128,cout=8", 10, 200000, &device);
    ck_assert_str_eq(f.warm_by, "gather");
    ck_assert_double_eq_tol(f.warm_us, 200000 * 32 / 4e3, 1e-6);
    /* 16 bytes in, and more than 1024. */
    f = floor_of("subm,cin=8,cout=64", 10, 200000, &device);
    ck_assert_double_eq_tol(f.warm_us, 200000 * 16 / 2e3, 1e-6);
    f = floor_of("subm,cin=1024,cout=1024", 10, 200000, &device);
    ck_assert_double_eq_tol(f.warm_us, 200000 * 2048 / 128e3, 1e-6);
    /*
     * Narrow rows are faster here, so wide rows are gathered as narrow ones.
     */
    device.gather_near_gbps[0] = 500;
    f = floor_of("subm,cin=1024,cout=1024", 10, 200000, &device);
    ck_assert_double_eq_tol(f.warm_us, 200000 * 2048 / 500e3, 1e-6);
}
END_TEST

START_TEST(fp32_is_three_products_of_tf32_where_these_are_faster)
{
    spc_device_info device = fast_device();

    device.f32_tflops = 1e-3;
    device.tf32_tflops = 6e-3;
    spc__floor f =
        floor_of("subm,cin=16,cout=32,dtype=f32", 1000, 3000, &device);
    ck_assert_double_eq_tol(f.warm_us, 3072 / 2.0, 1e-6);
    device.tf32_tflops = 2e-3;
    f = floor_of("subm,cin=16,cout=32,dtype=f32", 1000, 3000, &device);
    ck_assert_double_eq_tol(f.warm_us, 3072, 1e-6);
}
END_TEST

/*
 * For any bandwidths: moving a layer's bytes by reading, writing and copying in
 * sequence takes at least the floor; reading alone, and writing alone, take at
 * most the floor.
 */
START_TEST(no_sequence_of_reading_writing_and_copying_beats_the_floor)
{
    spc__random random;

    spc__random_init(&random, (uint64_t)_i);
    for (int i = 0; i < 200; i++) {
        spc_device_info device = fast_device();
        spc_bandwidth *cache = &device.cache;
        cache->read_gbps = 1 + 9 * spc__random_unit(&random);
        cache->write_gbps = 1 + 9 * spc__random_unit(&random);
        cache->copy_gbps =
            (cache->read_gbps + cache->write_gbps) * spc__random_unit(&random);
        if (cache->copy_gbps < 0.1)
            continue;
        spc__floor f =
            floor_of(i % 2 ? "subm,cin=16,cout=32" : "subm,cin=64,cout=8", 5000,
                     9000, &device);
        double half = cache->copy_gbps / 2;
        double more = f.read_bytes - f.written_bytes;
        double both = more > 0 ? f.written_bytes : f.read_bytes;
        double in_turn =
            both / half +
            fabs(more) / (more > 0 ? cache->read_gbps : cache->write_gbps);
        double apart = f.read_bytes / cache->read_gbps +
                       f.written_bytes / cache->write_gbps;
        ck_assert_double_le(f.warm_us, in_turn * (1 + 1e-9) / 1e3);
        ck_assert_double_le(f.warm_us, apart * (1 + 1e-9) / 1e3);
        double best_read = fmax(cache->read_gbps, half);
        ck_assert_double_ge(f.warm_us * (1 + 1e-9),
                            f.read_bytes / best_read / 1e3);
    }
}
END_TEST

START_TEST(of_a_device_that_nobody_knows_there_is_no_floor)
{
    spc_device_info device = {.name = "abacus"};
    spc__floor f = floor_of("subm,cin=16,cout=32", 1000, 3000, &device);

    ck_assert_double_eq(f.warm_us, 0);
    ck_assert_double_eq(f.cold_us, 0);
    ck_assert_str_eq(f.warm_by, "");
    ck_assert(!f.measured);
    ck_assert_double_eq(f.read_bytes, read_bytes);
}
END_TEST

/* ---- recorded times ------------------------------------------------------ */

/* Times on an H200 for K3: the least of three runs, warm and cold. */
static const struct {
    const char *layer;
    int64_t rows, pairs;
    double warm_us, cold_us;
} recorded[] = {
#define KITTI 82658, 376580
#define WAYMO 125565, 788961
#define SHELL 252392, 3203048
    {"subm,cin=4,cout=32", KITTI, 5.17, 12.35},
    {"subm,cin=16,cout=32", KITTI, 5.47, 12.19},
    {"subm,cin=32,cout=32", KITTI, 6.44, 13.63},
    {"subm,cin=64,cout=64", KITTI, 12.76, 21.12},
    {"subm,cin=128,cout=128", KITTI, 32.88, 37.86},
    {"subm,cin=256,cout=256", KITTI, 102.1, 117.0},
    {"subm,cin=4,cout=32", WAYMO, 8.49, 15.20},
    {"subm,cin=16,cout=32", WAYMO, 8.84, 16.13},
    {"subm,cin=32,cout=32", WAYMO, 11.36, 23.97},
    {"subm,cin=64,cout=64", WAYMO, 23.71, 32.35},
    {"subm,cin=128,cout=128", WAYMO, 68.15, 72.86},
    {"subm,cin=256,cout=256", WAYMO, 247.4, 293.4},
    {"subm,cin=16,cout=32", SHELL, 25.00, 31.81},
    {"subm,cin=32,cout=32", SHELL, 32.68, 41.60},
    {"subm,cin=64,cout=64", SHELL, 76.22, 86.08},
    {"subm,cin=128,cout=128", SHELL, 203.9, 242.5},
    {"subm,cin=256,cout=256", SHELL, 786.3, 806.7},
    {"subm,cin=32,cout=32,dtype=f32", KITTI, 15.17, 22.66},
    {"subm,cin=64,cout=64,dtype=f32", KITTI, 40.33, 45.57},
    {"subm,cin=32,cout=32,dtype=tf32", KITTI, 10.54, 18.91},
    {"subm,cin=64,cout=64,dtype=tf32", KITTI, 25.95, 30.50},
};

START_TEST(no_recorded_time_lies_below_the_floor_of_its_class)
{
    spc_device_info device = {.name = "NVIDIA H200", .cache_bytes = 50 << 20};
    spc__floor f = floor_of(recorded[_i].layer, recorded[_i].rows,
                            recorded[_i].pairs, &device);

    ck_assert(!f.measured);
    ck_assert_double_le(f.warm_us, recorded[_i].warm_us);
    ck_assert_double_le(f.cold_us, recorded[_i].cold_us);
    /* Checks that the floor is not trivially low. */
    ck_assert_double_ge(f.warm_us, recorded[_i].warm_us / 40);
    ck_assert_double_ge(f.cold_us, f.warm_us);
}
END_TEST

/* ---- ceilings in the database -------------------------------------------- */

START_TEST(ceilings_come_back_from_their_facts)
{
    spc_device_info device = fast_device(), again = {.multiprocessors = 4};
    spc__attrs facts = {0};

    device.memory.write_gbps = 2.5;
    device.gather_cold_gbps[7] = 0.125;
    device.launch_us = 0; /* not measured, so it is left out */
    device.cache.read_gbps = 123456;
    spc__ceilings_write(&facts, &device);
    ck_assert_ptr_null(spc__attrs_find(&facts, "launch_us"));
    again.launch_us = 5;
    spc__ceilings_read(&again, &facts);
    ck_assert_double_eq(again.memory.write_gbps, 2.5);
    ck_assert_double_eq(again.gather_cold_gbps[7], 0.125);
    ck_assert_double_eq(again.cache.read_gbps, 123456);
    ck_assert_double_eq(again.launch_us, 0);
    /* The ceilings do not hold for half of the device. */
    again.multiprocessors = 2;
    spc__ceilings_read(&again, &facts);
    ck_assert_double_eq(again.memory.write_gbps, 0);
    ck_assert_double_eq(again.gather_cold_gbps[7], 0);
}
END_TEST

/* For a device that is present, rows and density suffice for a floor. */
static void check_known(spc_ctx *ctx, const spc_device_info *device,
                        bool measured)
{
    spc_conv conv = layer_of("subm,cin=64,cout=64");
    spc__floor f = floor_of("subm,cin=64,cout=64", KITTI, device);
    spc_bench_result got;
    const int64_t of[] = {KITTI};

    ck_assert_int_eq(spc_bench_floor(&got, ctx, device->name, &conv,
                                     (double)of[0], (double)of[0],
                                     (double)of[1] / (27.0 * (double)of[0])),
                     SPC_OK);
    ck_assert_double_eq(got.warm_floor_us, f.warm_us);
    ck_assert_double_eq(got.cold_floor_us, f.cold_us);
    ck_assert_str_eq(got.warm_floor_by, f.warm_by);
    ck_assert_double_eq(got.flops, f.flops);
    ck_assert_double_eq(got.compulsory_bytes, f.read_bytes + f.written_bytes);
    ck_assert(got.floor_measured == measured);
}

START_TEST(the_floor_of_a_device_that_is_not_here_is_that_of_its_figures)
{
    spc_ctx_options options = SPC_CTX_OPTIONS_INIT;
    spc__buf folder = SPC__BUF_INIT;
    spc_device_info device = fast_device();
    spc__attrs facts = {0};
    spc_ctx *ctx = NULL;

    ck_assert_int_eq(spc__temp_dir_create(&folder, &error), SPC_OK);
    spc__buf path = SPC__BUF_INIT;
    spc__buf_printf(&path, "%s/floor.db", spc__buf_text(&folder));
    options.device = "cpu";
    options.database = spc__buf_text(&path);
    ck_assert_msg(spc_ctx_create(&ctx, &options, &error) == SPC_OK, "%s",
                  error.text);
    device.cache_bytes = 0; /* no figures in a database */
    check_known(ctx, &(spc_device_info){.name = "NVIDIA H200"}, false);
    /* an unknown device */
    check_known(ctx, &(spc_device_info){.name = "abacus"}, false);
    device.memory = device.cache = (spc_bandwidth){70, 80, 90};
    device.f16_tflops = 100;
    device.launch_us = 0.5;
    for (int i = 0; i < SPC_GATHER_SIZES; i++)
        device.gather_near_gbps[i] = device.gather_far_gbps[i] = 100;
    spc__ceilings_write(&facts, &device);
    ck_assert_int_eq(
        spc__cache_put_device(ctx->cache, "abacus", &facts, &error), SPC_OK);
    check_known(ctx, &device, true);
    spc_ctx_free(ctx);
    spc__temp_dir_remove(spc__buf_text(&folder));
    spc__buf_release(&folder);
    spc__buf_release(&path);
}
END_TEST

/* ---- measured times ------------------------------------------------------ */

/* The layers are small enough for the emulation. A GPU also gets larger
 * ones. */
static const char *const scenes[] = {
    "gen:uniform,n=60,extent=6",
    "gen:uniform,n=400,extent=9",
    "gen:shell,r=16",
    "gen:shell,r=96",
    "gen:lidar@0.1",
};
static const char *const layers[] = {
    "subm,cin=32,cout=32,k=3,dtype=f32", "subm,cin=16,cout=16,k=3,dtype=f16",
    "subm,cin=64,cout=8,k=3,dtype=f32",  "subm,cin=4,cout=32,k=1,dtype=tf32",
    "subm,cin=64,cout=64,k=3,dtype=f16", "subm,cin=128,cout=128,k=3,dtype=f16",
    "subm,cin=64,cout=64,k=3,dtype=f32", "subm,cin=256,cout=256,k=3,dtype=f16",
};
enum { SMALL_SCENES = 3, SMALL_LAYERS = 4, TRIES = 3 };

static spc_ctx *open_device(const char *id)
{
    spc_ctx_options options = SPC_CTX_OPTIONS_INIT;
    spc_ctx *ctx;

    options.device = id;
    options.database = "";
    ck_assert_msg(spc_ctx_create(&ctx, &options, &error) == SPC_OK, "%s",
                  error.text);
    return ctx;
}

static double best_of(double a, double b)
{
    return a > b ? a : b;
}

/*
 * Measures the ceilings again and keeps the better values, because another
 * program may have slowed the first measurement.
 */
static void raise_ceilings(spc_ctx *ctx)
{
    spc_device_info before = ctx->info;
    spc_bandwidth *const to[] = {&ctx->info.memory, &ctx->info.cache};
    const spc_bandwidth *const from[] = {&before.memory, &before.cache};

    ck_assert_msg(spc_device_measure(ctx) == SPC_OK, "%s", spc_ctx_error(ctx));
    for (int i = 0; i < 2; i++) {
        to[i]->read_gbps = best_of(to[i]->read_gbps, from[i]->read_gbps);
        to[i]->write_gbps = best_of(to[i]->write_gbps, from[i]->write_gbps);
        to[i]->copy_gbps = best_of(to[i]->copy_gbps, from[i]->copy_gbps);
    }
    for (int i = 0; i < SPC_GATHER_SIZES; i++)
        ctx->info.gather_near_gbps[i] =
            best_of(ctx->info.gather_near_gbps[i], before.gather_near_gbps[i]);
    ctx->info.f16_tflops = best_of(ctx->info.f16_tflops, before.f16_tflops);
    ctx->info.tf32_tflops = best_of(ctx->info.tf32_tflops, before.tf32_tflops);
    ctx->info.f32_tflops = best_of(ctx->info.f32_tflops, before.f32_tflops);
    if (before.launch_us > 0 && before.launch_us < ctx->info.launch_us)
        ctx->info.launch_us = before.launch_us;
}

static void bench_above_its_floor(spc_ctx *ctx, const char *layer,
                                  const char *spec)
{
    spc_conv conv = layer_of(layer);
    spc_bench_result r;
    spc_scene *scene;

    ck_assert_msg(spc_scene_load(&scene, spec, &error) == SPC_OK, "%s",
                  error.text);
    for (int i = 0; i < TRIES; i++) {
        if (i > 0)
            raise_ceilings(ctx);
        ck_assert_msg(spc_bench(&r, ctx, &conv, scene, 1) == SPC_OK, "%s",
                      spc_ctx_error(ctx));
        if (r.warm_us >= r.warm_floor_us && r.cold_us >= r.cold_floor_us)
            break;
    }
    spc_scene_free(scene);
    printf("%s %s on %s: warm %.3g us, floor %.3g (%s), %.2f; cold %.3g us, "
           "floor %.3g (%s), %.2f\n",
           ctx->info.id, layer, spec, r.warm_us, r.warm_floor_us,
           r.warm_floor_by, r.warm_us / r.warm_floor_us, r.cold_us,
           r.cold_floor_us, r.cold_floor_by, r.cold_us / r.cold_floor_us);
    ck_assert(r.floor_measured);
    ck_assert_double_gt(r.warm_floor_us, 0);
    ck_assert_double_ge(r.warm_us, r.warm_floor_us);
    ck_assert_double_ge(r.cold_us, r.cold_floor_us);
}

static void measure_on(const char *device, size_t scene_count,
                       size_t layer_count)
{
    spc_ctx *ctx = open_device(device);

    ck_assert_msg(spc_device_measure(ctx) == SPC_OK, "%s", spc_ctx_error(ctx));
    for (size_t s = 0; s < scene_count; s++)
        for (size_t l = 0; l < layer_count; l++)
            bench_above_its_floor(ctx, layers[l], scenes[s]);
    spc_ctx_free(ctx);
}

/* Emulated GPUs with wgmma and without. A run uses one of them. */
static const struct {
    const char *device, *target;
} here[] = {{"cpu", ""}, {"sim", "sm_90a"}, {"sim", "sm_80"}};

START_TEST(nothing_measured_here_lies_below_its_floor)
{
    bool is_cpu = strcmp(here[_i].device, "cpu") == 0;

    if (!is_cpu && !suite_takes(_i))
        return;
    if (!is_cpu)
        setenv("SPC_SIM_TARGET", here[_i].target, 1);
    measure_on(here[_i].device, is_cpu ? SMALL_SCENES + 1 : 1,
               is_cpu ? SMALL_LAYERS : SMALL_LAYERS / 2);
}
END_TEST

START_TEST(nothing_measured_on_the_device_lies_below_its_floor)
{
    measure_on(only_device, sizeof(scenes) / sizeof(scenes[0]),
               sizeof(layers) / sizeof(layers[0]));
}
END_TEST

/* ---- comparing after timing ---------------------------------------------- */

START_TEST(a_kernel_that_stops_working_while_it_is_timed_is_wrong)
{
    spc_ctx_options options = SPC_CTX_OPTIONS_INIT;
    spc_conv conv = layer_of("subm,cin=4,cout=6,k=3,dtype=f32");
    spc_bench_result result;
    char memory[1024] = "";
    spc_scene *scene;
    spc_ctx *ctx;

    options.device = "cpu";
    options.database = "";
    options.template_dir = SPC_TEST_DATA "/templates/tuner/tired";
    memset(memory, '-', sizeof(memory) - 1); /* here is the kernel's memory */
    setenv("SPC_TEST_TIRED", memory, 1);
    ck_assert_msg(spc_ctx_create(&ctx, &options, &error) == SPC_OK, "%s",
                  error.text);
    ck_assert_msg(
        spc_scene_load(&scene, "gen:uniform,n=300,extent=12", &error) == SPC_OK,
        "%s", error.text);
    ck_assert_int_eq(spc_bench(&result, ctx, &conv, scene, 1), SPC_EWRONG);
    ck_assert_ptr_nonnull(
        strstr(spc_ctx_error(ctx), "'tired tile=64' is wrong: after timing: "));
    spc_scene_free(scene);
    spc_ctx_free(ctx);
}
END_TEST

/* ---- the measuring kernels for GPUs that are not installed --------------- */

static const struct {
    const char *target;
    /* a kernel with matrix units, and one without */
    const char *has, *lacks;
} gpus[] = {
    {"sm_75", "spc_f16_mma", "spc_tf32_mma"},
    {"sm_80", "spc_tf32_mma", "spc_read2"},
    {"sm_90", "spc_read2", "spc_f16_256"},
    {"sm_90a", "spc_f16_256", NULL},
    {"sm_100", "spc_read2", "spc_f16_256"},
};

static bool holds(const spc__artefact *artefact, const char *name)
{
    return memmem(artefact->code, artefact->code_bytes, name,
                  strlen(name) + 1) != NULL;
}

START_TEST(every_gpu_has_the_kernels_that_measure_its_units)
{
    spc__attrs problem = {0}, target, config;
    spc__buf text = SPC__BUF_INIT, log = SPC__BUF_INIT;
    spc__library *library;
    spc__compiler *nvrtc;
    spc__artefact artefact;

    ck_assert(spc__nvrtc_open(&nvrtc, &error) == SPC_OK);
    ck_assert(spc__library_open(&library, NULL, NULL, &error) == SPC_OK);
    spc__template *tpl = spc__library_find(library, "measure");
    spc__attrs_set_text(&problem, "op", "measure");
    ck_assert(spc__target_facts(&target, gpus[_i].target, &error) == SPC_OK);
    ck_assert_msg(spc__template_default(&config, tpl, &problem, &target,
                                        &error) == SPC_OK &&
                      spc__template_render(&text, tpl, &problem, &target,
                                           &config, &error) == SPC_OK,
                  "%s", error.text);
    spc__compile_job job = {.source = text.data,
                            .name = "measure",
                            .target = gpus[_i].target,
                            .headers = library};
    ck_assert_msg(spc__compile(&artefact, nvrtc, &job, &log, &error) == SPC_OK,
                  "%s", error.text);
    ck_assert_int_eq(spc__attrs_number(&artefact.resources, "spill_bytes", -1),
                     0);
    ck_assert(holds(&artefact, gpus[_i].has));
    ck_assert(gpus[_i].lacks == NULL || !holds(&artefact, gpus[_i].lacks));
    ck_assert(holds(&artefact, "spc_gather8"));
    spc__artefact_release(&artefact);
    spc__buf_release(&text);
    spc__buf_release(&log);
    spc__library_close(library);
    spc__compiler_close(nvrtc);
}
END_TEST

/* ---- the suite ----------------------------------------------------------- */

static bool is_device(const char *id)
{
    spc_ctx_options options = SPC_CTX_OPTIONS_INIT;
    spc_ctx *ctx = NULL;

    options.device = id;
    options.database = "";
    bool present = spc_ctx_create(&ctx, &options, NULL) == SPC_OK;
    spc_ctx_free(ctx);
    return present;
}

static bool is_nvrtc(void)
{
    spc__compiler *nvrtc = NULL;
    bool present = spc__nvrtc_open(&nvrtc, NULL) == SPC_OK;

    spc__compiler_close(nvrtc);
    return present;
}

#define LENGTH(table) (int)(sizeof(table) / sizeof(table[0]))

#ifdef SPC_SANITIZE /* a sanitizer would distort the times */
#define MEASURED 0
#else
#define MEASURED LENGTH(here)
#endif

static void add_all(TCase *t)
{
    tcase_add_test(t, what_must_be_moved_is_counted_once);
    tcase_add_loop_test(t, the_floor_is_the_largest_of_five_times, 0,
                        LENGTH(slowed));
    tcase_add_test(t, a_pair_moves_its_inputs_or_its_sums);
    tcase_add_test(t, fp32_is_three_products_of_tf32_where_these_are_faster);
    tcase_add_loop_test(
        t, no_sequence_of_reading_writing_and_copying_beats_the_floor, 0, 5);
    tcase_add_test(t, of_a_device_that_nobody_knows_there_is_no_floor);
    tcase_add_loop_test(t, no_recorded_time_lies_below_the_floor_of_its_class,
                        0, LENGTH(recorded));
    tcase_add_test(t, ceilings_come_back_from_their_facts);
    tcase_add_test(
        t, the_floor_of_a_device_that_is_not_here_is_that_of_its_figures);
    tcase_add_test(t, a_kernel_that_stops_working_while_it_is_timed_is_wrong);
    tcase_add_loop_test(t, nothing_measured_here_lies_below_its_floor, 0,
                        MEASURED);
}

/* Reads the argument of the program: none, "nvrtc", or a device. */
int main(int argc, char **argv)
{
    enum { SKIPPED = 77 };
    const char *word = argc > 1 ? argv[1] : NULL;
    bool compiles = word != NULL && strcmp(word, "nvrtc") == 0;

    if (word != NULL && !(compiles ? is_nvrtc() : is_device(word))) {
        printf("skipped: there is no \"%s\" on this machine\n", word);
        return SKIPPED;
    }
    suite_sample(2);
    Suite *suite = suite_create("floor");
    TCase *t = tcase_create("floor");
    tcase_set_timeout(t, 300);
    if (compiles)
        tcase_add_loop_test(t, every_gpu_has_the_kernels_that_measure_its_units,
                            0, LENGTH(gpus));
    else if (word != NULL)
        tcase_add_test(t, nothing_measured_on_the_device_lies_below_its_floor);
    else
        add_all(t);
    suite_add_tcase(suite, t);
    only_device = word;
    if (word != NULL && !compiles) /* a GPU's driver does not survive fork() */
        setenv("CK_FORK", "no", 1);
    return run_suite(suite);
}
