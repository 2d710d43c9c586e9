/* SPDX-License-Identifier: Apache-2.0 */
/* odd.c - the effect of infinities and NaN on sums. */
#include "lab/sample/odd.h"

#include "operators/conv.h"
#include "operators/epilogue.h"
#include <math.h>
#include <string.h>

/* Marks one row in ROWS_APART, and the residuals of one in RESIDUALS_APART. */
enum { ROWS_APART = 97, FIRST_ROW = 5, RESIDUALS_APART = 61 };

bool spc__odd_is_for(const spc_conv *conv)
{
    return !spc__conv_in_is_whole(conv) && !spc__conv_out_is_whole(conv) &&
           conv->pass != SPC_WGRAD;
}

bool spc__odd_marks(int64_t row, int64_t rows)
{
    return row == 0 || row == rows - 1 || row % ROWS_APART == FIRST_ROW;
}

float spc__odd_infinite(const spc_conv *conv, int64_t row, int64_t rows,
                        int column)
{
    if (!spc__odd_marks(row, rows) ||
        (conv->groups == 1 && column != row % conv->cin))
        return 0;
    return row % 2 ? -INFINITY : INFINITY;
}

/* The weights of a DGRAD have the order of its layer's. */
int64_t spc__odd_weight(const spc_conv *conv)
{
    int64_t of_channel =
        (int64_t)spc__conv_offsets(conv) * spc__conv_group_in(conv);

    if (conv->pass == SPC_DGRAD)
        return -1;
    return (conv->cout - 1) * of_channel + of_channel / 3;
}

int spc__odd_bias(const spc_conv *conv)
{
    return conv->bias ? 0 : -1;
}

int spc__odd_scale(const spc_conv *conv)
{
    return conv->scale ? conv->cout / 2 : -1;
}

bool spc__odd_residual(const spc_conv *conv, int64_t row, int column)
{
    return conv->add != SPC_ADD_NONE && row % RESIDUALS_APART == 1 &&
           column == row % conv->cout;
}

/* ---- one element --------------------------------------------------------- */

typedef struct element {
    const spc_conv *conv;
    const spc_relation *relation;
    int64_t row;
    int column;
} element;

/* Returns the input and the offset of slot s; false if the slot is empty. */
static bool seen_at(const element *e, int s, int64_t *from, int64_t *k)
{
    const spc_relation *r = e->relation;
    int64_t at = s * r->rows_out + e->row;

    *from = r->index[at];
    *k = r->cells != NULL ? r->cells[at] : s;
    return *from >= 0;
}

static unsigned char of_inputs(const element *e)
{
    int64_t from, k;

    for (int s = 0; s < e->relation->slots; s++)
        if (seen_at(e, s, &from, &k) &&
            spc__odd_marks(from, e->relation->rows_in))
            return SPC__ODD_NONE;
    return SPC__ODD_RIGHT;
}

/* Returns the sum of products with infinities: 0, an infinity, or NaN. */
static float infinite_sum(const element *e, const float *weights)
{
    const spc_conv *conv = e->conv;
    int in = spc__conv_group_in(conv);
    int first = e->column / spc__conv_group_out(conv) * in;
    int64_t offsets = spc__conv_offsets(conv), from, k;
    float sum = 0;

    for (int s = 0; s < e->relation->slots; s++) {
        if (!seen_at(e, s, &from, &k))
            continue;
        const float *w = weights + (e->column * offsets + k) * in;
        for (int ci = 0; ci < in; ci++) {
            float x =
                spc__odd_infinite(conv, from, e->relation->rows_in, first + ci);
            if (x != 0)
                sum += x * w[ci];
        }
    }
    return sum;
}

/* An infinite input gives an infinity, or NaN if both signs meet. */
static unsigned char of_infinities(const element *e, const float *weights,
                                   const float *scale)
{
    float sum = infinite_sum(e, weights);

    if (scale != NULL)
        sum *= scale[e->column];
    if (isnan(sum))
        return SPC__ODD_NONE;
    return sum > 0 ? SPC__ODD_PLUS : sum < 0 ? SPC__ODD_MINUS : SPC__ODD_RIGHT;
}

static bool sees_offset(const element *e, int64_t wanted)
{
    int64_t from, k;

    for (int s = 0; s < e->relation->slots; s++)
        if (seen_at(e, s, &from, &k) && k == wanted)
            return true;
    return false;
}

/* A weight that is NaN reaches the outputs that see its offset. Others may get
 * NaN from a product with zero, which kernels may skip or not. */
static unsigned char of_others(const element *e)
{
    const spc_conv *conv = e->conv;
    int64_t weight = spc__odd_weight(conv), in = spc__conv_group_in(conv);
    int64_t offsets = spc__conv_offsets(conv);

    if (e->column == spc__odd_bias(conv) || e->column == spc__odd_scale(conv) ||
        spc__odd_residual(conv, e->row, e->column))
        return SPC__ODD_NONE;
    if (weight < 0 || weight / in / offsets != e->column)
        return SPC__ODD_RIGHT;
    return sees_offset(e, weight / in % offsets) ? SPC__ODD_NONE
                                                 : SPC__ODD_RIGHT_OR_NONE;
}

/* ---- expectations -------------------------------------------------------- */

void spc__odd_expect(unsigned char *out, const spc_conv *conv, spc__odd odd,
                     const spc_relation *relation, const float *weights,
                     const float *scale)
{
    element e = {conv, relation, 0, 0};

    for (e.row = 0; e.row < relation->rows_out; e.row++)
        for (e.column = 0; e.column < conv->cout; e.column++) {
            unsigned char must = odd == SPC__ODD_INPUTS ? of_inputs(&e)
                                 : odd == SPC__ODD_INFINITE
                                     ? of_infinities(&e, weights, scale)
                                     : of_others(&e);
            if (must != SPC__ODD_RIGHT && conv->activation != SPC_ACT_NONE)
                must = SPC__ODD_ANY;
            *out++ = must;
        }
}
