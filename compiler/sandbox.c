/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sandbox.c - bounded, deterministic Lua.
 *
 * Reasons for the rules: without setmetatable there are no finalisers. Without
 * pcall and coroutines, a template cannot catch the error that ends an endless
 * loop. Without next, and with pairs in key order, the seed of Lua's hash
 * cannot affect the output. Addresses cannot either, because they are never
 * printed.
 */
#include "compiler/sandbox.h"

#include "base/cancel.h"
#include "base/error.h"
#include <lauxlib.h>
#include <lualib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- bounds -------------------------------------------------------------- */

enum { HOOK_INTERVAL = 1000 };

/* The allocator of a Lua state. It counts bytes and refuses those above the
 * limit. */
static void *allocate(void *payload, void *old, size_t old_bytes, size_t bytes)
{
    spc__sandbox *box = payload;
    /* without `old` it is a type tag */
    size_t before = old != NULL ? old_bytes : 0;

    if (bytes == 0) {
        free(old);
        box->bytes_used -= before;
        return NULL;
    }
    if (bytes > before &&
        box->bytes_used + (bytes - before) > box->bytes_limit) {
        box->bytes_refused = true;
        return NULL;
    }
    void *data = realloc(old, bytes);
    if (data != NULL)
        box->bytes_used += bytes - before;
    return data;
}

/* Returns the processor time of this thread. With the wall clock, correct
 * templates would fail on a busy machine. */
