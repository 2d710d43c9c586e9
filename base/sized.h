/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sized.h - structs of a caller that start with their size.
 *
 * A program may be older than the library that it runs with. Its structs then
 * lack the fields that later versions added at the end. Every public function
 * that takes such a struct calls SPC__TAKE before it reads a field: a struct of
 * an earlier version is completed with defaults, and any other size is refused.
 */
#ifndef SPC_BASE_SIZED_H
#define SPC_BASE_SIZED_H

#include "spc.h"
#include "spc/db.h"
#include "spc/tune.h"

/* Each struct and its defaults. A version that adds a field to one of them
 * appends the size that the struct had before to `earlier` in sized.c. */
#define SPC__SIZED_MAP(X)                                                      \
    X(spc_ctx_options, SPC_CTX_OPTIONS_INIT)                                   \
    X(spc_coords_options, SPC_COORDS_OPTIONS_INIT)                             \
    X(spc_points_options, SPC_POINTS_OPTIONS_INIT)                             \
    X(spc_buffers, SPC_BUFFERS_INIT)                                           \
    X(spc_plan_options, SPC_PLAN_OPTIONS_INIT)                                 \
    X(spc_explain_question, SPC_EXPLAIN_QUESTION_INIT)                         \
    X(spc_feature_buffers, SPC_FEATURE_BUFFERS_INIT)                           \
    X(spc_net_input, SPC_NET_INPUT_INIT)                                       \
    X(spc_net_layer, SPC_NET_LAYER_INIT)                                       \
    X(spc_net_masked, SPC_NET_MASKED_INIT)                                     \
    X(spc_net_like, SPC_NET_LIKE_INIT)                                         \
    X(spc_net_options, SPC_NET_OPTIONS_INIT)                                   \
    X(spc_net_buffers, SPC_NET_BUFFERS_INIT)                                   \
    X(spc_tune_options, SPC_TUNE_OPTIONS_INIT)                                 \
    X(spc_background_options, SPC_BACKGROUND_OPTIONS_INIT)                     \
    X(spc_db_pack_options, SPC_DB_PACK_OPTIONS_INIT)                           \
    X(spc_db_prune_options, SPC_DB_PRUNE_OPTIONS_INIT)

typedef enum spc__sized_id {
#define X(type, init) SPC__SIZED_##type,
    SPC__SIZED_MAP(X)
#undef X
        SPC__SIZED_COUNT
} spc__sized_id;

typedef struct spc__sized {
    const char *name;
    size_t bytes;          /* size in this version */
    const size_t *earlier; /* sizes in earlier versions, ended by 0 */
    const void *init;      /* the defaults */
} spc__sized;

extern const spc__sized spc__sized_types[SPC__SIZED_COUNT];

/*
 * Returns `given` if it has the size of this version. If it has that of an
 * earlier version, returns `whole`: its fields, followed by defaults. Otherwise
 * returns NULL, and *error (may be NULL) names the size.
 */
const void *spc__sized_whole(void *whole, const spc__sized *type,
                             const void *given, spc_error *error);

/*
 * Structs passed by value have no size, but reserved members for later
 * versions. SPC_EINVAL if one of `count` is not 0: the struct was not
 * initialised, or the program needs a later version.
 */
spc_status spc__check_reserved(const char *type, const int *reserved,
                               size_t count, spc_error *error);
#define SPC__CHECK_RESERVED(type, value, error)                                \
    spc__check_reserved(#type, (value)->reserved,                              \
                        sizeof((value)->reserved) / sizeof(int), (error))

/*
 * The status of reading the struct that `pointer`, a variable, points to. On
 * success `pointer` points to a struct of this version, in the block that
 * contains the call. NULL stays NULL. Costs one comparison if sizes are equal.
 */
#define SPC__TAKE(type, pointer, error)                                        \
    SPC__TAKE_AS(&spc__sized_types[SPC__SIZED_##type], type, pointer, error)

/* The same for a struct that another library describes. */
#define SPC__TAKE_AS(sized, type, pointer, error)                              \
    ((pointer) == NULL || (pointer)->bytes == sizeof(type) ? SPC_OK            \
     : ((pointer) = (const type *)spc__sized_whole(                            \
            &(type){0}, (sized), (pointer), (error))) != NULL                  \
         ? SPC_OK                                                              \
         : SPC_EINVAL)

#endif
