/* SPDX-License-Identifier: Apache-2.0 */
/* compile.c - the parts that all compilers share. */
#include "compiler/artefact.h"

#include "base/cancel.h"
#include "base/clock.h"
#include "base/error.h"
#include "compiler/backend.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- included headers ---------------------------------------------------- */

static bool is_collected(const spc__includes *includes, const char *text)
{
    for (int i = 0; i < includes->count; i++)
        /* Compares pointers, as the library holds each header once. */
        if (includes->texts[i] == text)
            return true;
    return false;
}

/* Reads the file name of an include line: `# include "name"`. Returns false for
 * any other line. */
static bool read_include(char *name, size_t size, const char *line)
{
    line += strspn(line, " \t");
    if (*line++ != '#')
        return false;
    line += strspn(line, " \t");
    if (strncmp(line, "include", 7) != 0)
        return false;
    line += 7 + strspn(line + 7, " \t");
    if (*line != '"' && *line != '<')
        return false;
    size_t length = strcspn(line + 1, "\">\n");
    if (length >= size)
        return false;
    memcpy(name, line + 1, length);
    name[length] = '\0';
    return true;
}

/* Collects the headers that `text` includes. The compiler handles names that
 * the library does not know. */
static void collect(spc__includes *out, const char *text,
                    const spc__library *headers)
{
    char name[128];

    for (const char *line = text; line != NULL;
         line = strchr(line, '\n'), line += line != NULL) {
        if (!read_include(name, sizeof(name), line))
            continue;
        const char *header = spc__library_header(headers, name);
        if (header == NULL || is_collected(out, header) ||
            out->count == SPC__MOST_INCLUDES)
            continue;
        out->names[out->count] = spc__library_header_name(headers, name);
        out->hashes[out->count] = spc__library_header_hash(headers, name);
        out->texts[out->count++] = header;
    }
}

void spc__includes_collect(spc__includes *out, const spc__compile_job *job)
{
    out->count = 0;
    if (job->headers == NULL)
        return;
    collect(out, job->source, job->headers);
    for (int i = 0; i < out->count; i++) /* the list grows during the loop */
        collect(out, out->texts[i], job->headers);
}

/* ---- words --------------------------------------------------------------- */

bool spc__words_split(spc__words *out, const char *first, const char *second)
{
    size_t bytes = strlen(first) + strlen(second) + 2;

    *out = (spc__words){0};
    out->text = malloc(bytes);
    /* A word takes at least two bytes, including its space. The list also has
     * room for a word of the caller and for NULL. */
    out->at = malloc((bytes / 2 + 2) * sizeof(out->at[0]));
    if (out->text == NULL || out->at == NULL) {
        spc__words_release(out);
        return false;
    }
    snprintf(out->text, bytes, "%s %s", first, second);
    char *rest = NULL;
    for (char *word = strtok_r(out->text, " ", &rest); word != NULL;
         word = strtok_r(NULL, " ", &rest))
        out->at[out->count++] = word;
    out->at[out->count] = NULL;
    return true;
}

void spc__words_release(spc__words *words)
{
    free(words->text);
    free(words->at);
    *words = (spc__words){0};
}

/* ---- errors -------------------------------------------------------------- */

static bool contains(const char *line, size_t length, const char *word)
{
    const char *found = strstr(line, word);
    return found != NULL && found < line + length;
}

/* "x.cu.lua(7): error: ...", "x.c.lua:7:3: error: ...", "ptxas x, line 7;
 * error   : ..." */
static bool is_error_line(const char *line, size_t length)
{
    return contains(line, length, "error:") ||
           contains(line, length, "error :") ||
           contains(line, length, "error   :") ||
           contains(line, length, "undefined reference");
}

/* Returns the first line that is an error, else the first non-empty line. */
static const char *find_error(const char *log, size_t *length)
{
    const char *otherwise = "";
    size_t otherwise_length = 0;

    for (const char *line = log; *line != '\0'; line += *line == '\n') {
        *length = strcspn(line, "\n");
        if (is_error_line(line, *length))
            return line;
        if (otherwise_length == 0 && *length > 0) {
            otherwise = line;
            otherwise_length = *length;
        }
        line += *length;
    }
    *length = otherwise_length;
    return otherwise;
}

