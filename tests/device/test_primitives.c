/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_primitives.c - every primitive gives the results that were recorded on a
 * GPU: on the sim device, or on the device that is given: `test_primitives
 * cuda`.
 */
#include "compiler/artefact.h"
#include "compiler/template.h"
#include "device/device.h"
#include "golden/recorded.h"
#include "harness/suite.h"
#include "templates/sim/primitives_args.h"

static spc_error error;

#define assert_ok(call)                                                        \
    ck_assert_msg((call) == SPC_OK, "%s: %s", #call, error.text)

static const char *device_name(void)
{
    return suite_device != NULL ? suite_device : "sim";
}

static spc__device *open_device(void)
{
    spc__device_options options = {.threads = 2};
    spc__device *device = NULL;

    assert_ok(spc__device_open(&device, device_name(), &options, &error));
    return device;
}

/* ---- the kernels, compiled once ------------------------------------------ */

static spc__artefact artefact;

static void compile(void)
{
    spc__attrs problem = {0}, config = {0}, target;
    spc__buf source = SPC__BUF_INIT;
    spc__device *device = open_device();
    const spc__device_ops *ops = spc__device_ops_of(device);
    spc__library *library = NULL;
    spc__compiler *compiler;
    spc__compile_job job = {.name = "primitives", .target = ""};

    assert_ok(
        spc__library_open(&library, suite_path("templates/sim"), NULL, &error));
    spc__template *tpl = spc__library_find(library, "primitives");
    ck_assert_ptr_nonnull(tpl);
    spc__attrs_set_text(&problem, "op", "test");
    ops->target(device, &target);
    assert_ok(
        spc__template_render(&source, tpl, &problem, &target, &config, &error));
    assert_ok(ops->compiler(device, &compiler, &job.options, &error));
    job.source = spc__buf_text(&source);
    /* The host's compiler, which builds for sim, ignores the GPU. */
    if (strncmp(device_name(), "sim", 3) != 0)
        job.target = spc__attrs_text(&target, "target", "");
    job.headers = library;
    assert_ok(spc__compile(&artefact, compiler, &job, NULL, &error));
    spc__buf_release(&source);
    spc__library_close(library);
    ops->close(device);
}

static void forget(void)
{
    spc__artefact_release(&artefact);
}

/* ---- one case ------------------------------------------------------------ */

typedef struct memory {
    void *in, *out, *flags;
} memory;

enum { BYTES = GOLDEN_WORDS * 4, FLAG_BYTES = 4096 };

static void fill(spc__device *device, memory *m, const uint32_t *in)
{
    const spc__device_ops *ops = spc__device_ops_of(device);

    assert_ok(ops->alloc(device, &m->in, BYTES, &error));
    assert_ok(ops->alloc(device, &m->out, BYTES, &error));
    assert_ok(ops->alloc(device, &m->flags, FLAG_BYTES, &error));
    assert_ok(ops->copy_in(device, m->in, in, BYTES, NULL, &error));
    assert_ok(ops->fill(device, m->out, 0, BYTES, NULL, &error));
    assert_ok(ops->fill(device, m->flags, 0, FLAG_BYTES, NULL, &error));
}

static void run_case(uint32_t *out, const golden_case *c, const uint32_t *in)
{
    spc__launch geometry = {
        1, 1, (unsigned)c->threads, GOLDEN_SHARED, false, false, 0};
    spc__device *device = open_device();
    const spc__device_ops *ops = spc__device_ops_of(device);
    spc__module *module;
    spc__kernel *kernel;
    memory m = {0};

    assert_ok(ops->module_load(device, &module, artefact.code,
                               artefact.code_bytes, &error));
    assert_ok(ops->kernel_get(device, module, c->kernel, GOLDEN_SHARED, &kernel,
                              &error));
    fill(device, &m, in);
    primitive_args args = {m.in, m.out, m.flags, 0};
    assert_ok(ops->launch(device, kernel, &geometry, &args, sizeof(args), NULL,
                          &error));
    assert_ok(ops->copy_out(device, out, m.out, BYTES, NULL, &error));
    assert_ok(ops->sync(device, NULL, &error));
    ops->dealloc(device, m.in);
    ops->dealloc(device, m.out);
    ops->dealloc(device, m.flags);
    ops->module_unload(device, module);
    ops->close(device);
}

START_TEST(every_primitive_does_what_a_gpu_did)
{
    static uint32_t in[GOLDEN_WORDS], got[GOLDEN_WORDS];
    static recorded want;
    const golden_case *c = &golden_cases[_i];

    golden_fill(in, c);
    read_recorded(&want, suite_path("golden/primitives.txt"), c);
    run_case(got, c, in);
    assert_recorded(c, got, &want);
}
END_TEST

/* ---- kernels that a GPU supports ----------------------------------------- */

/* True if a GPU of this architecture has the primitive. Bulk copies and matrix
 * products need later architectures; only one has wgmma. */
static bool has_kernel(const char *kernel, const spc__attrs *target)
{
    int64_t sm = spc__attrs_number(target, "sm", 0);

    if (strncmp(kernel, "wgmma", 5) == 0)
        return strcmp(spc__attrs_text(target, "target", ""), "sm_90a") == 0;
    if (strcmp(kernel, "bulk") == 0)
        return sm >= 90;
    return strncmp(kernel, "mma", 3) != 0 || sm >= 80;
}

/* Adds the kernels that this device supports, and prints the names of the
 * others. It runs outside of tests, so it must not assert. */
static spc_status add_cases(TCase *tcase)
{
    spc__device_options options = {.threads = 2};
    spc__device *device = NULL;
    spc__attrs target;
    spc_status status =
        spc__device_open(&device, device_name(), &options, &error);

    if (status != SPC_OK)
        return status;
    spc__device_ops_of(device)->target(device, &target);
    for (int i = 0; i < GOLDEN_CASES; i++) {
        if (has_kernel(golden_cases[i].kernel, &target))
            tcase_add_loop_test(tcase, every_primitive_does_what_a_gpu_did, i,
                                i + 1);
        else
            printf("not on %s: %s\n", device_name(), golden_cases[i].name);
    }
    spc__device_close(device);
    return SPC_OK;
}

int main(int argc, char **argv)
{
    int status = suite_open(argc, argv);
    if (status != 0)
        return status;
    Suite *s = suite_create("primitives");
    TCase *tcase = tcase_create("recorded");

    tcase_set_timeout(tcase, 300);
    tcase_add_unchecked_fixture(tcase, compile, forget);
    suite_add_tcase(s, tcase);
    if (add_cases(tcase) != SPC_OK) {
        fprintf(stderr, "%s: %s\n", device_name(), error.text);
        return EXIT_FAILURE;
    }
    return run_suite(s);
}
