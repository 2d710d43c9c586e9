/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_gate.c - faulty kernels that no tuning may accept.
 *
 *     test_gate [cpu|sim|cuda [SEED|all [some|TEMPLATE]]]
 *
 * Each template of templates/gate is a correct kernel, and the same kernel with
 * one planted fault, which is the candidate's only parameter. Every job tunes
 * one template with some seeds, which differ between runs. The correct kernel
 * must pass with all seeds, and every fault must be found under the right name.
 * To repeat a failed seed, pass it as an argument; "all" runs twenty, as a run
 * on a GPU does. Without an argument, or with "some", a third of the jobs runs,
 * chosen by the seed; with a template's name, only its jobs run. With cuda the
 * kernels run on the GPU; without one, the program ends with status 77.
 */
#include "harness/layer_harness.h"
#include "spc/tune.h"

#include "base/file.h"
#include "harness/suite.h"
#include <stdio.h>

enum { SEEDS = 20, DRAWN = 2, SKIPPED = 77 };

/* ---- planted faults ------------------------------------------------------ */

/*
 * How often a fault must be found. A LATE fault also occurs in every run, but
 * maybe only in a launch that verification alone does not reach.
 */
typedef enum rate { HONEST, ALWAYS, LATE, RARE } rate;

typedef struct fault {
    const char *name; /* the value of the parameter */
    rate rate;
    const char *tags; /* the prefixes allowed for its note, separated by '|' */
} fault;

enum { FAULTS = 64, CPU = 1, SIM = 2, CUDA = 4 };

typedef struct job {
    unsigned devices;
    const char *only; /* template */
    const char *layer;
    fault faults[FAULTS];
} job;

/* 330 rows are neither a multiple of 64 nor fit a byte. They have 20 of the 27
 * neighbours on average. */
#define SCENE "gen:uniform,n=330,extent=7"

/* How many rows the test of many rows has on a processor. */
#define MANY "gen:uniform,n=4100,extent=26"

#define PLAIN "subm,cin=5,cout=12,k=3,dtype=f32,bias=1"
#define SMALL "subm,cin=4,cout=4,k=3x3x1,dtype=f32,bias=1"

#define NUMBERS "exact|rounding"
#define NOT_WRITTEN "unwritten|exact"
#define KEPT "stale|unwritten|exact|rounding"
#define RACE "exact|rounding|unwritten|stale|differs from run to run"
#define SOMETIMES RACE "|accumulates|after timing|non-finite|together"
#define AT_LAST                                                                \
    "unwritten|stale|differs from run to run|after timing"                     \
    "|together"
#define ORDER "differs from run to run|after timing|stale"

