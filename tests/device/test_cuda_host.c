/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_cuda_host.c - the host code of the cuda device, on a double of the
 * driver (fake_cuda.c). Checks the driver calls, their order, and the handling
 * of their errors.
 *
 * ctest sets LD_LIBRARY_PATH to the double's folder.
 */
#include "harness/fake_driver.h"

#include "coords/index/indexer.h"
#include "coords/map.h"
#include "harness/counted_allocations.h"
#include "harness/folder_harness.h"
#include "harness/layer_harness.h"
#include "plan/plan.h"

#include "base/error.h"
#include "base/file.h"
#include "harness/suite.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define TEMPLATES SPC_TEST_DATA "/templates/cuda_host"
#define LAYER "subm,cin=4,cout=8,dtype=f32"
#define SORTED LAYER ",bias=1" /* the default configuration sorts its rows */

static spc_error error;
static spc__cuda api; /* the driver as a host application sees it */

/* ---- a driver that is missing or incomplete ------------------------------ */

static bool no_driver;
static const char *no_symbol;

void *__real_dlopen(const char *name, int mode);
void *__real_dlsym(void *handle, const char *name);
void *__wrap_dlopen(const char *name, int mode);
void *__wrap_dlsym(void *handle, const char *name);

void *__wrap_dlopen(const char *name, int mode)
{
    if (no_driver && strcmp(name, "libcuda.so.1") == 0)
        return NULL;
    return __real_dlopen(name, mode);
}

void *__wrap_dlsym(void *handle, const char *name)
{
    if (no_symbol != NULL && strcmp(name, no_symbol) == 0)
        return NULL;
    return __real_dlsym(handle, name);
}

/* ---- set up -------------------------------------------------------------- */

static char database[400];

static void set_up(void)
{
    load_fake_driver();
    assert_ok(spc__cuda_open(&api, &error), error.text);
    make_folder();
    snprintf(database, sizeof(database), "%s", at("own.db"));
}

/* Checks that no object of the driver is left, and that no context had to free
 * any. */
static void assert_all_freed(void)
{
    const fake_live none = {0};

    ck_assert_msg(memcmp(&fake->live, &none, sizeof(none)) == 0,
                  "left: memory %d, modules %d, streams %d, events %d, graphs "
                  "%d, executable graphs %d",
                  fake->live.memory, fake->live.modules, fake->live.streams,
                  fake->live.events, fake->live.graphs, fake->live.graph_execs);
    ck_assert_int_eq(fake->reclaimed, 0);
    ck_assert_int_eq(fake->retained, 0);
}

static void expect_failure(spc_status status, spc_status wanted,
                           const char *says)
{
    ck_assert_msg(status == wanted, "%s, not %s: %s", spc_status_name(status),
                  spc_status_name(wanted), error.text);
    assert_says(error.text, says);
}

static spc_status try_open(spc_ctx **out, const char *device)
{
    spc_ctx_options options = SPC_CTX_OPTIONS_INIT;

    options.device = device;
    options.database = "";
    options.template_dir = TEMPLATES;
    options.threads = 1;
    memset(&error, 0, sizeof(error));
    return spc_ctx_create(out, &options, &error);
}

/* ---- the calls of a host application ------------------------------------- */

/* The hook that step_open gives to the context. NULL functions mean no hook. */
static spc_memory_hook hook;

typedef struct life {
    const char *database, *layer;
    int64_t rows;
    spc_ctx *ctx;
    spc_conv conv;
    spc_scene *scene;
    spc_map *map, *other;
    spc_plan *plan;
    void *coords, *in, *out, *weights, *packed, *bias, *workspace;
    int32_t *index; /* filled by spc_map_download */
    char text[1024];
} life;

static spc_status step_open(life *l)
{
    spc_ctx_options options = SPC_CTX_OPTIONS_INIT;
    spc_error why = {0};

    options.device = "cuda";
    options.database = l->database;
    options.template_dir = TEMPLATES;
    options.threads = 1;
    options.memory = hook;
    spc_status status = spc_ctx_create(&l->ctx, &options, &why);
    if (status != SPC_OK)
        ck_assert_ptr_null(l->ctx);
    snprintf(l->text, sizeof(l->text), "%s", why.text);
    return status;
}

static spc_status need_memory(life *l, void **out, size_t bytes)
{
    if (*out != NULL)
        return SPC_OK;
    spc_status status = spc_memory_alloc(out, l->ctx, bytes);
    if (status != SPC_OK)
        ck_assert_ptr_null(*out);
    return status;
}

static spc_status step_alloc(life *l)
{
    size_t offsets = 27, rows = (size_t)l->rows;
    size_t cin = (size_t)l->conv.cin, cout = (size_t)l->conv.cout;
    spc_status status;

    if ((status = need_memory(l, &l->coords, 16 * rows)) != SPC_OK ||
        (status = need_memory(l, &l->in, 4 * cin * rows)) != SPC_OK ||
        (status = need_memory(l, &l->out, 4 * cout * rows)) != SPC_OK ||
        (status = need_memory(l, &l->bias, 4 * cout)) != SPC_OK)
        return status;
    return need_memory(l, &l->weights, 4 * offsets * cin * cout);
}

static spc_status step_copy_in(life *l)
{
    return spc_memory_upload(l->coords, l->ctx, spc_scene_coords(l->scene),
                             16 * (size_t)l->rows);
}

static spc_status step_map(life *l)
{
    spc_status status = spc_map_create_from_rows(&l->map, l->ctx, &l->conv,
                                                 l->coords, l->rows, NULL);
    ck_assert((status == SPC_OK) == (l->map != NULL));
    return status;
}

static spc_status step_map_from_scene(life *l)
{
    spc_status status =
        spc_map_create_from_scene(&l->other, l->ctx, &l->conv, l->scene);
    ck_assert((status == SPC_OK) == (l->other != NULL));
    return status;
}

static spc_status step_plan(life *l)
{
    spc_status status = spc_plan_create(&l->plan, l->ctx, &l->conv, l->map, 0);
    ck_assert((status == SPC_OK) == (l->plan != NULL));
    return status;
}

static spc_status step_prepare(life *l)
{
    return spc_map_prepare(l->other, l->plan, NULL);
}

static spc_status step_pack(life *l)
{
    spc_status status =
        need_memory(l, &l->packed, spc_plan_weights_bytes(l->plan));

    if (status == SPC_OK)
        status = need_memory(l, &l->workspace,
                             spc_plan_workspace_bytes(l->plan, l->map));
    return status == SPC_OK
               ? spc_plan_pack(l->packed, l->plan, l->weights, SPC_KRSC, NULL)
               : status;
}

static spc_status execute(life *l, const spc_map *map, void *stream)
{
    spc_buffers buffers = {.bytes = sizeof(spc_buffers),
                           .in = l->in,
                           .out = l->out,
                           .weights = l->packed,
                           .bias = l->bias,
                           .workspace = l->workspace};
    return spc_plan_execute(l->plan, map, &buffers, stream);
}

static spc_status step_execute(life *l)
{
    return execute(l, l->map, NULL);
}

static spc_status step_execute_other(life *l)
{
    return execute(l, l->other, NULL);
}

static spc_status step_synchronize(life *l)
{
    return spc_ctx_synchronize(l->ctx);
}

static spc_status step_copy_out(life *l)
{
    int32_t first[4] = {-1, -1, -1, -1};
    spc_status status =
        spc_memory_download(first, l->ctx, l->coords, sizeof(first));

    if (status == SPC_OK)
        ck_assert_mem_eq(first, spc_scene_coords(l->scene), sizeof(first));
    return status;
}

/* Writes the map's order first, as the double runs no kernel. */
static spc_status step_download(life *l)
{
    for (int i = 0; i < l->rows; i++)
        l->map->plain.order[i] = i;
    return spc_map_download(l->index, l->map);
}

typedef struct step {
    const char *name;
    spc_status (*run)(life *l);
} step;

static const step steps[] = {
    {"spc_ctx_create", step_open},
    {"spc_memory_alloc", step_alloc},
    {"spc_memory_upload", step_copy_in},
    {"spc_map_create_from_rows", step_map},
    {"spc_map_create_from_scene", step_map_from_scene},
    {"spc_plan_create", step_plan},
    {"spc_map_prepare", step_prepare},
    {"spc_plan_pack", step_pack},
    {"spc_plan_execute", step_execute},
    {"spc_plan_execute", step_execute_other},
    {"spc_ctx_synchronize", step_synchronize},
    {"spc_memory_download", step_copy_out},
    {"spc_map_download", step_download},
};

static void life_begin(life *l, const char *layer, const char *scene)
{
    memset(l, 0, sizeof(*l));
    l->database = database;
    l->layer = layer;
    assert_ok(spc_conv_parse(&l->conv, layer, &error), error.text);
    assert_ok(spc_scene_load(&l->scene, scene, &error), error.text);
    l->rows = spc_scene_rows(l->scene);
    l->index = calloc(27 * (size_t)l->rows, sizeof(*l->index));
    fake->launches = 0;
}

