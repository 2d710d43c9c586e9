/*
 * map_choice.h - by which configuration of the template "index" a map is
 * searched.
 *
 * All configurations make the same maps; which one is fastest depends on the
 * geometry, on whether it is read the other way, and on the device. That is
 * what a record of the database is kept by: a map serves frames of any number
 * of rows, so the scene has no part in it; nor has the width of keys, which
 * belongs to the code.
 */
#ifndef SPC_RUNTIME_MAP_CHOICE_H
#define SPC_RUNTIME_MAP_CHOICE_H

#include "cache/cache.h"
#include "coords/map.h"

/* What the template must know of a geometry: op, kind, kernel and so on. */
void spc__map_attrs(spc__attrs *out, const spc_geometry *geometry,
                    bool inverse);

/* Of the record. */
void spc__map_key(spc__problem_key *out, const spc_ctx *ctx,
                  const spc_geometry *geometry, bool inverse);

/*
 * The configuration that the database has for maps of this geometry; false:
 * none, and the template's default serves. Not for the frame path: maps ask
 * when they are created.
 */
bool spc__map_choice(spc__attrs *config, spc_ctx *ctx,
                     const spc_geometry *geometry, bool inverse);

/*
 * From the next build on the map is searched by this configuration (NULL: the
 * template's default). May compile and allocate. On failure the map stays as it
 * was; SPC_EUNSUPPORTED: maps of this device have no configurations.
 */
spc_status spc__map_configure(spc_map *map, const spc__attrs *config,
                              spc_error *error);

#endif
