/* SPDX-License-Identifier: Apache-2.0 */
/*
 * internal.h - shared by the implementations of template.h and space.h: the
 * structs, the session in which a template is queried, and attrs in Lua.
 */
#ifndef SPC_COMPILER_INTERNAL_H
#define SPC_COMPILER_INTERNAL_H

#include "compiler/sandbox.h"
#include "compiler/template.h"
#include <locale.h>
#include <lua.h>
#include <pthread.h>

struct spc__template {
    spc__library *library;
    char *name; /* such as "os_mma" */
    char *file; /* such as "os_mma.cu.lua" */
    char *text;
    char role[SPC__ATTR_TEXT];
    char device[SPC__ATTR_TEXT];
    char summary[128];
    char hash[SPC__SHA256_HEX];
    bool *covers;    /* for each shared file: true if the hash covers it */
    int declared_at; /* line of the declaration */
    int chunk;       /* reference in Lua's registry */
};

/* A file that templates share: a header for their compiler, or, if `chunk` is a
 * reference, Lua for `include`. */
typedef struct spc__shared {
    char *name;
    char *text;
    int chunk;      /* LUA_NOREF for a header */
    bool *includes; /* for each shared file: true if this file includes it */
    char hash[SPC__SHA256_HEX];
} spc__shared;

struct spc__library {
    spc__sandbox box;
    pthread_mutex_t lock;
    locale_t locale; /* "C": numbers and sorting must not follow the host's
                      * locale */
    spc__template **templates;
    int count;
    spc__shared *shared; /* sorted by name */
    int shared_count;
};

/* Returns the shared file of that name, or NULL. */
const spc__shared *spc__library_shared(const spc__library *library,
                                       const char *name);

/* ---- includes.c: what a template is made of ------------------------------ */

/* Finds which shared files include which others. Call it after all are
 * loaded. */
spc_status spc__library_link(spc__library *library, spc_error *error);

/* Computes which files the template's hash covers, and the hash. */
spc_status spc__template_link(spc__template *tpl, spc_error *error);
bool spc__template_covers(const spc__template *tpl, const char *file);

/* Refuses a rendered text that includes a file outside of the hash. */
spc_status spc__template_check_includes(const spc__template *tpl,
                                        const char *text, spc_error *error);

/* ---- declare.c: the declaration and its parts ---------------------------- */

/* Legal values of one parameter, for one problem and target. */
typedef struct spc__domain {
    char name[SPC__ATTR_NAME];
    spc__attr *values;
    int count;
} spc__domain;

typedef struct spc__domains {
    spc__domain at[SPC__ATTRS_MAX];
    int count;
} spc__domains;

/*
 * One query to a template, answered inside one protected call. A refusal is
 * reported in `status` and *error; Lua errors end the call.
 */
typedef struct spc__question {
    spc__template *tpl;
    const spc__attrs *problem;
    const spc__attrs *target;
    const spc__attrs *config;
    spc__attrs *out;
    spc__buf *text;
    void *more;           /* extra data of some kinds of query */
    spc__domains domains; /* released by spc__ask */
    spc_status status;
    spc_error *error;
} spc__question;

/* Runs `body` in the sandbox, under the library's lock and locale. */
spc_status spc__protect(spc__library *library, const char *file,
                        lua_CFunction body, void *payload, spc_error *error);

/* Runs `ask` in the same way, with the question as payload. */
spc_status spc__ask(spc__question *question, lua_CFunction ask);

/*
 * The stack layout after spc__session_open. Each session runs the declaration
 * again with fresh globals, so changes that a template makes to its tables do
 * not outlive the call.
 */
enum {
    SPC__AT_QUESTION = 1,
    SPC__AT_GLOBALS,
    SPC__AT_BODY,
    SPC__AT_DECLARATION, /* in the table `template` */
    SPC__AT_PROBLEM,
    SPC__AT_TARGET,
};
spc__question *spc__session_open(lua_State *L);

/* Sets the position for errors that C raises next, about the result of the
 * function at `index` for example. The position is that function, or the
 * declaration if it is not a function of a template. */
void spc__attribute_errors_to(lua_State *L, int index);

/* Raises unless the declaration of an open session is valid. Fills in the
 * template's role, device and summary. */
void spc__declaration_check(lua_State *L, spc__template *tpl);

/*
 * A function of the declaration may change the declaration while it is read.
 * Each reader therefore checks its part again.
 */

/* Pushes the i-th constraint, its name and its function. Returns the name. */
const char *spc__push_constraint(lua_State *L, int constraints, int i);

/* Reads the legal values into the question's domains. */
void spc__domains_read(lua_State *L, spc__domains *out);
void spc__domains_release(spc__domains *domains);

/* Returns the number of combinations, or -1 if there are too many. Raises no
 * error. */
enum { SPC__MOST_CONFIGS = 49152 };
int spc__domains_product(const spc__domains *domains);

/* Writes the i-th combination. The last parameter varies fastest. */
void spc__domains_config(spc__attrs *out, const spc__domains *domains, int i);

/* Copies a complete, legal configuration in the order of declaration. Otherwise
 * returns false with a sentence in *why. */
bool spc__domains_admit(spc__attrs *out, const spc__domains *domains,
                        const spc__attrs *config, spc_error *why);

/* ---- query.c: parts of questions, shared with space.c -------------------- */

bool spc__session_accepts(lua_State *L, spc_error *why);

/* Computes the template's default. Raises if it is not complete and legal. */
void spc__session_default(lua_State *L, const spc__domains *domains,
                          spc__attrs *out);

/* Checks the constraints, computes the launch geometry, then checks the
 * target's limits. On a refusal it returns false with a sentence in *why.
 * *which is the number of the constraint that refused, or one past the last for
 * the limits. */
bool spc__session_admits(lua_State *L, const spc__attrs *config,
                         spc__attrs *launch, int *which, spc_error *why);

/* ---- values.c: attrs in Lua ---------------------------------------------- */

void spc__push_attrs(lua_State *L, const spc__attrs *attrs);
/* Like spc__push_attrs, but reading an unknown name raises. */
void spc__push_config(lua_State *L, const spc__attrs *config);

/* Reads the table at `index`, sorted by name. Messages begin with `what`. */
void spc__read_attrs(lua_State *L, int index, spc__attrs *out,
                     const char *what);
/* Reads one number or text. Messages begin with `what`. */
void spc__read_attr(lua_State *L, int index, spc__attrs *out, const char *name,
                    const char *what);
bool spc__is_attr_name(const char *text);

#endif
