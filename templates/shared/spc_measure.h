/*
 * spc_measure.h - the arguments of the kernels of role "measure"; shared by
 * their templates and the runtime. Needs no include, as spc_abi.h.
 *
 *   spc_empty      nothing: what a launch costs
 *   spc_read, spc_read2, spc_write, spc_copy
 *                  `items` vectors of 16 bytes: reads them from `from` (in two
 *                  ways), writes them to `to`, or both
 *   spc_gather8, spc_gather16
 *                  `items` rows of `1 << row_shift` vectors of 8 or 16 bytes
 *                  out of a table of as many rows at `from`
 *   spc_f16_*, spc_tf32_*, spc_f32_fma
 *                  multiplies in registers, each in another shape
 *
 * Where the order matters it is the addresses' own, or with `scattered` one
 * that no cache near a multiprocessor can make use of. Every kernel does its
 * work `repeat` times and writes to work[block] what the block did: bytes read
 * and written, or operations; the runtime need not know how a kernel shares it
 * out. Items are a power of two. `to` receives what depends on all of the work
 * in a case that does not arise: no compiler may leave any of it out.
 */
#ifndef SPC_MEASURE_H
#define SPC_MEASURE_H

typedef struct spc_measure_args {
    const void *from;
    void *to;
    long long *work;
    long long items;
    int row_shift;
    int scattered;
    int repeat;
    int blocks;
    int zero; /* 0: operands that the compiler does not know */
} spc_measure_args;

#endif