static const job jobs[] = {
    {CPU,
     "always",
     PLAIN,
     {{"none", HONEST, ""},
      {"bias_dropped", ALWAYS, NUMBERS},
      {"bias_of_the_next", ALWAYS, NUMBERS},
      {"kernel_flipped", ALWAYS, NUMBERS},
      {"last_offset_missing", ALWAYS, NUMBERS},
      {"centre_twice", ALWAYS, NUMBERS},
      {"absent_is_row_0", ALWAYS, NUMBERS},
      {"last_row_clamped", ALWAYS, NUMBERS},
      {"row_in_a_byte", ALWAYS, NUMBERS},
      {"twenty_offsets_only", ALWAYS, NUMBERS},
      {"last_input_missing", ALWAYS, NUMBERS},
      {"result_f16", ALWAYS, NUMBERS},
      {"result_too_large_by_a_hair", ALWAYS, NUMBERS},
      {"result_not_negative", ALWAYS, NUMBERS},
      {"one_is_not_a_number", ALWAYS, NUMBERS},
      {"operands_bf16", ALWAYS, NUMBERS},
      {"operands_f16", ALWAYS, NUMBERS},
      {"rows_swapped", ALWAYS, NUMBERS},
      {"last_channels_missing", ALWAYS, NOT_WRITTEN},
      {"last_tile_missing", ALWAYS, NOT_WRITTEN},
      {"row_alone_in_its_tile_missing", ALWAYS, NOT_WRITTEN},
      {"scene_of_one_row_missing", ALWAYS, NOT_WRITTEN},
      {"adds_to_the_result", ALWAYS, "accumulates|stale|exact"},
      {"adds_unless_poisoned", ALWAYS, "accumulates|stale|exact"},
      {"writes_poison_only", ALWAYS, KEPT},
      {"workspace_taken_for_zeros", ALWAYS, RACE},
      {"workspace_times_zero", ALWAYS, RACE},
      {"input_read_behind_times_zero", ALWAYS, RACE "|canary"},
      {"last_of_three_mod_seven", ALWAYS, NUMBERS},
      {"last_of_eleven_mod_sixteen", ALWAYS, NUMBERS},
      {"row_beginning_with_zero_missing", ALWAYS, NUMBERS},
      {"zero_weight_is_one", ALWAYS, NUMBERS},
      {"zero_bias_is_one", ALWAYS, NUMBERS},
      {"no_number_is_zero", ALWAYS, "non-finite"},
      {"absent_times_zero", ALWAYS, "non-finite"},
      {"input_address_rounded", ALWAYS, NUMBERS},
      {"output_address_rounded", ALWAYS, NOT_WRITTEN "|canary"},
      {"bias_address_rounded", ALWAYS, NUMBERS},
      {"infinite_input_is_zero", ALWAYS, "non-finite"},
      {"infinite_result_is_finite", ALWAYS, "non-finite"},
      {"infinite_result_has_no_sign", ALWAYS, "non-finite"},
      {"weight_no_number_is_zero", ALWAYS, "non-finite"},
      {"bias_no_number_is_zero", ALWAYS, "non-finite"},
      {"bias_of_16_bits", ALWAYS, NUMBERS},
      {"large_inputs_are_clamped", ALWAYS, NUMBERS},
      {"large_inputs_are_lost", ALWAYS, NUMBERS},
      {"minute_inputs_are_zero", ALWAYS, NUMBERS},
      {"minute_weights_are_zero", ALWAYS, NUMBERS},
      {"sizes_of_a_list_only", ALWAYS, NUMBERS}}},
    {CPU,
     "kept",
     PLAIN,
     {{"none", HONEST, ""},
      {"right_once", ALWAYS, KEPT},
      {"result_kept_by_address", ALWAYS, KEPT},
      {"weights_of_the_first_pack", ALWAYS, KEPT},
      {"bias_of_the_first_launch", ALWAYS, KEPT},
      {"right_eight_times", ALWAYS, KEPT "|after timing"},
      {"workspace_says_done", ALWAYS, KEPT "|after timing"}}},
    {CPU,
     "anew",
     PLAIN,
     {{"none", HONEST, ""},
      {"capacity_taken_for_rows", ALWAYS, "canary"},
      {"row_order_kept_by_address", ALWAYS, "canary|" KEPT},
      {"tile_order_kept_by_address", ALWAYS, NOT_WRITTEN}}},
    {CPU,
     "leaves",
     "subm,cin=16,cout=32,k=3,dtype=f32",
     {{"none", HONEST, ""},
      {"order_kept_in_the_workspace", ALWAYS, RACE "|canary"},
      {"index_kept_in_the_workspace", ALWAYS, RACE "|canary"}}},
    {CPU,
     "statics",
     PLAIN,
     {{"none", HONEST, ""},
      {"static_bit", ALWAYS, "remembers"},
      {"static_word", ALWAYS, "remembers"},
      {"static_of_a_thread", ALWAYS, "remembers"},
      {"static_of_packing", ALWAYS, "remembers"},
      {"static_named_as_the_loaders", ALWAYS, "remembers"},
      {"static_without_a_symbol", ALWAYS, "remembers"}}},
    {CPU,
     "large",
     SMALL,
     {{"none", HONEST, ""},
      {"row_in_two_bytes", LATE, NUMBERS},
      {"tile_behind_2_to_the_16", LATE, NUMBERS},
      {"more_than_3000_rows", ALWAYS, NUMBERS}}},
    {CPU,
     "promises",
     PLAIN,
     {{"none", HONEST, ""},
      {"packs_one_layout_only", ALWAYS, NUMBERS},
      {"weights_address_rounded", ALWAYS, NUMBERS},
      {"multiple_of_512_rows", ALWAYS, NUMBERS},
      {"tile_with_most_neighbours", LATE, NUMBERS}}},
    {CPU,
     "scale",
     "subm,cin=5,cout=12,k=3,dtype=f32,epilogue=scale",
     {{"none", HONEST, ""},
      {"scale_clamped_at_2", ALWAYS, NUMBERS},
      {"scale_of_zero_is_one", ALWAYS, NUMBERS},
      {"scale_below_a_sixteenth_is_zero", ALWAYS, NUMBERS}}},
    {CPU,
     "many",
     SMALL,
     {{"none", HONEST, ""},
      {"tile_behind_2_to_the_17", LATE, NUMBERS},
      {"row_in_17_bits", LATE, NUMBERS}}},
    {CPU,
     "borrowed",
     PLAIN,
     {{"none", HONEST, ""},
      {"map_written_and_restored", ALWAYS, "read-only"},
      {"order_written_as_it_was", ALWAYS, "read-only"},
      {"weights_written_and_restored", ALWAYS, "read-only"},
      {"scratch_of_all_launches", LATE, "together"}}},
    {CPU,
     "far",
     "conv,cin=5,cout=12,k=3,rule=given,dtype=f32,bias=1",
     {{"none", HONEST, ""},
      {"tile_without_inputs_left", ALWAYS, NOT_WRITTEN},
      {"tile_without_inputs_has_no_bias", ALWAYS, NUMBERS}}},
    {CPU,
     "gradient",
     "subm,cin=4,cout=4,k=3,dtype=f32,pass=wgrad",
     {{"none", HONEST, ""},
      {"second_part_lost", LATE, NUMBERS},
      {"last_of_4097_lost", LATE, NUMBERS}}},
    {CPU,
     "added",
     "subm,cin=4,cout=4,k=3,dtype=f32,bias=1,accumulate=1,pass=wgrad",
     {{"none", HONEST, ""},
      {"last_pair_missing", ALWAYS, NUMBERS},
      {"first_pair_twice", ALWAYS, NUMBERS},
      {"pair_with_row_0_missing", ALWAYS, NUMBERS},
      {"offsets_mirrored", ALWAYS, NUMBERS},
      {"last_channel_of_the_one_before", ALWAYS, NUMBERS},
      {"sums_in_f16", ALWAYS, NUMBERS},
      {"nothing_is_added_to", ALWAYS, NUMBERS},
      {"added_to_twice", ALWAYS, NUMBERS},
      {"bias_is_not_added_to", ALWAYS, NUMBERS},
      {"bias_without_row_0", ALWAYS, NUMBERS},
      {"bias_without_last_position", ALWAYS, NUMBERS},
      {"bias_of_rows_with_neighbours", ALWAYS, NUMBERS}}},
    {CUDA,
     "gpu_large",
     SMALL,
     {{"none", HONEST, ""},
      {"row_in_two_bytes", LATE, NUMBERS},
      {"tile_behind_2_to_the_16", LATE, NUMBERS},
      {"tile_behind_2_to_the_17", LATE, NUMBERS}}},
    {SIM | CUDA,
     "gpu_promises",
     SMALL,
     {{"none", HONEST, ""},
      {"packs_one_layout_only", ALWAYS, NUMBERS},
      {"weights_address_rounded", ALWAYS, NUMBERS},
      {"multiple_of_512_rows", ALWAYS, NUMBERS},
      {"tile_with_all_neighbours", LATE, NUMBERS}}},
    {SIM | CUDA,
     "gpu_scale",
     "subm,cin=4,cout=4,k=3x3x1,dtype=f32,epilogue=scale",
     {{"none", HONEST, ""},
      {"scale_clamped_at_2", ALWAYS, NUMBERS},
      {"scale_of_zero_is_one", ALWAYS, NUMBERS}}},
    {SIM,
     "gpu_borrowed",
     SMALL,
     {{"none", HONEST, ""}, {"map_written_and_restored", ALWAYS, "read-only"}}},
    {CUDA,
     "gpu_borrowed",
     SMALL,
     {{"none", HONEST, ""},
      {"map_written_and_restored", LATE, "together|" SOMETIMES}}},
    {CPU,
     "foreign",
     PLAIN,
     {{"none", HONEST, ""},
      {"written_before_the_result", ALWAYS, "canary"},
      {"written_behind_the_result", ALWAYS, "canary"},
      {"written_behind_the_workspace", ALWAYS, "canary"},
      {"padding_rows_written", ALWAYS, "canary"},
      {"input_overwritten", ALWAYS, "read-only|exact"},
      {"weights_overwritten", ALWAYS, "read-only|exact"},
      {"weights_of_another_draw_cleared", ALWAYS, "read-only"},
      {"bias_overwritten", ALWAYS, "read-only|exact"},
      {"written_far_behind", ALWAYS, "canary"},
      {"written_far_before", ALWAYS, "canary"},
      {"order_overwritten", ALWAYS, "read-only"},
      {"index_overwritten", ALWAYS, "read-only"},
      {"masks_overwritten", ALWAYS, "read-only"},
      {"tile_order_overwritten", ALWAYS, "read-only"},
      {"written_behind_the_index", ALWAYS, "canary"},
      {"written_before_the_order", ALWAYS, "canary"},
      {"written_far_behind_the_order", ALWAYS, "canary"}}},
    {CPU,
     "rounding",
     "subm,cin=256,cout=4,k=3,dtype=f32",
     {{"none", HONEST, ""},
      {"operands_tf32", ALWAYS, NUMBERS},
      {"operands_bf16", ALWAYS, NUMBERS},
      {"operands_f16", ALWAYS, NUMBERS},
      {"inputs_tf32", ALWAYS, NUMBERS},
      {"weights_tf32", ALWAYS, NUMBERS},
      {"sums_bf16", ALWAYS, NUMBERS},
      {"sums_f16", ALWAYS, NUMBERS},
      {"product_dropped", ALWAYS, NUMBERS},
      {"operands_of_16_bits", ALWAYS, NUMBERS},
      {"weights_of_17_bits", ALWAYS, NUMBERS}}},
    {CPU,
     "single",
     "subm,cin=1,cout=12,k=3,dtype=f32",
     {{"none", HONEST, ""},
      {"operands_tf32", ALWAYS, NUMBERS},
      {"inputs_tf32", ALWAYS, NUMBERS},
      {"weights_tf32", ALWAYS, NUMBERS},
      {"operands_bf16", ALWAYS, NUMBERS},
      {"operands_f16", ALWAYS, NUMBERS}}},
    {CPU,
     "tf32",
     "subm,cin=64,cout=4,k=3,dtype=tf32",
     {{"none", HONEST, ""},
      {"operands_tf32", HONEST, ""},
      {"operands_bf16", ALWAYS, NUMBERS},
      {"operands_f16", ALWAYS, NUMBERS},
      {"sums_bf16", ALWAYS, NUMBERS},
      {"sums_f16", ALWAYS, NUMBERS}}},
    {CPU,
     "half",
     "subm,cin=64,cout=4,k=3,dtype=f16",
     {{"none", HONEST, ""},
      {"operands_bf16", ALWAYS, NUMBERS},
      {"sums_f16", ALWAYS, NUMBERS},
      {"sums_bf16", ALWAYS, NUMBERS},
      {"product_dropped", ALWAYS, NUMBERS},
      {"product_twice", ALWAYS, NUMBERS},
      {"large_sums_saturate", ALWAYS, NUMBERS},
      {"small_inputs_are_zero", ALWAYS, NUMBERS},
      {"small_sums_are_zero", ALWAYS, NUMBERS},
      {"inputs_clamped_at_1000", ALWAYS, NUMBERS},
      {"no_number_is_zero", ALWAYS, "non-finite"},
      {"absent_times_zero", ALWAYS, "non-finite"},
      {"infinite_input_is_zero", ALWAYS, "non-finite"},
      {"small_weights_are_zero", ALWAYS, NUMBERS},
      {"inputs_above_four_are_whole", ALWAYS, NUMBERS},
      {"too_large_is_the_largest", ALWAYS, NUMBERS},
      {"too_large_is_no_number", ALWAYS, NUMBERS}}},
    {CPU,
     "half",
     "subm,cin=64,cout=4,k=3,dtype=f16,accumulator=f16",
     {{"none", HONEST, ""},
      {"sums_f16", HONEST, ""},
      {"operands_bf16", ALWAYS, NUMBERS},
      {"sums_bf16", ALWAYS, NUMBERS},
      {"product_dropped", ALWAYS, NUMBERS},
      {"product_twice", ALWAYS, NUMBERS},
      {"large_sums_saturate", ALWAYS, NUMBERS},
      {"small_inputs_are_zero", ALWAYS, NUMBERS},
      {"small_sums_are_zero", ALWAYS, NUMBERS},
      {"inputs_clamped_at_1000", ALWAYS, NUMBERS},
      {"no_number_is_zero", ALWAYS, "non-finite"},
      {"absent_times_zero", ALWAYS, "non-finite"},
      {"infinite_input_is_zero", ALWAYS, "non-finite"},
      {"small_weights_are_zero", ALWAYS, NUMBERS},
      {"inputs_above_four_are_whole", ALWAYS, NUMBERS},
      /* If sums may be in fp16, all numbers must be small enough. */
      {"too_large_is_the_largest", HONEST, ""},
      {"too_large_is_no_number", HONEST, ""}}},
    {CPU,
     "half_of_many",
     "subm,cin=512,cout=2,k=7,dtype=f16,accumulator=f16",
     {{"none", HONEST, ""}, {"sums_f16", HONEST, ""}}},
    {CPU,
     "whole",
     "subm,cin=64,cout=4,k=3,dtype=i8,out=f32",
     {{"none", HONEST, ""},
      {"sum_of_21_bits", ALWAYS, NUMBERS},
      {"sum_of_24_bits", ALWAYS, NUMBERS},
      {"lowest_is_127", ALWAYS, NUMBERS}}},
    {CPU,
     "wide",
     "subm,cin=256,cout=2,k=7,dtype=f32",
     {{"none", HONEST, ""},
      {"product_dropped", ALWAYS, NUMBERS},
      {"product_twice", ALWAYS, NUMBERS}}},
    {CPU,
     "order",
     PLAIN ",deterministic=1",
     {{"none", HONEST, ""}, {"order_varies", ALWAYS, ORDER}}},
    {CPU,
     "order",
     PLAIN,
     {{"none", HONEST, ""}, {"order_varies", LATE, ORDER}}},
    {CPU,
     "places",
     PLAIN ",deterministic=1",
     {{"none", HONEST, ""},
      {"order_by_the_inputs_address", ALWAYS, ORDER},
      {"order_by_the_weights_address", ALWAYS, ORDER},
      {"order_by_the_workspaces_address", ALWAYS, ORDER}}},
    {CPU,
     "order_varies_now_and_then",
     PLAIN ",deterministic=1",
     {{"none", HONEST, ""}, {"order_varies_now_and_then", RARE, ORDER}}},
    {CPU,
     "tile_skipped_now_and_then",
     PLAIN,
     {{"none", HONEST, ""}, {"tile_skipped_now_and_then", RARE, SOMETIMES}}},
    {CPU,
     "tile_skipped_by_chance",
     PLAIN,
     {{"none", HONEST, ""}, {"tile_skipped_by_chance", RARE, SOMETIMES}}},
    {CPU,
     "one_added_now_and_then",
     PLAIN,
     {{"none", HONEST, ""}, {"one_added_now_and_then", RARE, SOMETIMES}}},
    {CPU,
     "right_a_hundred_times",
     PLAIN,
     {{"none", HONEST, ""}, {"right_a_hundred_times", LATE, AT_LAST}}},
    {SIM | CUDA,
     "gpu_always",
     SMALL,
     {{"none", HONEST, ""},
      {"at_once", HONEST, ""},
      {"barrier_before_products_missing", ALWAYS, RACE},
      {"barrier_after_products_missing", ALWAYS, RACE},
      {"wait_missing", ALWAYS, RACE},
      {"wait_for_one_too_few", ALWAYS, RACE},
      {"commit_missing", ALWAYS, RACE},
      {"shared_row_not_cleared", ALWAYS, RACE},
      {"tile_of_another_block", ALWAYS, SOMETIMES},
      {"bias_dropped", ALWAYS, NUMBERS},
      {"absent_is_row_0", ALWAYS, NUMBERS},
      {"last_tile_missing", ALWAYS, NOT_WRITTEN},
      {"adds_unless_poisoned", ALWAYS, "accumulates|stale|exact"},
      {"writes_poison_only", ALWAYS, KEPT},
      {"workspace_taken_for_zeros", ALWAYS, RACE},
      {"input_address_rounded", ALWAYS, NUMBERS},
      {"output_address_rounded", ALWAYS, NOT_WRITTEN "|canary"}}},
    {SIM | CUDA,
     "gpu_kept",
     SMALL,
     {{"none", HONEST, ""}, {"right_once", ALWAYS, KEPT}}},
    {SIM | CUDA,
     "gpu_anew",
     SMALL,
     {{"none", HONEST, ""},
      {"atomics", HONEST, ""},
      {"capacity_taken_for_rows", ALWAYS, "canary"},
      {"row_order_kept_by_address", ALWAYS, KEPT "|canary"}}},
    /* In scenes for the emulation, hardly any tile costs more than another. */
    {CUDA,
     "gpu_anew_tiles",
     SMALL,
     {{"none", HONEST, ""},
      {"tile_order_kept_by_address", ALWAYS, KEPT "|" RACE}}},
    {SIM | CUDA,
     "gpu_statics",
     SMALL,
     {{"none", HONEST, ""},
      {"static_word", ALWAYS, "remembers"},
      {"static_of_the_module", ALWAYS, "remembers"}}},
    {SIM | CUDA,
     "gpu_foreign",
     SMALL,
     {{"none", HONEST, ""},
      {"written_before_the_result", ALWAYS, "canary"},
      {"written_behind_the_result", ALWAYS, "canary"},
      {"input_overwritten", ALWAYS, "read-only|exact|non-finite"},
      {"weights_overwritten", ALWAYS, "read-only|exact|non-finite"},
      {"index_overwritten", ALWAYS, "read-only"},
      {"written_behind_the_order", ALWAYS, "canary"}}},
    {SIM,
     "gpu_rounding",
     "subm,cin=64,cout=4,k=3x3x1,dtype=f32",
     {{"none", HONEST, ""},
      {"operands_tf32", ALWAYS, NUMBERS},
      {"product_dropped", ALWAYS, NUMBERS},
      {"operands_of_16_bits", ALWAYS, NUMBERS},
      {"minute_inputs_are_zero", ALWAYS, NUMBERS},
      {"large_inputs_are_clamped", ALWAYS, NUMBERS}}},
    {CUDA,
     "gpu_rounding",
     "subm,cin=256,cout=16,k=3,dtype=f32",
     {{"none", HONEST, ""},
      {"operands_tf32", ALWAYS, NUMBERS},
      {"product_dropped", ALWAYS, NUMBERS},
      {"operands_of_16_bits", ALWAYS, NUMBERS},
      {"minute_inputs_are_zero", ALWAYS, NUMBERS},
      {"large_inputs_are_clamped", ALWAYS, NUMBERS}}},
    {CUDA,
     "gpu_rounding",
     "subm,cin=256,cout=4,k=7,dtype=f32",
     {{"none", HONEST, ""},
      {"operands_tf32", ALWAYS, NUMBERS},
      {"product_dropped", ALWAYS, NUMBERS},
      {"operands_of_16_bits", ALWAYS, NUMBERS},
      {"minute_inputs_are_zero", ALWAYS, NUMBERS},
      {"large_inputs_are_clamped", ALWAYS, NUMBERS}}},
    {SIM | CUDA,
     "gpu_order",
     SMALL ",deterministic=1",
     {{"none", HONEST, ""},
      {"order_varies", ALWAYS, ORDER},
      {"warps_add_not_declared", ALWAYS, ORDER},
      {"order_by_the_inputs_address", ALWAYS, ORDER}}},
    {SIM | CUDA,
     "gpu_warps",
     SMALL,
     {{"none", HONEST, ""},
      {"warps_add", HONEST, ""},
      {"warps_add_not_declared", LATE, ORDER}}},
    {SIM | CUDA,
     "gpu_skips_now_and_then",
     SMALL,
     {{"none", HONEST, ""}, {"tile_skipped_now_and_then", RARE, SOMETIMES}}},
    {SIM | CUDA,
     "gpu_right_a_hundred_times",
     SMALL,
     {{"none", HONEST, ""}, {"right_a_hundred_times", LATE, AT_LAST}}},
    /* The counters belong to the module, so two launches at once share them.
     * The sim device runs one launch at a time. */
    {SIM, "gpu_split", SMALL, {{"none", HONEST, ""}, {"split", HONEST, ""}}},
    {CUDA,
     "gpu_split",
     SMALL,
     {{"none", HONEST, ""}, {"split", LATE, "together"}}},
    /* Blocks must run at the same time, which is rare on the sim device. */
    {CUDA,
     "gpu_race",
     SMALL,
     {{"none", HONEST, ""}, {"split_not_awaited", RARE, SOMETIMES}}},
    {CUDA,
     "gpu_atomics",
     SMALL,
     {{"none", HONEST, ""},
      {"atomics", HONEST, ""},
      {"atomics_not_declared", RARE, ORDER}}},
};

