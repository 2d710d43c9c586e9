%-- Tiles of which several blocks sum a part each, for os_mma and os_wgmma. A map with
%-- fewer tiles than the device has multiprocessors would leave most of them idle, and
%-- one block walk all offsets of a tile alone.
%--
%-- `stream`: the grid shares all steps of the map evenly (spc_span.cuh). Parts of tiles
%-- go to the workspace as they lie in registers, and a second kernel, spc_sum, adds
%-- those of a tile in the order of blocks; whole tiles are stored at once.
%-- `atomic`: the same steps; parts are added to the cleared output as they come.
%-- `cluster2` to `cluster8`: a tile has a cluster of so many blocks, which add their sums
%-- through each other's shared memory: no second kernel and no workspace.
%-- But for `atomic` sums are added in a fixed order: the result is the same in every
%-- run.
%--
%-- The workspace: for each tile (by number) the first part, as block * 2 + place, and
%-- the last block; from byte rows_padded on, two places a block and block of channels
%-- for the parts of its first tile and of another. All that is read was written before
%-- in the same launch.
%
%split_values = {"none", "stream", "atomic", "cluster2", "cluster4", "cluster8"}
%function is_stream(config) return config.split == "stream" end
%function is_atomic(config) return config.split == "atomic" end
%-- Blocks of a cluster; 1: there are none.
%function cluster_of(config) return tonumber(config.split:match("%d+")) or 1 end
%function is_divided(config) return config.split ~= "none" end
%-- Of spc_span.cuh: blocks of a cluster, 0 for a grid.
%function span_parts(config)
%  return (is_stream(config) or is_atomic(config)) and 0 or cluster_of(config)
%end
%
%-- A lane stores 16 bytes of a row at a time, in so many turns.
%function lane_turns(problem, config) return config.n // (4 * channels_of_lane(problem)) end
%function tile_bytes(config, rows) return rows * config.n * 4 end
%
%-- What refuses a division: nil, or nothing does. `room` is what of the shared memory is
%-- free when a tile is done, `rows` its rows.
%function can_divide(problem, config, target, room, rows)
%  local cluster = cluster_of(config)
%  if not is_divided(config) then return true end
%  if problem.groups then return false end
%  -- All rows that the outputs' set has room for are cleared: of a submanifold layer
%  -- those that it has, of others often more than the caller has.
%  if is_atomic(config) and not (is_plain(problem) and element_bytes(problem) == 4
%                                and problem.centre >= 0) then
%    return false
%  end
%  return problem.offsets <= 1024 and row_pieces(problem) // config.pieces <= 64
%     and (cluster == 1 or target.sm >= 90 and tile_bytes(config, rows) <= room)
%end
%
%-- Adds to a launch geometry what a division needs.
%function divide_launch(launch, problem, config, threads)
%  local cluster = cluster_of(config)
%  if is_stream(config) then
%    launch.grid = "steps"
%    launch.workspace_row_bytes = 1
%    launch.workspace_block_bytes = 2 * tile_bytes(config, launch.tile_rows)
%    launch.sum_block = threads
%    launch.sum_grid_y = launch.grid_y * lane_turns(problem, config)
%    launch.few_tiles = 1
%  elseif is_atomic(config) then
%    launch.grid = "steps"
%    launch.clear = 1
%    launch.atomics = 1
%    launch.few_tiles = 1
%  elseif cluster > 1 then
%    launch.grid = "tiles"
%    launch.blocks_per_sm = nil
%    launch.cluster = cluster
%    launch.few_tiles = cluster
%  end
%  return launch
%end
%
%-- The blocks of input channels of a step, in a loop.
%function blocks_of(code)
%  if not divided or k_blocks == 1 then return "int block = 0; block < " .. k_blocks end
%  return string.format("int block = SPC_STEP_FIRST(%s); block <= SPC_STEP_FINAL(%s)",
%                       code, code)
%end
%-- The output rows of a step that ends its part, as ending_rows has them of tiles.
%function part_rows(_, map, first)
%  return string.format("%s->order + spc_step_position(step, %s) + %s", map, map, first)
%end
%
%-- The block's share of the map, for the span `s`.
%function write_span_start(s, map)
%  if parts == 0 then
    spc_span_of_grid($(s), $(map), $(rows), $(problem.offsets), $(k_blocks));
%  else
    spc_span_of_cluster($(s), $(map), $(words), $(k_blocks), $(cluster_of(config)));
