/* SPDX-License-Identifier: Apache-2.0 */
/*
 * arguments.h - calls public functions with NULL, negative, huge and
 * out-of-range arguments.
 *
 * A list names each function with a source for each of its arguments. A source
 * is a function that returns value number i of the argument; value 0 is valid.
 * One argument at a time takes all of its values while the others stay valid.
 * Then all arguments take their value number i together. After each call:
 *
 *   - a status that is not SPC_OK has a sentence, in the error that was given
 *     or in the context;
 *   - an error that was given has the status that was returned: success clears
 *     the error of an earlier call;
 *   - a handle that was given is an object on success and NULL on failure.
 *
 * A sanitizer report ends the program.
 */
#ifndef SPC_TESTS_ARGUMENTS_H
#define SPC_TESTS_ARGUMENTS_H

#include "base/file.h"
#include "harness/suite.h"
#include <limits.h>
#include <math.h>
#include <stdint.h>

#define LENGTH(array) ((int)(sizeof(array) / sizeof(*(array))))

/* Which value of an argument is requested, and whether this argument varies. */
typedef struct which {
    int i;
    bool varies;
} which;

enum { ALL_VARY = -1, STALE = 4242 };

static int values; /* how many values the varying argument has */
static spc_error given_error;
static bool error_is_given;
static spc_ctx *given_ctx;

/* Picks value number w.i of a table. Numbers past its end wrap around. */
#define PICK(table, w)                                                         \
    ((w).varies ? (void)(values = LENGTH(table)) : (void)0,                    \
     (table)[(w).i < LENGTH(table) ? (w).i : (w).i % LENGTH(table)])

/* ---- handles that calls create ------------------------------------------- */

typedef struct slot {
    void *at;
    void (*release)(void *object);
    bool is_given;
} slot;

enum { MOST_SLOTS = 24 };
static slot *slots[MOST_SLOTS];
static int slot_count;
static char poison;

static void **give_slot(slot *s, which w)
{
    void **const all[] = {&s->at, NULL};
    void **out = PICK(all, w);
    int at = 0;

    while (at < slot_count && slots[at] != s)
        at++;
    ck_assert_int_lt(at, MOST_SLOTS);
    slots[at] = s;
    slot_count = at == slot_count ? at + 1 : slot_count;
    s->at = &poison;
    s->is_given = out != NULL;
    return out;
}