static void life_end(life *l)
{
    spc_plan_free(l->plan);
    spc_map_free(l->map);
    spc_map_free(l->other);
    void *const memory[] = {l->coords, l->in,   l->out,      l->weights,
                            l->packed, l->bias, l->workspace};
    for (int i = 0; i < LENGTH(memory); i++)
        spc_memory_free(l->ctx, memory[i]);
    spc_ctx_free(l->ctx);
    spc_scene_free(l->scene);
    free(l->index);
}

static const char *sentence(const life *l)
{
    return l->ctx != NULL ? spc_ctx_error(l->ctx) : l->text;
}

static void run_steps(life *l, int count)
{
    for (int i = 0; i < count; i++) {
        spc_status status = steps[i].run(l);
        ck_assert_msg(status == SPC_OK, "%s: %s", steps[i].name, sentence(l));
    }
}

/* Stores the compiled code that the steps need, so that they do not run Lua. */
static void fill_database(const char *layer)
{
    life l;

    life_begin(&l, layer, "gen:uniform,n=300,extent=9");
    run_steps(&l, LENGTH(steps));
    life_end(&l);
}

/* ---- the list of devices ------------------------------------------------- */

START_TEST(without_a_driver_there_is_no_device)
{
    spc_ctx *ctx;

    no_driver = true;
    expect_failure(try_open(&ctx, "cuda"), SPC_ENODEVICE,
                   "libcuda.so.1 cannot be opened");
    ck_assert_ptr_null(ctx);
    ck_assert_int_eq(try_open(&ctx, NULL), SPC_OK); /* opens the cpu */
    spc_ctx_free(ctx);
}
END_TEST

static bool counts_gpus(const char *symbol)
{
    return strcmp(symbol, "cuInit") == 0 ||
           strcmp(symbol, "cuDeviceGetCount") == 0;
}

START_TEST(a_driver_that_lacks_a_symbol_is_too_old)
{
    spc_ctx *ctx;

    no_symbol = fake_symbols[_i];
    expect_failure(try_open(&ctx, "cuda:0"),
                   counts_gpus(no_symbol) ? SPC_ENODEVICE : SPC_EDEVICE,
                   "too old");
    assert_says(error.text, fake_symbols[_i]);
    ck_assert_ptr_null(ctx);
}
END_TEST

/*
 * If the driver can report a GPU, the processor must not silently replace it.
 */
START_TEST(a_driver_that_is_too_old_for_its_gpu_is_an_error)
{
    bool blind = counts_gpus(fake_symbols[_i]);
    spc_ctx *ctx;

    no_symbol = fake_symbols[_i];
    if (!blind)
        expect_failure(try_open(&ctx, NULL), SPC_EDEVICE,
                       "is there but cannot be used");
    fake->devices = 0;
    assert_ok(try_open(&ctx, NULL), error.text); /* opens the cpu */
    spc_ctx_free(ctx);
}
END_TEST

START_TEST(a_driver_without_devices_is_no_device)
{
    spc_device_info info;
    spc_ctx *ctx;

    fake->devices = 0;
    expect_failure(try_open(&ctx, "cuda"), SPC_ENODEVICE, "finds no GPU");
    fake->fail_call = FAKE_Init;
    fake->fail_with = FAKE_NO_DEVICE;
    expect_failure(try_open(&ctx, "cuda"), SPC_ENODEVICE,
                   "CUDA_ERROR_NO_DEVICE (100): no device is detected");
    ck_assert_int_eq(spc_devices_list(&info, 1), 2); /* cpu and sim remain */
    assert_says(info.id, "cpu");
}
END_TEST

static const struct {
    int call;
    CUresult with;
    spc_status status;
    const char *says;
} unusable[] = {
    {FAKE_DevicePrimaryCtxRetain, CUDA_ERROR_OUT_OF_MEMORY, SPC_ENOMEM,
     "CUDA_ERROR_OUT_OF_MEMORY (2): out of memory"},
    {FAKE_DevicePrimaryCtxRetain, FAKE_UNAVAILABLE, SPC_EDEVICE,
     "CUDA_ERROR_DEVICE_UNAVAILABLE (46): CUDA-capable device(s) is/are busy"},
    {FAKE_DevicePrimaryCtxRetain, FAKE_ECC_UNCORRECTABLE, SPC_EDEVICE,
     "CUDA_ERROR_ECC_UNCORRECTABLE (214): uncorrectable ECC error"},
    {FAKE_DevicePrimaryCtxRetain, FAKE_LAUNCH_FAILED, SPC_EDEVICE,
     "CUDA_ERROR_LAUNCH_FAILED"},
    {FAKE_DevicePrimaryCtxRetain, FAKE_INVALID_DEVICE, SPC_EDEVICE,
     "CUDA_ERROR_INVALID_DEVICE"},
    {FAKE_DevicePrimaryCtxRetain, FAKE_NO_DEVICE, SPC_EDEVICE,
     "CUDA_ERROR_NO_DEVICE"}, /* although one was counted */
    {FAKE_CtxGetCurrent, FAKE_UNAVAILABLE, SPC_EDEVICE,
     "CUDA_ERROR_DEVICE_UNAVAILABLE"},
    {FAKE_DeviceGet, FAKE_ECC_UNCORRECTABLE, SPC_EDEVICE,
     "CUDA_ERROR_ECC_UNCORRECTABLE"},
    {FAKE_DeviceGetAttribute, FAKE_UNAVAILABLE, SPC_EDEVICE,
     "CUDA_ERROR_DEVICE_UNAVAILABLE"},
    {FAKE_DeviceGetCount, FAKE_UNAVAILABLE, SPC_EDEVICE,
     "CUDA_ERROR_DEVICE_UNAVAILABLE"},
    {FAKE_Init, CUDA_ERROR_OUT_OF_MEMORY, SPC_ENOMEM,
     "CUDA_ERROR_OUT_OF_MEMORY"},
    {FAKE_Init, FAKE_LAUNCH_FAILED, SPC_EDEVICE, "CUDA_ERROR_LAUNCH_FAILED"},
    {FAKE_Init, FAKE_NOT_READY, SPC_EDEVICE,
     "CUDA_ERROR_SYSTEM_NOT_READY (802): system not yet initialized"},
    {FAKE_Init, FAKE_DRIVER_MISMATCH, SPC_EDEVICE,
     "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH (803): system has unsupported"},
    {FAKE_Init, 35 /* the driver is too old */, SPC_EDEVICE, "(35)"},
};

/* Other programs may use the GPU's memory. The processor must not silently
 * replace the GPU then. */
START_TEST(a_gpu_that_cannot_be_used_is_an_error_unless_the_cpu_is_asked_for)
{
    spc_ctx *ctx;

    fake->fail_call = unusable[_i].call;
    fake->fail_with = unusable[_i].with;
    expect_failure(try_open(&ctx, NULL), unusable[_i].status,
                   "is there but cannot be used (name \"cpu\" to do without)");
    ck_assert_ptr_null(ctx);
    assert_says(error.text, unusable[_i].says);
    expect_failure(try_open(&ctx, "cuda:0"), unusable[_i].status,
                   unusable[_i].says);
    assert_ok(try_open(&ctx, "cpu"), error.text);
    spc_ctx_free(ctx);
    assert_all_freed();
}
END_TEST

static const struct {
    int devices;
    const char *id, *says;
} ordinals[] = {
    {1, "cuda:1", "no device cuda:1: this machine has 1 (cuda:0 to cuda:0)"},
    {2, "cuda:2", "no device cuda:2: this machine has 2 (cuda:0 to cuda:1)"},
    {1, "cuda:9999", "no device cuda:9999"},
};

START_TEST(an_ordinal_beyond_the_count_is_no_device)
{
    spc_ctx *ctx;

    fake->devices = ordinals[_i].devices;
    expect_failure(try_open(&ctx, ordinals[_i].id), SPC_ENODEVICE,
                   ordinals[_i].says);
    assert_all_freed();
}
END_TEST

