/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_cublas.c - the explicit GEMM by cuBLASLt, on doubles of cuBLASLt and of
 * the driver (fake_cublaslt.c, fake_cuda.c; ctest sets LD_LIBRARY_PATH). Checks
 * the calls of the library, and what happens without it.
 */
#include "coords/map.h"
#include "harness/fake_cublaslt.h"
#include "harness/layer_harness.h"
#include "harness/suite.h"
#include "plan/plan.h"
#include "spc/tune.h"

#include <dlfcn.h>

static fake_cublaslt *fake;

/* Opens a context on the double of the driver; `library` is the file of
 * cuBLASLt. */
static spc_ctx *open_cuda(const char *library)
{
    setenv("SPC_NVRTC", SPC_TEST_NVRTC, 1);
    setenv("SPC_CUBLASLT", library, 1);
    return open_ctx("cuda", "", NULL);
}

static void open_double(void)
{
    void *library = dlopen(SPC_TEST_CUBLASLT, RTLD_NOW);

    ck_assert_msg(library != NULL, "%s", dlerror());
    fake = dlsym(library, "the_fake_cublaslt");
    ck_assert_ptr_nonnull(fake);
    *fake = (fake_cublaslt){0};
}

static spc_status create_plan(spc_plan **out, spc_ctx *ctx,
                              const spc_conv *conv)
{
    spc__attrs problem;
    spc__code code;

    spc__conv_attrs(&problem, conv);
    assert_ok(spc__ctx_code(&code, ctx, "explicit_library", &problem, NULL,
                            SPC_PLAN_JIT),
              spc_ctx_error(ctx));
    return spc__plan_create_from(out, ctx, conv, &code, "explicit_library", "");
}

/* ---- calls of the library ------------------------------------------------ */

static const struct {
    const char *layer;
    int type;
    int64_t columns, depth; /* depth of an offset: a multiple of 64 bytes */
} products[] = {
    {"subm,cin=32,cout=48,k=3", 2, 48, 27 * 32},
    {"subm,cin=20,cout=41,k=2,dtype=f32", 0, 41, 8 * 32},
    {"subm,cin=33,cout=7,k=2,dtype=bf16", 14, 7, 8 * 64},
};

typedef struct run {
    spc_ctx *ctx;
    spc_conv conv;
    spc_scene *scene;
    spc_map *map;
    spc_plan *plan;
    spc_buffers buffers;
    void *memory[4];
} run;

static void *memory(run *r, int i, size_t bytes)
{
    assert_ok(spc_memory_alloc(&r->memory[i], r->ctx, bytes),
              spc_ctx_error(r->ctx));
    return r->memory[i];
}

static void run_open(run *r, const char *layer)
{
    spc_error error = {0};

    memset(r, 0, sizeof(*r));
    open_double();
    r->ctx = open_cuda(SPC_TEST_CUBLASLT);
    ck_assert_int_eq(fake->handles, 0); /* the library is not opened yet */
    assert_ok(spc_conv_parse(&r->conv, layer, &error), error.text);
    assert_ok(spc_scene_load(&r->scene, "gen:uniform,n=90,extent=7", &error),
              error.text);
    assert_ok(spc_map_create_from_scene(&r->map, r->ctx, &r->conv, r->scene),
              spc_ctx_error(r->ctx));
    assert_ok(create_plan(&r->plan, r->ctx, &r->conv), spc_ctx_error(r->ctx));
    ck_assert_int_eq(fake->handles, 1);
    assert_ok(spc_map_prepare(r->map, r->plan, NULL), spc_ctx_error(r->ctx));
    r->buffers = (spc_buffers){
        .bytes = sizeof(spc_buffers),
        .in = memory(r, 0, 90 * 1024),
        .out = memory(r, 1, 90 * 1024),
        .weights = memory(r, 2, spc_plan_weights_bytes(r->plan)),
        .workspace = memory(r, 3, spc_plan_workspace_bytes(r->plan, r->map)),
    };
}

static void run_close(run *r)
{
    for (int i = 0; i < LENGTH(r->memory); i++)
        spc_memory_free(r->ctx, r->memory[i]);
    spc_plan_free(r->plan);
    spc_map_free(r->map);
    spc_scene_free(r->scene);
    spc_ctx_free(r->ctx);
    ck_assert_int_eq(fake->handles, 0);
}

