/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sample_block.c - the layout of a sample's memory block.
 *
 * An awkward scene has two data sets of integers, and two of them also have
 * FULL: the faults that these scenes find do not depend on rounding. A given
 * scene has the data sets WIDE and REAL. It has COUNT only if no other data set
 * is certain to find a lost product: if results have fewer bits than sums.
 */
#include "lab/sample/sample_block.h"

#include "base/dtype.h"
#include "base/error.h"
#include "operators/epilogue.h"
#include "operators/geometry.h"
#include "operators/operands.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static const char magic[16] = "spctune sample";

/* ---- layout -------------------------------------------------------------- */

/* Aligned for any element, as an array of doubles may follow one of bytes; to a
 * cache line, so that no two arrays share one. */
static size_t reserve(size_t *end, size_t bytes)
{
    size_t at = (*end + 63) / 64 * 64;

    *end = at + bytes;
    return at;
}

/* True if scene s has this data set. Each scene has only data sets that find
 * faults which others miss, as all are uploaded and run. */
static bool is_drawn(const spc__sample_header *header, int s, bool judges,
                     spc__dataset dataset)
{
    const spc_conv *conv = &header->conv;
    bool given = s < header->given;

    if (dataset == SPC__REAL)
        return given;
    if (!judges || !spc__dataset_is_for(conv, dataset))
        return false;
    if (dataset == SPC__FULL)
        return s == header->given + SPC__AWKWARD_DENSE ||
               (s == header->given + SPC__AWKWARD_BORDER &&
                !spc__conv_in_is_whole(conv));
    if (s >= header->given + SPC__AWKWARD)
        return dataset == SPC__COUNT;
    return !given || dataset == SPC__WIDE ||
           spc__dtype_of(spc__conv_out(conv))->stored_bits < 24;
}

/* Lays out the generated arrays of a scene and their expected results. */
static void lay_out_dataset(spc__sample_header *header, int s,
                            spc__dataset dataset, const spc__operand *all,
                            size_t *end)
{
    const spc__operand *out = &all[SPC_OPERAND_OUT];
    size_t results = (size_t)(out->rows * out->columns);

    header->scenes[s].in[dataset] = reserve(end, all[SPC_OPERAND_IN].bytes);
    if (all[SPC_OPERAND_RESIDUAL].present)
        header->scenes[s].residual[dataset] =
            reserve(end, all[SPC_OPERAND_RESIDUAL].bytes);
    if (dataset == SPC__REAL)
        return;
    header->scenes[s].exact[dataset] = reserve(end, out->bytes);
    if (!spc__epilogue_is_exact(&header->conv) || dataset == SPC__FULL)
        header->scenes[s].slack[dataset] =
            reserve(end, results * sizeof(float));
}

/* Reserves the arrays of a scene, as offsets into the block. */
static void lay_out_scene(spc__sample_header *header, int s,
                          const spc__sample_source *source, bool judges,
                          size_t *end)
{
    const spc_conv *conv = &header->conv;
    bool given = s < header->given;
    spc__operand all[SPC_OPERANDS];

    const spc_relation *relation = source->relation;

    spc__operands(all, conv, relation->rows_in, relation->rows_out);
    header->scenes[s].rows_in = relation->rows_in;
    header->scenes[s].rows_out = relation->rows_out;
    header->scenes[s].pairs = relation->pairs;
    header->scenes[s].voxels = spc_scene_rows(source->scene);
    snprintf(header->scenes[s].name, sizeof(header->scenes[s].name), "%s",
             spc_scene_name(source->scene));
    header->scenes[s].coords = reserve(
        end, (size_t)spc_scene_rows(source->scene) * 4 * sizeof(int32_t));
    if (source->given != NULL) {
        header->scenes[s].given_voxels = spc_scene_rows(source->given);
        header->scenes[s].given = reserve(
            end, (size_t)spc_scene_rows(source->given) * 4 * sizeof(int32_t));
    }
    for (int d = 0; d < SPC__DATASETS; d++)
        if (is_drawn(header, s, judges, (spc__dataset)d))
            lay_out_dataset(header, s, (spc__dataset)d, all, end);
    size_t out =
        (size_t)(all[SPC_OPERAND_OUT].rows * all[SPC_OPERAND_OUT].columns);
    if (s == header->given + SPC__AWKWARD_BORDER && spc__odd_is_for(conv))
        for (int odd = 0; odd < SPC__ODDS; odd++)
            header->scenes[s].odd[odd] = reserve(end, out);
    if (!given)
        return;
    header->scenes[s].reference = reserve(end, out * sizeof(double));
    header->scenes[s].tolerance = reserve(end, out * sizeof(float));
}

