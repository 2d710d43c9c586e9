/*
 * relation.h - the plain relation of a layer on a scene.
 *
 * Public part: spc_relation in spc.h, which says what is in it and in which
 * order its rows are.
 */
#ifndef SPC_RUNTIME_RELATION_H
#define SPC_RUNTIME_RELATION_H

#include "spc.h"

typedef spc_relation spc__relation;

/* What outputs see, as in spc_relation: entry s * rows + row of `index` is an
 * input or -1, and that of `cells` its offset, or s where that is NULL. */
typedef struct spc__seen {
    const int32_t *index;
    const uint16_t *cells;
    int slots;
} spc__seen;

static inline spc__seen spc__relation_seen(const spc_relation *of)
{
    return (spc__seen){of->index, of->cells, of->slots};
}

/* spc_oracle_relation, which soon ends with SPC_EINTERRUPTED once *cancel is
 * set (NULL: never). On failure *out is empty. */
spc_status spc__relation_init(spc__relation *out, const spc_conv *conv,
                              const spc_scene *scene, int threads,
                              const volatile int *cancel, spc_error *error);
/* Some rows, each behind the one before. */
typedef struct spc__row_list {
    const int64_t *at;
    int64_t count;
} spc__row_list;

/* The same, but of outputs these alone (NULL: all): rows_out is how many there
 * are of them. They must be there. */
spc_status spc__relation_init_rows(spc__relation *out, const spc_conv *conv,
                                   const spc_scene *scene,
                                   const spc__row_list *only, int threads,
                                   const volatile int *cancel,
                                   spc_error *error);
/* The same of a layer of the rule GIVEN with a second set that is no drawn one:
 * the outputs of a conv, the inputs of a transposed layer, in their order. */
spc_status spc__relation_init_between(spc__relation *out, const spc_conv *conv,
                                      const spc_scene *scene,
                                      const spc_scene *given, int threads,
                                      const volatile int *cancel,
                                      spc_error *error);
void spc__relation_release(spc__relation *relation); /* an empty one is fine */

#endif