START_TEST(a_plan_multiplies_its_matrix_by_all_weights)
{
    run r;

    run_open(&r, products[_i].layer);
    assert_ok(spc_plan_execute(r.plan, r.map, &r.buffers, NULL),
              spc_ctx_error(r.ctx));
    ck_assert_int_eq(fake->products, 1);
    ck_assert_int_eq(fake->compute, 68); /* CUBLAS_COMPUTE_32F */
    ck_assert_int_eq(fake->type, products[_i].type);
    ck_assert_int_eq(fake->result_type, 0); /* CUDA_R_32F */
    ck_assert_int_eq(fake->rows, r.map->to->rows_padded);
    ck_assert_int_eq(fake->columns, products[_i].columns);
    ck_assert_int_eq(fake->depth, products[_i].depth);
    ck_assert_ptr_eq(fake->matrix, r.memory[3]);
    ck_assert_ptr_eq(fake->weights, r.memory[2]);
    /* The matrix and the result fill the workspace. */
    ck_assert_ptr_eq((char *)fake->result + 4 * fake->rows * fake->columns,
                     (char *)r.memory[3] +
                         spc_plan_workspace_bytes(r.plan, r.map));
    run_close(&r);
}
END_TEST

START_TEST(a_product_that_fails_fails_the_plan)
{
    run r;

    run_open(&r, products[0].layer);
    fake->fails_with = 15;
    ck_assert_int_eq(spc_plan_execute(r.plan, r.map, &r.buffers, NULL),
                     SPC_EDEVICE);
    assert_says(spc_ctx_error(r.ctx),
                "cuBLASLt cannot multiply 768 x 864 by 864 x 48: status 15");
    run_close(&r);
}
END_TEST

/* Opening the library takes long, so a plan that does not use it does not open
 * it. */
START_TEST(a_default_asks_for_no_library)
{
    spc_plan *plan;
    spc_map *map;
    run r;

    run_open(&r, products[0].layer);
    spc_ctx *ctx = open_cuda(SPC_TEST_CUBLASLT);
    assert_ok(spc_map_create_from_scene(&map, ctx, &r.conv, r.scene),
              spc_ctx_error(ctx));
    assert_ok(spc_plan_create(&plan, ctx, &r.conv, map, SPC_PLAN_JIT),
              spc_ctx_error(ctx));
    ck_assert_int_eq(fake->handles, 1); /* shared with the other plan */
    spc_plan_free(plan);
    spc_map_free(map);
    spc_ctx_free(ctx);
    run_close(&r);
}
END_TEST

/* ---- without the library ------------------------------------------------- */

static void note_library(const spc_trial *trial, void *payload)
{
    int *refused = payload;

    if (strcmp(trial->template_name, "explicit_library") == 0 &&
        strstr(trial->note, "no library for products") != NULL)
        ++*refused;
}

/* The library is missing, lacks the functions, or fails to start. */
START_TEST(without_the_library_its_candidate_is_not_offered)
{
    static const char *const libraries[] = {"/nonexistent/libcublasLt.so",
                                            SPC_TEST_NVRTC, SPC_TEST_CUBLASLT};
    spc_tune_options options = SPC_TUNE_OPTIONS_INIT;
    spc_tune_report report;
    spc_error error = {0};
    spc_plan *plan;
    spc_conv conv;
    int refused = 0;

    open_double();
    fake->fails_to_start = 1;
    spc_ctx *ctx = open_cuda(libraries[_i]);
    options.stage = SPC_STAGE_LIST;
    options.on_trial = note_library;
    options.payload = &refused;
    assert_ok(spc_conv_parse(&conv, products[0].layer, &error), error.text);
    assert_ok(spc_tune(&report, ctx, &conv, NULL, 0, &options),
              spc_ctx_error(ctx));
    ck_assert_int_eq(refused, 1);
    ck_assert_int_gt(report.candidates, 0);
    ck_assert_int_eq(create_plan(&plan, ctx, &conv), SPC_EUNSUPPORTED);
    assert_says(spc_ctx_error(ctx), "no library for products of matrices");
    ck_assert_int_eq(fake->handles, 0);
    spc_ctx_free(ctx);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("cublas");
    TCase *tcase = tcase_create("all");

    tcase_add_loop_test(tcase, a_plan_multiplies_its_matrix_by_all_weights, 0,
                        LENGTH(products));
    tcase_add_test(tcase, a_product_that_fails_fails_the_plan);
    tcase_add_test(tcase, a_default_asks_for_no_library);
    tcase_add_loop_test(tcase, without_the_library_its_candidate_is_not_offered,
                        0, 3);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
