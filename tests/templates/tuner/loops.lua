%-- Loops that compile quickly, for the templates of these folders.
%
%function accept_f32(problem)
%  if problem.dtype ~= "f32" then return false, "f32 only" end
%  return true
%end
%function loop_launch(problem, config)
%  return {
%    block = 1, shared = 0, grid = "tiles", tile_rows = config.tile,
%    order = "none", pack_threads = problem.offsets * problem.cin,
%    packed_bytes = problem.offsets * problem.cin * problem.cout * 4,
%  }
%end
%
%-- The fields that these templates have in common. `own` has the other fields and
%-- replacements.
%function loop_template(own)
%  own.role, own.device = "conv", "cpu"
%  own.accepts = own.accepts or accept_f32
%  own.launch = own.launch or loop_launch
%  return own
%end
%
%-- convolve(args, p): position p of the map's order, if there is a row.
%function write_loops()
enum {
    CIN = $(problem.cin),
    COUT = $(problem.cout),
    OFFSETS = $(problem.offsets),
    TILE = $(config.tile)
};

static void convolve(const spc_conv_args *args, int p)
{
    const spc_map_view *map = &args->map;
    const float *weights = (const float *)args->weights;
    long row = map->order ? map->order[p] : p < map->rows ? p : -1;

    for (int co = 0; row >= 0 && co < COUT; co++) {
        float sum = args->bias ? args->bias[co] : 0;
        for (long k = 0; k < OFFSETS; k++) {
            long from = map->index[k * map->rows_padded + p];
            for (int ci = 0; from >= 0 && ci < CIN; ci++)
                sum += ((const float *)args->in)[from * CIN + ci] *
                       weights[(k * CIN + ci) * COUT + co];
        }
        ((float *)args->out)[row * COUT + co] = sum;
    }
}

void spc_pack(const spc_pack_args *args, unsigned x, unsigned y)
{
    const float *weights = (const float *)args->weights;
    long k = x / CIN, ci = x % CIN;

    if (k >= OFFSETS)
        return;
    weights += k * args->stride_k + ci * args->stride_in;
    for (int co = 0; co < COUT; co++)
        ((float *)args->packed)[(long)x * COUT + co] =
            weights[co * args->stride_out];
}
%end
%
%-- Writes the kernel of templates that only convolve.
%function write_conv()
void spc_conv(const spc_conv_args *args, unsigned x, unsigned y)
{
    int first = args->map.tile_order[x] * TILE;

    if (first < 0)
        return;
    for (int p = first; p < first + TILE; p++)
        convolve(args, p);
}
%end
