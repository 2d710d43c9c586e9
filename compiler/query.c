/* SPDX-License-Identifier: Apache-2.0 */
/*
 * query.c - queries to a template.
 *
 * Each public function fills in a question and runs it inside one protected
 * call under the library's lock.
 */
#include "compiler/template.h"

#include "base/error.h"
#include "compiler/internal.h"
#include "compiler/render.h"
#include <lauxlib.h>
#include <string.h>

/* ---- sessions ------------------------------------------------------------ */

/* The host may have called setlocale. Lua's numbers and the order of its
 * strings must not follow it. */
static locale_t enter_locale(const spc__library *library)
{
    return library->locale != (locale_t)0 ? uselocale(library->locale)
                                          : (locale_t)0;
}

static void leave_locale(locale_t before)
{
    if (before != (locale_t)0)
        uselocale(before);
}

spc_status spc__protect(spc__library *library, const char *file,
                        lua_CFunction body, void *payload, spc_error *error)
{
    /* A Lua state serves one thread at a time. */
    pthread_mutex_lock(&library->lock);
    locale_t before = enter_locale(library);
    spc_status status =
        spc__sandbox_call(&library->box, file, body, payload, error);
    leave_locale(before);
    pthread_mutex_unlock(&library->lock);
    return status;
}

spc_status spc__ask(spc__question *question, lua_CFunction ask)
{
    static const spc__attrs none;

    if (question->problem == NULL)
        question->problem = &none;
    if (question->target == NULL)
        question->target = &none;
    if (question->config == NULL)
        question->config = &none;
    question->status = SPC_OK;

    spc_status status =
        spc__protect(question->tpl->library, question->tpl->file, ask, question,
                     question->error);
    /* Lua may have raised an error between filling and using them, so they are
     * released here and not where they are read. */
    spc__domains_release(&question->domains);
    return status != SPC_OK ? status : question->status;
}

/* Runs a chunk of `file` with the table at `globals`. Returns one result. */
static void run_chunk(lua_State *L, int chunk, int globals, const char *file,
                      const char *text)
{
    lua_rawgeti(L, LUA_REGISTRYINDEX, chunk);
    lua_pushvalue(L, globals);
    /* The first upvalue of a chunk is its globals (_ENV). Each template gets a
     * table of its own, so templates cannot affect one another. */
    lua_setupvalue(L, -2, 1);
    spc__render_push_writer(L, file, text);
    lua_call(L, 1, 1);
}

/* include "FILE": runs a shared file with the template's globals, once.
 * Upvalues: the template, the globals, the set of names already run. */
static int include(lua_State *L)
{
    const spc__template *tpl = lua_touserdata(L, lua_upvalueindex(1));
    const char *name = luaL_checkstring(L, 1);
    const spc__shared *shared = spc__library_shared(tpl->library, name);

    if (shared == NULL || shared->chunk == LUA_NOREF)
        return luaL_error(L, "include: no file '%s' among the templates", name);
    /* A file that the hash does not cover could change without making records
     * stale. */
    if (!spc__template_covers(tpl, name))
        return luaL_error(L,
                          "include: '%s' must be named in a line of text, "
                          "include \"%s\", for the template's hash to cover it",
                          name, name);
    lua_settop(L, 1);
    lua_pushvalue(L, 1);
    if (lua_rawget(L, lua_upvalueindex(3)) != LUA_TNIL)
        return 0;
    lua_pushvalue(L, 1);
    lua_pushboolean(L, true);
    lua_rawset(L, lua_upvalueindex(3));
    run_chunk(L, shared->chunk, lua_upvalueindex(2), shared->name,
              shared->text);
    return 0;
}

/* Runs the declaration with fresh globals. Leaves the globals, the body and the
 * declaration at their fixed positions on the stack. */
