/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_cpu.c - the cpu device and its kernels: every template against the
 * oracle on every instruction set that the machine has.
 */
#include "base/error.h"
#include "compiler/space.h"
#include "harness/kernel_harness.h"
#include "lab/oracle/oracle.h"
#define SPC_LANES 4
#include "harness/suite.h"
#include "templates/shared/spc_cpu.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

static harness r;

#define LENGTH(array) ((int)(sizeof(array) / sizeof(*(array))))

#define assert_ok(call)                                                        \
    ck_assert_msg((call) == SPC_OK, "%s: %s", #call, r.error.text)

static const char *const isas[] = {"avx512", "avx2", "portable"};

/* False if the machine lacks the instruction set. */
static bool open_isa(const char *isa)
{
    setenv("SPC_CPU_ISA", isa, 1);
    if (harness_open(&r, "cpu", 2) == SPC_OK)
        return true;
    ck_assert_msg(strstr(r.error.text, "lacks") != NULL, "%s", r.error.text);
    suite_note_skip(r.error.text);
    harness_close(&r);
    return false;
}

/* ---- binary16 of the rendered code --------------------------------------- */

START_TEST(every_binary16_converts_as_the_host_does)
{
    for (unsigned bits = 0; bits < 65536; bits++) {
        float want = spc__half_to_float((uint16_t)bits);
        float got = spc_float_of_half((spc_half)bits);
        ck_assert((isnan(want) && isnan(got)) ||
                  spc_bits_of_float(want) == spc_bits_of_float(got));
    }
}
END_TEST

START_TEST(floats_round_to_binary16_as_the_host_does)
{
    spc__random random;
    spc__random_init(&random, 3);
    for (int i = 0; i < 2000000; i++) {
        uint32_t bits = (uint32_t)spc__random_u64(&random);
        if (i < 65536) /* halfway between two halves, and next to it */
            bits = spc_bits_of_float(spc__half_to_float((uint16_t)i)) + 0x1000;
        float value = spc_float_of_bits(bits + (uint32_t)(i % 3) - 1);
        uint16_t want = spc__half_from_float(value);
        uint16_t got = spc_half_of_float(value);
        bool both_nan = (want & 0x7fff) > 0x7c00 && (got & 0x7fff) > 0x7c00;
        ck_assert_msg(want == got || both_nan, "%a: %04x, not %04x",
                      (double)value, got, want);
    }
}
END_TEST

/* ---- kernels against the oracle ------------------------------------------ */

/* The largest error, as a multiple of its tolerance. */
static double largest_error(const spc_conv *conv, const relation *rel,
                            const harness_data *data, const void *out)
{
    int64_t rows = rel->rows, n = rows * conv->cout;
    double *want = malloc((size_t)n * sizeof(double) + 1);
    double *size = malloc((size_t)n * sizeof(double) + 1);
    double worst = 0;

    spc_oracle_sums(want, size, conv, rel->from, rows, data->in, data->weights,
                    conv->bias ? data->bias : NULL, 0);
    for (int64_t i = 0; i < n; i++) {
        int64_t terms = 0;
        for (int k = 0; k < rel->offsets; k++)
            terms += rel->from[k * rows + i / conv->cout] >= 0;
        double got = conv->dtype == SPC_F16
                         ? spc__half_to_float(((const uint16_t *)out)[i])
                         : ((const float *)out)[i];
        double ratio =
            fabs(got - want[i]) /
            spc__tolerance(conv, want[i], size[i], terms * conv->cin);
        worst = ratio > worst || isnan(ratio) ? ratio : worst;
    }
    free(want);
    free(size);
    return worst;
}

/* Runs one candidate between guard zones and compares the result. */
static void check_candidate(const char *name, const spc_conv *conv,
                            const relation *rel, const spc__attrs *config,
                            enum row_order order, bool rsck)
{
    enum { FENCE = 64 };
    layout map;
    harness_data data;
    harness_kernel kernel;
    spc__buf text = SPC__BUF_INIT;

    harness_data_create(&data, conv, rel->rows_in, false);
    assert_ok(harness_build(&kernel, &r, name, conv, config, &data, rsck));
    layout_create(&map, rel,
                  (int)spc__attrs_number(&kernel.launch, "tile_rows", 1), 0,
                  order);
    size_t bytes = (size_t)rel->rows * (size_t)conv->cout * data.element_bytes;
    unsigned char *memory = malloc(bytes + 2 * FENCE);
    memset(memory, 0xff, bytes + 2 * FENCE);
    harness_run run =
        harness_prepare(&r, &kernel, conv, &map.view, &data, memory + FENCE);
    assert_ok(harness_enqueue(&run, NULL));
    double error = largest_error(conv, rel, &data, memory + FENCE);
    if (config != NULL)
        spc__attrs_format(&text, config);
    ck_assert_msg(error <= 1, "%s %s: error over tolerance %g", name,
                  spc__buf_text(&text), error);
    for (int i = 0; i < FENCE; i++)
        ck_assert(memory[i] == 0xff &&
                  memory[bytes + FENCE + (size_t)i] == 0xff);
    spc__buf_release(&text);
    free(memory);
    harness_kernel_free(&r, &kernel);
    layout_release(&map);
    harness_data_free(&data);
}

static const struct {
    int rows, extent;
    const char *layer;
} layers[] = {
    {700, 12, "subm,cin=64,cout=64,k=3,dtype=f32"},
    {700, 12, "subm,cin=64,cout=64,k=3,dtype=f16"},
    {300, 10, "subm,cin=1,cout=1,k=3,dtype=f32,bias=1"},
    {300, 10, "subm,cin=3,cout=5,k=2,dtype=f16,bias=1"},
    {300, 10, "subm,cin=33,cout=33,k=3,dtype=f16"},
    {300, 10, "subm,cin=17,cout=80,k=3,dtype=f32,bias=1"},
    {300, 10, "subm,cin=8,cout=130,k=3,dtype=tf32"},
    {300, 10, "subm,cin=4,cout=32,k=3x1x2,dtype=f16"},
    {300, 9, "subm,cin=16,cout=32,k=3,dilation=2,dtype=f32"},
    {200, 7, "subm,cin=5,cout=7,k=7,dtype=f16"},
    {150, 8, "subm,cin=256,cout=600,k=1,dtype=f32"},
    {1, 1, "subm,cin=16,cout=16,k=3,dtype=f16"},
    {2, 2, "subm,cin=16,cout=16,k=3,dtype=f32,bias=1"},
};

static void check_layer(int i, const char *name)
{
    spc_conv conv;
    relation rel;
    assert_ok(spc_conv_parse(&conv, layers[i].layer, &r.error));
    relation_of_layer(&rel, &conv, layers[i].rows, layers[i].extent, 1);
    check_candidate(name, &conv, &rel, NULL,
                    i % 2 == 1 ? RANDOM_ORDER : OWN_ORDER, i % 3 == 1);
    relation_release(&rel);
}

START_TEST(the_row_gemm_passes_the_oracle_on_every_instruction_set)
{
    for (int i = 0; i < LENGTH(isas); i++)
        if (open_isa(isas[i])) {
            check_layer(_i, "rowgemm");
            harness_close(&r);
        }
}
END_TEST

START_TEST(the_generic_kernel_passes_the_oracle)
{
    if (!open_isa(isas[_i % LENGTH(isas)]))
        open_isa("portable");
    check_layer(_i, "generic");
    harness_close(&r);
}
END_TEST

/* True for one configuration of each text: the other tile sizes and orders
 * render the same code. */
static bool is_new_code(const spc__attrs *config)
{
    int64_t tile = spc__attrs_number(config, "tile", 0);
    return (tile == 64 || tile == 256) &&
           strcmp(spc__attrs_text(config, "order", ""), "none") == 0;
}

START_TEST(every_candidate_of_the_row_gemm_passes_the_oracle)
{
    spc__attrs problem = {0};
    spc__space *space;
    spc_conv conv;
    relation rel;
    int admitted = 0;

    if (!suite_takes(_i) || !open_isa(isas[_i]))
        return;
    assert_ok(
        spc_conv_parse(&conv, "subm,cin=12,cout=56,k=2,dtype=f16", &r.error));
    relation_of_layer(&rel, &conv, 700, 11, 1);
    spc__conv_attrs(&problem, &conv);
    assert_ok(spc__space_create(&space, r.library, "conv", "rowgemm", &problem,
                                &r.target, &r.error));
    for (int i = 0; i < space->count; i++) {
        const spc__candidate *candidate = &space->candidates[i];
        if (!candidate->admitted || !is_new_code(&candidate->config))
            continue;
        check_candidate("rowgemm", &conv, &rel, &candidate->config,
                        i % 4 == 1 ? RANDOM_ORDER : OWN_ORDER, false);
        admitted++;
    }
    ck_assert_int_gt(admitted, 5);
    relation_release(&rel);
    spc__space_free(space);
    harness_close(&r);
}
END_TEST

START_TEST(the_number_of_threads_changes_no_bit)
{
    enum { ROWS = 5000 };
    relation rel;
    layout map;
    harness_data data;
    spc_conv conv;
    float *out[2];

    unsetenv("SPC_CPU_ISA");
    assert_ok(
        spc_conv_parse(&conv, "subm,cin=32,cout=32,k=3,dtype=f32", &r.error));
    relation_of_layer(&rel, &conv, ROWS, 24, 1);
    harness_data_create(&data, &conv, ROWS, false);
    layout_create(&map, &rel, 256, 0, OWN_ORDER);
    for (int i = 0; i < 2; i++) {
        harness_kernel kernel;
        assert_ok(harness_open(&r, "cpu", i == 0 ? 1 : 3));
        assert_ok(
            harness_build(&kernel, &r, "rowgemm", &conv, NULL, &data, false));
        out[i] = malloc(ROWS * 32 * sizeof(float));
        harness_run run =
            harness_prepare(&r, &kernel, &conv, &map.view, &data, out[i]);
        assert_ok(harness_enqueue(&run, NULL));
        harness_kernel_free(&r, &kernel);
        harness_close(&r);
    }
    ck_assert_mem_eq(out[0], out[1], ROWS * 32 * sizeof(float));
    free(out[0]);
    free(out[1]);
    layout_release(&map);
    harness_data_free(&data);
    relation_release(&rel);
}
END_TEST

/* ---- the device ---------------------------------------------------------- */

static const char *const counting_kernel =
    "typedef struct args { int *counts; int width; } args;\n"
    "void count(const args *a, unsigned x, unsigned y)\n"
    "{ __atomic_fetch_add(&a->counts[y * a->width + x], 1,\n"
    "                     __ATOMIC_RELAXED); }\n";

typedef struct count_args {
    int *counts;
    int width;
} count_args;

typedef struct counter {
    spc__artefact artefact;
    spc__module *module;
    spc__kernel *kernel;
} counter;

static void counter_create(counter *c)
{
    spc__compile_job job = {counting_kernel, "counting", "",
                            r.options,       r.library,  NULL};
    memset(c, 0, sizeof(*c));
    assert_ok(spc__compile(&c->artefact, r.compiler, &job, NULL, &r.error));
    assert_ok(r.ops->module_load(r.device, &c->module, c->artefact.code,
                                 c->artefact.code_bytes, &r.error));
    assert_ok(r.ops->kernel_get(r.device, c->module, "count", 0, &c->kernel,
                                &r.error));
}

static void counter_free(counter *c)
{
    r.ops->module_unload(r.device, c->module);
    spc__artefact_release(&c->artefact);
}

static void open_any(void)
{
    unsetenv("SPC_CPU_ISA");
    assert_ok(harness_open(&r, "cpu", 4));
}

static void close_any(void)
{
    harness_close(&r);
}

static bool all_are(const int *counts, int n, int value)
{
    for (int i = 0; i < n; i++)
        if (counts[i] != value)
            return false;
    return true;
}

START_TEST(a_launch_calls_every_thread_of_every_block_once)
{
    static const unsigned shapes[][3] = {{1, 1, 1},  {1000, 1, 1}, {7, 5, 1},
                                         {3, 2, 64}, {0, 1, 1},    {1, 1, 256}};
    const unsigned *shape = shapes[_i];
    int width = (int)(shape[0] * shape[2]), n = width * (int)shape[1];
    int *counts = calloc((size_t)n + 1, sizeof(*counts));
    spc__launch launch = {
        .grid_x = shape[0], .grid_y = shape[1], .block = shape[2]};
    count_args args = {counts, width};
    counter c;

    counter_create(&c);
    for (int i = 0; i < 100; i++)
        assert_ok(r.ops->launch(r.device, c.kernel, &launch, &args,
                                sizeof(args), NULL, &r.error));
    ck_assert(all_are(counts, n, 100));
    launch.block = 0;
    ck_assert_int_eq(r.ops->launch(r.device, c.kernel, &launch, &args,
                                   sizeof(args), NULL, &r.error),
                     SPC_EINVAL);
    counter_free(&c);
    free(counts);
}
END_TEST

enum { LAUNCHES = 300, WIDTH = 50 };

static void *launch_often(void *payload)
{
    const counter *c = payload;
    static atomic_int failures;
    int counts[WIDTH] = {0};
    count_args args = {counts, WIDTH};
    spc__launch launch = {.grid_x = WIDTH, .grid_y = 1, .block = 1};
    for (int i = 0; i < LAUNCHES; i++)
        if (r.ops->launch(r.device, c->kernel, &launch, &args, sizeof(args),
                          NULL, NULL) != SPC_OK)
            atomic_fetch_add(&failures, 1);
    return all_are(counts, WIDTH, LAUNCHES) && failures == 0 ? NULL : payload;
}

START_TEST(several_threads_may_launch_at_once)
{
    pthread_t threads[4];
    counter c;
    void *failed;

    counter_create(&c);
    for (int i = 0; i < LENGTH(threads); i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, launch_often, &c),
                         0);
    for (int i = 0; i < LENGTH(threads); i++) {
        pthread_join(threads[i], &failed);
        ck_assert_ptr_null(failed);
    }
    counter_free(&c);
}
END_TEST