START_TEST(what_a_device_is_comes_from_its_attributes)
{
    spc_device_info info, listed[FAKE_DEVICES];
    spc_ctx *ctx;

    fake->devices = 2;
    assert_ok(try_open(&ctx, "cuda:1"), error.text);
    assert_ok(spc_ctx_device(&info, ctx), spc_ctx_error(ctx));
    ck_assert_str_eq(info.id, "cuda:1");
    ck_assert_str_eq(info.name, "NVIDIA H200");
    ck_assert_str_eq(info.target, "sm_90a");
    ck_assert_str_eq(info.driver, "13.0");
    ck_assert_int_eq(info.multiprocessors, 132);
    ck_assert(info.memory_bytes == (size_t)139 << 30);
    ck_assert_int_ge(spc_devices_list(listed, 2), 2);
    ck_assert_str_eq(listed[0].id, "cuda:0");
    ck_assert_mem_eq(&listed[1], &info, sizeof(info));
    const struct {
        const char *name;
        int64_t value;
    } facts[] = {
        {"sm", 90},
        {"shared_block", 232448},
        {"shared_sm", 233472},
        {"registers_sm", 65536},
        {"max_threads", 1024},
        {"multiprocessors", 132},
    };
    for (int i = 0; i < LENGTH(facts); i++)
        ck_assert_int_eq(spc__attrs_number(&ctx->target, facts[i].name, -1),
                         facts[i].value);
    ck_assert_str_eq(spc__attrs_text(&ctx->target, "target", ""), "sm_90a");
    spc_ctx_free(ctx);
    assert_all_freed();
}
END_TEST

START_TEST(only_compute_capability_9_0_has_a_target_of_its_own)
{
    spc_device_info info;
    spc_ctx *ctx;

    fake->major = 8;
    fake->minor = 6;
    fake->version = 12040;
    assert_ok(try_open(&ctx, "cuda"), error.text);
    assert_ok(spc_ctx_device(&info, ctx), spc_ctx_error(ctx));
    ck_assert_str_eq(info.target, "sm_86");
    ck_assert_str_eq(info.driver, "12.4");
    spc_ctx_free(ctx);
}
END_TEST

/* An unknown device would be tuned as another one. */
static const struct {
    int call;
    const char *says;
} facts_needed[] = {
    {FAKE_DeviceGetCount, "CUDA_ERROR_LAUNCH_FAILED"},
    {FAKE_DeviceGet, "CUDA_ERROR_LAUNCH_FAILED"},
    {FAKE_DeviceGetName, "CUDA_ERROR_LAUNCH_FAILED"},
    {FAKE_DeviceTotalMem, "CUDA_ERROR_LAUNCH_FAILED"},
    {FAKE_DeviceGetAttribute, "CUDA_ERROR_LAUNCH_FAILED"},
    {FAKE_DevicePrimaryCtxRetain, "CUDA_ERROR_LAUNCH_FAILED"},
};

START_TEST(a_device_that_does_not_say_what_it_is_is_not_opened)
{
    spc_device_info list[4];
    spc_ctx *ctx = NULL;

    fake->fail_call = facts_needed[_i].call;
    ck_assert_int_ne(try_open(&ctx, "cuda"), SPC_OK);
    assert_says(error.text, facts_needed[_i].says);
    ck_assert_ptr_null(ctx);
    assert_all_freed();
    /* The list may lack devices, but each entry must be right. */
    memset(list, 'x', sizeof(list));
    int count = spc_devices_list(list, LENGTH(list));
    for (int i = 0; i < count; i++)
        ck_assert_msg(memchr(list[i].id, '\0', sizeof(list[i].id)) != NULL &&
                          list[i].name[0] != '\0',
                      "device %d has no name", i);
}
END_TEST

START_TEST(an_error_that_the_driver_cannot_name_keeps_its_number)
{
    spc_ctx *ctx;
    void *memory;

    assert_ok(try_open(&ctx, "cuda"), error.text);
    fake->fail_call = FAKE_MemAlloc;
    fake->fail_with = 4711;
    ck_assert_int_eq(spc_memory_alloc(&memory, ctx, 12), SPC_EDEVICE);
    assert_says(spc_ctx_error(ctx), "cannot allocate 12 bytes on cuda:0: "
                                    "unknown CUDA error (4711)");
    fake->fail_with = CUDA_ERROR_OUT_OF_MEMORY;
    ck_assert_int_eq(spc_memory_alloc(&memory, ctx, 12), SPC_ENOMEM);
    ck_assert_ptr_null(memory);
    spc_ctx_free(ctx);
}
END_TEST

/* ---- contexts ------------------------------------------------------------ */

/* Checks the calling thread's current context, and the number of contexts below
 * it on the stack. */
static void assert_current(CUcontext wanted, int depth, const char *after)
{
    CUcontext current = NULL;

    api.CtxGetCurrent(&current);
    ck_assert_msg(current == wanted && fake->context_depth() == depth,
                  "%s leaves another context current", after);
}

static void live_with(CUcontext context, int depth, int retained)
{
    life l;

    life_begin(&l, SORTED, "gen:uniform,n=300,extent=9");
    for (int i = 0; i < LENGTH(steps); i++) {
        spc_status status = steps[i].run(&l);
        ck_assert_msg(status == SPC_OK, "%s: %s", steps[i].name, sentence(&l));
        assert_current(context, depth, steps[i].name);
        ck_assert_int_eq(fake->retained, retained);
    }
    ck_assert_int_eq(fake->count[FAKE_DevicePrimaryCtxRetain], retained);
    life_end(&l);
    assert_current(context, depth, "the end");
    assert_all_freed();
}

START_TEST(without_a_current_context_the_primary_one_is_retained_once)
{
    live_with(NULL, 0, 1);
    ck_assert_int_eq(fake->count[FAKE_DevicePrimaryCtxRelease], 1);
    ck_assert_int_eq(fake->count[FAKE_CtxPushCurrent],
                     fake->count[FAKE_CtxPopCurrent]);
}
END_TEST

START_TEST(a_context_of_the_caller_is_used_and_left_as_it_was)
{
    CUcontext mine = fake->context_create(0);

    live_with(mine, 1, 0);
    ck_assert_int_eq(fake->count[FAKE_CtxPushCurrent], 0);
    fake->context_destroy(mine);
    ck_assert_int_eq(fake->reclaimed, 0);
}
END_TEST

/*
 * Between calls, the application may make another context current.
 */
START_TEST(a_context_of_the_caller_is_made_current_where_it_is_not)
{
    CUcontext mine = fake->context_create(0), other;
    life l;

    life_begin(&l, LAYER, "gen:uniform,n=300,extent=9");
    run_steps(&l, 1);
    other = fake->context_create(0);
    for (int i = 1; i < LENGTH(steps); i++) {
        spc_status status = steps[i].run(&l);
        ck_assert_msg(status == SPC_OK, "%s: %s", steps[i].name, sentence(&l));
        assert_current(other, 2, steps[i].name);
    }
    life_end(&l);
    assert_current(other, 2, "the end");
    fake->context_destroy(other);
    fake->context_destroy(mine);
    assert_all_freed();
    ck_assert_int_eq(fake->count[FAKE_DevicePrimaryCtxRetain], 0);
}
END_TEST

/* Acts like an application that uses the CUDA runtime API and releases the
 * device before libspc does. */
START_TEST(a_primary_context_of_the_caller_is_held)
{
    CUcontext mine, popped;
    life l;

    ck_assert_int_eq(api.DevicePrimaryCtxRetain(&mine, 0), CUDA_SUCCESS);
    ck_assert_int_eq(api.CtxPushCurrent(mine), CUDA_SUCCESS);
    life_begin(&l, LAYER, "gen:uniform,n=300,extent=9");
    run_steps(&l, 1);
    ck_assert_int_eq(fake->retained, 2);
    ck_assert_int_eq(api.CtxPopCurrent(&popped), CUDA_SUCCESS);
    ck_assert_int_eq(api.DevicePrimaryCtxRelease(0), CUDA_SUCCESS);
    ck_assert_int_eq(fake->retained, 1);
    for (int i = 1; i < LENGTH(steps); i++) {
        spc_status status = steps[i].run(&l);
        ck_assert_msg(status == SPC_OK, "%s: %s", steps[i].name, sentence(&l));
    }
    life_end(&l);
    assert_all_freed();
    ck_assert_int_eq(fake->reclaimed, 0);
}
END_TEST

START_TEST(a_current_context_that_was_destroyed_is_none)
{
    CUcontext gone, popped;
    spc_ctx *ctx;

    ck_assert_int_eq(api.DevicePrimaryCtxRetain(&gone, 0), CUDA_SUCCESS);
    ck_assert_int_eq(api.CtxPushCurrent(gone), CUDA_SUCCESS);
    ck_assert_int_eq(api.DevicePrimaryCtxRelease(0), CUDA_SUCCESS);
    assert_ok(try_open(&ctx, "cuda"), error.text);
    ck_assert_int_eq(fake->retained, 1);
    spc_ctx_free(ctx);
    ck_assert_int_eq(api.CtxPopCurrent(&popped), CUDA_SUCCESS);
    assert_all_freed();
}
END_TEST

