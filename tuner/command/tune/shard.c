/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shard.c - parts of a list, by a hash of its elements.
 *
 * Launchers set variables of the environment with the rank of each process. An
 * inner launcher starts the processes of one job, an outer one copies of a job;
 * with both, the parts are those of all processes of all copies. This needs no
 * library of the launchers.
 */
#include "command/tune/shard.h"

#include "base/text/scan.h"
#include "command/cli/cli.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * A launcher's variables. Numbers start at the value of `first` (NULL: 0), in
 * steps of the value of `step` (NULL: 1).
 */
typedef struct launcher {
    const char *name, *index, *count, *first, *step;
    bool needs_count;
} launcher;

/*
 * Uses the first launcher whose variables exist. mpirun under Slurm sets the
 * variables of both, and its own variables describe the processes. A batch
 * script has SLURM_PROCID as well, but only a step has SLURM_STEP_NUM_TASKS.
 */
static const launcher inner[] = {
    {"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", NULL, NULL,
     false},
    {"MVAPICH", "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", NULL, NULL,
     false},
    {"PMI", "PMI_RANK", "PMI_SIZE", NULL, NULL, false},
    {"a Slurm step", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", NULL, NULL, false},
    {"torchrun", "RANK", "WORLD_SIZE", NULL, NULL, false},
    {NULL, NULL, NULL, NULL, NULL, false},
};

static const launcher outer[] = {
    {"a Slurm array", "SLURM_ARRAY_TASK_ID", "SLURM_ARRAY_TASK_COUNT",
     "SLURM_ARRAY_TASK_MIN", "SLURM_ARRAY_TASK_STEP", true},
    {"a Kubernetes job", "JOB_COMPLETION_INDEX", "JOB_COMPLETIONS", NULL, NULL,
     true},
    {NULL, NULL, NULL, NULL, NULL, false},
};

enum { MOST = 1000000 };

/* Reads a number from a scheduler's variable; `otherwise` if it is not set. */
static spc_status read_variable(int *out, const char *name, int otherwise)
{
    const char *text = name != NULL ? getenv(name) : NULL;

    int64_t value;

    *out = otherwise;
    if (text == NULL || text[0] == '\0')
        return SPC_OK;
    if (!spc__scan_integer(&value, spc__span_of(text), 0, MOST))
        return cli_fail(SPC_EINVAL,
                        "--shard auto: '%.40s' in %s: expected a number >= 0",
                        text, name);
    *out = (int)value;
    return SPC_OK;
}

static bool is_set(const char *name)
{
    const char *text = getenv(name);

    return text != NULL && text[0] != '\0';
}

/* Reads the part from one launcher's variables. */
static spc_status ask(shard *out, const launcher *from)
{
    int index, first, step;
    spc_status status;

    if (!is_set(from->count))
        return cli_fail(SPC_EINVAL,
                        "--shard auto: %s is set, but not %s, the number of "
                        "parts: set it, or give --shard K/N",
                        from->index, from->count);
    if ((status = read_variable(&index, from->index, 0)) != SPC_OK ||
        (status = read_variable(&out->count, from->count, 1)) != SPC_OK ||
        (status = read_variable(&first, from->first, 0)) != SPC_OK ||
        (status = read_variable(&step, from->step, 1)) != SPC_OK)
        return status;
    out->index = step > 0 ? (index - first) / step : -1;
    if (out->index < 0 || out->index >= out->count)
        return cli_fail(SPC_EINVAL,
                        "--shard auto: %s is %d: expected a number below %s, "
                        "which is %d",
                        from->index, index, from->count, out->count);
    snprintf(out->source, sizeof(out->source), "%s", from->name);
    return SPC_OK;
}

/*
 * For outer launchers, an index without the number of parts is a mistake.
 * Variables of inner ones may have other uses (RANK), or be set outside of
 * steps.
 */
static spc_status ask_all(shard *out, const launcher *table)
{
    *out = (shard){0, 1, ""};
    for (; table->name != NULL; table++)
        if (is_set(table->index) &&
            (table->needs_count || is_set(table->count)))
            return ask(out, table);
    return SPC_OK;
}

/* A job array and the processes of each of its jobs: the shards of both are
 * nested. */
static spc_status read_auto(shard *out)
{
    shard job, copy;
    spc_status status = ask_all(&job, inner);

    if (status != SPC_OK || (status = ask_all(&copy, outer)) != SPC_OK)
        return status;
    out->index = copy.index * job.count + job.index;
    out->count = copy.count * job.count;
    snprintf(out->source, sizeof(out->source), "%.50s%s%.50s", copy.source,
             copy.source[0] != '\0' && job.source[0] != '\0' ? " and " : "",
             job.source);
    return SPC_OK;
}

spc_status shard_read(shard *out, const char *text)
{
    *out = (shard){0, 1, ""};
    if (text == NULL)
        return SPC_OK;
    if (strcmp(text, "auto") == 0)
        return read_auto(out);
    if (!spc__scan_share(&out->index, &out->count, spc__span_of(text), MOST))
        return cli_fail(SPC_EINVAL,
                        "--shard: '%s' is not K/N, such as 2/5 for the second "
                        "of five parts, nor auto",
                        text);
    snprintf(out->source, sizeof(out->source), "--shard");
    return SPC_OK;
}

/*
 * FNV-1a, then the finaliser of splitmix64: the low bits of FNV-1a alone are
 * weak.
 */
static uint64_t hash(const char *text)
{
    uint64_t x = 0xcbf29ce484222325u;

    for (; *text != '\0'; text++)
        x = (x ^ (unsigned char)*text) * 0x100000001b3u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

bool shard_has(const shard *part, const char *key)
{
    return (int)(hash(key) % (uint64_t)part->count) == part->index;
}