START_TEST(a_forked_process_launches_without_the_pool)
{
    counter c;
    int status;

    counter_create(&c);
    pid_t child = fork();
    if (child == 0) {
        bool good = launch_often(&c) == NULL;
        harness_close(&r); /* must not wait for the parent's threads */
        _exit(good ? 0 : 1);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    counter_free(&c);
}
END_TEST

START_TEST(modules_loaded_one_after_another_are_different_ones)
{
    for (int i = 0; i < 5; i++) {
        char source[64];
        int value = 0;
        int *to = &value;
        spc__artefact artefact = {0};
        spc__module *module;
        spc__kernel *kernel;
        spc__launch launch = {.grid_x = 1, .grid_y = 1, .block = 1};

        snprintf(source, sizeof(source),
                 "void set(int *const *to) { **to = %d; }\n", i + 1);
        spc__compile_job job = {source, "set", "", "", r.library, NULL};
        assert_ok(spc__compile(&artefact, r.compiler, &job, NULL, &r.error));
        assert_ok(r.ops->module_load(r.device, &module, artefact.code,
                                     artefact.code_bytes, &r.error));
        assert_ok(
            r.ops->kernel_get(r.device, module, "set", 0, &kernel, &r.error));
        assert_ok(r.ops->launch(r.device, kernel, &launch, &to, sizeof(to),
                                NULL, &r.error));
        ck_assert_int_eq(value, i + 1);
        ck_assert_int_eq(
            r.ops->kernel_get(r.device, module, "none", 0, &kernel, &r.error),
            SPC_ENOTFOUND);
        ck_assert_ptr_nonnull(strstr(r.error.text, "no kernel 'none'"));
        ck_assert_ptr_null(kernel);
        r.ops->module_unload(r.device, module);
        spc__artefact_release(&artefact);
    }
}
END_TEST

START_TEST(damaged_code_is_refused_before_it_is_mapped)
{
    counter c;
    spc__module *module;

    counter_create(&c);
    const size_t cuts[] = {0, 3, 63, 64, 200, c.artefact.code_bytes / 2};
    for (int i = 0; i < LENGTH(cuts); i++) {
        ck_assert_int_eq(r.ops->module_load(r.device, &module, c.artefact.code,
                                            cuts[i], &r.error),
                         SPC_EFORMAT);
        ck_assert_ptr_null(module);
    }
    ck_assert_int_eq(r.ops->module_load(r.device, &module, counting_kernel,
                                        strlen(counting_kernel), &r.error),
                     SPC_EFORMAT);
    ck_assert_ptr_nonnull(strstr(r.error.text, "not a shared object"));
    counter_free(&c);
}
END_TEST

static spc_status sleep_a_little(void *payload, void *stream)
{
    ++*(int *)payload;
    usleep(1000);
    return SPC_OK;
}

static spc_status fail_at_once(void *payload, void *stream)
{
    return SPC_EDEVICE;
}

START_TEST(measuring_takes_the_samples_asked_for_and_keeps_its_limit)
{
    double samples[20];
    int count, runs = 0;
    spc__measure measure = {sleep_a_little, &runs, 20, 50, _i == 1, NULL};

    assert_ok(r.ops->measure(r.device, &measure, samples, &count, &r.error));
    ck_assert_int_eq(count, 20);
    for (int i = 0; i < count; i++)
        ck_assert(samples[i] >= 1000 && samples[i] < 1e6);
    measure.limit_s = 0;
    assert_ok(r.ops->measure(r.device, &measure, samples, &count, &r.error));
    ck_assert_int_eq(count, 1);
    measure.enqueue = fail_at_once;
    ck_assert_int_eq(
        r.ops->measure(r.device, &measure, samples, &count, &r.error),
        SPC_EDEVICE);
    ck_assert_int_eq(count, 0);
}
END_TEST

static int64_t resident_bytes(void)
{
    long long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");

    ck_assert_ptr_nonnull(file);
    ck_assert_int_eq(fscanf(file, "%*d %lld", &pages), 1);
    fclose(file);
    return pages * sysconf(_SC_PAGESIZE);
}

/* If it were allocated for each request, its page faults would take longer than
 * the measurement. */
START_TEST(the_memory_that_flushes_the_caches_is_kept)
{
    const int64_t least = 1 << 20; /* twice any last-level cache */
    double sample;
    int count, runs = 0;
    spc__measure measure = {sleep_a_little, &runs, 1, 50, true, NULL};
    int64_t before = resident_bytes();

    assert_ok(r.ops->measure(r.device, &measure, &sample, &count, &r.error));
    int64_t after = resident_bytes();
    ck_assert_int_gt(after, before + least);
    assert_ok(r.ops->measure(r.device, &measure, &sample, &count, &r.error));
    ck_assert_int_lt(resident_bytes(), after + least);
}
END_TEST

START_TEST(memory_is_aligned_filled_and_copied)
{
    char from[100], to[100] = {0};
    void *memory;

    assert_ok(r.ops->alloc(r.device, &memory, 100, &r.error));
    ck_assert_uint_eq((uintptr_t)memory % 256, 0);
    memset(from, 7, sizeof(from));
    assert_ok(r.ops->copy_in(r.device, memory, from, 100, NULL, &r.error));
    assert_ok(r.ops->fill(r.device, memory, 9, 50, NULL, &r.error));
    assert_ok(r.ops->copy_out(r.device, to, memory, 100, NULL, &r.error));
    assert_ok(r.ops->sync(r.device, NULL, &r.error));
    ck_assert(to[0] == 9 && to[49] == 9 && to[50] == 7 && to[99] == 7);
    r.ops->dealloc(r.device, memory);
    assert_ok(r.ops->alloc(r.device, &memory, 0, &r.error));
    ck_assert_ptr_nonnull(memory);
    r.ops->dealloc(r.device, memory);
    r.ops->dealloc(r.device, NULL);
#ifndef SPC_SANITIZE /* a sanitizer reports such a size as an error */
    ck_assert_int_eq(r.ops->alloc(r.device, &memory, (size_t)1 << 62, &r.error),
                     SPC_ENOMEM);
#endif
}
END_TEST

START_TEST(the_device_says_what_it_is)
{
    spc_device_info info, listed;
    const char *isa = spc__attrs_text(&r.target, "isa", "");

    r.ops->info(r.device, &info);
    ck_assert_int_eq(r.ops->list(&listed, 1), 1);
    ck_assert_int_eq(r.ops->list(NULL, 0), 1);
    ck_assert_str_eq(info.id, "cpu");
    ck_assert_str_eq(info.target, isa);
    ck_assert_str_eq(info.name + 4, isa);
    ck_assert_str_eq(listed.name, info.name);
    ck_assert_int_eq(info.multiprocessors, 4);
    ck_assert_int_gt(listed.multiprocessors, 0);
    ck_assert_str_eq(spc__attrs_text(&r.target, "device", ""), "cpu");
    ck_assert_int_ge((int)spc__attrs_number(&r.target, "vector_bytes", 0), 16);
}
END_TEST

START_TEST(an_unknown_instruction_set_is_refused)
{
    spc__device *device;
    spc_device_info info;
    spc_error error = {0};

    setenv("SPC_CPU_ISA", "mmx", 1);
    ck_assert_int_eq(spc__device_open(&device, "cpu", NULL, &error),
                     SPC_EINVAL);
    ck_assert_ptr_null(device);
    ck_assert_str_eq(error.text, "unknown SPC_CPU_ISA 'mmx' (avx512, avx2, "
                                 "portable)");
    ck_assert_int_eq(r.ops->list(&info, 1), 1);
    unsetenv("SPC_CPU_ISA");
    ck_assert_int_eq(spc__device_open(&device, "cpu:1", NULL, &error),
                     SPC_ENODEVICE);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("cpu");
    TCase *halves = tcase_create("binary16");
    TCase *kernels = tcase_create("kernels");
    TCase *device = tcase_create("device");

    tcase_set_timeout(halves, 60);
    tcase_add_test(halves, every_binary16_converts_as_the_host_does);
    tcase_add_test(halves, floats_round_to_binary16_as_the_host_does);
    suite_add_tcase(s, halves);

    tcase_set_timeout(kernels, 300);
    tcase_add_loop_test(kernels,
                        the_row_gemm_passes_the_oracle_on_every_instruction_set,
                        0, LENGTH(layers));
    tcase_add_loop_test(kernels, the_generic_kernel_passes_the_oracle, 0,
                        LENGTH(layers));
    tcase_add_loop_test(kernels,
                        every_candidate_of_the_row_gemm_passes_the_oracle, 0,
                        LENGTH(isas));
    tcase_add_test(kernels, the_number_of_threads_changes_no_bit);
    suite_add_tcase(s, kernels);

    tcase_add_checked_fixture(device, open_any, close_any);
    tcase_set_timeout(device, 60);
    tcase_add_loop_test(device, a_launch_calls_every_thread_of_every_block_once,
                        0, 6);
    tcase_add_test(device, several_threads_may_launch_at_once);
    tcase_add_test(device, a_forked_process_launches_without_the_pool);
    tcase_add_test(device, modules_loaded_one_after_another_are_different_ones);
    tcase_add_test(device, damaged_code_is_refused_before_it_is_mapped);
    tcase_add_loop_test(
        device, measuring_takes_the_samples_asked_for_and_keeps_its_limit, 0,
        2);
    tcase_add_test(device, the_memory_that_flushes_the_caches_is_kept);
    tcase_add_test(device, memory_is_aligned_filled_and_copied);
    tcase_add_test(device, the_device_says_what_it_is);
    tcase_add_test(device, an_unknown_instruction_set_is_refused);
    suite_add_tcase(s, device);

    return s;
}

int main(void)
{
#ifdef SPC_SANITIZE
    suite_sample(6);
#else
    suite_sample(3);
#endif
    return run_suite(suite());
}