START_TEST(a_context_on_another_device_than_the_one_asked_for_is_not_used)
{
    CUcontext mine = fake->context_create(0);
    spc_device_info info;
    spc_ctx *ctx;

    fake->devices = 2;
    assert_ok(try_open(&ctx, "cuda:1"), error.text);
    assert_ok(spc_ctx_device(&info, ctx), spc_ctx_error(ctx));
    ck_assert_str_eq(info.id, "cuda:1");
    ck_assert_int_eq(fake->retained, 1);
    assert_current(mine, 1, "spc_ctx_create");
    spc_ctx_free(ctx);
    fake->context_destroy(mine);
    assert_all_freed();
}
END_TEST

START_TEST(without_an_ordinal_the_device_of_the_callers_context_is_meant)
{
    spc_device_info info;
    spc_ctx *ctx;

    fake->devices = 2;
    CUcontext mine = fake->context_create(1);
    assert_ok(try_open(&ctx, "cuda"), error.text);
    assert_ok(spc_ctx_device(&info, ctx), spc_ctx_error(ctx));
    ck_assert_str_eq(info.id, "cuda:1");
    ck_assert_int_eq(fake->retained, 0);
    spc_ctx_free(ctx);
    fake->context_destroy(mine);
}
END_TEST

/* Any other context would lack the caller's memory and streams. */
START_TEST(a_context_that_cannot_be_asked_about_is_not_replaced)
{
    static const int calls[] = {FAKE_CtxGetCurrent, FAKE_CtxGetDevice};
    CUcontext mine = fake->context_create(0);
    spc_ctx *ctx;

    for (int i = 0; i < LENGTH(calls); i++) {
        fake->fail_call = calls[i];
        expect_failure(try_open(&ctx, "cuda"), SPC_EDEVICE,
                       "CUDA_ERROR_LAUNCH_FAILED");
        ck_assert_int_eq(fake->count[FAKE_DevicePrimaryCtxRetain], 0);
    }
    fake->context_destroy(mine);
}
END_TEST

/* ---- every call fails once ----------------------------------------------- */

/*
 * Calls whose failure does not affect the result: they give information for
 * humans or hints, load code that can also be compiled, or free something.
 */
static bool may_pass_over(int call)
{
    static const int passed[] = {
        FAKE_DriverGetVersion, FAKE_DevicePrimaryCtxGetState,
        FAKE_CtxGetCurrent,    FAKE_FuncGetAttribute,
        FAKE_FuncSetAttribute, FAKE_OccupancyMaxActiveBlocksPerMultiprocessor,
        FAKE_ModuleLoadData,   FAKE_ModuleUnload,
        FAKE_MemFree,          FAKE_CtxPushCurrent,
        FAKE_CtxPopCurrent,    FAKE_DevicePrimaryCtxRelease,
    };

    for (int i = 0; i < LENGTH(passed); i++)
        if (passed[i] == call)
            return true;
    return false;
}