static const char *scene_of(const job *j)
{
    return strcmp(j->only, "large") == 0 ? MANY : SCENE;
}

/* ---- one tuning run ------------------------------------------------------ */

static const char *only = NULL;   /* a template; NULL: all */
static const char *device = NULL; /* a device; NULL: cpu and sim */
static uint64_t first_seed;
static int runs;           /* runs of a job, with consecutive seeds */
static char database[300]; /* used for compiled code only */

/* The final result for each fault. */
typedef struct verdict {
    char status[16], note[200];
    bool may_win; /* among the best after all were timed */
} verdict;

typedef struct verdicts {
    const job *job;
    verdict of[FAULTS];
    char winner[256];
} verdicts;

static int count_faults(const job *j)
{
    int count = 0;

    while (count < FAULTS && j->faults[count].name != NULL)
        count++;
    return count;
}

static void on_trial(const spc_trial *trial, void *payload)
{
    verdicts *v = payload;
    int i = 0, count = count_faults(v->job);

    ck_assert_int_eq(strncmp(trial->config, "fault=", 6), 0);
    while (i < count && strcmp(v->job->faults[i].name, trial->config + 6) != 0)
        i++;
    ck_assert_msg(i < count, "nobody expects '%s'", trial->config);
    snprintf(v->of[i].status, sizeof(v->of[i].status), "%s", trial->status);
    snprintf(v->of[i].note, sizeof(v->of[i].note), "%s", trial->note);
    v->of[i].may_win = trial->cold_us > 0;
}

