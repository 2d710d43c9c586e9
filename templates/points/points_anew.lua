%-- Rows whose sums are NaN or infinite, computed again by plain multiplications. For
%-- kernels that keep sums of 64 x n in a warpgroup and weights in core matrices
%-- (points_wgmma).
%
%function write_anew()
/* ---- rows that are not finite --------------------------------------------------- */

SPC_DEVICE int is_finite(const float *acc)
{
    int finite = 1;

    SPC_UNROLL
    for (int i = 0; i < $(config.n // 2); i++)
        finite &= acc[i] - acc[i] == 0.0f;
    return finite;
}

/* Adds one input to the lane's columns of row h, one pair of channels after the
 * other. */
SPC_DEVICE void add_input(float *acc, int h, const spc_conv_args *args, int row, int k)
{
    const spc_u8 *in = (const spc_u8 *)args->in + (long long)row * $(row_pitch);

    SPC_ROLLED
    for (int byte = 0; byte < $(row_bytes); byte += 4) {
        long long image = (k * $(k_blocks) + byte / $(pieces * 64)) * $(n_blocks) + spc_block_y();
        int core = byte % $(pieces * 64) / 16;
        const spc_u8 *weights = (const spc_u8 *)args->weights + image * $(stage_size) +
                                core * $(config.n * 16) + byte % 16 + (spc_lane() & 3) * 32;
        spc_u32 x = spc_load4(in + byte);
        SPC_UNROLL
        for (int i = 0; i < $(config.n // 4); i++) {
            spc_u32 w = spc_load4(weights + i / 2 * 128 + i % 2 * 16);
            float *to = acc + i / 2 * 4 + h * 2 + i % 2;
            *to = spc_fma(spc_$(problem.dtype)_to_f32((spc_u16)x),
                          spc_$(problem.dtype)_to_f32((spc_u16)w), *to);
            *to = spc_fma(spc_$(problem.dtype)_to_f32((spc_u16)(x >> 16)),
                          spc_$(problem.dtype)_to_f32((spc_u16)(w >> 16)), *to);
        }
    }
}

/* Computes the warp's rows again; p is the lane's first position. */
SPC_DEVICE void sum_again(float *acc, const spc_conv_args *args, int p)
{
    SPC_UNROLL
    for (int i = 0; i < $(config.n // 2); i++)
        acc[i] = 0.0f;
    SPC_UNROLL
    for (int h = 0; h < 2; h++) {
        int bundle = (p + 8 * h) & ~15, own = (p + 8 * h) & 15;
        int end = spc_load_int(args->triplets.first + bundle + 16);
        SPC_ROLLED
        for (int t = spc_load_int(args->triplets.first + bundle); t < end; t++) {
            spc_b8 entry = spc_load8(args->triplets.list + 2ll * t);
            if ((int)(entry.y & 15u) == own)
                add_input(acc, h, args, (int)entry.x, (int)(entry.y >> 4));
        }
    }
}

%end
