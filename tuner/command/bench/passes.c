/* SPDX-License-Identifier: Apache-2.0 */
/* passes.c - makes problems from a layer and the value of --pass. */
#include "command/bench/passes.h"

#include <string.h>

static const char *const names[] = {"forward", "dgrad", "wgrad"};

static spc_status add(passes *out, const spc_conv *layer, spc_pass pass)
{
    spc_error error = {0};
    spc_conv *to = &out->at[out->count].layer;
    spc_status status = spc_conv_pass(to, layer, pass, &error);

    if (status != SPC_OK)
        return cli_fail(status, "%s", error.text);
    spc_conv_format(out->at[out->count].text, sizeof(out->at[0].text), to);
    out->count++;
    return SPC_OK;
}

spc_status passes_of(passes *out, const spc_conv *layer, const char *word)
{
    spc_status status = SPC_OK;

    out->count = 0;
    if (word == NULL) {
        out->at[0].layer = *layer;
        spc_conv_format(out->at[0].text, sizeof(out->at[0].text), layer);
        out->count = 1;
        return SPC_OK;
    }
    for (int p = 0; p < PASSES && status == SPC_OK; p++) {
        if (strcmp(word, "all") != 0 && strcmp(word, names[p]) != 0)
            continue;
        status = add(out, layer, (spc_pass)p);
    }
    return status;
}
