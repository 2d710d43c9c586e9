/*
 * spc_measure.h - the arguments of the kernels of role "measure"; shared by
 * their templates and the runtime. It needs no includes, like spc_abi.h.
 *
 *   spc_empty      does nothing: the cost of a launch
 *   spc_read, spc_read2, spc_write, spc_copy
 *                  `items` vectors of 16 bytes: reads them from `from` (in two
 *                  ways), writes them to `to`, or both
 *   spc_gather8, spc_gather16
 *                  reads `items` rows of `1 << row_shift` vectors of 8 or 16
 *                  bytes from a table of as many rows at `from`
 *   spc_f16_*, spc_tf32_*, spc_f32_fma
 *                  multiplies in registers, each with another shape
 *
 * The order of accesses is that of the addresses, or with `scattered` an order
 * that caches near a multiprocessor cannot exploit. Every kernel does its work
 * `repeat` times and writes the amount of work of each block to work[block]:
 * bytes read and written, or operations. The runtime need not know how a kernel
 * divides the work. Items are a power of two. Under a condition that never
 * holds, `to` receives a value that depends on all of the work, so the compiler
 * cannot remove any of it.
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
    int zero; /* 0, but the compiler does not know it: operands */
} spc_measure_args;

#endif
