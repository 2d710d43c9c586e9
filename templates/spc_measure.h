/*
 * spc_measure.h - what the kernels of role "measure" are told; shared by
 * their templates and the runtime. Needs no include, as spc_abi.h.
 *
 *   spc_copy       vectors of 16 bytes, `from` to `to`
 *   spc_gather     rows of `1 << row_shift` vectors from a table `from`, by the
 *                  `items` (a power of two) numbers at `rows`, `repeat` times
 *   spc_rate_f16, spc_rate_tf32, spc_rate_f32
 *                  multiplies in registers, `repeat` times
 *   spc_empty      nothing: what a launch costs
 *
 * spc_gather writes to work[block] how many bytes the block has gathered, a
 * rate kernel how many operations it did, so that the runtime need not know.
 * `to` receives what depends on all of it in a case that does not arise: no
 * compiler may leave the work out.
 */
#ifndef SPC_MEASURE_H
#define SPC_MEASURE_H

typedef struct spc_measure_args {
    const void *from;
    void *to;
    const int *rows;
    long long *work;
    long long items;
    int row_shift;
    int repeat;
    int blocks;
} spc_measure_args;

#endif
