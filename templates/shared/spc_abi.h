/*
 * spc_abi.h - the argument structs that kernels and runtime share.
 *
 * Plain C99, included by rendered CUDA, by rendered C and by the runtime. It
 * includes nothing itself, so NVRTC needs no include path.
 */
#ifndef SPC_ABI_H
#define SPC_ABI_H

typedef unsigned long long spc_u64;

/* Rows of a map, and its arrays, are padded to a multiple of this number, which
 * every tile size divides: 1, 2, 3 or 4 times 64, and powers of two to 256. */
#define SPC_ROW_PAD 768

/*
 * The kernel map as kernels read it: a relation of input rows and output rows.
 * Position p in [0, rows_padded) is an output row in the map's row order.
 *
 *   index[k * rows_padded + p]  input row of offset k, or -1
 *   order[p]                    output row, or -1 for padding
 *   mask[w * rows_padded + p]   bit k % 32 of word k / 32: offset k is present
 *   tile_order[t]               tiles by falling cost, t in [0, tiles); -1 past
 *                               the last
 *   tile_mask[w * tiles + t]    OR of the masks of the rows of the tile that is
 *                               t-th in tile_order (not tile number t); 0 past
 *                               the last
 *   tile_begin[d]               d in [0, offsets): the first t whose tile has
 *                               at most offsets - d offsets; if none has, the
 *                               number of tiles
 *
 * The numbers of rows and tiles may be known only on the device. Kernels
 * therefore rely on the contents of the arrays and treat `rows`, `rows_in`,
 * `rows_padded` and `tiles` as capacities. Positions of a tile past the last
 * row have order -1, index -1 for all offsets and mask 0. If there are no
 * tiles, this holds for all of tile 0, because code that looks ahead past the
 * last step reads the indices of its offset 0.
 *
 * A row or a tile may have no input at all (mask 0); it is written like the
 * others. `centre` is the offset whose index equals order, or -1 if the map
 * lacks such an offset. A submanifold map has a centre unless its kernel leaves
 * out the displacement zero.
 */
typedef struct spc_map_view {
    const int *index;
    const int *order;
    const unsigned *mask;
    const int *tile_order;
    const unsigned *tile_mask;
    const int *tile_begin;
    int rows;
    int rows_padded;
    int rows_in;
    int offsets;
    int mask_words;
    int centre;
    int tile_rows;
    int tiles;
} spc_map_view;

/*
 * The pairs of a map, for kernels that work offset by offset. The pairs of
 * offset k are begin[k] <= i < begin[k + 1], by ascending key of the output.
 *
 *   in[i], out[i]  rows of the input and of the output
 *   place[i]       in [0, begin[offsets]): the pairs of one output row have
 *                  consecutive places, in the order of offsets
 *   first[row]     the place of an output row's first pair
 *
 * If a kernel writes the result of each pair to its place, the results of one
 * output row are contiguous for the code that adds them up. Entries past
 * begin[offsets], and `first` of a row that has no pair, are undefined.
 */
typedef struct spc_pairs_view {
    const int *in, *out, *place; /* [capacity] */
    const int *first;            /* [rows_padded of the map] */
    const int *begin;            /* [offsets + 1] */
    int offsets;
    int capacity;
} spc_pairs_view;

/*
 * The triplets (output, input, offset) of a map of points, grouped by output.
 * The output at position p of the map's order has the triplets first[p] <= t <
 * first[p + 1], in ascending order of the offset. An offset may occur several
 * times. Positions past the last output have no triplets.
 *
 *   list[2 t], list[2 t + 1]  row of the input, and offset
 */
typedef struct spc_triplets_view {
    const int *first; /* [rows_padded of the map + 1] */
    const int *list;  /* [capacity][2] */
    int capacity;
} spc_triplets_view;

typedef struct spc_conv_args {
    const void *in;      /* [rows_in][cin], in the problem's dtype */
    void *out;           /* [rows][cout] */
    const void *weights; /* packed by spc_pack of the same module */
    const float *bias;   /* [cout], or NULL if the problem has none */
    void *workspace;
    spc_map_view map;
    const float *scale;   /* [cout], or NULL if the problem has none */
    const void *residual; /* [rows][cout] as out, or NULL */
    spc_pairs_view pairs; /* for kernels that request it (`layout`) */
    /* The scales of tensors of integers (i8); unused for other types. */
    const float *in_scale, *out_scale, *residual_scale;
    spc_triplets_view triplets; /* likewise */
} spc_conv_args;

/*
 * Packing: weights in canonical layout, element (k, ci, co) at k * stride_k +
 * ci * stride_in + co * stride_out (in elements). ci counts within the
 * channel's group. With c = cin / groups, KRSC [cout][K][c] has stride_k = c,
 * stride_in = 1, stride_out = K * c; RSCK [K][c][cout] has stride_k = c * cout,
 * stride_in = cout, stride_out = 1. For pass=dgrad these are the layer's
 * weights with inputs and outputs exchanged. With groups, equal strides do not
 * reach them all, so co / (cout / groups) * stride_group is added.
 */
typedef struct spc_pack_args {
    const void *weights; /* in the problem's dtype */
    void *packed;
    long long stride_k;
    long long stride_in;
    long long stride_out;
    long long stride_group; /* 0 except for pass=dgrad */
} spc_pack_args;

#endif
