%-- The gradient of weights over tiles of rows: for each offset k
%--
%--     dw[k]  =  sum over its pairs (i, o) of  x[i]^T dy[o]
%--
%-- A block walks tiles of `rows` output rows in the order of keys, and has the sums of
%-- many offsets in registers, a warp for each offset of a slice. Offsets of one x see
%-- neighbouring rows of x, since a shift keeps the order of keys: those rows lie together
%-- in memory. So a tile's rows of dy and the rows of x between the first and the last that
%-- its pairs see are copied once for all offsets of the slice, as far as a pair has
%-- them; each warp picks the rows of its pairs in shared memory (ldmatrix takes any eight
%-- rows). Where inputs lie so far apart that the window does not hold them (rows in
%-- no order), warps gather those of 16 pairs at a time.
%--
%-- Every block leaves its sums at a place of its own; `spc_sum` adds them in their order.
%
%include "wgrad_tiles.lua"
%
%template = {
%  summary = "tiles of rows in shared memory, sums of many offsets in registers",
%  role = "wgrad",
%  device = "cuda",
%  params = {
%    {"m", {16, 32, 64}, "input channels of a block"},
%    {"n", {16, 32, 64, 128}, "output channels of a block"},
%    {"slices", {1, 2, 3}, "slices of offsets of a block"},
%    {"rows", {64, 128}, "output rows of a tile"},
%    {"stages", {2, 3, 4}, "tiles in flight"},
%    {"blocks", {1, 2, 3}, "blocks of a multiprocessor"},
%  },
%  accepts = function(problem, target)
%    if problem.groups then return false, "needs a layer without groups" end
%    if problem.triplets then return false, "reads no triplets" end
%    if target.sm < 80 then return false, "needs sm_80" end
%    if row_alignment(problem) < 4 then return false, "needs rows of whole words" end
%    return true
%  end,
%  constraints = {
%    {"no block is mostly padding", function(problem, config)
%      return config.m <= least(problem.cin, 64) and config.n <= least(problem.cout, 128)
%    end},
%    {"there are so many slices", function(problem, config)
%      return config.slices <= slices_of(problem)
%    end},
%    {"sums and operands fit the registers", function(problem, config)
%      return registers_of(problem, config) <= registers_free(problem, config)
%    end},
%    {"blocks fit shared memory", function(problem, config, target)
%      local shared = shared_bytes(problem, config)
%      return shared <= target.shared_block
%        and (shared + 1024) * config.blocks <= (target.shared_sm or 102400)
%    end},
%  },
%  derive = function(problem, config, target)
%    local element = element_bytes(problem)
%    return {
%      warps = warps_of(problem), threads = warps_of(problem) * 32,
%      section = section_of(problem), parts = parts_of_section(problem),
%      groups = groups_of_slices(problem, config), window = window_of(problem, config),
%      tm = config.m // 16, tn = config.n // 8, size = config.m * config.n // 32,
%      element = element, half = element == 2, align = row_alignment(problem),
%      x_pitch = pitch_of(problem, config.m), y_pitch = pitch_of(problem, config.n),
%      x_pieces = config.m * element // 16, y_pieces = config.n * element // 16,
%      stage_size = stage_bytes(problem, config),
%      m_blocks = ceil_div(problem.cin, config.m), n_blocks = ceil_div(problem.cout, config.n),
%      blocks = blocks_of(problem, config), part = part_of(problem, config),
%      ways = ways_of(problem, config),
%      bits = bits_of(problem, config), turns = config.rows // 32, at = places(problem, config),
%    }
%  end,
%  launch = function(problem, config, target)
%    local part = part_of(problem, config) * 4
%    local blocks = blocks_of(problem, config)
%    return {
%      block = warps_of(problem) * 32, shared = shared_bytes(problem, config),
%      grid = "steps", gradient = 1, layout = "table", order = "none",
%      tile_rows = config.rows, pdl = target.sm >= 90 and 1 or 0,
%      blocks_per_sm = config.blocks, workspace_block_bytes = part,
%      workspace_bytes = 256 + groups_of_slices(problem, config) * blocks * part,
%      sum_block = 256, sum_shared = 4096, sum_grid_x = problem.offsets + problem.bias,
%      sum_grid_y = math.min(65535, ceil_div(blocks * config.m * config.n, 256)),
%      preference = 5,
%    }
%  end,
%  default = function(problem, target)
%    local config = {m = least(problem.cin, 64), n = least(problem.cout, 64), slices = 1,
%                    rows = 128, stages = 3, blocks = 1}
%    local function is_too_large()
%      return shared_bytes(problem, config) > target.shared_block
%    end
%    local function fits()
%      return registers_of(problem, config) + 32 <= registers_free(problem, config)
%        and not is_too_large()
%    end
%    while not fits() do
%      if is_too_large() and config.stages > 2 then config.stages = 2
%      elseif config.n > 32 then config.n = config.n // 2
%      elseif config.rows > 64 then config.rows = 64
%      elseif config.m > 16 then config.m = config.m // 2
%      elseif config.n > 16 then config.n = config.n // 2
%      else break end
%    end
%    for slices = math.min(3, slices_of(problem)), 2, -1 do
%      config.slices = slices
%      if fits() then break end
%      config.slices = 1
%    end
%    return config
%  end,
%}
#include "spc_device.cuh"