/* Other kernels may have static memory, because their faults need it. */
static bool is_about_statics(const job *j)
{
    return strstr(j->only, "statics") != NULL;
}

static spc_ctx *open_with_seed(const char *name, const job *j, uint64_t seed)
{
    char schedule[40];

    snprintf(schedule, sizeof(schedule), "random:%llu",
             (unsigned long long)seed);
    setenv("SPC_SIM_SCHEDULE", schedule, 1);
    setenv("SPC_SIM_ASYNC", "deferred", 1);
    spc_ctx *ctx = open_ctx(name, database, suite_path("templates/gate"));
    ctx->allows_statics = !is_about_statics(j);
    return ctx;
}

static void tune(verdicts *out, const char *on, const job *j, uint64_t seed,
                 spc_stage stage)
{
    spc_ctx *ctx = open_with_seed(on, j, seed);
    spc_tune_options options = SPC_TUNE_OPTIONS_INIT;
    spc_tune_report report;
    spc_error error = {0};
    spc_scene *scene = NULL;
    spc_conv conv;

    memset(out, 0, sizeof(*out));
    out->job = j;
    options.stage = stage;
    options.effort = SPC_EFFORT_QUICK;
    options.only = j->only;
    options.seed = seed;
    options.again = true;
    options.on_trial = on_trial;
    options.payload = out;
    assert_ok(spc_conv_parse(&conv, j->layer, &error), error.text);
    assert_ok(spc_scene_load(&scene, scene_of(j), &error), error.text);
    assert_ok(spc_tune(&report, ctx, &conv, (const spc_scene *const *)&scene, 1,
                       &options),
              spc_ctx_error(ctx));
    snprintf(out->winner, sizeof(out->winner), "%s", report.winner);
    spc_scene_free(scene);
    spc_ctx_free(ctx);
}