static const struct failing {
    const char *layer;
    bool mine; /* the caller has a current context */
    CUresult with;
    const char *name;
} failing[] = {
    {LAYER, false, FAKE_LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED"},
    {SORTED, false, CUDA_ERROR_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY"},
    {SORTED, true, FAKE_LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED"},
};

/* Checks that the step fails with the injected error. The next try must
 * succeed. */
static void try_step(life *l, const step *at, const struct failing *f)
{
    bool before = fake->failed >= 0;
    spc_status status = at->run(l);

    if (status != SPC_OK) {
        ck_assert_msg(!before && fake->failed >= 0, "%s: %s", at->name,
                      sentence(l));
        ck_assert_msg(strstr(sentence(l), f->name) != NULL,
                      "%s, when %s fails: %s", at->name,
                      fake_symbols[fake->failed], sentence(l));
        status = at->run(l);
    } else if (!before && fake->failed >= 0) {
        ck_assert_msg(may_pass_over(fake->failed), "%s hides that %s failed",
                      at->name, fake_symbols[fake->failed]);
    }
    ck_assert_msg(status == SPC_OK, "%s, after %s failed once: %s", at->name,
                  fake_symbols[fake->failed], sentence(l));
}

/* Returns the stages of a launch that fills a set or a map (index_abi.h), else
 * 0. */
static int stages(const fake_launch *at)
{
    const spc_index_args *args = &at->args.index;

    if (strcmp(at->kernel, "spc_index") != 0)
        return 0;
    return args->stages;
}

static bool is_like(const fake_launch *a, const fake_launch *b)
{
    return strcmp(a->kernel, b->kernel) == 0 &&
           memcmp(a->grid, b->grid, sizeof(a->grid)) == 0 &&
           a->block == b->block && a->shared_bytes == b->shared_bytes &&
           a->pdl == b->pdl && a->cooperative == b->cooperative &&
           stages(a) == stages(b);
}

static int count_like(const fake_launch *wanted, const fake_launch *among,
                      int count)
{
    int like = 0;

    for (int i = 0; i < count; i++)
        like += is_like(&among[i], wanted);
    return like;
}

/* Checks that no kernel is missing. After a failure some may be launched
 * twice. */
static void expect_launches(const fake_launch *wanted, int count)
{
    ck_assert_int_lt(fake->launches, FAKE_LAUNCHES);
    for (int i = 0; i < count; i++)
        ck_assert_msg(count_like(&wanted[i], fake->launch, fake->launches) >=
                          count_like(&wanted[i], wanted, count),
                      "after %s failed, a launch of '%s' with stages %d is "
                      "missing",
                      fake->failed < 0 ? "nothing" : fake_symbols[fake->failed],
                      wanted[i].kernel, stages(&wanted[i]));
}

/* Lists the launches of a run without failures. They must also occur if a call
 * fails. */
static int all_well(fake_launch *out, const struct failing *f)
{
    life l;

    life_begin(&l, f->layer, "gen:uniform,n=300,extent=9");
    run_steps(&l, LENGTH(steps));
    int count = fake->launches;
    ck_assert_int_lt(count, FAKE_LAUNCHES);
    memcpy(out, fake->launch, (size_t)count * sizeof(*out));
    life_end(&l);
    return count;
}

/* Returns false if there is no call with that number. */
static bool fail_one(const struct failing *f, int number, CUcontext context,
                     const fake_launch *wanted, int count)
{
    int depth = context != NULL;
    life l;

    life_begin(&l, f->layer, "gen:uniform,n=300,extent=9");
    fake->failed = -1;
    fake->fail_with = f->with;
    fake->fail_at = fake->calls + number;
    for (int i = 0; i < LENGTH(steps); i++) {
        try_step(&l, &steps[i], f);
        ck_assert_int_eq(fake->context_depth(), depth);
    }
    expect_launches(wanted, count);
    life_end(&l);
    ck_assert_int_eq(fake->context_depth(), depth);
    /* If the push fails, memory is freed only at the end of its context. */
    if (fake->failed == FAKE_CtxPushCurrent && fake->reclaimed == 1)
        fake->reclaimed = 0;
    assert_all_freed();
    return fake->failed >= 0;
}

START_TEST(when_any_call_of_the_driver_fails_once_the_next_try_succeeds)
{
    const struct failing *f = &failing[_i];
    CUcontext mine = f->mine ? fake->context_create(0) : NULL;
    fake_launch wanted[FAKE_LAUNCHES];
    int number = 1 + suite_variant() % suite_one_in;

    fill_database(f->layer);
    int count = all_well(wanted, f);
    while (fail_one(f, number, mine, wanted, count))
        number += suite_one_in;
    ck_assert_int_gt(number, 100);
    if (mine != NULL)
        fake->context_destroy(mine);
}
END_TEST

/* Acts like a GPU that has been lost. */
START_TEST(when_all_calls_of_a_kind_fail_nothing_is_left)
{
    life l;

    if (_i == FAKE_CtxPushCurrent) /* see the test above */
        return;
    fill_database(SORTED);
    life_begin(&l, SORTED, "gen:uniform,n=300,extent=9");
    fake->fail_call = _i;
    spc_status status = SPC_OK;
    for (int i = 0; i < LENGTH(steps) && status == SPC_OK; i++)
        status = steps[i].run(&l);
    if (status != SPC_OK)
        assert_says(sentence(&l), "CUDA_ERROR_LAUNCH_FAILED");
    life_end(&l);
    ck_assert_int_eq(fake->context_depth(), 0);
    assert_all_freed();
}
END_TEST

/* ---- memory from the caller ---------------------------------------------- */

typedef struct hooked {
    int calls, fail; /* which allocation fails; 0: none */
    size_t live_bytes;
} hooked;

/* Allocates from the double, which accepts only its own memory. */
static void *hook_alloc(size_t bytes, void *stream, void *payload)
{
    hooked *h = payload;
    CUdeviceptr memory = 0;

    (void)stream;
    if (++h->calls == h->fail || api.MemAlloc(&memory, bytes) != CUDA_SUCCESS)
        return NULL;
    h->live_bytes += bytes;
    return (void *)(uintptr_t)memory;
}

static void hook_free(void *memory, size_t bytes, void *stream, void *payload)
{
    hooked *h = payload;

    (void)stream;
    h->live_bytes -= bytes;
    api.MemFree((CUdeviceptr)(uintptr_t)memory);
}

/* Returns how often freeing one block waits. */
static int waits_of_free(bool ordered, hooked *h)
{
    spc_ctx *ctx;
    spc_ctx_options options = SPC_CTX_OPTIONS_INIT;
    void *memory = NULL;

    options.device = "cuda";
    options.database = "";
    options.template_dir = TEMPLATES;
    options.memory = (spc_memory_hook){hook_alloc, hook_free, h, ordered};
    assert_ok(spc_ctx_create(&ctx, &options, &error), error.text);
    assert_ok(spc_memory_alloc(&memory, ctx, 100), spc_ctx_error(ctx));
    int before = fake->count[FAKE_CtxSynchronize];
    spc_memory_free(ctx, memory);
    int waits = fake->count[FAKE_CtxSynchronize] - before;
    spc_ctx_free(ctx);
    return waits;
}

START_TEST(freeing_waits_unless_the_hook_is_ordered)
{
    hooked h = {0};

    ck_assert_int_eq(waits_of_free(false, &h), 1);
    ck_assert_int_eq(waits_of_free(true, &h), 0);
    ck_assert_uint_eq(h.live_bytes, 0);
    assert_all_freed();
}
END_TEST

/* In each round another allocation fails. The next try of the step must
 * succeed. */
START_TEST(all_memory_comes_from_the_hook_and_goes_back_to_it)
{
    int number = 0, calls = 0;

    fill_database(SORTED);
    do {
        int allocs = fake->count[FAKE_MemAlloc];
        int frees = fake->count[FAKE_MemFree];
        hooked h = {.fail = number};
        life l;

        hook = (spc_memory_hook){hook_alloc, hook_free, &h, false};
        life_begin(&l, SORTED, "gen:uniform,n=300,extent=9");
        for (int i = 0; i < LENGTH(steps); i++) {
            spc_status status = steps[i].run(&l);
            if (status != SPC_OK) {
                ck_assert_int_eq(status, SPC_ENOMEM);
                assert_says(sentence(&l), "memory hook");
                status = steps[i].run(&l);
            }
            ck_assert_msg(status == SPC_OK, "%s: %s", steps[i].name,
                          sentence(&l));
        }
        life_end(&l);
        int given = h.calls - (number > 0);
        ck_assert_int_eq(fake->count[FAKE_MemAlloc] - allocs, given);
        ck_assert_int_eq(fake->count[FAKE_MemFree] - frees, given);
        ck_assert_uint_eq(h.live_bytes, 0);
        assert_all_freed();
        calls = number == 0 ? h.calls : calls;
    } while (++number <= calls);
    ck_assert_int_gt(calls, 20);
}
END_TEST

/* ---- after fork() -------------------------------------------------------- */

/* Runs in the child. Returns 0, or the number of the failed check. No call may
 * reach the driver; its double would accept it. */
static int use_after_fork(life *l)
{
    int calls = fake->calls;
    void *memory = NULL;

    if (spc_ctx_is_from_this_process(l->ctx))
        return 1;
    if (step_execute(l) != SPC_ESTATE || strstr(sentence(l), "fork()") == NULL)
        return 2;
    if (spc_memory_alloc(&memory, l->ctx, 16) != SPC_ESTATE || memory != NULL)
        return 3;
    if (spc_ctx_synchronize(l->ctx) != SPC_ESTATE ||
        step_pack(l) != SPC_ESTATE || step_copy_out(l) != SPC_ESTATE)
        return 4;
    life_end(l);
    return fake->calls == calls ? 0 : 5;
}

START_TEST(a_child_of_fork_is_refused_and_disturbs_nothing)
{
    int status = -1;
    life l;

    fill_database(SORTED);
    life_begin(&l, SORTED, "gen:uniform,n=300,extent=9");
    run_steps(&l, LENGTH(steps));
    pid_t child = fork();
    if (child == 0)
        _exit(use_after_fork(&l));
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0,
                  "the child ended with %d", status);
    ck_assert(spc_ctx_is_from_this_process(l.ctx));
    ck_assert_int_eq(step_execute(&l), SPC_OK);
    life_end(&l);
    assert_all_freed();
}
END_TEST

/* ---- running ------------------------------------------------------------- */

static const struct variant {
    const char *config;
    unsigned grid;
    bool pdl, clear;
    const char *order;
    unsigned cluster;
    bool sums; /* a second kernel adds the blocks' partial sums */
} variants[] = {
    /* 40000 rows are 625 tiles. A block gets two tiles, or a multiprocessor two
     * blocks. */
    {"order=none,grid=tiles,pdl=0,clear=0,cluster=1", 313, false, false, "none",
     0, false},
    {"order=gray,grid=tiles,pdl=1,clear=0,cluster=4", 313 * 4, true, false,
     "gray", 4, false},
    {"order=none,grid=persistent,pdl=0,clear=1,cluster=1", 264, false, true,
     "none", 0, false},
    {"order=gray,grid=persistent,pdl=1,clear=1,cluster=1", 264, true, true,
     "gray", 0, false},
    {"order=gray,grid=steps,pdl=1,clear=0,cluster=1", 264, true, false, "gray",
     0, true},
};

static void plan_variant(life *l, const char *config)
{
    spc__attrs problem, chosen;
    spc__code code;

    run_steps(l, 4);
    spc__conv_attrs(&problem, &l->conv);
    assert_ok(spc__attrs_parse(&chosen, config, &error), error.text);
    assert_ok(spc__ctx_code(&code, l->ctx, "plain", &problem, &chosen, 0),
              spc_ctx_error(l->ctx));
    assert_ok(spc__plan_create_from(&l->plan, l->ctx, &l->conv, &code, "plain",
                                    config),
              spc_ctx_error(l->ctx));
    assert_ok(spc_map_prepare(l->map, l->plan, NULL), spc_ctx_error(l->ctx));
    assert_ok(step_pack(l), spc_ctx_error(l->ctx));
}

static const fake_launch *last_launch(void)
{
    return &fake->launch[(fake->launches - 1) % FAKE_LAUNCHES];
}

static void expect_args(const life *l, const struct variant *v,
                        const fake_launch *launch)
{
    const spc_conv_args *args = &launch->args.conv;
    spc_map_view view;

    ck_assert(spc__map_view(&view, l->map, v->order, 64));
    ck_assert_mem_eq(&args->map, &view, sizeof(view));
    ck_assert_int_eq(args->map.rows, 40000);
    ck_assert_int_eq(args->map.tiles, 625);
    ck_assert_ptr_eq(args->in, l->in);
    ck_assert_ptr_eq(args->out, l->out);
    ck_assert_ptr_eq(args->weights, l->packed);
    ck_assert_ptr_eq(args->bias, l->bias);
    ck_assert_ptr_eq(args->workspace, l->workspace);
}

/* The calls that one execution may make; others are not allowed. */
static void expect_calls(const int before[FAKE_CALLS], const struct variant *v)
{
    int allowed[FAKE_CALLS] = {
        [FAKE_CtxGetCurrent] = 2, /* clear and launch, or launch twice */
        [FAKE_CtxPushCurrent] = 2,
        [FAKE_CtxPopCurrent] = 2,
        [FAKE_LaunchKernelEx] = 1 + v->sums,
        [FAKE_MemsetD8Async] = v->clear,
    };

    for (int i = 0; i < FAKE_CALLS; i++)
        ck_assert_msg(fake->count[i] - before[i] <= allowed[i],
                      "executing calls %s", fake_symbols[i]);
    ck_assert_int_eq(fake->count[FAKE_LaunchKernelEx],
                     before[FAKE_LaunchKernelEx] + 1 + v->sums);
    ck_assert_int_eq(fake->count[FAKE_MemsetD8Async],
                     before[FAKE_MemsetD8Async] + v->clear);
}

/* A stream of the caller in the primary context. */
static CUstream open_stream(void)
{
    CUcontext context;
    CUstream stream = NULL;

    api.DevicePrimaryCtxRetain(&context, 0);
    api.CtxPushCurrent(context);
    ck_assert_int_eq(api.StreamCreate(&stream, CU_STREAM_NON_BLOCKING), 0);
    api.CtxPopCurrent(&context);
    api.DevicePrimaryCtxRelease(0);
    return stream;
}

static void close_stream(CUstream stream)
{
    CUcontext context;

    api.DevicePrimaryCtxRetain(&context, 0);
    api.CtxPushCurrent(context);
    api.StreamDestroy(stream);
    api.CtxPopCurrent(&context);
    api.DevicePrimaryCtxRelease(0);
}

/* 264 blocks and 3 blocks of output channels store sums. Rows are padded to
 * 40704. */
static void expect_sum(const life *l, const struct variant *v, CUstream stream)
{
    const fake_launch *sum = last_launch();

    ck_assert_uint_eq(spc_plan_workspace_bytes(l->plan, l->map),
                      64 + 4 * 40704 + 264 * 3 * 1000);
    ck_assert_str_eq(sum->kernel, "spc_sum");
    ck_assert_uint_eq(sum->grid[0], 625);
    ck_assert_uint_eq(sum->grid[1], 7);
    ck_assert_uint_eq(sum->block, 160);
    ck_assert_uint_eq(sum->shared_bytes, 0);
    ck_assert_ptr_eq(sum->stream, stream);
    ck_assert_int_eq(sum->pdl, v->pdl);
    ck_assert_uint_eq(sum->cluster, 0);
    expect_args(l, v, sum);
}

START_TEST(an_execution_is_launched_as_the_template_declares_it)
{
    const struct variant *v = &variants[_i];
    int before[FAKE_CALLS];
    life l;

    life_begin(&l, SORTED, "gen:uniform,n=40000,extent=64");
    plan_variant(&l, v->config);
    CUstream stream = open_stream();
    memcpy(before, fake->count, sizeof(before));
    atomic_store(&watching, 1);
    spc_status status = execute(&l, l.map, stream);
    atomic_store(&watching, 0);
    assert_ok(status, spc_ctx_error(l.ctx));
    ck_assert_int_eq(atomic_load(&allocations), 0);
    expect_calls(before, v);

    const fake_launch *run = last_launch() - v->sums;
    ck_assert_str_eq(run->kernel, "spc_conv");
    ck_assert_uint_eq(run->grid[0], v->grid);
    ck_assert_uint_eq(run->grid[1], 3);
    ck_assert_uint_eq(run->block, 96);
    ck_assert_uint_eq(run->shared_bytes, 70000);
    ck_assert_ptr_eq(run->stream, stream);
    ck_assert_int_eq(run->pdl, v->pdl);
    ck_assert(!run->cooperative);
    ck_assert_uint_eq(run->cluster, v->cluster);
    expect_args(&l, v, run);
    if (v->sums)
        expect_sum(&l, v, stream);
    close_stream(stream);
    life_end(&l);
    assert_all_freed();
}
END_TEST

enum { THREADS = 4, TIMES = 50 };

/* A thread without any CUDA context. */
static void *execute_often(void *payload)
{
    life *l = payload;
    CUstream stream = open_stream();
    intptr_t failed = 0;

    for (int i = 0; i < TIMES; i++)
        failed += execute(l, l->map, stream) != SPC_OK;
    close_stream(stream);
    return (void *)(failed + fake->context_depth());
}

START_TEST(threads_execute_a_plan_each_with_the_context_it_had)
{
    pthread_t threads[THREADS];
    life l;

    life_begin(&l, SORTED, "gen:uniform,n=300,extent=9");
    run_steps(&l, 8);
    int before = fake->count[FAKE_LaunchKernelEx];
    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, execute_often, &l),
                         0);
    for (int i = 0; i < THREADS; i++) {
        void *result;
        pthread_join(threads[i], &result);
        ck_assert_ptr_null(result);
    }
    ck_assert_int_eq(fake->count[FAKE_LaunchKernelEx] - before,
                     THREADS * TIMES);
    ck_assert_int_eq(fake->context_depth(), 0);
    life_end(&l);
    assert_all_freed();
}
END_TEST

