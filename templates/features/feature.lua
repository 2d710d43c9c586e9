%-- Code that the operators on features share: number formats, accesses to several
%-- neighbouring elements at once, activations. Functions that write text take the device's
%-- names as arguments.
%
%include "epilogue.lua"
%
%-- For each type of a problem: the bytes of an element, and the functions that turn
%-- its bits into a float and back.
%local formats = {
%  f16 = {bytes = 2, element = "spc_u16", short = "f16", host = "half"},
%  bf16 = {bytes = 2, element = "spc_u16", short = "bf16", host = "bfloat"},
%  f32 = {bytes = 4, element = "float"},
%}
%function feature_format(problem) return formats[problem.dtype] end
%
%-- The name of a gradient contains its pass: "pool,dgrad".
%function accepts_feature(problem, ops)
%  local name = problem.op
%  if problem.pass then name = name .. "," .. problem.pass end
%  for _, op in ipairs(ops) do
%    if name == op then
%      if not formats[problem.dtype] then return false, "takes f16, bf16 and f32" end
%      return true
%    end
%  end
%  return false, "is another operator's"
%end
%
%-- The largest power of two, up to 16, that divides the bytes of a row. Consecutive
%-- rows begin at multiples of it. The runtime computes the same (feature_plan.c).
%function natural(bytes)
%  local at = 16
%  while bytes % at ~= 0 do at = at // 2 end
%  return at
%end
%function natural_elements(problem, elements)
%  local bytes = formats[problem.dtype].bytes
%  return natural(elements * bytes) // bytes
%end
%-- Rows at arbitrary addresses need separate kernels that move single elements, unless
%-- the ordinary kernels move single elements anyway.
%function needs_single(problem, inputs, outputs)
%  return natural_elements(problem, inputs) > 1 or natural_elements(problem, outputs) > 1
%end
%
%-- ---- elements in memory, on a GPU ----------------------------------------------------
%
%local words = {
%  [2] = {load = "spc_u16", names = {""}},
%  [4] = {load = "spc_u32", names = {""}},
%  [8] = {load = "spc_b8", names = {".x", ".y"}},
%  [16] = {load = "spc_b16", names = {".x", ".y", ".z", ".w"}},
%}
%
%-- Access to n neighbouring elements: the type that holds them in memory, and how to
%-- read it.
%function piece_type(problem, n) return words[n * formats[problem.dtype].bytes].load end
%function read_piece(problem, n, from, at)
%  local bytes = formats[problem.dtype].bytes
%  return ("spc_load%d((const char *)%s + (%s) * %d)"):format(n * bytes, from, at, bytes)
%end
%
%-- unpack<n>, load<n>, store<n>: take n neighbouring elements out of a piece, load
%-- them from memory, store them to memory.
%function write_access(problem, n)
%  local bytes = formats[problem.dtype].bytes
%  local all = words[n * bytes]
%  local half = formats[problem.dtype].short
SPC_DEVICE void unpack$(n)(float *v, $(all.load) w)
{
%  if half and n == 1 then
    v[0] = spc_$(half)_to_f32(w);
%  else
%    for i, name in ipairs(all.names) do
%      if half then
    v[$(2 * i - 2)] = spc_$(half)_to_f32((spc_u16)w$(name));
    v[$(2 * i - 1)] = spc_$(half)_to_f32((spc_u16)(w$(name) >> 16));
%      else
    v[$(i - 1)] = spc_bits_f32(w$(name));
%      end
%    end
%  end
}

SPC_DEVICE void load$(n)(float *v, const void *from, long long at)
{
    unpack$(n)(v, $(read_piece(problem, n, "from", "at")));
}

SPC_DEVICE void store$(n)(void *to, long long at, const float *v)
{
    $(all.load) w;
%  if half and n == 1 then
    w = spc_f32_to_$(half)(v[0]);
%  else
%    for i, name in ipairs(all.names) do
%      if half then
    w$(name) = spc_pack_$(half)(v[$(2 * i - 2)], v[$(2 * i - 1)]);
%      else
    w$(name) = spc_f32_bits(v[$(i - 1)]);
%      end
%    end
%  end
    spc_store$(n * bytes)((char *)to + at * $(bytes), w);
}

%end
%-- Writes the accesses of all sizes listed, each once.
%function write_accesses(problem, sizes)
%  local done = {}
%  for _, n in ipairs(sizes) do
%    if not done[n] then write_access(problem, n) end
%    done[n] = true
%  end
%end
%
%-- load_floats<n>: loads n floats, such as the scales of neighbouring channels, with as few
%-- loads as possible. The floats belong to a piece of a row. If the piece is moved as a
%-- whole, its scales begin at a multiple of their size, up to 16 bytes (feature_plan.c).
%function write_float_loads(...)
%  local done = {}
%  for _, n in ipairs({...}) do
%    local width = math.min(n, 4)
%    local all = words[width * 4]
%    if not done[n] then
SPC_DEVICE void load_floats$(n)(float *v, const float *from)
{
%      if n == 1 then
    v[0] = spc_load_f32(from);
%      else
    SPC_UNROLL
    for (int i = 0; i < $(n); i += $(width)) {
        $(all.load) w = spc_load$(width * 4)(from + i);

%        for i, name in ipairs(all.names) do
        v[i + $(i - 1)] = spc_bits_f32(w$(name));
%        end
    }
%      end
}

%    end
%    done[n] = true
%  end
%end
%
%-- ---- activations ---------------------------------------------------------------------
%
%-- activate(y, slope); `inline` is the device's function qualifier.
%function write_slope_activation(problem, inline)
$(inline) float activate(float y, float slope)
{
%  local of = problem.op == "actgrad" and derivative_of or activation_of
%  if problem.act ~= "leaky" and problem.act ~= "elu" then
    (void)slope;
%  end
    return $(of(problem.act or "none", "slope"));
}

%end
%
%-- ---- rows and coordinates --------------------------------------------------------------
%
%-- 1 / sqrt(x) by Newton's iteration. The first guess is within 4 %. After four steps
%-- only rounding errors remain, at most 2^-21 of the value.
%function write_rsqrt(inline, bits_float, float_bits)
$(inline) float feature_rsqrt(float x)
{
    float y = $(bits_float)(0x5f3759dfu - ($(float_bits)(x) >> 1));

% for i = 1, 4 do
    y = y * (1.5f - 0.5f * x * y * y);
% end
    return y;
}

%end
%-- The coordinate of voxel p along an axis, where voxels are in ascending order; axis
%-- 0 is the batch element. A GPU keeps short keys in 32 bits, the host keeps all keys
%-- in 64 bits.
%function write_coordinates(inline, on_host)
$(inline) int coordinate_of(const spc_feature_args *args, int p, int field)
{
%  if on_host then
    spc_u64 key = ((const spc_u64 *)args->keys)[p];
%  else
    spc_u64 key = args->key.bits > 32 ? ((const spc_u64 *)args->keys)[p]
                                      : ((const unsigned *)args->keys)[p];
%  end
    unsigned value =
        (unsigned)(key >> args->key.shift[field]) & args->key.wide[field];

    return (int)(value - args->key.before[field]) + args->key.low[field];
}

%end
%-- The number of rows for operators that work row by row.
%function write_rows_given(inline)
$(inline) int rows_given(const spc_feature_args *args)
{
    int rows = *args->rows;

    return rows <= args->capacity ? rows : 0;
}

%end
