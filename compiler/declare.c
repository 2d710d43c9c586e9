/* SPDX-License-Identifier: Apache-2.0 */
/* declare.c - validates the declaration of a template and reads its values. */
#include "compiler/internal.h"

#include "base/error.h"
#include <lauxlib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_VALUES = 1024 };

/* ---- legal values -------------------------------------------------------- */

void spc__domains_release(spc__domains *domains)
{
    for (int i = 0; i < SPC__ATTRS_MAX; i++)
        free(domains->at[i].values);
    *domains = (spc__domains){0};
}

static bool has_value(const spc__domain *domain, const char *text)
{
    for (int i = 0; i < domain->count; i++)
        if (strcmp(domain->values[i].text, text) == 0)
            return true;
    return false;
}

/* Returns n for a list with the entries 1 .. n, and raises for anything
 * else. */
static int list_length(lua_State *L, int index, const char *what)
{
    lua_Unsigned n = lua_rawlen(L, index), keys = 0;

    if (!lua_istable(L, index))
        luaL_error(L, "%s must be a list, not a %s", what,
                   luaL_typename(L, index));
    lua_pushnil(L);
    for (; lua_next(L, index) != 0; keys++)
        lua_pop(L, 1);
    /* With gaps lua_rawlen() may return any border, so the keys are counted as
     * well. */
    if (keys != n)
        luaL_error(L, "%s must be a plain list, without names or gaps", what);
    /* Callers refuse such lengths. The limit only keeps the cast safe. */
    return n < 1u << 20 ? (int)n : 1 << 20;
}

/* Reads the list at `index` into `domain`, whose name is set. */
static void read_values(lua_State *L, int index, spc__domain *domain)
{
    char what[64];
    snprintf(what, sizeof(what), "the values of '%s'", domain->name);
    int n = list_length(L, index, what);

    if (n == 0 || n > MOST_VALUES)
        luaL_error(L, "%s: %d of them; expected 1 to %d", what, n, MOST_VALUES);
    /* spc__ask() frees them, also after an error in the loop. */
    domain->values = calloc((size_t)n, sizeof(domain->values[0]));
    if (domain->values == NULL)
        luaL_error(L, "out of memory for %s", what);
    for (int i = 1; i <= n; i++) {
        spc__attrs one = {0};
        lua_rawgeti(L, index, i);
        spc__read_attr(L, lua_gettop(L), &one, domain->name, what);
        if (has_value(domain, one.at[0].text))
            luaL_error(L, "%s: %s appears twice", what, one.at[0].text);
        domain->values[domain->count++] = one.at[0];
        lua_pop(L, 1);
    }
}

/* Returns the number of parameters of the list at `params`. */
static int count_parameters(lua_State *L, int params)
{
    int n = list_length(L, params, "template.params");

    if (n > SPC__ATTRS_MAX)
        luaL_error(L, "template.params has more than %d entries",
                   SPC__ATTRS_MAX);
    return n;
}

/* Pushes `template.params[i]`, its name and its values; returns the name. */
static const char *push_parameter(lua_State *L, int params, int i)
{
    char what[64];
    snprintf(what, sizeof(what), "template.params[%d]", i);
    lua_rawgeti(L, params, i);
    int entry = lua_gettop(L);
    int n = list_length(L, entry, what);

    lua_rawgeti(L, entry, 3);
    bool described = n == 2 || lua_type(L, -1) == LUA_TSTRING;
    lua_pop(L, 1);
    lua_rawgeti(L, entry, 1);
    lua_rawgeti(L, entry, 2);
    bool named = lua_type(L, -2) == LUA_TSTRING;
    bool valued = lua_istable(L, -1) || lua_isfunction(L, -1);
    if (n < 2 || n > 3 || !named || !valued || !described)
        luaL_error(L,
                   "%s must be {\"name\", {values} or function, "
                   "\"description\"}",
                   what);
    const char *name = lua_tostring(L, -2);
    if (!spc__is_attr_name(name))
        luaL_error(
            L, "%s: '%s' is not a name (1 to %d letters, digits and . _ - :)",
            what, name, SPC__ATTR_NAME - 1);
    return name;
}