/* ---- judging ------------------------------------------------------------- */

/* True if `tag`, of `length` characters, is in the list. */
static bool is_among(const char *tags, const char *tag, size_t length)
{
    for (const char *at = tags; at != NULL; at = strchr(at, '|')) {
        at += *at == '|';
        if (strcspn(at, "|") == length && strncmp(at, tag, length) == 0)
            return true;
    }
    return false;
}

static bool is_caught(const verdict *v)
{
    return strcmp(v->status, "wrong") == 0 || strcmp(v->status, "fault") == 0;
}

/* Returns the length of the tag of a note, which ends at a colon. */
static bool is_named(const fault *f, const verdict *v)
{
    const char *colon = strchr(v->note, ':');

    return is_caught(v) && colon != NULL &&
           is_among(f->tags, v->note, (size_t)(colon - v->note));
}

static bool is_as_expected(const fault *f, const verdict *v)
{
    return f->rate == HONEST ? strcmp(v->status, "ok") == 0 : is_named(f, v);
}

static bool is_winner(const verdicts *v, const fault *f)
{
    const char *config = strchr(v->winner, '=');

    return config != NULL && strcmp(config + 1, f->name) == 0;
}

static void print_failure(const char *on, const job *j, const fault *f,
                          const verdict *v, uint64_t seed)
{
    printf("%s %s %s: '%s' with seed %llu: %s; repeat it with: test_gate %s "
           "%llu\n",
           on, j->only, f->name, v->status, (unsigned long long)seed, v->note,
           on, (unsigned long long)seed);
}