% write_split()
% write_store_sum()
/* ---- shares ------------------------------------------------------------------ */

/* So many blocks share the tiles of a group of slices, for each block of channels:
 * by the work of its offsets, of which those with the centre have most. */
SPC_DEVICE int shares_of(int group, int grid)
{
    int weight = group == $(centre_group(problem, config)) ? $(centre_weight) : $(other_weight);
    int shares = grid / $(blocks) * weight / $(weight_of_all(problem, config));

    return shares > 1 ? shares : 1;
}

/* What a block works on: item number `item` of `groups` times shares times
 * blocks of channels. */
typedef struct work {
    int group, share, shares, block;
} work;

/* False past the last item. */
SPC_DEVICE int find_work(work *w, int item, int grid)
{
    for (w->group = 0; w->group < $(groups); w->group++) {
        w->shares = shares_of(w->group, grid);
        if (item < w->shares * $(blocks)) {
            w->share = item / $(blocks);
            w->block = item % $(blocks);
            return 1;
        }
        item -= w->shares * $(blocks);
    }
    return 0;
}

/* The sums that an item leaves: [slice][warp][piece of 4][lane][4]. */
SPC_DEVICE float *sums_of(const spc_conv_args *args, int item)
{
    return (float *)((spc_u8 *)args->workspace + 256) + (long long)item * $(part);
}

/* ---- row numbers --------------------------------------------------------------- */

