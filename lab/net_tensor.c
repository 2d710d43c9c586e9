/* SPDX-License-Identifier: Apache-2.0 */
/* net_tensor.c - tensors of a network's last run as floats. */
#include "lab/net_tensor.h"

#include "base/dtype.h"
#include "base/error.h"
#include "context/ctx.h"
#include <stdlib.h>

bool spc__net_tensor_is_there(const spc_net_plan *plan, int tensor)
{
    return plan->positions[tensor].piece >= 0 &&
           !plan->net->tensors[tensor].index;
}

int64_t spc__net_tensor_rows(const spc_net_plan *plan, int tensor)
{
    const spc__net_tensor *t = &plan->net->tensors[tensor];
    const spc_coords *set = plan->sets[t->set];

    return t->dense ? spc_coords_batches(set) : spc_coords_rows(set);
}

/* A tensor in the device's form: its rows may be parts of wider rows. */
typedef struct stored {
    const spc__net_tensor *tensor;
    const spc__dtype *type;
    size_t rows, columns, pitch, bytes;
    void *there; /* on the device */
    char *data;
} stored;

static spc_status fetch(stored *out, const spc_net_plan *plan,
                        const spc_net_buffers *buffers, int tensor)
{
    const spc__net_tensor *t = &plan->net->tensors[tensor];

    *out = (stored){
        .tensor = t,
        .type = spc__dtype_of(t->dtype),
        .rows = (size_t)spc__net_tensor_rows(plan, tensor),
        .columns = (size_t)t->elements,
        .pitch = (size_t)plan->positions[tensor].pitch,
        .there = spc__net_data(plan, buffers, tensor),
    };
    if (out->rows > 0)
        out->bytes =
            ((out->rows - 1) * out->pitch + out->columns) * out->type->bytes;
    if ((out->data = malloc(out->bytes + 1)) == NULL)
        return spc__fail_memory(spc__error_of(plan->ctx), out->bytes);
    return spc_memory_download(out->data, plan->ctx, out->there, out->bytes);
}

static char *row_of(const stored *s, size_t row)
{
    return s->data + row * s->pitch * s->type->bytes;
}

/* The value of the number 1. */
static float step_of(const spc__net_tensor *t)
{
    return t->dtype == SPC_I8 ? t->scale : 1;
}

spc_status spc__net_tensor_read(float **out, const spc_net_plan *plan,
                                const spc_net_buffers *buffers, int tensor)
{
    stored s;
    spc_status status = fetch(&s, plan, buffers, tensor);
    size_t count = s.rows * s.columns;

    *out = malloc((count + 1) * sizeof(**out));
    if (*out == NULL)
        status = spc__fail_memory(spc__error_of(plan->ctx), count * 4);
    for (size_t row = 0; row < s.rows && status == SPC_OK; row++)
        s.type->decode(*out + row * s.columns, row_of(&s, row), s.columns);
    for (size_t i = 0; i < count && status == SPC_OK; i++)
        (*out)[i] *= step_of(s.tensor);
    free(s.data);
    return status;
}

spc_status spc__net_tensor_write(const spc_net_plan *plan,
                                 const spc_net_buffers *buffers, int tensor,
                                 const float *values)
{
    stored s;
    /* Fetched first, as other tensors may lie between the rows. */
    spc_status status = fetch(&s, plan, buffers, tensor);
    float *row_values = malloc((s.columns + 1) * sizeof(*row_values));

    if (row_values == NULL)
        status = spc__fail_memory(spc__error_of(plan->ctx), s.columns * 4);
    for (size_t row = 0; row < s.rows && status == SPC_OK; row++) {
        for (size_t c = 0; c < s.columns; c++)
            row_values[c] = values[row * s.columns + c] / step_of(s.tensor);
        s.type->encode(row_of(&s, row), row_values, s.columns);
    }
    if (status == SPC_OK)
        status = spc_memory_upload(s.there, plan->ctx, s.data, s.bytes);
    free(row_values);
    free(s.data);
    return status;
}

spc_status spc__net_tensor_round(float *values, size_t count,
                                 const spc__net_tensor *tensor,
                                 spc_error *error)
{
    const spc__dtype *type = spc__dtype_of(tensor->dtype);
    void *numbers = malloc(count * type->bytes + 1);

    if (numbers == NULL)
        return spc__fail_memory(error, count * type->bytes);
    for (size_t i = 0; i < count; i++)
        values[i] /= step_of(tensor);
    type->encode(numbers, values, count);
    type->decode(values, numbers, count);
    for (size_t i = 0; i < count; i++)
        values[i] *= step_of(tensor);
    free(numbers);
    return SPC_OK;
}

spc_status spc__net_need_tensors(const spc_net_plan *plan)
{
    if (plan->options.keep && plan->checked)
        return SPC_OK;
    return spc__fail(spc__error_of(plan->ctx), SPC_ESTATE,
                     plan->checked ? "the network was planned without `keep`: "
                                     "its tensors are gone"
                                   : "there is no run that was checked");
}
