/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net_ranges.c - the largest magnitude of each tensor in a network's run, for
 * quantisation.
 */
#include "base/sized.h"
#include "net/net_plan.h"
#include "spc/lab.h"

#include "base/dtype.h"
#include "base/error.h"
#include "context/ctx.h"
#include <math.h>
#include <stdlib.h>

/* Rows of a tensor with gaps between them. */
static void widen(float *range, const float *values, int64_t rows,
                  int64_t columns, int64_t pitch)
{
    for (int64_t row = 0; row < rows; row++)
        for (int64_t c = 0; c < columns; c++) {
            float size = fabsf(values[row * pitch + c]);
            if (size > *range && !isinf(size))
                *range = size;
        }
}

/* Fetches a tensor and widens its range by it. */
static spc_status look(float *range, const spc_net_plan *plan,
                       const spc_net_buffers *buffers, int tensor)
{
    const spc__net_tensor *t = &plan->net->tensors[tensor];
    const spc__net_position *position = &plan->positions[tensor];
    const spc__dtype *type = spc__dtype_of(t->dtype);
    int64_t rows = spc_coords_rows(plan->sets[t->set]);
    size_t count =
        rows > 0 ? (size_t)((rows - 1) * position->pitch + t->elements) : 0;
    char *stored = malloc(count * type->bytes + 1);
    float *values = malloc((count + 1) * sizeof(*values));
    spc_status status = SPC_OK;

    if (stored == NULL || values == NULL)
        status = spc__fail_memory(spc__error_of(plan->ctx), count * 4);
    else
        status = spc_memory_download(stored, plan->ctx,
                                     spc__net_data(plan, buffers, tensor),
                                     count * type->bytes);
    if (status == SPC_OK) {
        type->decode(values, stored, count);
        widen(range, values, rows, t->elements, position->pitch);
    }
    free(stored);
    free(values);
    return status;
}

spc_status spc_net_plan_widen_ranges(float *ranges, spc_net_plan *plan,
                                     const spc_net_buffers *buffers)
{
    spc_error *error = plan != NULL ? spc__error_of(plan->ctx) : NULL;
    spc_status status = spc__need(error, __func__, "ranges", ranges, "plan",
                                  plan, "buffers", buffers, NULL);

    if (status != SPC_OK)
        return status;
    if (!plan->options.keep || !plan->checked)
        return spc__fail(error, SPC_ESTATE,
                         plan->checked ? "the network was planned without "
                                         "`keep`: its tensors are gone"
                                       : "there is no run that was checked");
    if ((status = SPC__TAKE(spc_net_buffers, buffers, error)) == SPC_OK)
        status = spc__net_check_buffers(plan, buffers, error);
    for (int t = 0; t < plan->net->tensor_count && status == SPC_OK; t++)
        if (plan->positions[t].piece >= 0 && !plan->net->tensors[t].dense &&
            !plan->net->tensors[t].index)
            status = look(&ranges[t], plan, buffers, t);
    return status;
}
