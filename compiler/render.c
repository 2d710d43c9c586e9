/* SPDX-License-Identifier: Apache-2.0 */
/* render.c - translates text with embedded Lua into a Lua chunk that writes the
 * text. */
#include "compiler/render.h"

#include "base/error.h"
#include "base/number.h"
#include "compiler/sandbox.h"
#include <inttypes.h>
#include <lauxlib.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- text to Lua --------------------------------------------------------- */

typedef struct source {
    spc__buf *out;
    const char *file;
    bool shared;
    int line;
    spc_error *error;
} source;

static spc_status fail_at(source *src, const char *what)
{
    return spc__fail(src->error, SPC_ETEMPLATE, "%s:%d: %s", src->file,
                     src->line, what);
}

/* Returns the end of a quoted or long string that starts at `p`, or `p` if none
 * starts there. Returns NULL if the string does not end before `end`. */
static const char *skip_string(const char *p, const char *end)
{
    if (*p == '"' || *p == '\'') {
        for (const char *q = p + 1; q < end; q++) {
            if (*q == '\\')
                q++;
            else if (*q == *p)
                return q + 1;
        }
        return NULL;
    }
    size_t level = 1;
    while (p + level < end && p[level] == '=')
        level++;
    if (*p != '[' || p + level >= end || p[level] != '[')
        return p;
    for (const char *q = p + level + 1; q + level < end; q++)
        if (*q == ']' && q[level] == ']' && strspn(q + 1, "=") == level - 1)
            return q + level + 1;
    return NULL;
}

/* Finds the parenthesis that closes an expression. `p` points after "$(". */
static const char *find_close(const char *p, const char *end,
                              const char **problem)
{
    int depth = 1;

    *problem = "'$(' is not closed on its line";
    while (p < end) {
        const char *after = skip_string(p, end);
        if (after == NULL) {
            *problem = "a string inside '$(' is not closed on its line";
            return NULL;
        }
        if (after > p) {
            p = after;
            continue;
        }
        if (*p == '-' && p + 1 < end && p[1] == '-') {
            *problem = "'--' inside '$(' starts a comment; write a - -b";
            return NULL;
        }
        depth += (*p == '(') - (*p == ')');
        if (depth == 0)
            return p;
        p++;
    }
    return NULL;
}

static void put_literal(spc__buf *out, const char *text, size_t length)
{
    spc__buf_puts(out, "\"");
    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c == '"' || c == '\\')
            spc__buf_printf(out, "\\%c", c);
        else if (c < 32 || c == 127)
            /* Three digits, because a digit may follow. */
            spc__buf_printf(out, "\\%03d", c);
        else
            spc__buf_append(out, text + i, 1);
    }
}

static const char *find_open(const char *p, const char *end)
{
    while (p < end && !(p[0] == '$' && p + 1 < end && p[1] == '('))
        p++;
    return p;
}

/* Translates a line of text: spc__text(7,"x = ",(n),";\n") */
static spc_status put_text_line(source *src, const char *p, const char *end)
{
    const char *problem;

    spc__buf_printf(src->out, "spc__text(%d,", src->line);
    for (;;) {
        const char *open = find_open(p, end);
        put_literal(src->out, p, (size_t)(open - p));
        if (open == end)
            break;
        const char *close = find_close(open + 2, end, &problem);
        if (close == NULL)
            return fail_at(src, problem);
        if (strspn(open + 2, " \t") == (size_t)(close - open - 2))
            return fail_at(src, "'$()' is empty");
        spc__buf_puts(src->out, "\",");
        spc__buf_append(src->out, open + 1, (size_t)(close + 1 - (open + 1)));
        spc__buf_puts(src->out, ",");
        p = close + 1;
    }
    spc__buf_puts(src->out, "\\n\");"); /* the ';' stops a '(' on the next
                                         * line from being a call */
    return SPC_OK;
}

/* Translates a line. Lines of Lua are copied, without the '%'; the first line
 * of text begins the function that is the body. */
