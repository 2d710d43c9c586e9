/* SPDX-License-Identifier: Apache-2.0 */
/*
 * map_choice.h - which configuration of the template "index" searches a map.
 *
 * All configurations make the same map. Which one is fastest depends on the
 * geometry, on the direction of the map, and on the device, so these are the
 * key of a database record. The scene is not part of the key, since a map
 * serves frames of any number of rows. Neither is the key width, which is a
 * property of the code.
 */
#ifndef SPC_RUNTIME_MAP_CHOICE_H
#define SPC_RUNTIME_MAP_CHOICE_H

#include "cache/cache.h"
#include "coords/map.h"

/* The attributes of a geometry for the template: op, kind, kernel and so on. */
void spc__map_attrs(spc__attrs *out, const spc_geometry *geometry,
                    bool inverse);

/* The key of the database record. */
void spc__map_key(spc__problem_key *out, const spc_ctx *ctx,
                  const spc_geometry *geometry, bool inverse);

/*
 * Finds the database's configuration for maps of this geometry. Returns false
 * if it has no such record; the template's default then applies. Maps call it
 * at creation, never per frame.
 */
bool spc__map_choice(spc__attrs *config, spc_ctx *ctx,
                     const spc_geometry *geometry, bool inverse);

/*
 * Sets the configuration that searches the map from the next build on; NULL is
 * the template's default. May compile and allocate. On failure the map is
 * unchanged. Returns SPC_EUNSUPPORTED if maps of this device have no
 * configurations.
 */
spc_status spc__map_configure(spc_map *map, const spc__attrs *config,
                              spc_error *error);

#endif
