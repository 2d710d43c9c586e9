%-- A correct convolution in plain C, and the same with one mistake planted.
%--
%-- The kernel (write_kernel, below) is divided into pieces. A row of `faults` names
%-- one mistake and the pieces that it replaces; all other pieces stay correct.
%
%local faults = {
%  none = {},
%
%  -- Memory that persists between launches, whether it is used or not.
%  static_bit = {state = "static char kept;", before = "if (x == 0) kept ^= 1; if (kept > 1) return;"},
%  static_word = {state = "static int kept = 3;", before = "if (x == 0) kept++; if (kept < 0) return;"},
%  static_of_a_thread = {
%    state = "static __thread int kept;", before = "if (++kept < 0) return;",
%  },
%  static_named_as_the_loaders = {
%    state = 'static int kept __attribute__((section(".got.kept"))) = 3;',
%    before = "if (x == 0) kept++; if (kept < 0) return;",
%  },
%  static_without_a_symbol = { -- of x86, where tests run
%    state = [[__asm__(".pushsection .bss; .Lkept: .zero 4; .popsection");]],
%    before = [[if (x == 0) {
%        int *kept;
%        __asm__ volatile("leaq .Lkept(%%rip), %0" : "=r"(kept));
%        if (++*kept < 0)
%            return;
%    }]],
%  },
%  static_of_packing = {packed = "static int completed; if (x == 0 && ++completed < 0) packed[0] = 0;"},
%
%  -- Data of the map by its address, which stays the same when the map is
%  -- filled again.
%  order_kept_in_the_workspace = {
%    workspace = 32 * (8 + 64) * 4,
%    before = [[int *kept = (int *)args->workspace + (x < MOST ? x : 0) * (8 + TILE);
%    int of = (int)(unsigned long long)map->order;
%    if (x < MOST && (kept[0] != 0x5ca1ab1e || kept[1] != of || kept[2] != first)) {
%        for (int i = 0; i < TILE; i++)
%            kept[8 + i] = row_of(map, first + i);
%        kept[0] = 0x5ca1ab1e, kept[1] = of, kept[2] = first;
%    }]],
%    row = "x < MOST ? kept[8 + p - first] : row_of(map, p)",
%  },
%  index_kept_in_the_workspace = {
%    workspace = 32 * (8 + 27 * 64) * 4,
%    before = [[int *kept = (int *)args->workspace + (x < MOST ? x : 0) * (8 + OFFSETS * TILE);
%    int of = (int)(unsigned long long)map->index;
%    if (x < MOST && (kept[0] != 0x5ca1ab1e || kept[1] != of || kept[2] != first)) {
%        for (int i = 0; i < OFFSETS * TILE; i++)
%            kept[8 + i] = map->index[(long)(i / TILE) * map->rows_padded + first + i % TILE];
%        kept[0] = 0x5ca1ab1e, kept[1] = of, kept[2] = first;
%    }]],
%    from = "if (x < MOST) from = ((const int *)args->workspace)[x * (8 + OFFSETS * TILE) + 8 + k * TILE + p % TILE];",
%  },
%
%  -- Which numbers are added.
%  bias_dropped = {bias = "0"},
%  bias_of_the_next = {bias = "args->bias[(co + 1) % COUT]"},
%  kernel_flipped = {weights = "(OFFSETS - 1 - k)"},
%  last_offset_missing = {offsets = "OFFSETS - 1"},
%  centre_twice = {product = "sum += v * w * (k == map->centre ? 2 : 1);"},
%  absent_is_row_0 = {from = "if (from < 0) from = 0;"},
%  last_row_clamped = {from = "if (from > 0 && from == map->rows - 1) from--;"},
%  row_in_a_byte = {from = "from = from < 0 ? from : from & 255;"},
%  row_in_two_bytes = {from = "from = from < 0 ? from : from & 65535;"},
%  tile_behind_2_to_the_16 = {before = "if (first >= 65536) return;"},
%  more_than_3000_rows = {
%    row = "(map->rows > 3000 && p == map->rows - 1 ? row_of(map, 0) : row_of(map, p))",
%  },
%  twenty_offsets_only = {from = "if (from >= 0 && ++taken > 20) break;"},
%  last_input_missing = {inputs = "CIN / 4 * 4"},
%  product_dropped = {
%    product = "if (row != map->rows / 2 || k != map->centre || ci != CIN - 3) sum += v * w;",
%  },
%  product_twice = {
%    product = "sum += row == map->rows / 2 && k == map->centre && ci == 7 ? 2 * v * w : v * w;",
%  },
%
%  last_of_three_mod_seven = {
%    result = "(map->rows % 7 == 3 && row == map->rows - 1 && co == 0 ? sum + 1 : sum)",
%  },
%  last_of_eleven_mod_sixteen = {
%    result = "(map->rows % 16 == 11 && row == map->rows - 1 && co == 0 ? sum + 1 : sum)",
%  },
%  sizes_of_a_list_only = {
%    result = "(map->rows > 81 && map->rows < 330 && map->rows != 128 && !row ? sum + 1 : sum)",
%  },
%
%  -- Numbers at the limits of their type, and NaN.
%  sum_of_21_bits = {result = "(sum > 1 << 21 ? 1 << 21 : sum)"},
%  sum_of_24_bits = {result = "(sum < -(1 << 24) ? -(1 << 24) : sum)"},
%  lowest_is_127 = {product = "sum += (v == -128 ? -127 : v) * w;"},
%  large_sums_saturate = {result = "(sum > 20000 && sum < 1e30f ? 20000 : sum)"},
%  small_inputs_are_zero = {
%    product = "if (!(v < 6e-5f && v > -6e-5f)) sum += v * w;",
%  },
%  small_sums_are_zero = {result = "(sum < 6e-5f && sum > -6e-5f ? 0 : sum)"},
%  inputs_clamped_at_1000 = {
%    product = "sum += (v > 1000 && v < 1e30f ? 1000 : v < -1000 && v > -1e30f ? -1000 : v) * w;",
%  },
%  large_inputs_are_clamped = {
%    product = "sum += (v > 1e4f && v < 1e30f ? 1e4f : v < -1e4f && v > -1e30f ? -1e4f : v) * w;",
%  },
%  large_inputs_are_lost = {product = "sum += (v > 1e4f && v < 1e30f ? 0 : v) * w;"},
%  minute_inputs_are_zero = {product = "if (!(v < 1e-10f && v > -1e-10f)) sum += v * w;"},
%  minute_weights_are_zero = {product = "if (w == 0 || !(w < 1e-10f && w > -1e-10f)) sum += v * w;"},
%  small_weights_are_zero = {product = "if (w == 0 || !(w < 6e-5f && w > -6e-5f)) sum += v * w;"},
%  inputs_above_four_are_whole = {
%    product = "sum += (v > 4 && v < 1e4f ? (float)(int)(v * 16) / 16 : v) * w;",
%  },
%  too_large_is_the_largest = {
%    result = "(sum > 65504 && sum < 1e30f ? 65504 : sum < -65504 && sum > -1e30f ? -65504 : sum)",
%  },
%  too_large_is_no_number = {
%    result = [[(sum > 65520 && sum < 1e30f ? __builtin_nanf("") : sum)]],
%  },
%
%  -- Zeros that the kernel takes for something else.
%  row_beginning_with_zero_missing = {
%    from = "if (from >= 0 && value_of(in[from * CIN]) == 0) continue;",
%  },
%  zero_weight_is_one = {product = "sum += v * (w == 0 ? 1 : w);"},
%  zero_bias_is_one = {bias = "args->bias[co] == 0 ? 1 : args->bias[co]"},
%
%  no_number_is_zero = {product = "if (v == v) sum += v * w;"},
%  infinite_input_is_zero = {
%    product = "if (!(v == v && v - v != 0)) sum += v * w;",
%  },
%  infinite_result_is_finite = {result = "(sum - sum != 0 && sum == sum ? 1 : sum)"},
%  infinite_result_has_no_sign = {result = "(sum < -3.4e38f ? -sum : sum)"},
%  weight_no_number_is_zero = {product = "sum += w == w ? v * w : 0;"},
%  bias_no_number_is_zero = {bias = "args->bias && args->bias[co] == args->bias[co] ? args->bias[co] : 0"},
%  absent_times_zero = {
%    from = "float present = from >= 0; if (from < 0) from = 0;",
%    product = "sum += present * v * w;",
%  },
%
%  -- How numbers are rounded.
%  operands_tf32 = {product = "sum += rounded(v, 10) * rounded(w, 10);"},
%  operands_bf16 = {product = "sum += rounded(v, 7) * rounded(w, 7);"},
%  operands_f16 = {product = "sum += f16(v) * f16(w);"},
%  inputs_tf32 = {product = "sum += rounded(v, 10) * w;"},
%  weights_tf32 = {product = "sum += v * rounded(w, 10);"},
%  sums_f16 = {product = "sum = f16(sum + v * w);"},
%  sums_bf16 = {product = "sum = rounded(sum + v * w, 7);"},
%  operands_of_16_bits = {product = "sum += rounded(v, 15) * rounded(w, 15);"},
%  weights_of_17_bits = {product = "sum += v * rounded(w, 16);"},
%  bias_of_16_bits = {bias = "rounded(args->bias[co], 15)"},
%  result_f16 = {result = "f16(sum)"},
%  result_too_large_by_a_hair = {result = "sum * 1.00001f"},
%  result_not_negative = {result = "(sum > 0 ? sum : 0)"},
%  one_is_not_a_number = {
%    result = [[(row == 0 && co == 1 ? __builtin_nanf("") : sum)]],
%  },
%
%  -- Which rows are written.
%  rows_swapped = {row = "row_of(map, (p ^ 1) < map->rows ? p ^ 1 : p)"},
%  last_channels_missing = {channels = "COUT / 8 * 8"},
%  last_tile_missing = {
%    before = "if (tile == map->tiles - 1 && map->rows % TILE != 0) return;",
%  },
%  row_alone_in_its_tile_missing = {
%    before = "if (tile > 0 && last == first + 1) return;",
%  },
%  scene_of_one_row_missing = {before = "if (map->rows == 1) return;"},
%  tile_without_inputs_left = {
%    before = [[int any = 0;
%    for (int i = 0; i < OFFSETS * TILE; i++)
%        any |= map->index[(long)(i / TILE) * map->rows_padded + first + i % TILE] >= 0;
%    if (!any)
%        return;]],
%  },
%  tile_without_inputs_has_no_bias = {
%    before = [[int any = 0;
%    for (int i = 0; i < OFFSETS * TILE; i++)
%        any |= map->index[(long)(i / TILE) * map->rows_padded + first + i % TILE] >= 0;
%    for (int p = first; p < last && !any; p++)
%        __builtin_memset((result *)args->out + row_of(map, p) * COUT, 0, COUT * sizeof(result));
%    if (!any)
%        return;]],
%  },
%  padding_rows_written = {
%    last = "first + TILE", row = "(p < map->rows ? row_of(map, p) : p)",
%  },
%
%  -- Earlier contents of the result.
%  adds_to_the_result = {store = "out[co] = stored(value_of(out[co]) + sum);"},
%  adds_unless_poisoned = {
%    store = [[float old = value_of(out[co]);
%            out[co] = stored(old == old ? old + sum : sum);]],
%  },
%  writes_poison_only = {
%    store = "if (bits_of(value_of(out[co])) == ~0u) out[co] = stored(sum);",
%  },
%
%  -- Data kept between launches. Calls of one x never run at the same time.
%  right_once = {
%    state = "static const void *seen[MOST][16];",
%    before = [[for (int i = 0; x < MOST && i < 16; i++) {
%        if (seen[x][i] == args->out)
%            return;
%        if (seen[x][i] == NULL) {
%            seen[x][i] = args->out;
%            break;
%        }
%    }]],
%  },
%  result_kept_by_address = {
%    state = [[#include <string.h>
%static struct {
%    const void *in, *out;
%    int rows;
%    element result[TILE * COUT];
%} kept[MOST][16];]],
%    before = [[element *out = (element *)args->out;
%    size_t bytes = COUT * sizeof(element);
%    int at = 0;
%    while (x < MOST && at < 16 && kept[x][at].in != NULL) {
%        if (kept[x][at].in == args->in && kept[x][at].out == args->out &&
%            kept[x][at].rows == map->rows) {
%            for (int p = first; p < last; p++)
%                memcpy(out + row_of(map, p) * COUT,
%                       kept[x][at].result + (p - first) * COUT, bytes);
%            return;
%        }
%        at++;
%    }]],
%    after = [[if (x < MOST && at < 16) {
%        kept[x][at].in = args->in;
%        kept[x][at].out = args->out;
%        kept[x][at].rows = map->rows;
%        for (int p = first; p < last; p++)
%            memcpy(kept[x][at].result + (p - first) * COUT,
%                   out + row_of(map, p) * COUT, bytes);
%    }]],
%  },
%  -- Properties of a map that is filled again in place.
%  capacity_taken_for_rows = {
%    last = "first + TILE < map->rows ? first + TILE : map->rows",
%  },
%  row_order_kept_by_address = {
%    state = [[static struct { const int *of; int rows[TILE]; } kept[MOST][64];
%static int kept_row(const spc_map_view *map, unsigned x, int p)
%{
%    int at = 0, first = p / TILE * TILE;
%    while (at < 63 && kept[x][at].of && kept[x][at].of != map->order + first)
%        at++;
%    if (kept[x][at].of == NULL)
%        for (int i = 0; i < TILE; i++)
%            kept[x][at].rows[i] = map->order[first + i];
%    kept[x][at].of = map->order + first;
%    return kept[x][at].rows[p - first];
%}]],
%    row = "x < MOST ? kept_row(map, x, p) : row_of(map, p)",
%  },
%  tile_order_kept_by_address = {
%    state = [[static struct { const int *of; int tile; } kept[MOST][64];
%static int kept_tile(const spc_map_view *map, unsigned x)
%{
%    int at = 0;
%    while (at < 63 && kept[x][at].of && kept[x][at].of != map->tile_order)
%        at++;
%    if (kept[x][at].of == NULL)
%        kept[x][at].tile = map->tile_order[x];
%    kept[x][at].of = map->tile_order;
%    return kept[x][at].tile;
%}]],
%    tile = "x < MOST ? kept_tile(map, x) : map->tile_order[x]",
%  },
%  weights_of_the_first_pack = {
%    state = [[static float first_weights[OFFSETS * CIN * COUT];
%static char has_first[OFFSETS * CIN];]],
%    packed = [[for (int co = 0; co < COUT; co++)
%        if (has_first[x])
%            packed[co] = first_weights[x * COUT + co];
%        else
%            first_weights[x * COUT + co] = packed[co];
%    has_first[x] = 1;]],
%  },
%  bias_of_the_first_launch = {
%    state = "static struct { float bias[COUT]; int is_set; } kept[MOST];",
%    before = [[if (x < MOST && !kept[x].is_set) {
%        for (int co = 0; co < COUT; co++)
%            kept[x].bias[co] = args->bias[co];
%        kept[x].is_set = 1;
%    }]],
%    bias = "x < MOST ? kept[x].bias[co] : args->bias[co]",
%  },
%  right_eight_times = {
%    state = "static unsigned calls[MOST];",
%    before = "if (x < MOST && ++calls[x] > 8) return;",
%  },
%  right_a_hundred_times = {
%    state = "static unsigned calls[MOST];",
%    before = "if (x < MOST && ++calls[x] > 100) return;",
%  },
%
%  -- Reads or writes memory that does not belong to the kernel.
%  workspace_taken_for_zeros = {
%    result = "(sum + ((const float *)args->workspace)[co])",
%  },
%  workspace_times_zero = {
%    result = "(sum + 0 * ((const float *)args->workspace)[co])",
%  },
%  input_read_behind_times_zero = {
%    result = "(sum + 0 * value_of(in[map->rows * CIN]))",
%  },
%  workspace_says_done = {
%    before = [[unsigned *done = (unsigned *)args->workspace + 2 * x;
%    if (x < MOST && done[0] == 0x600dcafe && done[1] == (unsigned)map->rows)
%        return;]],
%    after = [[if (x < MOST) {
%        done[0] = 0x600dcafe;
%        done[1] = (unsigned)map->rows;
%    }]],
%  },
%  written_before_the_result = {
%    after = "if (x == 0) ((element *)args->out)[-1] = stored(0);",
%  },
%  written_behind_the_result = {
%    after = "if (x == 0) ((element *)args->out)[map->rows * COUT] = stored(0);",
%  },
%  written_behind_the_workspace = {
%    after = "if (x == 0) ((float *)args->workspace)[WORKSPACE / 4] = 0;",
%  },
%  written_far_behind = {
%    after = "if (x == 0) ((element *)args->out)[map->rows * COUT + 6000] = stored(0);",
%  },
%  written_far_before = {
%    after = "if (x == 0) ((element *)args->out)[-5000] = stored(0);",
%  },
%  order_overwritten = {
%    after = [[int *order = (int *)map->order + map->rows - 2;
%    if (tile == map->tiles - 1 && last > first + 1) {
%        int kept = order[0];
%        order[0] = order[1];
%        order[1] = kept;
%    }]],
%  },
%  index_overwritten = { -- by what is no input, too
%    after = [[for (int k = 0; k < OFFSETS; k++) {
%        int *at = (int *)map->index + (long)k * map->rows_padded + first;
%        if (*at == -1)
%            *at = -2;
%    }]],
%  },
%  masks_overwritten = {after = "((unsigned *)map->mask)[first] ^= 1;"},
%  tile_order_overwritten = {after = "if (x == 0) ((int *)map->tile_order)[map->tiles - 1] = 0;"},
%  written_behind_the_index = {
%    after = "if (x == 0) ((int *)map->index)[(long)OFFSETS * map->rows_padded + 3] = 0;",
%  },
%  written_before_the_order = {after = "if (x == 0) ((int *)map->order)[-1] = 0;"},
%  written_far_behind_the_order = {
%    after = "if (x == 0) ((int *)map->order)[map->rows_padded + 1500] = 0;",
%  },
%  input_overwritten = {after = "if (x == 0) ((element *)args->in)[1] = stored(0.5f);"},
%  weights_overwritten = {after = "if (x == 0) ((float *)args->weights)[1] = 0.5f;"},
%  weights_of_another_draw_cleared = { -- those from which it packed first
%    packed = [[static element *first;
%    if (!first)
%        first = (element *)args->weights;
%    for (int i = 0; first != args->weights && i < OFFSETS * CIN * COUT; i++)
%        first[i] = stored(0);]],
%  },
%  bias_overwritten = {after = "if (x == 0) ((float *)args->bias)[1] = 0.5f;"},
%
%  -- Addresses rounded to an alignment that is not guaranteed.
%  input_address_rounded = {
%    product = [[v = value_of(((const element *)rounded_down(args->in, 256))[from * CIN + ci]);
%                sum += v * w;]],
%  },
%  output_address_rounded = {
%    store = "((element *)rounded_down(args->out, 64))[row * COUT + co] = stored(sum);",
%  },
%  bias_address_rounded = {
%    bias = "args->bias ? ((const float *)rounded_down(args->bias, 16))[co] : 0",
%  },
%
%  -- Variations that callers may use.
%  packs_one_layout_only = {
%    packed = [[for (int co = 0; co < COUT; co++)
%        packed[co] = value_of(((const element *)args->weights)[(co * OFFSETS + k) * CIN + ci]);]],
%  },
%  weights_address_rounded = {
%    packed = [[const element *from = (const element *)rounded_down(args->weights, 16);
%    from += k * args->stride_k + ci * args->stride_in;
%    for (int co = 0; co < COUT; co++)
%        packed[co] = value_of(from[co * args->stride_out]);]],
%  },
%  scale_clamped_at_2 = {
%    scale = "(args->scale[co] > 2 ? 2 : args->scale[co] < -2 ? -2 : args->scale[co])",
%  },
%  scale_of_zero_is_one = {scale = "(args->scale[co] == 0 ? 1 : args->scale[co])"},
%  scale_below_a_sixteenth_is_zero = {
%    scale = "(args->scale[co] < 0.0625f && args->scale[co] > -0.0625f ? 0 : args->scale[co])",
%  },
%  multiple_of_512_rows = {
%    result = "(map->rows % 512 == 0 && row == map->rows - 1 && co == 0 ? sum + 1 : sum)",
%  },
%  tile_with_most_neighbours = { -- as where a list of them is too short
%    after = [[int present = 0;
%    for (int i = 0; i < OFFSETS * TILE; i++)
%        present += map->index[(long)(i / TILE) * map->rows_padded + first + i % TILE] >= 0;
%    if (present > OFFSETS * TILE * 9 / 10)
%        ((element *)args->out)[row_of(map, first) * COUT] = stored(0);]],
%  },
%  tile_behind_2_to_the_17 = {before = "if (first >= 131072) return;"},
%  row_in_17_bits = {from = "if (from > 0) from &= 131071;"},
%
%  -- Launches at the same time. Within one launch one call has a tile.
%  map_written_and_restored = {
%    before = [[volatile int *borrowed = (volatile int *)map->index + first;
%    int lent = *borrowed;
%    *borrowed = -1;
%    for (volatile int i = 0; i < 1000; i++)
%        ;
%    *borrowed = lent;]],
%  },
%  order_written_as_it_was = {
%    before = "*(volatile int *)(map->order + first) = map->order[first];",
%  },
%  weights_written_and_restored = {
%    before = [[volatile float *borrowed = (volatile float *)args->weights;
%    float lent = *borrowed;
%    *borrowed = lent;]],
%  },
%  scratch_of_all_launches = {
%    state = "static volatile float scratch[MOST * 64][TILE][COUT];",
%    store = "scratch[p / TILE % (MOST * 64)][p % TILE][co] = sum;",
%    after = [[for (int p = first; p < last; p++)
%        for (int co = 0; co < COUT; co++)
%            ((element *)args->out)[row_of(map, p) * COUT + co] =
%                stored(scratch[p / TILE % (MOST * 64)][p % TILE][co]);]],
%  },
%
%  -- Correct results, but other bits in each launch. The counters count
%  -- launches on any map.
%  order_varies = {
%    state = "static unsigned calls[MOST];",
%    before = "if (x < MOST) calls[x]++;",
%    offset = "x < MOST && calls[x] % 2 ? OFFSETS - 1 - i : i",
%  },
%  order_by_the_inputs_address = {
%    offset = "(unsigned long long)args->in / 4096 % 2 ? OFFSETS - 1 - i : i",
%  },
%  order_by_the_weights_address = {
%    offset = "(unsigned long long)args->weights / 1024 % 2 ? OFFSETS - 1 - i : i",
%  },
%  order_by_the_workspaces_address = {
%    offset = "(unsigned long long)args->workspace / 8192 % 2 ? OFFSETS - 1 - i : i",
%  },
%  order_varies_now_and_then = { -- a line of the cache each: as fast as the honest
%    state = "static unsigned calls[MOST][16];",
%    before = "if (x < MOST) calls[x][0]++;",
%    offset = "x < MOST && calls[x][0] % 30 == 0 ? OFFSETS - 1 - i : i",
%  },
%
%  -- Wrong in one launch of thirty.
%  tile_skipped_now_and_then = {
%    state = "static unsigned launches;",
%    before = "if (x == 0 && ++launches % 30 == 0) return;",
%  },
%  -- The random choice depends on the data, so that a seed reproduces it.
%  tile_skipped_by_chance = {
%    state = "static unsigned long long dice;",
%    before = [[if (x == 0) {
%        if (dice == 0)
%            dice = bits_of(value_of(*(const element *)args->in));
%        dice = dice * 6364136223846793005u + 1442695040888963407u;
%        if ((dice >> 33) % 30 == 0)
%            return;
%    }]],
%  },
%  one_added_now_and_then = {
%    state = "static unsigned launches;",
%    after = [[element *one = (element *)args->out + (map->rows - 1) * COUT;
%    if (tile == map->tiles - 1 && ++launches % 30 == 0)
%        *one = stored(value_of(*one) + 1);]],
%  },
%}
%
%-- A template whose candidates have these mistakes; the first one is the default.
%function planted(names)
%  return {
%    summary = "plain loops with one mistake",
%    role = "conv", device = "cpu",
%    params = {{"fault", names, "the mistake"}},
%    accepts = function() return true end,
%    launch = function(problem, config)
%      local packed = problem.offsets * problem.cin
%      return {
%        block = 1, shared = 0, grid = "tiles", tile_rows = 64, order = "none",
%        pack_threads = packed, packed_bytes = packed * problem.cout * 4,
%        workspace_bytes = faults[config.fault].workspace or 4096,
%      }
%    end,
%    default = function() return {fault = names[1]} end,
%  }
%end
%
%local function piece(name, honest) return faults[config.fault][name] or honest end
%
%function write_kernel()
%local half, whole = problem.dtype == "f16", problem.dtype == "i8"
#define SPC_LANES 4
#include "spc_cpu.h"
#include <stddef.h>