/*
 * A candidate far from the best cannot win and is not confirmed. On a busy
 * machine this happens to faults that only confirmation finds, so it is no
 * verdict on them.
 */
static bool was_passed_over(const verdicts *v)
{
    for (int i = 0; i < count_faults(v->job); i++)
        if (v->job->faults[i].rate > ALWAYS && !v->of[i].may_win &&
            strcmp(v->of[i].status, "ok") == 0)
            return true;
    return false;
}

typedef struct tally {
    int expected, caught, won;
} tally;

static void count(tally *tallies, const char *on, const verdicts *v,
                  uint64_t seed)
{
    for (int i = 0; i < count_faults(v->job); i++) {
        const fault *f = &v->job->faults[i];
        bool expected = is_as_expected(f, &v->of[i]);
        tallies[i].expected += expected;
        tallies[i].caught += is_caught(&v->of[i]);
        tallies[i].won += is_winner(v, f);
        if (!expected)
            print_failure(on, v->job, f, &v->of[i], seed);
    }
}

/* A fault that occurs only sometimes may be missed with some seeds. */
static int least(rate strikes)
{
    return strikes == RARE && runs > 1 ? runs - 1 : runs;
}

/* Counts the job's faults that were handled wrongly. */
static int count_missed(const tally *tallies, const char *on, const job *j)
{
    int bad = 0;

    for (int i = 0; i < count_faults(j); i++) {
        const fault *f = &j->faults[i];
        const tally *t = &tallies[i];
        bool passes =
            t->expected >= least(f->rate) && (f->rate == HONEST || t->won == 0);
        printf("%s %s %s %s: %d of %d as expected, %d caught, %d won\n",
               passes ? "ok:" : "FAILED:", on, j->only, f->name, t->expected,
               runs, t->caught, t->won);
        bad += !passes;
    }
    fflush(stdout);
    return bad;
}