START_TEST(before_sm_90_nothing_is_launched_as_a_dependent)
{
    life l;

    fake->major = 8;
    life_begin(&l, SORTED, "gen:uniform,n=40000,extent=64");
    plan_variant(&l, variants[1].config);
    assert_ok(step_execute(&l), spc_ctx_error(l.ctx));
    ck_assert_str_eq(last_launch()->kernel, "spc_conv");
    ck_assert(!last_launch()->pdl);
    life_end(&l);
}
END_TEST

START_TEST(an_output_is_cleared_before_the_launch_that_adds_to_it)
{
    unsigned char *bytes;
    life l;

    life_begin(&l, SORTED, "gen:uniform,n=40000,extent=64");
    plan_variant(&l, variants[2].config);
    bytes = l.out; /* the double uses host memory */
    memset(bytes, 0xff, 40000 * 8 * 4);
    assert_ok(step_execute(&l), spc_ctx_error(l.ctx));
    for (int i = 0; i < 40000 * 8 * 4; i++)
        ck_assert_uint_eq(bytes[i], 0);
    life_end(&l);
}
END_TEST

static const struct {
    spc_weights_layout layout;
    long long stride_k, stride_in, stride_out;
} packings[] = {
    {SPC_KRSC, 4, 1, 27 * 4},
    {SPC_RSCK, 4 * 8, 8, 1},
};

START_TEST(packing_is_told_the_strides_of_the_weights)
{
    life l;

    life_begin(&l, LAYER, "gen:uniform,n=300,extent=9");
    run_steps(&l, 8);
    assert_ok(
        spc_plan_pack(l.packed, l.plan, l.weights, packings[_i].layout, NULL),
        spc_ctx_error(l.ctx));
    const fake_launch *pack = last_launch();
    ck_assert_str_eq(pack->kernel, "spc_pack");
    ck_assert_uint_eq(pack->block, 256);
    ck_assert_uint_eq(pack->grid[0], (27 * 4 * 8 + 255) / 256);
    ck_assert_uint_eq(pack->grid[1], 1);
    ck_assert(!pack->pdl && !pack->cooperative);
    ck_assert_ptr_eq(pack->args.pack.weights, l.weights);
    ck_assert_ptr_eq(pack->args.pack.packed, l.packed);
    ck_assert_int_eq(pack->args.pack.stride_k, packings[_i].stride_k);
    ck_assert_int_eq(pack->args.pack.stride_in, packings[_i].stride_in);
    ck_assert_int_eq(pack->args.pack.stride_out, packings[_i].stride_out);
    life_end(&l);
}
END_TEST

/* The kernel has a grid barrier, so every block must be resident. */
START_TEST(a_map_is_built_by_one_cooperative_launch)
{
    life l;

    life_begin(&l, LAYER, "gen:uniform,n=40000,extent=64");
    run_steps(&l, 4);
    ck_assert_int_eq(fake->launches, 1);
    const fake_launch *build = last_launch();
    ck_assert_str_eq(build->kernel, "spc_index");
    ck_assert(build->cooperative && !build->pdl);
    ck_assert_uint_eq(build->grid[0], 132);
    ck_assert_uint_eq(build->block, 1024);
    ck_assert_ptr_eq(build->args.index.coords, l.coords);
    ck_assert_int_eq(build->args.index.source_rows, 40000);
    ck_assert_int_eq(spc_map_pairs(l.map), 7);
    life_end(&l);
}
END_TEST

/* The default stream clears the memory that the kernel needs zeroed. */
START_TEST(a_map_is_built_on_the_stream_that_was_given)
{
    life l;

    life_begin(&l, LAYER, "gen:uniform,n=300,extent=9");
    run_steps(&l, 3);
    CUstream stream = open_stream();
    assert_ok(spc_map_create_from_rows(&l.map, l.ctx, &l.conv, l.coords, l.rows,
                                       stream),
              spc_ctx_error(l.ctx));
    ck_assert_ptr_eq(last_launch()->stream, stream);
    ck_assert_int_eq(last_launch()->unwaited, 0);
    close_stream(stream);
    life_end(&l);
    assert_all_freed();
}
END_TEST

/* Reserves a set and a map of it, and fills them on a stream that does not
 * synchronise with the default stream. */
static void fill_on(life *l, spc_coords **set, CUstream stream)
{
    spc_coords_options o = SPC_COORDS_OPTIONS_INIT;

    o.capacity = 300;
    o.high[1] = o.high[2] = o.high[3] = 8;
    assert_ok(spc_coords_create_reserved(set, l->ctx, &o),
              spc_ctx_error(l->ctx));
    assert_ok(spc_map_create(&l->map, *set, *set, &l->conv.geometry),
              spc_ctx_error(l->ctx));
    assert_ok(spc_coords_update(*set, l->coords, NULL, l->rows, stream),
              spc_ctx_error(l->ctx));
    assert_ok(spc_map_update(l->map, NULL, NULL, 0, stream),
              spc_ctx_error(l->ctx));
}

/* Counts the launches on the default stream, from number `from` on, that may
 * read unfinished results. */
static int count_hasty(int from)
{
    int count = 0;

    for (int i = from; i < fake->launches; i++)
        count += fake->launch[i % FAKE_LAUNCHES].stream == NULL &&
                 fake->launch[i % FAKE_LAUNCHES].loose > 0;
    return count;
}

