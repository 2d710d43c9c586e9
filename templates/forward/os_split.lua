%-- Tiles that several blocks sum in parts, for os_mma and os_wgmma. With fewer tiles than
%-- multiprocessors, most multiprocessors would otherwise be idle while one block processes
%-- all offsets of a tile alone.
%--
%-- `stream`: the grid shares all steps of the map evenly (spc_span.cuh). Parts of tiles are
%-- stored in the workspace in register order. A second kernel, spc_sum, adds the parts of a
%-- tile in the order of blocks. Whole tiles are stored at once. `atomic`: the same steps,
%-- but parts are added to the cleared output as they arrive. `cluster2` to `cluster8`: a
%-- tile has a cluster of 2 to 8 blocks, which add their sums through each other's shared
%-- memory, without a second kernel and without a workspace. The grid has as many clusters
%-- as are resident, and each walks over tiles. In os_mma a block reads the other blocks'
%-- sums of the columns that it finishes; in os_wgmma each block sends its sums to the
%-- others. Except for `atomic`, sums are added in a fixed order, so the result is the same
%-- in every run.
%--
%-- `mask2` to `mask4`, for maps of any size: the offsets are divided into 2 to 4 groups,
%-- and rows are sorted anew for each group (row orders gray2 to gray4). A tile then has
%-- fewer offsets that only some of its rows have. The kernel runs once for each group and
%-- writes the sums of its rows as f32, by row, into the group's part of the workspace.
%-- spc_sum adds for each row the sums of those groups of which the row has an offset, in
%-- their order. Groups are independent: blocks of one group start on multiprocessors that
%-- the previous group leaves free.
%--
%-- The workspace contains, for each tile (by number), the first part, as block * 2 + place,
%-- and the last block. From byte rows_padded on, each block and block of channels has two
%-- places, for the parts of its first tile and of one other tile. All that is read was
%-- written earlier in the same launch.
%
%split_values = {"none", "stream", "atomic", "cluster2", "cluster4", "cluster8",
%                "mask2", "mask3", "mask4"}
%function is_stream(config) return config.split == "stream" end
%function is_atomic(config) return config.split == "atomic" end
%-- Number of blocks in a cluster; 1: no clusters.
%function cluster_of(config) return tonumber(config.split:match("^cluster(%d+)")) or 1 end
%-- Number of groups of offsets; 1: a single group.
%function masks_of(config) return tonumber(config.split:match("^mask(%d+)")) or 1 end
%function is_masked(config) return masks_of(config) > 1 end
%function is_divided(config) return config.split ~= "none" and not is_masked(config) end
%-- For spc_span.cuh: blocks of a cluster, 0 for a grid.
%function span_parts(config)
%  return (is_stream(config) or is_atomic(config)) and 0 or cluster_of(config)
%end
%
%-- The number of turns in which a lane stores a row, 16 bytes in each.
%function lane_turns(problem, config) return config.n // (4 * channels_of_lane(problem)) end
%function tile_bytes(config, rows) return rows * config.n * 4 end
%
%-- True if tiles can be divided in this way. The caller checks shared memory.
%function can_divide(problem, config, target)
%  local cluster = cluster_of(config)
%  if is_masked(config) then -- which have orders of their own
%    return not problem.groups and not whole_in(problem) and not whole_out(problem)
%       and config.order == "gray"
%       and problem.offsets // masks_of(config) >= 4
%  end
%  if not is_divided(config) then return true end
%  if problem.groups then return false end
%  -- All rows within the capacity of the outputs' set are cleared. For a submanifold
%  -- layer these are its rows; for other layers they are often more than the caller
%  -- has.
%  if is_atomic(config) and not (is_plain(problem) and element_bytes(problem) == 4
%                                and problem.centre >= 0) then
%    return false
%  end
%  return problem.offsets <= 1024 and row_pieces(problem) // config.pieces <= 64
%     and (cluster == 1 or target.sm >= 90)
%end
%
%-- The distance between rows of a group's sums.
%function sum_pitch(problem)
%  local channels = 16 // element_bytes(problem)
%  return ceil_div(problem.cout, channels) * channels
%end
%
%-- The default division of the tiles of a map with target.rows rows, in blocks of `n`
%-- channels. It follows the winners of quick on the levels of bench --suite deep (H200):
%-- clusters for wide blocks, whose parts are large; otherwise the grid shares all steps.
%-- Wide kernels gain from this even with one tile for each multiprocessor. The limits 2 and
%-- 1.25 are in the gaps between measured cases. A tile of one offset has too little work to
%-- share: for linear layers a cluster costs what it saves.
%function usual_cluster(target, tiles)
%  for _, cluster in ipairs {8, 4, 2} do
%    if target.sm >= 90 and tiles * cluster <= target.multiprocessors * 5 // 4 then return "cluster" .. cluster end
%  end
%  return "none"
%end
%function usual_split(problem, target, n, tiles)
%  local processors = target.multiprocessors
%  if problem.offsets == 1 then return "none" end
%  if not target.rows or not processors or problem.offsets > 1024 then return "none" end
%  -- Parts of wide blocks are large, so they stay in shared memory instead of
%  -- passing through the workspace.
%  if n >= 192 then return usual_cluster(target, tiles) end
%  local most = problem.offsets > 32 and processors * 5 // 4 or processors // 2
%  return tiles <= most and "stream" or "none"
%end
%
%-- Adds the attributes of a division to a launch geometry.
%function divide_launch(launch, problem, config, threads)
%  local cluster = cluster_of(config)
%  if is_masked(config) then
%    launch.order = config.order .. masks_of(config)
%    launch.workspace_row_bytes = masks_of(config) * sum_pitch(problem) * 4
%    launch.sum_block, launch.sum_blocks_per_sm = 256, 8
%  elseif is_stream(config) then
%    launch.grid = "steps"
%    launch.workspace_row_bytes = 1
%    launch.workspace_block_bytes = 2 * tile_bytes(config, launch.tile_rows)
%    launch.sum_block, launch.sum_blocks_per_sm = threads, 1
%    launch.sum_grid_y = launch.grid_y * lane_turns(problem, config)
%    launch.few_tiles = 1
%  elseif is_atomic(config) then
%    launch.grid = "steps"
%    launch.clear = 1
%    launch.atomics = 1
%    launch.few_tiles = 1
%  elseif cluster > 1 then
%    launch.cluster = cluster
%    launch.few_tiles = cluster
%  end
%  return launch
%end
%
%-- The centre, if its step ends a tile. A group of offsets may lack the centre.
%function ending_centre(problem, config)
%  return is_masked(config) and -1 or problem.centre
%end
%
%-- The blocks of input channels of a step, as a loop.
%function blocks_of(code)
%  if not divided or k_blocks == 1 then return "int block = 0; block < " .. k_blocks end
%  return string.format("int block = SPC_STEP_FIRST(%s); block <= SPC_STEP_FINAL(%s)",
%                       code, code)
%end
%-- The output rows of a step that ends its part; like ending_rows for tiles.
%function part_rows(_, map, first)
%  return string.format("%s->order + spc_step_position(step, %s) + %s", map, map, first)
%end
%
%-- Sets the span `s` to the block's share of the map. Clusters request one tile at a
%-- time.
%function write_span_start(s, map)
%  if parts == 0 then
    spc_span_of_grid($(s), $(map), $(rows), $(problem.offsets), $(k_blocks));
