%-- Transposes the gradient of weights, for callers that keep weights as KRSC. Kernels of
%-- role "wgrad" write RSCK, a matrix [taps][cout] followed by the gradient of the bias.
%--
%-- A block transposes a square through shared memory, so that both its reads and its writes
%-- are of neighbouring elements. One more block copies the bias. The shape is no constant:
%-- one module serves all layers.
%
%template = {
%  summary = "gradients of weights between RSCK and KRSC",
%  role = "map",
%  device = "cuda",
%  params = {},
%  accepts = function(problem, target)
%    if problem.op ~= "transpose" then return false, "transposes matrices" end
%    return true
%  end,
%  constraints = {},
%  derive = function(problem, config, target) return {} end,
%  launch = function(problem, config, target) return {} end,
%  default = function(problem, target) return {} end,
%}
#include "spc_device.cuh"
#include "transpose_abi.h"

% for _, element in ipairs {"spc_u16", "spc_u32"} do
SPC_DEVICE void copy_tail_$(element)(const spc_transpose_args *args)
{
    long long matrix = args->rows * args->columns;
    const $(element) *from = (const $(element) *)args->from + matrix;
    $(element) *to = ($(element) *)args->to + matrix;

    for (long long i = spc_thread(); i < args->tail; i += SPC_TRANSPOSE_THREADS)
        to[i] = from[i];
}

SPC_DEVICE void transpose_$(element)(const spc_transpose_args *args)
{
    const $(element) *from = (const $(element) *)args->from;
    $(element) *to = ($(element) *)args->to, *tile = ($(element) *)spc_shared();
    long long across = (args->columns + SPC_TRANSPOSE_TILE - 1) / SPC_TRANSPOSE_TILE;
    long long row = spc_block_x() / across * SPC_TRANSPOSE_TILE;
    long long column = spc_block_x() % across * SPC_TRANSPOSE_TILE;
    int lane = spc_thread() % SPC_TRANSPOSE_TILE, first = spc_thread() / SPC_TRANSPOSE_TILE;

    if (row >= args->rows) { /* the same for all threads of the block */
        copy_tail_$(element)(args);
        return;
    }
    for (int i = first; i < SPC_TRANSPOSE_TILE; i += SPC_TRANSPOSE_THREADS / SPC_TRANSPOSE_TILE)
        if (row + i < args->rows && column + lane < args->columns)
            tile[i * SPC_TRANSPOSE_PITCH + lane] = from[(row + i) * args->columns + column + lane];
    spc_sync_block();
    for (int i = first; i < SPC_TRANSPOSE_TILE; i += SPC_TRANSPOSE_THREADS / SPC_TRANSPOSE_TILE)
        if (column + i < args->columns && row + lane < args->rows)
            to[(column + i) * args->rows + row + lane] = tile[lane * SPC_TRANSPOSE_PITCH + i];
}

% end
SPC_KERNEL(spc_transpose, spc_transpose_args, SPC_TRANSPOSE_THREADS, 1)
{
    spc_depend_wait(); /* the kernel before this one wrote `from` */
    if (args->element_bytes == 2)
        transpose_spc_u16(args);
    else
        transpose_spc_u32(args);
}
