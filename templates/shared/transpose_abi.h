/*
 * transpose_abi.h - the argument struct of the kernel that transposes the
 * gradient of weights.
 *
 * Plain C99; included by the template and by the runtime.
 */
#ifndef SPC_TRANSPOSE_ABI_H
#define SPC_TRANSPOSE_ABI_H

/* Rows and columns of the square that a block transposes. */
#define SPC_TRANSPOSE_TILE 32
#define SPC_TRANSPOSE_THREADS 256
/* One column more than a tile: the threads of a warp, which write a column,
 * then use different banks of shared memory. */
#define SPC_TRANSPOSE_PITCH (SPC_TRANSPOSE_TILE + 1)
#define SPC_TRANSPOSE_SHARED (4 * SPC_TRANSPOSE_TILE * SPC_TRANSPOSE_PITCH)

/* to[column][row] = from[row][column]; then `tail` elements that follow the
 * matrix in both arrays are copied. */
typedef struct spc_transpose_args {
    const void *from;
    void *to;
    long long rows, columns; /* of `from` */
    long long tail;
    int element_bytes; /* 2 or 4 */
} spc_transpose_args;

#endif
