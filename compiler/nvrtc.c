/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nvrtc.c - compiles CUDA source to a cubin with NVRTC, opened with dlopen.
 *
 * It compiles to a cubin because PTX of a newer toolkit would fail on an older
 * driver. Neither a GPU nor a driver is needed, whatever the target.
 */
#include "base/error.h"
#include "compiler/backend.h"
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef void *program;

enum { SUCCESS = 0, MOST_ARCHS = 64 };

/* The used part of nvrtc.h, because the build must not need the toolkit. */
typedef struct nvrtc {
    spc__compiler base;
    int (*version)(int *major, int *minor);
    const char *(*error_string)(int result);
    int (*arch_count)(int *count);
    int (*archs)(int *archs);
    int (*create)(program *out, const char *source, const char *name,
                  int header_count, const char *const *headers,
                  const char *const *names);
    int (*destroy)(program *out);
    int (*compile)(program out, int count, const char *const *options);
    int (*cubin_size)(program out, size_t *bytes);
    int (*cubin)(program out, char *cubin);
    int (*log_size)(program out, size_t *bytes);
    int (*log)(program out, char *log);
    int known[MOST_ARCHS]; /* architectures, such as 75 and 80 */
    int known_count;
} nvrtc;

/* ---- finding the library ------------------------------------------------- */

static const struct symbol {
    const char *name;
    size_t offset;
} symbols[] = {
    {"nvrtcVersion", offsetof(nvrtc, version)},
    {"nvrtcGetErrorString", offsetof(nvrtc, error_string)},
    {"nvrtcGetNumSupportedArchs", offsetof(nvrtc, arch_count)},
    {"nvrtcGetSupportedArchs", offsetof(nvrtc, archs)},
    {"nvrtcCreateProgram", offsetof(nvrtc, create)},
    {"nvrtcDestroyProgram", offsetof(nvrtc, destroy)},
    {"nvrtcCompileProgram", offsetof(nvrtc, compile)},
    {"nvrtcGetCUBINSize", offsetof(nvrtc, cubin_size)},
    {"nvrtcGetCUBIN", offsetof(nvrtc, cubin)},
    {"nvrtcGetProgramLogSize", offsetof(nvrtc, log_size)},
    {"nvrtcGetProgramLog", offsetof(nvrtc, log)},
};

/* Looks up all functions. A missing one means a version that is too old. */
static spc_status resolve(nvrtc *rt, void *library, spc_error *error)
{
    for (size_t i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++) {
        void *address = dlsym(library, symbols[i].name);
        if (address == NULL)
            return spc__fail(error, SPC_EUNSUPPORTED,
                             "this NVRTC has no %s (11.2 or newer is needed)",
                             symbols[i].name);
        /* ISO C has no cast from an object pointer to a function pointer. */
        memcpy((char *)rt + symbols[i].offset, &address, sizeof(address));
    }
    return SPC_OK;
}

static void *open_under(const char *variable)
{
    char path[1024];
    const char *root = getenv(variable);

    if (root == NULL || root[0] == '\0')
        return NULL;
    int length = snprintf(path, sizeof(path), "%s/lib64/libnvrtc.so", root);
    return length < (int)sizeof(path) ? dlopen(path, RTLD_NOW | RTLD_LOCAL)
                                      : NULL;
}

/* If an explicit path is given and fails, no other path is tried. */
static spc_status open_library(void **out, spc_error *error)
{
    static const char *const usual[] = {
        "libnvrtc.so",
        "libnvrtc.so.13",
        "libnvrtc.so.12",
        "/usr/local/cuda/lib64/libnvrtc.so",
    };
    const char *path = getenv("SPC_NVRTC");

    if (path != NULL && path[0] != '\0') {
        if ((*out = dlopen(path, RTLD_NOW | RTLD_LOCAL)) != NULL)
            return SPC_OK;
        return spc__fail(error, SPC_EUNSUPPORTED,
                         "cannot open NVRTC, which SPC_NVRTC sets to '%s': %s",
                         path, dlerror());
    }
    if ((*out = open_under("CUDA_HOME")) != NULL ||
        (*out = open_under("CUDA_PATH")) != NULL)
        return SPC_OK;
    for (size_t i = 0; i < sizeof(usual) / sizeof(usual[0]); i++)
        if ((*out = dlopen(usual[i], RTLD_NOW | RTLD_LOCAL)) != NULL)
            return SPC_OK;
    return spc__fail(error, SPC_EUNSUPPORTED,
                     "no NVRTC found to compile CUDA: install the CUDA "
                     "Toolkit, or set SPC_NVRTC to libnvrtc.so");
}

/* ---- the build id -------------------------------------------------------- */

typedef struct build_search {
    uintptr_t inside; /* an address of the library */
    char hex[17];     /* the first 8 bytes of its build id */
} build_search;

