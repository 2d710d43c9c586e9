/*
 * render.h - template text to a Lua chunk, and the writer that the chunk calls.
 */
#ifndef SPC_COMPILER_RENDER_H
#define SPC_COMPILER_RENDER_H

#include "buf.h"
#include "spc_status.h"
#include <lua.h>
#include <stdbool.h>

/*
 * Appends to *out the Lua chunk that a template's text means. Line n of the
 * chunk is line n of the text, so Lua's own messages name the right line. Run
 * with the writer as its argument, the chunk runs the declaration and returns
 * the body as a function. SPC_ETEMPLATE "FILE:LINE: ...".
 */
spc_status spc__translate(spc__buf *out, const char *file, const char *text,
                          size_t bytes, spc_error *error);

/* One rendering: what spc__sandbox.job points to while the body runs. */
typedef struct spc__render {
    spc__buf *out;
    const char *file;
    const char *text; /* of the template, to quote from in messages */
    size_t start;   /* out's length before the body: the limit counts from it */
    int next_line;  /* the template line that a compiler would name next */
    bool continued; /* the last line ended in a backslash */
} spc__render;

/* The writer: writes one line of the body, called as
 * (line number, literal, value, literal, value, ..., literal). */
int spc__render_line(lua_State *L);

/* The shortest decimal text that reads back as `value`; integral values have
 * no fraction. */
void spc__number_text(char out[32], double value);

#endif
