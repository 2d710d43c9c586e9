/* SPDX-License-Identifier: Apache-2.0 */
/* sample_make.c - a sample: its scenes, and their relations. */
#include "lab/sample/sample_block.h"

#include "base/error.h"
#include "lab/oracle/relation.h"
#include <stdlib.h>
#include <string.h>

spc_status spc__scenes_check(const spc_scene *const *scenes, int count,
                             spc_error *error)
{
    if (count < 0)
        return spc__fail(error, SPC_EINVAL, "%d scenes: expected 0 or more",
                         count);
    for (int s = 0; s < count; s++)
        if (scenes == NULL || scenes[s] == NULL)
            return spc__fail(error, SPC_EINVAL, "scene %d of %d is NULL", s + 1,
                             count);
    return SPC_OK;
}

spc_status spc__sample_scene_check(const spc_scene *scene, spc_error *error)
{
    if (spc_scene_rows(scene) > 0)
        return SPC_OK;
    return spc__fail(error, SPC_EINVAL,
                     "scene '%s' has no voxels: there is nothing to measure",
                     spc_scene_name(scene));
}

/* Lays the sample out in one block, then fills it. */
static spc_status make(spc__sample_maker *m, const spc_conv *conv,
                       const spc__sample_source *sources, int given, int count)
{
    spc_status status = spc__sample_block_create(
        m->sample, conv, sources, given, count, m->options, m->error);

    if (status != SPC_OK)
        return status;
    m->header = m->sample->memory;
    status = spc__sample_fill(m, sources, count);
    /* digests and counts are known from here on */
    spc__sample_block_see(m->sample);
    return status;
}

/* The scenes of a sample, and the parts that its maker frees. */
typedef struct sources {
    spc__sample_source all[SPC__SAMPLE_SCENES];
    int count;
    spc_scene *awkward[SPC__ODD_SCENES], *given;
    spc_relation found[SPC__SAMPLE_SCENES];
} sources;

/* Finds the relations that were not passed with their scenes. */
static spc_status relate(sources *from, const spc_conv *conv,
                         const spc__sample_options *options, spc_error *error)
{
    spc_status status = SPC_OK;

    for (int s = 0; s < from->count && status == SPC_OK; s++) {
        spc__sample_source *source = &from->all[s];
        if (source->relation != NULL)
            continue;
        status =
            source->given == NULL
                ? spc__relation_init(&from->found[s], conv, source->scene,
                                     options->threads, options->cancel, error)
                : spc__relation_init_between(
                      &from->found[s], conv, source->scene, source->given,
                      options->threads, options->cancel, error);
        source->relation = &from->found[s];
    }
    return status;
}

/*
 * Returns the i-th size of a sample: the first, then consecutive sizes from a
 * random start.
 */
static int size_of(int i, uint64_t seed)
{
    return i == 0 ? 0 : 1 + (int)(((uint64_t)i - 1 + seed) % (SPC__SIZES - 1));
}

/* Adds the awkward scenes, and some of the size scenes. */
static spc_status add_awkward(sources *from, const spc_conv *conv,
                              const spc__sample_options *options,
                              spc_error *error)
{
    spc_status status = SPC_OK;

    for (int i = 0; i < SPC__AWKWARD + options->sizes && status == SPC_OK;
         i++) {
        status =
            i < SPC__AWKWARD
                ? spc__awkward_scene(&from->awkward[i], i, conv, error)
                : spc__awkward_size(&from->awkward[i],
                                    size_of(i - SPC__AWKWARD, options->seed),
                                    options->seed, conv, error);
        from->all[from->count++].scene = from->awkward[i];
    }
    return status;
}

/* Appends this scene after the sizes, for layers whose outputs may lie
 * anywhere. */
static spc_status add_far(sources *from, const spc_conv *conv, int sizes,
                          spc_error *error)
{
    spc_scene **scene = &from->awkward[SPC__AWKWARD + sizes];

    if (conv->geometry.rule != SPC_RULE_GIVEN || conv->geometry.shape[0] > 0 ||
        sizes == 0)
        return SPC_OK;
    spc_status status = spc__awkward_far(scene, &from->given, conv, error);
    from->all[from->count++] =
        (spc__sample_source){.scene = *scene, .given = from->given};
    return status;
}

spc_status spc__sample_init(spc__sample *out, const spc_conv *conv,
                            const spc__sample_source *given, int count,
                            const spc__sample_options *options,
                            spc_error *error)
{
    spc__sample_maker m = {.sample = out, .options = options, .error = error};
    sources *from = calloc(1, sizeof(*from));
    spc_status status = SPC_OK;

    memset(out, 0, sizeof(*out));
    if (from == NULL)
        return spc__fail_memory(error, sizeof(*from));
    memcpy(from->all, given, (size_t)count * sizeof(*given));
    from->count = count;
    if (options->judges)
        status = add_awkward(from, conv, options, error);
    if (options->judges && status == SPC_OK)
        status = add_far(from, conv, options->sizes, error);
    if (status == SPC_OK)
        status = relate(from, conv, options, error);
    if (status == SPC_OK)
        status = make(&m, conv, from->all, count, from->count);
    for (int i = 0; i < SPC__ODD_SCENES; i++)
        spc_scene_free(from->awkward[i]);
    spc_scene_free(from->given);
    for (int s = 0; s < SPC__SAMPLE_SCENES; s++)
        spc__relation_release(&from->found[s]);
    free(from);
    return status;
}
