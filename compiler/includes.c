/* SPDX-License-Identifier: Apache-2.0 */
/*
 * includes.c - finds which files a template consists of: its own text and every
 * shared file that it can include. Its hash covers exactly these, so records
 * stay valid when an unrelated file changes. The hash ignores comments and
 * blank lines, so records also stay valid when a comment is improved. The key
 * of compiled code ignores them in the same way.
 *
 * The texts are scanned before any Lua runs, because embed.cmake must be able
 * to do the same. A name after the word `include` counts everywhere, even in a
 * comment or in a branch that is never taken. `index_$(search).cuh` matches
 * every file with such a name. The result may therefore be larger than what a
 * rendering opens, but never smaller: any other file is refused.
 */
#include "base/buf.h"
#include "base/error.h"
#include "compiler/backend.h"
#include "compiler/internal.h"
#include <stdlib.h>
#include <string.h>

/* ---- texts without comments ---------------------------------------------- */

/*
 * Each pass below copies a text and omits one kind of comment.
 * templates/embed.cmake does the same with one regular expression for each
 * pass, so the rules are simple: a comment may be missed and counted as code,
 * but code is never counted as a comment. The text starts with an added
 * newline, so that every line follows a newline.
 */
static size_t blanks(const char *text)
{
    return strspn(text, " \t");
}

/* Returns the length of a C comment at the start of `text`, or 0. */
static size_t c_comment(const char *text)
{
    if (text[0] != '/' || text[1] != '*')
        return 0;
    const char *end = strstr(text + 2, "*/");

    return end != NULL ? (size_t)(end + 2 - text) : 0;
}

/* Copies the rest of a line with its newline, and returns what follows. */
static const char *copy_line(spc__buf *out, const char *text)
{
    size_t length = strcspn(text, "\n");

    length += text[length] == '\n';
    spc__buf_append(out, text, length);
    return text + length;
}

/* Drops C comments that start a line. */
static void drop_blocks(spc__buf *out, const char *text)
{
    while (*text != '\0') {
        text = copy_line(out, text);
        size_t comment = c_comment(text + blanks(text));
        if (comment > 0)
            text += blanks(text) + comment;
    }
}

/* Drops C comments within a line and the blanks in front. */
static void drop_inline(spc__buf *out, const char *text)
{
    while (*text != '\0') {
        size_t code = strcspn(text, " \t/");
        spc__buf_append(out, text, code);
        text += code;
        size_t space = blanks(text), comment = c_comment(text + space);

        if (comment > 0 && memchr(text + space, '\n', comment) == NULL) {
            text += space + comment;
            continue;
        }
        size_t kept = space > 0 ? space : *text == '/';
        spc__buf_append(out, text, kept);
        text += kept;
    }
}

/* Drops comment lines of Lua, which start with '%' and "--". */
static void drop_lua(spc__buf *out, const char *text)
{
    while (*text != '\0') {
        text = copy_line(out, text);
        const char *line = text + blanks(text);
        if (*line != '%')
            continue;
        line += 1 + blanks(line + 1);
        if (strncmp(line, "--", 2) != 0)
            continue;
        line += 2; /* "--[[" may start a block comment: keep it */
        text = line + (*line == '[' ? 0 : strcspn(line, "\n"));
    }
}

/* Returns the length of an empty line at the start of `text`, or 0. An empty
 * line of Lua may have a '%'. */
static size_t empty_line(const char *text)
{
    size_t n = blanks(text);

    if (text[n] == '%')
        n += 1 + blanks(text + n + 1);
    return text[n] == '\n' ? n + 1 : 0;
}

static void drop_empty_lines(spc__buf *out, const char *text)
{
    while (*text != '\0') {
        text = copy_line(out, text);
        for (size_t n; (n = empty_line(text)) > 0; text += n)
            continue;
    }
}

/* Drops #line, which the renderer writes where comments or Lua were. */
static void drop_line_marks(spc__buf *out, const char *text)
{
    while (*text != '\0') {
        text = copy_line(out, text);
        if (strncmp(text, "#line ", 6) == 0)
            text += strcspn(text, "\n");
    }
}

typedef void (*pass)(spc__buf *out, const char *text);

/* Reduces a text to the part that a hash covers. */
static void strip(spc__buf *out, const char *text, const pass passes[4])
{
    spc__buf from = SPC__BUF_INIT, to = SPC__BUF_INIT;

    spc__buf_printf(&from, "\n%s", text);
    for (int i = 0; i < 4; i++) {
        spc__buf_clear(&to);
        passes[i](&to, spc__buf_text(&from));
        to.failed |= from.failed;
        spc__buf swap = from;
        from = to;
        to = swap;
    }
    spc__buf_append(out, from.data, from.length);
    out->failed |= from.failed;
    spc__buf_release(&from);
    spc__buf_release(&to);
}

static void strip_template(spc__buf *out, const char *text)
{
    strip(out, text,
          (const pass[]){drop_blocks, drop_inline, drop_lua, drop_empty_lines});
}

void spc__strip_rendered(spc__buf *out, const char *text)
{
    /* The banner names problem and configuration. The code of two
     * configurations may be equal, but each has an artefact of its own. */
    size_t banner = c_comment(text);

    spc__buf_append(out, text, banner);
    strip(out, text + banner,
          (const pass[]){drop_blocks, drop_inline, drop_line_marks,
                         drop_empty_lines});
}

/* Hashes the bytes, followed by the text `more`. */
static void digest_of(char hex[SPC__SHA256_HEX], const char *text, size_t bytes,
                      const char *more)
{
    spc__sha256 sha;

    spc__sha256_init(&sha);
    spc__sha256_update(&sha, text, bytes);
    spc__sha256_update(&sha, more, strlen(more));
    spc__sha256_end(hex, &sha);
}

