/*
 * index_digest.cuh - the sort key of a sorted row order: a few bits for each
 * row, in which several offsets may share a bit (runtime/coords/order.c).
 *
 * Part of index.cu.lua, which defines index_shared and the constants.
 */
#ifndef SPC_INDEX_DIGEST_CUH
#define SPC_INDEX_DIGEST_CUH

/*
 * Tabulates the digest's bits of any four neighbouring offsets of a mask, for
 * all masks of four. A word then takes eight look-ups, however many offsets it
 * has.
 */
SPC_DEVICE void load_codes(const spc_index_args *args, index_shared *s)
{
    SPC_ROLLED
    for (int i = spc_thread(); i < CODES; i += SORT_THREADS) {
        spc_u32 code = 0;
        for (int b = 0; b < 4; b++) {
            int k = (i >> 4) * 4 + b;
            code |= i >> b & 1 && k < OFFSETS ? args->sorted.bit_of[k] : 0u;
        }
        s->u.search.code[i] = code;
    }
}

/* The digest's bits of the offsets in word w of a mask. */
SPC_DEVICE spc_u32 code_of_word(const index_shared *s, int w, spc_u32 word)
{
    const spc_u32 *code = s->u.search.code + 128 * w;
    spc_u32 all = 0;

    SPC_UNROLL
    for (int i = 0; i < 8; i++)
        if (WORDS > 1 || 4 * i < OFFSETS)
            all |= code[16 * i + (word >> 4 * i & 15u)];
    return all;
}

/* The position of a code in the sequence of Gray codes. */
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

/* Stores the digest of the row at position p and counts its first digit. Called
 * by whole warps. */
SPC_DEVICE void keep_digest(const spc_index_args *args, int *counts, int p,
                            int valid, spc_u32 digest)
{
    if (valid)
        ((unsigned *)args->keys_a)[p] = digest;
    sort_count(counts, valid, digest_digit(digest, 0));
}

/* Computes the digests of a map that an earlier launch has built. */
SPC_DEVICE void digest_rows(const spc_index_args *args, index_shared *s,
                            int begin, int end)
{
    load_codes(args, s);
    sort_count_clear(s->u.search.digits);
    for (int first = begin + 32 * spc_warp(); first < end;
         first += SORT_THREADS) {
        int p = first + spc_lane(), valid = p < end;
        spc_u32 digest =
            valid ? digest_of(s, args->mask + p, args->set.rows_padded) : 0;
        keep_digest(args, s->u.search.digits, p, valid, digest);
    }
    sort_count_store(s->u.search.digits, sort_table(args->tables, 0));
}

#endif
