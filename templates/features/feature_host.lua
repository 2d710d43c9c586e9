%-- Code that the operators on features and their gradients share on a processor:
%-- elements as floats, the share of a block, batch elements and their moments.
%
%include "feature.lua"
%
%function write_host_access(half)
typedef $(half and "spc_" .. half or "float") element;

SPC_INLINE float get(const void *from, long long at)
{
    element stored = ((const element *)from)[at];

    return $(half and "spc_float_of_" .. half .. "(stored)" or "stored");
}

SPC_INLINE void put(void *to, long long at, float value)
{
    ((element *)to)[at] = $(half and "spc_" .. half .. "_of_float(value)" or "value");
}

/* The share of `items` for the block of call x. Only the first call of a block
 * has a share; it is empty for the other calls. */
typedef struct share {
    long long begin, end;
} share;

SPC_INLINE share share_of(const spc_feature_args *args, long long items,
                          unsigned x)
{
    long long block = x / SPC_FEATURE_THREADS;
    share s = {items * block / args->blocks, items * (block + 1) / args->blocks};

    if (x % SPC_FEATURE_THREADS != 0)
        s.end = s.begin;
    return s;
}

%end
%-- Writes a kernel that calls body(args, i) for each of `items`.
%function write_host_kernel(name, items, body)
void $(name)(const spc_feature_args *args, unsigned x, unsigned y);

void $(name)(const spc_feature_args *args, unsigned x, unsigned y)
{
    share s = share_of(args, $(items), x);

    (void)y;
    for (long long i = s.begin; i < s.end; i++)
        $(body)(args, i);
}

%end
%
%-- ---- batch elements ------------------------------------------------------------------
%
%function write_host_elements()
/* Returns the first voxel of batch element `batch` or of a later element. */
static int find_batch(const spc_feature_args *args, int batch)
{
    int low = 0, high = *args->count;

    while (low < high) {
        int middle = low + (high - low) / 2;
        if (coordinate_of(args, middle, 0) < batch)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The range of an element's voxels, and its division into parts. */
typedef struct extent {
    int begin, end, part_rows;
} extent;

static extent find_element(const spc_feature_args *args, int batch)
{
    extent e = {find_batch(args, batch), find_batch(args, batch + 1), 0};

    e.part_rows = (e.end - e.begin + SPC_FEATURE_PARTS - 1) / SPC_FEATURE_PARTS;
    if (e.part_rows < SPC_FEATURE_PART_ROWS)
        e.part_rows = SPC_FEATURE_PART_ROWS;
    return e;
}

/* Part `i` of the parts of all elements. It is empty past the last part of an
 * element. */
static extent find_part(const spc_feature_args *args, long long i)
{
    extent e = find_element(args, (int)(i / SPC_FEATURE_PARTS));
    long long begin = e.begin + i % SPC_FEATURE_PARTS * e.part_rows;

    e.begin = begin < e.end ? (int)begin : e.end;
    if (e.end - e.begin > e.part_rows)
        e.end = e.begin + e.part_rows;
    return e;
}

#define ALL_PARTS (long long)args->batches * SPC_FEATURE_PARTS

%end
%-- Writes kernels that compute the moments of the groups of a batch element.
%function write_host_moments(problem)
enum { GROUPS = $(problem.groups), GROUP = CHANNELS / GROUPS };

/* Each channel is summed separately, so that the loop can be vectorised. Then
 * the channels of each group are joined. */
static void join_channels(float *out, const float *channels)
{
    for (int group = 0; group < GROUPS; group++) {
        out[group] = 0;
        for (int c = 0; c < GROUP; c++)
            out[group] += channels[group * GROUP + c];
    }
}

/* The mean of each group, and its sum of squared deviations. */
static void sum_part(const spc_feature_args *args, long long i)
{
    extent e = find_part(args, i);
    float sum[CHANNELS] = {0}, squares[CHANNELS] = {0}, mean[CHANNELS];
    float groups[GROUPS], rows = (float)(e.end - e.begin);
    float *to = args->parts + i * GROUPS * 2;

    for (int p = e.begin; p < e.end; p++)
        for (int c = 0; c < CHANNELS; c++)
            sum[c] += get(args->in, args->order[p] * args->in_pitch + c);
    join_channels(groups, sum);
    for (int c = 0; c < CHANNELS; c++)
        mean[c] = groups[c / GROUP] / (rows * (float)GROUP);
    for (int p = e.begin; p < e.end; p++)
        for (int c = 0; c < CHANNELS; c++) {
            float differ =
                get(args->in, args->order[p] * args->in_pitch + c) - mean[c];
            squares[c] += differ * differ;
        }
    join_channels(groups, squares);
    for (int group = 0; group < GROUPS && e.begin < e.end; group++) {
        to[2 * group] = mean[group * GROUP];
        to[2 * group + 1] = groups[group];
    }
}

%  write_host_kernel("spc_part", "ALL_PARTS", "sum_part")
/* The formula of Chan, Golub and LeVeque, 1979. */
static void join_parts(const spc_feature_args *args, long long i)
{
    long long batch = i / GROUPS, group = i % GROUPS;
    extent e = find_element(args, (int)batch);
    const float *parts =
        args->parts + (batch * SPC_FEATURE_PARTS * GROUPS + group) * 2;
    float n = 0, mean = 0, squares = 0;

    for (int begin = e.begin; begin < e.end; begin += e.part_rows) {
        int rows = e.end - begin < e.part_rows ? e.end - begin : e.part_rows;
        float more = (float)rows * (float)GROUP;
        float differ = parts[0] - mean, share = more / (n + more);
        mean += differ * share;
        squares += parts[1] + differ * differ * n * share;
        n += more;
        parts += GROUPS * 2;
    }
    if (n > 0) {
        args->moments[2 * i] = mean;
        args->moments[2 * i + 1] = feature_rsqrt(squares / n + args->eps);
    }
}

%  write_host_kernel("spc_join", "(long long)args->batches * GROUPS", "join_parts")
%end
