/* SPDX-License-Identifier: Apache-2.0 */
/* exact.c - the convolution by its definition, in fp32. */
#include "lab/oracle/exact.h"

#include "base/cancel.h"
#include "base/error.h"
#include "base/parallel.h"
#include "context/ctx.h"
#include "lab/oracle/panels.h"
#include <stdlib.h>
#include <string.h>

/*
 * Every machine has registers of four floats; four registers fill its pipeline.
 */
typedef float quad __attribute__((vector_size(16)));

enum { LANES = 16, TILE = 64 };

typedef struct layer_sums {
    spc__panels panels;
    float *out;
    float *blocked; /* weights in panels */
} layer_sums;

/* The weights of one offset, in panels padded with zeros. */
static void block_weights(void *payload, int64_t k)
{
    const layer_sums *p = payload;
    float *to = p->blocked + spc__panel_at(&p->panels, k, 0);

    for (int panel = 0; panel < p->panels.panels; panel++)
        for (int ci = 0; ci < p->panels.cin; ci++)
            for (int lane = 0; lane < LANES; lane++)
                *to++ = spc__panel_weight(&p->panels, k, panel, ci, lane);
}

/* Adds the products of one input row to a panel of channels. Uses four vectors,
 * so that the additions of one need not wait for those of another. The order
 * does not matter, since all sums are exact. */
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

/* Adds one pair to all channels of its output row. */
static void add_pair(const layer_sums *to, int64_t row, int64_t k,
                     int64_t source)
{
    const spc__panels *p = &to->panels;

    for (int panel = 0; panel < p->panels; panel++) {
        int first = spc__panel_first(p, panel);
        size_t bytes = (size_t)spc__panel_lanes(p, panel) * sizeof(float);
        float *out = to->out + row * p->cout + first;
        float sum[LANES] = {0};
        memcpy(sum, out, bytes);
        add_panel(sum, to->blocked + spc__panel_at(p, k, panel),
                  spc__panel_in(p, source, first), p->cin);
        memcpy(out, sum, bytes);
    }
}

/*
 * Processes a few rows offset by offset, so that the weights stay in the cache.
 */
static void run_tile(void *payload, int64_t tile)
{
    const layer_sums *to = payload;
    const spc__panels *p = &to->panels;
    int64_t first = tile * TILE;
    int64_t last = first + TILE < p->rows ? first + TILE : p->rows;

    for (int64_t row = first; row < last; row++)
        for (int co = 0; co < p->cout; co++)
            to->out[row * p->cout + co] = p->bias != NULL ? p->bias[co] : 0;
    for (int64_t s = 0; s < p->seen->slots && !spc__cancelled(p->cancel); s++)
        for (int64_t row = first; row < last; row++) {
            int32_t source = p->seen->index[s * p->rows + row];
            if (source >= 0)
                add_pair(to, row, spc__panel_cell(p, s, row), source);
        }
}

spc_status spc__oracle_exact(float *out, const spc_conv *conv,
                             const spc__seen *seen, int64_t rows,
                             const float *in, const float *weights,
                             const float *bias, int threads,
                             const volatile int *cancel, spc_error *error)
{
    layer_sums p = {spc__panels_of(conv, LANES), out, NULL};
    size_t bytes = spc__panels_weights(&p.panels) * sizeof(float);

    spc__panels_read(&p.panels, conv, seen, rows, in, weights, bias);
    p.panels.cancel = cancel;
    if ((p.blocked = aligned_alloc(64, bytes)) == NULL)
        return spc__fail_memory(error, bytes);
    spc__parallel_for(p.panels.offsets, threads, block_weights, &p);
    spc__parallel_for((rows + TILE - 1) / TILE, threads, run_tile, &p);
    free(p.blocked);
    return spc__cancelled(cancel) ? spc__interrupted(error) : SPC_OK;
}