/* ---- tests --------------------------------------------------------------- */

static const char *device_of(const job *j)
{
    return device != NULL ? device : j->devices & CPU ? "cpu" : "sim";
}

START_TEST(no_wrong_kernel_is_believed)
{
    if (!suite_takes(_i))
        return;
    const job *j = &jobs[_i];
    const char *on = device_of(j);
    tally tallies[FAULTS] = {{0}};
    verdicts v;

    for (int i = 0; i < runs; i++) {
        int tries = 15;
        do
            tune(&v, on, j, first_seed + (uint64_t)i, SPC_STAGE_TIME);
        while (was_passed_over(&v) && --tries > 0);
        count(tallies, on, &v, first_seed + (uint64_t)i);
    }
    ck_assert_int_eq(count_missed(tallies, on, j), 0);
}
END_TEST

START_TEST(verifying_finds_what_strikes_always)
{
    if (!suite_takes(_i))
        return;
    const job *j = &jobs[_i];
    const char *on = device_of(j);
    uint64_t seed = first_seed + (uint64_t)runs - 1;
    int bad = 0;
    verdicts v;

    tune(&v, on, j, seed, SPC_STAGE_VERIFY);
    for (int i = 0; i < count_faults(j); i++) {
        const fault *f = &j->faults[i];
        if (f->rate > ALWAYS || is_as_expected(f, &v.of[i]))
            continue;
        print_failure(on, j, f, &v.of[i], seed);
        bad++;
    }
    fflush(stdout);
    ck_assert_int_eq(bad, 0);
}
END_TEST