static void declare(lua_State *L, const spc__template *tpl)
{
    spc__sandbox_push_globals(L);
    lua_pushlightuserdata(L, (void *)tpl);
    lua_pushvalue(L, SPC__AT_GLOBALS);
    lua_newtable(L);
    lua_pushcclosure(L, include, 3);
    lua_setfield(L, SPC__AT_GLOBALS, "include");
    run_chunk(L, tpl->chunk, SPC__AT_GLOBALS, tpl->file, tpl->text);
    if (!lua_isfunction(L, SPC__AT_BODY))
        luaL_error(L, "the declaration must not return");
    lua_getfield(L, SPC__AT_GLOBALS, "template");
    if (!lua_istable(L, SPC__AT_DECLARATION))
        luaL_error(L,
                   "the declaration must set the global 'template' to a "
                   "table, not a %s",
                   luaL_typename(L, SPC__AT_DECLARATION));
}

spc__question *spc__session_open(lua_State *L)
{
    spc__question *question = lua_touserdata(L, SPC__AT_QUESTION);

    luaL_checkstack(L, 64, "out of memory");
    spc__attribute_errors_to(L, SPC__AT_DECLARATION);
    declare(L, question->tpl);
    spc__push_attrs(L, question->problem);
    spc__push_attrs(L, question->target);
    return question;
}

void spc__attribute_errors_to(lua_State *L, int index)
{
    const spc__question *question = lua_touserdata(L, SPC__AT_QUESTION);
    spc__sandbox *box = spc__sandbox_of(L);
    lua_Debug record;

    /* The position for errors that have no position. */
    box->file = question->tpl->file;
    box->line = question->tpl->declared_at;
    if (!lua_isfunction(L, index))
        return;
    lua_pushvalue(L, index);
    lua_getinfo(L, ">S", &record);
    if (record.source[0] != '@')
        return;
    /* the chunk's name, which stays valid as long */
    box->file = record.source + 1;
    box->line = record.linedefined;
}

/* Pushes the function `template.NAME`. */
static void push_part(lua_State *L, const char *name)
{
    lua_getfield(L, SPC__AT_DECLARATION, name);
    spc__attribute_errors_to(L, -1);
}

/* Calls template.NAME(problem, config, target) for one result. */
static void call_part(lua_State *L, const char *name, int config)
{
    push_part(L, name);
    lua_pushvalue(L, SPC__AT_PROBLEM);
    lua_pushvalue(L, config);
    lua_pushvalue(L, SPC__AT_TARGET);
    lua_call(L, 3, 1);
}

/* ---- accepts, default ---------------------------------------------------- */

/* True if the problem needs a template with the field `triplets`. */
static bool lacks_triplets(lua_State *L)
{
    lua_getfield(L, SPC__AT_PROBLEM, "triplets");
    lua_getfield(L, SPC__AT_DECLARATION, "triplets");
    bool lacks = lua_toboolean(L, -2) && !lua_toboolean(L, -1);
    lua_pop(L, 2);
    return lacks;
}

bool spc__session_accepts(lua_State *L, spc_error *why)
{
    if (lacks_triplets(L)) {
        spc__fail(why, SPC_EUNSUPPORTED, "reads no triplets");
        return false;
    }
    push_part(L, "accepts");
    lua_pushvalue(L, SPC__AT_PROBLEM);
    lua_pushvalue(L, SPC__AT_TARGET);
    lua_call(L, 2, 2);
    bool accepted = lua_toboolean(L, -2);
    if (!accepted)
        spc__fail(why, SPC_EUNSUPPORTED, "%s",
                  lua_isstring(L, -1) ? lua_tostring(L, -1)
                                      : "it gives no reason");
    lua_pop(L, 2);
    return accepted;
}

/* Like spc__session_accepts, for a single question: the answer must name the
 * template. */
static bool accepts(lua_State *L, spc__question *question)
{
    if (spc__session_accepts(L, question->error))
        return true;
    question->status = SPC_EUNSUPPORTED;
    spc__fail_prefix(question->error,
                     "'%s' does not take the problem: ", question->tpl->name);
    return false;
}

