/* SPDX-License-Identifier: Apache-2.0 */
/*
 * template.h - kernel templates: declarations, queries, rendering.
 *
 * A template file (*.cu.lua, *.c.lua) is text with Lua. A line with '%' in
 * column 0 is Lua, $(expression) in other lines is a value, nothing else is
 * special. The leading run of '%' lines is the declaration. It must set the
 * global `template` to a table (templates/README.md describes its fields). With
 * `include "FILE.lua"` it runs a file that templates share. The rest is the
 * body. Each rendering runs it with these globals: the attributes of the
 * problem (`problem.cin`), the configuration (`config.rows`), the target
 * (`target.sm`), and everything that `derive` returned.
 *
 * Lua runs in a sandbox: only the language, math, string and table without
 * dump, load and random; text only; bounded instructions and memory. The order
 * of a hash table cannot affect the output (pairs iterates in sorted key
 * order).
 *
 * A library owns one Lua state. Calls on one library may come from any thread;
 * an internal lock serialises them.
 */
#ifndef SPC_COMPILER_TEMPLATE_H
#define SPC_COMPILER_TEMPLATE_H

#include "base/attrs.h"
#include "base/buf.h"
#include "base/sha256.h"
#include "spc/status.h"
#include <stdbool.h>

typedef struct spc__library spc__library;
typedef struct spc__template spc__template;

/*
 * Opens the templates built into the library. If `directory` is not NULL, its
 * templates are the only ones of role "conv". For other roles, headers and
 * shared Lua, a file of the directory replaces the built-in one of that name. A
 * file that does not load fails the call with SPC_ETEMPLATE and "FILE:LINE:
 * what". Once **cancel is set, this call and every long query to a template end
 * with SPC_EINTERRUPTED. *cancel may change between calls. Both `cancel` and
 * *cancel may be NULL.
 */
spc_status spc__library_open(spc__library **out, const char *directory,
                             const volatile int *const *cancel,
                             spc_error *error);
void spc__library_close(spc__library *library);

/* Templates are sorted by name. */
int spc__library_count(const spc__library *library);
spc__template *spc__library_at(spc__library *library, int i);
spc__template *spc__library_find(spc__library *library, const char *name);

/* Returns the text of a header ("spc_device.cuh") of the directory, else the
 * built-in one, or NULL. It lives as long as the library. */
const char *spc__library_header(const spc__library *library, const char *name);

/* Returns the library's own copy of that name, or NULL. The second returns the
 * hash of the header's code, without comments, in hex. */
const char *spc__library_header_name(const spc__library *library,
                                     const char *name);
const char *spc__library_header_hash(const spc__library *library,
                                     const char *name);

const char *spc__template_name(const spc__template *tpl);
const char *spc__template_role(const spc__template *tpl);   /* "conv", "map" */
const char *spc__template_device(const spc__template *tpl); /* "cuda", "cpu" */
/* of the file, in hex */
const char *spc__template_hash(const spc__template *tpl);
/* Writes the hash of a built-in template without opening a library. Returns
 * false if there is no such template. The hash covers the template's text and
 * all files that it can include. If it changes, older records become hints. */
bool spc__builtin_template_hash(char hex[SPC__SHA256_HEX], const char *name);

/* Writes the name of built-in template `i` (from 0) without Lua. Returns false
 * past the last. */
enum { SPC__TEMPLATE_NAME = 32 };
bool spc__builtin_template_name(char name[SPC__TEMPLATE_NAME], int i);

/* Returns SPC_OK if the template can serve the problem on the target, else
 * SPC_EUNSUPPORTED with the template's own reason in *error. */
spc_status spc__template_accepts(spc__template *tpl, const spc__attrs *problem,
                                 const spc__attrs *target, spc_error *error);

/* Computes the configuration for untuned use. It passes spc__template_check, or
 * the call fails with SPC_EUNSUPPORTED and names the constraint that
 * refused. */
spc_status spc__template_default(spc__attrs *config, spc__template *tpl,
                                 const spc__attrs *problem,
                                 const spc__attrs *target, spc_error *error);

/* Returns SPC_OK if every parameter is known, each value is legal, every
 * constraint is satisfied, and the launch is within the target's limits
 * (shared_block, max_threads). Otherwise returns SPC_EUNSUPPORTED and names the
 * reason. */
spc_status spc__template_check(spc__template *tpl, const spc__attrs *problem,
                               const spc__attrs *target,
                               const spc__attrs *config, spc_error *error);

/* Computes the launch geometry (templates/README.md lists the names), sorted by
 * name. The configuration must pass spc__template_check. */
spc_status spc__template_launch(spc__attrs *launch, spc__template *tpl,
                                const spc__attrs *problem,
                                const spc__attrs *target,
                                const spc__attrs *config, spc_error *error);

/*
 * Appends the rendered source to *out, with #line directives that refer to the
 * template. The same input gives the same bytes in every process. Returns
 * SPC_EUNSUPPORTED unless the problem is accepted and the configuration passes
 * spc__template_check. On failure *out is unchanged.
 */
spc_status spc__template_render(spc__buf *out, spc__template *tpl,
                                const spc__attrs *problem,
                                const spc__attrs *target,
                                const spc__attrs *config, spc_error *error);

#endif
