/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_sample.c - the data for verifying candidates expose wrong arithmetic and
 * have the documented properties.
 */
#include "harness/layer_harness.h"

#include "base/dtype.h"
#include "harness/suite.h"
#include "lab/sample/digest.h"
#include "operators/operands.h"
#include "templates/shared/spc_abi.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static spc_error error;

/* ---- wrong arithmetic ---------------------------------------------------- */

/* Rounds to `bits` significant bits, to nearest even. */
static float to_bits(float value, int bits)
{
    int exponent;
    float part = frexpf(value, &exponent);

    return ldexpf(rintf(ldexpf(part, bits)), exponent - bits);
}

static float as_is(float value)
{
    return value;
}

static float to_tf32(float value)
{
    return to_bits(value, 11);
}

static float to_bf16(float value)
{
    return to_bits(value, 8);
}

static float to_f16(float value)
{
    return spc__half_to_float(spc__half_from_float(value));
}

typedef struct way {
    const char *name;
    float (*in)(float value);
    float (*weight)(float value);
    float (*sum)(float value); /* after each step of 16 products */
    bool split;                /* three tf32 products instead of one */
    int drops;                 /* omits product number `drops` - 1 */
} way;

static float multiply(const way *how, float x, float w)
{
    if (!how->split)
        return how->in(x)*how->weight(w);
    float xl = to_tf32(x), wl = to_tf32(w);
    return xl * wl + xl * to_tf32(w - wl) + to_tf32(x - xl) * wl;
}

/* Returns one output of `n` products in the stored type. */
static float dot(const spc_conv *conv, const float *in, const float *weights,
                 int n, const way *how)
{
    const spc__dtype *type = spc__dtype_of(conv->dtype);
    float sum = 0, step = 0;
    unsigned char stored[4];

    for (int i = 0; i < n; i++) {
        if (i != how->drops - 1)
            step += multiply(how, in[i], weights[i]);
        if (i % 16 == 15 || i == n - 1) {
            sum = how->sum(sum + step);
            step = 0;
        }
    }
    type->encode(stored, &sum, 1);
    type->decode(&sum, stored, 1);
    return sum;
}

/* Returns the inputs of all offsets that output channel `co` sees. */
static void inputs_of(float *out, const spc_conv *conv, const float *in, int co)
{
    int channels = spc__conv_group_in(conv);
    int first = co / spc__conv_group_out(conv) * channels;

    for (int k = 0; k < spc__conv_offsets(conv); k++)
        memcpy(out + k * channels, in + k * conv->cin + first,
               (size_t)channels * sizeof(*out));
}

/* Uses a row that sees all its neighbours, with all its channels. */
static int count_changed(const char *layer, spc__dataset dataset,
                         const way *how)
{
    static const way right = {"right", as_is, as_is, as_is, false, 0};
    spc_conv conv;
    spc__random random;
    int changed = 0;

    assert_ok(spc_conv_parse(&conv, layer, &error), error.text);
    int offsets = spc__conv_offsets(&conv);
    int n = offsets * spc__conv_group_in(&conv);
    float *in = malloc((size_t)(offsets * conv.cin) * sizeof(*in));
    float *seen = malloc((size_t)n * sizeof(*seen));
    float *weights = malloc((size_t)n * (size_t)conv.cout * sizeof(*weights));
    spc__random_init(&random, 5);
    spc__draw_in(in, &conv, dataset, offsets, &random);
    spc__draw_weights(weights, &conv, dataset, &random);
    for (int co = 0; co < conv.cout; co++) {
        const float *w = weights + (size_t)co * (size_t)n;
        inputs_of(seen, &conv, in, co);
        changed +=
            dot(&conv, seen, w, n, how) != dot(&conv, seen, w, n, &right);
    }
    free(in);
    free(seen);
    free(weights);
    return changed;
}

#define WIDEST "subm,cin=256,cout=64,k=7,dtype="
#define USUAL "subm,cin=64,cout=64,k=3,dtype="
#define DEPTHWISE "subm,cin=64,cout=64,groups=64,k=3,dtype="

