/* SPDX-License-Identifier: Apache-2.0 */
/*
 * targets.c - the table of compile targets.
 *
 * Figures are from the CUDA C Programming Guide, "Technical Specifications per
 * Compute Capability". The number of multiprocessors depends on the product,
 * not on the target: the table has the largest common one, since only launch
 * geometry and a few constraints use it.
 */
#include "device/targets.h"

#include "base/error.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

struct target {
    int sm;
    int shared_block; /* limit of one block, in bytes */
    int shared_sm;    /* limit of a multiprocessor, in bytes */
    int multiprocessors;
};

static const struct target known[] = {
    {75, 65536, 65536, 72},     /* T4, RTX 20 */
    {80, 166912, 167936, 108},  /* A100 */
    {86, 101376, 102400, 84},   /* A40, RTX 30 */
    {87, 166912, 167936, 16},   /* Orin */
    {88, 166912, 167936, 16},   /* Orin, newer */
    {89, 101376, 102400, 142},  /* L40, RTX 40 */
    {90, 232448, 233472, 132},  /* H100, H200 */
    {100, 232448, 233472, 148}, /* B200 */
    {101, 232448, 233472, 20},  /* Thor, before CUDA 13 */
    {103, 232448, 233472, 148}, /* B300 */
    {110, 232448, 233472, 20},  /* Thor */
    {120, 101376, 102400, 170}, /* RTX 50 */
    {121, 101376, 102400, 48},  /* GB10 */
};

enum { KNOWN = sizeof(known) / sizeof(known[0]) };

/* The facts of a target's name, or NULL. Suffixes: 'a' is code for this
 * architecture only, 'f' for its family. */
static const struct target *find(const char *name)
{
    char *end = NULL;

    /* "sm_080" would be a second key of the database for the same code. */
    if (strncmp(name, "sm_", 3) != 0 || !isdigit((unsigned char)name[3]) ||
        name[3] == '0')
        return NULL;
    long sm = strtol(name + 3, &end, 10);
    if (*end != '\0' && strcmp(end, "a") != 0 && strcmp(end, "f") != 0)
        return NULL;
    for (int i = 0; i < KNOWN; i++)
        if (known[i].sm == sm &&
            (*end == '\0' || sm >= (*end == 'a' ? 90 : 100)))
            return &known[i];
    return NULL;
}

/* Names all targets that are known. */
static spc_status unknown(const char *name, spc_error *error)
{
    spc__buf list = SPC__BUF_INIT;

    for (int i = 0; i < KNOWN; i++)
        spc__buf_printf(&list, "%ssm_%d", i == 0 ? "" : ", ", known[i].sm);
    spc_status status =
        spc__fail(error, SPC_EUNSUPPORTED,
                  "unknown target '%s' (%s; with an 'a' from sm_90 on)", name,
                  spc__buf_text(&list));
    spc__buf_release(&list);
    return status;
}

spc_status spc__target_facts(spc__attrs *out, const char *target,
                             spc_error *error)
{
    const struct target *found = find(target);

    memset(out, 0, sizeof(*out));
    if (found == NULL)
        return unknown(target, error);
    spc__attrs_set_text(out, "device", "cuda");
    spc__attrs_set_text(out, "target", target);
    spc__attrs_set_number(out, "sm", found->sm);
    spc__attrs_set_number(out, "shared_block", found->shared_block);
    spc__attrs_set_number(out, "shared_sm", found->shared_sm);
    spc__attrs_set_number(out, "registers_sm", 65536);
    spc__attrs_set_number(out, "max_threads", 1024);
    spc__attrs_set_number(out, "multiprocessors", found->multiprocessors);
    return SPC_OK;
}
