%-- Upper bounds of a processor: the rates of memory, caches, gathering and
%-- multiplying.
%template = {
%  summary = "measures the ceilings of a processor",
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

/*
 * A launch calls a kernel once for each thread that a GPU's block would have.
 * The first call does the work of the block and the others return at once. Each
 * block has its own part, which may stay in the caches of its core, as the data
 * of a layer may.
 */
enum {
    THREADS = 256,
    RATE_THREADS = 128,
    LANES = $(lanes),
    LARGE = 4 << 20
};

typedef float vec __attribute__((vector_size(LANES * 4)));
typedef unsigned words __attribute__((vector_size(LANES * 4), aligned(16)));

% for _, name in ipairs {"empty", "read", "read2", "write", "copy", "gather8", "gather16", "f32_fma"} do
void spc_$(name)(const spc_measure_args *args, unsigned x, unsigned y);
% end

void spc_empty(const spc_measure_args *args, unsigned x, unsigned y)
{
    (void)args;
    (void)x;
    (void)y;
}

/* The vectors of a block, in units of four `words`. */
static long long part_of(const spc_measure_args *args, long long block)
{
    return args->items * 16 / (LANES * 16) * block / args->blocks;
}

/* Uses the values, so that the compiler cannot drop the loads. */
static void use(const spc_measure_args *args, words v)
{
    if (v[0] == 0x5bc0ffeeu)
        *(unsigned *)args->to = v[1];
}

% local function stream(name, reads, writes)
void $(name)(const spc_measure_args *args, unsigned x, unsigned y)
{
    long long block = x / THREADS;
    long long from = part_of(args, block), to = part_of(args, block + 1);
    words v[4] = {{0}};

    (void)y;
    if (x % THREADS != 0)
        return;
    for (int pass = 0; pass < args->repeat; pass++) {
%   if writes then
        /* The C library writes blocks larger than all caches with stores that
         * bypass the caches. */
        if (to - from > LARGE / (LANES * 16)) {
            unsigned long bytes = (unsigned long)(to - from) * LANES * 16;
            void *begin = (words *)args->to + from * 4;
%     if reads then
            __builtin_memcpy(begin, (const words *)args->from + from * 4, bytes);
%     else
            __builtin_memset(begin, pass, bytes);
%     end
            continue;
        }
%   end
        for (long long i = from; i < to; i++) {
%   if reads then
            const words *at = (const words *)args->from + i * 4;
%   end
%   if writes then
            words *out = (words *)args->to + i * 4;
%   end
%   for j = 0, 3 do
%     if reads and writes then
            out[$(j)] = at[$(j)];
%     elseif reads then
            v[$(j)] ^= at[$(j)];
%     else
            out[$(j)] = v[$(j)];
%     end
%   end
        }
        /* Keeps the compiler from merging passes: memory may have changed. */
        __asm__ volatile("" ::: "memory");
    }
    use(args, v[0] ^ v[1] ^ v[2] ^ v[3]);
    args->work[block] =
        (to - from) * args->repeat * (LANES * 16 * $((reads and 1 or 0) + (writes and 1 or 0)));
}

% end
% stream("spc_read", true, false)
/* Another way to read: four streams at once. */
void spc_read2(const spc_measure_args *args, unsigned x, unsigned y)
{
    long long block = x / THREADS;
    long long from = part_of(args, block), to = part_of(args, block + 1);
    long long stride = to - from; /* in `words`: a quarter of the part */
    const words *at = (const words *)args->from + from * 4;
    words v[4] = {{0}};

    (void)y;
    if (x % THREADS != 0)
        return;
    for (int pass = 0; pass < args->repeat; pass++) {
        for (long long i = 0; i < stride; i++) {
            v[0] ^= at[i];
            v[1] ^= at[i + stride];
            v[2] ^= at[i + 2 * stride];
            v[3] ^= at[i + 3 * stride];
        }
        __asm__ volatile("" ::: "memory");
    }
    use(args, v[0] ^ v[1] ^ v[2] ^ v[3]);
    args->work[block] = stride * 4 * args->repeat * (LANES * 4);
}

% stream("spc_write", false, true)
% stream("spc_copy", true, true)
/* Rows narrower than a vector are read word by word. */
% for _, bytes in ipairs {8, 16} do
void spc_gather$(bytes)(const spc_measure_args *args, unsigned x, unsigned y)
{
    typedef unsigned word __attribute__((vector_size($(bytes))));
    long long block = x / THREADS, rows = args->items / args->blocks;
    unsigned mask = (unsigned)args->items - 1;
    int vectors = 1 << args->row_shift;
    const word *from = args->from;
    word sum[4] = {{0}};

    (void)y;
    if (x % THREADS != 0)
        return;
    for (int pass = 0; pass < args->repeat; pass++) {
        for (long long i = block * rows; i < (block + 1) * rows; i++) {
            /* An odd factor visits each of the 2^n rows once, in a scattered
             * order. */
            unsigned row = (unsigned)i * (args->scattered ? 2654435761u : 1u);
            const word *at = from + ((long long)(row & mask) << args->row_shift);
            if (vectors < 4)
                for (int j = 0; j < vectors; j++)
                    sum[j] ^= at[j];
            else
                for (int j = 0; j < vectors; j += 4) {
                    sum[0] ^= at[j];
                    sum[1] ^= at[j + 1];
                    sum[2] ^= at[j + 2];
                    sum[3] ^= at[j + 3];
                }
        }
        __asm__ volatile("" ::: "memory");
    }
    sum[0] ^= sum[1] ^ sum[2] ^ sum[3];
    if (sum[0][0] == 0x5bc0ffeeu)
        *(unsigned *)args->to = sum[0][1];
    args->work[block] = rows * args->repeat * vectors * $(bytes);
}

% end
void spc_f32_fma(const spc_measure_args *args, unsigned x, unsigned y)
{
    long long block = x / RATE_THREADS;
    vec a = {0}, b = {0}, sum = {0};

    (void)y;
    if (x % RATE_THREADS != 0)
        return;
    /* Zero, which the compiler does not know. */
    a += (float)args->zero;
    b += (float)args->zero + 0.5f;
    /* Twelve chains, which do not wait for each other. */
% for i = 0, 11 do
    vec d$(i) = a + $(i).0f;
% end
    /* One pass is enough work to be worth a call. */
    for (int pass = 0; pass < args->repeat; pass++)
        for (int i = 0; i < 64; i++) {
% for i = 0, 11 do
            d$(i) = d$(i) * a + b;
% end
        }
% for i = 0, 11 do
    sum += d$(i);
% end
    /* Uses the sums, so that the compiler cannot drop the work. */
    if (sum[0] == 1.5f)
        *(float *)args->to = sum[1];
    args->work[block] = (long long)args->repeat * $(64 * 12 * 2 * lanes);
}