/* One weight in 32 is zero. Losing its product changes nothing. */
static const struct {
    const char *layer;
    spc__dataset dataset;
    way how;
    int least, most; /* at least this many of 64 outputs differ */
} ways[] = {
    {USUAL "f32", SPC__WIDE, {"tf32", to_tf32, to_tf32, as_is, 0, 0}, 60, 64},
    {USUAL "f32", SPC__WIDE, {"in tf32", to_tf32, as_is, as_is, 0, 0}, 60, 64},
    {USUAL "f32", SPC__WIDE, {"w tf32", as_is, to_tf32, as_is, 0, 0}, 60, 64},
    {WIDEST "f32", SPC__WIDE, {"tf32", to_tf32, to_tf32, as_is, 0, 0}, 60, 64},
    {USUAL "f32", SPC__WIDE, {"bf16", to_bf16, to_bf16, as_is, 0, 0}, 60, 64},
    {USUAL "f32", SPC__WIDE, {"f16", to_f16, to_f16, as_is, 0, 0}, 64, 64},
    {USUAL "f32", SPC__WIDE, {"f16 sums", as_is, as_is, to_f16, 0, 0}, 60, 64},
    {USUAL "f32", SPC__WIDE, {"three", as_is, as_is, as_is, 1, 0}, 0, 0},
    {WIDEST "f32", SPC__WIDE, {"three", as_is, as_is, as_is, 1, 0}, 0, 0},
    {WIDEST "f32", SPC__WIDE, {"lost", as_is, as_is, as_is, 0, 9000}, 64, 64},
    {WIDEST "f32", SPC__COUNT, {"lost", as_is, as_is, as_is, 0, 9000}, 54, 64},
    {USUAL "tf32", SPC__WIDE, {"tf32", to_tf32, to_tf32, as_is, 0, 0}, 0, 0},
    {USUAL "tf32", SPC__WIDE, {"bf16", to_bf16, to_bf16, as_is, 0, 0}, 60, 64},
    {USUAL "tf32", SPC__WIDE, {"f16", to_f16, to_f16, as_is, 0, 0}, 64, 64},
    {USUAL "tf32", SPC__WIDE, {"f16 sums", as_is, as_is, to_f16, 0, 0}, 60, 64},
    {WIDEST "tf32", SPC__WIDE, {"lost", as_is, as_is, as_is, 0, 1}, 64, 64},
    {USUAL "f16", SPC__WIDE, {"bf16", to_bf16, to_bf16, as_is, 0, 0}, 30, 64},
    {USUAL "f16", SPC__WIDE, {"f16 sums", as_is, as_is, to_f16, 0, 0}, 30, 64},
    {WIDEST "f16", SPC__WIDE, {"f16 sums", as_is, as_is, to_f16, 0, 0}, 30, 64},
    {USUAL "f16", SPC__COUNT, {"lost", as_is, as_is, as_is, 0, 17}, 54, 64},
    {WIDEST "f16", SPC__COUNT, {"lost", as_is, as_is, as_is, 0, 87808}, 54, 64},
    /* Every second channel has wide inputs, the others wide weights. */
    {DEPTHWISE "f32",
     SPC__WIDE,
     {"in tf32", to_tf32, as_is, as_is, 0, 0},
     28,
     32},
    {DEPTHWISE "f32",
     SPC__WIDE,
     {"w tf32", as_is, to_tf32, as_is, 0, 0},
     28,
     32},
    {DEPTHWISE "f32", SPC__WIDE, {"three", as_is, as_is, as_is, 1, 0}, 0, 0},
    {DEPTHWISE "f16", SPC__COUNT, {"lost", as_is, as_is, as_is, 0, 17}, 54, 64},
};

START_TEST(only_right_arithmetic_gives_the_exact_result)
{
    int changed =
        count_changed(ways[_i].layer, ways[_i].dataset, &ways[_i].how);

    ck_assert_msg(changed >= ways[_i].least && changed <= ways[_i].most,
                  "%s on %s: %d of 64 differ, %d to %d is right",
                  ways[_i].how.name, ways[_i].layer, changed, ways[_i].least,
                  ways[_i].most);
}
END_TEST

