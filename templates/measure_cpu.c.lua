%-- Ceilings of a processor: copying, gathering out of cache, multiplying.
%template = {
%  summary = "measures copy, gather and multiply rates of a processor",
%  role = "measure",
%  device = "cpu",
%  params = {},
%  accepts = function(problem, target)
%    if problem.op ~= "measure" then return false, "measures the device only" end
%    return true
%  end,
%  constraints = {},
%  derive = function(problem, config, target)
%    return {lanes = math.max(target.vector_bytes, 16) // 4}
%  end,
%  launch = function() return {} end,
%  default = function() return {} end,
%}
#include "spc_abi.h"
#include "spc_measure.h"

/* A launch calls a kernel once for each thread that a GPU's block would have.
 * One call does the work of the block, the others nothing. */
enum { COPY_THREADS = 256, RATE_THREADS = 128 };

typedef float vec __attribute__((vector_size($(lanes * 4))));
typedef unsigned word4 __attribute__((vector_size(16)));

void spc_empty(const spc_measure_args *args, unsigned x, unsigned y);
void spc_copy(const spc_measure_args *args, unsigned x, unsigned y);
void spc_gather(const spc_measure_args *args, unsigned x, unsigned y);
void spc_rate_f32(const spc_measure_args *args, unsigned x, unsigned y);

void spc_empty(const spc_measure_args *args, unsigned x, unsigned y)
{
    (void)args;
    (void)x;
    (void)y;
}

void spc_copy(const spc_measure_args *args, unsigned x, unsigned y)
{
    long long block = x / COPY_THREADS;
    long long from = args->items * block / args->blocks;
    long long to = args->items * (block + 1) / args->blocks;

    if (x % COPY_THREADS == 0)
        __builtin_memcpy((word4 *)args->to + from,
                         (const word4 *)args->from + from,
                         (unsigned long)(to - from) * 16);
    (void)y;
}

void spc_gather(const spc_measure_args *args, unsigned x, unsigned y)
{
    long long block = x / COPY_THREADS;
    long long part = args->items / args->blocks, mask = args->items - 1;
    int vectors = 1 << args->row_shift;
    const word4 *from = args->from;
    word4 sum[4] = {{0}, {0}, {0}, {0}};

    if (x % COPY_THREADS != 0)
        return;
    for (int pass = 0; pass < args->repeat; pass++) {
        long long first = block * part + (long long)pass * 40503 * 64;
        for (long long i = 0; i < part; i++) {
            const word4 *row =
                from +
                ((long long)args->rows[(first + i) & mask] << args->row_shift);
            for (int j = 0; j < vectors; j += 4) {
                sum[0] ^= row[j];
                sum[1] ^= row[j + 1];
                sum[2] ^= row[j + 2];
                sum[3] ^= row[j + 3];
            }
        }
    }
    sum[0] ^= sum[1] ^ sum[2] ^ sum[3];
    if (sum[0][0] == 0x5bc0ffeeu)
        *(word4 *)args->to = sum[0];
    args->work[block] = part * args->repeat * vectors * 16;
    (void)y;
}

void spc_rate_f32(const spc_measure_args *args, unsigned x, unsigned y)
{
    long long block = x / RATE_THREADS;
    vec a = {0}, b = {0}, sum = {0};

    if (x % RATE_THREADS != 0)
        return;
    a += (float)args->row_shift;
    b += (float)args->row_shift + 0.5f;
% for i = 0, 11 do
    vec d$(i) = a + $(i).0f;
% end
    /* What a pass does is as much as a call is worth. */
    for (int pass = 0; pass < args->repeat; pass++)
        for (int i = 0; i < 64; i++) {
% for i = 0, 11 do
            d$(i) = d$(i) * a + b;
% end
        }
% for i = 0, 11 do
    sum += d$(i);
% end
    if (sum[0] == 1.5f)
        *(float *)args->to = sum[1];
    args->work[block] = (long long)args->repeat * $(64 * 12 * 2 * lanes);
    (void)y;
}