static spc_status put_line(source *src, const char *p, const char *end,
                           bool *in_body)
{
    bool is_lua = p < end && *p == '%';

    /* Declares the writer in the first line, so that line numbers of the chunk
     * and the template agree. */
    if (src->line == 1)
        spc__buf_puts(src->out, "local spc__text = ...; ");
    if (src->line == 1 && !is_lua && !src->shared)
        return fail_at(src, "a template starts with its declaration, lines "
                            "with '%' in column 0");
    if (!is_lua && !*in_body && !src->shared) {
        *in_body = true;
        spc__buf_puts(src->out, "return function() ");
    }
    if (!is_lua)
        return put_text_line(src, p, end);
    spc__buf_append(src->out, p + 1, (size_t)(end - p - 1));
    return SPC_OK;
}

static spc_status translate(source *src, const char *text, size_t bytes)
{
    const char *p = text, *last = text + bytes;
    bool in_body = false;

    for (src->line = 1; p < last; src->line++) {
        const char *newline = memchr(p, '\n', (size_t)(last - p));
        const char *end = newline != NULL ? newline : last;
        const char *next = newline != NULL ? newline + 1 : last;
        /* The file may have been edited on Windows. */
        if (end > p && end[-1] == '\r')
            end--;
        spc_status status = put_line(src, p, end, &in_body);
        if (status != SPC_OK)
            return status;
        spc__buf_puts(src->out, "\n");
        p = next;
    }
    if (!in_body && !src->shared)
        return fail_at(src, "the template has no body, only a declaration");
    if (in_body)
        spc__buf_puts(src->out, "end\n");
    return src->out->failed ? spc__fail_memory(src->error, bytes) : SPC_OK;
}

spc_status spc__translate(spc__buf *out, const char *file, const char *text,
                          size_t bytes, spc_error *error)
{
    source src = {.out = out, .file = file, .error = error};
    return translate(&src, text, bytes);
}

spc_status spc__translate_shared(spc__buf *out, const char *file,
                                 const char *text, size_t bytes,
                                 spc_error *error)
{
    source src = {.out = out, .file = file, .shared = true, .error = error};
    return translate(&src, text, bytes);
}

/* ---- Lua to text --------------------------------------------------------- */

/* A kernel of 16 MB comes from a runaway loop; NVRTC would take hours. */
static const size_t most_bytes = (size_t)16 << 20;

/* Writes the shortest decimal text that reads back as `value`. Integral values
 * have no fraction. */
static void number_text(char out[32], double value)
{
    if (value == floor(value) && fabs(value) < 9e15) {
        snprintf(out, 32, "%" PRId64, (int64_t)value);
        return;
    }
    spc__number_print_exact(out, 32, 15, value);
}

/* Appends rendered text and counts its lines. */
static void append(lua_State *L, spc__render *render, const char *text,
                   size_t length)
{
    spc__buf *out = render->out;

    if (out->length - render->start + length > most_bytes)
        luaL_error(L, "the rendered text is larger than %d MB",
                   (int)(most_bytes >> 20));
    spc__buf_append(out, text, length);
    if (out->failed)
        luaL_error(L, "out of memory for the rendered text");
    for (const char *p = text;
         (p = memchr(p, '\n', (size_t)(text + length - p))); p++)
        render->next_line++;
}

/*
 * Keeps the compiler's line number in step with the template. A gap of one or
 * two lines, as an `% if` leaves, is filled with empty lines, which read
 * better. Larger gaps use #line. Neither is allowed inside a macro that
 * continues with a backslash.
 */
static void sync_line(lua_State *L, spc__render *render, const char *file,
                      int line)
{
    /* The pointers are equal for one file: they are the library's own names. */
    bool same_file = render->file == file;
    int gap = line - render->next_line;
    char text[512];

    if ((same_file && gap == 0) || render->continued)
        return;
    if (same_file && gap > 0 && gap <= 2) {
        append(L, render, "\n\n", (size_t)gap);
        return;
    }
    int length = snprintf(text, sizeof(text), "#line %d \"%s\"\n", line, file);
    append(L, render, text, (size_t)length);
    render->file = file;
    render->next_line = line;
}

