/* SPDX-License-Identifier: Apache-2.0 */
/* output.h - tables for people, JSON for programs. */
#ifndef SPC_CMD_OUTPUT_H
#define SPC_CMD_OUTPUT_H

#include "base/json.h"
#include "command/cli/table.h"
#include "spc.h"

/* Prints the JSON in `text`, with a newline, and frees it. */
spc_status output_json(spc__buf *text);
/* Prints {"error": ...} from cli_last_error(), unless a value was printed. */
void output_error(void);
/* Writes the member "error" of an open object. */
void json_error(spc__json *json, spc_status status, const char *message);

/* "exact", "bucket", "nearest", "default" */
const char *origin_name(spc_match origin);
/* "device", "architecture", "facts", "default" */
const char *level_name(spc_level level);

#endif
