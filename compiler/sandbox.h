/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sandbox.h - a Lua state in which a template can do no harm.
 *
 * Only the language, math, string and table, without what reads files, loads
 * code, catches errors, sets metatables or differs from run to run. Time and
 * memory are bounded, and a flag ends it early. Every use is one
 * spc__sandbox_call, which is one lua_pcall; the caller sees to it that only
 * one thread is inside.
 */
#ifndef SPC_COMPILER_SANDBOX_H
#define SPC_COMPILER_SANDBOX_H

#include "spc_status.h"
#include <lua.h>
#include <stdbool.h>
#include <stdint.h>

/* Bounds of one call. The clock is only the backstop for single operations
 * that are slow out of proportion; normally instructions run out first. */
#define SPC__LUA_INSTRUCTIONS 50000000
#define SPC__LUA_BYTES ((size_t)64 << 20)
#define SPC__LUA_SECONDS 10

typedef struct spc__sandbox {
    lua_State *L;
    size_t bytes_used;
    size_t bytes_limit; /* SPC__LUA_BYTES; tests lower it */
    bool bytes_refused; /* the bound, not malloc, refused an allocation */
    bool interrupted;   /* the flag ended the call */
    const volatile int *const *cancel; /* where the flag of the moment is */
    int64_t budget;                    /* instructions left */
    uint64_t deadline;                 /* of the thread's processor time */
    const char *subject; /* file name of the template that is running */
    const char *file;    /* where to place an error raised outside of Lua */
    int line;  /* code: the subject, until it is set; line 0 is none */
    void *job; /* what the body is written to; NULL outside */
} spc__sandbox;

/* Once **cancel is set, calls end with SPC_EINTERRUPTED; NULL at either step:
 * nobody sets it. */
spc_status spc__sandbox_open(spc__sandbox *box,
                             const volatile int *const *cancel,
                             spc_error *error);
void spc__sandbox_close(spc__sandbox *box);

/*
 * Runs `body` protected, with `payload` as a light userdata at index 1. An
 * error raised inside becomes SPC_ETEMPLATE and a sentence that starts with
 * "SUBJECT:LINE: ", whatever raised it; or with another file and its line, and
 * then it ends in "(for SUBJECT)". The names of our chunks start with '@'.
 */
spc_status spc__sandbox_call(spc__sandbox *box, const char *subject,
                             lua_CFunction body, void *payload,
                             spc_error *error);

/* The sandbox that `L` belongs to. */
spc__sandbox *spc__sandbox_of(lua_State *L);

/* Inside a call: a loop over many configurations grants each a full budget. */
void spc__sandbox_refill(spc__sandbox *box);

/* Takes `cost` from the budget: ends the call when none is left, or when
 * somebody wants the work to end. */
void spc__sandbox_charge(lua_State *L, int64_t cost);

/* Wraps what needs it in the library's table, which is on top
 * (sandbox_guards.c). */
void spc__sandbox_guard(lua_State *L, const char *library);

/* tostring: the type's name instead of an address. */
int spc__sandbox_tostring(lua_State *L);

/* Pushes a fresh table of globals that sees the permitted names. */
void spc__sandbox_push_globals(lua_State *L);

#endif
