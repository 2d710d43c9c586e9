/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hostcc.c - compiles C source to a shared object with the system's C compiler.
 *
 * Source, headers and all files of the compiler are kept in a private folder,
 * which is removed after the compilation.
 */
#include "base/error.h"
#include "base/file.h"
#include "compiler/backend.h"
#include "compiler/child.h"
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LIMIT_SECONDS = 60, MOST_CODE_BYTES = 1 << 28 };

typedef struct hostcc {
    spc__compiler base;
    char path[512];
} hostcc;

/* ---- the source folder --------------------------------------------------- */

static spc_status write_file(const char *path, const char *text,
                             spc_error *error)
{
    size_t bytes = strlen(text);
    int cause = 0;

    /* "x": nothing that exists is overwritten; "e": compilers started by other
     * threads do not inherit it. */
    FILE *file = fopen(path, "wxe");
    if (file == NULL || fwrite(text, 1, bytes, file) != bytes)
        cause = errno;
    if (file != NULL && fclose(file) != 0 && cause == 0)
        cause = errno; /* the flush failed */
    if (cause == 0)
        return SPC_OK;
    return spc__fail(error, SPC_EIO, "cannot write '%s': %s", path,
                     strerror(cause));
}

/* Writes the source and, next to it, all headers that it can include. */
static spc_status write_sources(const char *folder, const char *source,
                                const spc__compile_job *job, spc_error *error)
{
    spc__includes includes;
    spc__buf path = SPC__BUF_INIT;
    spc_status status = write_file(source, job->source, error);

    spc__includes_collect(&includes, job);
    for (int i = 0; i < includes.count && status == SPC_OK; i++) {
        spc__buf_clear(&path);
        spc__buf_printf(&path, "%s/%s", folder, includes.names[i]);
        status = path.failed ? spc__fail_memory(error, strlen(folder))
                             : write_file(path.data, includes.texts[i], error);
    }
    spc__buf_release(&path);
    return status;
}

/* ---- compiling ----------------------------------------------------------- */

/* Makes the name that messages without a #line show. */
static void name_source(char out[64], const char *name)
{
    int length = snprintf(out, 48, "%s", name);

    for (int i = 0; i < length && i < 47; i++)
        if (strchr("/\\\"* ", out[i]) != NULL)
            out[i] = '_';
    strcat(out, ".c");
}

/* Removes the folder's name from the messages, since it differs each time. */
static void hide_folder(spc__buf *log, size_t start, const char *folder)
{
    size_t length = strlen(folder);

    if (log->length == start)
        return;
    char *to = log->data + start;
    for (const char *from = to; *from != '\0';) {
        if (strncmp(from, folder, length) == 0 && from[length] == '/')
            from += length + 1;
        else
            *to++ = *from++;
    }
    *to = '\0';
    log->length = (size_t)(to - log->data);
}

/* Runs CC FLAGS TARGET OPTIONS -o OBJECT SOURCE -lm. Later flags override
 * earlier ones. The words in capitals are replaced after splitting, because a
 * path may contain spaces. */
static spc_status run_compiler(hostcc *cc, const spc__compile_job *job,
                               const char *folder, const char *source,
                               const char *object, spc__buf *log, int *code,
                               spc_error *error)
{
    spc__buf head = SPC__BUF_INIT, tail = SPC__BUF_INIT;
    spc__words words = {0};
    spc_status status;

    spc__buf_printf(&head, "CC %s %s", cc->base.flags, job->target);
    spc__buf_printf(&tail, "%s -o OBJECT SOURCE -lm", job->options);
    if (head.failed || tail.failed ||
        !spc__words_split(&words, head.data, tail.data)) {
        status = spc__fail_memory(error, strlen(job->options));
    } else {
        words.at[0] = cc->path;
        words.at[words.count - 3] = object;
        words.at[words.count - 2] = source;
        status = spc__child_run(code, log, cc->path, words.at, folder,
                                cc->base.limit_seconds, job->cancel, error);
    }
    spc__words_release(&words);
    spc__buf_release(&head);
    spc__buf_release(&tail);
    return status;
}

