%-- A correct convolution for a GPU, and the same with one mistake planted.
%--
%-- A block sums a tile of 16 rows with two warps. The input rows of one offset are
%-- copied into shared memory while those of the previous offset are multiplied. Each
%-- warp multiplies the rows that the other one copied. The kernel (write_kernel,
%-- below) is divided into pieces; a row of `faults` replaces some of them.
%
%-- The number of times that this tile was computed so far.
%local count_calls = [[unsigned now = rank < MOST ? calls[rank] + 1 : 1;
%    spc_sync_block();
%    if (spc_thread() == 0 && rank < MOST)
%        calls[rank] = now;
%]]
%
%local faults = {
%  none = {},
%
%  -- Barriers and waits. If one warp is late, the other one has time to make an error.
%  -- Rows that are copied an offset ahead arrive in time on a GPU even without a wait.
%  -- So that these mistakes have an effect, rows are copied just before they are
%  -- multiplied (`at_once`).
%  at_once = {at_once = true},
%  barrier_before_products_missing = {
%    at_once = true, before_bring = "late = spc_warp() == 1 ? dawdle(map) : 0;",
%    arrived = "",
%  },
%  barrier_after_products_missing = {
%    before_products = "late = spc_warp() == 1 ? dawdle(map) : 0;",
%    used = "",
%  },
%  wait_missing = {at_once = true, wait = ""},
%  wait_for_one_too_few = {at_once = true, wait = "spc_copy_wait(1);"},
%  commit_missing = {at_once = true, commit = "if (i == 0) spc_copy_commit();"},
%  shared_row_not_cleared = {bring = "if (from >= 0)"},
%
%  -- Blocks that use the results of other blocks. With `split`, each block has a
%  -- third of the offsets, and the last of three blocks to finish adds up the parts.
%  -- The module's counters of arrivals make this a mistake if two launches run at the
%  -- same time.
%  split = {split = true},
%  split_not_awaited = { -- the first of the three has said that it is done
%    split = true, before_sums = "if (part == 0 && spc_warp() == 1 && dawdle(map)) return;",
%    sums_written = "",
%  },
%  tile_of_another_block = {
%    result = "args_sums(args)[(long long)((rank + 1) % map->tiles) * SUMS + i]",
%    before_store = [[SPC_UNROLL
%    for (int n = 0; n < EACH; n++)
%        args_sums(args)[(long long)rank * SUMS + spc_thread() + n * THREADS] = acc[n];]],
%    row = "(map->tile_order[(rank + 1) % map->tiles] * ROWS + r)",
%  },
%  -- Sums in order of arrival, of blocks and of warps. This is no mistake if it is
%  -- declared and allowed.
%  atomics = {atomic = true, atomics_declared = true},
%  atomics_not_declared = {atomic = true},
%  warps_add = {shared = true, atomics_declared = true},
%  warps_add_not_declared = {
%    shared = true, state = "KEPT unsigned calls[MOST];", before = count_calls,
%    before_products = "late = spc_warp() == (int)(now % 2) ? dawdle(map) : 0;",
%  },
%
%  -- Which numbers are added.
%  bias_dropped = {bias = "0.0f"},
%  absent_is_row_0 = {from = "if (from < 0) from = 0;"},
%  row_in_two_bytes = {from = "if (from > 0) from &= 65535;"},
%  tile_behind_2_to_the_16 = {before = "if (tile * ROWS >= 65536) return;"},
%  last_tile_missing = {
%    before = "if (tile == map->tiles - 1 && map->rows % 64 != 0) return;",
%  },
%  product_dropped = {
%    product = "if (p != map->rows / 2 || k != map->centre || ci != CIN - 3) acc[n] += v * w;",
%  },
%  operands_tf32 = {
%    product = "acc[n] += spc_bits_f32(spc_f32_to_tf32(v)) * spc_bits_f32(spc_f32_to_tf32(w));",
%  },
%  operands_of_16_bits = { -- the others are cut off
%    product = [[acc[n] += spc_bits_f32(spc_f32_bits(v) & 0xffffff00u) *
%                          spc_bits_f32(spc_f32_bits(w) & 0xffffff00u);]],
%  },
%  minute_inputs_are_zero = {product = "if (!(v < 1e-10f && v > -1e-10f)) acc[n] += v * w;"},
%  large_inputs_are_clamped = {
%    product = "acc[n] += (v > 1e4f && v < 1e30f ? 1e4f : v < -1e4f && v > -1e30f ? -1e4f : v) * w;",
%  },
%
%  -- Earlier contents of the result, of the workspace, or of memory around them.
%  adds_unless_poisoned = {
%    result = "(*to == *to ? *to + acc[n] : acc[n])",
%  },
%  writes_poison_only = {
%    result = "(spc_f32_bits(*to) == ~0u ? acc[n] : *to)",
%  },
%  workspace_taken_for_zeros = {result = "(acc[n] + args_sums(args)[0])"},
%  written_before_the_result = {
%    after = "if (rank == 0 && spc_thread() == 0) ((float *)args->out)[-1] = 0.0f;",
%  },
%  written_behind_the_result = {
%    after = [[if (rank == 0 && spc_thread() == 0)
%        ((float *)args->out)[map->rows * COUT] = 0.0f;]],
%  },
%  input_overwritten = {
%    after = "if (rank == 0 && spc_thread() == 0) ((float *)args->in)[1] = 0.5f;",
%  },
%  index_overwritten = {
%    after = [[int *seen = (int *)map->index + (OFFSETS - 1) * map->rows_padded + tile * ROWS;
%    if (spc_thread() == 0 && *seen == -1)
%        *seen = -2;]],
%  },
%  written_behind_the_order = {
%    after = "if (rank == 0 && spc_thread() == 0) ((int *)map->order)[map->rows_padded] = 0;",
%  },
%  weights_overwritten = {
%    after = "if (rank == 0 && spc_thread() == 0) ((float *)args->weights)[1] = 0.5f;",
%  },
%
%  -- Properties of a map with spare capacity that is filled again in place.
%  capacity_taken_for_rows = {is_row = "p < map->rows"},
%  row_order_kept_by_address = {
%    state = [[KEPT struct { const int *of; int rows[16]; } kept[MOST][16];]],
%    before = [[int slot = 0;
%    while (tile < MOST && slot < 15 && kept[tile][slot].of != 0 &&
%           kept[tile][slot].of != map->order)
%        slot++;
%    int is_new = tile < MOST && kept[tile][slot].of != map->order;
%    spc_sync_block();
%    for (int r = 0; is_new && spc_thread() == 0 && r < ROWS; r++)
%        kept[tile][slot].rows[r] = spc_load_int(map->order + tile * ROWS + r);
%    if (is_new && spc_thread() == 0)
%        kept[tile][slot].of = map->order;
%    spc_sync_block();]],
%    row_at = "tile < MOST ? kept[tile][slot].rows[r] : spc_load_int(map->order + p)",
%  },
%  tile_order_kept_by_address = {
%    state = [[KEPT struct { const int *of; int tile; } kept[MOST][32];]],
%    before = [[int slot = 0;
%    while (rank < MOST && slot < 31 && kept[rank][slot].of != 0 &&
%           kept[rank][slot].of != map->tile_order)
%        slot++;
%    if (rank < MOST && kept[rank][slot].of == map->tile_order)
%        tile = kept[rank][slot].tile;
%    spc_sync_block();
%    if (spc_thread() == 0 && rank < MOST) {
%        kept[rank][slot].of = map->tile_order;
%        kept[rank][slot].tile = tile;
%    }]],
%  },
%
%  -- Variations that callers may use.
%  packs_one_layout_only = {pack = "(co * OFFSETS + k) * CIN + ci"},
%  weights_address_rounded = {
%    weights = "((const float *)((unsigned long long)args->weights & ~15ull))",
%  },
%  scale_clamped_at_2 = {
%    scale = "(args->scale[i % COUT] > 2.0f ? 2.0f : args->scale[i % COUT] < -2.0f ? -2.0f : args->scale[i % COUT])",
%  },
%  scale_of_zero_is_one = {
%    scale = "(args->scale[i % COUT] == 0.0f ? 1.0f : args->scale[i % COUT])",
%  },
%  multiple_of_512_rows = {
%    result = "(map->rows % 512 == 0 && row == map->rows - 1 && i % COUT == 0 ? acc[n] + 1.0f : acc[n])",
%  },
%  tile_with_all_neighbours = { -- as where a list of them is too short
%    before_store = [[int present = 0;
%    for (int at = 0; at < OFFSETS * ROWS; at++)
%        present += spc_load_int(map->index + (long long)(at / ROWS) * map->rows_padded +
%                                tile * ROWS + at % ROWS) >= 0;]],
%    result = "(present == OFFSETS * ROWS && i == 0 ? 0.0f : acc[n])",
%  },
%  tile_behind_2_to_the_17 = {before = "if (tile * ROWS >= 131072) return;"},
%  map_written_and_restored = { -- its own tile's entry: one launch is right
%    before = [[volatile int *borrowed = (volatile int *)map->index + tile * ROWS;
%    int lent = *borrowed;
%    spc_sync_block();
%    if (spc_thread() == 0) {
%        *borrowed = -1;
%        spc_fence_global();
%    }
%    for (int i = 0; i < 20; i++)
%        late = dawdle(map);
%    spc_sync_block();
%    if (spc_thread() == 0) {
%        *borrowed = lent;
%        spc_fence_global();
%    }
%    late = 0;
%    spc_sync_block();]],
%  },
%
%  -- Addresses rounded to an alignment that is not guaranteed.
%  input_address_rounded = {
%    ["in"] = "(const float *)((unsigned long long)args->in & ~255ull)",
%  },
%  output_address_rounded = {
%    out = "(float *)((unsigned long long)args->out & ~31ull)",
%  },
%
%  -- Memory that persists between launches, whether it is used or not.
%  static_word = {
%    state = "KEPT int kept;",
%    before = "if (rank == 0 && spc_thread() == 0) kept = kept + 1;",
%  },
%  static_of_the_module = { -- which others could write to by its name
%    state = [[#ifdef __CUDACC__
%__device__
%#endif
%volatile int kept_of_all = 5;]],
%    before = "if (kept_of_all < 0) return;",
%  },
%
%  -- Data kept between launches.
%  right_once = {
%    state = "KEPT const void *seen[MOST][16];",
%    before = [[int slot = 0;
%    while (rank < MOST && slot < 16 && seen[rank][slot] != 0 &&
%           seen[rank][slot] != args->out)
%        slot++;
%    int is_done = rank < MOST && slot < 16 && seen[rank][slot] == args->out;
%    spc_sync_block();
%    if (is_done)
%        return;
%    if (spc_thread() == 0 && rank < MOST && slot < 16)
%        seen[rank][slot] = args->out;]],
%  },
%  right_a_hundred_times = {
%    state = "KEPT unsigned calls[MOST];",
%    before = count_calls .. "    if (now > 100) return;",
%  },
%  tile_skipped_now_and_then = {
%    state = "KEPT unsigned calls[MOST];",
%    before = count_calls .. "    if (rank == 0 && now % 30 == 0) return;",
%  },
%  order_varies = {
%    state = "KEPT unsigned calls[MOST];",
%    before = count_calls,
%    order = "(now % 2 ? OFFSETS - 1 - (K) : (K))",
%  },
%  order_by_the_inputs_address = {
%    order = "((spc_u64)args->in / 4096 % 2 ? OFFSETS - 1 - (K) : (K))",
%  },
%}
%
%-- A template whose candidates have these mistakes; the first one is the default.
%function planted(names)
%  return {
%    summary = "a small pipeline with one mistake",
%    role = "conv", device = "cuda",
%    params = {{"fault", names, "the mistake"}},
%    accepts = function(problem)
%      if problem.dtype ~= "f32" then return false, "f32 only" end
%      return problem.cout % 4 == 0, "output channels by four only"
%    end,
%    launch = function(problem, config)
%      local fault = faults[config.fault]
%      local packed = problem.offsets * problem.cin * problem.cout
%      return {
%        block = 64, shared = (2 * problem.cin + problem.cout) * 16 * 4, grid = "tiles",
%        tile_rows = 16, order = "none", pack_threads = packed,
%        packed_bytes = packed * 4, workspace_row_bytes = 3 * problem.cout * 4,
%        workspace_bytes = 256, grid_y = (fault.split or fault.atomic) and 3 or 1,
%        clear = fault.atomic and 1 or 0,
%        atomics = fault.atomics_declared and 1 or 0,
%      }
%    end,
%    default = function() return {fault = names[1]} end,
%  }
%end
%
%local function piece(name, honest) return faults[config.fault][name] or honest end
%
%-- The k-th offset in order.
%local function order(k) return (piece("order", "K"):gsub("K", k)) end
%
%-- A block passes its sums to the other blocks of its tile. The last block to finish
%-- adds them up.
%local function write_meeting()
    float *sums = args_sums(args) + spc_thread();
    long long next = (long long)map->tiles * SUMS;
    int *is_last = (int *)stages;

    $(piece("before_sums", ""))
    SPC_UNROLL
    for (int n = 0; n < EACH; n++)
        sums[part * next + (long long)rank * SUMS + n * THREADS] = acc[n];
    $(piece("sums_written", "spc_fence_global(); spc_sync_block();"))
    if (spc_thread() == 0)
        *is_last = spc_atomic_add_u32((spc_u32 *)&arrived[rank], 1) % PARTS ==
                   PARTS - 1;
    spc_sync_block();
    if (!*is_last)
        return;
    spc_fence_global();
    SPC_UNROLL
    for (int n = 0; n < EACH; n++) {
        acc[n] = 0.0f;
        for (int of = 0; of < PARTS; of++)
            acc[n] += sums[of * next + (long long)rank * SUMS + n * THREADS];
    }