/* Hashes a text without its comments, followed by `more`. */
static spc_status digest_text(char hex[SPC__SHA256_HEX], const char *text,
                              const char *more)
{
    spc__buf code = SPC__BUF_INIT;

    strip_template(&code, text);
    digest_of(hex, spc__buf_text(&code), code.length, more);
    bool failed = code.failed;
    spc__buf_release(&code);
    return failed ? SPC_ENOMEM : SPC_OK;
}

/* ---- names in a text ----------------------------------------------------- */

/* Returns the name after the word `include`, without its quotes. */
typedef struct included {
    const char *name;
    size_t length;
} included;

/* Finds the next included name and advances *text past it. */
static bool next_included(included *out, const char **text)
{
    const char *at = *text;

    while ((at = strstr(at, "include")) != NULL) {
        at += strlen("include");
        at += strspn(at, " \t(");
        /* strchr would find the end of a text. */
        if (*at == '\0' || strchr("\"'<", *at) == NULL)
            continue;
        out->name = at + 1;
        out->length = strcspn(out->name, "\"'>\n");
        *text = out->name + out->length;
        return true;
    }
    return false;
}

/* Returns the start of the first expression in the name, or NULL. */
static const char *find_expression(const included *one)
{
    const char *at = memchr(one->name, '$', one->length);

    return at != NULL && at[1] == '(' ? at : NULL;
}

/* Returns the end of the last expression in the name, or its length. */
static size_t after_expressions(const included *one)
{
    for (size_t i = one->length; i > 0; i--)
        if (one->name[i - 1] == ')')
            return i;
    return one->length;
}

/* True if `file` matches the name. An expression matches any text, so only the
 * parts before and after must agree. */
static bool may_be(const included *one, const char *file)
{
    size_t length = strlen(file);
    const char *expression = find_expression(one);

    if (expression == NULL)
        return length == one->length && memcmp(file, one->name, length) == 0;
    size_t before = (size_t)(expression - one->name);
    size_t begin = after_expressions(one), after = one->length - begin;
    return before <= length && after <= length &&
           memcmp(file, one->name, before) == 0 &&
           memcmp(file + length - after, one->name + begin, after) == 0;
}

/* Marks the shared files that a text includes. */
static void mark_included(bool *marks, const spc__library *library,
                          const char *text)
{
    included one;

    while (next_included(&one, &text))
        for (int i = 0; i < library->shared_count; i++)
            marks[i] = marks[i] || may_be(&one, library->shared[i].name);
}

/* ---- shared files -------------------------------------------------------- */

spc_status spc__library_link(spc__library *library, spc_error *error)
{
    size_t count = (size_t)library->shared_count;

    for (size_t i = 0; i < count; i++) {
        spc__shared *shared = &library->shared[i];
        if (digest_text(shared->hash, shared->text, "") != SPC_OK)
            return spc__fail_memory(error, strlen(shared->text));
        if ((shared->includes = calloc(count, sizeof(bool))) == NULL)
            return spc__fail_memory(error, count);
        mark_included(shared->includes, library, shared->text);
    }
    return SPC_OK;
}

/* Adds the files that the marked files include, recursively. */
static void close_over(bool *marks, const spc__library *library)
{
    bool grew = true;

    /* Files may include each other in any order, so marks are added until none
     * is new. */
    while (grew) {
        grew = false;
        for (int i = 0; i < library->shared_count; i++)
            for (int k = 0; marks[i] && k < library->shared_count; k++)
                if (library->shared[i].includes[k] && !marks[k])
                    grew = marks[k] = true;
    }
}

/* ---- templates ----------------------------------------------------------- */

spc_status spc__template_link(spc__template *tpl, spc_error *error)
{
    const spc__library *library = tpl->library;
    spc__buf all = SPC__BUF_INIT;
    char shared[SPC__SHA256_HEX];

    tpl->covers = calloc((size_t)library->shared_count + 1, sizeof(bool));
    if (tpl->covers == NULL)
        return spc__fail_memory(error, (size_t)library->shared_count);
    mark_included(tpl->covers, library, tpl->text);
    close_over(tpl->covers, library);
    for (int i = 0; i < library->shared_count; i++)
        if (tpl->covers[i])
            /* Adds the texts in the order of names, so that the hash does not
             * depend on the order of the folder. */
            spc__buf_puts(&all, library->shared[i].hash);
    digest_of(shared, spc__buf_text(&all), all.length, "");
    bool failed =
        digest_text(tpl->hash, tpl->text, shared) != SPC_OK || all.failed;
    spc__buf_release(&all);
    return failed ? spc__fail_memory(error, SPC__SHA256_HEX) : SPC_OK;
}

bool spc__template_covers(const spc__template *tpl, const char *file)
{
    const spc__library *library = tpl->library;
    const spc__shared *shared = spc__library_shared(library, file);

    return shared != NULL && tpl->covers[shared - library->shared];
}

/* Returns the first shared file that a rendered text includes and `covers` does
 * not contain. */
static const char *find_uncovered(const spc__template *tpl, const char *text)
{
    const spc__library *library = tpl->library;
    included one;

    while (next_included(&one, &text))
        for (int i = 0; i < library->shared_count; i++)
            if (!tpl->covers[i] && may_be(&one, library->shared[i].name))
                return library->shared[i].name;
    return NULL;
}

spc_status spc__template_check_includes(const spc__template *tpl,
                                        const char *text, spc_error *error)
{
    const char *file = find_uncovered(tpl, text);

    if (file == NULL)
        return SPC_OK;
    return spc__fail(
        error, SPC_ETEMPLATE,
        "%s: its output includes '%s', but its text has no include of that "
        "file, so the template's hash does not cover it",
        tpl->file, file);
}
