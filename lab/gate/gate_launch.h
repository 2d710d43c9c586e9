/*
 * gate_launch.h - what the tests of the gate share: one launch, what it leaves,
 * and the words for what is wrong with that.
 */
#ifndef SPC_LAB_GATE_LAUNCH_H
#define SPC_LAB_GATE_LAUNCH_H

#include "lab/gate/gate.h"

/* Arrays of what a plan reads of a map: the index, five of each group of
 * offsets, five of pairs, three of triplets. */
enum { SPC__MAP_ARRAYS = 1 + 5 * 4 + 5 + 3 };

typedef struct spc__gate {
    spc__verdict *out;
    spc__bed *bed;
    spc__tested *tested;
    uint64_t packed_digest[SPC__DRAWS];
    /* Of the arrays of each map, with their zones, before any launch. */
    uint64_t map_digest[SPC__SAMPLE_SCENES][SPC__MAP_ARRAYS];
    bool notes_maps; /* these are known */
} spc__gate;

/* One launch: on what, and over what. */
typedef struct spc__gate_setting {
    int s;
    spc__draw draw;
    int out_byte;       /* -1: the result of draw `previous` */
    spc__draw previous; /* one of integers */
    int work_byte;      /* -1: as the launch before left it */
    bool read_only;     /* what is only read lies in pages that are */
} spc__gate_setting;

/* Digests of a launch: of the result, and of the zones of output and
 * workspace. */
enum { SPC__RESULT, SPC__OUT_ZONES, SPC__WORK_ZONES = 3, SPC__RUN_DIGESTS = 5 };

/* ---- verdicts ------------------------------------------------------------ */

/* Notes that a call failed while the candidate was tested, and whether the device
 * survived it: a fault, whichever call it was. On some devices a launch runs the
 * kernel, on others a later call reports what happened in it. */
void spc__gate_failed(const spc__gate *g);
__attribute__((format(printf, 2, 3))) void
spc__gate_wrong(const spc__gate *g, const char *format, ...);
/* `test` found this element of the result on scene s. */
void spc__gate_wrong_at(const spc__gate *g, const char *test, int s,
                        const spc__worst *worst);
const char *spc__gate_scene(const spc__gate *g, int s);

/* ---- one launch ---------------------------------------------------------- */

spc_status spc__gate_fill(const spc__gate *g, const spc__guarded *to, int byte);
const spc__guarded *spc__gate_packed_array(const spc__gate *g, spc__draw draw);
const void *spc__gate_packed(const spc__gate *g, spc__draw draw);
/* Has the digester look at the zones before and behind an array. */
spc_status spc__gate_add_zones(const spc__gate *g, const spc__guarded *of);
/* The two digests of zones at *digests: does a write show in one? */
bool spc__gate_zones_hold(const spc__gate *g, const char *name,
                          const spc__guarded *of, const uint64_t *digests);
/* Of what lies in the output now. */
spc_status spc__gate_digest(const spc__gate *g,
                            uint64_t digests[SPC__RUN_DIGESTS]);
/* Runs on a scene that is set. False: it failed, and that is noted. */
bool spc__gate_run(const spc__gate *g, const spc__gate_setting *at,
                   uint64_t digests[SPC__RUN_DIGESTS]);
/* Compares the result with what it must be; true where it could be had, and
 * lies where it should. Results that are exact, or another candidate's that was
 * compared, are not fetched. */
bool spc__gate_compare(const spc__gate *g, const spc__gate_setting *at,
                       uint64_t digest, spc__worst *worst);

/* One launch on a scene that is set, compared in full (gate.c). */
void spc__gate_test_launch(const spc__gate *g, const spc__gate_setting *at);

/* ---- odd scenes and numbers (gate_odd.c) --------------------------------- */

/* A launch on each scene that differs from others in its size. */
void spc__gate_test_sizes(const spc__gate *g);
/* A launch on an awkward scene that is set, some inputs being no number. */
void spc__gate_test_no_numbers(const spc__gate *g, int s);

/* ---- many rows (gate_large.c) -------------------------------------------- */

/* A launch on more rows than given scenes have, and on a solid block, with
 * COUNT packed. */
void spc__gate_test_large(const spc__gate *g);

/* ---- a map with room to spare (gate_spare.c) ----------------------------- */

/* A launch on each scene that it takes. */
void spc__gate_test_spare(const spc__gate *g);

/* ---- operands elsewhere (gate_places.c) ---------------------------------- */

/* Launches of the draw on a scene that is set, whose bits must be the first
 * result's. */
void spc__gate_test_places(const spc__gate *g, const spc__gate_setting *at);

/* ---- two launches at once (gate_together.c) ------------------------------ */

/* On an awkward scene, of COUNT and of WIDE. */
void spc__gate_test_together(const spc__gate *g);

/* ---- read-only pages (gate_pages.c) -------------------------------------- */

/*
 * The map of scene `at->s`, and what a launch of `at->draw` only reads, cannot
 * be written to until the pages are opened again: then a write is noted. Of
 * devices whose memory is the host's; of others nothing happens.
 */
void spc__gate_close_pages(const spc__gate *g, const spc__gate_setting *at);
void spc__gate_open_pages(const spc__gate *g);

/* ---- maps (gate_map.c) --------------------------------------------------- */

/* What of a map the plan reads. */
typedef struct spc__map_array {
    const char *name;
    const void *data;
    size_t bytes;
} spc__map_array;

int spc__gate_list_map(spc__map_array list[SPC__MAP_ARRAYS], const spc__gate *g,
                       const spc_map *map);
/* Notes what all maps are. False: a call failed, and that is noted. */
bool spc__gate_note_maps(spc__gate *g);
/* Are they that still, or that of scene s? What is found, is noted. */
void spc__gate_maps_hold(const spc__gate *g);
void spc__gate_map_holds(const spc__gate *g, int s);

/* ---- what is wrong (gate_blame.c) ---------------------------------------- */

/* Do inputs, weights and vectors lie there as they did? What is found, is
 * noted. */
void spc__gate_read_only(const spc__gate *g, int draw);
/* Do the weights of all draws that packing reads? They do afterwards; what is
 * found, is noted in place of a wrong result, which it explains. */
void spc__gate_weights_hold(const spc__gate *g);
/* Do they, and the maps? */
void spc__gate_untouched(const spc__gate *g, int draw);
/* Is element i of the fetched result what it must be? */
bool spc__gate_is_right(const spc__gate *g, const spc__gate_setting *at,
                        int64_t i);
/* Notes what a wrong result is wrong in. */
void spc__gate_reject(const spc__gate *g, const spc__gate_setting *at,
                      uint64_t digest, const spc__worst *worst);

#endif
