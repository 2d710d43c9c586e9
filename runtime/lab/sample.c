/*
 * sample.c - the block that a sample lies in, and how it is filled.
 *
 * An awkward scene has the two draws of integers: what it is to find is not a
 * matter of rounding. A given scene has the wide and the real draw, and the
 * counting one where only that is certain to see a lost product: where results
 * have fewer bits than sums.
 */
#include "sample.h"

#include "cancel.h"
#include "ctx.h"
#include "digest.h"
#include "dtype.h"
#include "epilogue.h"
#include "error.h"
#include "exact.h"
#include "operands.h"
#include "relation.h"
#include "wgrad.h"
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* The block starts with this; everything else is found by offset, where 0
 * stands for what is not there. */
struct header {
    char magic[16];
    spc_conv conv;
    int given, scene_count;
    size_t weights[SPC__DRAWS], bias[SPC__DRAWS], scale[SPC__DRAWS];
    spc_scales scales[SPC__DRAWS];
    struct {
        int64_t rows_in, rows_out, pairs, rows_read, voxels;
        int offsets_used;
        char name[64];
        size_t coords, in[SPC__DRAWS], residual[SPC__DRAWS];
        size_t exact[SPC__DRAWS], slack[SPC__DRAWS];
        uint64_t digest[SPC__DRAWS];
        size_t reference, tolerance, sees;
    } scenes[SPC__SAMPLE_SCENES];
    size_t bytes;
};

static const char magic[16] = "spctune sample";

/* A sample while it is being made. */
typedef struct maker {
    spc__sample *sample;
    struct header *header; /* in the block */
    const spc__sample_options *options;
    spc__random random;
    float *weights[SPC__DRAWS];
    spc_error *error;
} maker;

/* ---- layout -------------------------------------------------------------- */

static size_t reserve(size_t *end, size_t bytes)
{
    size_t at = (*end + 63) / 64 * 64;

    *end = at + bytes;
    return at;
}

static bool is_drawn(const struct header *header, int s, bool judges,
                     spc__draw draw)
{
    const spc_conv *conv = &header->conv;
    bool given = s < header->given;

    if (draw == SPC__REAL)
        return given;
    if (!judges)
        return false;
    if (s >= header->given + SPC__AWKWARD)
        return draw == SPC__COUNT;
    return !given || draw == SPC__WIDE ||
           spc__dtype_of(spc__conv_out(conv))->stored_bits < 24;
}

/* The arrays of a scene that are drawn, and what must come out of them. */
static void lay_out_draw(struct header *header, int s, spc__draw draw,
                         const spc__operand *all, size_t *end)
{
    const spc__operand *out = &all[SPC_OUT];
    size_t results = (size_t)(out->rows * out->columns);

    header->scenes[s].in[draw] = reserve(end, all[SPC_IN].bytes);
    if (all[SPC_RESIDUAL].present)
        header->scenes[s].residual[draw] =
            reserve(end, all[SPC_RESIDUAL].bytes);
    if (draw == SPC__REAL)
        return;
    header->scenes[s].exact[draw] = reserve(end, out->bytes);
    if (!spc__epilogue_is_exact(&header->conv))
        header->scenes[s].slack[draw] = reserve(end, results * sizeof(float));
}

static void lay_out_scene(struct header *header, int s,
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
    for (int d = 0; d < SPC__DRAWS; d++)
        if (is_drawn(header, s, judges, (spc__draw)d))
            lay_out_draw(header, s, (spc__draw)d, all, end);
    if (!given) {
        header->scenes[s].sees = reserve(end, (size_t)relation->rows_out);
        return;
    }
    size_t out = (size_t)(all[SPC_OUT].rows * all[SPC_OUT].columns);
    header->scenes[s].reference = reserve(end, out * sizeof(double));
    header->scenes[s].tolerance = reserve(end, out * sizeof(float));
}

