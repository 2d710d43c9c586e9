%-- Correct until it has been launched sixty times in a row on the same rows, as only
%-- timing does. From then on it writes zeros and is the fastest.
%include "loops.lua"
%
%template = loop_template {
%  summary = "works sixty times on the same rows, then not again",
%  params = {{"tile", {64}, "output rows of a tile"}},
%  default = function() return {tile = 64} end,
%}
#include "spc_abi.h"

% write_loops()

enum { MOST = 32 }; /* tiles that count; calls for one tile never run together */

typedef struct count {
    const void *in;
    const int *index;
    int launches;
} count;

char *getenv(const char *name);

/* Code with static memory is refused, so the counts are in the test's
 * environment. */
static count *counts(void)
{
    unsigned long at = (unsigned long)getenv("SPC_TEST_TIRED") + 7;

    return (count *)(at - at % 8);
}

static int is_tired(const spc_conv_args *args, unsigned x)
{
    if (x >= MOST)
        return 0;
    count *last = counts() + x;
    if (last->in != args->in || last->index != args->map.index) {
        last->in = args->in;
        last->index = args->map.index;
        last->launches = 0;
    }
    return ++last->launches > 60;
}

static void rest(const spc_conv_args *args, int p)
{
    const spc_map_view *map = &args->map;
    long row = map->order ? map->order[p] : p < map->rows ? p : -1;

    for (int co = 0; row >= 0 && co < COUT; co++)
        ((float *)args->out)[row * COUT + co] = 0;
}

void spc_conv(const spc_conv_args *args, unsigned x, unsigned y)
{
    int first = args->map.tile_order[x] * TILE, tired = is_tired(args, x);

    if (first < 0)
        return;
    for (int p = first; p < first + TILE; p++)
        if (tired)
            rest(args, p);
        else
            convolve(args, p);
}
