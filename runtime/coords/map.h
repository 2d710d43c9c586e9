/*
 * map.h - kernel maps inside the runtime: layouts on demand, rebuilding.
 *
 * A map keeps its plain form (keys, sorted rows, index by coordinate order).
 * What a kernel reads is a *layout* of it: a row order and a tile size
 * (spc_abi.h, spc_map_view). Layouts are prepared when a plan is made and
 * looked up without work when it runs.
 */
#ifndef SPC_RUNTIME_MAP_H
#define SPC_RUNTIME_MAP_H

#include "ctx.h"
#include "spc_abi.h"

/*
 * A sorted row order (map_order.c); NULL for an unknown name, and for "none",
 * which is no sorted one.
 */
typedef struct spc__row_order spc__row_order;
const spc__row_order *spc__row_order_find(const char *name);
const char *spc__row_order_names(void);

/*
 * Prepares the layout; does nothing if it is there. Row orders:
 *   "none"  rows in ascending key order: order[p] is the caller's row of the
 *           p-th smallest key
 *   "gray", "gray_x", "gray_y"
 *           rows sorted by the Gray rank of a digest of their offset mask,
 *           stable; the three differ in which offsets share a bit of the digest
 *           (map_order.c), which is set if any of them is present
 * tile_rows 0: no tile table.
 */
spc_status spc__map_prepare(spc_map *map, const char *order, int tile_rows,
                            void *stream);

/* The prepared layout; false if it was never prepared. */
bool spc__map_view(spc_map_view *out, const spc_map *map, const char *order,
                   int tile_rows);

/*
 * Builds the map again for other coordinates of the same key layout (rows at
 * most the map's capacity), with every prepared layout, without allocation or
 * synchronisation: what a bench times and a graph captures. Trouble found on
 * the device (duplicates, a coordinate outside the key layout) is kept there
 * for spc__map_check. `index_only` skips the layouts.
 */
spc_status spc__map_rebuild(spc_map *map, const int32_t *coords, int64_t rows,
                            bool index_only, void *stream);

/* Synchronises and reports trouble of the last build: SPC_EDUPLICATE,
 * SPC_ERANGE. Refreshes pairs and density. */
spc_status spc__map_check(spc_map *map, void *stream);

/* Builds one prepared layout again (to be timed). */
spc_status spc__map_relayout(spc_map *map, const char *order, int tile_rows,
                             void *stream);

/* The context and the geometry (operator, kernel, dilation) the map is for. */
spc_ctx *spc__map_ctx(const spc_map *map);
const spc_conv *spc__map_conv(const spc_map *map);

/* The coordinates the map was built from, on the device, if it owns a copy
 * (spc_map_create_from_scene), else NULL. */
const int32_t *spc__map_coords(const spc_map *map);

#endif