%  end
%end
%
%-- ---- groups of offsets ---------------------------------------------------------------
%
%-- Writes the start of code that reads results of the previous kernel. A group has an
%-- output only if it is the first. When blocks of a later group start, all blocks of the
%-- previous one have waited.
%function write_depend_start()
% if is_masked(config) then
    if (args->out)
        spc_depend_wait();
% else
    spc_depend_wait();
% end
    spc_depend_launch();
%end
%-- Writes the end of such code. Each group ends after the previous one, so that all
%-- groups are complete when the last one is.
%function write_depend_end()
% if is_masked(config) then
    spc_depend_wait();
% end
%end
%
%-- Stores `count` channels of row[h] from co on, at `to` or as sums of a group. `ready`
%-- and `factors` are as for write_lane_values, `align` as for write_lane_store.
%function write_lane_result(count, value, to, ready, factors, align)
% if is_masked(config) then
            for (int i = 0; i < $(count); i++)
                v[i] = $(value);
%   for at = 0, count - 1, 4 do
            spc_b16 w$(at);
%     for i, name in ipairs {"x", "y", "z", "w"} do
            w$(at).$(name) = spc_f32_bits(v[$(at + i - 1)]);
%     end
            if (store)
                spc_store16((spc_u8 *)args->workspace +
                                ((long long)row[h] * $(sum_pitch(problem)) + co + $(at)) * 4, w$(at));
