%-- Rows as os_warp and os_group read them: a quad of lanes loads a row in pieces, each
%-- lane its part straight into the registers of its operands.
%
%include "os_common.lua"
%
%-- The pieces of a row: `bytes` for each lane (16, 8, 4) at byte `at` of the row,
%-- `left` bytes of the row remain there.
%function lane_pieces(problem)
%  local row = problem.cin * element_bytes(problem)
%  local align = 16
%  while row % align ~= 0 do align = align // 2 end
%  local pieces, at = {}, 0
%  while at < row do
%    local left, bytes = row - at, 4
%    if align >= 16 and left > 32 then bytes = 16
%    elseif align >= 8 and left > 16 then bytes = 8 end
%    pieces[#pieces + 1] = {at = at, bytes = bytes, left = left}
%    at = at + 4 * bytes
%  end
%  return pieces
%end
%
%-- One k-step multiplies two registers of a lane's piece (or one, and zero). Also
%-- returns the registers of a lane's part of a row. `lanes` of a quad have one.
%function k_steps(problem)
%  local steps, register = {}, 0
%  for _, piece in ipairs(lane_pieces(problem)) do
%    for i = 0, piece.bytes // 4 - 1, 2 do
%      steps[#steps + 1] = {at = piece.at + 4 * i, stride = piece.bytes,
%                           last = piece.at + piece.left,
%                           lanes = math.min(4, piece.left // piece.bytes),
%                           pair = piece.bytes > 4, register = register + i}
%    end
%    register = register + piece.bytes // 4
%  end
%  return steps, register
%end
%
%-- The place of lane 1 in every piece of a row; 0 if they are not of one size.
%function lane_bytes(problem)
%  local pieces = lane_pieces(problem)
%  for _, piece in ipairs(pieces) do
%    if piece.bytes ~= pieces[1].bytes then return 0 end
%  end
%  return pieces[1].bytes
%end
%-- Does a lane's number in its quad decide what it loads, besides where?
%function lanes_differ(problem)
%  for _, piece in ipairs(lane_pieces(problem)) do
%    if piece.left < 4 * piece.bytes then return true end
%  end
%  return lane_bytes(problem) == 0
%end
%-- The `in` of write_row_loads: where a lane's parts of the first row begin.
%function write_lane_base(opaque)
%  local from = "args->in"
%  if lane_bytes(problem) > 0 then
%    from = "(const spc_u8 *)args->in + (spc_lane() & 3) * " .. lane_bytes(problem)
%  end
%  if opaque then
    const spc_u8 *in = (const spc_u8 *)spc_base($(from));
%  else
    const spc_u8 *in = (const spc_u8 *)$(lane_bytes(problem) > 0 and "args->in + (spc_lane() & 3) * " .. lane_bytes(problem) or from);
%  end
%end
%
%-- Loads the parts of lane `q` of the row `from` into the variables place(0),
%-- place(1), ...; where `row` is none they become zero, or stay as they are.
%function write_row_loads(row, place, zero)
% local register, mixed = 0, lane_bytes(problem) == 0
% for _, piece in ipairs(lane_pieces(problem)) do
%   local lanes = piece.left // piece.bytes
%   for i = 0, zero and piece.bytes // 4 - 1 or -1 do
        $(place(register + i)) = 0;
%   end
        spc_load$(piece.bytes)_into(&$(place(register)), from + $(piece.at)$(mixed and " + q * " .. piece.bytes or ""),
                        $(lanes < 4 and "q < " .. lanes .. " ? " .. row .. " : -1" or row));
%   register = register + piece.bytes // 4
% end
%end
%
%-- Packing: what the k-step whose number `step` is reads of a row.
%function write_step_choice(step)
% for i, choice in ipairs(steps) do
    if ($(step) == $(i - 1)) {
        at = $(choice.at);
        stride = $(choice.stride);
        last = $(choice.last);
        pair = $(choice.pair and 1 or 0);
    }
% end
%end