static void lay_out(struct header *header, const spc_conv *conv,
                    const spc__sample_source *sources, int given, int count,
                    bool judges)
{
    size_t end = sizeof(*header);

    memset(header, 0, sizeof(*header));
    memcpy(header->magic, magic, sizeof(magic));
    header->conv = *conv;
    header->given = given;
    header->scene_count = count;
    for (int d = judges ? 0 : SPC__REAL; d < SPC__DRAWS; d++) {
        header->weights[d] =
            reserve(&end, spc__operand_of(conv, SPC_WEIGHTS, 0).bytes);
        if (spc__operand_of(conv, SPC_BIAS, 0).present)
            header->bias[d] =
                reserve(&end, spc__operand_of(conv, SPC_BIAS, 0).bytes);
        if (conv->scale)
            header->scale[d] =
                reserve(&end, spc__operand_of(conv, SPC_SCALE, 0).bytes);
        spc__draw_scales(&header->scales[d], conv, (spc__draw)d);
    }
    for (int s = 0; s < count; s++)
        lay_out_scene(header, s, &sources[s], judges, &end);
    header->bytes = end;
}

static const void *at(const spc__sample *sample, size_t offset)
{
    return offset > 0 ? (const char *)sample->memory + offset : NULL;
}

static void point_at(spc__sample *out)
{
    const struct header *header = out->memory;

    out->conv = header->conv;
    out->given = header->given;
    out->scene_count = header->scene_count;
    for (int d = 0; d < SPC__DRAWS; d++) {
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
        for (int d = 0; d < SPC__DRAWS; d++) {
            scene->in[d] = at(out, header->scenes[s].in[d]);
            scene->residual[d] = at(out, header->scenes[s].residual[d]);
            scene->exact[d] = at(out, header->scenes[s].exact[d]);
            scene->slack[d] = at(out, header->scenes[s].slack[d]);
            scene->digest[d] = header->scenes[s].digest[d];
        }
        scene->reference = at(out, header->scenes[s].reference);
        scene->tolerance = at(out, header->scenes[s].tolerance);
        scene->sees = at(out, header->scenes[s].sees);
    }
}

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

static spc_status make_block(spc__sample *out, const struct header *header,
                             spc_error *error)
{
    out->fd = memfd_create("spctune-sample", MFD_CLOEXEC);
    if (out->fd < 0 || ftruncate(out->fd, (off_t)header->bytes) != 0)
        return spc__fail(error, SPC_ENOMEM,
                         "cannot reserve %zu bytes of sample data: %s",
                         header->bytes, strerror(errno));
    if (map_block(out, header->bytes, PROT_READ | PROT_WRITE, error) != SPC_OK)
        return error->status;
    memcpy(out->memory, header, sizeof(*header));
    point_at(out);
    return SPC_OK;
}

/* ---- data ---------------------------------------------------------------- */

/* The rows of an operand as they lie on a device, gaps included. */
static void encode_rows(void *to, const spc__operand *as, const float *from)
{
    const spc__dtype *type = spc__dtype_of(as->dtype);

    if (as->bytes != as->dense_bytes)
        memset(to, SPC__ZONE_BYTE, as->bytes);
    for (int64_t row = 0; row < as->rows; row++)
        type->encode((char *)to + (size_t)(row * as->pitch) * type->bytes,
                     from + row * as->columns, (size_t)as->columns);
}

/* As they lie on a device, where the weights of a DGRAD are those of its layer.
 */
static spc_status encode_weights(maker *m, int d, const spc__operand *operand)
{
    const spc_conv *conv = &m->sample->conv;
    void *to = (void *)m->sample->weights[d];
    float *turned;

    if (conv->pass != SPC_DGRAD) {
        encode_rows(to, operand, m->weights[d]);
        return SPC_OK;
    }
    if ((turned = malloc(operand->dense_bytes * 4)) == NULL)
        return spc__fail_memory(m->error, operand->dense_bytes * 4);
    spc__layer_weights(turned, m->weights[d], conv);
    encode_rows(to, operand, turned);
    free(turned);
    return SPC_OK;
}

static spc_status draw_weights(maker *m)
{
    const spc_conv *conv = &m->sample->conv;
    spc__operand operand = spc__operand_of(conv, SPC_WEIGHTS, 0);
    size_t n = (size_t)(operand.rows * operand.columns);

    for (int d = 0; d < SPC__DRAWS; d++) {
        if (m->sample->weights[d] == NULL)
            continue;
        if ((m->weights[d] = malloc(n * sizeof(float) + 1)) == NULL)
            return spc__fail_memory(m->error, n * sizeof(float));
        if (conv->pass == SPC_WGRAD)
            spc__draw_gradient(m->weights[d], conv, (spc__draw)d, operand.rows,
                               &m->random);
        else
            spc__draw_weights(m->weights[d], conv, (spc__draw)d, &m->random);
        if (encode_weights(m, d, &operand) != SPC_OK)
            return m->error->status;
        if (m->sample->bias[d] != NULL)
            spc__draw_bias((float *)m->sample->bias[d], conv, (spc__draw)d,
                           &m->random);
        if (conv->scale)
            spc__draw_scale((float *)m->sample->scale[d], conv, (spc__draw)d,
                            &m->random);
    }
    return SPC_OK;
}

