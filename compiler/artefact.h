/* SPDX-License-Identifier: Apache-2.0 */
/*
 * artefact.h - compiled code with its resource report, and the compilers.
 */
#ifndef SPC_COMPILER_ARTEFACT_H
#define SPC_COMPILER_ARTEFACT_H

#include "base/attrs.h"
#include "compiler/template.h"
#include "spc/status.h"
#include <stdint.h>

/*
 * Resources are those that the compiler reports: registers (per thread; the
 * largest of the module's kernels, but see entry), spill_bytes (stores and
 * loads), local_bytes (stack frame), static_shared_bytes, code_bytes. They
 * describe the kernel "spc_conv" if the module has one, else the largest
 * kernel.
 */
typedef struct spc__artefact {
    void *code; /* cubin or shared object */
    size_t code_bytes;
    spc__attrs resources;
    uint64_t compile_ns;
    /* such as "nvrtc 13.0" or "gcc 12.2.0"; part of the key */
    char compiler[64];
} spc__artefact;

void spc__artefact_release(spc__artefact *artefact);

/*
 * A compiler turns rendered source into an artefact for a target. Several
 * threads may compile at once. `headers` gives the text of included files.
 * SPC_ECOMPILE carries the first error line, which names the template's line.
 * If `log` is not NULL, it receives the complete log.
 */
typedef struct spc__compiler spc__compiler;

/* Opens NVRTC with dlopen (libnvrtc.so, .so.13, .so.12, the usual folders of
 * the CUDA Toolkit, or $SPC_NVRTC). Returns SPC_EUNSUPPORTED if it is not
 * found. */
spc_status spc__nvrtc_open(spc__compiler **out, spc_error *error);

/* Returns SPC_EUNSUPPORTED, with the known ones, if this NVRTC does not know the
 * target. */
spc_status spc__nvrtc_check_target(const spc__compiler *compiler,
                                   const char *target, spc_error *error);

/* Opens the system's C compiler ($SPC_CC, else cc, gcc or clang on the path).
 * Returns SPC_EUNSUPPORTED if it is not found. */
spc_status spc__hostcc_open(spc__compiler **out, spc_error *error);

void spc__compiler_close(spc__compiler *compiler);
const char *spc__compiler_identity(const spc__compiler *compiler);

/* For NVRTC, `target` is a name such as "sm_90a". An unknown one gives
 * SPC_EUNSUPPORTED with the list of known targets. For the host compiler,
 * `target` is its -m flags ("" is fine). */
typedef struct spc__compile_job {
    const char *source;
    const char *name; /* for messages and errors without #line */
    const char *target;
    /* additional options, separated by spaces; may be "" */
    const char *options;
    const spc__library *headers;
    /* Once *cancel is set, compiling ends with SPC_EINTERRUPTED, immediately if
     * the compiler is a separate process. May be NULL. Not part of the key. */
    const volatile int *cancel;
} spc__compile_job;

spc_status spc__compile(spc__artefact *out, spc__compiler *compiler,
                        const spc__compile_job *job, spc__buf *log,
                        spc_error *error);

/* Computes the artefact's key: the SHA-256 of the source, the text of every
 * header that it includes, the options, the compiler's identity and the target,
 * each with its length. Comments do not count, nor do blank lines and #line,
 * except where the code has line numbers. */
void spc__artefact_key(char hex[SPC__SHA256_HEX], const spc__compiler *compiler,
                       const spc__compile_job *job);

/* Checks that the bytes may be passed to the driver of a GPU of this compute
 * capability (90). Returns SPC_EFORMAT if they are not a cubin, are a cubin for
 * another capability, or have a section that exceeds them. */
spc_status spc__cubin_check(const void *code, size_t bytes, int capability,
                            spc_error *error);

/* Counts the bytes of static memory that this code (a cubin or a shared object)
 * can write to and that keep their values between launches. Returns 0 if the
 * bytes are not code. */
size_t spc__code_statics(const void *code, size_t bytes);

#endif