/* Checks the list of tests in gate.h, which has a line " * TAG:" for each. */
static bool is_tag_of(const char *gate, const char *tag, size_t length)
{
    char line[80];

    snprintf(line, sizeof(line), "\n *   %.*s:", (int)length, tag);
    return strstr(gate, line) != NULL;
}

START_TEST(every_expected_tag_is_one_of_the_gates)
{
    spc__buf gate = SPC__BUF_INIT;
    spc_error error = {0};

    assert_ok(spc__file_read(&gate, suite_path("../lab/gate/gate.h"), 1 << 20,
                             &error),
              error.text);
    for (int i = 0; i < LENGTH(jobs); i++)
        for (int n = 0; n < count_faults(&jobs[i]); n++)
            for (const char *tag = jobs[i].faults[n].tags; *tag != '\0';) {
                size_t length = strcspn(tag, "|");
                ck_assert_msg(is_tag_of(spc__buf_text(&gate), tag, length),
                              "%s %s: gate.h has no test '%.*s'", jobs[i].only,
                              jobs[i].faults[n].name, (int)length, tag);
                tag += length + (tag[length] == '|');
            }
    spc__buf_release(&gate);
}
END_TEST

/* ---- the program --------------------------------------------------------- */

static bool has_gpu(void)
{
    spc_device_info infos[8];
    int count = spc_devices_list(infos, LENGTH(infos));

    for (int i = 0; i < count && i < LENGTH(infos); i++)
        if (strncmp(infos[i].id, "cuda", 4) == 0)
            return true;
    return false;
}

static unsigned wanted_devices(void)
{
    if (device == NULL)
        return CPU | SIM;
    return strcmp(device, "cpu") == 0   ? CPU
           : strcmp(device, "sim") == 0 ? SIM
                                        : CUDA;
}

static void choose_seeds(const char *word)
{
    if (word != NULL ? strcmp(word, "all") == 0 : wanted_devices() == CUDA) {
        first_seed = 1;
        runs = SEEDS;
        return;
    }
    first_seed = suite_seed(word);
    runs = word != NULL ? 1 : DRAWN;
}

static Suite *make_suite(void)
{
    Suite *suite = suite_create("gate");
    TCase *tuning = tcase_create("tuning");
    TCase *verifying = tcase_create("verifying");

    tcase_set_timeout(tuning, 600);
    tcase_set_timeout(verifying, 60);
    tcase_add_test(verifying, every_expected_tag_is_one_of_the_gates);
    for (int i = 0; i < LENGTH(jobs); i++) {
        if (!(jobs[i].devices & wanted_devices()) ||
            (only != NULL && strcmp(jobs[i].only, only) != 0))
            continue;
        tcase_add_loop_test(tuning, no_wrong_kernel_is_believed, i, i + 1);
        tcase_add_loop_test(verifying, verifying_finds_what_strikes_always, i,
                            i + 1);
    }
    suite_add_tcase(suite, verifying);
    suite_add_tcase(suite, tuning);
    return suite;
}

/*
 * Loads code that earlier runs compiled. Nothing else in the database matters.
 */
static void choose_database(const char *folder)
{
    const char *shared = suite_database();

    if (shared[0] != '\0')
        snprintf(database, sizeof(database), "%s", shared);
    else
        snprintf(database, sizeof(database), "%s/code.db", folder);
}

int main(int argc, char **argv)
{
    spc__buf folder = SPC__BUF_INIT;
    spc_error error = {0};

    device = argc > 1 ? argv[1] : NULL;
    choose_seeds(argc > 2 ? argv[2] : NULL);
    if (wanted_devices() == CUDA) {
        if (!has_gpu()) {
            printf("SKIPPED: there is no GPU\n");
            return SKIPPED;
        }
        setenv("CK_FORK", "no", 1); /* a forked process loses the driver */
    }
    if (spc__temp_dir_create(&folder, &error) != SPC_OK) {
        fprintf(stderr, "%s\n", error.text);
        return EXIT_FAILURE;
    }
    choose_database(spc__buf_text(&folder));
    bool samples = argc > 3 && strcmp(argv[3], "some") == 0;
    only = argc > 3 && !samples ? argv[3] : NULL;
    if (device == NULL || samples)
        suite_sample(3);
    int status = run_suite(make_suite());
    spc__temp_dir_remove(spc__buf_text(&folder));
    spc__buf_release(&folder);
    return status;
}