static bool is_gradient(const maker *m)
{
    return m->sample->conv.pass == SPC_WGRAD;
}

/* What the oracle sums up without rounding, in the type of the outputs. */
static spc_status expect_exact(maker *m, int s, spc__draw draw,
                               const spc__seen *seen, const spc__values *values)
{
    spc__sample *sample = m->sample;
    const spc__sample_scene *scene = &sample->scenes[s];
    spc__operand out = spc__operand_of(&sample->conv, SPC_OUT, scene->rows_out);
    size_t n = (size_t)(out.rows * out.columns);
    float *sums = malloc(n * sizeof(float) + 1);

    if (sums == NULL)
        return spc__fail_memory(m->error, n * sizeof(float));
    spc_status status =
        is_gradient(m)
            ? spc__wgrad_exact(sums, &sample->conv, seen, scene->rows_out,
                               values, m->options->threads, m->options->cancel,
                               m->error)
            : spc__oracle_exact(sums, &sample->conv, seen, scene->rows_out,
                                values->in, values->weights, values->bias,
                                m->options->threads, m->options->cancel,
                                m->error);
    if (status == SPC_OK) {
        void *exact = (void *)scene->exact[draw];
        if (!is_gradient(m))
            spc__finish_exact(sums, (float *)scene->slack[draw], &sample->conv,
                              scene->rows_out, values, m->options->threads);
        encode_rows(exact, &out, sums);
        m->header->scenes[s].digest[draw] = spc__digest_host(exact, out.bytes);
    }
    free(sums);
    return status;
}

/* ---- numbers at the ends of a type --------------------------------------- */

/* The largest sum of a draw, for scaling; no epilogue. */
static spc_status largest_sum(maker *m, int s, const spc__seen *seen,
                              const float *in, double *largest)
{
    const spc__sample_scene *scene = &m->sample->scenes[s];
    const spc_conv *conv = &m->sample->conv;
    size_t n = (size_t)(scene->rows_out * conv->cout);
    float *sums = malloc(n * sizeof(float) + 1);

    if (sums == NULL)
        return spc__fail_memory(m->error, n * sizeof(float));
    spc_status status = spc__oracle_exact(
        sums, conv, seen, scene->rows_out, in, m->weights[SPC__COUNT], NULL,
        m->options->threads, m->options->cancel, m->error);
    for (size_t i = 0; i < n && status == SPC_OK; i++)
        *largest = fmax(*largest, fabs((double)sums[i]));
    free(sums);
    return status;
}

/* Of the scenes of the sizes three have zeros, and three have none. */
static void thin_inputs(maker *m, int s, float *in, float *gradient)
{
    const spc__sample_scene *scene = &m->sample->scenes[s];
    const spc_conv *conv = &m->sample->conv;
    bool few = s % 3 == 2 && !is_gradient(m);

    if (!spc__sample_is_size(m->sample, s) || s / 3 % 2 == 0)
        return;
    spc__draw_thinned(in, conv, scene->rows_in, conv->cin, few, &m->random);
    if (is_gradient(m))
        spc__draw_thinned(gradient, conv, scene->rows_out, conv->cout, false,
                          &m->random);
}

/* COUNT on a scene of the sizes, by turns: as it is, tiny, and huge, which are
 * larger still where zeros leave few of them. */
static spc_status scale_inputs(maker *m, int s, const spc__seen *seen,
                               float *in)
{
    const spc__sample_scene *scene = &m->sample->scenes[s];
    const spc_conv *conv = &m->sample->conv;
    int turn = s % 3;
    double largest = 3;

    if (!spc__sample_is_size(m->sample, s) || turn == 0)
        return SPC_OK;
    if (turn == 2 && largest_sum(m, s, seen, in, &largest) != SPC_OK)
        return m->error->status;
    int power =
        turn == 1 ? spc__draw_tiny(conv) : spc__draw_huge(conv, largest);
    for (int64_t i = 0; i < scene->rows_in * conv->cin; i++)
        in[i] = ldexpf(in[i], power);
    return SPC_OK;
}

