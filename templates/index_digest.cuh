/*
 * index_digest.cuh - what a sorted row order sorts by: a few bits for each row,
 * in which offsets share (runtime/coords/order.c).
 *
 * Part of index.cu.lua, which defines index_shared and the constants.
 */
#ifndef SPC_INDEX_DIGEST_CUH
#define SPC_INDEX_DIGEST_CUH

/* What an order makes of the offsets, where all threads find it. */
SPC_DEVICE void load_bits(const spc_index_args *args, index_shared *s)
{
    for (int k = spc_thread(); k < OFFSETS; k += SORT_THREADS)
        s->bit_of[k] = args->sorted.bit_of[k];
}

/* The digest's bits of the offsets in word w of a mask. */
SPC_DEVICE spc_u32 code_of_word(const index_shared *s, int w, spc_u32 word)
{
    spc_u32 code = 0;

#if WORDS == 1
    (void)w;
    SPC_UNROLL
    for (int k = 0; k < OFFSETS; k++)
        code |= word >> k & 1u ? s->bit_of[k] : 0u;
#else
    for (spc_u32 left = word; left; left &= left - 1)
        code |= s->bit_of[32 * w + spc_ffs(left) - 1];
#endif
    return code;
}

/* Its place in the sequence of Gray codes. */
SPC_DEVICE spc_u32 gray_rank(spc_u32 code)
{
    for (int shift = 1; shift < 32; shift *= 2)
        code ^= code >> shift;
    return code;
}

/* The digest of a row's mask, whose words are `step` apart. */
SPC_DEVICE spc_u32 digest_of(const index_shared *s, const unsigned *mask,
                             long long step)
{
    spc_u32 code = 0;

    for (int w = 0; w < WORDS; w++)
        code |= code_of_word(s, w, mask[w * step]);
    return gray_rank(code);
}

SPC_DEVICE int digest_digit(spc_u32 digest, int pass)
{
    return (int)(digest >> (pass * SORT_BITS)) & (SORT_DIGITS - 1);
}

/* Keeps the digest of the row at position p and counts its first digit. Called
 * by whole warps. */
SPC_DEVICE void keep_digest(const spc_index_args *args, int *counts, int p,
                            int valid, spc_u32 digest)
{
    if (valid)
        ((unsigned *)args->keys_a)[p] = digest;
    sort_count(counts, valid, digest_digit(digest, 0));
}

/* Of a map that an earlier launch has built. */
SPC_DEVICE void digest_rows(const spc_index_args *args, index_shared *s,
                            int begin, int end)
{
    load_bits(args, s);
    sort_count_clear(s->u.sort.next);
    for (int first = begin + 32 * spc_warp(); first < end;
         first += SORT_THREADS) {
        int p = first + spc_lane(), valid = p < end;
        spc_u32 digest =
            valid ? digest_of(s, args->mask + p, args->set.rows_padded) : 0;
        keep_digest(args, s->u.sort.next, p, valid, digest);
    }
    sort_count_store(s->u.sort.next, sort_table(args->tables, 0));
}

#endif