/* Finds the `which`-th "$(...)" of a line, for messages. It may not exist if a
 * template calls the writer itself. */
static void push_expression(lua_State *L, const char *text, int line, int which)
{
    const char *ignored;

    for (; line > 1 && text != NULL; line--)
        if ((text = strchr(text, '\n')) != NULL)
            text++;
    const char *end = text != NULL ? text + strcspn(text, "\n") : NULL;
    for (; text != NULL; which--) {
        const char *open = find_open(text, end);
        const char *close =
            open < end ? find_close(open + 2, end, &ignored) : NULL;
        if (close != NULL && which == 1) {
            lua_pushlstring(L, open, (size_t)(close + 1 - open));
            return;
        }
        text = close != NULL ? close + 1 : NULL;
    }
    lua_pushliteral(L, "a value");
}

/* Raises an error such as "$(expression) is a table". */
static void refuse_value(lua_State *L, int index, const char *what)
{
    push_expression(L, lua_touserdata(L, lua_upvalueindex(2)),
                    (int)lua_tointeger(L, 1), index / 2);
    luaL_error(L, "%s is %s", lua_tostring(L, -1), what);
}

static void append_number(lua_State *L, spc__render *render, int index)
{
    char text[32];

    if (lua_isinteger(L, index)) {
        snprintf(text, sizeof(text), "%" PRId64,
                 (int64_t)lua_tointeger(L, index));
    } else {
        double value = lua_tonumber(L, index);
        if (!isfinite(value))
            refuse_value(L, index, "not a finite number");
        number_text(text, value);
    }
    append(L, render, text, strlen(text));
}

/* Appends the value of an expression. Only numbers and texts have one form that
 * is the same on every machine. */
static void append_value(lua_State *L, spc__render *render, int index)
{
    size_t length;

    switch (lua_type(L, index)) {
    case LUA_TNUMBER:
        append_number(L, render, index);
        break;
    case LUA_TSTRING: {
        const char *text = lua_tolstring(L, index, &length);
        if (memchr(text, '\0', length) != NULL)
            refuse_value(L, index, "a text with a zero byte");
        append(L, render, text, length);
        break;
    }
    case LUA_TBOOLEAN:
        refuse_value(L, index, "a boolean; write $(x and 1 or 0)");
        break;
    case LUA_TNIL:
        refuse_value(L, index, "nil");
        break;
    default:
        refuse_value(L, index, "neither a number nor a text");
    }
}

/* Upvalues: the name of the line's file, and its text. */
static int write_line(lua_State *L)
{
    spc__render *render = spc__sandbox_of(L)->job;
    lua_Integer line = luaL_checkinteger(L, 1);
    int count = lua_gettop(L);

    if (render == NULL)
        return luaL_error(L, "text outside of the body (lines of Lua start "
                             "with '%%')");
    luaL_argcheck(L, line > 0 && line < 100000000, 1, "no such line");
    sync_line(L, render, lua_touserdata(L, lua_upvalueindex(1)), (int)line);
    for (int i = 2; i <= count; i++) {
        size_t length;
        if (i % 2 == 1) {
            append_value(L, render, i);
            continue;
        }
        const char *text = luaL_checklstring(L, i, &length);
        append(L, render, text, length);
    }
    const spc__buf *out = render->out;
    render->continued = out->length >= 2 && out->data[out->length - 2] == '\\';
    return 0;
}

void spc__render_push_writer(lua_State *L, const char *file, const char *text)
{
    lua_pushlightuserdata(L, (void *)file);
    lua_pushlightuserdata(L, (void *)text);
    lua_pushcclosure(L, write_line, 2);
}