/* Checks every partial sum, in the order of channels and in that of offsets. */
START_TEST(no_partial_sum_needs_more_bits_than_there_are)
{
    static const char *const layers[] = {WIDEST "f32", WIDEST "tf32",
                                         WIDEST "f16", USUAL "f32"};
    spc_conv conv;
    spc__random random;

    assert_ok(spc_conv_parse(&conv, layers[_i], &error), error.text);
    int offsets = spc__conv_offsets(&conv), n = offsets * conv.cin;
    double unit = conv.dtype == SPC_F16 ? 0x1p-8 : 0x1p-30, most = 0;
    bool whole = true;
    float *in = malloc((size_t)n * sizeof(*in));
    float *weights = malloc((size_t)n * (size_t)conv.cout * sizeof(*weights));
    spc__random_init(&random, 6);
    spc__draw_in(in, &conv, SPC__WIDE, offsets, &random);
    spc__draw_weights(weights, &conv, SPC__WIDE, &random);
    for (int co = 0; co < conv.cout; co++)
        for (int order = 0; order < 2; order++) {
            double sum = 0;
            for (int i = 0; i < n; i++) {
                int j = order == 0 ? i : i % offsets * conv.cin + i / offsets;
                double product = (double)in[j] * weights[co * n + j] / unit;
                whole &= product != 0 && product == rint(product);
                sum += product;
                most = fmax(most, fabs(sum));
            }
        }
    ck_assert(whole);
    ck_assert_double_lt(most, 0x1p23);
    free(in);
    free(weights);
}
END_TEST

/* ---- scales -------------------------------------------------------------- */

/* Limits of each output type. */
static const struct {
    const char *layer;
    float large, tiny; /* least large number, largest tiny one */
} ends[] = {
    {"subm,cin=4,cout=4,k=3,dtype=f32,epilogue=scale", 0x1p10f, 0x1p-9f},
    {"subm,cin=4,cout=4,k=3,dtype=bf16,epilogue=scale", 0x1p10f, 0x1p-9f},
    {"subm,cin=4,cout=4,k=3,dtype=f16,epilogue=scale", 0x1p6f, 0x1p-5f},
    {"subm,cin=4,cout=4,k=3,dtype=i8,epilogue=scale", 0x1p2f, 0x1p-1f},
};

START_TEST(real_data_of_few_channels_has_scales_of_both_ends)
{
    enum { MOST = 12, SEEDS = 20 };
    spc_conv conv;

    assert_ok(spc_conv_parse(&conv, ends[_i].layer, &error), error.text);
    for (conv.cout = 1; conv.cout <= MOST; conv.cout++)
        for (uint64_t seed = 1; seed <= SEEDS; seed++) {
            float scale[MOST];
            int large = 0, tiny = 0, zero = 0, plus = 0, minus = 0;
            spc__random random;
            spc__random_init(&random, seed);
            spc__draw_scale(scale, &conv, SPC__REAL, &random);
            for (int c = 0; c < conv.cout; c++) {
                large += fabsf(scale[c]) >= ends[_i].large;
                tiny += scale[c] != 0 && fabsf(scale[c]) <= ends[_i].tiny;
                zero += scale[c] == 0;
                plus += scale[c] > 0;
                minus += scale[c] < 0;
            }
            ck_assert_msg(
                large > 0 && (tiny > 0 || conv.cout < 2) &&
                    ((plus > 0 && minus > 0) || conv.cout < 2) &&
                    (zero > 0 || conv.cout < 3),
                "%s with cout=%d and seed %d: %d large, %d tiny, %d zero, %d "
                "positive, %d negative",
                ends[_i].layer, conv.cout, (int)seed, large, tiny, zero, plus,
                minus);
        }
}
END_TEST

/* ---- the block ----------------------------------------------------------- */

static void make(spc__sample *out, const char *layer, bool judges)
{
    spc__sample_options options = {3, judges, 2, NULL, 0};
    spc_scene *scene = NULL;
    spc_conv conv;

    assert_ok(spc_conv_parse(&conv, layer, &error), error.text);
    assert_ok(spc_scene_load(&scene, "gen:uniform,n=100,extent=6", &error),
              error.text);
    spc__sample_source source = {.scene = scene};
    assert_ok(spc__sample_init(out, &conv, &source, 1, &options, &error),
              error.text);
    spc_scene_free(scene);
}

