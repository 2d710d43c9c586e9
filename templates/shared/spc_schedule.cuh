/*
 * spc_schedule.cuh - the steps of a block whose warps work on one tile. One
 * warp unrolls the stream (spc_stream.cuh) into a ring that all others read.
 *
 * The ring is handed over in sections of 8 steps, with a barrier in memory for
 * each direction: `filled` when a section is complete, `read` when every reader
 * is past it. At the end of the stream readers see one or more sections of
 * steps of SPC_STEP_END.
 */
#ifndef SPC_SCHEDULE_CUH
#define SPC_SCHEDULE_CUH

/* The sections that are being read, and space for a mask word past the section
 * that is being written. */
#define SPC_STREAM_STEPS 96

#include "spc_stream.cuh"

#define SPC_SECTION 8
#define SPC_SECTIONS (SPC_STREAM_STEPS / SPC_SECTION)
/* Sections that unrolling up to the end of one may write: this section, and
 * four for a mask word and the centre. */
#define SPC_SECTIONS_AHEAD 5

typedef struct spc_schedule {
    spc_u64 filled[SPC_SECTIONS];
    spc_u64 read[SPC_SECTIONS];
    spc_u64 dealt; /* for spc_stream_start_balanced */
    spc_u64 unused; /* keeps `step` at a multiple of 16 bytes */
    spc_b8 step[SPC_STREAM_STEPS];
} spc_schedule;

/* Called by one thread, before spc_mbar_fence and a barrier of the block. */
SPC_DEVICE void spc_schedule_init(spc_schedule *s, int reading_warps)
{
    for (int i = 0; i < SPC_SECTIONS; i++) {
        /* All lanes of a warp arrive, so each one's stores to the ring, or its
         * loads from it, are ordered before the phase ends. */
        spc_mbar_init(&s->filled[i], 32);
        spc_mbar_init(&s->read[i], 32 * reading_warps);
    }
    spc_mbar_init(&s->dealt, 32);
}

/* Unrolls all steps of a block; called by one warp. */
SPC_DEVICE void spc_schedule_steps(spc_schedule *s, const spc_map_view *map,
                                   int tile_rows, int words, int centre,
                                   const spc_share *share)
{
    spc_stream stream;
    int section = 0, oldest = 0, parity = 0;

    spc_stream_start_balanced(&stream, (spc_u8 *)s->step, share, &s->dealt);
    for (int wanted = SPC_SECTION;; wanted += SPC_SECTION) {
        if (wanted >
            SPC_STREAM_STEPS - (SPC_SECTIONS_AHEAD - 1) * SPC_SECTION) {
            /* Unrolling up to `wanted` may write four sections more. From here
             * on these have been written before, so the readers must have left
             * the oldest one. */
            spc_mbar_wait(&s->read[oldest], parity);
            if (++oldest == SPC_SECTIONS) {
                oldest = 0;
                parity ^= 1;
            }
        }
        spc_stream_fill(&stream, map, wanted, tile_rows, words, centre);
        spc_mbar_arrive(&s->filled[section]);
        if (++section == SPC_SECTIONS)
            section = 0;
        if (stream.filled < wanted)
            break;
    }
    /* Readers run ahead of the products and also ask for the section after
     * the last step. Without this they would wait for ever. */
    spc_mbar_arrive(&s->filled[section]);
}

/* A position in the ring. */
typedef struct spc_reader {
    int place, parity;
} spc_reader;

/* Returns the next step. The whole warp waits until it is available. */
SPC_DEVICE spc_b8 spc_read_step(spc_reader *r, spc_schedule *s)
{
    spc_b8 step;

    if (r->place % SPC_SECTION == 0)
        /* One wait serves the eight steps of a section. */
        spc_mbar_wait(&s->filled[r->place / SPC_SECTION], r->parity);
    step = spc_shared_load8(&s->step[r->place]);
    if (++r->place == SPC_STREAM_STEPS) {
        r->place = 0;
        r->parity ^= 1;
    }
    return step;
}

/* Announces that the warp will not read the step at `place` again. */
SPC_DEVICE void spc_step_done(spc_schedule *s, int place)
{
    if (place % SPC_SECTION == SPC_SECTION - 1)
        spc_mbar_arrive(&s->read[place / SPC_SECTION]);
}

#endif