void spc__domains_read(lua_State *L, spc__domains *out)
{
    spc__attribute_errors_to(L, SPC__AT_DECLARATION);
    lua_getfield(L, SPC__AT_DECLARATION, "params");
    int params = lua_gettop(L), n = count_parameters(L, params);

    for (int i = 1; i <= n; i++) {
        spc__domain *domain = &out->at[out->count++];
        snprintf(domain->name, sizeof(domain->name), "%s",
                 push_parameter(L, params, i));
        spc__attribute_errors_to(L, -1);
        if (lua_isfunction(L, -1)) {
            lua_pushvalue(L, SPC__AT_PROBLEM);
            lua_pushvalue(L, SPC__AT_TARGET);
            lua_call(L, 2, 1);
        }
        if (lua_isboolean(L, -1) && !lua_toboolean(L, -1))
            out->count--; /* the problem does not use this parameter */
        else
            read_values(L, lua_gettop(L), domain);
        lua_settop(L, params);
    }
    lua_pop(L, 1);
    spc__attribute_errors_to(L, SPC__AT_DECLARATION);
}

int spc__domains_product(const spc__domains *domains)
{
    int product = 1;
    for (int i = 0; i < domains->count; i++) {
        /* A division, because the product could overflow. */
        if (product > SPC__MOST_CONFIGS / domains->at[i].count)
            return -1;
        product *= domains->at[i].count;
    }
    return product;
}

static void set_value(spc__attrs *out, const spc__attr *value)
{
    if (value->is_number)
        spc__attrs_set_number(out, value->name, value->number);
    else
        spc__attrs_set_text(out, value->name, value->text);
}

void spc__domains_config(spc__attrs *out, const spc__domains *domains, int i)
{
    int digit[SPC__ATTRS_MAX];

    for (int p = domains->count - 1; p >= 0; p--) {
        /* The last parameter varies fastest, as in nested loops in the order of
         * declaration. */
        digit[p] = i % domains->at[p].count;
        i /= domains->at[p].count;
    }
    out->count = 0;
    for (int p = 0; p < domains->count; p++)
        set_value(out, &domains->at[p].values[digit[p]]);
}

/* Writes "rows = 48 is not a legal value (32, 64, 128)". */
static bool fail_value(spc_error *why, const spc__domain *domain,
                       const char *value)
{
    spc__buf list = SPC__BUF_INIT;

    for (int i = 0; i < domain->count && list.length < 200; i++)
        spc__buf_printf(&list, "%s%s", i > 0 ? ", " : "",
                        domain->values[i].text);
    spc__fail(why, SPC_EUNSUPPORTED, "%s = %s is not a legal value (%s)",
              domain->name, value, spc__buf_text(&list));
    spc__buf_release(&list);
    return false;
}

static const spc__domain *find_domain(const spc__domains *domains,
                                      const char *name)
{
    for (int i = 0; i < domains->count; i++)
        if (strcmp(domains->at[i].name, name) == 0)
            return &domains->at[i];
    return NULL;
}

bool spc__domains_admit(spc__attrs *out, const spc__domains *domains,
                        const spc__attrs *config, spc_error *why)
{
    out->count = 0;
    for (int i = 0; i < config->count; i++) {
        if (find_domain(domains, config->at[i].name) != NULL)
            continue;
        spc__fail(why, SPC_EUNSUPPORTED, "there is no parameter '%s'",
                  config->at[i].name);
        return false;
    }
    for (int i = 0; i < domains->count; i++) {
        const spc__domain *domain = &domains->at[i];
        /* Copies values in the order of declaration, whatever the caller's
         * order is. */
        const spc__attr *value = spc__attrs_find(config, domain->name);
        if (value == NULL) {
            spc__fail(why, SPC_EUNSUPPORTED, "parameter '%s' is missing",
                      domain->name);
            return false;
        }
        if (!has_value(domain, value->text))
            return fail_value(why, domain, value->text);
        set_value(out, value);
    }
    return true;
}

/* ---- validation ---------------------------------------------------------- */

/* Also reads the values that do not depend on a problem. */
static void check_params(lua_State *L, int params)
{
    spc__question *question = lua_touserdata(L, SPC__AT_QUESTION);
    spc__domains *seen = &question->domains;
    int n = count_parameters(L, params);

    for (int i = 1; i <= n; i++) {
        const char *name = push_parameter(L, params, i);
        if (find_domain(seen, name) != NULL)
            luaL_error(L, "template.params: '%s' appears twice", name);
        spc__domain *domain = &seen->at[seen->count++];
        snprintf(domain->name, sizeof(domain->name), "%s", name);
        /* The values that a function gives are known only for a problem:
         * spc__domains_read() checks those. */
        if (lua_istable(L, -1))
            read_values(L, lua_gettop(L), domain);
        /* Drops the entry, its name and its values. */
        lua_settop(L, params);
    }
}

