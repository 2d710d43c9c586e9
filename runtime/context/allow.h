/* SPDX-License-Identifier: Apache-2.0 */
/*
 * allow.h - lists of the templates that layers may use, by pass:
 * "forward=os_mma+os_warp,wgrad=wgrad_rows".
 *
 * A pass without a list may use all templates. A pass with one uses nothing
 * else, whatever the database has.
 */
#ifndef SPC_CONTEXT_ALLOW_H
#define SPC_CONTEXT_ALLOW_H

#include "base/text/scan.h"
#include "compiler/template.h"
#include "spc.h"

enum { SPC__PASSES = 3 };

/* A zeroed one has no lists. */
typedef struct spc__allow {
    char *text;
    spc__span lists[SPC__PASSES]; /* parts of `text`; missing: no list */
} spc__allow;

/*
 * Reads the lists. Every name must be a template of `library` for that pass, or
 * without a library (NULL) that of a built-in template: an empty list, or an
 * unknown name or pass, is SPC_EINVAL. `what` names the text in the sentence.
 * On failure *out has no lists. spc__ctx_allow() has the context's library.
 */
spc_status spc__allow_read(spc__allow *out, spc__library *library,
                           const char *text, const char *what,
                           spc_error *error);
void spc__allow_release(spc__allow *allow);

/* True if the pass has no list, or the list has the template. */
bool spc__allow_has(const spc__allow *allow, spc_pass pass,
                    const char *template_name);

#endif