/* Lays out the whole block before it is allocated, so that its size is
 * known. */
static void lay_out(spc__sample_header *header, const spc_conv *conv,
                    const spc__sample_source *sources, int given, int count,
                    bool judges)
{
    size_t end = sizeof(*header);

    memset(header, 0, sizeof(*header));
    memcpy(header->magic, magic, sizeof(magic));
    header->conv = *conv;
    if (conv->geometry.offset_count > 0)
        header->offsets =
            reserve(&end, spc__geometry_list_bytes(&conv->geometry));
    header->given = given;
    header->scene_count = count;
    for (int d = judges ? 0 : SPC__REAL; d < SPC__DATASETS; d++) {
        if (!spc__dataset_is_for(conv, (spc__dataset)d))
            continue;
        header->weights[d] =
            reserve(&end, spc__operand_of(conv, SPC_OPERAND_WEIGHTS, 0).bytes);
        if (spc__operand_of(conv, SPC_OPERAND_BIAS, 0).present)
            header->bias[d] =
                reserve(&end, spc__operand_of(conv, SPC_OPERAND_BIAS, 0).bytes);
        if (conv->scale)
            header->scale[d] = reserve(
                &end, spc__operand_of(conv, SPC_OPERAND_SCALE, 0).bytes);
        spc__draw_scales(&header->scales[d], conv, (spc__dataset)d);
    }
    for (int s = 0; s < count; s++)
        lay_out_scene(header, s, &sources[s], judges, &end);
    header->bytes = end;
}

/* The header is at offset 0, so there 0 can mean that an array is absent. The
 * block has offsets, not pointers: each process maps it elsewhere. */
static const void *at(const spc__sample *sample, size_t offset)
{
    return offset > 0 ? (const char *)sample->memory + offset : NULL;
}

void spc__sample_block_see(spc__sample *out)
{
    const spc__sample_header *header = out->memory;

    out->conv = header->conv;
    out->conv.geometry.offsets = at(out, header->offsets);
    out->seed = header->seed;
    out->given = header->given;
    out->scene_count = header->scene_count;
    for (int d = 0; d < SPC__DATASETS; d++) {
        out->weights[d] = at(out, header->weights[d]);
        out->bias[d] = at(out, header->bias[d]);
        out->scale[d] = at(out, header->scale[d]);
        out->scales[d] = header->scales[d];
    }
    for (int s = 0; s < header->scene_count; s++) {
        spc__sample_scene *scene = &out->scenes[s];
        scene->rows_in = header->scenes[s].rows_in;
        scene->rows_out = header->scenes[s].rows_out;
        scene->pairs = header->scenes[s].pairs;
        scene->rows_read = header->scenes[s].rows_read;
        scene->offsets_used = header->scenes[s].offsets_used;
        scene->voxels = header->scenes[s].voxels;
        scene->name = header->scenes[s].name;
        scene->coords = at(out, header->scenes[s].coords);
        scene->given = at(out, header->scenes[s].given);
        scene->given_voxels = header->scenes[s].given_voxels;
        for (int d = 0; d < SPC__DATASETS; d++) {
            scene->in[d] = at(out, header->scenes[s].in[d]);
            scene->residual[d] = at(out, header->scenes[s].residual[d]);
            scene->exact[d] = at(out, header->scenes[s].exact[d]);
            scene->slack[d] = at(out, header->scenes[s].slack[d]);
            scene->digest[d] = header->scenes[s].digest[d];
        }
        scene->reference = at(out, header->scenes[s].reference);
        scene->tolerance = at(out, header->scenes[s].tolerance);
        for (int odd = 0; odd < SPC__ODDS; odd++)
            scene->odd[odd] = at(out, header->scenes[s].odd[odd]);
    }
}