/* True if the compiler was killed, or the program that it runs, as gcc
 * reports. */
static bool was_killed(int code, const spc__buf *log, size_t start)
{
    return code == 128 + SIGKILL ||
           (code != 0 && log->length > start &&
            strstr(log->data + start, "Killed signal terminated") != NULL);
}

/* Compiles the source to an object, and turns the compiler's log into an
 * error. */
static spc_status build(hostcc *cc, const spc__compile_job *job,
                        const char *folder, const char *source,
                        const char *object, spc__buf *log, spc_error *error)
{
    size_t start = log->length;
    int code = 0;

    spc_status status =
        run_compiler(cc, job, folder, source, object, log, &code, error);
    hide_folder(log, start, folder);
    if (status != SPC_OK)
        spc__fail_prefix(error, "cannot compile '%s': ", job->name);
    else if (was_killed(code, log, start))
        status = spc__fail(error, SPC_ENOMEM,
                           "cannot compile '%s': '%s' was killed, as where "
                           "memory runs out",
                           job->name, cc->path);
    else if (code != 0)
        status = spc__fail_compile(
            job, log->length > start ? log->data + start : "", error);
    return status;
}

/* Reads the object into memory. */
static spc_status take_object(spc__artefact *out, const hostcc *cc,
                              const spc__compile_job *job, const char *path,
                              spc_error *error)
{
    spc__buf code = SPC__BUF_INIT;

    /* A wrapper may report success although its compiler was not found. */
    if (access(path, F_OK) != 0)
        return spc__fail(error, SPC_ECOMPILE,
                         "cannot compile '%s': '%s' reports success, but left "
                         "no object",
                         job->name, cc->path);
    spc_status status = spc__file_read(&code, path, MOST_CODE_BYTES, error);
    if (status == SPC_OK) {
        out->code_bytes = code.length;
        out->code = spc__buf_detach(&code);
        spc__attrs_set_number(&out->resources, "code_bytes",
                              (int64_t)out->code_bytes);
        if (out->code == NULL)
            status = spc__fail_memory(error, out->code_bytes);
    }
    spc__buf_release(&code);
    return status;
}

/* Compiles in a private folder, which is removed whatever happens. */
static spc_status compile(spc__artefact *out, spc__compiler *compiler,
                          const spc__compile_job *job, spc__buf *log,
                          spc_error *error)
{
    spc__buf folder = SPC__BUF_INIT, object = SPC__BUF_INIT,
             source = SPC__BUF_INIT;
    char name[64];
    int lock;

    spc_status status = spc__work_dir_create(&folder, &lock, NULL, error);
    if (status != SPC_OK)
        goto done;
    name_source(name, job->name);
    spc__buf_printf(&source, "%s/%s", folder.data, name);
    spc__buf_printf(&object, "%s/spc_object.so", folder.data);
    if (source.failed || object.failed)
        status = spc__fail_memory(error, folder.length);
    if (status == SPC_OK)
        status = write_sources(folder.data, source.data, job, error);
    if (status == SPC_OK)
        status = build((hostcc *)compiler, job, folder.data, source.data,
                       object.data, log, error);
    if (status == SPC_OK)
        status = take_object(out, (hostcc *)compiler, job, object.data, error);
    spc__temp_dir_remove(folder.data);
    /* The lock tells other processes that the folder is in use, so it is
     * released last. */
    close(lock);
done:
    spc__buf_release(&folder);
    spc__buf_release(&object);
    spc__buf_release(&source);
    return status;
}

/* ---- open and close ------------------------------------------------------ */

static void close_hostcc(spc__compiler *compiler)
{
    free(compiler);
}