void spc__session_default(lua_State *L, const spc__domains *domains,
                          spc__attrs *out)
{
    spc__attrs raw;
    spc_error why;

    push_part(L, "default");
    lua_pushvalue(L, SPC__AT_PROBLEM);
    lua_pushvalue(L, SPC__AT_TARGET);
    lua_call(L, 2, 1);
    spc__read_attrs(L, lua_gettop(L), &raw, "default");
    lua_pop(L, 1);
    if (!spc__domains_admit(out, domains, &raw, &why))
        luaL_error(L, "default: %s", why.text);
}

/* ---- constraints and launch ---------------------------------------------- */

/* True if constraint `i` of the list at `constraints` is satisfied. */
static bool satisfied(lua_State *L, int constraints, int i, int config,
                      spc_error *why)
{
    int top = lua_gettop(L);

    const char *name = spc__push_constraint(L, constraints, i);
    spc__attribute_errors_to(L, -1);
    lua_pushvalue(L, SPC__AT_PROBLEM);
    lua_pushvalue(L, config);
    lua_pushvalue(L, SPC__AT_TARGET);
    lua_call(L, 3, 2);
    bool yes = lua_toboolean(L, -2);
    if (!yes) {
        const char *reason = lua_tostring(L, -1);
        spc__fail(why, SPC_EUNSUPPORTED, "constraint '%s'%s%s", name,
                  reason != NULL ? ": " : "", reason != NULL ? reason : "");
    }
    lua_settop(L, top);
    return yes;
}

static void read_launch(lua_State *L, int config, spc__attrs *launch)
{
    call_part(L, "launch", config);
    spc__read_attrs(L, lua_gettop(L), launch, "launch");
    lua_pop(L, 1);
    const spc__attr *block = spc__attrs_find(launch, "block");
    if (block != NULL && block->number < 1)
        luaL_error(L, "launch: block = %s is not a number of threads",
                   block->text);
}

/* Checks the limits of the device, which apply to every template. */
static bool fits_target(const spc__attrs *launch, const spc__attrs *target,
                        spc_error *why)
{
    static const char *const limits[][3] = {
        {"shared", "shared_block", "bytes of shared memory of a block"},
        {"block", "max_threads", "threads of a block"},
    };
    for (int i = 0; i < 2; i++) {
        int64_t need = spc__attrs_number(launch, limits[i][0], 0);
        int64_t most = spc__attrs_number(target, limits[i][1], INT64_MAX);
        if (need <= most)
            continue;
        spc__fail(why, SPC_EUNSUPPORTED, "%lld %s, the target has %lld",
                  (long long)need, limits[i][2], (long long)most);
        return false;
    }
    return true;
}

bool spc__session_admits(lua_State *L, const spc__attrs *config,
                         spc__attrs *launch, int *which, spc_error *why)
{
    const spc__question *question = lua_touserdata(L, SPC__AT_QUESTION);
    int top = lua_gettop(L);
    bool admitted = true;

    spc__attribute_errors_to(L, SPC__AT_DECLARATION);
    spc__push_config(L, config);
    lua_getfield(L, SPC__AT_DECLARATION, "constraints");
    int count = lua_istable(L, -1) ? (int)lua_rawlen(L, -1) : 0;
    /* *which stays at the constraint that refuses, because the caller counts
     * refusals by constraint. */
    for (*which = 0; *which < count && admitted; *which += admitted)
        admitted = satisfied(L, top + 2, *which + 1, top + 1, why);
    if (admitted) {
        read_launch(L, top + 1, launch);
        admitted = fits_target(launch, question->target, why);
    }
    lua_settop(L, top);
    return admitted;
}

/* True if the question's configuration is legal and admitted. Otherwise its
 * status is a refusal. *config receives the configuration in the order of
 * declaration. */