/* Maps the block as shared memory, since a worker maps it too. */
static spc_status map_block(spc__sample *out, size_t bytes, int protection,
                            spc_error *error)
{
    void *memory = mmap(NULL, bytes, protection, MAP_SHARED, out->fd, 0);

    if (memory == MAP_FAILED)
        return spc__fail(error, SPC_ENOMEM,
                         "cannot map %zu bytes of sample data: %s", bytes,
                         strerror(errno));
    out->memory = memory;
    out->bytes = bytes;
    return SPC_OK;
}

/* Makes the block in memory without a name, which a worker gets as a
 * descriptor. */
static spc_status make_block(spc__sample *out, const spc__sample_header *header,
                             spc_error *error)
{
    out->fd = memfd_create("spctune-sample", MFD_CLOEXEC);
    if (out->fd < 0 || ftruncate(out->fd, (off_t)header->bytes) != 0)
        return spc__fail(error, SPC_ENOMEM,
                         "cannot reserve %zu bytes of sample data: %s",
                         header->bytes, strerror(errno));
    /* A new file reads as zeros; only the header and lists need a copy. */
    if (map_block(out, header->bytes, PROT_READ | PROT_WRITE, error) != SPC_OK)
        return error->status;
    memcpy(out->memory, header, sizeof(*header));
    if (header->offsets > 0)
        memcpy((char *)out->memory + header->offsets,
               header->conv.geometry.offsets,
               spc__geometry_list_bytes(&header->conv.geometry));
    spc__sample_block_see(out);
    return SPC_OK;
}

spc_status spc__sample_block_create(spc__sample *out, const spc_conv *conv,
                                    const spc__sample_source *sources,
                                    int given, int count,
                                    const spc__sample_options *options,
                                    spc_error *error)
{
    spc__sample_header *header = malloc(sizeof(*header));
    spc_status status;

    if (header == NULL)
        return spc__fail_memory(error, sizeof(*header));
    lay_out(header, conv, sources, given, count, options->judges);
    header->seed = options->seed;
    status = make_block(out, header, error);
    free(header);
    return status;
}

spc_status spc__sample_attach(spc__sample *out, int fd, spc_error *error)
{
    spc__sample_header *header = malloc(sizeof(*header));
    struct stat file;
    spc_status status = SPC_OK;

    memset(out, 0, sizeof(*out));
    out->fd = fd;
    if (header == NULL)
        return spc__fail_memory(error, sizeof(*header));
    if (fstat(fd, &file) != 0 ||
        pread(fd, header, sizeof(*header), 0) != (ssize_t)sizeof(*header) ||
        memcmp(header->magic, magic, sizeof(magic)) != 0 ||
        header->bytes != (size_t)file.st_size)
        status = spc__fail(error, SPC_ESTATE,
                           "descriptor %d holds no sample data: a worker is "
                           "started by a tuner, not by hand",
                           fd);
    /* The mapping is read-only: a candidate that writes wildly in the worker
     * must not change the results that it is compared with. */
    if (status == SPC_OK &&
        (status = map_block(out, header->bytes, PROT_READ, error)) == SPC_OK)
        spc__sample_block_see(out);
    free(header);
    return status;
}

void spc__sample_release(spc__sample *sample)
{
    if (sample->memory != NULL)
        munmap(sample->memory, sample->bytes);
    /* A zeroed sample that was never opened has descriptor 0, the standard
     * input, which must stay open. */
    if (sample->fd > 0)
        close(sample->fd);
    memset(sample, 0, sizeof(*sample));
}
