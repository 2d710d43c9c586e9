/*
 * large.h - scenes with more rows, or denser, than those that a candidate was
 * verified on, of whose result some rows are known.
 */
#ifndef SPC_LAB_LARGE_H
#define SPC_LAB_LARGE_H

#include "lab/sample/bed.h"

/* Rows that are compared with the oracle, about; and of inputs, which repeat.
 */
enum { SPC__LARGE_ROWS = 384, SPC__LARGE_PATTERN = 1021 };

struct spc__large {
    bool is_there; /* there are time and memory for it */
    spc_map *map;  /* NULL: a linear layer needs none */
    int64_t rows_in, rows_out;
    spc__guarded in, residual, out, workspace;
    int64_t at[SPC__LARGE_ROWS]; /* those rows, ascending */
    int64_t count;
    /* [count] rows as they lie on a device; all of a gradient of weights. */
    void *got, *exact;
    float *slack; /* as in spc__sample_scene */
};

/* The bed's scene of a kind, made when it is first asked for. Where that fails,
 * as memory is short, or a processor has no time for it, the log says so and it
 * is not there: that is no candidate's fault. */
spc_status spc__bed_large(spc__large **out, spc__bed *bed, int kind);
void spc__large_free(spc__large *large, const spc__bed *bed);

/* So many rows on the device, those of a pattern by turns. */
spc_status spc__large_upload(spc__guarded *to, spc__bed *bed, spc_operand which,
                             const float *pattern, int64_t rows);

/* Of a gradient of weights: its operands, and what must come out, when map and
 * chosen rows are there (large_gradient.c). */
spc_status spc__large_know_gradient(spc__large *large, spc__bed *bed,
                                    const spc_scene *scene,
                                    spc__random *random);

/* Runs a plan on it, over what is no number, with packed weights of the draw
 * COUNT; and fetches the rows to `got`. Where its layout does not fit into
 * memory, the scene is there no more. */
spc_status spc__large_run(spc__large *large, spc__bed *bed, spc_plan *plan,
                          const void *packed);

#endif