START_TEST(another_process_sees_the_same_sample)
{
    spc__sample made, seen;

    make(&made, "subm,cin=5,cout=3,dtype=f16,bias=1", true);
    assert_ok(spc__sample_attach(&seen, dup(made.fd), &error), error.text);
    ck_assert_int_eq(seen.scene_count, 1 + SPC__AWKWARD);
    ck_assert_int_eq(seen.given, 1);
    for (int s = 0; s < seen.scene_count; s++)
        for (int d = 0; d < SPC__DATASETS; d++) {
            ck_assert_int_eq(spc__sample_has(&seen, s, (spc__dataset)d),
                             spc__sample_has(&made, s, (spc__dataset)d));
            ck_assert(seen.scenes[s].digest[d] == made.scenes[s].digest[d]);
        }
    ck_assert_mem_eq(seen.weights[SPC__WIDE], made.weights[SPC__WIDE],
                     27 * 5 * 3 * 2);
    spc__sample_release(&seen);
    spc__sample_release(&made);
}
END_TEST

START_TEST(a_file_that_holds_no_sample_is_refused)
{
    spc__sample seen;
    FILE *file = tmpfile();

    ck_assert_int_eq(spc__sample_attach(&seen, dup(fileno(file)), &error),
                     SPC_ESTATE);
    assert_says(error.text, "holds no sample data");
    spc__sample_release(&seen);
    fclose(file);
}
END_TEST

START_TEST(awkward_scenes_have_the_rows_that_make_them_so)
{
    static const int64_t rows[SPC__AWKWARD] = {0, 1, 63, 65, 1024, 128, 56};
    spc__sample sample;

    make(&sample, "subm,cin=5,cout=3,dtype=f32", true);
    for (int i = 0; i < SPC__AWKWARD; i++) {
        const spc__sample_scene *scene = &sample.scenes[1 + i];
        ck_assert_int_eq(scene->rows_in, rows[i]);
        ck_assert_int_eq(scene->rows_out, rows[i]);
        ck_assert_int_ge(scene->pairs, rows[i]);
        ck_assert(spc__sample_has(&sample, 1 + i, SPC__COUNT));
        ck_assert(!spc__sample_has(&sample, 1 + i, SPC__REAL));
    }
    spc__sample_release(&sample);
}
END_TEST

START_TEST(a_shape_keeps_awkward_scenes_within_it)
{
    spc_conv conv = SPC_CONV_INIT;
    spc_scene *scene = NULL;

    conv.geometry.shape[0] = 20;
    conv.geometry.shape[1] = 9;
    conv.geometry.shape[2] = 41;
    for (int i = 0; i < SPC__AWKWARD; i++) {
        assert_ok(spc__awkward_scene(&scene, i, &conv, &error), error.text);
        const int32_t *at = spc_scene_coords(scene);
        for (int64_t row = 0; row < spc_scene_rows(scene); row++)
            for (int a = 0; a < 3; a++) {
                ck_assert_int_ge(at[4 * row + 1 + a], 0);
                ck_assert_int_lt(at[4 * row + 1 + a], conv.geometry.shape[a]);
            }
        spc_scene_free(scene);
    }
}
END_TEST

/*
 * One seed has every remainder modulo 16, several seeds every remainder modulo
 * 48.
 */
START_TEST(sizes_are_not_the_same_with_every_seed)
{
    static const int64_t fixed[] = {512, SPC_ROW_PAD - 1, SPC_ROW_PAD,
                                    SPC_ROW_PAD + 1};
    spc_conv conv = SPC_CONV_INIT;
    bool seen[48] = {false};
    int found = 0;

    for (uint64_t seed = 1; seed <= 40; seed++) {
        unsigned remainders = 0;
        for (int i = 0; i < SPC__SIZES; i++) {
            spc_scene *scene = NULL;
            assert_ok(spc__awkward_size(&scene, i, seed, &conv, &error),
                      error.text);
            int64_t rows = spc_scene_rows(scene);
            ck_assert_int_ge(rows, 2);
            spc_scene_free(scene);
            if (i < LENGTH(fixed)) {
                ck_assert_int_eq(rows, fixed[i]);
                continue;
            }
            ck_assert_int_lt(rows, 320);
            remainders |= 1u << rows % 16;
            found += !seen[rows % 48];
            seen[rows % 48] = true;
        }
        ck_assert_uint_eq(remainders, 0xffff);
    }
    ck_assert_int_eq(found, 48);
}
END_TEST