/* Draws the arrays of a scene, and asks what must come out of them. */
static spc_status fill_arrays(maker *m, int s, spc__draw draw,
                              const spc__seen *seen, float *in, float *residual)
{
    spc__sample *sample = m->sample;
    const spc__sample_scene *scene = &sample->scenes[s];
    const spc_conv *conv = &sample->conv;
    spc__operand all[SPC_OPERANDS];
    spc__values values = {
        in,       m->weights[draw],    sample->bias[draw], sample->scale[draw],
        residual, sample->scales[draw]};

    spc__operands(all, conv, scene->rows_in, scene->rows_out);
    if (is_gradient(m)) {
        spc__draw_pair(in, residual, conv, draw, scene->rows_in,
                       scene->rows_out, s % 2, &m->random);
        thin_inputs(m, s, in, residual);
    } else {
        spc__draw_in(in, conv, draw, scene->rows_in, &m->random);
        thin_inputs(m, s, in, NULL);
        if (scale_inputs(m, s, seen, in) != SPC_OK)
            return m->error->status;
        if (all[SPC_RESIDUAL].present)
            spc__draw_residual(residual, conv, draw, scene->rows_out,
                               &m->random);
    }
    encode_rows((void *)scene->in[draw], &all[SPC_IN], in);
    if (all[SPC_RESIDUAL].present)
        encode_rows((void *)scene->residual[draw], &all[SPC_RESIDUAL],
                    residual);
    if (draw != SPC__REAL)
        return expect_exact(m, s, draw, seen, &values);
    if (is_gradient(m))
        return spc__wgrad_expect((double *)scene->reference,
                                 (float *)scene->tolerance, conv, seen,
                                 scene->rows_out, &values, m->options->threads,
                                 m->options->cancel, m->error);
    return spc__expect((double *)scene->reference, (float *)scene->tolerance,
                       conv, seen, scene->rows_out, &values,
                       m->options->threads, m->options->cancel, m->error);
}

static spc_status fill_draw(maker *m, int s, spc__draw draw,
                            const spc__seen *seen)
{
    const spc_conv *conv = &m->sample->conv;
    const spc__sample_scene *scene = &m->sample->scenes[s];
    bool adds = spc__operand_of(conv, SPC_RESIDUAL, 1).present;
    size_t n = (size_t)(scene->rows_in * conv->cin);
    size_t added = adds ? (size_t)(scene->rows_out * conv->cout) : 0;
    float *in = malloc((n + added) * sizeof(float) + 1);

    if (in == NULL)
        return spc__fail_memory(m->error, (n + added) * sizeof(float));
    spc_status status = fill_arrays(m, s, draw, seen, in, adds ? in + n : NULL);
    free(in);
    return status;
}

/* What of inputs and offsets some pair uses; and who sees marked inputs. */
static spc_status count_used(maker *m, int s, const spc_relation *relation)
{
    const spc__sample_scene *scene = &m->sample->scenes[s];
    size_t bytes = (size_t)relation->rows_in + SPC_MAX_OFFSETS;
    char *used = calloc(bytes, 1);

    if (used == NULL)
        return spc__fail_memory(m->error, bytes);
    char *offsets = used + relation->rows_in;
    for (int64_t i = 0; i < relation->slots * relation->rows_out; i++) {
        int32_t from = relation->index[i];
        int64_t k =
            relation->cells ? relation->cells[i] : i / relation->rows_out;
        if (from < 0)
            continue;
        if (spc__sample_marks(from, relation->rows_in) && scene->sees != NULL)
            ((unsigned char *)scene->sees)[i % relation->rows_out] = 1;
        m->header->scenes[s].rows_read += !used[from];
        m->header->scenes[s].offsets_used += !offsets[k];
        used[from] = offsets[k] = 1;
    }
    free(used);
    return SPC_OK;
}

static spc_status fill_scene(maker *m, int s, const spc__sample_source *from)
{
    const spc__sample_scene *scene = &m->sample->scenes[s];
    spc__seen seen = spc__relation_seen(from->relation);
    spc_status status = count_used(m, s, from->relation);

    if (spc_scene_rows(from->scene) > 0)
        memcpy((void *)scene->coords, spc_scene_coords(from->scene),
               (size_t)spc_scene_rows(from->scene) * 4 * sizeof(int32_t));
    for (int d = 0; d < SPC__DRAWS && status == SPC_OK; d++)
        if (scene->in[d] != NULL)
            status = fill_draw(m, s, (spc__draw)d, &seen);
    return status;
}

