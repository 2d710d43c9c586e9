/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_statics.c - static memory of compiled code that persists between
 * launches.
 *
 *     test_statics [nvrtc]
 */
#include "compiler/artefact.h"
#include "harness/layer_harness.h"
#include "harness/suite.h"

#include <elf.h>

static spc_error error;

static spc__compiler *open_hostcc(void)
{
    spc__compiler *cc = NULL;

    assert_ok(spc__hostcc_open(&cc, &error), error.text);
    return cc;
}

static spc__compiler *open_nvrtc(void)
{
    spc__compiler *nvrtc = NULL;

    assert_ok(spc__nvrtc_open(&nvrtc, &error), error.text);
    return nvrtc;
}

/* Compiles `source` and returns its persistent bytes, for any compiler. */
static int statics_of(spc__compiler *compiler, const char *target,
                      const char *source)
{
    spc__artefact artefact;
    spc__compile_job job = {
        .source = source, .name = "statics", .target = target};

    assert_ok(spc__compile(&artefact, compiler, &job, NULL, &error),
              error.text);
    size_t bytes = spc__code_statics(artefact.code, artefact.code_bytes);
    /* Reads truncated files; the reader must not go past their end. */
    for (size_t cut = 0; cut < artefact.code_bytes; cut += 97) {
        void *part = malloc(cut + 1);
        memcpy(part, artefact.code, cut);
        spc__code_statics(part, cut);
        free(part);
    }
    spc__artefact_release(&artefact);
    return (int)bytes;
}

START_TEST(static_memory_of_a_cubin_is_counted)
{
    static const char *const targets[] = {"sm_80", "sm_90a", "sm_100"};
    static const struct {
        const char *source;
        int bytes;
    } cases[] = {
        {"extern \"C\" __global__ void f(int *p) { *p = 1; }", 0},
        {"__constant__ int t[4] = {1, 2, 3, 4};\n"
         "extern \"C\" __global__ void f(int *p) { *p = t[*p]; }",
         0},
        {"extern \"C\" __global__ void f(int *p) {\n"
         "    __shared__ int s[8]; s[*p] = 1; *p = s[1];\n}",
         0},
        {"extern \"C\" __global__ void f(int *p) { atomicAdd(p, 1); }", 0},
        {"__device__ char kept;\n"
         "extern \"C\" __global__ void f(int *p) { *p = kept++; }",
         1},
        {"__device__ int kept[5];\n"
         "extern \"C\" __global__ void f(int *p) { *p = kept[*p]++; }",
         20},
        {"extern \"C\" __global__ void f(int *p) {\n"
         "    static __device__ int kept = 3; *p = kept++;\n}",
         4},
    };
    spc__compiler *nvrtc = open_nvrtc();

    for (int i = 0; i < LENGTH(cases); i++)
        ck_assert_int_eq(
            statics_of(nvrtc, targets[i % LENGTH(targets)], cases[i].source),
            cases[i].bytes);
    spc__compiler_close(nvrtc);
}
END_TEST