/* Defines out_map(w) and the like, for functions that take spc_map **. */
#define OUT_HANDLE(type, name, release_object)                                 \
    static void release_##name(void *object)                                   \
    {                                                                          \
        release_object((type *)object);                                        \
    }                                                                          \
    static type **out_##name(which w)                                          \
    {                                                                          \
        static slot s = {NULL, release_##name, false};                         \
        return (type **)(void *)give_slot(&s, w);                              \
    }

/* Defines out_info(w) and the like, for functions that fill a struct of the
 * caller. */
#define OUT_VALUE(type, name)                                                  \
    static type *out_##name(which w)                                           \
    {                                                                          \
        static type value;                                                     \
        type *const all[] = {&value, NULL};                                    \
        return PICK(all, w);                                                   \
    }

static spc_error *error(which w)
{
    spc_error *const all[] = {&given_error, NULL};
    spc_error *out = PICK(all, w);

    error_is_given = out != NULL;
    return out;
}

/* ---- calls ------------------------------------------------------------- */

#define V(n, source)                                                           \
    source((which){vary == (n) || vary == ALL_VARY ? i : 0, vary == (n)})

#define ARGS0(none)
#define ARGS1(a) V(0, a)
#define ARGS2(a, b) V(0, a), V(1, b)
#define ARGS3(a, b, c) ARGS2(a, b), V(2, c)
#define ARGS4(a, b, c, d) ARGS3(a, b, c), V(3, d)
#define ARGS5(a, b, c, d, e) ARGS4(a, b, c, d), V(4, e)
#define ARGS6(a, b, c, d, e, f) ARGS5(a, b, c, d, e), V(5, f)
#define ARGS7(a, b, c, d, e, f, g) ARGS6(a, b, c, d, e, f), V(6, g)
#define ARGS8(a, b, c, d, e, f, g, h) ARGS7(a, b, c, d, e, f, g), V(7, h)
#define ARGS9(a, b, c, d, e, f, g, h, j) ARGS8(a, b, c, d, e, f, g, h), V(8, j)

/*
 * A function that returns a status, and a function that returns anything else.
 */
#define TRY_S(n, function, ...)                                                \
    static void try_##function(int vary, int i)                                \
    {                                                                          \
        spc_status status = function(ARGS##n(__VA_ARGS__));                    \
        check_call(#function, vary, i, status);                                \
    }
#define TRY_V(n, function, ...)                                                \
    static void try_##function(int vary, int i)                                \
    {                                                                          \
        (void)vary, (void)i;                                                   \
        (void)function(ARGS##n(__VA_ARGS__));                                  \
    }
#define TRY(kind, n, function, ...) TRY_##kind(n, function, __VA_ARGS__)
#define ROW(kind, n, function, ...) {#function, try_##function, n},

typedef struct row {
    const char *name;
    void (*call)(int vary, int i);
    int arguments;
} row;

static void check_slots(const char *name, int vary, int i, spc_status status)
{
    for (int at = 0; at < slot_count; at++)
        if (slots[at]->is_given)
            ck_assert_msg(slots[at]->at != &poison &&
                              (slots[at]->at != NULL) == (status == SPC_OK),
                          "%s: argument %d, value %d: %s, and the handle is %s",
                          name, vary, i, spc_status_name(status),
                          slots[at]->at == &poison ? "as it was"
                          : slots[at]->at          ? "an object"
                                                   : "NULL");
}

static inline void check_call(const char *name, int vary, int i,
                              spc_status status)
{
    const char *text = error_is_given ? given_error.text
                       : given_ctx    ? spc_ctx_error(given_ctx)
                                      : "-";

    ck_assert_msg(!error_is_given || given_error.status == status,
                  "%s: argument %d, value %d: returns %s, its error has %d: %s",
                  name, vary, i, spc_status_name(status),
                  (int)given_error.status, given_error.text);
    ck_assert_msg(status == SPC_OK || text[0] != '\0',
                  "%s: argument %d, value %d: %s without a sentence", name,
                  vary, i, spc_status_name(status));
    check_slots(name, vary, i, status);
}

static void begin_call(void)
{
    given_error.status = (spc_status)STALE;
    snprintf(given_error.text, sizeof(given_error.text), "stale");
    error_is_given = false;
    given_ctx = NULL;
    slot_count = 0;
}

static void end_call(void)
{
    for (int at = 0; at < slot_count; at++)
        if (slots[at]->is_given && slots[at]->at != &poison)
            slots[at]->release(slots[at]->at);
}

static void try_row(const row *r)
{
    for (int vary = ALL_VARY; vary < r->arguments; vary++) {
        values = vary == ALL_VARY ? 4 : 1;
        for (int i = 0; i < values; i++) {
            begin_call();
            r->call(vary, i);
            end_call();
        }
    }
}

/* ---- completeness of the list -------------------------------------------- */

/* Checks that every function that the header declares with SPC_API is in the
 * table. */
static void check_table(const char *path, const row *rows, int count)
{
    spc__buf text = SPC__BUF_INIT;
    spc_error e;

    ck_assert_msg(spc__file_read(&text, path, 1 << 22, &e) == SPC_OK, "%s",
                  e.text);
    int declared = 0;
    for (const char *at = spc__buf_text(&text);
         (at = strstr(at, "\nSPC_API ")) != NULL; at++) {
        char name[64];
        const char *open = strchr(at, '('), *first = open;
        while (first[-1] == '_' || (first[-1] >= 'a' && first[-1] <= 'z'))
            first--;
        snprintf(name, sizeof(name), "%.*s", (int)(open - first), first);
        int i = 0;
        while (i < count && strcmp(rows[i].name, name) != 0)
            i++;
        ck_assert_msg(i < count, "%s of %s is not in the table", name, path);
        declared++;
    }
    ck_assert_int_gt(declared, 0);
    spc__buf_release(&text);
}

/* ---- values for many functions ------------------------------------------- */

static inline int64_t rows(which w)
{
    static const int64_t all[] = {4,         0,         -1,       INT64_MIN,
                                  INT64_MAX, INT32_MAX, INT32_MIN};
    return PICK(all, w);
}

static inline int number(which w)
{
    static const int all[] = {0, 1, -1, INT_MAX, INT_MIN, 1000000};
    return PICK(all, w);
}

static inline size_t text_bytes(which w)
{
    static const size_t all[] = {4096, 0, 1, 7};
    return PICK(all, w);
}

static inline char *text_out(which w)
{
    static char text[4096];
    char *const all[] = {text, NULL};
    return PICK(all, w);
}

static inline void *stream(which w)
{
    (void)w;
    return NULL;
}

static inline bool flag(which w)
{
    static const bool all[] = {false, true};
    return PICK(all, w);
}

static inline float real(which w)
{
    static const float all[] = {0.5f, 0, -1, INFINITY, NAN, 1e30f, 1e-30f};
    return PICK(all, w);
}

static inline double real_double(which w)
{
    static const double all[] = {100, 0, -1, INFINITY, NAN, 1e300, 1e-300};
    return PICK(all, w);
}

#endif
