/* subject.c - random data, the oracle's answers, and the block they lie in. */
#include "subject.h"

#include "ctx.h"
#include "error.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* The block starts with this; everything else is found by offset. */
struct header {
    char magic[16];
    spc_conv conv;
    int scene_count;
    size_t weights, bias;
    struct {
        int64_t rows;
        size_t coords, in, reference, tolerance;
    } scenes[SPC__SCENES_MAX];
    size_t bytes;
};

static const char magic[16] = "spctune subject";

/* ---- layout -------------------------------------------------------------- */

static size_t reserve(size_t *end, size_t bytes)
{
    size_t at = (*end + 63) / 64 * 64;

    *end = at + bytes;
    return at;
}

static size_t weight_count(const spc_conv *conv)
{
    return (size_t)spc__conv_offsets(conv) * (size_t)conv->cin *
           (size_t)conv->cout;
}

static void lay_out(struct header *header, const spc_conv *conv,
                    const spc_scene *const *scenes, int scene_count)
{
    size_t element = spc__conv_element_bytes(conv);
    size_t end = sizeof(*header);

    memset(header, 0, sizeof(*header));
    memcpy(header->magic, magic, sizeof(magic));
    header->conv = *conv;
    header->scene_count = scene_count;
    header->weights = reserve(&end, weight_count(conv) * element);
    header->bias = reserve(&end, (size_t)conv->cout * sizeof(float));
    for (int s = 0; s < scene_count; s++) {
        size_t rows = (size_t)spc_scene_rows(scenes[s]);
        size_t out = rows * (size_t)conv->cout;
        header->scenes[s].rows = (int64_t)rows;
        header->scenes[s].coords = reserve(&end, rows * 4 * sizeof(int32_t));
        header->scenes[s].in =
            reserve(&end, rows * (size_t)conv->cin * element);
        header->scenes[s].reference = reserve(&end, out * sizeof(double));
        header->scenes[s].tolerance = reserve(&end, out * sizeof(float));
    }
    header->bytes = end;
}

static void point_at(spc__subject *out, const struct header *header)
{
    const char *base = out->memory;

    out->conv = header->conv;
    out->weights = base + header->weights;
    out->bias = header->conv.bias ? (const float *)(base + header->bias) : NULL;
    out->scene_count = header->scene_count;
    for (int s = 0; s < header->scene_count; s++) {
        spc__subject_scene *scene = &out->scenes[s];
        scene->rows = header->scenes[s].rows;
        scene->coords = (const int32_t *)(base + header->scenes[s].coords);
        scene->in = base + header->scenes[s].in;
        scene->reference = (const double *)(base + header->scenes[s].reference);
        scene->tolerance = (const float *)(base + header->scenes[s].tolerance);
    }
}

static spc_status map_block(spc__subject *out, size_t bytes, int protection,
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

/* ---- data ---------------------------------------------------------------- */

static spc_status fill_scene(spc__subject *subject, int s,
                             const spc_scene *scene, const int32_t *index,
                             const float *weights, spc__random *random,
                             int threads, const volatile int *cancel,
                             spc_error *error)
{
    const spc__subject_scene *data = &subject->scenes[s];
    const spc_conv *conv = &subject->conv;
    size_t inputs = (size_t)data->rows * (size_t)conv->cin;
    float *in = malloc(inputs * sizeof(float) + 1);

    if (in == NULL)
        return spc__fail_memory(error, inputs * sizeof(float));
    memcpy((void *)data->coords, spc_scene_coords(scene),
           (size_t)data->rows * 4 * sizeof(int32_t));
    spc__draw((void *)data->in, in, inputs, conv->dtype, random);
    spc_status status = spc__expect(
        (double *)data->reference, (float *)data->tolerance, conv, index,
        data->rows, in, weights, subject->bias, threads, cancel, error);
    free(in);
    return status;
}

static spc_status fill(spc__subject *subject, const spc_scene *const *scenes,
                       const int32_t *const *index, uint64_t seed, int threads,
                       const volatile int *cancel, spc_error *error)
{
    const spc_conv *conv = &subject->conv;
    float *weights = malloc(weight_count(conv) * sizeof(float));
    spc__random random;
    spc_status status = SPC_OK;

    if (weights == NULL)
        return spc__fail_memory(error, weight_count(conv) * sizeof(float));
    spc__random_init(&random, seed);
    spc__draw((void *)subject->weights, weights, weight_count(conv),
              conv->dtype, &random);
    if (subject->bias != NULL)
        spc__draw_bias((float *)subject->bias, conv->cout, &random);
    for (int s = 0; s < subject->scene_count && status == SPC_OK; s++)
        status = fill_scene(subject, s, scenes[s], index[s], weights, &random,
                            threads, cancel, error);
    free(weights);
    return status;
}

/* ---- life ---------------------------------------------------------------- */

spc_status spc__subject_init(spc__subject *out, const spc_conv *conv,
                             const spc_scene *const *scenes, int scene_count,
                             const int32_t *const *index, uint64_t seed,
                             int threads, const volatile int *cancel,
                             spc_error *error)
{
    struct header header;
    spc_status status;

    memset(out, 0, sizeof(*out));
    lay_out(&header, conv, scenes, scene_count);
    out->fd = memfd_create("spctune-subject", MFD_CLOEXEC);
    if (out->fd < 0 || ftruncate(out->fd, (off_t)header.bytes) != 0)
        return spc__fail(error, SPC_ENOMEM,
                         "cannot reserve %zu bytes of sample data: %s",
                         header.bytes, strerror(errno));
    if ((status = map_block(out, header.bytes, PROT_READ | PROT_WRITE,
                            error)) != SPC_OK)
        return status;
    memcpy(out->memory, &header, sizeof(header));
    point_at(out, &header);
    return fill(out, scenes, index, seed, threads, cancel, error);
}

spc_status spc__subject_attach(spc__subject *out, int fd, spc_error *error)
{
    struct header header;
    struct stat file;
    spc_status status;

    memset(out, 0, sizeof(*out));
    out->fd = fd;
    if (fstat(fd, &file) != 0 ||
        pread(fd, &header, sizeof(header), 0) != (ssize_t)sizeof(header) ||
        memcmp(header.magic, magic, sizeof(magic)) != 0 ||
        header.bytes != (size_t)file.st_size)
        return spc__fail(error, SPC_ESTATE,
                         "descriptor %d holds no sample data: a worker is "
                         "started by a tuner, not by hand",
                         fd);
    if ((status = map_block(out, header.bytes, PROT_READ, error)) != SPC_OK)
        return status;
    point_at(out, &header);
    return SPC_OK;
}

void spc__subject_release(spc__subject *subject)
{
    if (subject->memory != NULL)
        munmap(subject->memory, subject->bytes);
    if (subject->fd > 0)
        close(subject->fd);
    memset(subject, 0, sizeof(*subject));
}

/* ---- judging ------------------------------------------------------------- */

size_t spc__subject_element_bytes(const spc__subject *subject)
{
    return spc__conv_element_bytes(&subject->conv);
}

spc__worst spc__subject_compare(const spc__subject *subject, int s,
                                const void *out)
{
    const spc__subject_scene *scene = &subject->scenes[s];

    return spc__compare(out, &subject->conv, scene->rows, scene->reference,
                        scene->tolerance);
}