static bool admit(lua_State *L, spc__question *question, spc__attrs *config,
                  spc__attrs *launch)
{
    int which;

    spc__domains_read(L, &question->domains);
    if (spc__domains_admit(config, &question->domains, question->config,
                           question->error) &&
        spc__session_admits(L, config, launch, &which, question->error))
        return true;
    question->status = SPC_EUNSUPPORTED;
    spc__fail_prefix(question->error,
                     "'%s' refuses this configuration: ", question->tpl->name);
    return false;
}

/* ---- the questions ------------------------------------------------------- */

static int ask_accepts(lua_State *L)
{
    spc__question *question = spc__session_open(L);
    accepts(L, question);
    return 0;
}

/* Computes the default and checks it like any other configuration. */
static int ask_default(lua_State *L)
{
    spc__question *question = spc__session_open(L);
    spc__attrs config, launch;
    int which;

    spc__domains_read(L, &question->domains);
    spc__session_default(L, &question->domains, &config);
    if (spc__session_admits(L, &config, &launch, &which, question->error)) {
        *question->out = config;
        return 0;
    }
    question->status = SPC_EUNSUPPORTED;
    spc__fail_prefix(question->error,
                     "the default of '%s' is refused: ", question->tpl->name);
    return 0;
}

static int ask_launch(lua_State *L)
{
    spc__question *question = spc__session_open(L);
    spc__attrs config, launch;

    if (admit(L, question, &config, &launch) && question->out != NULL)
        *question->out = launch;
    return 0;
}

/* ---- rendering ----------------------------------------------------------- */

/* Makes every entry of the table on top a global of the body. */
static void set_derived(lua_State *L)
{
    int derived = lua_gettop(L);

    if (!lua_istable(L, derived))
        luaL_error(L, "derive must return a table, not a %s",
                   luaL_typename(L, derived));
    lua_pushnil(L);
    for (; lua_next(L, derived) != 0;) {
        if (lua_type(L, -2) != LUA_TSTRING)
            luaL_error(L, "derive: a key of the table is a %s, not a name",
                       luaL_typename(L, -2));
        const char *name = lua_tostring(L, -2);
        /* A derived name that hides a function would surprise the author. */
        if (lua_getfield(L, SPC__AT_GLOBALS, name) != LUA_TNIL)
            luaL_error(L, "derive: '%s' is the name of a global already", name);
        lua_pop(L, 1);
        lua_setfield(L, SPC__AT_GLOBALS, name);
    }
}

/* Sets the globals that a body sees in addition to those of its declaration. */
static void set_globals(lua_State *L, const spc__attrs *config,
                        const spc__attrs *launch)
{
    lua_pushvalue(L, SPC__AT_PROBLEM);
    lua_setfield(L, SPC__AT_GLOBALS, "problem");
    lua_pushvalue(L, SPC__AT_TARGET);
    lua_setfield(L, SPC__AT_GLOBALS, "target");
    spc__push_attrs(L, launch);
    lua_setfield(L, SPC__AT_GLOBALS, "launch");
    spc__push_config(L, config);
    lua_pushvalue(L, -1);
    lua_setfield(L, SPC__AT_GLOBALS, "config");
    if (lua_getfield(L, SPC__AT_DECLARATION, "derive") != LUA_TNIL) {
        call_part(L, "derive", lua_gettop(L) - 1);
        set_derived(L);
    }
}

/* Writes "name=value,name=value", broken into lines of a comment. */
static void put_attrs(spc__buf *out, const char *title, const spc__attrs *attrs)
{
    size_t start = out->length;

    spc__buf_printf(out, " * %-9s", title);
    for (int i = 0; i < attrs->count; i++) {
        const spc__attr *attr = &attrs->at[i];
        size_t more = strlen(attr->name) + strlen(attr->text) + 2;
        if (out->length - start + more > 79) {
            start = out->length + 1;
            spc__buf_printf(out, "\n * %-9s", "");
        }
        spc__buf_printf(out, " %s=%s", attr->name, attr->text);
    }
    spc__buf_puts(out, "\n");
}

