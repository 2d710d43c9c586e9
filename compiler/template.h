/* SPDX-License-Identifier: Apache-2.0 */
/*
 * template.h - kernel templates: declarations, questions to them, rendering.
 *
 * A template file (*.cu.lua, *.c.lua) is text with Lua: a line that starts
 * with '%' in column 0 is Lua, $(expression) elsewhere is a value, nothing else
 * is special. The leading run of '%' lines is the declaration: it must set the
 * global `template` to a table (templates/README.md describes its fields), and
 * with `include "FILE.lua"` it runs a file of such text that templates share.
 * The rest is the body; each rendering runs it with the attributes of the
 * problem (`problem.cin`), the configuration (`config.rows`), the target
 * (`target.sm`) and everything `derive` returned as globals.
 *
 * Lua runs in a sandbox: only the language, math, string and table without
 * dump, load and random; text only; bounded instructions and memory; no order
 * of a hash table can reach the output (pairs iterates in sorted key order).
 *
 * A library owns one Lua state: calls on one library are serialised by an
 * internal lock and may come from any thread.
 */
#ifndef SPC_COMPILER_TEMPLATE_H
#define SPC_COMPILER_TEMPLATE_H

#include "base/attrs.h"
#include "base/buf.h"
#include "base/sha256.h"
#include "spc_status.h"
#include <stdbool.h>

typedef struct spc__library spc__library;
typedef struct spc__template spc__template;

/*
 * Opens the templates built into the library. If `directory` is not NULL, its
 * templates are the only ones of role "conv"; for other roles, headers and Lua
 * that templates share, a file of it replaces the built-in one of that name. A
 * file that does not load fails the call with SPC_ETEMPLATE and a sentence
 * "FILE:LINE: what". Once **cancel is set, this call and every question to a
 * template that takes long ends with SPC_EINTERRUPTED; *cancel may change
 * between calls, and be NULL, as may `cancel`.
 */
spc_status spc__library_open(spc__library **out, const char *directory,
                             const volatile int *const *cancel,
                             spc_error *error);
void spc__library_close(spc__library *library);

/* Templates in the order of their names. */
int spc__library_count(const spc__library *library);
spc__template *spc__library_at(spc__library *library, int i);
spc__template *spc__library_find(spc__library *library, const char *name);

/* Text of a header ("spc_device.cuh"), of the directory, else built in; or
 * NULL. Lives as long as the library. */
const char *spc__library_header(const spc__library *library, const char *name);

/* Its own copy of that name, or NULL. */
const char *spc__library_header_name(const spc__library *library,
                                     const char *name);

const char *spc__template_name(const spc__template *tpl);
const char *spc__template_role(const spc__template *tpl);   /* "conv", "map" */
const char *spc__template_device(const spc__template *tpl); /* "cuda", "cpu" */
const char *spc__template_hash(const spc__template *tpl);   /* file, hex */
/* The hash covers the template's text and those of the files that it can
 * include: whatever changes in them makes older records hints. This is the hash
 * of a built-in template without opening a library; false if there is none. */
bool spc__builtin_template_hash(char hex[SPC__SHA256_HEX], const char *name);

/* The name of built-in template `i` from 0, as Lua need not be asked for; false
 * past the last. */
enum { SPC__TEMPLATE_NAME = 32 };
bool spc__builtin_template_name(char name[SPC__TEMPLATE_NAME], int i);

/* May this template serve the problem on the target at all? SPC_OK, or
 * SPC_EUNSUPPORTED with the template's own reason in *error. */
spc_status spc__template_accepts(spc__template *tpl, const spc__attrs *problem,
                                 const spc__attrs *target, spc_error *error);

/* The configuration that serves well untuned. It passes spc__template_check
 * or the call fails with SPC_EUNSUPPORTED saying which constraint refused. */
spc_status spc__template_default(spc__attrs *config, spc__template *tpl,
                                 const spc__attrs *problem,
                                 const spc__attrs *target, spc_error *error);

/* Every parameter known, each value legal, every constraint satisfied, and the
 * launch within the target's limits (shared_block, max_threads): SPC_OK, else
 * SPC_EUNSUPPORTED and the name of what refused. */
spc_status spc__template_check(spc__template *tpl, const spc__attrs *problem,
                               const spc__attrs *target,
                               const spc__attrs *config, spc_error *error);

/* Launch geometry (templates/README.md lists the names), sorted by name; of a
 * configuration that passes spc__template_check. */
spc_status spc__template_launch(spc__attrs *launch, spc__template *tpl,
                                const spc__attrs *problem,
                                const spc__attrs *target,
                                const spc__attrs *config, spc_error *error);

/*
 * Appends the rendered source to *out, with #line back to the template. The
 * same input gives the same bytes, in every process. The problem must be
 * accepted and the configuration pass spc__template_check, else
 * SPC_EUNSUPPORTED; on failure *out is as before.
 */
spc_status spc__template_render(spc__buf *out, spc__template *tpl,
                                const spc__attrs *problem,
                                const spc__attrs *target,
                                const spc__attrs *config, spc_error *error);

#endif