/* Calls all functions that read a map or set without a stream argument. */
START_TEST(what_reads_a_map_waits_for_the_stream_that_fills_it)
{
    static int32_t index[27 * 300];
    spc_geometry floor_rule = SPC_GEOMETRY_INIT;
    spc_regrouping same = SPC_REGROUPING_INIT;
    spc_coords *set = NULL, *other = NULL;
    spc_status status;
    life l;

    floor_rule.rule = SPC_RULE_FLOOR;
    for (int i = 0; i < 3; i++)
        floor_rule.kernel[i] = floor_rule.stride[i] = 2;
    life_begin(&l, SORTED, "gen:uniform,n=300,extent=9");
    run_steps(&l, 3);
    CUstream stream = open_stream();
    fill_on(&l, &set, stream);
    int from = fake->launches;
    status = _i == 0   ? spc_plan_create(&l.plan, l.ctx, &l.conv, l.map, 0)
             : _i == 1 ? spc_map_download(index, l.map)
             : _i == 2
                 ? spc_coords_create_outputs(&other, set, &floor_rule)
                 : spc_coords_create_regrouped(&other, &set, 1, &same, NULL);
    assert_ok(status, spc_ctx_error(l.ctx));
    ck_assert_int_gt(fake->launches, from);
    ck_assert_int_eq(count_hasty(from), 0);
    spc_coords_free(other);
    spc_coords_free(set);
    close_stream(stream);
    life_end(&l);
    assert_all_freed();
}
END_TEST

static const struct {
    int at, row, count_at;
    spc_status status;
    const char *says;
} troubles[] = {
    {SPC_INDEX_BAD_ROW + 2, 17, SPC_INDEX_BAD_ROWS, SPC_ERANGE,
     "row 17: its y is outside"},
    {SPC_INDEX_DUPLICATE_ROW, 299, SPC_INDEX_DUPLICATES, SPC_EDUPLICATE,
     "have the same coordinate"},
    /* There is no row 300, so the message omits its voxel. */
    {SPC_INDEX_DUPLICATE_ROW, 300, SPC_INDEX_DUPLICATES, SPC_EDUPLICATE,
     "with the coordinate of an earlier row"},
};

START_TEST(what_building_a_map_reports_is_read)
{
    life l;

    fake->stats[troubles[_i].at] = troubles[_i].row;
    fake->stats[troubles[_i].count_at] = 1;
    life_begin(&l, LAYER, "gen:uniform,n=300,extent=9");
    run_steps(&l, 3);
    ck_assert_int_eq(step_map(&l), troubles[_i].status);
    assert_says(spc_ctx_error(l.ctx), troubles[_i].says);
    life_end(&l);
    assert_all_freed();
}
END_TEST

/* The caller's stream need not wait for the default stream. */
START_TEST(what_creating_enqueues_is_done_when_it_returns)
{
    life l;

    life_begin(&l, _i == 0 ? LAYER : SORTED, "gen:uniform,n=300,extent=9");
    for (int i = 0; i < 6; i++) {
        spc_status status = steps[i].run(&l);
        ck_assert_msg(status == SPC_OK, "%s: %s", steps[i].name, sentence(&l));
        ck_assert_msg(fake->pending == 0,
                      "%s leaves work on the default stream", steps[i].name);
    }
    life_end(&l);
}
END_TEST

START_TEST(recorded_code_needs_no_compiler)
{
    life l;

    fill_database(SORTED);
    setenv("SPC_NVRTC", "/nonexistent/libnvrtc.so", 1);
    life_begin(&l, SORTED, "gen:uniform,n=300,extent=9");
    run_steps(&l, LENGTH(steps));
    ck_assert_int_eq(spc_ctx_stats(l.ctx).compiles, 0);
    ck_assert_int_eq(spc_ctx_stats(l.ctx).artefacts_loaded, 2);
    life_end(&l);
    assert_all_freed();
}
END_TEST

START_TEST(without_code_and_compiler_the_sentence_asks_for_nvrtc)
{
    life l;

    setenv("SPC_NVRTC", "/nonexistent/libnvrtc.so", 1);
    life_begin(&l, SORTED, "gen:uniform,n=300,extent=9");
    run_steps(&l, 3);
    ck_assert_int_eq(step_map(&l), SPC_EUNSUPPORTED);
    assert_says(spc_ctx_error(l.ctx), "SPC_NVRTC");
    life_end(&l);
    assert_all_freed();
}
END_TEST

/* ---- measuring ----------------------------------------------------------- */

/* A run to be measured; run number `refuses` fails. */
typedef struct measured {
    life *life;
    int runs, refuses;
} measured;

static spc_status enqueue(void *payload, void *stream)
{
    measured *m = payload;

    if (++m->runs == m->refuses)
        return spc__fail(spc__error_of(m->life->ctx), SPC_EINTERRUPTED,
                         "refused");
    return execute(m->life, m->life->map, stream);
}

static spc_status measure(measured *m, bool cold, double limit_s,
                          double *samples, int *count)
{
    spc__device *device = m->life->ctx->device;
    spc__measure what = {enqueue, m, 5, limit_s, cold, NULL};

    return spc__device_ops_of(device)->measure(device, &what, samples, count,
                                               spc__error_of(m->life->ctx));
}

/* Makes everything that execution needs. By the double's clock a run takes 10
 * us. */
static void measured_begin(life *l)
{
    fake->l2_bytes = 1 << 20;
    life_begin(l, LAYER, "gen:uniform,n=300,extent=9");
    run_steps(l, 9);
}

static bool live_as(const fake_live *before)
{
    return memcmp(before, &fake->live, sizeof(*before)) == 0;
}

START_TEST(a_warm_run_is_a_share_of_a_replayed_graph)
{
    double samples[5];
    int count = 0, before[FAKE_CALLS];
    life l;

    measured_begin(&l);
    fake_live live = fake->live;
    measured m = {&l, 0, 0};
    memcpy(before, fake->count, sizeof(before));
    assert_ok(measure(&m, false, 0, samples, &count), spc_ctx_error(l.ctx));
    ck_assert_int_eq(count, 5);
    for (int i = 0; i < count; i++)
        ck_assert_msg(samples[i] > 9.99 && samples[i] < 10.01, "%g us",
                      samples[i]);
    /* Two single runs, then 100 runs of 10 us in the graph. */
    ck_assert_int_eq(m.runs, 2 + 100);
    ck_assert(last_launch()->captured);
    ck_assert_int_eq(fake->count[FAKE_GraphLaunch] - before[FAKE_GraphLaunch],
                     1 + 5);
    ck_assert(live_as(&live));
    life_end(&l);
}
END_TEST

START_TEST(a_cold_run_follows_a_flush_of_four_times_the_cache)
{
    double samples[5];
    int count = 0;
    life l;

    measured_begin(&l);
    fake_live live = fake->live;
    measured m = {&l, 0, 0};
    int flushed = fake->count[FAKE_MemsetD8Async];
    fake->bytes_set = 0;
    assert_ok(measure(&m, true, 0, samples, &count), spc_ctx_error(l.ctx));
    ck_assert_int_eq(count, 5);
    ck_assert_int_eq(m.runs, 2 + 1 + 5);
    /* Each run includes the clearing that the template requests. */
    ck_assert_int_eq(fake->count[FAKE_MemsetD8Async] - flushed, 8 + 6);
    ck_assert_uint_eq(fake->bytes_set, 8 * 300 * 8 * 4 + 6 * (4 << 20));
    ck_assert(live_as(&live));
    life_end(&l);
}
END_TEST

START_TEST(a_run_that_never_ends_is_given_up)
{
    double samples[5];
    int count = 0;
    life l;

    measured_begin(&l);
    measured m = {&l, 0, 0};
    fake->hangs = true;
    int freed = fake->count[FAKE_MemFree];
    ck_assert_int_eq(measure(&m, true, 0.02, samples, &count), SPC_ETIMEOUT);
    assert_says(spc_ctx_error(l.ctx), "did not end within the limit of 0.02 s");
    ck_assert_int_eq(count, 0);
    /* Freeing memory would wait for the kernel. */
    ck_assert_int_eq(fake->count[FAKE_MemFree], freed);
    ck_assert_int_eq(fake->context_depth(), 0);
    life_end(&l);
}
END_TEST

START_TEST(a_run_that_is_refused_ends_the_measurement_with_its_sentence)
{
    double samples[5];
    int count = 0;
    life l;

    measured_begin(&l);
    fake_live live = fake->live;
    /* A single run fails, then the first run of the graph, then one in its
     * middle. */
    static const int refused[] = {1, 3, 50};
    for (int i = 0; i < LENGTH(refused); i++) {
        measured m = {&l, 0, refused[i]};
        ck_assert_int_eq(measure(&m, false, 0, samples, &count),
                         SPC_EINTERRUPTED);
        ck_assert_str_eq(spc_ctx_error(l.ctx), "refused");
        ck_assert_int_eq(fake->count[FAKE_StreamEndCapture],
                         fake->count[FAKE_StreamBeginCapture]);
        ck_assert(live_as(&live));
        ck_assert_int_eq(fake->context_depth(), 0);
    }
    life_end(&l);
    assert_all_freed();
}
END_TEST

