/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sandbox.h - a Lua state in which a template can do no harm.
 *
 * It offers only the language, math, string and table. Functions that read
 * files, load code, catch errors, set metatables or differ between runs are
 * missing. Time and memory are bounded, and a flag ends it early. Each use is
 * one spc__sandbox_call, which is one lua_pcall. The caller ensures that only
 * one thread uses the state.
 */
#ifndef SPC_COMPILER_SANDBOX_H
#define SPC_COMPILER_SANDBOX_H

#include "spc/status.h"
#include <lua.h>
#include <stdbool.h>
#include <stdint.h>

/* Limits of one call. Normally the instructions run out first. The clock is a
 * backstop for single operations that are unusually slow. */
#define SPC__LUA_INSTRUCTIONS 50000000
#define SPC__LUA_BYTES ((size_t)64 << 20)
#define SPC__LUA_SECONDS 10

typedef struct spc__sandbox {
    lua_State *L;
    size_t bytes_used;
    size_t bytes_limit; /* SPC__LUA_BYTES; tests lower it */
    bool bytes_refused; /* the bound, not malloc, refused an allocation */
    bool interrupted;   /* the call was cancelled */
    const volatile int *const *cancel; /* points to the current flag */
    int64_t budget;                    /* instructions left */
    uint64_t deadline;                 /* in processor time of the thread */
    const char *main_file; /* file name of the template that is running */
    const char *file;      /* position of an error raised outside of Lua */
    int line;  /* `file` NULL means the main file; line 0 means no line */
    void *job; /* the rendering while the body runs, else NULL */
} spc__sandbox;

/* Opens a sandbox. Once **cancel is set, calls end with SPC_EINTERRUPTED.
 * `cancel` and *cancel may be NULL. */
spc_status spc__sandbox_open(spc__sandbox *box,
                             const volatile int *const *cancel,
                             spc_error *error);
void spc__sandbox_close(spc__sandbox *box);

/*
 * Runs `body` protected, with `payload` as a light userdata at index 1. Any
 * error raised inside becomes SPC_ETEMPLATE and a sentence that starts with
 * "SUBJECT:LINE: ". If it starts with another file and line, it ends in "(for
 * SUBJECT)". The names of our chunks start with '@'.
 */
spc_status spc__sandbox_call(spc__sandbox *box, const char *main_file,
                             lua_CFunction body, void *payload,
                             spc_error *error);

/* Returns the sandbox of `L`. */
spc__sandbox *spc__sandbox_of(lua_State *L);

/* Refills the budget inside a call. A loop over many configurations gives each
 * a full budget. */
void spc__sandbox_refill(spc__sandbox *box);

/* Takes `cost` from the budget. Ends the call when the budget is used up or the
 * work is cancelled. */
void spc__sandbox_charge(lua_State *L, int64_t cost);

/* Wraps the functions of the table on top that need a guard
 * (sandbox_guards.c). */
void spc__sandbox_guard(lua_State *L, const char *library);

/* Like tostring, but with the type's name instead of an address. */
int spc__sandbox_tostring(lua_State *L);

/* Pushes a fresh table of globals that contains the permitted names. */
void spc__sandbox_push_globals(lua_State *L);

#endif