START_TEST(static_memory_of_a_shared_object_is_counted)
{
    static const struct {
        const char *source;
        int bytes;
    } cases[] = {
        {"int f(int x) { static const int t[] = {5, 6, 7}; return t[x]; }", 0},
        {"extern int g(int); int f(int x) { return x; }\n"
         "int (*const table[])(int) = {f, f};",
         0},
        {"int f(void) { static char completed; return completed++; }", 1},
        {"int f(void) { static char completed = 5; return completed++; }", 1},
        {"static int kept = 7; int f(void) { return kept++; }", 4},
        {"_Thread_local int kept[3]; int f(void) { return kept[0]++; }", 12},
        {"__attribute__((section(\"mine\"))) int kept[9] = {1};\n"
         "int f(void) { return kept[0]++; }",
         36},
        /* These sections have names used by the loader. */
        {"__attribute__((section(\".got.mine\"))) int kept[9] = {1};\n"
         "int f(void) { return kept[0]++; }",
         36},
        {"__attribute__((section(\".dynamic.mine\"))) int kept = 1;\n"
         "int f(void) { return kept++; }",
         4},
        /* Writing there crashes, because the loader makes the memory
         * read-only. */
        {"extern int *at(void); int f(void) { return (*at())++; }\n"
         "asm(\".pushsection .got.plt,\\\"aw\\\"; .Lkept: .long 0;\"\n"
         "    \".popsection\");",
         0},
        {"_Thread_local int kept[3] = {1}; int f(void) { return kept[0]++; }",
         12},
        /* A section without a symbol, smaller than the same section of a
         * linker. */
        {"asm(\".pushsection .bss; .Lkept: .zero 4; .popsection\");\n"
         "int f(void) { return 1; }",
         4},
        {"asm(\".pushsection mine,\\\"awx\\\"; .Lkept: .long 0;\"\n"
         "    \".popsection\"); int f(void) { return 1; }",
         4},
        {"#include <math.h>\n"
         "float f(float x) { return expf(x) + sinf(x); }",
         0},
    };
    spc__compiler *cc = open_hostcc();

    for (int i = 0; i < LENGTH(cases); i++) { /* the linker pads the section */
        int bytes = statics_of(cc, "", cases[i].source);
        ck_assert_msg(cases[i].bytes == 0
                          ? bytes == 0
                          : bytes >= cases[i].bytes && bytes < 4096,
                      "case %d has %d bytes", i, bytes);
    }
    spc__compiler_close(cc);
}
END_TEST

/* A file can claim any section sizes. Two halves of the address space must not
 * add up to 0. */
START_TEST(sizes_that_are_only_claimed_add_up_to_some)
{
    spc__compiler *cc = open_hostcc();
    spc__artefact artefact;
    spc__compile_job job = {
        .source = "static int kept = 7, more; int f(void) { return kept++ + "
                  "more++; }",
        .name = "statics",
        .target = ""};
    int changed = 0;
    Elf64_Ehdr header;

    assert_ok(spc__compile(&artefact, cc, &job, NULL, &error), error.text);
    memcpy(&header, artefact.code, sizeof(header));
    for (int i = 1; i < header.e_shnum; i++) {
        char *at = (char *)artefact.code + header.e_shoff +
                   (size_t)i * sizeof(Elf64_Shdr);
        Elf64_Shdr section;
        memcpy(&section, at, sizeof(section));
        bool is_data =
            section.sh_type == SHT_PROGBITS || section.sh_type == SHT_NOBITS;
        if (!is_data || !(section.sh_flags & SHF_WRITE))
            continue;
        section.sh_type = SHT_NOBITS;
        section.sh_size = changed < 2 ? 1ull << 63 : 0;
        changed++;
        memcpy(at, &section, sizeof(section));
    }
    ck_assert_int_ge(changed, 2);
    ck_assert_uint_gt(spc__code_statics(artefact.code, artefact.code_bytes), 0);
    spc__artefact_release(&artefact);
    spc__compiler_close(cc);
}
END_TEST

static Suite *make_suite(bool nvrtc)
{
    Suite *s = suite_create(nvrtc ? "statics, NVRTC" : "statics");
    TCase *t = tcase_create("code");

    if (nvrtc)
        tcase_add_test(t, static_memory_of_a_cubin_is_counted);
    else {
        tcase_add_test(t, static_memory_of_a_shared_object_is_counted);
        tcase_add_test(t, sizes_that_are_only_claimed_add_up_to_some);
    }
    suite_add_tcase(s, t);
    return s;
}

int main(int argc, char **argv)
{
    spc__compiler *nvrtc = NULL;

    if (!suite_is_part(argc, argv, "nvrtc"))
        return run_suite(make_suite(false));
    if (spc__nvrtc_open(&nvrtc, &error) != SPC_OK)
        return suite_skip(error.text);
    spc__compiler_close(nvrtc);
    return run_suite(make_suite(true));
}
