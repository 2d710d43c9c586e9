/* SPDX-License-Identifier: Apache-2.0 */
/* buffers.c - lists the arrays that a plan needs, and checks the arrays of a
 * call.
 */
#include "plan/buffers.h"

#include "base/dtype.h"
#include "base/error.h"
#include <stddef.h>
#include <stdint.h>

/* ---- what a plan needs --------------------------------------------------- */

/* By spc_operand. */
static const size_t members[SPC_OPERANDS] = {
    [SPC_OPERAND_IN] = offsetof(spc_buffers, in),
    [SPC_OPERAND_OUT] = offsetof(spc_buffers, out),
    [SPC_OPERAND_WEIGHTS] = offsetof(spc_buffers, weights),
    [SPC_OPERAND_BIAS] = offsetof(spc_buffers, bias),
    [SPC_OPERAND_SCALE] = offsetof(spc_buffers, scale),
    [SPC_OPERAND_RESIDUAL] = offsetof(spc_buffers, residual),
    [SPC_OPERAND_IN_SCALE] = offsetof(spc_buffers, in_scale),
    [SPC_OPERAND_OUT_SCALE] = offsetof(spc_buffers, out_scale),
    [SPC_OPERAND_RESIDUAL_SCALE] = offsetof(spc_buffers, residual_scale),
};

/* Describes the buffer of an operand. */
static spc__buffer buffer_of(const spc__operand *operand, size_t member)
{
    size_t element = spc__dtype_of(operand->dtype)->bytes;
    spc__buffer out = {.name = operand->name,
                       .member = member,
                       .alignment = operand->alignment,
                       .rows = operand->by,
                       .always = true};

    if (operand->by == SPC__ROWS_OWN) { /* treated as one row */
        out.width = operand->bytes;
        return out;
    }
    out.width = (size_t)operand->columns * element;
    out.pitch = (size_t)operand->pitch * element;
    return out;
}

void spc__buffers_list(spc__buffer_list *out, const spc_conv *conv,
                       const spc__launch_geometry *geometry)
{
    spc__operand operands[SPC_OPERANDS];
    spc__buffer *all = out->all;

    /* The pitch and width of a row do not depend on the number of rows, so one
     * row is enough here. */
    spc__operands(operands, conv, 1, 1);
    /* The template decides how it packs weights, so only it knows their
     * size. */
    if (!geometry->gradient)
        operands[SPC_OPERAND_WEIGHTS].bytes = geometry->packed_bytes;
    /* Written buffers come first: check_overlaps() compares each of them with
     * all that follow. */
    all[SPC__BUFFER_OUT] =
        buffer_of(&operands[SPC_OPERAND_OUT], members[SPC_OPERAND_OUT]);
    all[SPC__BUFFER_WORKSPACE] =
        (spc__buffer){.name = "workspace",
                      .member = offsetof(spc_buffers, workspace),
                      .alignment = 256};
    all[SPC__BUFFER_IN] =
        buffer_of(&operands[SPC_OPERAND_IN], members[SPC_OPERAND_IN]);
    out->count = SPC__BUFFER_IN + 1;
    for (int i = 0; i < SPC_OPERANDS; i++)
        if (i != SPC_OPERAND_OUT && i != SPC_OPERAND_IN && operands[i].present)
            all[out->count++] = buffer_of(&operands[i], members[i]);
    out->in_place = operands[SPC_OPERAND_WEIGHTS].in_place;
    /* A weight gradient is written even if there are no rows to read. */
    for (int i = 0; i < out->count && geometry->gradient; i++)
        all[i].always = false;
}

/* ---- the arrays of a call ------------------------------------------------ */

/* Memory of an array, from its first byte to its last. */
typedef struct extent {
    uintptr_t start, end;
} extent;

static const void *address_of(const spc__buffer *buffer,
                              const spc_buffers *given)
{
    return *(const void *const *)((const char *)given + buffer->member);
}

