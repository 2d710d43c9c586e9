/* SPDX-License-Identifier: Apache-2.0 */
/* relate.c - finds relations on a separate thread. */
#include "command/verify/relate.h"

#include "command/cli/cli.h"
#include <stdlib.h>

struct search {
    spc_conv conv;
    const spc_scene *scene;
    int threads;
    spc_relation relation;
    spc_error error;
};

static void *find_relation(void *payload)
{
    struct search *s = payload;

    spc_oracle_relation(&s->relation, &s->conv, s->scene, s->threads,
                        &s->error);
    return NULL;
}

spc_status relate(spc_relation *out, const spc_conv *conv,
                  const spc_scene *scene, int threads)
{
    struct search *s = calloc(1, sizeof(*s));

    if (s == NULL)
        return cli_fail(SPC_ENOMEM, "out of memory");
    s->conv = *conv;
    s->scene = scene;
    s->threads = threads;
    if (cli_run_apart(find_relation, s) != SPC_OK)
        return cli_fail(SPC_EINTERRUPTED, "interrupted");
    *out = s->relation;
    spc_status status = s->error.status;
    if (status != SPC_OK)
        cli_fail(status, "%s: %s", spc_scene_name(scene), s->error.text);
    free(s);
    return status;
}
