/* SPDX-License-Identifier: Apache-2.0 */
/* layer_text.c - parses a layer where a command takes no other operator. */
#include "command/layer_text.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* Explains "pool=max,..." where a layer is expected. */
static void explain_other(spc_error *error, const spc_operator_info *of,
                          const char *text, int head)
{
    bool set = strcmp(of->kind, "sets") == 0;

    error->status = SPC_EINVAL;
    snprintf(error->text, sizeof(error->text),
             "'%.80s' is not a layer: '%.*s' %s", text, head, text,
             set ? "makes a set of others; verify takes it"
                 : "is an operator on features; verify and features take it");
}

spc_status read_layer(spc_conv *out, const char *text, spc_error *error)
{
    spc_status status = spc_conv_parse(out, text, error);
    size_t head = strcspn(text, ",=");
    const spc_operator_info *of;

    for (int i = 0; status != SPC_OK && (of = spc_operators(i)) != NULL; i++)
        if (strcmp(of->kind, "convolution") != 0 &&
            strcspn(of->name, "=") == head &&
            strncmp(of->name, text, head) == 0) {
            explain_other(error, of, text, (int)head);
            return SPC_EINVAL;
        }
    return status;
}