/* The bytes of a buffer that a launch may touch. */
static size_t bytes_of(const spc__buffer *buffer,
                       const spc__buffer_sizes *sizes)
{
    int64_t rows = sizes->rows[buffer->rows];

    /* The last row ends with its width, as the rest of its pitch may be another
     * slice or no memory at all. */
    return rows > 0 ? (size_t)(rows - 1) * buffer->pitch + buffer->width : 0;
}

/* Slices of one buffer interleave: one lies between the rows of the other, so
 * their address ranges intersect although they do not overlap. */
static bool interleave(const spc__buffer *a, const extent *of_a,
                       const spc__buffer *b, const extent *of_b)
{
    if (a->pitch != b->pitch || a->pitch == 0)
        return false;
    ptrdiff_t pitch = (ptrdiff_t)a->pitch;
    ptrdiff_t between = (ptrdiff_t)(of_b->start - of_a->start) % pitch;
    if (between < 0)
        between += pitch;
    /* Rows of b begin `between` bytes after those of a. They are free of a if
     * they begin after its row and end before its next one. */
    return between >= (ptrdiff_t)a->width &&
           between + (ptrdiff_t)b->width <= pitch;
}

/* Empty ranges intersect nothing. */
static bool intersect(const extent *a, const extent *b)
{
    return a->start < b->end && b->start < a->end && a->start < a->end &&
           b->start < b->end;
}

/* Refuses a written buffer that shares memory with another one. */
static spc_status check_overlaps(const spc__buffer_list *list,
                                 const extent extents[SPC_OPERANDS + 1],
                                 spc_error *error)
{
    /* Blocks run in any order: one may write while others still read. */
    for (int w = SPC__BUFFER_OUT; w <= SPC__BUFFER_WORKSPACE; w++)
        for (int i = w + 1; i < list->count; i++) {
            const extent *a = &extents[w], *b = &extents[i];
            if (!intersect(a, b) ||
                interleave(&list->all[w], a, &list->all[i], b))
                continue;
            /* A gradient may be accumulated in place. */
            if (list->in_place && a->start == b->start && a->end == b->end)
                continue;
            return spc__fail(error, SPC_EINVAL,
                             "buffers `%s` and `%s` overlap: a buffer that is "
                             "written must not overlap others",
                             list->all[w].name, list->all[i].name);
        }
    return SPC_OK;
}

/* Arrays are reported in the order of spc_operand, the workspace last. */
static spc_status refuse_one(const spc__buffer_list *list,
                             const spc__buffer_sizes *sizes,
                             const spc_buffers *given, spc_error *error)
{
    spc_status status = SPC_OK;

    for (int n = 0; n < list->count && status == SPC_OK; n++) {
        int i = n == 0                ? SPC__BUFFER_IN
                : n == 1              ? SPC__BUFFER_OUT
                : n < list->count - 1 ? n + 1
                                      : SPC__BUFFER_WORKSPACE;
        const spc__buffer *buffer = &list->all[i];
        size_t bytes = i == SPC__BUFFER_WORKSPACE ? sizes->workspace_bytes
                                                  : bytes_of(buffer, sizes);
        if (bytes > 0 || buffer->always)
            status = spc__check_buffer(buffer->name, address_of(buffer, given),
                                       buffer->alignment, error);
    }
    return status;
}

spc_status spc__buffers_check(const spc__buffer_list *list,
                              const spc__buffer_sizes *sizes,
                              const spc_buffers *given, spc_error *error)
{
    extent extents[SPC_OPERANDS + 1];
    bool bad = false;

    /* One loop without calls for the common case. Only a failure is looked at
     * again, to name it. */
    for (int i = 0; i < list->count; i++) {
        const spc__buffer *buffer = &list->all[i];
        uintptr_t start = (uintptr_t)address_of(buffer, given);
        size_t bytes = i == SPC__BUFFER_WORKSPACE ? sizes->workspace_bytes
                                                  : bytes_of(buffer, sizes);
        bad |= (bytes > 0 || buffer->always) &&
               /* Alignments are powers of two. */
               (start == 0 || (start & (buffer->alignment - 1)) != 0);
        extents[i] = (extent){start, start + bytes};
    }
    return bad ? refuse_one(list, sizes, given, error)
               : check_overlaps(list, extents, error);
}