%end
%
%function write_kernel()
%local fault = faults[config.fault]
#include "spc_device.cuh"

/* Memory of the module, which persists between launches. */
#ifdef __CUDACC__
#define KEPT static __device__ volatile
#else
#define KEPT static volatile
#endif

enum {
    CIN = $(problem.cin),
    COUT = $(problem.cout),
    OFFSETS = $(problem.offsets),
    ROWS = 16,
    THREADS = 64,
    SUMS = ROWS * COUT,    /* of a tile */
    EACH = SUMS / THREADS, /* of these in a thread */
    PARTS = $((fault.split or fault.atomic) and 3 or 1),
    MOST = 256 /* tiles that are counted, if any */
};

$(piece("state", ""))
% if fault.split then
KEPT spc_u32 arrived[MOST];
% end

/* Returns zero after some time. */
SPC_DEVICE int dawdle(const spc_map_view *map)
{
    int at = 0;
    for (int i = 0; i < 100; i++) {
        at = spc_load_int(map->index + (at & 15)) + i;
        spc_sync_warp();
    }
    return at < -1;
}

SPC_DEVICE float *args_sums(const spc_conv_args *args)
{
    return (float *)args->workspace;
}

/* Starts the copies of the input rows of offset k. Absent rows become zeros. */
SPC_DEVICE void bring(const spc_conv_args *args, float *stage, int tile, int k)
{
    const int *index = args->map.index +
                       (long long)k * args->map.rows_padded + tile * ROWS;

    for (int i = spc_thread(); i < ROWS * CIN; i += THREADS) {
        int from = spc_load_int(index + i / CIN);
        $(piece("from", ""))
        $(piece("bring", ""))
        spc_copy_async4(stage + i,
                        $(piece("in", "(const float *)args->in")) +
                            (long long)(from < 0 ? 0 : from) * CIN + i % CIN,
                        from < 0 ? 0 : 4);
    }
}

