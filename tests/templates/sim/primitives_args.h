/* primitives_args.h - the arguments of the test kernels; plain C. */
#ifndef SPC_TEST_PRIMITIVES_ARGS_H
#define SPC_TEST_PRIMITIVES_ARGS_H

typedef struct primitive_args {
    const unsigned *in;
    unsigned *out;
    unsigned *flags; /* words that start as 0 */
    int n;
} primitive_args;

#endif