START_TEST(a_zero_of_either_sign_is_the_exact_zero)
{
    const float exact[4] = {1, 0, -2, 3}, got[4] = {1, -0.0f, -2, 3};
    const float wrong[4] = {1, 0, -2, NAN};
    const spc__expected expected = {.stored = exact};
    spc__operand of = spc__matrix_of(SPC_F32, 2, 2, 2);

    ck_assert_double_eq(spc__judge(got, &of, &expected).error, 0);
    spc__worst worst = spc__judge(wrong, &of, &expected);
    ck_assert(isinf(worst.error));
    ck_assert_int_eq(worst.row, 1);
    ck_assert_int_eq(worst.channel, 1);
}
END_TEST

/* ---- guard zones --------------------------------------------------------- */

/* Changes the first and the last byte of both zones. On the cpu the test can
 * write them. */
START_TEST(a_byte_that_is_written_beside_an_array_is_seen)
{
    spc_ctx *ctx = open_ctx("cpu", "", NULL);
    spc__guarded arrays[2] = {{.is_far = 0}, {.is_far = _i % 2}};
    const spc__guarded *array = &arrays[1];
    size_t bytes = 30 + (size_t)(_i / 2);
    int written = 7, which;
    spc__guards guards;

    spc__guards_init(&guards, ctx, 64);
    for (int i = 0; i < 2; i++)
        assert_ok(spc__guarded_lay(&guards, &arrays[i], bytes, 16),
                  spc_ctx_error(ctx));
    assert_ok(spc__guarded_fill(&guards, array, 0), spc_ctx_error(ctx));
    assert_ok(spc__guarded_check(&written, &which, &guards, arrays, 2),
              spc_ctx_error(ctx));
    ck_assert_int_eq(written, 0);
    size_t zone = guards.zone_bytes[array->is_far];
    char *const at[] = {array->data - zone, array->data - 1,
                        array->data + bytes,
                        spc__guarded_end(array) + zone - 1};
    for (int i = 0; i < LENGTH(at); i++) {
        *at[i] = 0;
        assert_ok(spc__guarded_check(&written, &which, &guards, arrays, 2),
                  spc_ctx_error(ctx));
        ck_assert_int_eq(written, i < 2 ? -1 : 1);
        ck_assert_int_eq(which, 1);
        *at[i] = (char)SPC__ZONE_BYTE;
    }
    spc__guarded_release(&guards, arrays, 2);
    ck_assert_ptr_null(array->base);
    ck_assert_int_eq(array->is_far, _i % 2);
    spc_ctx_free(ctx);
}
END_TEST

/* ---- digests ------------------------------------------------------------- */

static const char *const devices[] = {"cpu", "sim"};

START_TEST(a_device_digests_as_the_host_does)
{
    enum { BYTES = 100002, COUNT = 3 };
    static const size_t sizes[COUNT] = {BYTES, 2, 0};
    unsigned char *bytes = malloc(BYTES);
    spc_ctx *ctx = open_ctx(devices[_i], "", NULL);
    spc__digester *digester = NULL;
    uint64_t got[COUNT];
    void *memory = NULL;
    spc__random random;

    spc__random_init(&random, 1);
    for (int i = 0; i < BYTES; i++)
        bytes[i] = (unsigned char)spc__random_u64(&random);
    assert_ok(spc_memory_alloc(&memory, ctx, BYTES), spc_ctx_error(ctx));
    assert_ok(spc_memory_upload(memory, ctx, bytes, BYTES), spc_ctx_error(ctx));
    assert_ok(spc__digester_create(&digester, ctx), spc_ctx_error(ctx));
    assert_ok(spc__digester_begin(digester), spc_ctx_error(ctx));
    for (int i = 0; i < COUNT; i++)
        assert_ok(spc__digester_add(digester, memory, sizes[i]),
                  spc_ctx_error(ctx));
    assert_ok(spc__digester_end(digester, got), spc_ctx_error(ctx));
    for (int i = 0; i < COUNT; i++)
        ck_assert(got[i] == spc__digest_host(bytes, sizes[i]));
    for (int bit = 0; bit < 16; bit++) { /* every single bit counts */
        bytes[70000] ^= (unsigned char)(1 << bit % 8);
        ck_assert(got[0] != spc__digest_host(bytes, BYTES));
        bytes[70000] ^= (unsigned char)(1 << bit % 8);
    }
    spc__digester_free(digester);
    spc_memory_free(ctx, memory);
    spc_ctx_free(ctx);
    free(bytes);
}
END_TEST

