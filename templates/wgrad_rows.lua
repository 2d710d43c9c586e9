%-- Rows that wgrad_mma and wgrad_tiles copy to shared memory, to read them transposed.
%
%include "wgrad.lua"
%
%function row_alignment(problem)
%  local element = element_bytes(problem)
%  return alignment_of(problem.cin * element, (problem.in_pitch or problem.cin) * element,
%                      problem.cout * element, add_pitch(problem) * element)
%end
%-- Bytes from row to row of a stage: so many that eight rows, or four rows of words, are
%-- in different banks.
%function pitch_of(problem, channels)
%  return channels * element_bytes(problem) + (element_bytes(problem) == 2 and 16 or 32)
%end
%
%function write_copy_piece()
/* Copies 16 bytes of a row from byte `at` on; of row -1, and past its `bytes`, zeroes. */
SPC_DEVICE void copy_piece(spc_u8 *to, const spc_u8 *from, int row, long long pitch,
                           int at, int bytes)
{
% if align == 16 then
    int valid = row >= 0 && at < bytes ? 16 : 0;
    spc_copy_async16(to, valid ? from + row * pitch + at : from, valid);
% else
    SPC_UNROLL
    for (int j = 0; j < 16; j += $(align)) {
        int valid = row >= 0 && at + j < bytes ? $(align) : 0;
        spc_copy_async$(align)(to + j, valid ? from + row * pitch + at + j : from, valid);
    }
% end
}

%end