const char *spc__push_constraint(lua_State *L, int constraints, int i)
{
    lua_rawgeti(L, constraints, i);
    int entry = lua_gettop(L);
    bool good = lua_istable(L, entry) && lua_rawlen(L, entry) == 2;

    if (good) {
        lua_rawgeti(L, entry, 1);
        lua_rawgeti(L, entry, 2);
        good = lua_type(L, -2) == LUA_TSTRING && lua_isfunction(L, -1);
    }
    if (!good)
        luaL_error(L,
                   "template.constraints[%d] must be {\"what must hold\", "
                   "function}",
                   i);
    return lua_tostring(L, -2);
}

static void check_constraints(lua_State *L, int constraints)
{
    int n = list_length(L, constraints, "template.constraints");

    for (int i = 1; i <= n; i++) {
        spc__push_constraint(L, constraints, i);
        lua_settop(L, constraints);
    }
}

static const struct field {
    const char *name;
    int type;
    bool required;
    void (*check)(lua_State *L, int index);
} fields[] = {
    {"accepts", LUA_TFUNCTION, true, NULL},
    {"constraints", LUA_TTABLE, false, check_constraints},
    {"default", LUA_TFUNCTION, true, NULL},
    {"derive", LUA_TFUNCTION, false, NULL},
    {"device", LUA_TSTRING, true, NULL},
    {"launch", LUA_TFUNCTION, true, NULL},
    {"params", LUA_TTABLE, true, check_params},
    {"role", LUA_TSTRING, true, NULL},
    {"summary", LUA_TSTRING, true, NULL},
    {"triplets", LUA_TBOOLEAN, false, NULL},
};
enum { FIELDS = sizeof(fields) / sizeof(fields[0]) };

static bool is_field(const char *name)
{
    for (int i = 0; i < FIELDS; i++)
        if (strcmp(fields[i].name, name) == 0)
            return true;
    return false;
}

/* Refuses unknown fields, since a misspelt one would be ignored silently. */
static void check_names(lua_State *L)
{
    lua_pushnil(L);
    for (; lua_next(L, SPC__AT_DECLARATION) != 0; lua_pop(L, 1)) {
        if (lua_type(L, -2) != LUA_TSTRING)
            luaL_error(L, "template has a %s as the name of a field",
                       luaL_typename(L, -2));
        if (!is_field(lua_tostring(L, -2)))
            luaL_error(L, "template has an unknown field '%s'",
                       lua_tostring(L, -2));
    }
}

static void check_field(lua_State *L, const struct field *field)
{
    int type = lua_getfield(L, SPC__AT_DECLARATION, field->name);

    if (type == LUA_TNIL && field->required)
        luaL_error(L, "template.%s is missing", field->name);
    if (type != LUA_TNIL && type != field->type)
        luaL_error(L, "template.%s must be a %s, not a %s", field->name,
                   lua_typename(L, field->type), lua_typename(L, type));
    if (type != LUA_TNIL && field->check != NULL)
        field->check(L, lua_gettop(L));
    lua_pop(L, 1);
}

/* Copies a text field into the template's struct. */
static void copy_field(lua_State *L, const char *name, char *out, size_t bytes)
{
    lua_getfield(L, SPC__AT_DECLARATION, name);
    const char *text = lua_tostring(L, -1);

    if (text[0] == '\0' || strlen(text) >= bytes || strchr(text, '\n'))
        luaL_error(L, "template.%s must be one line of 1 to %d bytes", name,
                   (int)bytes - 1);
    snprintf(out, bytes, "%s", text);
    lua_pop(L, 1);
}

void spc__declaration_check(lua_State *L, spc__template *tpl)
{
    check_names(L);
    for (int i = 0; i < FIELDS; i++)
        check_field(L, &fields[i]);
    copy_field(L, "summary", tpl->summary, sizeof(tpl->summary));
    copy_field(L, "role", tpl->role, sizeof(tpl->role));
    copy_field(L, "device", tpl->device, sizeof(tpl->device));

    bool cuda = strstr(tpl->file, ".cu.lua") != NULL;
    if (strcmp(tpl->device, cuda ? "cuda" : "cpu") != 0)
        luaL_error(L, "template.device is '%s', but a %s file is for '%s'",
                   tpl->device, cuda ? ".cu.lua" : ".c.lua",
                   cuda ? "cuda" : "cpu");
    if (!spc__is_attr_name(tpl->role))
        luaL_error(L, "template.role '%s' is not a name", tpl->role);
}
