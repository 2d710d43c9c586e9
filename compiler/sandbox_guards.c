/* SPDX-License-Identifier: Apache-2.0 */
/* sandbox_guards.c - wraps functions of Lua's libraries that cost more than the
 * instruction that calls them, or that would show an address. */
#include "compiler/sandbox.h"

#include <lauxlib.h>
#include <stdbool.h>
#include <string.h>

/* Calls the function in upvalue 1 with the same arguments. */
static int call_original(lua_State *L)
{
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_insert(L, 1);
    lua_call(L, lua_gettop(L) - 1, LUA_MULTRET);
    return lua_gettop(L);
}

static int bits_of(size_t n)
{
    int bits = 0;
    for (; n > 0; n >>= 1)
        bits++;
    return bits;
}

/* Counts the quantifiers of a pattern. Each may multiply the work by the length
 * of the string Characters of a set are counted too, since the bound is
 * generous. */
static int quantifiers(const char *pattern, size_t length)
{
    int count = 0;
    for (size_t i = 0; i < length; i++) {
        if (pattern[i] == '%' && i + 1 < length) {
            char next = pattern[++i];
            count += next == 'b' || (next >= '1' && next <= '9');
        } else if (strchr("*+-?", pattern[i]) != NULL) {
            count++;
        }
    }
    return count;
}

/* Matching runs in C, where the hook does not count, and backtracking is
 * exponential in the pattern. Calls that could take more than about a second
 * are refused. */
static int guarded_match(lua_State *L)
{
    size_t length, pattern_length;
    luaL_checklstring(L, 1, &length);
    const char *pattern = luaL_checklstring(L, 2, &pattern_length);
    int factors = quantifiers(pattern, pattern_length) + (pattern[0] != '^');
    /* At every position a match may fail only at the very end of the pattern. A
     * pattern of some hundred characters therefore multiplies the work too. */
    int bits = bits_of(length) * (factors > 0 ? factors : 1) +
               bits_of(pattern_length >> 5);

    if (bits > 30)
        return luaL_error(L,
                          "too costly a pattern for a text of %d bytes: '%s'",
                          (int)length, pattern);
    /* A step of the matcher costs less than an instruction of Lua. */
    spc__sandbox_charge(L, ((int64_t)1 << bits) >> 5);
    return call_original(L);
}

/* Guards functions whose work grows with the table or text. Upvalue 2 is the
 * number of arguments from which this is so (table.insert(t, v) only
 * appends). */
static int guarded_linear(lua_State *L)
{
    if (lua_gettop(L) >= lua_tointeger(L, lua_upvalueindex(2)))
        spc__sandbox_charge(L, (int64_t)(lua_rawlen(L, 1) >> 3) + 1);
    return call_original(L);
}

/* Charges the cost of a loop from `from` to `to`. */
static void charge_range(lua_State *L, lua_Integer from, lua_Integer to)
{
    if (to >= from)
        spc__sandbox_charge(
            L, (int64_t)(((lua_Unsigned)to - (lua_Unsigned)from) >> 3) + 1);
}

/* table.move(a, from, to, at) over nils allocates no memory, so the memory
 * limit does not bound it. */
static int guarded_move(lua_State *L)
{
    lua_Integer from = luaL_checkinteger(L, 2);

    charge_range(L, from, luaL_checkinteger(L, 3));
    return call_original(L);
}

/* table.unpack(a, from, to) returns a nil for each missing element. Lua itself
 * refuses results too large for its stack, and wrong arguments, naming the
 * function. */
static int guarded_unpack(lua_State *L)
{
    lua_Integer from = lua_isnoneornil(L, 2) ? 1 : lua_tointeger(L, 2);
    lua_Integer to = lua_isnoneornil(L, 3) ? (lua_Integer)lua_rawlen(L, 1)
                                           : lua_tointeger(L, 3);

    if ((lua_Unsigned)to - (lua_Unsigned)from < SPC__LUA_INSTRUCTIONS)
        charge_range(L, from, to);
    return call_original(L);
}

/* string.rep loops over its copies even if the result is empty, so one copy is
 * made then. The memory limit bounds the copies of other texts. */
static int guarded_rep(lua_State *L)
{
    size_t length = 0, separator = 0;
    int has_count;
    lua_Integer count = lua_tointegerx(L, 2, &has_count);

    lua_tolstring(L, 1, &length);
    lua_tolstring(L, 3, &separator);
    if (has_count && length + separator == 0) {
        lua_pushinteger(L, 1);
        lua_replace(L, 2);
    } else if (count <= (lua_Integer)SPC__LUA_BYTES) {
        charge_range(L, 1, count);
    }
    return call_original(L);
}

/* Replaces an address by the type's name. */
static bool hide_address(lua_State *L, int index)
{
    switch (lua_type(L, index)) {
    case LUA_TTABLE:
    case LUA_TFUNCTION:
    case LUA_TUSERDATA:
    case LUA_TLIGHTUSERDATA:
    case LUA_TTHREAD:
        lua_pushstring(L, luaL_typename(L, index));
        lua_replace(L, index);
        return true;
    default:
        return false;
    }
}

int spc__sandbox_tostring(lua_State *L)
{
    luaL_checkany(L, 1);
    lua_settop(L, 1);
    if (!hide_address(L, 1))
        luaL_tolstring(L, 1, NULL);
    return 1;
}

/* string.format without %p. Values without a text print as their type's
 * name. */
static int guarded_format(lua_State *L)
{
    const char *format = luaL_checkstring(L, 1);

    for (const char *p = strchr(format, '%'); p != NULL; p = strchr(p, '%')) {
        p += 1 + strspn(p + 1, "-+ #0123456789.");
        if (*p == 'p')
            return luaL_error(L, "string.format has no %%p here");
        if (*p != '\0')
            p++;
    }
    for (int i = 2; i <= lua_gettop(L); i++)
        hide_address(L, i);
    return call_original(L);
}

static const struct guard {
    const char *library;
    const char *name;
    lua_CFunction function;
    int linear_from;
} guards[] = {
    {"string", "byte", guarded_linear, 3},
    {"string", "lower", guarded_linear, 1},
    {"string", "upper", guarded_linear, 1},
    {"string", "reverse", guarded_linear, 1},
    {"string", "rep", guarded_rep, 0},
    {"string", "find", guarded_match, 0},
    {"string", "match", guarded_match, 0},
    {"string", "gmatch", guarded_match, 0},
    {"string", "gsub", guarded_match, 0},
    {"string", "format", guarded_format, 0},
    {"table", "concat", guarded_linear, 1},
    {"table", "insert", guarded_linear, 3},
    {"table", "remove", guarded_linear, 2},
    {"table", "unpack", guarded_unpack, 0},
    {"table", "move", guarded_move, 0},
};

/* Wraps the functions named by the guards in the table on top. */
void spc__sandbox_guard(lua_State *L, const char *library)
{
    for (size_t i = 0; i < sizeof(guards) / sizeof(guards[0]); i++) {
        if (strcmp(guards[i].library, library) != 0)
            continue;
        lua_getfield(L, -1, guards[i].name);
        lua_pushinteger(L, guards[i].linear_from);
        lua_pushcclosure(L, guards[i].function, 2);
        lua_setfield(L, -2, guards[i].name);
    }
}
