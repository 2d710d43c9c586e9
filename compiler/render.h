/* SPDX-License-Identifier: Apache-2.0 */
/*
 * render.h - translates template text to a Lua chunk, and the writer that the
 * chunk calls.
 */
#ifndef SPC_COMPILER_RENDER_H
#define SPC_COMPILER_RENDER_H

#include "base/buf.h"
#include "spc/status.h"
#include <lua.h>
#include <stdbool.h>

/*
 * Appends the Lua chunk for a template's text to *out. Line n of the chunk is
 * line n of the text, so Lua's own messages name the right line. The chunk
 * takes the file's writer as its argument, runs the declaration and returns the
 * body as a function. Returns SPC_ETEMPLATE with "FILE:LINE: ..." on errors.
 */
spc_status spc__translate(spc__buf *out, const char *file, const char *text,
                          size_t bytes, spc_error *error);

/* Translates a file that templates include. Such a file has no body. It may
 * contain text only inside its functions, which write the text when a
 * template's body calls them. */
spc_status spc__translate_shared(spc__buf *out, const char *file,
                                 const char *text, size_t bytes,
                                 spc_error *error);

/* The state of one rendering. spc__sandbox.job points to it while the body
 * runs. */
typedef struct spc__render {
    spc__buf *out;
    /* out's length before the body, from which the size limit counts */
    size_t start;
    /* the position that a compiler assumes for the next line */
    const char *file;
    int next_line;
    bool continued; /* the last line ended in a backslash */
} spc__render;

/* Pushes the writer of one file. `file` and `text` must outlive it. The writer
 * writes one line of text, called as (line number, literal, value, literal,
 * ..., literal). */
void spc__render_push_writer(lua_State *L, const char *file, const char *text);

#endif
