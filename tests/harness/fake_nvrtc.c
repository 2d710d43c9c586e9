/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fake_nvrtc.c - a double of NVRTC for tests of the host code, which run no
 * kernels. It accepts every source and returns a minimal cubin.
 */
#include <elf.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

typedef struct cubin {
    Elf64_Ehdr header;
    Elf64_Shdr sections[3]; /* null section, names, code */
    char names[32];
    char code[16];
} cubin;

EXPORT extern int fake_nvrtc_compiles; /* the number of programs compiled */
int fake_nvrtc_compiles;

static const char names[] = "\0.shstrtab\0.text.spc_conv";
enum { NAME_OF_NAMES = 1, NAME_OF_CODE = 11 };

EXPORT int nvrtcVersion(int *major, int *minor);
EXPORT const char *nvrtcGetErrorString(int result);
EXPORT int nvrtcGetNumSupportedArchs(int *count);
EXPORT int nvrtcGetSupportedArchs(int *archs);
EXPORT int nvrtcCreateProgram(void **out, const char *source, const char *name,
                              int header_count, const char *const *headers,
                              const char *const *header_names);
EXPORT int nvrtcDestroyProgram(void **program);
EXPORT int nvrtcCompileProgram(void *program, int count,
                               const char *const *options);
EXPORT int nvrtcGetCUBINSize(void *program, size_t *bytes);
EXPORT int nvrtcGetCUBIN(void *program, char *out);
EXPORT int nvrtcGetProgramLogSize(void *program, size_t *bytes);
EXPORT int nvrtcGetProgramLog(void *program, char *log);

int nvrtcVersion(int *major, int *minor)
{
    *major = 12;
    *minor = 0;
    return 0;
}

const char *nvrtcGetErrorString(int result)
{
    return result == 0 ? "no error" : "an error";
}

int nvrtcGetNumSupportedArchs(int *count)
{
    *count = 2;
    return 0;
}

int nvrtcGetSupportedArchs(int *archs)
{
    archs[0] = 80;
    archs[1] = 90;
    return 0;
}

int nvrtcCreateProgram(void **out, const char *source, const char *name,
                       int header_count, const char *const *headers,
                       const char *const *header_names)
{
    *out = calloc(1, sizeof(int)); /* the requested compute capability */
    return *out == NULL;
}

int nvrtcDestroyProgram(void **program)
{
    free(*program);
    *program = NULL;
    return 0;
}

int nvrtcCompileProgram(void *program, int count, const char *const *options)
{
    int *capability = program;

    /* The library compares the capability in the file's header with the
     * device's. */
    for (int i = 0; i < count; i++) {
        const char *target = strstr(options[i], "sm_");
        if (target != NULL)
            *capability = atoi(target + 3);
    }
    /* Several threads compile at once. */
    __atomic_fetch_add(&fake_nvrtc_compiles, 1, __ATOMIC_RELAXED);
    return 0;
}

int nvrtcGetCUBINSize(void *program, size_t *bytes)
{
    *bytes = sizeof(cubin);
    return 0;
}

int nvrtcGetCUBIN(void *program, char *out)
{
    const int *capability = program;
    cubin it = {
        .header = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB},
                   .e_machine = EM_CUDA,
                   .e_flags = (Elf64_Word)*capability,
                   .e_shoff = offsetof(cubin, sections),
                   .e_shentsize = sizeof(Elf64_Shdr),
                   .e_shnum = 3,
                   .e_shstrndx = 1},
        .sections = {[1] = {.sh_name = NAME_OF_NAMES,
                            .sh_type = SHT_STRTAB,
                            .sh_offset = offsetof(cubin, names),
                            .sh_size = sizeof(names)},
                     [2] = {.sh_name = NAME_OF_CODE,
                            .sh_type = SHT_PROGBITS,
                            .sh_offset = offsetof(cubin, code),
                            .sh_size = sizeof(it.code)}},
    };

    memcpy(it.names, names, sizeof(names));
    memcpy(out, &it, sizeof(it));
    return 0;
}

int nvrtcGetProgramLogSize(void *program, size_t *bytes)
{
    /* The size of the empty text includes its final zero byte. */
    *bytes = 1;
    return 0;
}

int nvrtcGetProgramLog(void *program, char *log)
{
    log[0] = '\0';
    return 0;
}
