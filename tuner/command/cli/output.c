/* SPDX-License-Identifier: Apache-2.0 */
/* output.c - JSON output. */
#include "command/cli/output.h"

#include "command/cli/cli.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>

/* Standard output gets exactly one JSON value. */
static bool has_json;

spc_status output_json(spc__buf *text)
{
    spc_status status = SPC_OK;

    if (text->failed)
        status = cli_fail(SPC_ENOMEM, "out of memory");
    else if (puts(spc__buf_text(text)) < 0) /* errno has the reason */
        status = cli_fail(SPC_EIO, "cannot write to standard output: %s",
                          strerror(errno));
    has_json |= !text->failed;
    spc__buf_release(text);
    return status;
}

void json_error(spc__json *json, spc_status status, const char *message)
{
    spc__json_object(json, "error");
    spc__json_int(json, "status", spc_status_exit_code(status));
    spc__json_text(json, "name", spc_status_name(status));
    spc__json_text(json, "message", message);
    spc__json_end_object(json);
}

void output_error(void)
{
    const spc_error *error = cli_last_error();
    spc__buf text = SPC__BUF_INIT;
    spc__json json;

    if (has_json || error->status == SPC_OK)
        return;
    spc__json_init(&json, &text);
    spc__json_object(&json, NULL);
    json_error(&json, error->status, error->text);
    spc__json_end_object(&json);
    output_json(&text);
}

const char *level_name(spc_level level)
{
    static const char *const names[] = {"device", "architecture", "facts",
                                        "default"};
    return names[level];
}

const char *origin_name(spc_match origin)
{
    static const char *const names[] = {"exact", "bucket", "nearest",
                                        "default"};
    return names[origin];
}