%   end
% else
%   write_lane_values(count, value, ready, factors)
%   write_lane_store(count, to, align)
% end
%end
%
%-- The offsets in word `w` of a mask that belong to group `g`, in hexadecimal.
%local function group_word(g, w)
%  local masks, word = masks_of(config), 0
%  local first, last = problem.offsets * g // masks, problem.offsets * (g + 1) // masks - 1
%  for k = math.max(first, 32 * w), math.min(last, 32 * w + 31) do
%    word = word | 1 << k - 32 * w
%  end
%  return string.format("0x%xu", word)
%end
%
%-- Adds the sums of a row; a thread has several of its channels. The rows are those of
%-- the map, in the order of keys, with the masks of all their offsets.
%local function write_add_groups()
% local pieces, pitch = sum_pitch(problem) // lane_channels, sum_pitch(problem)
SPC_KERNEL(spc_sum, spc_conv_args, 256, 1)
{
    const spc_map_view *map = &args->map;

    spc_depend_wait();
    spc_depend_launch();
    SPC_ROLLED
    for (long long item = spc_block_x() * 256ll + spc_thread();
         item < map->rows_padded * $(pieces)ll; item += spc_grid_x() * 256ll) {
        int p = (int)(item / $(pieces));
        int co = (int)(item % $(pieces)) * $(lane_channels), h = 0;
        int row[1] = {spc_load_int(map->order + p)}, store = row[0] >= 0;
        if (!store) /* there are no later rows either */
            return;
        const spc_u8 *from = (const spc_u8 *)args->workspace +
                             ((long long)row[0] * $(pitch) + co) * 4;
        spc_u32 part[$(masks_of(config))][$(lane_channels)];
        float sum[$(lane_channels)];
        float v[$(lane_channels)];

        SPC_UNROLL
        for (int i = 0; i < $(lane_channels); i++) {
            sum[i] = 0.0f;
% for g = 0, masks_of(config) - 1 do
            /* A group without an offset of this row may have written nothing,
             * so its loads are skipped and leave 0. */
            part[$(g)][i] = 0;
% end
        }
% for g = 0, masks_of(config) - 1 do
        {
            spc_u32 some = 0;
%   for w = 0, words - 1 do
%     if group_word(g, w) ~= "0x0u" then
            some |= spc_load4(map->mask + $(w)ll * map->rows_padded + p) & $(group_word(g, w));
%     end
%   end
%   for at = 0, lane_channels - 1, 4 do
            spc_load16_into(part[$(g)] + $(at),
                            from + $(g)ll * map->rows_padded * $(4 * pitch) + $(4 * at),
                            some ? 0 : -1);
%   end
        }
% end
% for g = 0, masks_of(config) - 1 do
        SPC_UNROLL
        for (int i = 0; i < $(lane_channels); i++)
            sum[i] += spc_bits_f32(part[$(g)][i]);
% end
% write_lane_values(lane_channels, "sum[i]")
% write_lane_store(lane_channels, "(spc_u8 *)args->out + ((long long)row[h] * " .. out_pitch(problem) .. " + co) * " .. out_bytes(problem))
    }
}

