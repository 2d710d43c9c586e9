%-- How os_warp, os_group and os_diagonal read rows: a quad of lanes loads a row in pieces,
%-- and each lane loads its part straight into the registers of its operands.
%
%include "operands.lua"
%
%-- The offset of lane 1's part in every piece of a row; 0 if the pieces differ in
%-- size.
%function lane_bytes(problem)
%  local pieces = lane_pieces(problem)
%  for _, piece in ipairs(pieces) do
%    if piece.bytes ~= pieces[1].bytes then return 0 end
%  end
%  return pieces[1].bytes
%end
%-- True if a lane's number in its quad affects more than the address of its loads.
%function lanes_differ(problem)
%  for _, piece in ipairs(lane_pieces(problem)) do
%    if piece.left < 4 * piece.bytes then return true end
%  end
%  return lane_bytes(problem) == 0
%end
%-- The argument `in` of gather: the start of a lane's parts of the first row.
%function write_lane_base(opaque)
    const spc_u8 *in = (const spc_u8 *)args->in$(lane_bytes(problem) > 0 and " + (spc_lane() & 3) * " .. lane_bytes(problem) or "");
%  if opaque then
    in = (const spc_u8 *)spc_base(in);
%  end
%end
%
%-- The registers of the steps under way. If the map has no centre (problem.centre is
%-- -1), the output rows of a step that ends its tile are loaded with its input rows
%-- into `end`. Their position in the row order is kept with the indices.
%function write_step_registers()
    spc_u32 data[$(config.depth * width * row_registers)];
    int row[$(config.depth * width)], code[$(config.depth)];
    int next_row[$(config.depth * width)], next_code[$(config.depth)];
%  if problem.centre < 0 then
    int end[$(config.depth * width)], next_position[$(config.depth)];
%  end
%end
%-- The indices of this lane's rows of a tile: `first`, and every 8th from it on.
%function write_lane_index(first)
    const int *index = (const int *)spc_base(map->index + $(first));
%  if problem.centre < 0 then
    const int *order = map->order + $(first);
%  end
%end
%function ending_rows() return problem.centre < 0 and "end" or "row" end
%
%-- Writes the loads of a step. Each lane has its parts of `width` rows, 8 apart in
%-- the tile. The registers of an absent row become zero (`zero`) or stay unchanged.
%function write_loading(zero)
%  write_gather(zero)
%  write_look_ahead()
%end
%function write_gather(zero)
/* Loads this lane's parts of the rows of a step, one after the other. */
SPC_DEVICE void gather(spc_u32 *data, const int *row, const spc_u8 *in)
{
%  if lanes_differ(problem) then
    int q = spc_lane() & 3;
%  end
    SPC_UNROLL
    for (int n = 0; n < $(width); n++) {
        /* The product can exceed 32 bits. For an absent row the address is
         * never used. */
        const spc_u8 *from = in + (long long)row[n] * $(row_pitch);
        spc_u32 *to = data + n * $(row_registers);
%  local register, mixed = 0, lane_bytes(problem) == 0
%  for _, piece in ipairs(lane_pieces(problem)) do
%    local lanes = piece.left // piece.bytes
%    for i = 0, zero and piece.bytes // 4 - 1 or -1 do
        to[$(register + i)] = 0;
%    end
        spc_load$(piece.bytes)_into(to + $(register), from + $(piece.at)$(mixed and " + q * " .. piece.bytes or ""),
                        $(lanes < 4 and "q < " .. lanes .. " ? row[n] : -1" or "row[n]"));
%    register = register + piece.bytes // 4
%  end
    }
}

%end
%function write_look_ahead()
/* Reads the offset of a step, and this lane's index of each of its rows. */
%  if problem.centre >= 0 then
SPC_DEVICE void look_ahead(int *code, int *row, const spc_stream *stream,
                           int place, const int *index)
%  else
SPC_DEVICE void look_ahead(int *code, int *row, int *position,
                           const spc_stream *stream, int place,
                           const int *index, const spc_map_view *map)
%  end
{
    spc_b8 step = spc_stream_step(stream, place);

    *code = (int)step.y;
%  if problem.centre < 0 then
    *position = spc_step_position(step, map);
%  end
    SPC_UNROLL
    for (int n = 0; n < $(width); n++)
        spc_load4_into((spc_u32 *)row + n, index + step.x + 8 * n, 0);
}
%  if problem.centre < 0 then

/* Loads this lane's output rows if the step ends its tile. */
SPC_DEVICE void load_end(int *end, int code, int position, const int *order)
{
    /* The rows stay as they were if the step does not end a tile. */
    int last = code & SPC_STEP_LAST ? 0 : -1;

    SPC_UNROLL
    for (int n = 0; n < $(width); n++)
        spc_load4_into((spc_u32 *)end + n, order + position + 8 * n, last);
}
%  end

%end
%-- The arguments of look_ahead for step `i` of a bundle at `place`, with or without
%-- `next_`.
%local function ahead(prefix, place)
%  local position = problem.centre < 0 and ", " .. prefix .. "position + i" or ""
%  return prefix .. "code + i, " .. prefix .. "row + i * " .. width .. position
%    .. ", &stream, " .. place .. ", index" .. (problem.centre < 0 and ", map" or "")
%end
%-- Before the loop: starts the loads of `depth` steps, and requests the indices of as
%-- many more.
%function write_first_loads(tile_rows, zero)
%  if problem.centre < 0 then
    int position[$(config.depth)];
    SPC_UNROLL
    for (int i = 0; i < $(config.depth * width); i++)
        end[i] = 0;
%  end
    spc_stream_fill(&stream, map, $(2 * config.depth), $(tile_rows), $(words),
                    $(problem.centre));
    SPC_UNROLL
    for (int i = 0; i < $(config.depth); i++)
        look_ahead($(ahead("", "i")));
    SPC_UNROLL
    for (int i = 0; i < $(config.depth); i++)
        look_ahead($(ahead("next_", config.depth .. " + i")));
%  if not zero then
    SPC_UNROLL
    for (int i = 0; i < $(config.depth * width * row_registers); i++)
        data[i] = 0;
%  end
    /* Steps and indices come from the map, which was complete earlier. Only the
     * rows may come from the previous kernel. */
    spc_depend_wait();
    spc_depend_launch();
    SPC_UNROLL
    for (int i = 0; i < $(config.depth); i++) {
        gather(data + i * $(width * row_registers), row + i * $(width), in);
%  if problem.centre < 0 then
        load_end(end + i * $(width), code[i], position[i], order);
%  end
    }
%end
%-- In the loop: the step that takes the place of step i of the bundle at `place`.
%function write_next_loads()
            code[i] = next_code[i];
            SPC_UNROLL
            for (int n = 0; n < $(width); n++)
                row[i * $(width) + n] = next_row[i * $(width) + n];
            gather(data + i * $(width * row_registers), row + i * $(width), in);
%  if problem.centre < 0 then
            load_end(end + i * $(width), code[i], next_position[i], order);
%  end
            look_ahead($(ahead("next_", "place + i")));
%end
%
%-- Packing: computes the bytes of a row that k-step `step` reads.
%function write_step_choice(step)
% for i, choice in ipairs(steps) do
    if ($(step) == $(i - 1)) {
        at = $(choice.at);
        stride = $(choice.stride);
        pair = $(choice.pair and 1 or 0);
    }
% end
%end
