/* SPDX-License-Identifier: Apache-2.0 */
/*
 * render.h - template text to a Lua chunk, and the writer that the chunk calls.
 */
#ifndef SPC_COMPILER_RENDER_H
#define SPC_COMPILER_RENDER_H

#include "base/buf.h"
#include "spc_status.h"
#include <lua.h>
#include <stdbool.h>

/*
 * Appends to *out the Lua chunk that a template's text means. Line n of the
 * chunk is line n of the text, so Lua's own messages name the right line. Run
 * with the file's writer as its argument, the chunk runs the declaration and
 * returns the body as a function. SPC_ETEMPLATE "FILE:LINE: ...".
 */
spc_status spc__translate(spc__buf *out, const char *file, const char *text,
                          size_t bytes, spc_error *error);

/* The same of a file that templates include: it has no body, and text only
 * within its functions, which write it when the body of a template calls. */
spc_status spc__translate_shared(spc__buf *out, const char *file,
                                 const char *text, size_t bytes,
                                 spc_error *error);

/* One rendering: what spc__sandbox.job points to while the body runs. */
typedef struct spc__render {
    spc__buf *out;
    size_t start;     /* out's length before the body; the limit counts on */
    const char *file; /* the file and line that a compiler would name next */
    int next_line;
    bool continued; /* the last line ended in a backslash */
} spc__render;

/* Pushes the writer of one file, which must outlive it: writes one line of
 * text, called as (line number, literal, value, literal, ..., literal). */
void spc__render_push_writer(lua_State *L, const char *file, const char *text);

#endif
