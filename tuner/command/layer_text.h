/* SPDX-License-Identifier: Apache-2.0 */
/* layer_text.h - parses a layer where a command takes no other operator. */
#ifndef SPC_CMD_LAYER_TEXT_H
#define SPC_CMD_LAYER_TEXT_H

#include "spc.h"

/*
 * As spc_conv_parse; for another operator `error` lists the commands that take
 * it.
 */
spc_status read_layer(spc_conv *out, const char *text, spc_error *error);

#endif