START_TEST(when_any_call_fails_a_measurement_says_so_and_leaves_nothing)
{
    double samples[5];
    int count = 0, number = 0;
    life l;

    measured_begin(&l);
    fake->launch_us = 100; /* so that the graph has few runs */
    fake_live live = fake->live;
    do {
        measured m = {&l, 0, 0};
        fake->failed = -1;
        fake->fail_at = fake->calls + ++number;
        spc_status status = measure(&m, _i == 1, 0, samples, &count);
        if (status != SPC_OK)
            assert_says(spc_ctx_error(l.ctx), "CUDA_ERROR_LAUNCH_FAILED");
        else if (fake->failed >= 0)
            ck_assert_msg(may_pass_over(fake->failed) ||
                              fake->failed == FAKE_EventDestroy ||
                              fake->failed == FAKE_StreamDestroy ||
                              fake->failed == FAKE_GraphDestroy ||
                              fake->failed == FAKE_GraphExecDestroy,
                          "a failing %s is hidden", fake_symbols[fake->failed]);
        ck_assert_msg(live_as(&live), "%s fails, and something is left",
                      fake->failed < 0 ? "nothing"
                                       : fake_symbols[fake->failed]);
        ck_assert_int_eq(fake->context_depth(), 0);
    } while (fake->failed >= 0);
    ck_assert_int_gt(number, 50);
    life_end(&l);
    assert_all_freed();
}
END_TEST

START_TEST(the_devices_figures_come_from_the_events_clock)
{
    spc_device_info info;
    life l;

    fake->memory_bytes = 64 << 20;
    fake->l2_bytes = 1 << 20;
    fake->launch_us = 400;
    life_begin(&l, LAYER, "gen:uniform,n=30");
    run_steps(&l, 1);
    assert_ok(spc_device_measure(l.ctx), spc_ctx_error(l.ctx));
    assert_ok(spc_ctx_device(&info, l.ctx), spc_ctx_error(l.ctx));
    ck_assert_msg(info.launch_us > 399 && info.launch_us < 401, "%g us",
                  info.launch_us);
    /* Kernels of the double do nothing, so measured rates are 0. */
    ck_assert_double_eq(info.memory.copy_gbps, 0);
    ck_assert_double_eq(info.f16_tflops, 0);
    life_end(&l);
    assert_all_freed();
    /* The next context finds the rates in the database. */
    life_begin(&l, LAYER, "gen:uniform,n=30");
    run_steps(&l, 1);
    assert_ok(spc_ctx_device(&info, l.ctx), spc_ctx_error(l.ctx));
    ck_assert_msg(info.launch_us > 399 && info.launch_us < 401, "%g us",
                  info.launch_us);
    life_end(&l);
}
END_TEST

START_TEST(a_bench_of_kernels_that_do_nothing_tells_that_they_are_wrong)
{
    spc_bench_result result;
    life l;

    life_begin(&l, SORTED, "gen:uniform,n=300,extent=9");
    run_steps(&l, 1);
    ck_assert_int_eq(spc_bench(&result, l.ctx, &l.conv, l.scene, 1),
                     SPC_EWRONG);
    assert_says(spc_ctx_error(l.ctx), "is wrong");
    life_end(&l);
    assert_all_freed();
}
END_TEST

/* ---- the suite ----------------------------------------------------------- */

static TCase *add_case(Suite *suite, const char *name)
{
    TCase *t = tcase_create(name);

    tcase_add_checked_fixture(t, set_up, remove_folder);
    tcase_set_timeout(t, 60);
    suite_add_tcase(suite, t);
    return t;
}

static void add_devices(Suite *suite)
{
    TCase *t = add_case(suite, "devices");

    tcase_add_test(t, without_a_driver_there_is_no_device);
    tcase_add_loop_test(t, a_driver_that_lacks_a_symbol_is_too_old, 0,
                        FAKE_CALLS);
    tcase_add_loop_test(t, a_driver_that_is_too_old_for_its_gpu_is_an_error, 0,
                        6); /* few, as each opens the cpu device */
    tcase_add_test(t, a_driver_without_devices_is_no_device);
    tcase_add_loop_test(
        t, a_gpu_that_cannot_be_used_is_an_error_unless_the_cpu_is_asked_for, 0,
        LENGTH(unusable));
    tcase_add_loop_test(t, an_ordinal_beyond_the_count_is_no_device, 0,
                        LENGTH(ordinals));
    tcase_add_test(t, what_a_device_is_comes_from_its_attributes);
    tcase_add_test(t, only_compute_capability_9_0_has_a_target_of_its_own);
    tcase_add_loop_test(t, a_device_that_does_not_say_what_it_is_is_not_opened,
                        0, LENGTH(facts_needed));
    tcase_add_test(t, an_error_that_the_driver_cannot_name_keeps_its_number);
}

static void add_contexts(Suite *suite)
{
    TCase *t = add_case(suite, "contexts");

    tcase_add_test(t,
                   without_a_current_context_the_primary_one_is_retained_once);
    tcase_add_test(t, a_context_of_the_caller_is_used_and_left_as_it_was);
    tcase_add_test(t, a_context_of_the_caller_is_made_current_where_it_is_not);
    tcase_add_test(t, a_primary_context_of_the_caller_is_held);
    tcase_add_test(t, a_current_context_that_was_destroyed_is_none);
    tcase_add_test(
        t, a_context_on_another_device_than_the_one_asked_for_is_not_used);
    tcase_add_test(
        t, without_an_ordinal_the_device_of_the_callers_context_is_meant);
    tcase_add_test(t, a_context_that_cannot_be_asked_about_is_not_replaced);
}

static void add_failures(Suite *suite)
{
    TCase *t = add_case(suite, "failures");

    tcase_add_loop_test(
        t, when_any_call_of_the_driver_fails_once_the_next_try_succeeds, 0,
        LENGTH(failing));
    tcase_add_loop_test(t, when_all_calls_of_a_kind_fail_nothing_is_left, 0,
                        FAKE_CALLS);
    tcase_add_test(t, freeing_waits_unless_the_hook_is_ordered);
    tcase_add_test(t, all_memory_comes_from_the_hook_and_goes_back_to_it);
    tcase_add_test(t, a_child_of_fork_is_refused_and_disturbs_nothing);
}

static void add_running(Suite *suite)
{
    TCase *t = add_case(suite, "running");

    tcase_add_loop_test(t, an_execution_is_launched_as_the_template_declares_it,
                        0, LENGTH(variants));
    tcase_add_test(t, threads_execute_a_plan_each_with_the_context_it_had);
    tcase_add_test(t, before_sm_90_nothing_is_launched_as_a_dependent);
    tcase_add_test(t, an_output_is_cleared_before_the_launch_that_adds_to_it);
    tcase_add_loop_test(t, packing_is_told_the_strides_of_the_weights, 0,
                        LENGTH(packings));
    tcase_add_test(t, a_map_is_built_by_one_cooperative_launch);
    tcase_add_test(t, a_map_is_built_on_the_stream_that_was_given);
    tcase_add_loop_test(t, what_reads_a_map_waits_for_the_stream_that_fills_it,
                        0, 4);
    tcase_add_loop_test(t, what_building_a_map_reports_is_read, 0,
                        LENGTH(troubles));
    tcase_add_loop_test(t, what_creating_enqueues_is_done_when_it_returns, 0,
                        2);
    tcase_add_test(t, recorded_code_needs_no_compiler);
    tcase_add_test(t, without_code_and_compiler_the_sentence_asks_for_nvrtc);
}

static void add_measuring(Suite *suite)
{
    TCase *t = add_case(suite, "measuring");

    tcase_add_test(t, a_warm_run_is_a_share_of_a_replayed_graph);
    tcase_add_test(t, a_cold_run_follows_a_flush_of_four_times_the_cache);
    tcase_add_test(t, a_run_that_never_ends_is_given_up);
    tcase_add_test(
        t, a_run_that_is_refused_ends_the_measurement_with_its_sentence);
    tcase_add_loop_test(
        t, when_any_call_fails_a_measurement_says_so_and_leaves_nothing, 0, 2);
    tcase_add_test(t, the_devices_figures_come_from_the_events_clock);
    tcase_add_test(
        t, a_bench_of_kernels_that_do_nothing_tells_that_they_are_wrong);
}

int main(void)
{
#ifdef SPC_SANITIZE
    suite_sample(12);
#else
    suite_sample(3);
#endif
    Suite *suite = suite_create("cuda_host");

    add_devices(suite);
    add_contexts(suite);
    add_failures(suite);
    add_running(suite);
    add_measuring(suite);
    return run_suite(suite);
}