spc_status spc__fail_compile(const spc__compile_job *job, const char *log,
                             spc_error *error)
{
    size_t length;
    const char *line = find_error(log, &length);

    return spc__fail(error, SPC_ECOMPILE, "cannot compile '%s'%s%s: %.*s",
                     job->name, job->target[0] != '\0' ? " for " : "",
                     job->target, (int)(length > 700 ? 700 : length),
                     length > 0 ? line : "the compiler gives no reason");
}

/* ---- compiling ----------------------------------------------------------- */

spc_status spc__compile(spc__artefact *out, spc__compiler *compiler,
                        const spc__compile_job *job, spc__buf *log,
                        spc_error *error)
{
    spc__buf own_log = SPC__BUF_INIT;
    spc__compile_job complete = *job;
    uint64_t start = spc__now_ns();

    *out = (spc__artefact){0};
    if (spc__cancelled(job->cancel))
        return spc__interrupted(error);
    complete.name = job->name != NULL ? job->name : "kernel";
    complete.target = job->target != NULL ? job->target : "";
    complete.options = job->options != NULL ? job->options : "";
    spc_status status = compiler->compile(out, compiler, &complete,
                                          log != NULL ? log : &own_log, error);
    out->compile_ns = spc__now_ns() - start;
    snprintf(out->compiler, sizeof(out->compiler), "%s", compiler->identity);
    if (status != SPC_OK)
        spc__artefact_release(out);
    spc__buf_release(&own_log);
    return status;
}

void spc__artefact_release(spc__artefact *artefact)
{
    if (artefact == NULL)
        return;
    free(artefact->code);
    *artefact = (spc__artefact){0};
}

void spc__compiler_close(spc__compiler *compiler)
{
    if (compiler != NULL)
        compiler->close(compiler);
}

const char *spc__compiler_identity(const spc__compiler *compiler)
{
    return compiler->identity;
}

/* ---- the key ------------------------------------------------------------- */

static void put_field(spc__sha256 *sha, const char *text)
{
    spc__sha256_field(sha, text != NULL ? text : "",
                      text != NULL ? strlen(text) : 0);
}

/* True if the compiled code has line numbers of its source, as that of the
 * emulation for its messages. NVRTC never sees such a branch. */
static bool keeps_lines(const spc__compiler *compiler, const char *source,
                        const spc__includes *includes)
{
    bool names_lines = strstr(source, "__LINE__") != NULL;

    if (!compiler->keeps_lines)
        return false;
    for (int i = 0; i < includes->count && !names_lines; i++)
        names_lines = strstr(includes->texts[i], "__LINE__") != NULL;
    return names_lines;
}

/* Adds a source without its comments, so that its code is found again after a
 * change of comments. */
static void put_code(spc__sha256 *sha, const char *source)
{
    spc__buf code = SPC__BUF_INIT;

    spc__strip_rendered(&code, source);
    /* If out of memory, the whole text makes a key that is not stored yet. */
    put_field(sha, code.failed ? source : spc__buf_text(&code));
    spc__buf_release(&code);
}

void spc__artefact_key(char hex[SPC__SHA256_HEX], const spc__compiler *compiler,
                       const spc__compile_job *job)
{
    spc__sha256 sha;
    spc__includes includes;

    spc__includes_collect(&includes, job);
    bool lines = keeps_lines(compiler, job->source, &includes);
    spc__sha256_init(&sha);
    /* Each field is hashed with its length, so that fields cannot run into one
     * another. */
    if (lines)
        put_field(&sha, job->source);
    else
        put_code(&sha, job->source);
    for (int i = 0; i < includes.count; i++) {
        put_field(&sha, includes.names[i]);
        put_field(&sha, lines ? includes.texts[i] : includes.hashes[i]);
    }
    /* Hashes everything that affects the code. The job's name only labels
     * messages. */
    put_field(&sha, compiler->flags);
    put_field(&sha, job->options);
    put_field(&sha, compiler->identity);
    put_field(&sha, job->target);
    spc__sha256_end(hex, &sha);
}
