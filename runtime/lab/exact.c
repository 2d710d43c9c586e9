/* exact.c - the convolution by its definition, in fp32. */
#include "exact.h"

#include "cancel.h"
#include "ctx.h"
#include "epilogue.h"
#include "error.h"
#include "parallel.h"
#include <stdlib.h>
#include <string.h>

/* Four floats are in a register of every machine; four such fill a pipeline. */
typedef float quad __attribute__((vector_size(16)));

enum { LANES = 16, TILE = 64 };

typedef struct problem {
    float *out;
    const spc__seen *seen;
    int64_t rows;
    const float *in, *weights, *bias;
    float *blocked; /* [K][panels][cin][LANES] */
    int row_in;     /* floats of an input row */
    int cin, cout;  /* inputs of a group; outputs of all */
    int group_out, group_panels;
    int offsets, panels;
    const volatile int *cancel;
} problem;

/* A group's output channels are in panels of LANES of them, of which the last
 * may be shorter: the first channel of a panel, how many it has, and the
 * inputs that they see. */
static int first_of(const problem *p, int panel)
{
    return panel / p->group_panels * p->group_out +
           panel % p->group_panels * LANES;
}

static int lanes_of(const problem *p, int panel)
{
    int left = p->group_out - panel % p->group_panels * LANES;
    return left < LANES ? left : LANES;
}

static const float *in_of(const problem *p, int64_t row, int64_t co)
{
    return p->in + row * p->row_in + co / p->group_out * p->cin;
}

/* The weights of one offset, in panels that are filled up with zeros. */
static void block_weights(void *payload, int64_t k)
{
    const problem *p = payload;
    float *to = p->blocked + k * p->panels * p->cin * LANES;

    for (int panel = 0; panel < p->panels; panel++)
        for (int ci = 0; ci < p->cin; ci++)
            for (int lane = 0; lane < LANES; lane++) {
                int64_t co = first_of(p, panel) + lane;
                *to++ = lane < lanes_of(p, panel)
                            ? p->weights[(co * p->offsets + k) * p->cin + ci]
                            : 0;
            }
}

static void add_panel(float sum[LANES], const float *weights, const float *in,
                      int cin)
{
    quad s[4];

    memcpy(s, sum, sizeof(s));
    for (int ci = 0; ci < cin; ci++) {
        const quad *w = (const quad *)(weights + (int64_t)ci * LANES);
        quad x = {in[ci], in[ci], in[ci], in[ci]};
        s[0] += w[0] * x;
        s[1] += w[1] * x;
        s[2] += w[2] * x;
        s[3] += w[3] * x;
    }
    memcpy(sum, s, sizeof(s));
}

static void add_pair(const problem *p, int64_t row, int64_t k, int64_t source)
{
    for (int panel = 0; panel < p->panels; panel++) {
        int first = first_of(p, panel), lanes = lanes_of(p, panel);
        float *out = p->out + row * p->cout + first;
        float sum[LANES] = {0};
        memcpy(sum, out, (size_t)lanes * sizeof(*sum));
        add_panel(sum, p->blocked + (k * p->panels + panel) * p->cin * LANES,
                  in_of(p, source, first), p->cin);
        memcpy(out, sum, (size_t)lanes * sizeof(*sum));
    }
}

/* Offset by offset over a few rows, so that its weights stay in the cache. */
static void run_tile(void *payload, int64_t tile)
{
    const problem *p = payload;
    int64_t first = tile * TILE;
    int64_t last = first + TILE < p->rows ? first + TILE : p->rows;

    for (int64_t row = first; row < last; row++)
        for (int co = 0; co < p->cout; co++)
            p->out[row * p->cout + co] = p->bias != NULL ? p->bias[co] : 0;
    for (int64_t s = 0; s < p->seen->slots && !spc__cancelled(p->cancel); s++)
        for (int64_t row = first; row < last; row++) {
            int64_t at = s * p->rows + row;
            if (p->seen->index[at] >= 0)
                add_pair(p, row, p->seen->cells ? p->seen->cells[at] : s,
                         p->seen->index[at]);
        }
}

spc_status spc__oracle_exact(float *out, const spc_conv *conv,
                             const spc__seen *seen, int64_t rows,
                             const float *in, const float *weights,
                             const float *bias, int threads,
                             const volatile int *cancel, spc_error *error)
{
    problem p = {
        .out = out,
        .seen = seen,
        .rows = rows,
        .in = in,
        .weights = weights,
        .bias = spc__bias_is_in_sum(conv) ? bias : NULL,
        .row_in = conv->cin,
        .cin = spc__conv_group_in(conv),
        .cout = conv->cout,
        .group_out = spc__conv_group_out(conv),
        .group_panels = (spc__conv_group_out(conv) + LANES - 1) / LANES,
        .offsets = spc__conv_offsets(conv),
        .cancel = cancel,
    };
    p.panels = conv->groups * p.group_panels;
    size_t bytes = (size_t)p.offsets * (size_t)p.panels * (size_t)p.cin *
                   LANES * sizeof(float);

    if ((p.blocked = aligned_alloc(64, bytes)) == NULL)
        return spc__fail_memory(error, bytes);
    spc__parallel_for(p.offsets, threads, block_weights, &p);
    spc__parallel_for((rows + TILE - 1) / TILE, threads, run_tile, &p);
    free(p.blocked);
    return spc__cancelled(cancel) ? spc__interrupted(error) : SPC_OK;
}
