/* SPDX-License-Identifier: Apache-2.0 */
/*
 * internal.h - what the files behind template.h and space.h share: the structs,
 * the session in which a template is questioned, and attrs in Lua.
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
    char *name; /* "os_mma" */
    char *file; /* "os_mma.cu.lua" */
    char *text;
    char role[SPC__ATTR_TEXT];
    char device[SPC__ATTR_TEXT];
    char summary[128];
    char hash[SPC__SHA256_HEX];
    bool *covers;    /* of each shared file: is it a part of the hash? */
    int declared_at; /* line of the declaration */
    int chunk;       /* reference in Lua's registry */
};

/* A file that templates share: a header for the compiler of their text, or,
 * where `chunk` is a reference, Lua for `include`. */
typedef struct spc__shared {
    char *name;
    char *text;
    int chunk;      /* else LUA_NOREF */
    bool *includes; /* of each shared file: is it named here? */
    char hash[SPC__SHA256_HEX];
} spc__shared;

struct spc__library {
    spc__sandbox box;
    pthread_mutex_t lock;
    locale_t locale; /* "C": numbers and sorting must not follow the host's */
    spc__template **templates;
    int count;
    spc__shared *shared; /* in the order of their names */
    int shared_count;
};

/* The shared file of that name, or NULL. */
const spc__shared *spc__library_shared(const spc__library *library,
                                       const char *name);

/* ---- includes.c: what a template is made of ------------------------------ */

/* Finds out which shared files name which; once all are there. */
spc_status spc__library_link(spc__library *library, spc_error *error);

/* Fills in what the template's hash covers, and the hash. */
spc_status spc__template_link(spc__template *tpl, spc_error *error);
bool spc__template_covers(const spc__template *tpl, const char *file);

/* Refuses a rendered text that includes what the hash does not cover. */
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
 * One question to a template, asked inside one protected call. `status` and
 * *error are its answer when that is a refusal; Lua errors end the call.
 */
typedef struct spc__question {
    spc__template *tpl;
    const spc__attrs *problem;
    const spc__attrs *target;
    const spc__attrs *config;
    spc__attrs *out;
    spc__buf *text;
    void *more;           /* what one kind of question needs besides */
    spc__domains domains; /* released by spc__ask */
    spc_status status;
    spc_error *error;
} spc__question;

/* Runs `body` in the sandbox, with the library's lock and locale. */
spc_status spc__protect(spc__library *library, const char *file,
                        lua_CFunction body, void *payload, spc_error *error);

/* Runs `ask` so; the payload is the question. */
spc_status spc__ask(spc__question *question, lua_CFunction ask);

/*
 * What spc__session_open leaves on the stack. The declaration is run anew for
 * each session, in fresh globals, so nothing a template does to its tables
 * outlives the call.
 */
enum {
    SPC__AT_QUESTION = 1,
    SPC__AT_GLOBALS,
    SPC__AT_BODY,
    SPC__AT_DECLARATION, /* the table `template` */
    SPC__AT_PROBLEM,
    SPC__AT_TARGET,
};
spc__question *spc__session_open(lua_State *L);

/* What C then raises, about the result of the function at `index` say, is
 * placed at that function; if there is none of a template's, at the
 * declaration. */
void spc__place_errors_at(lua_State *L, int index);

/* Raises unless the declaration of an open session is valid; fills in the
 * template's role, device and summary. */
void spc__declaration_check(lua_State *L, spc__template *tpl);

/*
 * A function of the declaration may change the declaration while it is being
 * read, so whoever reads a part checks it, whatever was checked before.
 */

/* Pushes the i-th constraint, its name and its function; returns the name. */
const char *spc__push_constraint(lua_State *L, int constraints, int i);

/* Reads the legal values into the question's domains. */
void spc__domains_read(lua_State *L, spc__domains *out);
void spc__domains_release(spc__domains *domains);

/* Number of combinations; raises no error, -1 if they are too many. */
enum { SPC__MOST_CONFIGS = 49152 };
int spc__domains_product(const spc__domains *domains);

/* The i-th combination, last parameter fastest. */
void spc__domains_config(spc__attrs *out, const spc__domains *domains, int i);

/* Copies a complete, legal configuration in the order of declaration; else
 * false and a sentence in *why. */
bool spc__domains_admit(spc__attrs *out, const spc__domains *domains,
                        const spc__attrs *config, spc_error *why);

/* ---- template.c: parts of questions, shared with space.c ----------------- */

bool spc__session_accepts(lua_State *L, spc_error *why);

/* The template's default; raises if it is not complete and legal. */
void spc__session_default(lua_State *L, const spc__domains *domains,
                          spc__attrs *out);

/* Constraints, launch geometry, then the target's limits. False: *why has a
 * sentence, and *which says what refused: the number of the constraint, or
 * one past the last for the limits. */
bool spc__session_admits(lua_State *L, const spc__attrs *config,
                         spc__attrs *launch, int *which, spc_error *why);

/* ---- values.c: attrs in Lua ---------------------------------------------- */

void spc__push_attrs(lua_State *L, const spc__attrs *attrs);
/* As above, but reading an unknown name raises. */
void spc__push_config(lua_State *L, const spc__attrs *config);

/* Reads the table at `index`, names sorted; `what` begins the sentences. */
void spc__read_attrs(lua_State *L, int index, spc__attrs *out,
                     const char *what);
/* One number or text; `what` as above. */
void spc__read_attr(lua_State *L, int index, spc__attrs *out, const char *name,
                    const char *what);
bool spc__is_attr_name(const char *text);

#endif