/* ---- operands ------------------------------------------------------------ */

START_TEST(operands_have_their_shapes_and_bytes)
{
    spc__operand all[SPC_OPERANDS];
    spc_conv conv;

    assert_ok(spc_conv_parse(&conv, "subm,cin=5,cout=7,k=3x3x1,bias=1", &error),
              error.text);
    spc__operands(all, &conv, 10, 20);
    ck_assert(all[SPC_OPERAND_BIAS].present && !all[SPC_OPERAND_SCALE].present);
    ck_assert_uint_eq(all[SPC_OPERAND_IN].bytes, 10 * 5 * 2);
    ck_assert_uint_eq(all[SPC_OPERAND_OUT].bytes, 20 * 7 * 2);
    ck_assert_uint_eq(all[SPC_OPERAND_WEIGHTS].bytes, 9 * 5 * 7 * 2);
    ck_assert_uint_eq(all[SPC_OPERAND_BIAS].bytes, 7 * 4);
    ck_assert(all[SPC_OPERAND_OUT].written && !all[SPC_OPERAND_IN].written);
    ck_assert_uint_eq(spc_conv_operand_bytes(&conv, SPC_OPERAND_OUT, 20),
                      20 * 7 * 2);
    conv.bias = false;
    conv.dtype = SPC_TF32;
    spc__operands(all, &conv, 10, 20);
    ck_assert(!all[SPC_OPERAND_BIAS].present &&
              !all[SPC_OPERAND_RESIDUAL].present);
    ck_assert_uint_eq(spc_conv_operand_bytes(&conv, SPC_OPERAND_BIAS, 0), 0);
    ck_assert_uint_eq(spc_conv_operand_bytes(&conv, SPC_OPERAND_IN, 10),
                      10 * 5 * 4);
    ck_assert_uint_eq(spc_conv_operand_bytes(&conv, SPC_OPERAND_IN, -1), 0);
    /* A slice extends from its first element to the end of its last. */
    conv.scale = true;
    conv.add = SPC_ADD_AFTER;
    conv.out = SPC_OUT_BF16;
    conv.out_pitch = 16;
    spc__operands(all, &conv, 10, 20);
    ck_assert_uint_eq(all[SPC_OPERAND_OUT].bytes, (19 * 16 + 7) * 2);
    ck_assert_uint_eq(all[SPC_OPERAND_OUT].dense_bytes, 20 * 7 * 2);
    ck_assert_uint_eq(all[SPC_OPERAND_RESIDUAL].bytes, 20 * 7 * 2);
    ck_assert_uint_eq(spc_conv_operand_bytes(&conv, SPC_OPERAND_SCALE, 0),
                      7 * 4);
    ck_assert_uint_eq(spc_conv_operand_bytes(&conv, SPC_OPERAND_OUT, 0), 0);
    ck_assert_uint_eq(spc_conv_operand_bytes(NULL, SPC_OPERAND_IN, 1), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("sample");
    TCase *tcase = tcase_create("sample");

    tcase_set_timeout(tcase, 60);
    tcase_add_loop_test(tcase, only_right_arithmetic_gives_the_exact_result, 0,
                        LENGTH(ways));
    tcase_add_loop_test(tcase, no_partial_sum_needs_more_bits_than_there_are, 0,
                        4);
    tcase_add_loop_test(tcase,
                        real_data_of_few_channels_has_scales_of_both_ends, 0,
                        LENGTH(ends));
    tcase_add_test(tcase, another_process_sees_the_same_sample);
    tcase_add_test(tcase, a_file_that_holds_no_sample_is_refused);
    tcase_add_test(tcase, awkward_scenes_have_the_rows_that_make_them_so);
    tcase_add_test(tcase, a_shape_keeps_awkward_scenes_within_it);
    tcase_add_test(tcase, sizes_are_not_the_same_with_every_seed);
    tcase_add_test(tcase, a_zero_of_either_sign_is_the_exact_zero);
    tcase_add_loop_test(tcase, a_byte_that_is_written_beside_an_array_is_seen,
                        0, 4);
    tcase_add_loop_test(tcase, a_device_digests_as_the_host_does, 0,
                        LENGTH(devices));
    tcase_add_test(tcase, operands_have_their_shapes_and_bytes);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