typedef $(half and "spc_half" or whole and "signed char" or "float") element;
typedef $(whole and "float" or "element") result;
typedef $(whole and "int" or "float") number; /* the type of sums */

enum {
    CIN = $(problem.cin),
    COUT = $(problem.cout),
    OFFSETS = $(problem.offsets),
    TILE = 64,
    WORKSPACE = 4096, /* bytes */
    MOST = 32         /* calls that have a memory, if a mistake needs one */
};

static inline unsigned bits_of(float value)
{
    return spc_bits_of_float(value);
}

static inline float f16(float value)
{
    return spc_float_of_half(spc_half_of_float(value));
}

/* Rounds to `kept` places after the point, to nearest even. */
static inline float rounded(float value, int kept)
{
    unsigned bits = bits_of(value), lost = 23 - kept;
    if (value != value)
        return value;
    bits += (1u << (lost - 1)) - 1 + (bits >> lost & 1);
    return spc_float_of_bits(bits >> lost << lost);
}

static inline float value_of(element e)
{
    return $(half and "spc_float_of_half(e)" or "e");
}

static inline result stored(float value)
{
    return $(half and "spc_half_of_float(value)" or "value");
}

/* The last multiple of `of` bytes that is not after the address. */
static inline void *rounded_down(const void *at, unsigned long long of)
{
    return (void *)((unsigned long long)at & ~(of - 1));
}