/* ---- life ---------------------------------------------------------------- */

spc_status spc__scenes_check(const spc_scene *const *scenes, int count,
                             spc_error *error)
{
    if (count < 0)
        return spc__fail(error, SPC_EINVAL, "%d scenes: 0 or more are right",
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

static spc_status make(maker *m, const spc_conv *conv,
                       const spc__sample_source *sources, int given, int count)
{
    struct header *header = malloc(sizeof(*header));
    spc_status status;

    if (header == NULL)
        return spc__fail_memory(m->error, sizeof(*header));
    lay_out(header, conv, sources, given, count, m->options->judges);
    status = make_block(m->sample, header, m->error);
    free(header);
    if (status != SPC_OK)
        return status;
    m->header = m->sample->memory;
    spc__random_init(&m->random, m->options->seed);
    status = draw_weights(m);
    for (int s = 0; s < count && status == SPC_OK; s++)
        status = fill_scene(m, s, &sources[s]);
    point_at(m->sample); /* digests and counts are known now */
    return status;
}

/* The scenes of a sample, and what of them is its maker's to free. */
typedef struct sources {
    spc__sample_source all[SPC__SAMPLE_SCENES];
    int count;
    spc_scene *awkward[SPC__ODD_SCENES];
    spc_relation found[SPC__SAMPLE_SCENES];
} sources;

/* Finds the relations that did not come with their scenes. */
static spc_status relate(sources *from, const spc_conv *conv,
                         const spc__sample_options *options, spc_error *error)
{
    spc_status status = SPC_OK;

    for (int s = 0; s < from->count && status == SPC_OK; s++) {
        if (from->all[s].relation != NULL)
            continue;
        status = spc__relation_init(&from->found[s], conv, from->all[s].scene,
                                    options->threads, options->cancel, error);
        from->all[s].relation = &from->found[s];
    }
    return status;
}

/* Of the sizes as many as are wanted, from one on that the seed says. */
static spc_status add_awkward(sources *from, const spc_conv *conv,
                              const spc__sample_options *options,
                              spc_error *error)
{
    spc_status status = SPC_OK;

    for (int i = 0; i < SPC__AWKWARD + options->sizes && status == SPC_OK;
         i++) {
        uint64_t size = (uint64_t)(i - SPC__AWKWARD) + options->seed;
        int which =
            i < SPC__AWKWARD ? i : SPC__AWKWARD + (int)(size % SPC__SIZES);
        status = spc__awkward_scene(&from->awkward[i], which, conv, error);
        from->all[from->count++].scene = from->awkward[i];
    }
    return status;
}

spc_status spc__sample_init(spc__sample *out, const spc_conv *conv,
                            const spc__sample_source *given, int count,
                            const spc__sample_options *options,
                            spc_error *error)
{
    maker m = {.sample = out, .options = options, .error = error};
    sources *from = calloc(1, sizeof(*from));
    spc_status status = SPC_OK;

    memset(out, 0, sizeof(*out));
    if (from == NULL)
        return spc__fail_memory(error, sizeof(*from));
    memcpy(from->all, given, (size_t)count * sizeof(*given));
    from->count = count;
    if (options->judges)
        status = add_awkward(from, conv, options, error);
    if (status == SPC_OK)
        status = relate(from, conv, options, error);
    if (status == SPC_OK)
        status = make(&m, conv, from->all, count, from->count);
    for (int d = 0; d < SPC__DRAWS; d++)
        free(m.weights[d]);
    for (int i = 0; i < SPC__ODD_SCENES; i++)
        spc_scene_free(from->awkward[i]);
    for (int s = 0; s < SPC__SAMPLE_SCENES; s++)
        spc__relation_release(&from->found[s]);
    free(from);
    return status;
}

spc_status spc__sample_attach(spc__sample *out, int fd, spc_error *error)
{
    struct header *header = malloc(sizeof(*header));
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
    if (status == SPC_OK &&
        (status = map_block(out, header->bytes, PROT_READ, error)) == SPC_OK)
        point_at(out);
    free(header);
    return status;
}

void spc__sample_release(spc__sample *sample)
{
    if (sample->memory != NULL)
        munmap(sample->memory, sample->bytes);
    if (sample->fd > 0)
        close(sample->fd);
    memset(sample, 0, sizeof(*sample));
}
