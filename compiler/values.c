/* SPDX-License-Identifier: Apache-2.0 */
/* values.c - attrs as Lua tables, and back. */
#include "compiler/internal.h"

#include <lauxlib.h>
#include <stdlib.h>
#include <string.h>

/* True for a word of the syntax of attributes. */
static bool is_word(const char *text, size_t limit)
{
    size_t length = strlen(text);
    return length > 0 && length < limit &&
           strspn(text, "abcdefghijklmnopqrstuvwxyz"
                        "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-:") == length;
}

bool spc__is_attr_name(const char *text)
{
    return is_word(text, SPC__ATTR_NAME);
}

void spc__push_attrs(lua_State *L, const spc__attrs *attrs)
{
    lua_createtable(L, 0, attrs->count);
    for (int i = 0; i < attrs->count; i++) {
        const spc__attr *attr = &attrs->at[i];
        if (attr->is_number)
            lua_pushinteger(L, attr->number);
        else
            lua_pushstring(L, attr->text);
        lua_setfield(L, -2, attr->name);
    }
}

/* Lua would give nil for a misspelt name, and the template would continue with
 * nil. */
static int unknown_parameter(lua_State *L)
{
    return luaL_error(L, "config has no parameter '%s'", lua_tostring(L, 2));
}

void spc__push_config(lua_State *L, const spc__attrs *config)
{
    spc__push_attrs(L, config);
    /* Only the first call is true; it puts the table into the registry. */
    if (luaL_newmetatable(L, "spc.config")) {
        lua_pushcfunction(L, unknown_parameter);
        lua_setfield(L, -2, "__index");
    }
    lua_setmetatable(L, -2);
}

static void read_number(lua_State *L, int index, spc__attrs *out,
                        const char *name, const char *what)
{
    int exact;
    lua_Integer value = lua_tointegerx(L, index, &exact);
    /* 2.0 is a whole number, 2.5 is not. */
    if (!exact)
        luaL_error(L, "%s: '%s' is %f, not a whole number", what, name,
                   lua_tonumber(L, index));
    spc__attrs_set_number(out, name, value);
}

/* Reads a text, which must be a word of the syntax of attributes. */
static void read_text(lua_State *L, int index, spc__attrs *out,
                      const char *name, const char *what)
{
    size_t length;
    const char *text = lua_tolstring(L, index, &length);

    /* A string of Lua may hold a zero byte. */
    if (strlen(text) != length || !is_word(text, SPC__ATTR_TEXT))
        luaL_error(L,
                   "%s: '%s' is '%s', but a text is 1 to %d letters, digits "
                   "and . _ - :",
                   what, name, text, SPC__ATTR_TEXT - 1);
    spc__attrs_set_text(out, name, text);
}

void spc__read_attr(lua_State *L, int index, spc__attrs *out, const char *name,
                    const char *what)
{
    if (!spc__is_attr_name(name))
        luaL_error(
            L, "%s: '%s' is not a name (1 to %d letters, digits and . _ - :)",
            what, name, SPC__ATTR_NAME - 1);
    if (out->count == SPC__ATTRS_MAX && spc__attrs_find(out, name) == NULL)
        luaL_error(L, "%s: more than %d values", what, SPC__ATTRS_MAX);
    switch (lua_type(L, index)) {
    case LUA_TNUMBER:
        read_number(L, index, out, name, what);
        break;
    case LUA_TSTRING:
        read_text(L, index, out, name, what);
        break;
    case LUA_TBOOLEAN:
        spc__attrs_set_number(out, name, lua_toboolean(L, index));
        break;
    default:
        luaL_error(L, "%s: '%s' is a %s, not a number or a text", what, name,
                   luaL_typename(L, index));
    }
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const spc__attr *)a)->name, ((const spc__attr *)b)->name);
}

void spc__read_attrs(lua_State *L, int index, spc__attrs *out, const char *what)
{
    out->count = 0;
    if (!lua_istable(L, index))
        luaL_error(L, "%s must return a table, not a %s", what,
                   luaL_typename(L, index));
    lua_pushnil(L);
    while (lua_next(L, index) != 0) {
        /* Checks the type before lua_tostring(), which would turn a number key
         * into a string and confuse lua_next(). */
        if (lua_type(L, -2) != LUA_TSTRING)
            luaL_error(L, "%s: a key of the table is a %s, not a name", what,
                       luaL_typename(L, -2));
        spc__read_attr(L, lua_gettop(L), out, lua_tostring(L, -2), what);
        lua_pop(L, 1);
    }
    /* The order of keys in a Lua table differs from run to run. */
    qsort(out->at, (size_t)out->count, sizeof(out->at[0]), by_name);
}
