/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_offset_store.c - lists of offsets. Layers refer to them, the library
 * keeps each list once, and callers may change their own lists afterwards.
 */
#include "operators/offset_store.h"

#include "base/random.h"
#include "harness/counted_allocations.h"
#include "harness/suite.h"
#include "operators/geometry.h"
#include "spc.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 4, LISTS = 300, MOST = 6 };

static spc_error error;

#define assert_ok(call)                                                        \
    ck_assert_msg((call) == SPC_OK, "%s: %s", #call, error.text)

/* Makes list i of this seed, with 1 to MOST offsets. Some lists are the start
 * of others. */
static int make_list(int16_t out[3 * MOST], int i)
{
    spc__random random;
    int count = 1 + i % MOST;

    spc__random_init(&random, (uint64_t)(i / 2));
    for (int n = 0; n < 3 * count; n++)
        out[n] = (int16_t)(spc__random_below(&random, 40) - 20);
    return count;
}

static const int16_t *keep(const int16_t *list, int count)
{
    spc_geometry g = SPC_GEOMETRY_INIT;

    g.offset_count = count;
    g.offsets = list;
    return spc__geometry_keep(&g, NULL) == SPC_OK ? g.offsets : NULL;
}

START_TEST(equal_lists_are_kept_once)
{
    const int16_t *kept[LISTS];
    int16_t list[3 * MOST];

    for (int i = 0; i < LISTS; i++) {
        int count = make_list(list, i);
        kept[i] = keep(list, count);
        ck_assert_ptr_ne(kept[i], list);
        ck_assert_mem_eq(kept[i], list, 6 * (size_t)count);
    }
    for (int i = 0; i < LISTS; i++) { /* no list has moved or changed */
        int count = make_list(list, i);
        ck_assert_ptr_eq(keep(list, count), kept[i]);
        ck_assert_ptr_eq(keep(kept[i], count), kept[i]);
        ck_assert_mem_eq(kept[i], list, 6 * (size_t)count);
    }
}
END_TEST

static void *keep_all(void *payload)
{
    const int16_t **out = payload;
    int16_t list[3 * MOST];

    for (int i = 0; i < LISTS; i++)
        out[i] = keep(list, make_list(list, i));
    return NULL;
}

START_TEST(threads_that_keep_a_list_at_the_same_time_get_one_copy)
{
    static const int16_t *kept[THREADS][LISTS];
    pthread_t threads[THREADS];

    for (int t = 0; t < THREADS; t++)
        ck_assert_int_eq(pthread_create(&threads[t], NULL, keep_all, kept[t]),
                         0);
    for (int t = 0; t < THREADS; t++)
        pthread_join(threads[t], NULL);
    for (int i = 0; i < LISTS; i++) {
        ck_assert_ptr_nonnull(kept[0][i]);
        for (int t = 1; t < THREADS; t++)
            ck_assert_ptr_eq(kept[t][i], kept[0][i]);
    }
}
END_TEST

/* A failed allocation gives a status and leaves the layer unchanged. */
START_TEST(a_list_for_which_memory_is_short_is_not_kept)
{
    static const int16_t list[] = {1, 2, 3, 4, 5, 600};
    spc_geometry g = SPC_GEOMETRY_INIT;

    g.offset_count = 2;
    g.offsets = list;
    fail_allocation(1);
    ck_assert_int_eq(spc__geometry_keep(&g, &error), SPC_ENOMEM);
    fail_allocation(0);
    ck_assert_ptr_eq(g.offsets, list);
    assert_ok(spc__geometry_keep(&g, &error));
    ck_assert_ptr_ne(g.offsets, list);
}
END_TEST

START_TEST(a_list_that_no_layer_can_have_stays_as_it_is)
{
    static const int16_t list[] = {1, 2, 3};
    static const int counts[] = {-1, SPC_MAX_OFFSETS + 1, INT32_MAX, INT32_MIN};
    spc_geometry g = SPC_GEOMETRY_INIT;

    g.offsets = list;
    assert_ok(spc__geometry_keep(&g, &error));
    ck_assert_ptr_null(g.offsets); /* a box has no list */
    g.offset_count = 1;
    assert_ok(spc__geometry_keep(&g, &error));
    ck_assert_ptr_null(g.offsets);
    ck_assert_int_eq(spc_geometry_check(&g, &error), SPC_EINVAL);
    ck_assert_ptr_nonnull(strstr(error.text, "a list of 1 offsets at NULL"));
    for (size_t i = 0; i < sizeof(counts) / sizeof(*counts); i++) {
        g.offset_count = counts[i];
        g.offsets = list;
        assert_ok(spc__geometry_keep(&g, &error));
        ck_assert_ptr_eq(g.offsets, list);
        ck_assert_int_eq(spc_geometry_check(&g, &error), SPC_EINVAL);
    }
}
END_TEST

static spc_conv layer_of(const int16_t *list, int count)
{
    spc_conv conv = SPC_CONV_INIT;

    conv.cin = conv.cout = 4;
    conv.geometry.offset_count = count;
    conv.geometry.offsets = list;
    return conv;
}

/* Layers that the library returns stay valid after the caller's list is
 * gone. */
START_TEST(passes_and_parsed_layers_have_lists_of_their_own)
{
    int16_t list[] = {0, 0, 0, 1, -2, 3, 7, 0, 0};
    spc_conv layer = layer_of(list, 3), passes[3], back, again;
    char text[3][160], now[160];

    for (int p = 0; p < 3; p++) {
        assert_ok(spc_conv_pass(&passes[p], &layer, (spc_pass)p, &error));
        spc_conv_format(text[p], sizeof(text[p]), &passes[p]);
    }
    memset(list, 0x55, sizeof(list));
    for (int p = 0; p < 3; p++) {
        spc_conv_format(now, sizeof(now), &passes[p]);
        ck_assert_str_eq(now, text[p]);
        assert_ok(spc_conv_parse(&back, text[p], &error));
        assert_ok(spc_conv_parse(&again, text[p], &error));
        ck_assert_ptr_eq(back.geometry.offsets, passes[p].geometry.offsets);
        ck_assert_ptr_eq(back.geometry.offsets, again.geometry.offsets);
    }
    /* The gradient of the inputs has the negated offsets in reverse order. */
    static const int16_t mirrored[] = {-7, 0, 0, -1, 2, -3, 0, 0, 0};
    ck_assert_mem_eq(passes[SPC_DGRAD].geometry.offsets, mirrored,
                     sizeof(mirrored));
}
END_TEST

START_TEST(a_layer_is_small)
{
    ck_assert_uint_le(sizeof(spc_geometry), 128);
    ck_assert_uint_le(sizeof(spc_conv), 224);
    ck_assert_uint_le(sizeof(spc_feature), 256);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("offset_store");
    TCase *all = tcase_create("offset_store");

    tcase_add_test(all, equal_lists_are_kept_once);
    tcase_add_test(all, threads_that_keep_a_list_at_the_same_time_get_one_copy);
    tcase_add_test(all, a_list_for_which_memory_is_short_is_not_kept);
    tcase_add_test(all, a_list_that_no_layer_can_have_stays_as_it_is);
    tcase_add_test(all, passes_and_parsed_layers_have_lists_of_their_own);
    tcase_add_test(all, a_layer_is_small);
    suite_add_tcase(suite, all);
    return run_suite(suite);
}
