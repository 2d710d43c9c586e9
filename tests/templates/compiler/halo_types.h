/* halo_types.h - included by halo.cuh: headers are followed transitively. */
typedef struct halo_args {
    const float *in;
    float *out;
    int rows;
} halo_args;