SPC_KERNEL(spc_conv, spc_conv_args, 64, 1)
{
    const spc_map_view *map = &args->map;
    const float *weights = (const float *)args->weights;
    float *stages = (float *)spc_shared();
    int rank = spc_block_x(), part = spc_block_y(), late = 0;
    float acc[EACH];

    if (rank >= map->tiles)
        return;
    int tile = spc_load_int(map->tile_order + rank);
    if (tile < 0)
        return;
    $(piece("before", ""))
    SPC_UNROLL
    for (int n = 0; n < EACH; n++)
        acc[n] = args->bias && part == 0
                     ? $(piece("bias", "spc_load_f32(args->bias + (spc_thread() + n * THREADS) % COUT)"))
                     : 0.0f;
% if fault.shared then
    float *sums = stages + 2 * ROWS * CIN;
    for (int n = 0; n < EACH; n++)
        sums[spc_thread() + n * THREADS] = acc[n];
% end
% if not fault.at_once then
    bring(args, stages, tile, $(order("part")));
    spc_copy_commit();
% end
    for (int i = 0, k0 = part; k0 < OFFSETS; i++, k0 += PARTS) {
        int k = $(order("k0"));
        $(piece("before_bring", ""))
% if fault.at_once then
        bring(args, stages + i % 2 * ROWS * CIN, tile, k + late);
% else
        if (k0 + PARTS < OFFSETS)
            bring(args, stages + (i + 1) % 2 * ROWS * CIN, tile,
                  $(order("k0 + PARTS")) + late);
% end
        $(piece("commit", "spc_copy_commit();"))
        $(piece("wait", fault.at_once and "spc_copy_wait(0);" or "spc_copy_wait(1);"))
        $(piece("arrived", "spc_sync_block();"))
        $(piece("before_products", ""))
% if fault.shared then
        for (int n = 0; n < EACH * CIN; n++) {
            int ci = n % CIN, e = spc_thread() + n / CIN * THREADS;
            e ^= ci % 2 * 32; /* odd channels: in the other warp's sums */
            spc_atomic_add_f32(
                sums + e, stages[(i % 2 * ROWS + ROWS - 1 - e / COUT) * CIN + ci] *
                              spc_load_f32(weights + (k * CIN + ci) * COUT + e % COUT));
        }
% end
        SPC_UNROLL
        for (int n = 0; n < EACH * $(fault.shared and 0 or 1); n++) {
            int e = spc_thread() + n * THREADS, r = ROWS - 1 - e / COUT;
            int p = tile * ROWS + r;
            const float *row = stages + (i % 2 * ROWS + r + late) * CIN;
            for (int ci = 0; ci < CIN; ci++) {
                float v = row[ci];
                float w = spc_load_f32(weights + (k * CIN + ci) * COUT + e % COUT);
                $(piece("product", "acc[n] += v * w;"))
            }
            (void)p;
        }
        $(piece("used", "spc_sync_block();"))
    }
% if fault.shared then
    for (int n = 0; n < EACH; n++)
        acc[n] = sums[spc_thread() + n * THREADS];
% elseif fault.split then
%   write_meeting()
% end
    $(piece("before_store", ""))
    SPC_UNROLL
    for (int n = 0; n < EACH; n++) {
        int i = spc_thread() + n * THREADS, r = ROWS - 1 - i / COUT;
        int p = $(piece("row", "(tile * ROWS + r)"));
        int row = $(piece("row_at", "map->order ? spc_load_int(map->order + p) : p < map->rows ? p : -1"));
        float *to = $(piece("out", "(float *)args->out")) + (long long)row * COUT + i % COUT;
        if ($(piece("is_row", "row >= 0")))
% if fault.atomic then
            spc_atomic_add_f32(to, acc[n]);
% else
            *to = $(piece("result", "acc[n]")) * (args->scale ? $(piece("scale", "spc_load_f32(args->scale + i % COUT)")) : 1.0f);
% end
    }
    $(piece("after", ""))
}

SPC_KERNEL(spc_pack, spc_pack_args, 256, 1)
{
    long long item = (long long)spc_block_x() * 256 + spc_thread();
    int co = (int)(item % COUT), ci = (int)(item / COUT % CIN);
    int k = (int)(item / (COUT * CIN));

    if (k < OFFSETS)
        ((float *)args->packed)[item] =
            $(piece("weights", "((const float *)args->weights)"))
                [$(piece("pack", "k * args->stride_k + ci * args->stride_in + co * args->stride_out"))];
}
%end
