/* SPDX-License-Identifier: Apache-2.0 */
/*
 * artefact.h - compiled code with its resource report, and the compilers.
 */
#ifndef SPC_COMPILER_ARTEFACT_H
#define SPC_COMPILER_ARTEFACT_H

#include "base/attrs.h"
#include "compiler/template.h"
#include "spc_status.h"
#include <stdint.h>

/*
 * Resources hold, as far as the compiler says: registers (per thread, the
 * largest of the module's kernels, but see entry), spill_bytes (stores and
 * loads), local_bytes (stack frame), static_shared_bytes, code_bytes. They
 * describe the kernel named "spc_conv" if the module has one, else the
 * largest.
 */
typedef struct spc__artefact {
    void *code; /* cubin or shared object */
    size_t code_bytes;
    spc__attrs resources;
    uint64_t compile_ns;
    char compiler[64]; /* "nvrtc 13.0", "gcc 12.2.0": part of the key */
} spc__artefact;

void spc__artefact_release(spc__artefact *artefact);

/*
 * A compiler turns rendered source into an artefact for a target. Compile may
 * be called from several threads at once. `headers` gives the text of
 * included files. SPC_ECOMPILE carries the first error line, which names the
 * template's line; the whole log goes to *log if it is not NULL.
 */
typedef struct spc__compiler spc__compiler;

/* NVRTC through dlopen (libnvrtc.so, .so.13, .so.12, the CUDA Toolkit's
 * usual folders, or $SPC_NVRTC); SPC_EUNSUPPORTED if there is none. */
spc_status spc__nvrtc_open(spc__compiler **out, spc_error *error);

/* The system's C compiler ($SPC_CC, else cc, gcc, clang on the path);
 * SPC_EUNSUPPORTED if there is none. */
spc_status spc__hostcc_open(spc__compiler **out, spc_error *error);

void spc__compiler_close(spc__compiler *compiler);
const char *spc__compiler_identity(const spc__compiler *compiler);

/* `target` is "sm_90a" for NVRTC (SPC_EUNSUPPORTED with the list of known ones
 * if it does not know it), the -m flags for the host compiler ("" is fine). */
typedef struct spc__compile_job {
    const char *source;
    const char *name; /* for messages and #line-less errors */
    const char *target;
    const char *options; /* extra, space separated; "" is fine */
    const spc__library *headers;
    /* Not NULL: once *cancel is set, compiling ends with SPC_EINTERRUPTED, at
     * once where the compiler is a process of its own. No part of the key. */
    const volatile int *cancel;
} spc__compile_job;

spc_status spc__compile(spc__artefact *out, spc__compiler *compiler,
                        const spc__compile_job *job, spc__buf *log,
                        spc_error *error);

/* The artefact's key: SHA-256 over length-prefixed source, the text of every
 * header it includes, options, compiler identity, target. */
void spc__artefact_key(char hex[SPC__SHA256_HEX], const spc__compiler *compiler,
                       const spc__compile_job *job);

/* May these bytes be given to a driver whose GPU has this compute capability
 * (90)? SPC_EFORMAT: they are no cubin, one for others, or one with sections
 * outside of them. */
spc_status spc__cubin_check(const void *code, size_t bytes, int capability,
                            spc_error *error);

/* Bytes that this code, of either kind, can write to and finds again in its
 * next launch; 0 also if it is no code. */
size_t spc__code_statics(const void *code, size_t bytes);

#endif