/* Shortens "cc (Debian 12.2.0-14) 12.2.0" to "gcc 12.2.0" and "Debian clang
 * version 14.0.6" to "clang 14.0.6", so that two names of one compiler are
 * equal. Any other text keeps its whole first line. */
static void read_identity(char out[64], const char *text)
{
    int length = (int)strcspn(text, "\n");
    const char *clang = strstr(text, "clang version ");
    const char *close = strchr(text, ')');

    if (clang != NULL && clang < text + length) {
        clang += strlen("clang version ");
        snprintf(out, 64, "clang %.*s", (int)strcspn(clang, " \n-"), clang);
    } else if (close != NULL && close < text + length && close[1] == ' ') {
        close += 2;
        snprintf(out, 64, "gcc %.*s", (int)strcspn(close, " \n"), close);
    } else {
        snprintf(out, 64, "%.*s", length, text);
    }
}

/* Asks a compiler for its version. Returns SPC_OK if it answers. */
static spc_status try_compiler(hostcc *cc, const char *path, spc_error *error)
{
    spc__buf text = SPC__BUF_INIT;
    const char *arguments[] = {path, "--version", NULL};
    int code = 0;

    if (strlen(path) >= sizeof(cc->path))
        return spc__fail(error, SPC_EUNSUPPORTED, "too long a path: '%s'",
                         path);
    spc_status status =
        spc__child_run(&code, &text, path, arguments, NULL, 10, NULL, error);
    if (status == SPC_OK && (code != 0 || text.length == 0))
        status = spc__fail(error, SPC_EUNSUPPORTED,
                           "'%s --version' fails with status %d", path, code);
    if (status == SPC_OK) {
        snprintf(cc->path, sizeof(cc->path), "%s", path);
        read_identity(cc->base.identity, text.data);
    }
    spc__buf_release(&text);
    return status;
}

/* Uses the compiler that SPC_CC names, else the first usual one that answers.
 * If SPC_CC names one that fails, no other is tried. */
static spc_status find_compiler(hostcc *cc, spc_error *error)
{
    static const char *const usual[] = {"cc", "gcc", "clang"};
    const char *named = getenv("SPC_CC");

    if (named != NULL && named[0] != '\0') {
        if (try_compiler(cc, named, error) == SPC_OK)
            return SPC_OK;
        spc__fail_prefix(error, "SPC_CC names no C compiler: ");
        return SPC_EUNSUPPORTED;
    }
    for (size_t i = 0; i < sizeof(usual) / sizeof(usual[0]); i++)
        if (try_compiler(cc, usual[i], NULL) == SPC_OK)
            return SPC_OK;
    return spc__fail(error, SPC_EUNSUPPORTED,
                     "there is no C compiler (cc, gcc, clang) on the path; "
                     "SPC_CC may name one");
}

spc_status spc__hostcc_open(spc__compiler **out, spc_error *error)
{
    *out = NULL;
    hostcc *cc = calloc(1, sizeof(*cc));
    if (cc == NULL)
        return spc__fail_memory(error, sizeof(*cc));
    spc_status status = find_compiler(cc, error);
    if (status != SPC_OK) {
        free(cc);
        return status;
    }
    /* Removes folders of processes that were killed. */
    spc__work_dirs_sweep(NULL);
    /* The linker adds no writable memory of its own, and the loader locks
     * tables of addresses. All remaining writable memory belongs to the code
     * (see statics.c). */
    cc->base.flags = "-x c -std=gnu11 -O3 -shared -fPIC -nostartfiles "
                     "-Werror=implicit-function-declaration "
                     "-Wl,-z,relro,-z,now";
    cc->base.limit_seconds = LIMIT_SECONDS;
    cc->base.keeps_lines = true; /* the emulation's messages name these lines */
    cc->base.compile = compile;
    cc->base.close = close_hostcc;
    *out = &cc->base;
    return SPC_OK;
}
