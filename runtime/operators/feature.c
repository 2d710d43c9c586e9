/* SPDX-License-Identifier: Apache-2.0 */
/* feature.c - an operator on features as a value: its rules and its attrs. */
#include "operators/feature.h"

#include "base/dtype.h"
#include "base/error.h"
#include "base/sized.h"
#include "base/text/names.h"
#include "operators/conv.h"
#include "operators/epilogue.h"
#include "operators/feature_table.h"
#include "operators/pass.h"
#include <string.h>

const char *const spc__reduction_names[] = {"max", "mean", "sum", NULL};
const char *const spc__bev_order_names[] = {"zyx", "xyz", "volume", NULL};
/* For each order, the axis that becomes channels and the two axes of a
 * plane. */
const int spc__bev_axes[][3] = {{2, 1, 0}, {2, 0, 1}, {0, 1, 2}};

/* ---- rules --------------------------------------------------------------- */

spc_status spc__feature_check_range(const char *name, int64_t value,
                                    int64_t low, int64_t high, spc_error *error)
{
    if (value >= low && value <= high)
        return SPC_OK;
    return spc__fail(error, SPC_EINVAL, "%s=%lld: expected %lld to %lld", name,
                     (long long)value, (long long)low, (long long)high);
}

spc_status spc__feature_check_divisor(const char *name, int value, int channels,
                                      spc_error *error)
{
    if (value >= 1 && channels % value == 0)
        return SPC_OK;
    return spc__fail(error, SPC_EINVAL,
                     "%s=%d: expected a divisor of the %d channels", name,
                     value, channels);
}

/* Checks numbers that index tables, before any table is read. */
static spc_status check_enums(const spc_feature *f, spc_error *error)
{
    const struct {
        const char *name;
        int value, last;
    } enums[] = {
        {"operator", f->op, SPC__FEATURES - 1},
        {"reduction", f->reduction, SPC_REDUCE_SUM},
        {"activation", f->activation, SPC_ACT_ELU},
        {"order", f->order, SPC_BEV_VOLUME},
    };
    spc_status status = SPC_OK;

    for (int i = 0; i < 4 && status == SPC_OK; i++)
        status = spc__feature_check_range(enums[i].name, enums[i].value, 0,
                                          enums[i].last, error);
    if (status != SPC_OK || f->dtype == SPC_F16 || f->dtype == SPC_BF16 ||
        f->dtype == SPC_F32)
        return status;
    return spc__fail(error, SPC_EINVAL,
                     "dtype=%s: features are f16, bf16 or f32",
                     spc__name_at(spc__dtype_names, f->dtype));
}

spc_status spc_feature_check(const spc_feature *feature, spc_error *error)
{
    spc_status status = spc__need(error, __func__, "feature", feature, NULL);

    /* The operator is checked first: it is an index of the table below. */
    if (status != SPC_OK || (status = check_enums(feature, error)) != SPC_OK ||
        (status = spc__feature_check_range(
             "c", feature->channels, 1, SPC__CHANNELS_MOST, error)) != SPC_OK ||
        (status = spc__slope_check(feature->slope, error)) != SPC_OK ||
        (status = SPC__CHECK_RESERVED(spc_feature, feature, error)) != SPC_OK)
        return status;
    const spc__feature_row *row = spc__feature_row_of(feature->op);
    if (row->check != NULL)
        status = row->check(feature, error);
    return status == SPC_OK ? spc__feature_check_pass(feature, error) : status;
}

/* ---- attrs --------------------------------------------------------------- */

void spc__feature_set_activation(spc__attrs *out, const spc_feature *f)
{
    /* Gradients have no activation, and their kernels no such parameter. */
    if (f->pass == SPC_FORWARD)
        spc__attrs_set_text(out, "act", spc__activation_names[f->activation]);
}

void spc__feature_attrs(spc__attrs *out, const spc_feature *f)
{
    const spc__feature_row *row = spc__feature_row_of(f->op);

    memset(out, 0, sizeof(*out));
    spc__attrs_set_text(out, "op", row->name);
    spc__attrs_set_number(out, "channels", f->channels);
    spc__attrs_set_text(out, "dtype", spc__dtype_of(f->dtype)->name);
    if (row->attrs != NULL)
        row->attrs(out, f);
    if (f->pass != SPC_FORWARD)
        spc__attrs_set_text(out, "pass", spc__pass_names[f->pass]);
}