/* True if a loaded part of the object contains the address. */
static bool has_address(const struct dl_phdr_info *object, uintptr_t address)
{
    for (int i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &object->dlpi_phdr[i];
        if (part->p_type == PT_LOAD &&
            /* One unsigned comparison covers both ends: an address below wraps
             * around. */
            address - object->dlpi_addr - part->p_vaddr < part->p_memsz)
            return true;
    }
    return false;
}

/* Notes are records: name size, text size, type, name, text. */
static void read_notes(build_search *search, const unsigned char *p,
                       size_t bytes)
{
    uint32_t head[3];

    while (bytes >= sizeof(head)) {
        memcpy(head, p, sizeof(head));
        size_t name = (head[0] + 3u) & ~3u, text = (head[1] + 3u) & ~3u;
        /* The first two conditions keep the sum from wrapping around. */
        if (name > bytes || text > bytes || sizeof(head) + name + text > bytes)
            return;
        const unsigned char *id = p + sizeof(head) + name;
        if (head[2] == NT_GNU_BUILD_ID && head[0] == 4 && head[1] >= 8 &&
            memcmp(p + sizeof(head), "GNU", 4) == 0)
            for (int i = 0; i < 8; i++)
                snprintf(search->hex + 2 * i, 3, "%02x", id[i]);
        p += sizeof(head) + name + text;
        bytes -= sizeof(head) + name + text;
    }
}

/* Reads the notes of the object that contains the address. For
 * dl_iterate_phdr(). */
static int search_object(struct dl_phdr_info *object, size_t size,
                         void *payload)
{
    build_search *search = payload;

    (void)size;
    if (!has_address(object, search->inside))
        return 0;
    for (int i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &object->dlpi_phdr[i];
        if (part->p_type == PT_NOTE)
            read_notes(search,
                       (const unsigned char *)object->dlpi_addr + part->p_vaddr,
                       part->p_memsz);
    }
    /* Any other value than 0 ends the iteration. */
    return 1;
}

/* Writes "nvrtc 13.0 65be0db342ad51a0". Updates of a release have the same
 * number but other code, so the key also contains the linker's build id. */
static void identify(nvrtc *rt, int major, int minor)
{
    build_search search = {0};

    memcpy(&search.inside, &rt->version, sizeof(search.inside));
    dl_iterate_phdr(search_object, &search);
    snprintf(rt->base.identity, sizeof(rt->base.identity), "nvrtc %d.%d%s%s",
             major, minor, search.hex[0] != '\0' ? " " : "", search.hex);
}

/* ---- targets ------------------------------------------------------------- */

static void read_archs(nvrtc *rt)
{
    int count = 0, archs[256];

    if (rt->arch_count(&count) != SUCCESS || count < 1 || count > 256 ||
        rt->archs(archs) != SUCCESS)
        return;
    rt->known_count = count < MOST_ARCHS ? count : MOST_ARCHS;
    memcpy(rt->known, archs, (size_t)rt->known_count * sizeof(archs[0]));
}

static spc_status fail_target(const nvrtc *rt, const char *target,
                              spc_error *error)
{
    spc__buf list = SPC__BUF_INIT;

    for (int i = 0; i < rt->known_count; i++)
        spc__buf_printf(&list, " sm_%d", rt->known[i]);
    spc__fail(error, SPC_EUNSUPPORTED,
              "%s does not know the target '%s', but%s and their variants "
              "(sm_90a)",
              rt->base.identity, target, spc__buf_text(&list));
    spc__buf_release(&list);
    return SPC_EUNSUPPORTED;
}

/* Accepts "sm_90", "sm_90a" or "sm_100f" if the number is known. NVRTC decides
 * whether the variant exists. */
static bool is_known(const nvrtc *rt, const char *target)
{
    char *end;

    if (strncmp(target, "sm_", 3) != 0)
        return false;
    long number = strtol(target + 3, &end, 10);
    if (strcmp(end, "") != 0 && strcmp(end, "a") != 0 && strcmp(end, "f") != 0)
        return false;
    for (int i = 0; i < rt->known_count; i++)
        if (rt->known[i] == number)
            return true;
    return false;
}

spc_status spc__nvrtc_check_target(const spc__compiler *compiler,
                                   const char *target, spc_error *error)
{
    const struct nvrtc *rt = (const struct nvrtc *)compiler;

    return is_known(rt, target) ? SPC_OK : fail_target(rt, target, error);
}

/* ---- compiling ----------------------------------------------------------- */

static spc_status fail_call(const nvrtc *rt, const char *what, int result,
                            spc_error *error)
{
    return spc__fail(error, SPC_ECOMPILE, "NVRTC cannot %s: %s", what,
                     rt->error_string(result));
}

static void read_log(nvrtc *rt, program p, spc__buf *log)
{
    size_t bytes = 0;

    if (rt->log_size(p, &bytes) != SUCCESS || bytes < 2)
        return;
    char *text = calloc(1, bytes + 1);
    if (text != NULL && rt->log(p, text) == SUCCESS)
        spc__buf_puts(log, text);
    free(text);
}

