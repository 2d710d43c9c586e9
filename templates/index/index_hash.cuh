/*
 * index_hash.cuh - the hash searcher: a table of the searched keys, with open
 * addressing and linear probes (Knuth, volume 3, section 6.4).
 *
 * Each launch builds the table anew: it is cleared before the sort and filled
 * after it. The slot of a key depends on the order of arrival, but the result
 * of a look-up does not. Keys and positions are in separate arrays, because
 * most look-ups are for absent voxels and end after one load.
 *
 * Part of index.cu.lua; a searcher (index_runs.cuh).
 */
#ifndef SPC_INDEX_HASH_CUH
#define SPC_INDEX_HASH_CUH

/* Not the key of any voxel, though a search may ask for it (index_abi.h). */
#define EMPTY (~(map_key)0)

/*
 * Slots for this many keys, a power of two. It is as small as short probes
 * allow, because all slots are cleared. The runtime allocates them for the set's
 * capacity.
 */
SPC_DEVICE spc_u32 table_slots(int rows)
{
    spc_u32 slots = SPC_INDEX_TABLE_LEAST;

    while (slots < 2u * (spc_u32)rows)
        slots *= 2;
    return slots;
}

/* Multiplies and takes the upper bits. */
SPC_DEVICE spc_u32 slot_of(map_key key, spc_u32 slots)
{
    spc_u64 mixed = (spc_u64)key * 0x9e3779b97f4a7c15ull;

    return (spc_u32)(mixed >> 32) & (slots - 1);
}

SPC_DEVICE map_key swap_in(map_key *slot, map_key key)
{
    if (sizeof(map_key) == 4)
        return spc_atomic_cas((spc_u32 *)slot, (spc_u32)EMPTY, (spc_u32)key);
    return (map_key)spc_atomic_cas_u64((spc_u64 *)slot, (spc_u64)EMPTY,
                                       (spc_u64)key);
}

/* Terminates because the keys of a set differ and half the slots stay empty. */
SPC_DEVICE void insert(const spc_index_args *args, spc_u32 slots, map_key key,
                       int p)
{
    spc_u32 slot = slot_of(key, slots);

    while (swap_in((map_key *)args->table + slot, key) != EMPTY)
        slot = (slot + 1) & (slots - 1);
    /* Threads read the table only after a barrier of the grid. */
    args->table_places[slot] = p;
}

/* Clears as many slots as the set can need. */
SPC_DEVICE void open_searcher(const spc_index_args *args)
{
    int rows = args->stages & SPC_INDEX_BUILD ? rows_asked(args)
                                              : *args->in.count;
    int slots = (int)table_slots(rows);

    for (int i = sort_grid_thread(); i < slots;
         i += spc_grid_x() * SORT_THREADS)
        ((map_key *)args->table)[i] = EMPTY;
}

SPC_DEVICE void ready_searcher(const spc_index_args *args,
                               const index_extent *e, grid_barrier *barrier)
{
    const map_key *keys = (const map_key *)args->in.keys;
    spc_u32 slots = table_slots(e->rows_in);

    if (!(args->stages & SPC_INDEX_BUILD)) /* building has enough barriers */
        grid_sync(barrier);
    for (int p = sort_grid_thread(); p < e->rows_in;
         p += spc_grid_x() * SORT_THREADS)
        insert(args, slots, keys[p], p);
    grid_sync(barrier); /* the table is complete */
}

/* The position of a key; `there` is the content of its first slot. */
SPC_DEVICE int find_key(const spc_index_args *args, spc_u32 slots, map_key want,
                        map_key there)
{
    const map_key *table = (const map_key *)args->table;
    spc_u32 slot = slot_of(want, slots);

    while (there != EMPTY && there != want) {
        slot = (slot + 1) & (slots - 1);
        there = table[slot];
    }
    return there == EMPTY ? -1 : args->table_places[slot];
}

/* Loads all first slots before it examines any of them. */
SPC_DEVICE void find_keys(const spc_index_args *args, const index_shared *s,
                          const index_extent *e, const map_key *want,
                          spc_u32 asked, int *at)
{
    const map_key *table = (const map_key *)args->table;
    spc_u32 slots = table_slots(e->rows_in);
    map_key there[BATCH * RUN];

    (void)s;
    SPC_UNROLL
    for (int i = 0; i < BATCH * RUN; i++)
        there[i] = asked >> i & 1u ? table[slot_of(want[i], slots)] : EMPTY;
    SPC_UNROLL
    for (int i = 0; i < BATCH * RUN; i++)
        at[i] = find_key(args, slots, want[i], there[i]);
}

#include "index_each.cuh"

#endif