%end
%
%-- ---- summing ------------------------------------------------------------------------
%
%-- The sums of `m` row tiles of 16 for each of `threads`; acc[m][n / 8][4], in quads
%-- of 16 bytes.
%local function quads(m) return m * config.n // 8 end
%local function turn_quads() return 2 * lane_channels // 4 end
%-- The quad that is the i-th of row tile k in turn `j`.
%local function quad_of(k, j, i)
%  return string.format("(%s * %d + %s * %d + %s)", k, config.n // 8, j, turn_quads(), i)
%end
%
%-- The values other than sums that the end of turn `j` reads, from channel `first` on.
%-- They are requested before the sums, to avoid a second wait.
%local function reads_ahead() return has_epilogue(problem) and (is_scaled(problem) or problem.bias == 1) end
%local function write_factors_ahead(name)
        float $(name)[$(lane_channels)];
        SPC_UNROLL
        for (int i = 0; i < $(lane_channels); i++)
            $(name)[i] = co$(problem.cout % lane_channels ~= 0 and " + i" or "") < $(problem.cout) ? spc_load_f32(args->$(name) + co + i) : 0.0f;
%end
%local function write_turn_loads(m, first)
        int co = $(first);
% if reads_ahead() and problem.scale then write_factors_ahead("scale") end
% if reads_ahead() and problem.bias == 1 then write_factors_ahead("bias") end
% if added_batch(lane_channels, 1, 0) then
%   local each = lane_channels * out_bytes(problem) // 4
        spc_u32 added[$(2 * m * each)];
        SPC_UNROLL
        for (int h = 0; h < $(2 * m); h++) {
%   write_lane_added(lane_channels, "added + h * " .. each, "co", "row[h] >= 0 && co < " .. problem.cout)
        }
% end
%end
%-- Stores turn `j` of rows row[2 * m] from sum[m][turn_quads][4].
%local function write_store_turn(m)
% local ready = added_batch(lane_channels, 1, 0) and "added + h * " .. lane_channels * out_bytes(problem) // 4
            SPC_UNROLL
            for (int h = 0; h < $(2 * m); h++) {
                const $(sum_type(problem)) *d = sum + h / 2 * $(4 * turn_quads());
                int store = row[h] >= 0 && co < $(problem.cout);
                float v[$(lane_channels)];
% write_lane_values(lane_channels, "d[" .. sum_of_channel("0", "h % 2") .. "]", ready, reads_ahead())
% write_lane_store(lane_channels, "(spc_u8 *)args->out + ((long long)row[h] * " .. out_pitch(problem) .. " + co) * " .. out_bytes(problem))
            }
%end
%
%local function write_quad(indent, name, at)
$(indent)$(name).x = $(sum_bits(problem, "acc[" .. at .. "]"));
$(indent)$(name).y = $(sum_bits(problem, "acc[" .. at .. " + 1]"));
$(indent)$(name).z = $(sum_bits(problem, "acc[" .. at .. " + 2]"));
$(indent)$(name).w = $(sum_bits(problem, "acc[" .. at .. " + 3]"));
%end
%
%-- Writes note_part and store_part, for `stream`.
%local function write_parts(m, threads)
/* Records the parts of a tile for the kernel that adds them. */
SPC_DEVICE void note_part(spc_b8 step, int place, const spc_conv_args *args)
{
    spc_u32 *noted = (spc_u32 *)args->workspace +
                     spc_step_position(step, &args->map) / $(rows) * 2;

    /* Blocks of other channels have the same parts, so one note serves them
     * all. */
    if (spc_thread() != 0 || spc_block_y() != 0)
        return;
    if (step.y & SPC_STEP_HEAD)
        spc_store4(noted, (spc_u32)(spc_block_x() * 2 + place));
    if (step.y & SPC_STEP_TAIL)
        spc_store4(noted + 1, (spc_u32)spc_block_x());
}

/* Stores the sums of a part in register order. */
SPC_DEVICE void store_part(const $(sum_type(problem)) *acc, int place, const spc_conv_args *args)
{
    /* spc_sum has the same layout of threads, so register order needs no
     * exchange and each store is 16 contiguous bytes for each lane. */
    long long slot = ((long long)spc_block_x() * 2 + place) * $(n_blocks) + spc_block_y();
    spc_u8 *to = (spc_u8 *)args->workspace + args->map.rows_padded +
                 slot * $(tile_bytes(config, rows)) + spc_thread() * 16;

    SPC_UNROLL
    for (int i = 0; i < $(quads(m)); i++) {
        spc_b16 w;
% write_quad("        ", "w", "i * 4")
        spc_store16(to + i * $(threads * 16), w);
    }
}

%end
%
%-- For f32 outputs: adds the sums of a part to the output. The part with the tile's
%-- first unit also adds the bias.
%local function write_add(m)
SPC_DEVICE void add_part(const float *acc, const int *row, spc_u32 head,
                         const spc_conv_args *args)
{
    int first = spc_block_y() * $(config.n) + (spc_lane() & 3) * $(lane_channels);

    SPC_UNROLL
    for (int j = 0; j < $(lane_turns(problem, config)); j++) {
        int co = first + j * $(4 * lane_channels);
        SPC_UNROLL
        for (int h = 0; h < $(2 * m); h++) {
            const float *d = acc + h / 2 * $(config.n // 2);
            float *to = (float *)args->out + (long long)row[h] * $(problem.cout) + co;
            SPC_UNROLL
            for (int i = 0; i < $(lane_channels); i++) {
                float v = d[$(sum_of_channel("j * " .. 2 * lane_channels, "h % 2"))];
                if (row[h] >= 0 && co$(problem.cout % lane_channels ~= 0 and " + i" or "") < $(problem.cout))
                    spc_atomic_add_f32(to + i, v$(problem.bias == 1 and " + (head ? spc_load_f32(args->bias + co + i) : 0.0f)" or ""));
            }
        }
    }
}

%end
%
%-- For a cluster. All threads of its blocks call it when the first bytes of shared
%-- memory are no longer in use.
%local function write_join(m, threads)
% local cluster, turns = cluster_of(config), lane_turns(problem, config)
/* Adds the parts of a tile in the order of the cluster's blocks and stores the
 * result. Each block stores some of the columns. */
SPC_DEVICE void join_cluster(const $(sum_type(problem)) *acc, spc_b8 step, const spc_conv_args *args)
{
    const int *rows = $(part_rows("", "(&args->map)", "spc_warp() * " .. 16 * m .. " + (spc_lane() >> 2)"));
    const spc_u8 *mine = spc_shared() + spc_thread() * 16;
    int row[$(2 * m)];
    int part = spc_block_x() % $(cluster);

    SPC_UNROLL
    for (int i = 0; i < $(quads(m)); i++) {
        spc_b16 w;
% write_quad("        ", "w", "i * 4")
        spc_shared_store16(spc_shared() + (i * $(threads) + spc_thread()) * 16, w);
    }
    SPC_UNROLL
    for (int h = 0; h < $(2 * m); h++)
        row[h] = spc_load_int(rows + 8 * h);
    /* All blocks have stored their sums from here on. The output rows were
     * requested before, so that their latency is hidden by the wait. */
    spc_cluster_sync();
    SPC_ROLLED
    for (int j = $(turns) * part / $(cluster); j < $(turns) * (part + 1) / $(cluster); j++) {
        $(sum_type(problem)) sum[$(m * turn_quads() * 4)];
% write_turn_loads(m, string.format("spc_block_y() * %d + (spc_lane() & 3) * %d + j * %d", config.n, lane_channels, 4 * lane_channels))
        SPC_UNROLL
        for (int p = 0; p < $(cluster); p++) {
            SPC_UNROLL
            for (int i = 0; i < $(m * turn_quads()); i++) {
                int quad = $(quad_of("i / " .. turn_quads(), "j", "i % " .. turn_quads()));
                spc_b16 w = spc_cluster_load16(mine + quad * $(threads * 16), p);
                /* Every block adds in this order, so each run gives the same
                 * result. */
                sum[4 * i] = p ? sum[4 * i] + $(bits_sum(problem, "w.x")) : $(bits_sum(problem, "w.x"));
                sum[4 * i + 1] = p ? sum[4 * i + 1] + $(bits_sum(problem, "w.y")) : $(bits_sum(problem, "w.y"));
                sum[4 * i + 2] = p ? sum[4 * i + 2] + $(bits_sum(problem, "w.z")) : $(bits_sum(problem, "w.z"));
                sum[4 * i + 3] = p ? sum[4 * i + 3] + $(bits_sum(problem, "w.w")) : $(bits_sum(problem, "w.w"));
            }
        }
        {
% write_store_turn(m)
        }
    }
    /* No block may end or reuse its memory while other blocks read it. */
    spc_cluster_sync();
}

%end
%
%-- The same for blocks that have warps in addition to the `threads` that sum, and memory
%-- of this many bytes at `received_at` for data from other blocks. Each block finishes
%-- the columns of some turns and receives the other blocks' sums of these columns, each
%-- in its own place.
%local function first_turn(config, turns, part) return turns * part // cluster_of(config) end
%local function most_turns(config, turns) return ceil_div(turns, cluster_of(config)) end
%function received_bytes(problem, config, threads)
%  local turns = lane_turns(problem, config)
%  return (cluster_of(config) - 1) * most_turns(config, turns) * threads * 8 * channels_of_lane(problem)
%end
%-- The `i`-th quad of a block's `l`-th turn, in the place `place`.
%local function received(l, i, place, threads)
%  local turns = most_turns(config, lane_turns(problem, config))
%  return string.format("spc_shared() + %d + (((%s) * %d + %d) * %d + %s) * %d + spc_thread() * 16",
%                       received_at, place, turns, l, turn_quads(), i, threads * 16)
%end
%-- With fewer turns than blocks, some blocks finish no turn and receive nothing. Such a block
%-- must not report that it has read its data. It does not wait for data, so its report for
%-- one tile could arrive before another block has waited for the report of the previous tile.
%-- That wait identifies a phase by its parity, and would then never end.
%local function some_end_none(config) return lane_turns(problem, config) < cluster_of(config) end
%local function ends_some(part)
%  local turns, cluster = lane_turns(problem, config), cluster_of(config)
%  return string.format("%d * (%s + 1) / %d > %d * %s / %d", turns, part, cluster, turns, part, cluster)
%end
%-- The number of warps that report to a block that they have read what it sent; `warps` warps
%-- of a block sum. If only one block receives data, no warp reports to it, and it does not
%-- wait.
%function reading_warps(config, warps)
%  local turns = lane_turns(problem, config)
%  if not some_end_none(config) then return warps * (cluster_of(config) - 1) end
%  if turns == 1 then return warps end
%  local part = string.format("(spc_block_x() %% %d)", cluster_of(config))
%  return string.format("(%s ? %d : %d)", ends_some(part), warps * (turns - 1), warps * turns)
%end
%local function write_exchange(threads)
% local cluster, turns = cluster_of(config), lane_turns(problem, config)
/*
 * Tells the other blocks that their data for the previous tile has been read. It is
 * called at every tile but the first. The other blocks wait for it, so none of them has
 * ended.
 */
SPC_DEVICE void have_read(spc_u64 *joined)
{
    spc_sync_warp();
% if some_end_none(config) then
    int part = spc_block_x() % $(cluster);
    if (!($(ends_some("part"))))
        return;
% end
    if (spc_lane() < $(cluster) && spc_lane() != spc_block_x() % $(cluster))
        spc_cluster_release(joined + 1, spc_lane());
}

/* Sends this block's sums to the cluster's blocks that finish their columns, adds the
 * received sums in the order of blocks, and stores the result. */
SPC_DEVICE void exchange(const $(sum_type(problem)) *acc, spc_b8 step, spc_u64 *joined, const spc_conv_args *args)
{
    const int *rows = $(part_rows("", "(&args->map)", "spc_warp() * 16 + (spc_lane() >> 2)"));
    int row[2];
    int part = spc_block_x() % $(cluster);

    /* The row numbers arrive during the exchange. */
    for (int h = 0; h < 2; h++)
        row[h] = spc_load_int(rows + 8 * h);
    int mine = $(turns) * (part + 1) / $(cluster) - $(turns) * part / $(cluster);
    /* This is the one arrival of the phase, which then lasts until all bytes
     * are there. Other blocks may send before or after it. */
    if (spc_thread() == 0$(some_end_none(config) and " && mine > 0" or ""))
        spc_mbar_expect(joined, mine * $((cluster - 1) * turn_quads() * threads * 16));
% if turns == 1 then
    if (mine == 0)
% end
    /* Other blocks must have read the sums of the previous tile before these
     * overwrite them. The wait uses the parity of the previous tile, so the
     * first wait returns at once. */
    spc_cluster_wait(joined + 1, step.y & SPC_STEP_ODD ? 0 : 1);
% for owner = 0, cluster - 1 do
%   if first_turn(config, turns, owner) < first_turn(config, turns, owner + 1) then
    if (part != $(owner)) {
        /* A block keeps no place for its own sums, so the numbers of later
         * blocks move down by one. */
        int place = part - (part > $(owner));
%     for j = first_turn(config, turns, owner), first_turn(config, turns, owner + 1) - 1 do
        SPC_UNROLL
        for (int i = 0; i < $(turn_quads()); i++) {
            int quad = $(quad_of("0", j, "i"));
            spc_b16 w;
% write_quad("            ", "w", "quad * 4")
            spc_cluster_send16($(received(j - first_turn(config, turns, owner), "i", "place", threads)), $(owner), w, joined);
        }
%     end
    }
%   end
% end
% if some_end_none(config) then
    if (mine == 0)
        return; /* it receives nothing */
% end
    spc_cluster_wait(joined, step.y & SPC_STEP_ODD ? 1 : 0);
% for l = 0, most_turns(config, turns) - 1 do
    {
        int turn = $(turns) * part / $(cluster) + $(l);
        if (turn < $(turns) * (part + 1) / $(cluster)) {
        $(sum_type(problem)) sum[$(turn_quads() * 4)], own[$(turn_quads() * 4)];
% write_turn_loads(1, string.format("spc_block_y() * %d + (spc_lane() & 3) * %d + turn * %d", config.n, lane_channels, 4 * lane_channels))
        SPC_UNROLL
        for (int i = 0; i < $(turn_quads() * 4); i++) {
%   local last, chosen = -1
%   for owner = cluster - 1, 0, -1 do
%     local j = first_turn(config, turns, owner) + l
%     if j < first_turn(config, turns, owner + 1) then
%       local value = string.format("acc[%s * 4 + i]", quad_of("0", j, "0"))
%       chosen = chosen and string.format("part == %d ? %s : %s", owner, value, chosen) or value
%     end
%   end
            /* A chain of conditions keeps all indices of `acc` constant. With a
             * variable index the sums would leave the registers. */
            own[i] = $(chosen);
            sum[i] = $(sum_zero(problem));
        }
        SPC_UNROLL
        for (int p = 0; p < $(cluster); p++) {
            SPC_UNROLL
            for (int i = 0; i < $(turn_quads()); i++) {
                if (p == part) {
                    for (int k = 0; k < 4; k++)
                        sum[4 * i + k] = p ? sum[4 * i + k] + own[4 * i + k] : own[4 * i + k];
                } else {
                    spc_b16 w = spc_shared_load16($(received(l, "i", "p - (p > part)", threads)));
                    sum[4 * i] = p ? sum[4 * i] + $(bits_sum(problem, "w.x")) : $(bits_sum(problem, "w.x"));
                    sum[4 * i + 1] = p ? sum[4 * i + 1] + $(bits_sum(problem, "w.y")) : $(bits_sum(problem, "w.y"));
                    sum[4 * i + 2] = p ? sum[4 * i + 2] + $(bits_sum(problem, "w.z")) : $(bits_sum(problem, "w.z"));
                    sum[4 * i + 3] = p ? sum[4 * i + 3] + $(bits_sum(problem, "w.w")) : $(bits_sum(problem, "w.w"));
                }
            }
        }
        {
% write_store_turn(1)
        }
        }
    }
% end
}

%end
%
%-- Writes the code by which a divided kernel stores the sums of its parts.
%-- `has_others`: blocks have warps in addition to the `threads` that sum.
%function write_division(m, threads, has_others)
%  if is_stream(config) then write_parts(m, threads)
%  elseif is_atomic(config) then write_add(m)
%  elseif is_divided(config) and has_others then write_exchange(threads)
%  elseif is_divided(config) then write_join(m, threads) end
%end
%
%-- Writes the end of a part `step` of a grid; its rows are `row`.
%function write_part_end()
            int whole = (step.y & SPC_STEP_HEAD) && (step.y & SPC_STEP_TAIL);
% if is_stream(config) then
            note_part(step, later, args);
% end
            if (whole)
                finish(acc, row, args);
            else
% if is_stream(config) then
                store_part(acc, later, args);
            later = 1;
% else
                add_part(acc, row, step.y & SPC_STEP_HEAD, args);
% end
%end
%
%-- Writes the second kernel of a stream. Blocks walk over tiles, each with one turn of
%-- output channels. Four parts are under way at a time.
%function write_sum_kernel(m, threads)
% if is_masked(config) then
%   write_add_groups()
% elseif is_stream(config) then
% local turns, floats = lane_turns(problem, config), m * turn_quads() * 4
/* Adds turn `j` of the tile's output channels in block `y` of channels, if the tile
 * has parts. */
SPC_DEVICE void sum_tile(int tile, int y, int j, const spc_conv_args *args)
{
    const spc_map_view *map = &args->map;
    int at = tile * $(rows) + spc_warp() * $(m * 16) + (spc_lane() >> 2);
    const spc_u32 *noted = (const spc_u32 *)args->workspace + tile * 2;
    int first = (int)spc_load_relaxed(noted);
    int count = (int)spc_load_relaxed(noted + 1) - first / 2 + 1;
    const spc_u8 *from = (const spc_u8 *)args->workspace + map->rows_padded +
                         y * $(tile_bytes(config, rows)) + spc_thread() * 16;
    $(sum_type(problem)) sum[$(floats)];
    int row[$(2 * m)];

    SPC_UNROLL
    for (int h = 0; h < $(2 * m); h++)
        row[h] = spc_load_int(map->order + at + 8 * h);
    if (count == 1)
        return; /* the block that summed the tile has stored this */
% write_turn_loads(m, string.format("y * %d + (spc_lane() & 3) * %d + j * %d", config.n, lane_channels, 4 * lane_channels))
    SPC_UNROLL
    for (int i = 0; i < $(floats); i++)
        sum[i] = $(sum_zero(problem));
    SPC_ROLLED
    for (int p = 0; p < count; p += 4) {
        spc_u32 v[$(4 * floats)];
        SPC_UNROLL
        for (int i = 0; i < $(4 * floats); i++)
            v[i] = 0;
        SPC_UNROLL
        for (int k = 0; k < 4; k++) {
            /* A tile's first part may be in either place of its block. For all
             * later blocks it is the block's first tile, which has place 0. */
            long long slot = p + k == 0 ? first : (first / 2 + p + k) * 2;
            SPC_UNROLL
            for (int i = 0; i < $(m * turn_quads()); i++) {
                int quad = $(quad_of("i / " .. turn_quads(), "j", "i % " .. turn_quads()));
                spc_load16_into(v + k * $(floats) + i * 4,
                                from + slot * $(n_blocks * tile_bytes(config, rows)) +
                                    quad * $(threads * 16),
                                p + k < count ? 0 : -1);
            }
        }
        SPC_UNROLL
        for (int i = 0; i < $(4 * floats); i++)
            sum[i % $(floats)] += $(bits_sum(problem, "v[i]"));
    }
    {
% write_store_turn(m)
    }
}

SPC_KERNEL(spc_sum, spc_conv_args, $(threads), 1)
{
    const spc_map_view *map = &args->map;
    int y = spc_block_y() / $(turns), j = spc_block_y() % $(turns);
    int rank = spc_block_x();
    int tile = spc_load_int(map->tile_order + rank);

    spc_depend_wait();
    spc_depend_launch();
    while (tile >= 0) {
        sum_tile(tile, y, j, args);
        rank += spc_grid_x();
        tile = rank < map->tiles ? spc_load_int(map->tile_order + rank) : -1;
    }
}

% end
%end