/* Copies the cubin, which NVRTC frees with the program. */
static spc_status read_cubin(spc__artefact *out, nvrtc *rt, program p,
                             spc_error *error)
{
    size_t bytes = 0;

    int result = rt->cubin_size(p, &bytes);
    if (result != SUCCESS || bytes == 0)
        return fail_call(rt, "give a cubin", result, error);
    out->code = malloc(bytes);
    if (out->code == NULL)
        return spc__fail_memory(error, bytes);
    out->code_bytes = bytes;
    result = rt->cubin(p, out->code);
    return result == SUCCESS ? SPC_OK
                             : fail_call(rt, "give the cubin", result, error);
}

/* Reads the spills from the log, the only source: after "Function properties
 * for K" follows "0 bytes stack frame, 8 bytes spill stores, 16 bytes spill
 * loads". */
static int64_t spill_bytes(const char *log, const char *kernel)
{
    char head[300];
    int stores = 0, loads = 0;

    snprintf(head, sizeof(head), "Function properties for %s\n", kernel);
    const char *found = strstr(log, head);
    if (found != NULL)
        found = strstr(found, "bytes stack frame,");
    if (found != NULL)
        sscanf(found,
               "bytes stack frame, %d bytes spill stores, %d bytes spill",
               &stores, &loads);
    return (int64_t)stores + loads;
}

/* Runs the compilation. On failure the first error of its log becomes the
 * sentence. */
static spc_status run_program(nvrtc *rt, program p, const spc__compile_job *job,
                          spc__buf *log, spc_error *error)
{
    char arch[64];
    spc__words words;

    snprintf(arch, sizeof(arch), "--gpu-architecture=%s", job->target);
    if (!spc__words_split(&words, rt->base.flags, job->options))
        return spc__fail_memory(error, strlen(job->options));
    /* The split reserves one more word before its end. */
    words.at[words.count] = arch;
    /* The caller's log may have text of earlier compilations. */
    size_t start = log->length;
    int result = rt->compile(p, words.count + 1, words.at);
    read_log(rt, p, log);
    spc__words_release(&words);
    if (result == SUCCESS)
        return SPC_OK;
    const char *text = spc__buf_text(log) + (log->length ? start : 0);
    if (strstr(text, "gpu-architecture") != NULL ||
        strstr(text, "nv_arch") != NULL)
        return fail_target(rt, job->target, error);
    return spc__fail_compile(
        job, text[0] != '\0' ? text : rt->error_string(result), error);
}

/* Compiles to a cubin, and reads its resources: spills from the log, all others
 * from the cubin. */
static spc_status compile(spc__artefact *out, spc__compiler *compiler,
                          const spc__compile_job *job, spc__buf *log,
                          spc_error *error)
{
    nvrtc *rt = (nvrtc *)compiler;
    spc__includes includes;
    program p = NULL;
    size_t log_start = log->length;
    char kernel[256];

    /* Checks this before NVRTC does, whose message names no alternatives. */
    spc_status status = spc__nvrtc_check_target(compiler, job->target, error);
    if (status != SPC_OK)
        return status;
    spc__includes_collect(&includes, job);
    int result = rt->create(&p, job->source, job->name, includes.count,
                            includes.texts, includes.names);
    if (result != SUCCESS)
        return fail_call(rt, "take the source", result, error);
    status = run_program(rt, p, job, log, error);
    if (status == SPC_OK)
        status = read_cubin(out, rt, p, error);
    rt->destroy(&p);
    if (status == SPC_OK)
        status = spc__cubin_report(&out->resources, kernel, sizeof(kernel),
                                   out->code, out->code_bytes, error);
    if (status == SPC_OK)
        spc__attrs_set_number(
            &out->resources, "spill_bytes",
            spill_bytes(spc__buf_text(log) + log_start, kernel));
    return status;
}

/* ---- open and close ------------------------------------------------------ */

/* The library stays loaded, because it registers handlers with the process. */
static void close_nvrtc(spc__compiler *compiler)
{
    free(compiler);
}

spc_status spc__nvrtc_open(spc__compiler **out, spc_error *error)
{
    int major = 0, minor = 0;
    void *library = NULL;

    *out = NULL;
    spc_status status = open_library(&library, error);
    if (status != SPC_OK)
        return status;
    nvrtc *rt = calloc(1, sizeof(*rt));
    if (rt == NULL)
        return spc__fail_memory(error, sizeof(*rt));
    if ((status = resolve(rt, library, error)) != SPC_OK) {
        free(rt);
        return status;
    }
    rt->version(&major, &minor);
    identify(rt, major, minor);
    /* From 12.9 on NVRTC may use a cache of its own, which would falsify
     * measured compile times. */
    rt->base.flags = major > 12 || (major == 12 && minor >= 9)
                         ? "--std=c++17 --ptxas-options=-v --no-cache"
                         : "--std=c++17 --ptxas-options=-v";
    rt->base.compile = compile;
    rt->base.close = close_nvrtc;
    read_archs(rt);
    *out = &rt->base;
    return SPC_OK;
}