%  end
%end
%
%-- ---- summing ------------------------------------------------------------------------
%
%-- `m` row tiles of 16 for each of `threads`; acc[m][n / 8][4], in quads of 16 bytes.
%local function quads(m) return m * config.n // 8 end
%local function turn_quads() return 2 * lane_channels // 4 end
%-- The quad that is the i-th of row tile k in turn `j`.
%local function quad_of(k, j, i)
%  return string.format("(%s * %d + %s * %d + %s)", k, config.n // 8, j, turn_quads(), i)
%end
%
%-- Stores turn `j` of rows row[2 * m] from sum[m][turn_quads][4].
%local function write_store_turn(m, first)
            SPC_UNROLL
            for (int h = 0; h < $(2 * m); h++) {
                const $(sum_type(problem)) *d = sum + h / 2 * $(4 * turn_quads());
                int co = $(first);
                int store = row[h] >= 0 && co < $(problem.cout);
                float v[$(lane_channels)];
% write_lane_values(lane_channels, "d[" .. sum_of_channel("0", "h % 2") .. "]")
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
%-- For a stream: note_part and store_part.
%local function write_parts(m, threads)
/* Which parts a tile has, for the kernel that adds them. */
SPC_DEVICE void note_part(spc_b8 step, int place, const spc_conv_args *args)
{
    spc_u32 *noted = (spc_u32 *)args->workspace +
                     spc_step_position(step, &args->map) / $(rows) * 2;

    if (spc_thread() != 0 || spc_block_y() != 0)
        return;
    if (step.y & SPC_STEP_HEAD)
        spc_store4(noted, (spc_u32)(spc_block_x() * 2 + place));
    if (step.y & SPC_STEP_TAIL)
        spc_store4(noted + 1, (spc_u32)spc_block_x());
}

/* The sums of a part, as they lie in registers. */
SPC_DEVICE void store_part(const $(sum_type(problem)) *acc, int place, const spc_conv_args *args)
{
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
%-- Where outputs are f32: the sums of a part into the output; with the tile's first unit
%-- the bias.
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
                if (row[h] >= 0 && co < $(problem.cout))
                    spc_atomic_add_f32(to + i, v$(problem.bias == 1 and " + (head ? spc_load_f32(args->bias + co + i) : 0.0f)" or ""));
            }
        }
    }
}

%end
%
%-- For a cluster: all consumers of its blocks call it, when nobody uses the first bytes
%-- of shared memory any more.
%local function write_join(m, threads)
% local cluster, turns = cluster_of(config), lane_turns(problem, config)
/* Adds the parts of a tile in the order of the cluster's blocks, and stores it: each
 * block a part of the columns. */
SPC_DEVICE void join_cluster(const $(sum_type(problem)) *acc, const int *row, const spc_conv_args *args)
{
    const spc_u8 *mine = spc_shared() + spc_thread() * 16;
    int part = spc_block_x() % $(cluster);

    SPC_UNROLL
    for (int i = 0; i < $(quads(m)); i++) {
        spc_b16 w;
% write_quad("        ", "w", "i * 4")
        spc_shared_store16(spc_shared() + (i * $(threads) + spc_thread()) * 16, w);
    }
    spc_cluster_sync();
    SPC_ROLLED
    for (int j = $(turns) * part / $(cluster); j < $(turns) * (part + 1) / $(cluster); j++) {
        $(sum_type(problem)) sum[$(m * turn_quads() * 4)];
        SPC_UNROLL
        for (int p = 0; p < $(cluster); p++) {
            SPC_UNROLL
            for (int i = 0; i < $(m * turn_quads()); i++) {
                int quad = $(quad_of("i / " .. turn_quads(), "j", "i % " .. turn_quads()));
                spc_b16 w = spc_cluster_load16(mine + quad * $(threads * 16), p);
                sum[4 * i] = p ? sum[4 * i] + $(bits_sum(problem, "w.x")) : $(bits_sum(problem, "w.x"));
                sum[4 * i + 1] = p ? sum[4 * i + 1] + $(bits_sum(problem, "w.y")) : $(bits_sum(problem, "w.y"));
                sum[4 * i + 2] = p ? sum[4 * i + 2] + $(bits_sum(problem, "w.z")) : $(bits_sum(problem, "w.z"));
                sum[4 * i + 3] = p ? sum[4 * i + 3] + $(bits_sum(problem, "w.w")) : $(bits_sum(problem, "w.w"));
            }
        }
        {
% write_store_turn(m, string.format("spc_block_y() * %d + (spc_lane() & 3) * %d + j * %d", config.n, lane_channels, 4 * lane_channels))
        }
    }
    spc_cluster_sync(); /* nobody ends while others read its memory */
}

%end
%
%-- What a divided kernel does with the sums of its parts.
%function write_division(m, threads)
%  if is_stream(config) then write_parts(m, threads)
%  elseif is_atomic(config) then write_add(m)
%  elseif is_divided(config) then write_join(m, threads) end
%end
%
%-- The end of a part `step` of a grid, whose rows are `row`.
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
%-- The second kernel of a stream: a block for each tile and turn of output channels.
%-- Four parts are under way at a time.
%function write_sum_kernel(m, threads)
% if is_stream(config) then
% local turns, floats = lane_turns(problem, config), m * turn_quads() * 4
SPC_KERNEL(spc_sum, spc_conv_args, $(threads), 1)
{
    const spc_map_view *map = &args->map;
    int y = spc_block_y() / $(turns), j = spc_block_y() % $(turns);
    int tile = spc_load_int(map->tile_order + spc_block_x());
    int at = (tile < 0 ? 0 : tile) * $(rows) + spc_warp() * $(m * 16) + (spc_lane() >> 2);
    const spc_u32 *noted = (const spc_u32 *)args->workspace + at / $(rows) * 2;
    $(sum_type(problem)) sum[$(floats)];
    int row[$(2 * m)];

    SPC_UNROLL
    for (int h = 0; h < $(2 * m); h++)
        row[h] = spc_load_int(map->order + at + 8 * h);
    spc_depend_wait();
    spc_depend_launch();
    if (tile < 0)
        return;
    int first = (int)spc_load_relaxed(noted);
    int count = (int)spc_load_relaxed(noted + 1) - first / 2 + 1;
    const spc_u8 *from = (const spc_u8 *)args->workspace + map->rows_padded +
                         y * $(tile_bytes(config, rows)) + spc_thread() * 16;
    if (count == 1)
        return; /* the block that summed it has stored it */
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
% write_store_turn(m, string.format("y * %d + (spc_lane() & 3) * %d + j * %d", config.n, lane_channels, 4 * lane_channels))
    }
}

% end
%end
