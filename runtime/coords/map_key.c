/* map_key.c - choosing how coordinates are packed into keys. */
#include "error.h"
#include "map_builder.h"

static const char *const field_names[4] = {"batch", "x", "y", "z"};

/* Bits that hold `values` different values. */
static int bits_for(uint64_t values)
{
    int bits = 0;

    while (bits < 64 && ((uint64_t)1 << bits) < values)
        bits++;
    return bits;
}

/* The field that asks for most: what a caller would have to shrink. */
static int widest(const spc__key_layout *key)
{
    int at = 0;

    for (int i = 1; i < 4; i++)
        if (key->bits[i] > key->bits[at])
            at = i;
    return at;
}

static uint32_t largest_accepted(const spc__key_layout *key, int field,
                                 int64_t after)
{
    /* Past INT32_MAX there is nothing to accept. Stopping there also makes
     * the kernels' test in wrapping 32-bit arithmetic exact. */
    uint64_t room = (uint64_t)((int64_t)INT32_MAX - key->low[field]);

    if (key->bits[field] >= 63)
        return (uint32_t)room;
    uint64_t last = ((uint64_t)1 << key->bits[field]) -
                    (uint64_t)(key->before[field] + after) - 1;
    return (uint32_t)(last < room ? last : room);
}

spc_status spc__key_layout_choose(spc__key_layout *out, const spc_conv *conv,
                                  const int32_t low[4], const int32_t high[4],
                                  spc_error *error)
{
    int64_t after[4] = {0};

    *out = (spc__key_layout){0};
    for (int i = 0; i < 4; i++) {
        int kernel = i ? conv->geometry.kernel[i - 1] : 1;
        int64_t dilation = i ? conv->geometry.dilation[i - 1] : 1;
        out->low[i] = low[i];
        out->before[i] = dilation * ((kernel - 1) / 2);
        after[i] = dilation * (kernel - 1) - out->before[i];
        out->bits[i] = bits_for((uint64_t)((int64_t)high[i] - low[i] + 1) +
                                (uint64_t)(out->before[i] + after[i]));
        out->total_bits += out->bits[i];
    }
    if (out->total_bits > 64) {
        int at = widest(out);
        return spc__fail(
            error, SPC_ERANGE,
            "the coordinates do not fit a 64-bit key: %s, from %d to %d with "
            "the kernel's reach, needs %d bits of the %d that all fields need "
            "together (batch %d, x %d, y %d, z %d); %s",
            field_names[at], (int)low[at], (int)high[at], out->bits[at],
            out->total_bits, out->bits[0], out->bits[1], out->bits[2],
            out->bits[3],
            at == 0 ? "number the batches 0, 1, 2, ..."
                    : "remove outliers or split the scene");
    }
    for (int i = 0; i < 4; i++)
        out->last[i] = largest_accepted(out, i, after[i]);
    return SPC_OK;
}

void spc__coords_extent(int32_t low[4], int32_t high[4], const int32_t *coords,
                        int64_t rows)
{
    for (int i = 0; i < 4; i++)
        low[i] = high[i] = rows ? coords[i] : 0;
    for (int64_t r = 1; r < rows; r++)
        for (int i = 0; i < 4; i++) {
            int32_t c = coords[4 * r + i];
            if (c < low[i])
                low[i] = c;
            if (c > high[i])
                high[i] = c;
        }
}
