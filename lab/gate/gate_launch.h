/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gate_launch.h - shared by the tests of the gate: one launch, its effects, and
 * how failures are described.
 */
#ifndef SPC_LAB_GATE_LAUNCH_H
#define SPC_LAB_GATE_LAUNCH_H

#include "lab/gate/gate.h"

/*
 * The arrays of a map that a plan may read: the index, five for each group of
 * offsets, five for pairs, three for triplets.
 */
enum { SPC__MAP_ARRAYS = 1 + 5 * 4 + 5 + 3 };

typedef struct spc__gate {
    spc__verdict *out;
    spc__fixture *fixture;
    spc__tested *tested;
    uint64_t packed_digest[SPC__DATASETS];
    /*
     * Digests of each map's arrays with their zones, taken before any launch.
     */
    uint64_t map_digest[SPC__SAMPLE_SCENES][SPC__MAP_ARRAYS];
    bool notes_maps; /* the digests of the map are valid */
} spc__gate;

/* The inputs of a launch, and the initial contents of the memory that it
 * writes. */
typedef struct spc__gate_setting {
    int s;
    spc__dataset dataset;
    /* the result's initial bytes; -1: the result of `previous` */
    int out_byte;
    spc__dataset previous; /* a data set of integers */
    int work_byte;      /* the workspace's initial bytes; -1: unchanged */
    bool read_only;     /* read-only operands are in read-only pages */
} spc__gate_setting;

/* Digests of a launch: its result, and the zones of output and workspace. */
enum { SPC__RESULT, SPC__OUT_ZONES, SPC__WORK_ZONES = 3, SPC__RUN_DIGESTS = 5 };

/* ---- verdicts ------------------------------------------------------------ */

/*
 * Notes that a call failed while the candidate was tested, and checks whether
 * the device survived. Any failed call counts as a fault: some devices report a
 * kernel's fault at its launch, others in a later call.
 */
void spc__gate_failed(const spc__gate *g);
__attribute__((format(printf, 2, 3))) void
spc__gate_wrong(const spc__gate *g, const char *format, ...);
/* Notes that `test` found element `i` of the result wrong on scene s. */
void spc__gate_wrong_at(const spc__gate *g, const char *test, int s,
                        const spc__worst *worst);
const char *spc__gate_scene(const spc__gate *g, int s);

/* ---- one launch ---------------------------------------------------------- */

const spc__guarded *spc__gate_packed_array(const spc__gate *g,
                                           spc__dataset dataset);
const void *spc__gate_packed(const spc__gate *g, spc__dataset dataset);
/* Adds the zones before and after an array to the digester. */
spc_status spc__gate_add_zones(const spc__gate *g, const spc__guarded *of);
/* True if the two zone digests at *digests show no write. */
bool spc__gate_zones_hold(const spc__gate *g, const char *name,
                          const spc__guarded *of, const uint64_t *digests);
/* Digests the current output. */
spc_status spc__gate_digest(const spc__gate *g,
                            uint64_t digests[SPC__RUN_DIGESTS]);
/* Runs on a prepared scene. If the run fails, notes the failure and returns
 * false. */
bool spc__gate_run(const spc__gate *g, const spc__gate_setting *at,
                   uint64_t digests[SPC__RUN_DIGESTS]);
/*
 * Compares the result with the expected one; true if it was fetched and is
 * within its bounds. Results that are exact, or equal those of another
 * candidate that passed, are not fetched.
 */
bool spc__gate_compare(const spc__gate *g, const spc__gate_setting *at,
                       uint64_t digest, spc__worst *worst);

/* Launches once on a prepared scene and compares the whole result
 * (gate_verify.c). */
void spc__gate_test_launch(const spc__gate *g, const spc__gate_setting *at);

/* ---- sizes, infinities and NaN (gate_odd.c) ------------------------------ */

/* Launches once on each scene of another size. */
void spc__gate_test_sizes(const spc__gate *g);
/* Launches on a prepared awkward scene, with some inputs NaN. */
void spc__gate_test_no_numbers(const spc__gate *g, int s);

/* ---- many rows (gate_large.c) -------------------------------------------- */

/*
 * Launches on more rows than the given scenes have, and on a solid block, with
 * COUNT packed.
 */
void spc__gate_test_large(const spc__gate *g);

/* ---- a map with spare capacity (gate_spare.c) ---------------------------- */

/* Launches on each scene that fits. */
void spc__gate_test_spare(const spc__gate *g);

/* ---- other addresses (gate_addresses.c) ---------------------------------- */

/*
 * Launches the data set on a prepared scene; the result must have the same bits
 * as the first.
 */
void spc__gate_test_addresses(const spc__gate *g, const spc__gate_setting *at);

/* ---- concurrent launches (gate_together.c) ------------------------------- */

/* Launches COUNT and WIDE at once on an awkward scene. */
void spc__gate_test_together(const spc__gate *g);

/* ---- read-only pages (gate_pages.c) -------------------------------------- */

/*
 * Makes the map of scene `at->s` and the read-only operands of `at->dataset`
 * unwritable until the pages are opened again; the first write to them is
 * noted. Only on devices whose memory is the host's; no effect on others.
 */
void spc__gate_close_pages(const spc__gate *g, const spc__gate_setting *at);
void spc__gate_open_pages(const spc__gate *g);

/* ---- maps (gate_map.c) --------------------------------------------------- */

/* An array of a map that the plan reads. */
typedef struct spc__map_array {
    const char *name;
    const void *data;
    size_t bytes;
} spc__map_array;

int spc__gate_list_map(spc__map_array list[SPC__MAP_ARRAYS], const spc__gate *g,
                       const spc_map *map);
/* Digests all maps. If a call fails, notes the failure and returns false. */
bool spc__gate_note_maps(spc__gate *g);
/* Verifies all maps, or the map of scene s, and notes a change. */
void spc__gate_maps_hold(const spc__gate *g);
void spc__gate_map_holds(const spc__gate *g, int s);

/* ---- diagnosis (gate_blame.c) -------------------------------------------- */

/* Verifies inputs, weights and vectors, and notes a change. */
void spc__gate_read_only(const spc__gate *g, int dataset);
/*
 * Verifies the weights of all data sets that packing reads and restores them.
 * If the weights have changed, notes the change instead of a wrong result,
 * since the change explains it.
 */
void spc__gate_weights_hold(const spc__gate *g);
/* Verifies the weights and the maps. */
void spc__gate_untouched(const spc__gate *g, int dataset);
/* True if element i of the fetched result is correct. */
bool spc__gate_is_right(const spc__gate *g, const spc__gate_setting *at,
                        int64_t i);
/* Notes the cause of a wrong result. */
void spc__gate_reject(const spc__gate *g, const spc__gate_setting *at,
                      uint64_t digest, const spc__worst *worst);

#endif