static uint64_t busy_ns(void)
{
    struct timespec now = {0};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

spc__sandbox *spc__sandbox_of(lua_State *L)
{
    return *(spc__sandbox **)lua_getextraspace(L);
}

void spc__sandbox_refill(spc__sandbox *box)
{
    box->budget = SPC__LUA_INSTRUCTIONS;
    box->deadline = busy_ns() + SPC__LUA_SECONDS * 1000000000ull;
}

/* Takes `cost` from the budget and ends the call when the budget is used up or
 * the work is cancelled. It does not use luaL_error, which would add the
 * caller's position: on_error adds the right one. */
void spc__sandbox_charge(lua_State *L, int64_t cost)
{
    spc__sandbox *box = spc__sandbox_of(L);

    box->budget -= cost;
    if (box->budget < 0) {
        lua_pushfstring(L,
                        "more than %d million instructions in one call (an "
                        "endless loop?)",
                        SPC__LUA_INSTRUCTIONS / 1000000);
        lua_error(L);
    }
    if (busy_ns() > box->deadline) {
        lua_pushfstring(L, "more than %d seconds in one call",
                        SPC__LUA_SECONDS);
        lua_error(L);
    }
    if (box->cancel != NULL && spc__cancelled(*box->cancel)) {
        box->interrupted = true;
        lua_pushliteral(L, "interrupted");
        lua_error(L);
    }
}

static void on_count(lua_State *L, lua_Debug *record)
{
    (void)record;
    spc__sandbox_charge(L, HOOK_INTERVAL);
}

/* ---- the permitted names ------------------------------------------------- */

static int refuse_write(lua_State *L)
{
    return luaL_error(L, "the libraries cannot be changed");
}

/*
 * pairs and table.sort are written in Lua. Lua's own pairs follows the hash
 * order, and its sort may choose pivots by the clock. This sort is a stable
 * merge sort, and the instruction hook counts it.
 */
static const char prelude[] =
    "local next, type, error = next, type, error\n"
    "local function merge(from, to, lo, mid, hi, less)\n"
    "  local i, j = lo, mid\n"
    "  for k = lo, hi - 1 do\n"
    "    if i < mid and (j >= hi or not less(from[j], from[i])) then\n"
    "      to[k] = from[i]; i = i + 1\n"
    "    else\n"
    "      to[k] = from[j]; j = j + 1\n"
    "    end\n"
    "  end\n"
    "end\n"
    "local function lower(a, b) return a < b end\n"
    "local function sort(list, less)\n"
    "  less = less or lower\n"
    "  local n = #list\n"
    "  local from, to, width = list, {}, 1\n"
    "  while width < n do\n"
    "    for lo = 1, n, 2 * width do\n"
    "      local mid, hi = lo + width, lo + 2 * width\n"
    "      if mid > n + 1 then mid = n + 1 end\n"
    "      if hi > n + 1 then hi = n + 1 end\n"
    "      merge(from, to, lo, mid, hi, less)\n"
    "    end\n"
    "    from, to, width = to, from, 2 * width\n"
    "  end\n"
    "  if from ~= list then\n"
    "    for i = 1, n do list[i] = from[i] end\n"
    "  end\n"
    "end\n"
    "local function key_order(a, b)\n"
    "  local ta, tb = type(a), type(b)\n"
    "  if ta ~= tb then return ta < tb end\n"
    "  return a < b\n"
    "end\n"
    "local function pairs(t)\n"
    "  if type(t) ~= 'table' then\n"
    "    error('pairs needs a table, not ' .. type(t), 2)\n"
    "  end\n"
    "  local keys = {}\n"
    "  for key in next, t do\n"
    "    if type(key) ~= 'number' and type(key) ~= 'string' then\n"
    "      error('pairs cannot order a key that is a ' .. type(key), 2)\n"
    "    end\n"
    "    keys[#keys + 1] = key\n"
    "  end\n"
    "  sort(keys, key_order)\n"
    "  local i = 0\n"
    "  return function()\n"
    "    repeat i = i + 1 until keys[i] == nil or t[keys[i]] ~= nil\n"
    "    return keys[i], t[keys[i]]\n"
    "  end\n"
    "end\n"
    "return pairs, sort\n";

static const char *const base_names[] = {
    "assert", "error", "ipairs", "select", "tonumber", "type", NULL,
};
static const char *const math_names[] = {
    "abs", "acos",       "asin", "atan", "ceil", "cos", "deg",
    "exp", "floor",      "fmod", "huge", "log",  "max", "maxinteger",
    "min", "mininteger", "modf", "pi",   "rad",  "sin", "sqrt",
    "tan", "tointeger",  "type", "ult",  NULL,
};
static const char *const string_names[] = {
    "byte",  "char",  "find", "format",  "gmatch", "gsub",  "len",
    "lower", "match", "rep",  "reverse", "sub",    "upper", NULL,
};
static const char *const table_names[] = {
    "concat", "insert", "move", "pack", "remove", "unpack", NULL,
};

/* Copies the named fields of the table at `from` to the table on top. */
static void copy_fields(lua_State *L, int from, const char *const *names)
{
    for (int i = 0; names[i] != NULL; i++) {
        lua_getfield(L, from, names[i]);
        lua_setfield(L, -2, names[i]);
    }
}

/* Replaces the table on top by an empty proxy that reads from it. */
static void make_read_only(lua_State *L)
{
    lua_newtable(L);
    lua_newtable(L);
    lua_pushvalue(L, -3);
    lua_setfield(L, -2, "__index");
    lua_pushcfunction(L, refuse_write);
    lua_setfield(L, -2, "__newindex");
    lua_setmetatable(L, -2);
    lua_remove(L, -2);
}

/* Adds a library under its name to the permitted globals at `base`. */
static void add_library(lua_State *L, int base, const char *name,
                        lua_CFunction open, const char *const *names)
{
    luaL_requiref(L, name, open, 0);
    lua_newtable(L);
    copy_fields(L, lua_gettop(L) - 1, names);
    spc__sandbox_guard(L, name);
    if (strcmp(name, "string") == 0) { /* so that ("x"):rep() calls the
                                        * guarded functions */
        lua_pushliteral(L, "");
        lua_getmetatable(L, -1);
        lua_pushvalue(L, -3);
        lua_setfield(L, -2, "__index");
        lua_pop(L, 2);
    }
    make_read_only(L);
    lua_setfield(L, base, name);
    lua_pop(L, 1);
}

static const char base_key = 0; /* its address is the registry key of the
                                 * globals */

/* Runs the prelude and puts its `sort` into the read-only table library and its
 * `pairs` among the globals. */
static void add_prelude(lua_State *L, int base)
{
    if (luaL_loadbufferx(L, prelude, sizeof(prelude) - 1, "=pairs", "t") !=
        LUA_OK)
        lua_error(L);
    luaL_requiref(L, LUA_GNAME, luaopen_base, 0);
    lua_setupvalue(L, -2, 1);
    lua_call(L, 0, 2);

    lua_getfield(L, base, "table");
    lua_getmetatable(L, -1);
    lua_getfield(L, -1, "__index");
    lua_pushvalue(L, -4);
    lua_setfield(L, -2, "sort");
    lua_pop(L, 4);
    lua_setfield(L, base, "pairs");
}

/* Builds the permitted globals once. Each template gets an empty table that
 * reads from them. */
static int build_globals(lua_State *L)
{
    /* The prelude alone sees Lua's own globals: it needs `next`. */
    luaL_requiref(L, LUA_GNAME, luaopen_base, 0);
    int from = lua_gettop(L);
    lua_newtable(L);
    int base = lua_gettop(L);
    copy_fields(L, from, base_names);
    lua_pushcfunction(L, spc__sandbox_tostring);
    lua_setfield(L, base, "tostring");
    add_library(L, base, LUA_MATHLIBNAME, luaopen_math, math_names);
    add_library(L, base, LUA_STRLIBNAME, luaopen_string, string_names);
    add_library(L, base, LUA_TABLIBNAME, luaopen_table, table_names);
    add_prelude(L, base);

    lua_newtable(L); /* the metatable of every set of globals */
    lua_pushvalue(L, base);
    lua_setfield(L, -2, "__index");
    lua_rawsetp(L, LUA_REGISTRYINDEX, &base_key);
    return 0;
}

void spc__sandbox_push_globals(lua_State *L)
{
    lua_newtable(L);
    lua_rawgetp(L, LUA_REGISTRYINDEX, &base_key);
    lua_setmetatable(L, -2);
}

/* ---- calls --------------------------------------------------------------- */

/* Pushes "FILE:LINE: " for the innermost function of a template's files. */
static void push_position(lua_State *L, const spc__sandbox *box)
{
    lua_Debug record;

    for (int level = 0; lua_getstack(L, level, &record); level++) {
        lua_getinfo(L, "Sl", &record);
        if (record.currentline > 0 && record.source[0] == '@') {
            lua_pushfstring(L, "%s:%d: ", record.source + 1,
                            record.currentline);
            return;
        }
    }
    if (box->line > 0)
        lua_pushfstring(L, "%s:%d: ", box->file, box->line);
    else
        lua_pushfstring(L, "%s: ", box->file);
}

static bool starts_with_file(const char *message, const char *file)
{
    size_t length = strlen(file);
    return strncmp(message, file, length) == 0 && message[length] == ':';
}

/* True if the message already starts with a file: the main file or the one that
 * runs. */
static bool is_placed(lua_State *L, const spc__sandbox *box,
                      const char *message)
{
    lua_Debug record;

    for (int level = 0; lua_getstack(L, level, &record); level++) {
        lua_getinfo(L, "S", &record);
        if (record.source[0] == '@' &&
            starts_with_file(message, record.source + 1))
            return true;
    }
    return starts_with_file(message, box->main_file);
}

/* Returns the message without the position in the prelude. */
static const char *skip_prelude(const char *message)
{
    int length = 0;

    sscanf(message, "pairs:%*d: %n", &length);
    return message + length;
}

/* Message handler: gives every error exactly one line of a file. */
static int on_error(lua_State *L)
{
    const spc__sandbox *box = spc__sandbox_of(L);

    if (!lua_isstring(L, 1)) {
        push_position(L, box);
        lua_pushfstring(L, "raised a %s value, not a text",
                        luaL_typename(L, 1));
        lua_concat(L, 2);
        return 1;
    }
    if (is_placed(L, box, lua_tostring(L, 1)))
        return 1;
    push_position(L, box);
    lua_pushstring(L, skip_prelude(lua_tostring(L, 1)));
    lua_concat(L, 2);
    return 1;
}

/* Turns Lua's error into a status and a sentence that names the file and, if it
 * is another one, the template. */
static spc_status report(spc__sandbox *box, int code, spc_error *error)
{
    /* from on_error or from Lua */
    const char *message = lua_tostring(box->L, -1);

    if (box->interrupted)
        return spc__interrupted(error);
    if (code == LUA_ERRMEM && !box->bytes_refused)
        return spc__fail(error, SPC_ENOMEM, "%s: out of memory",
                         box->main_file);
    if (code == LUA_ERRMEM || (code == LUA_ERRERR && box->bytes_refused))
        return spc__fail(error, SPC_ETEMPLATE, "%s: needs more than %zu MiB",
                         box->main_file, SPC__LUA_BYTES >> 20);
    if (code == LUA_ERRERR)
        return spc__fail(error, SPC_ETEMPLATE, "%s: %s", box->main_file,
                         message);
    if (starts_with_file(message, box->main_file))
        return spc__fail(error, SPC_ETEMPLATE, "%s", message);
    return spc__fail(error, SPC_ETEMPLATE, "%s (for %s)", message,
                     box->main_file);
}

spc_status spc__sandbox_call(spc__sandbox *box, const char *main_file,
                             lua_CFunction body, void *payload,
                             spc_error *error)
{
    lua_State *L = box->L;
    spc_status status = SPC_OK;

    box->main_file = main_file;
    box->bytes_refused = false;
    box->interrupted = false;
    box->file = main_file;
    box->line = 0;
    box->job = NULL;
    spc__sandbox_refill(box);
    lua_settop(L, 0);
    lua_pushcfunction(L, on_error); /* light C functions allocate nothing, */
    lua_pushcfunction(L, body);     /* so nothing here can raise */
    lua_pushlightuserdata(L, payload);
    int code = lua_pcall(L, 1, 0, 1);
    if (code != LUA_OK) {
        status = report(box, code, error);
        lua_settop(L, 0);
        /* Garbage of the failed call would count against the memory limit of
         * the next one. */
        lua_gc(L, LUA_GCCOLLECT);
    }
    lua_settop(L, 0);
    box->job = NULL;
    return status;
}

spc_status spc__sandbox_open(spc__sandbox *box,
                             const volatile int *const *cancel,
                             spc_error *error)
{
    *box = (spc__sandbox){.bytes_limit = SPC__LUA_BYTES, .cancel = cancel};
    box->L = lua_newstate(allocate, box);
    if (box->L == NULL)
        return spc__fail(error, SPC_ENOMEM, "cannot start Lua");
    /* Hooks and library functions get the state alone and find the sandbox
     * here. */
    *(spc__sandbox **)lua_getextraspace(box->L) = box;
    lua_sethook(box->L, on_count, LUA_MASKCOUNT, HOOK_INTERVAL);
    return spc__sandbox_call(box, "sandbox", build_globals, NULL, error);
}

void spc__sandbox_close(spc__sandbox *box)
{
    if (box->L != NULL)
        lua_close(box->L);
    box->L = NULL;
}
