/* SPDX-License-Identifier: Apache-2.0 */
/*
 * backend.h - what every compiler of artefact.h implements, and shared helpers.
 */
#ifndef SPC_COMPILER_BACKEND_H
#define SPC_COMPILER_BACKEND_H

#include "compiler/artefact.h"

struct spc__compiler {
    spc_status (*compile)(spc__artefact *out, spc__compiler *compiler,
                          const spc__compile_job *job, spc__buf *log,
                          spc_error *error);
    void (*close)(spc__compiler *compiler); /* frees the struct as well */
    char identity[64];
    const char *flags; /* always passed; part of the key */
    int limit_seconds; /* limit for one compilation, if it can be enforced */
    bool keeps_lines;  /* code with __LINE__ names lines of its source */
};

/* Appends the part of a rendered source that decides its code: all but
 * comments, blank lines and #line. The comment at the very beginning stays. */
void spc__strip_rendered(spc__buf *out, const char *text);

/* The headers that a source includes, directly or through others, in the order
 * of their first use. The pointers belong to the library. */
enum { SPC__MOST_INCLUDES = 64 };

typedef struct spc__includes {
    const char *names[SPC__MOST_INCLUDES];
    const char *texts[SPC__MOST_INCLUDES];
    const char *hashes[SPC__MOST_INCLUDES]; /* hashes of their code */
    int count;
} spc__includes;

void spc__includes_collect(spc__includes *out, const spc__compile_job *job);

/* Space-separated words, stored in one allocation. */
typedef struct spc__words {
    char *text;
    const char **at; /* at[count] is NULL */
    int count;
} spc__words;

/* Splits `first`, then `second`. Returns false if out of memory. */
bool spc__words_split(spc__words *out, const char *first, const char *second);
void spc__words_release(spc__words *words);

/* Reads registers, frame, shared memory and code size from a cubin (ELF
 * .nv.info). *out receives the resources of an artefact, `kernel` the name of
 * the kernel that they describe. */
spc_status spc__cubin_report(spc__attrs *out, char *kernel, size_t size,
                             const void *code, size_t bytes, spc_error *error);

/* Returns SPC_ECOMPILE with "cannot compile 'NAME' for TARGET: " and the first
 * error of the log. */
spc_status spc__fail_compile(const spc__compile_job *job, const char *log,
                             spc_error *error);

#endif