static void put_banner(spc__buf *out, const spc__template *tpl,
                       const spc__attrs *problem, const spc__attrs *config)
{
    spc__buf_printf(out, "/*\n * %s, rendered by spctune: %s\n", tpl->name,
                    tpl->summary);
    put_attrs(out, "problem:", problem);
    put_attrs(out, "config:", config);
    spc__buf_printf(out, " * template: %s\n */\n", tpl->hash);
}

/* Checks problem and configuration, and runs the body. */
static int ask_render(lua_State *L)
{
    spc__question *question = spc__session_open(L);
    spc__template *tpl = question->tpl;
    spc__attrs config, launch;

    if (!accepts(L, question) || !admit(L, question, &config, &launch))
        return 0;
    set_globals(L, &config, &launch);
    put_banner(question->text, tpl, question->problem, &config);

    spc__render render = {.out = question->text,
                          .start = question->text->length};
    /* Only the body may write text: the writer raises an error while there is
     * no job. */
    spc__sandbox_of(L)->job = &render;
    lua_pushvalue(L, SPC__AT_BODY);
    lua_call(L, 0, 0);
    return 0;
}

/* ---- public functions ---------------------------------------------------- */

const char *spc__template_name(const spc__template *tpl)
{
    return tpl->name;
}

const char *spc__template_role(const spc__template *tpl)
{
    return tpl->role;
}

const char *spc__template_device(const spc__template *tpl)
{
    return tpl->device;
}

const char *spc__template_hash(const spc__template *tpl)
{
    return tpl->hash;
}

spc_status spc__template_accepts(spc__template *tpl, const spc__attrs *problem,
                                 const spc__attrs *target, spc_error *error)
{
    spc__question question = {
        .tpl = tpl, .problem = problem, .target = target, .error = error};
    return spc__ask(&question, ask_accepts);
}

spc_status spc__template_default(spc__attrs *config, spc__template *tpl,
                                 const spc__attrs *problem,
                                 const spc__attrs *target, spc_error *error)
{
    spc__question question = {.tpl = tpl,
                              .problem = problem,
                              .target = target,
                              .out = config,
                              .error = error};
    return spc__ask(&question, ask_default);
}

spc_status spc__template_check(spc__template *tpl, const spc__attrs *problem,
                               const spc__attrs *target,
                               const spc__attrs *config, spc_error *error)
{
    return spc__template_launch(NULL, tpl, problem, target, config, error);
}

spc_status spc__template_launch(spc__attrs *launch, spc__template *tpl,
                                const spc__attrs *problem,
                                const spc__attrs *target,
                                const spc__attrs *config, spc_error *error)
{
    spc__question question = {.tpl = tpl,
                              .problem = problem,
                              .target = target,
                              .config = config,
                              .out = launch,
                              .error = error};
    return spc__ask(&question, ask_launch);
}

spc_status spc__template_render(spc__buf *out, spc__template *tpl,
                                const spc__attrs *problem,
                                const spc__attrs *target,
                                const spc__attrs *config, spc_error *error)
{
    spc__question question = {.tpl = tpl,
                              .problem = problem,
                              .target = target,
                              .config = config,
                              .text = out,
                              .error = error};
    size_t before = out->length;
    spc_status status = spc__ask(&question, ask_render);

    if (status == SPC_OK && out->failed)
        status = spc__fail_memory(error, out->length);
    if (status == SPC_OK)
        status = spc__template_check_includes(tpl, spc__buf_text(out) + before,
                                              error);
    if (status != SPC_OK && out->data != NULL) { /* drop the partial
                                                  * rendering */
        out->length = before;
        out->data[before] = '\0';
    }
    return status;
}