/* What a block knows of a step, a tile and a slice of offsets: in shared memory. */
typedef struct notes {
    int first, last;        /* rows of x that its pairs see; none: first > last */
    spc_u32 in[$(bits // 32)];   /* row r is one of them: bit r, modulo $(bits) */
    spc_u32 out[$(turns)];       /* the tile's row r has a pair */
    int row[$(config.rows)];     /* of dy */
} notes;

typedef char notes_fit[sizeof(notes) <= $(note_bytes(problem, config)) ? 1 : -1];

/* The pairs of a warp in a step. */
typedef struct pair_list {
    int in[$(config.rows)];  /* row of x */
    int out[$(config.rows)]; /* row of the tile; both: -1, zeroes */
    int count, pad[3];
} pair_list;

SPC_DEVICE notes *notes_at(int slot)
{
    return (notes *)(spc_shared() + $(at.notes) + slot * $(note_bytes(problem, config)));
}

SPC_DEVICE pair_list *list_at(int stage)
{
    return (pair_list *)(spc_shared() + $(at.lists)) + stage * $(warps) + spc_warp();
}

SPC_DEVICE void clear_notes(notes *n)
{
    for (int i = spc_thread(); i < $(bits // 32 + turns); i += $(threads)) {
        if (i < $(bits // 32))
            n->in[i] = 0;
        else
            n->out[i - $(bits // 32)] = 0;
    }
    if (spc_thread() == 0) {
        n->first = 0x7fffffff;
        n->last = -1;
    }
}

/* Steps in the order of their numbers: tile by tile, in each its slices. */
typedef struct feed {
    int tile, ahead;      /* whose numbers are loaded next, and the one after; or -1 */
    int next;             /* in tile_order: the one after that */
    int slice$(problem.bias == 1 and ", was" or "");$(problem.bias == 1 and " /* was: of the numbers below */" or "")
    int in[$(turns)];     /* numbers of the step after the one that is scanned */
    int out[$(out_turns(problem, config))];
} feed;

SPC_DEVICE int tile_of(const spc_conv_args *args, int t)
{
    return t < args->map.tiles ? spc_load_int(args->map.tile_order + t) : -1;
}

/* The offset of this warp in a slice, or -1. */
SPC_DEVICE int offset_of(int slice)
{
    int in = slice % $(parts) * $(warps) + spc_warp();
    int k = slice / $(parts) * $(section) + in;

    return in < $(section) && k < $(problem.offsets) ? k : -1;
}

% if problem.bias == 1 then
/* Is this a step whose rows of dy are added to the gradient of the bias? */
SPC_DEVICE int has_bias(const work *w, int slice)
{
    return w->group == 0 && slice == 0 && w->block < $(n_blocks);
}

% end
/* Loads the numbers of one more step; returns 0 if there is none. */
SPC_DEVICE int fetch(feed *f, const work *w, const spc_conv_args *args)
{
    int there = f->tile >= 0, k = offset_of(w->group * $(config.slices) + f->slice);
    const int *order = args->map.order + (there ? f->tile : 0) * $(config.rows);
    const int *index = args->map.index + (long long)(k >= 0 ? k : 0) * args->map.rows_padded +
                       (there ? f->tile : 0) * $(config.rows);

    SPC_UNROLL
    for (int i = 0; i < $(turns); i++)
        f->in[i] = there && k >= 0 ? spc_load_int(index + i * 32 + spc_lane()) : -1;
    SPC_UNROLL
    for (int i = 0; i < $(out_turns(problem, config)); i++) {
        int turn = spc_warp() + i * $(warps);
        f->out[i] = there && turn < $(turns) ? spc_load_int(order + turn * 32 + spc_lane()) : -1;
    }
% if problem.bias == 1 then
    f->was = there ? f->slice : -1;
% end
    if (++f->slice == $(config.slices)) {
        f->slice = 0;
        f->tile = f->ahead;
        f->ahead = tile_of(args, f->next);
        f->next += w->shares;
    }
    return there;
}

/* Lists the warp's pairs of the step whose numbers were loaded, one after the other,
 * and notes what rows it needs: of dy perhaps `all`. */
SPC_DEVICE void scan(notes *n, pair_list *list, const feed *f, int all)
{
    spc_u32 first = ~0u, not_last = ~0u;
    int count = 0;

    spc_sync_warp(); /* all have left the list */
    SPC_UNROLL
    for (int i = 0; i < $(turns); i++) {
        spc_u32 row = (spc_u32)f->in[i];
        spc_u32 votes = spc_ballot(f->in[i] >= 0);
        int at = count + spc_popc(votes & ((1u << spc_lane()) - 1u));
        if (f->in[i] >= 0) {
            list->in[at] = f->in[i];
            list->out[at] = i * 32 + spc_lane();
            first = row < first ? row : first;
            not_last = ~row < not_last ? ~row : not_last;
            spc_atomic_or(n->in + row / 32 % $(bits // 32), 1u << row % 32);
        }
        if (spc_lane() == 0 && (votes || all))
            spc_atomic_or(n->out + i, all ? ~0u : votes);
        count += spc_popc(votes);
    }
    if (spc_lane() < (-count & 15))
        list->in[count + spc_lane()] = list->out[count + spc_lane()] = -1;
    first = spc_warp_min(first);
    not_last = spc_warp_min(not_last);
    if (spc_lane() == 0) {
        list->count = count;
        spc_atomic_min(&n->first, (int)(first & 0x7fffffffu));
        spc_atomic_max(&n->last, count ? (int)~not_last : -1);
    }
    SPC_UNROLL
    for (int i = 0; i < $(out_turns(problem, config)); i++) {
        int turn = spc_warp() + i * $(warps);
        if (turn < $(turns))
            n->row[turn * 32 + spc_lane()] = f->out[i];
    }
    spc_sync_warp();
}

/* Are the rows of x of a step too far apart for the window? */
SPC_DEVICE int is_far(const notes *n)
{
    return n->last >= n->first && n->last - n->first >= $(window);
}

/* ---- rows ---------------------------------------------------------------------- */

% write_copy_piece()
SPC_DEVICE void copy_in(spc_u8 *to, int row, int piece, const work *w, const spc_conv_args *args)
{
    copy_piece(to + piece * 16, (const spc_u8 *)args->in, row,
               $((problem.in_pitch or problem.cin) * element),
               w->block / $(n_blocks) * $(config.m * element) + piece * 16,
               $(problem.cin * element));
}

/* Starts the copies of a step: of x into the window, behind the tile's rows of dy. */
SPC_DEVICE void load_rows(int stage, const notes *n, const work *w, const spc_conv_args *args)
{
    spc_u8 *to = spc_shared() + stage * $(stage_size);
    int first = n->first, items = (is_far(n) ? 0 : n->last + 1 - first) * $(x_pieces);

    SPC_ROLLED
    for (int item = spc_thread(); item < $(config.rows * y_pieces); item += $(threads)) {
        int r = item / $(y_pieces), piece = item % $(y_pieces);
        if (n->out[r / 32] >> r % 32 & 1u)
            copy_piece(to + r * $(y_pitch) + piece * 16, (const spc_u8 *)args->residual,
                       n->row[r], $(add_pitch(problem) * element),
                       w->block % $(n_blocks) * $(config.n * element) + piece * 16,
                       $(problem.cout * element));
    }
    to += $(config.rows * y_pitch);
    SPC_ROLLED
    for (int item = spc_thread(); item < items; item += $(threads)) {
        int r = item / $(x_pieces), row = first + r;
        if (n->in[row / 32 % $(bits // 32)] >> row % 32 & 1u)
            copy_in(to + r * $(x_pitch), row, item % $(x_pieces), w, args);
    }
}

/* ---- products ------------------------------------------------------------------ */

/* Where a row lies of those from row `first` on; of row -1, zeroes. */
SPC_DEVICE const spc_u8 *row_at(const spc_u8 *rows, int row, int first, int pitch)
{
    return row < 0 ? spc_shared() + $(at.zero) : rows + (row - first) * pitch;
}

% if half then
/* acc[tm][tn][4] += 16 pairs, rows `in` and `out`, of x from row `first` on. */
SPC_DEVICE void multiply_pairs(float *acc, const spc_u8 *x, const spc_u8 *y,
                               const int *in, const int *out, int first)
{
    int lane = spc_lane(), r = lane & 7, low = lane >> 3 & 1, high = lane >> 4;
    spc_u32 a[$(tm)][4];

    x = row_at(x, in[high * 8 + r], first, $(x_pitch)) + low * 16;
    y = row_at(y, out[low * 8 + r], 0, $(y_pitch)) + high * 16;
    SPC_UNROLL
    for (int i = 0; i < $(tm); i++)
        spc_ldmatrix4_trans(a[i], x + i * 32);
    SPC_UNROLL
    for (int j = 0; j < $(tn); j += 2) {
        spc_u32 b[4];
        spc_ldmatrix4_trans(b, y + j * 16);
        SPC_UNROLL
        for (int i = 0; i < $(tm); i++) {
            spc_mma_$(problem.dtype)(acc + (i * $(tn) + j) * 4, a[i], b);
            spc_mma_$(problem.dtype)(acc + (i * $(tn) + j + 1) * 4, a[i], b + 2);
        }
    }
}
% else
SPC_DEVICE spc_u32 word_at(const spc_u8 *row)
{
    return *(const spc_u32 *)row;
}

/* acc[tm][tn][4] += 8 pairs, rows `in` and `out`, of x from row `first` on. */
SPC_DEVICE void multiply_eight(float *acc, const spc_u8 *x, const spc_u8 *y,
                               const int *in, const int *out, int first)
{
    int g = spc_lane() >> 2, q = spc_lane() & 3;
    spc_u32 a[$(tm)][4]$(images(problem) > 1 and ", a_small[" .. tm .. "][4]" or "");
    const spc_u8 *row[2];

    for (int h = 0; h < 2; h++)
        row[h] = row_at(x, in[q + h * 4], first, $(x_pitch)) + g * 4;
    SPC_UNROLL
    for (int i = 0; i < $(tm); i++)
        for (int h = 0; h < 4; h++) {
            spc_u32 v = word_at(row[h / 2] + i * 64 + h % 2 * 32);
% write_operand("            ", "a[i][h]", "a_small[i][h]", "v")
        }
    for (int h = 0; h < 2; h++)
        row[h] = row_at(y, out[q + h * 4], 0, $(y_pitch)) + g * 4;
    SPC_UNROLL
    for (int j = 0; j < $(tn); j++) {
        spc_u32 b[2]$(images(problem) > 1 and ", b_small[2]" or "");
        for (int h = 0; h < 2; h++) {
            spc_u32 v = word_at(row[h] + j * 32);
% write_operand("            ", "b[h]", "b_small[h]", "v")
        }
        SPC_UNROLL
        for (int i = 0; i < $(tm); i++) {
% if images(problem) > 1 then
            spc_mma_tf32(acc + (i * $(tn) + j) * 4, a_small[i], b);
            spc_mma_tf32(acc + (i * $(tn) + j) * 4, a[i], b_small);
% end
            spc_mma_tf32(acc + (i * $(tn) + j) * 4, a[i], b);
        }
    }
}

SPC_DEVICE void multiply_pairs(float *acc, const spc_u8 *x, const spc_u8 *y,
                               const int *in, const int *out, int first)
{
    multiply_eight(acc, x, y, in, out, first);
    multiply_eight(acc, x, y, in + 8, out + 8, first);
}
% end

/* Gathers the inputs of 16 pairs, which become the rows from `to` on, and says so
 * in their list. */
SPC_DEVICE void gather_pairs(spc_u8 *to, int *in, const work *w, const spc_conv_args *args)
{
    spc_sync_warp(); /* all have left the rows of the pairs before */
    for (int item = spc_lane(); item < $(16 * x_pieces); item += 32)
        if (in[item / $(x_pieces)] >= 0)
            copy_in(to + item / $(x_pieces) * $(x_pitch), in[item / $(x_pieces)],
                    item % $(x_pieces), w, args);
    spc_copy_commit();
    spc_copy_wait(0);
    spc_sync_warp();
    if (spc_lane() < 16 && in[spc_lane()] >= 0)
        in[spc_lane()] = spc_lane();
    spc_sync_warp();
}

/* The products of the warp's pairs in a stage, whose window begins with row
 * `first`; or is nobody's, if that is negative. */
SPC_DEVICE void multiply(float *acc, int stage, int first, const work *w,
                         const spc_conv_args *args)
{
    const spc_u8 *y = spc_shared() + stage * $(stage_size);
    const spc_u8 *x = y + $(config.rows * y_pitch);
    pair_list *list = list_at(stage);
    int count = list->count, far = first < 0;

    if (far) {
        x += spc_warp() * $(16 * x_pitch);
        first = 0;
    }
    SPC_ROLLED
    for (int pair = 0; pair < count; pair += 16) {
        if (far)
            gather_pairs((spc_u8 *)x, list->in + pair, w, args);
        multiply_pairs(acc, x, y, list->in + pair, list->out + pair, first);
    }
}

% if problem.bias == 1 then
/* Adds the tile's rows of dy: each thread some columns, or a part of the rows of one. */
SPC_DEVICE void add_rows(int stage)
{
    const spc_u8 *y = spc_shared() + stage * $(stage_size);
    float *sums = (float *)(spc_shared() + $(at.bias));

    for (int cell = spc_thread(); cell < $(ways * config.n); cell += $(threads)) {
        float sum = sums[cell];
        for (int r = cell / $(config.n); r < $(config.rows); r += $(ways)) {
            const spc_u8 *from = y + r * $(y_pitch) + cell % $(config.n) * $(element);
            sum += $(number_of(format_of(problem), half and "*(const spc_u16 *)from" or "*(const float *)from"));
        }
        sums[cell] = sum;
    }
}

SPC_DEVICE void leave_bias(float *to)
{
    const float *sums = (const float *)(spc_shared() + $(at.bias));

    for (int cell = spc_thread(); cell < $(ways * config.n); cell += $(threads))
        to[cell] = sums[cell];
}

% end
/* ---- the kernels --------------------------------------------------------------- */

SPC_DEVICE void leave(const float *acc, float *to)
{
    SPC_UNROLL
    for (int s = 0; s < $(config.slices); s++)
        for (int i = 0; i < $(size // 4); i++) {
            const float *from = acc + (s * $(size // 4) + i) * 4;
            spc_b16 four;
            four.x = spc_f32_bits(from[0]);
            four.y = spc_f32_bits(from[1]);
            four.z = spc_f32_bits(from[2]);
            four.w = spc_f32_bits(from[3]);
            spc_store16(to + (((s * $(warps) + spc_warp()) * $(size // 4) + i) * 32 + spc_lane()) * 4,
                        four);
        }
}

SPC_DEVICE int next_of(int place, int count)
{
    return place + 1 == count ? 0 : place + 1;
}

/*
 * The steps of a block run through four places: their numbers are loaded, what they
 * need is noted, their rows are copied, they are multiplied. Turn t multiplies step
 * t, copies step t + stages - 1, notes the one after that and loads the numbers of
 * the next, behind one barrier: what a turn notes is read in the next, and cleared
 * in the one after that; a list waits for its turn in the place of the one before it. Turns before 0 fill the ring.
 */
SPC_DEVICE void run_work(float *to, const work *w, const spc_conv_args *args)
{
    float acc[$(config.slices * size)];
    int stage = 0, slot = 0, slice = 0;
    int *first = (int *)(spc_shared() + $(at.far)); /* rows of the stages' windows */
    spc_u32 there; /* bit b: there is a step t + b */
    feed f;

    SPC_UNROLL
    for (int i = 0; i < $(config.slices * size); i++)
        acc[i] = 0.0f;
    f.tile = tile_of(args, w->share);
    f.ahead = tile_of(args, w->share + w->shares);
    f.next = w->share + 2 * w->shares;
    f.slice = 0;
    spc_sync_block(); /* all have left shared memory */
% if problem.bias == 1 then
    for (int cell = spc_thread(); cell < $(ways * config.n); cell += $(threads))
        ((float *)(spc_shared() + $(at.bias)))[cell] = 0.0f;
% end
    for (int i = 0; i < 3; i++)
        clear_notes(notes_at(i));
    there = (spc_u32)fetch(&f, w, args) << $(config.stages);
    for (int turn = -$(config.stages);; turn++) {
        /* The step's rows have arrived, for the whole block; and all have left
         * the stage that is loaded next. */
        spc_copy_wait($(config.stages - 2));
        spc_sync_block();
        int ring = stage == 0 ? $(config.stages - 1) : stage - 1;
        if (there >> $(config.stages - 1) & 1u) {
            load_rows(ring, notes_at(slot), w, args);
            if (spc_thread() == 0)
                first[ring] = is_far(notes_at(slot)) ? -1 : notes_at(slot)->first;
        }
        spc_copy_commit();
        if (turn >= 0) {
            if (!(there & 1u))
                break;
% if problem.bias == 1 then
            if (has_bias(w, slice))
                add_rows(stage);
% end
% for s = 0, config.slices - 1 do
            if (slice == $(s))
                multiply(acc + $(s * size), stage, first[stage], w, args);
% end
            slice = next_of(slice, $(config.slices));
        }
        slot = next_of(slot, 3);
        scan(notes_at(slot), list_at(stage), &f, $(problem.bias == 1 and "has_bias(w, f.was)" or "0"));
        clear_notes(notes_at(next_of(slot, 3)));
        there |= (spc_u32)fetch(&f, w, args) << $(config.stages + 1);
        stage = next_of(stage, $(config.stages));
        there >>= 1;
    }
    spc_copy_wait(0);
    leave(acc, to);
% if problem.bias == 1 then
    if (has_bias(w, 0))
        leave_bias(to + $(part - ways * config.n));
% end
}

SPC_KERNEL(spc_conv, spc_conv_args, $(threads), $(config.blocks))
{
    work w;

    spc_depend_wait();
    spc_depend_launch();
    for (int i = spc_thread(); i < $(zero_bytes(problem, config) // 4); i += $(threads))
        ((spc_u32 *)(spc_shared() + $(at.zero)))[i] = 0;
    if (spc_block_x() == 0 && spc_thread() == 0)
        *(int *)args->workspace = spc_grid_x(); /* what spc_sum goes by */
    for (int item = spc_block_x(); find_work(&w, item, spc_grid_x()); item += spc_grid_x())
        run_work(sums_of(args, item), &w, args);
}

% write_sum_kernel()