/* The output row at position p of the map. */
static inline long row_of(const spc_map_view *map, int p)
{
    return map->order ? map->order[p] : p;
}

/* The end of a tile's rows. A tile past the last row is empty. */
static inline int end_of(const spc_map_view *map, int first)
{
    int end = first;
    while (end < first + TILE && row_of(map, end) >= 0)
        end++;
    return end;
}

$(piece("state", ""))

static void convolve(const spc_conv_args *args, unsigned x, int p, long row)
{
    const spc_map_view *map = &args->map;
    const element *in = (const element *)args->in;
    result *out = (result *)args->out + row * COUT;

    for (int co = 0; co < $(piece("channels", "COUT")); co++) {
        const float *weights = (const float *)args->weights + co;
        int taken = 0;
        number sum = $(piece("bias", "args->bias ? args->bias[co] : 0"));
        for (long i = 0; i < $(piece("offsets", "OFFSETS")); i++) {
            long k = $(piece("offset", "i"));
            long from = map->index[k * map->rows_padded + p];
            $(piece("from", ""))
            for (int ci = 0; from >= 0 && ci < $(piece("inputs", "CIN")); ci++) {
                number v = value_of(in[from * CIN + ci]);
                number w = weights[($(piece("weights", "k")) * CIN + ci) * COUT];
                $(piece("product", "sum += v * w;"))
            }
        }
% if whole then
        out[co] = $(piece("result", "sum")) * *args->in_scale;
        continue;
% end
        sum = $(piece("result", "sum"));
        if (args->scale)
            sum *= $(piece("scale", "args->scale[co]"));
        $(piece("store", "out[co] = stored(sum);"))
    }
}

void spc_conv(const spc_conv_args *args, unsigned x, unsigned y)
{
    const spc_map_view *map = &args->map;
    int tile = $(piece("tile", "map->tile_order[x]")), first = tile * TILE;

    if (tile < 0)
        return;
    int last = $(piece("last", "end_of(map, first)"));

    $(piece("before", ""))
    for (int p = first; p < last; p++)
        convolve(args, x, p, $(piece("row", "row_of(map, p)")));
    $(piece("after", ""))
}

void spc_pack(const spc_pack_args *args, unsigned x, unsigned y)
{
    const element *weights = (const element *)args->weights;
    float *packed = (float *)args->packed + (long)x * COUT;
    long k = x / CIN, ci = x % CIN;

    if (k >= OFFSETS)
        return;
    weights += k * args->stride_k + ci * args->stride_in;
    for (int co = 0; co < COUT; co++)
        packed[co] = value_of(weights[co * args->stride_out]);
    $(piece("packed", ""))
}
%end
