/* SPDX-License-Identifier: Apache-2.0 */
/* test_base.c - the small shared files of base/. */
#include "base/attrs.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/dtype.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/number.h"
#include "base/parallel.h"
#include "base/pool.h"
#include "base/random.h"
#include "base/sha256.h"
#include "harness/comma_locale.h"
#include "harness/folder_harness.h"
#include "harness/suite.h"

#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

Suite *suite(void);

static spc_error error;

#define LENGTH(array) ((int)(sizeof(array) / sizeof(*(array))))

#define assert_ok(call)                                                        \
    ck_assert_msg((call) == SPC_OK, "%s: %s", #call, error.text)

/* Statuses and sentences */

START_TEST(every_status_has_a_name_a_text_and_an_exit_code)
{
    static const spc_status all[] = {
#define X(name, value, exit_code, text) name,
        SPC_STATUS_MAP(X)
#undef X
    };
    for (int i = 0; i < LENGTH(all); i++) {
        ck_assert_str_ne(spc_status_name(all[i]), "SPC_E?");
        ck_assert_int_gt((int)strlen(spc_status_text(all[i])), 3);
        for (int j = 0; j < i; j++)
            ck_assert_int_ne(spc_status_exit_code(all[i]),
                             spc_status_exit_code(all[j]));
    }
    ck_assert_int_eq(spc_status_exit_code(SPC_OK), 0);
    ck_assert_str_eq(spc_status_name((spc_status)-999), "SPC_E?");
    ck_assert_int_ne(spc_status_exit_code((spc_status)-999), 0);
}
END_TEST

START_TEST(an_error_keeps_its_status_under_a_prefix)
{
    ck_assert_int_eq(spc__fail(&error, SPC_EIO, "no %s", "disk"), SPC_EIO);
    ck_assert_int_eq(spc__fail_prefix(&error, "cannot %s: ", "tune"), SPC_EIO);
    ck_assert_str_eq(error.text, "cannot tune: no disk");
    spc__error_clear(&error);
    ck_assert_int_eq(error.status, SPC_OK);
    ck_assert_str_eq(error.text, "");
    ck_assert_int_eq(spc__fail(NULL, SPC_EIO, "x"), SPC_EIO);
    ck_assert_int_eq(spc__fail_memory(NULL, 1), SPC_ENOMEM);
}
END_TEST

/* A terminal would obey control characters of a foreign file. */
START_TEST(an_error_has_letters_and_ends_of_lines_alone)
{

    spc__fail(&error, SPC_EIO, "\033]0;\007 \"%s\"\n\t\xc3\xa9", "a\rb\177");
    ck_assert_str_eq(error.text, "?]0;? \"a?b?\"\n\t\xc3\xa9");
    spc__fail_prefix(&error, "\b%s", "x: ");
    ck_assert_str_eq(error.text, "?x: ?]0;? \"a?b?\"\n\t\xc3\xa9");
}
END_TEST

START_TEST(an_error_may_quote_itself_and_is_cut_not_overrun)
{
    char big[3000];
    memset(big, 'x', sizeof(big) - 1);
    big[sizeof(big) - 1] = '\0';
    spc__fail(&error, SPC_EIO, "%s", big);
    ck_assert_uint_eq(strlen(error.text), sizeof(error.text) - 1);
    spc__fail_prefix(&error, "%s", big);
    ck_assert_uint_eq(strlen(error.text), sizeof(error.text) - 1);
    spc__fail(&error, SPC_EIO, "inner");
    spc__fail(&error, SPC_EDB, "outer: %s", error.text);
    ck_assert_str_eq(error.text, "outer: inner");
}
END_TEST

/* Buffers */

START_TEST(a_buffer_grows_and_stays_terminated)
{
    spc__buf buf = SPC__BUF_INIT;
    ck_assert_str_eq(spc__buf_text(&buf), "");
    for (int i = 0; i < 1000; i++)
        spc__buf_printf(&buf, "%d,", i);
    ck_assert_uint_eq(buf.length, strlen(buf.data));
    ck_assert_uint_eq(buf.length, 10 * 2 + 90 * 3 + 900 * 4);
    ck_assert_str_eq(buf.data + buf.length - 8, "998,999,");
    spc__buf_clear(&buf);
    spc__buf_puts(&buf, "a");
    spc__buf_append(&buf, "\0b", 2);
    ck_assert_uint_eq(buf.length, 3);
    ck_assert_int_eq(buf.data[3], '\0');
    spc__buf_release(&buf);
    ck_assert_ptr_null(buf.data);
    spc__buf_release(NULL);
}
END_TEST

START_TEST(a_detached_buffer_is_a_string_of_its_own)
{
    spc__buf buf = SPC__BUF_INIT;
    char *empty = spc__buf_detach(&buf);
    ck_assert_str_eq(empty, "");
    free(empty);
    spc__buf_puts(&buf, "text");
    char *text = spc__buf_detach(&buf);
    ck_assert_str_eq(text, "text");
    ck_assert_ptr_null(buf.data);
    free(text);
}
END_TEST

START_TEST(a_failed_buffer_takes_no_more_and_detaches_to_null)
{
    spc__buf buf = SPC__BUF_INIT;
    spc__buf_puts(&buf, "kept");
    spc__buf_append(&buf, "", SIZE_MAX / 2);
    ck_assert(buf.failed);
    spc__buf_puts(&buf, "lost");
    spc__buf_printf(&buf, "%0200d", 1);
    ck_assert_str_eq(spc__buf_text(&buf), "kept");
    ck_assert_ptr_null(spc__buf_detach(&buf));
    ck_assert(!buf.failed);
}
END_TEST

/* Attributes */

START_TEST(attributes_keep_their_order_and_replace_in_place)
{
    spc__attrs attrs = {0};
    spc__buf text = SPC__BUF_INIT;
    spc__attrs_set_number(&attrs, "cin", 64);
    spc__attrs_set_text(&attrs, "dtype", "f16");
    spc__attrs_set_number(&attrs, "bias", -3);
    spc__attrs_set_number(&attrs, "cin", 32);
    spc__attrs_format(&text, &attrs);
    ck_assert_str_eq(spc__buf_text(&text), "cin=32,dtype=f16,bias=-3");
    ck_assert_int_eq(spc__attrs_number(&attrs, "bias", 0), -3);
    ck_assert_int_eq(spc__attrs_number(&attrs, "dtype", 7), 7);
    ck_assert_int_eq(spc__attrs_number(&attrs, "none", 8), 8);
    ck_assert_str_eq(spc__attrs_text(&attrs, "dtype", ""), "f16");
    ck_assert_str_eq(spc__attrs_text(&attrs, "none", "?"), "?");
    ck_assert_ptr_null(spc__attrs_find(&attrs, "ci"));
    spc__buf_release(&text);
}
END_TEST

static const char *const canonical[] = {
    "",
    "a=1",
    "cin=64,cout=64,kernel=3x3x3,dtype=f16,bias=0",
    "n=-9223372036854775808,m=9223372036854775807,big=9223372036854775808",
    "lead=007,minus=-,text=-x,dots=a.b_c-d:e,empty=",
};

START_TEST(attributes_format_and_parse_are_inverse)
{
    spc__attrs attrs, again;
    spc__buf text = SPC__BUF_INIT;
    assert_ok(spc__attrs_parse(&attrs, canonical[_i], &error));
    spc__attrs_format(&text, &attrs);
    ck_assert_str_eq(spc__buf_text(&text), canonical[_i]);
    assert_ok(spc__attrs_parse(&again, spc__buf_text(&text), &error));
    ck_assert(spc__attrs_equal(&attrs, &again));
    spc__buf_release(&text);
}
END_TEST

START_TEST(digits_make_a_number_and_nothing_else_does)
{
    spc__attrs attrs;
    assert_ok(spc__attrs_parse(&attrs, canonical[3], &error));
    ck_assert_int_eq(attrs.at[0].number, INT64_MIN);
    ck_assert_int_eq(attrs.at[1].number, INT64_MAX);
    ck_assert(!attrs.at[2].is_number);
    assert_ok(spc__attrs_parse(&attrs, canonical[4], &error));
    ck_assert_int_eq(spc__attrs_number(&attrs, "lead", 0), 7);
    for (int i = 1; i < attrs.count; i++)
        ck_assert(!attrs.at[i].is_number);
}
END_TEST

static const struct {
    const char *text, *says;
} malformed[] = {
    {"a", "position 0"},
    {"=1", "position 0"},
    {",", "position 0"},
    {"a=1,", "position 4"},
    {"a=1,,b=2", "position 4"},
    {"a=1,b", "position 4"},
    {"a=1,b=2=3", "position 7"},
    {"a=1 b=2", "' '"},
    {"a b=1", "position 0"},
    {"a=\xc3\xa9", "position 2"},
    {"a=1,b=2,a=3", "twice"},
    {"abcdefghijklmnopqrstuvwx=1", "too long"},
    {"a=abcdefghijklmnopqrstuvwxyz0123456", "too long"},
};

START_TEST(malformed_attributes_are_refused_with_their_position)
{
    spc__attrs attrs;
    spc_status status = spc__attrs_parse(&attrs, malformed[_i].text, &error);
    ck_assert_int_eq(status, SPC_EFORMAT);
    ck_assert_msg(strstr(error.text, malformed[_i].says) != NULL,
                  "'%s' does not say '%s'", error.text, malformed[_i].says);
}
END_TEST

START_TEST(too_many_attributes_are_refused)
{
    spc__attrs attrs;
    spc__buf text = SPC__BUF_INIT;
    for (int i = 0; i < SPC__ATTRS_MAX; i++)
        spc__buf_printf(&text, "%sn%d=%d", i ? "," : "", i, i);
    assert_ok(spc__attrs_parse(&attrs, spc__buf_text(&text), &error));
    ck_assert_int_eq(attrs.count, SPC__ATTRS_MAX);
    spc__buf_puts(&text, ",more=1");
    ck_assert_int_eq(spc__attrs_parse(&attrs, spc__buf_text(&text), &error),
                     SPC_EFORMAT);
    spc__buf_release(&text);
}
END_TEST

START_TEST(attributes_differ_by_value_name_order_and_count)
{
    static const char *const texts[] = {"a=1,b=2", "b=2,a=1", "a=1,b=3",
                                        "a=1,c=2", "a=1",     ""};
    for (int i = 0; i < LENGTH(texts); i++)
        for (int j = 0; j < LENGTH(texts); j++) {
            spc__attrs a, b;
            assert_ok(spc__attrs_parse(&a, texts[i], &error));
            assert_ok(spc__attrs_parse(&b, texts[j], &error));
            ck_assert_int_eq(spc__attrs_equal(&a, &b), i == j);
        }
}
END_TEST

/* Time and order statistics */

static const struct {
    double samples[6];
    int n;
    double median, half_iqr;
} statistics[] = {
    {{0}, 0, 0, 0},
    {{5}, 1, 5, 0},
    {{3, 1}, 2, 2, 0.5},
    {{9, 1, 5}, 3, 5, 2},
    {{4, 1, 3, 2, 5}, 5, 3, 1},
    {{1, 1, 1, 1, 1, 100}, 6, 1, 0},
};

START_TEST(the_median_and_spread_of_samples_are_the_textbook_ones)
{
    double samples[6];
    memcpy(samples, statistics[_i].samples, sizeof(samples));
    ck_assert_double_eq(spc__median(samples, statistics[_i].n),
                        statistics[_i].median);
    memcpy(samples, statistics[_i].samples, sizeof(samples));
    ck_assert_double_eq(spc__half_iqr(samples, statistics[_i].n),
                        statistics[_i].half_iqr);
}
END_TEST

START_TEST(time_goes_forward_and_the_wall_clock_is_of_this_century)
{
    uint64_t before = spc__now_ns();
    ck_assert_uint_ge(spc__now_ns(), before);
    ck_assert_int_gt(spc__unix_seconds(), 1700000000);
}
END_TEST

/* Replaces the program's clock_gettime (-Wl,--wrap). */
static time_t seconds_back;

int __real_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now)
{
    int result = __real_clock_gettime(clock, now);

    now->tv_sec -= seconds_back;
    return result;
}

START_TEST(a_clock_that_is_set_back_loses_no_time)
{
    const struct timespec pause = {0, 20 * 1000 * 1000};

    for (int step = 0; step < 3; step++) {
        uint64_t before = spc__now_ns();
        seconds_back += 100;
        ck_assert_uint_ge(spc__now_ns(), before);
        nanosleep(&pause, NULL);
        uint64_t passed = spc__now_ns() - before;
        ck_assert_uint_ge(passed, 19 * 1000 * 1000);
        ck_assert_uint_lt(passed, 10ull * 1000 * 1000 * 1000);
    }
    seconds_back = 0;
}
END_TEST

/* Half precision */

START_TEST(every_type_reads_what_it_wrote)
{
    /* All types can hold these values, except that the last has two significant
     * bits more than binary16. */
    const float values[] = {0, -1.5f, 255, 0x1p-24f, 8195};
    enum { COUNT = sizeof(values) / sizeof(values[0]) };

    for (int i = 0; i < SPC__DTYPES; i++) {
        const spc__dtype *type = spc__dtype_of((spc_dtype)i);
        unsigned char stored[4 * COUNT];
        float back[COUNT];
        ck_assert_str_eq(type->name, spc__dtype_names[i]);
        if (spc__dtype_is_whole((spc_dtype)i))
            continue; /* tested below */
        type->encode(stored, values, COUNT);
        type->decode(back, stored, COUNT);
        ck_assert_mem_eq(back, values, (COUNT - 1) * sizeof(float));
        ck_assert_float_eq(back[COUNT - 1],
                           type->stored_bits < 14 ? 8192 : 8195);
        ck_assert_uint_eq(type->bytes, type->stored_bits < 14 ? 2 : 4);
    }
    ck_assert_ptr_null(spc__dtype_of((spc_dtype)SPC__DTYPES));
    ck_assert_ptr_null(spc__dtype_names[SPC__DTYPES]);
}
END_TEST

/* dtype.h specifies that values saturate, round to even, and that NaN becomes
 * 0. Every number of the type survives a round trip. */
START_TEST(whole_numbers_are_rounded_to_even_and_saturate)
{
    static const struct {
        float value;
        int stored;
    } cases[] = {
        {0.5f, 0},        {-0.5f, 0},       {0.50000006f, 1}, {1.5f, 2},
        {2.5f, 2},        {-2.5f, -2},      {-3.5f, -4},      {126.5f, 126},
        {127.5f, 127},    {127.4999f, 127}, {-127.5f, -128},  {-128.5f, -128},
        {1e30f, 127},     {-1e30f, -128},   {INFINITY, 127},  {-INFINITY, -128},
        {NAN, 0},         {0x1p-149f, 0},   {-0.0f, 0},       {-0.75f, -1},
        {0.49999997f, 0},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        ck_assert_int_eq(spc__i8_from_float(cases[i].value), cases[i].stored);
    for (int value = -128; value < 128; value++) {
        const spc__dtype *type = spc__dtype_of(SPC_I8);
        float from = (float)value, back;
        int8_t stored;
        type->encode(&stored, &from, 1);
        ck_assert_int_eq(stored, value);
        type->decode(&back, &stored, 1);
        ck_assert_float_eq(back, from);
    }
    ck_assert_uint_eq(spc__dtype_of(SPC_I8)->bytes, 1);
}
END_TEST

START_TEST(every_half_survives_the_way_through_float)
{
    for (uint32_t bits = 0; bits < 65536; bits++) {
        float value = spc__half_to_float((uint16_t)bits);
        uint16_t back = spc__half_from_float(value);
        if ((bits & 0x7fff) > 0x7c00) {
            ck_assert(isnan(value));
            ck_assert_uint_eq(back, bits | 0x0200); /* quieted */
        } else {
            ck_assert_uint_eq(back, bits);
        }
    }
}
END_TEST

/* Between two neighbours, the halfway point is rounded to the even one, and the
 * floats next to it to the nearer one. */
static void check_between(uint32_t low, float below, float above,
                          uint16_t (*from)(float))
{
    float middle = (float)(((double)below + (double)above) / 2);
    ck_assert_uint_eq(from(middle), low + (low & 1));
    ck_assert_uint_eq(from(nextafterf(middle, 0)), low);
    ck_assert_uint_eq(from(nextafterf(middle, INFINITY)), low + 1);
    ck_assert_uint_eq(from(-middle), (low + (low & 1)) | 0x8000);
}

START_TEST(halves_round_to_nearest_even_between_all_neighbours)
{
    for (uint32_t low = 0; low < 0x7bff; low++)
        check_between(low, spc__half_to_float((uint16_t)low),
                      spc__half_to_float((uint16_t)(low + 1)),
                      spc__half_from_float);
    /* 65520 is the first value above the largest half that becomes infinite. */
    check_between(0x7bff, 65504.0f, 65536.0f, spc__half_from_float);
}
END_TEST

START_TEST(bfloats_are_upper_halves_rounded_to_nearest_even)
{
    for (uint32_t low = 0; low < 0x7f7f; low++) {
        float value = spc__bfloat_to_float((uint16_t)low);
        ck_assert_uint_eq(spc__bfloat_from_float(value), low);
        check_between(low, value, spc__bfloat_to_float((uint16_t)(low + 1)),
                      spc__bfloat_from_float);
    }
    ck_assert_uint_eq(spc__bfloat_from_float(INFINITY), 0x7f80);
    ck_assert_uint_eq(spc__bfloat_from_float(0x1.ffp127f), 0x7f80);
    ck_assert(isnan(spc__bfloat_to_float(spc__bfloat_from_float(NAN))));
}
END_TEST

static const struct {
    float value;
    uint16_t half;
} known_halves[] = {
    {1.0f, 0x3c00},       {-2.0f, 0xc000},        {65504.0f, 0x7bff},
    {65536.0f, 0x7c00},   {1e30f, 0x7c00},        {INFINITY, 0x7c00},
    {-INFINITY, 0xfc00},  {0x1p-24f, 0x0001},     {0x1p-25f, 0x0000},
    {0x1.1p-25f, 0x0001}, {1e-40f, 0x0000},       {-0.0f, 0x8000},
    {0x1p-14f, 0x0400},   {0x1.ff8p-15f, 0x03ff}, {0.1f, 0x2e66},
};

START_TEST(known_values_have_their_known_bits)
{
    ck_assert_uint_eq(spc__half_from_float(known_halves[_i].value),
                      known_halves[_i].half);
}
END_TEST

/* SHA-256 */

static const struct {
    const char *text;
    int repeat;
    const char *digest;
} fips[] = {
    {"", 1, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
    {"abc", 1,
     "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
    {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 1,
     "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
    {"abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmno"
     "ijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrstu",
     1, "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1"},
    {"a", 1000000,
     "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"},
};

static void digest_hex(char hex[SPC__SHA256_HEX], spc__sha256 *sha)
{
    unsigned char digest[SPC__SHA256_BYTES];
    spc__sha256_final(sha, digest);
    spc__sha256_hex(hex, digest);
}

START_TEST(sha256_gives_the_digests_of_the_standard)
{
    char hex[SPC__SHA256_HEX];
    spc__sha256 sha;
    spc__sha256_init(&sha);
    for (int i = 0; i < fips[_i].repeat; i++)
        spc__sha256_update(&sha, fips[_i].text, strlen(fips[_i].text));
    digest_hex(hex, &sha);
    ck_assert_str_eq(hex, fips[_i].digest);
}
END_TEST

START_TEST(sha256_does_not_care_how_its_input_is_cut)
{
    unsigned char data[200];
    for (int i = 0; i < LENGTH(data); i++)
        data[i] = (unsigned char)(i * 7);
    for (size_t length = 0; length <= sizeof(data); length++) {
        char whole[SPC__SHA256_HEX], cut[SPC__SHA256_HEX];
        spc__sha256 sha;
        spc__sha256_init(&sha);
        spc__sha256_update(&sha, data, length);
        digest_hex(whole, &sha);
        spc__sha256_init(&sha);
        for (size_t at = 0, take = 1; at < length; at += take, take += 3) {
            if (take > length - at)
                take = length - at;
            spc__sha256_update(&sha, data + at, take);
        }
        digest_hex(cut, &sha);
        ck_assert_str_eq(whole, cut);
    }
}
END_TEST

START_TEST(sha256_fields_do_not_run_together)
{
    char one[SPC__SHA256_HEX], two[SPC__SHA256_HEX];
    spc__sha256 sha;
    spc__sha256_init(&sha);
    spc__sha256_field(&sha, "ab", 2);
    spc__sha256_field(&sha, "c", 1);
    digest_hex(one, &sha);
    spc__sha256_init(&sha);
    spc__sha256_field(&sha, "a", 1);
    spc__sha256_field(&sha, "bc", 2);
    digest_hex(two, &sha);
    ck_assert_str_ne(one, two);
}
END_TEST

/* Random numbers */

START_TEST(splitmix_gives_its_published_sequence)
{
    spc__random random;
    spc__random_init(&random, 1234567);
    ck_assert_uint_eq(spc__random_u64(&random), 6457827717110365317u);
    ck_assert_uint_eq(spc__random_u64(&random), 3203168211198807973u);
    ck_assert_uint_eq(spc__random_u64(&random), 9817491932198370423u);
}
END_TEST

START_TEST(random_numbers_fill_their_range_evenly)
{
    spc__random random;
    int counts[7] = {0};
    double sum = 0, squares = 0;
    spc__random_init(&random, 1);
    for (int i = 0; i < 70000; i++) {
        counts[spc__random_below(&random, 7)]++;
        double unit = spc__random_unit(&random);
        ck_assert(unit >= 0 && unit < 1);
        sum += unit;
        squares += unit * unit;
    }
    for (int i = 0; i < 7; i++)
        ck_assert_int_lt(abs(counts[i] - 10000), 400);
    ck_assert_double_lt(fabs(sum / 70000 - 1.0 / 2), 0.01);
    ck_assert_double_lt(fabs(squares / 70000 - 1.0 / 3), 0.01);
    ck_assert_uint_eq(spc__random_below(&random, 1), 0);
    ck_assert_uint_eq(spc__random_below(&random, 0), 0);
}
END_TEST

/* JSON */

START_TEST(json_places_commas_keys_and_nesting)
{
    spc__buf out = SPC__BUF_INIT;
    spc__json json;
    spc__json_init(&json, &out);
    spc__json_object(&json, NULL);
    spc__json_int(&json, "a", -1);
    spc__json_array(&json, "b");
    spc__json_bool(&json, NULL, true);
    spc__json_object(&json, NULL);
    spc__json_end_object(&json);
    spc__json_real(&json, NULL, 0.1);
    spc__json_end_array(&json);
    spc__json_text(&json, "c\"", "d");
    spc__json_end_object(&json);
    spc__json_array(&json, NULL);
    spc__json_end_array(&json);
    ck_assert_str_eq(spc__buf_text(&out),
                     "{\"a\":-1,\"b\":[true,{},0.1],\"c\\\"\":\"d\"}[]");
    spc__buf_release(&out);
}
END_TEST

static const struct {
    const char *in, *out;
} strings[] = {
    {"", "\"\""},
    {"\"\\/\b\f\n\r\t", "\"\\\"\\\\/\\b\\f\\n\\r\\t\""},
    {"\x01\x1f\x7f", "\"\\u0001\\u001f\\u007f\""},
    {"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80",
     "\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\""},
    {"a\xff", "\"a\xef\xbf\xbd\""},
    {"\xc0\x80", "\"\xef\xbf\xbd\xef\xbf\xbd\""}, /* overlong */
    {"\xed\xa0\x80",
     "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\""}, /* surrogate */
    {"\xe2\x82", "\"\xef\xbf\xbd\xef\xbf\xbd\""}, /* truncated */
};

START_TEST(json_strings_are_escaped_and_always_valid_utf8)
{
    spc__buf out = SPC__BUF_INIT;
    spc__json json;
    spc__json_init(&json, &out);
    spc__json_text(&json, NULL, strings[_i].in);
    ck_assert_str_eq(spc__buf_text(&out), strings[_i].out);
    spc__buf_release(&out);
}
END_TEST

START_TEST(json_numbers_read_back_and_non_finite_ones_are_null)
{
    static const double values[] = {0, 1e300, 1.0 / 3, 5e-324, -123456.789};
    spc__buf out = SPC__BUF_INIT;
    spc__json json;
    spc__json_init(&json, &out);
    for (int i = 0; i < LENGTH(values); i++) {
        spc__buf_clear(&out);
        spc__json_real(&json, NULL, values[i]);
        ck_assert_double_eq(strtod(spc__buf_text(&out), NULL), values[i]);
    }
    spc__buf_clear(&out);
    spc__json_array(&json, NULL);
    /* not 2e+07, which JSON readers take for a real number */
    spc__json_real(&json, NULL, 2e7);
    spc__json_real(&json, NULL, -1000000);
    spc__json_end_array(&json);
    ck_assert_str_eq(spc__buf_text(&out), "[20000000,-1000000]");
    spc__buf_clear(&out);
    spc__json_array(&json, NULL);
    spc__json_real(&json, NULL, NAN);
    spc__json_real(&json, NULL, -INFINITY);
    spc__json_end_array(&json);
    ck_assert_str_eq(spc__buf_text(&out), "[null,null]");
    spc__buf_release(&out);
}
END_TEST

/* Log */

static void remember(int level, const char *text, void *payload)
{
    snprintf(payload, 100, "%d:%.80s", level, text);
}

START_TEST(the_log_reaches_its_callback_if_there_is_one)
{
    char seen[100] = "";
    spc__log log = {remember, seen}, none = {NULL, NULL};
    spc__log_printf(&log, SPC_LOG_WARNING, "%s %d", "slow", 3);
    ck_assert_str_eq(seen, "2:slow 3");
    spc__log_printf(&none, SPC_LOG_WARNING, "nothing");
    spc__log_printf(NULL, SPC_LOG_WARNING, "nothing");
}
END_TEST

/* Threads */

typedef struct tally {
    atomic_int calls[10000];
    atomic_int nested;
} tally;

static void count_call(void *payload, int64_t i)
{
    tally *seen = payload;
    atomic_fetch_add(&seen->calls[i], 1);
}

START_TEST(a_parallel_loop_visits_every_index_once)
{
    static const int threads[] = {0, 1, 2, 7, 1000};
    static tally seen;
    memset(&seen, 0, sizeof(seen));
    spc__parallel_for(10000, threads[_i], count_call, &seen);
    for (int i = 0; i < 10000; i++)
        ck_assert_int_eq(atomic_load(&seen.calls[i]), 1);
    spc__parallel_for(0, threads[_i], count_call, &seen);
    spc__parallel_for(-5, threads[_i], count_call, &seen);
    ck_assert_int_eq(atomic_load(&seen.calls[0]), 1);
}
END_TEST

typedef struct nested {
    tally inner;
    pthread_t outer;
    atomic_int strangers; /* calls on other threads than the outer body's */
} nested;

static void note_thread(void *payload, int64_t i)
{
    nested *seen = payload;

    atomic_fetch_add(&seen->inner.calls[i], 1);
    if (!pthread_equal(pthread_self(), seen->outer))
        atomic_fetch_add(&seen->strangers, 1);
}

static void nest(void *payload, int64_t i)
{
    nested *seen = &((nested *)payload)[i];

    seen->outer = pthread_self();
    spc__parallel_for(10, 4, note_thread, seen);
}

START_TEST(a_loop_in_the_body_of_another_runs_on_its_thread)
{
    static nested seen[8];

    memset(seen, 0, sizeof(seen));
    spc__parallel_for(LENGTH(seen), 4, nest, seen);
    for (int i = 0; i < LENGTH(seen); i++) {
        ck_assert_int_eq(atomic_load(&seen[i].inner.calls[9]), 1);
        ck_assert_int_eq(atomic_load(&seen[i].strangers), 0);
    }
    ck_assert_int_ge(spc__cpu_count(), 1);
}
END_TEST

typedef struct stopping {
    volatile int flag;
    atomic_int calls;
} stopping;

static void stop_at_fifth(void *payload, int64_t i)
{
    stopping *s = payload;
    if (atomic_fetch_add(&s->calls, 1) + 1 == 5)
        __atomic_store_n(&s->flag, 1, __ATOMIC_RELAXED);
    (void)i;
}

START_TEST(a_parallel_loop_ends_with_its_flag)
{
    stopping s = {0};
    ck_assert(!spc__parallel_until(&s.flag, 100, 1, stop_at_fifth, &s));
    ck_assert_int_eq(atomic_load(&s.calls), 5);
    s = (stopping){0};
    ck_assert(spc__parallel_until(&s.flag, 5, 1, stop_at_fifth, &s));
    ck_assert(spc__parallel_until(&s.flag, 0, 1, stop_at_fifth, &s));
}
END_TEST

/* ---- the pool ------------------------------------------------------------ */

static void add_one(void *payload, int64_t i)
{
    atomic_fetch_add(&((atomic_int *)payload)[i], 1);
}

START_TEST(a_pool_of_any_size_does_all_of_a_loop)
{
    static const int sizes[] = {1, 2, 3, 16};
    atomic_int counts[200] = {0};
    spc__pool *pool;

    assert_ok(spc__pool_create(&pool, sizes[_i], &error));
    for (int n = 0; n <= 200; n++)
        spc__pool_run(pool, n, add_one, counts);
    for (int i = 0; i < 200; i++)
        ck_assert_int_eq(atomic_load(&counts[i]), 200 - i);
    spc__pool_free(pool);
    spc__pool_free(NULL);
}
END_TEST

/* A body that waits until it is released. */
typedef struct gate {
    atomic_int entered, calls;
    atomic_bool open;
} gate;

static void pass_gate(void *payload, int64_t i)
{
    const struct timespec pause = {0, 1000 * 1000};
    gate *g = payload;

    atomic_fetch_add(&g->entered, 1);
    while (!atomic_load(&g->open))
        nanosleep(&pause, NULL);
    atomic_fetch_add(&g->calls, 1);
    (void)i;
}

START_TEST(a_pool_works_in_the_background_until_finished)
{
    const struct timespec pause = {0, 1000 * 1000};
    atomic_int counts[5] = {0};
    gate g = {0};
    spc__pool *pool;

    assert_ok(spc__pool_create(&pool, 3, &error));
    ck_assert_int_eq(spc__pool_helpers(pool), 2);
    spc__pool_start(pool, 4, pass_gate, &g);
    while (atomic_load(&g.entered) < 2) /* both threads have entered */
        nanosleep(&pause, NULL);
    ck_assert_int_eq(atomic_load(&g.calls), 0);
    spc__pool_run(pool, LENGTH(counts), add_one, counts); /* meanwhile */
    for (int i = 0; i < LENGTH(counts); i++)
        ck_assert_int_eq(atomic_load(&counts[i]), 1);
    atomic_store(&g.open, true);
    spc__pool_finish(pool);
    ck_assert_int_eq(atomic_load(&g.calls), 4);
    spc__pool_free(pool);
}
END_TEST

static void meet(void *payload, int64_t i)
{
    gate *g = payload;

    (void)i;
    if (atomic_fetch_add(&g->entered, 1) == 2)
        atomic_store(&g->open, true);
    while (!atomic_load(&g->open))
        sched_yield();
    atomic_fetch_add(&g->calls, 1);
}

START_TEST(bodies_that_wait_for_each_other_are_all_begun_or_none_is)
{
    gate met = {0}, none = {0};
    spc__pool *pool;

    assert_ok(spc__pool_create(&pool, 3, &error));
    for (int i = 0; i < 100; i++) {
        met = (gate){0};
        ck_assert(spc__pool_run_together(pool, 3, meet, &met));
        ck_assert_int_eq(atomic_load(&met.calls), 3);
    }
    ck_assert(!spc__pool_run_together(pool, 4, meet, &none));
    spc__pool_start(pool, 2, pass_gate, &met); /* occupies both threads */
    ck_assert(!spc__pool_run_together(pool, 3, meet, &none));
    spc__pool_finish(pool);
    ck_assert(!spc__pool_run_together(NULL, 2, meet, &none));
    ck_assert_int_eq(atomic_load(&none.entered), 0);
    spc__pool_free(pool);
}
END_TEST

/* Without helper threads, spc__pool_finish() does all the work. */
START_TEST(who_finishes_does_what_nobody_began)
{
    atomic_int counts[5] = {0};
    spc__pool *pool;

    assert_ok(spc__pool_create(&pool, 1, &error));
    ck_assert_int_eq(spc__pool_helpers(pool), 0);
    spc__pool_start(pool, LENGTH(counts), add_one, counts);
    ck_assert_int_eq(atomic_load(&counts[0]), 0);
    spc__pool_finish(pool);
    for (int i = 0; i < LENGTH(counts); i++)
        ck_assert_int_eq(atomic_load(&counts[i]), 1);
    spc__pool_free(pool);
}
END_TEST

START_TEST(a_written_file_reads_back_and_leaves_nothing_else)
{
    spc__buf text = SPC__BUF_INIT;
    assert_ok(spc__file_write(at("f"), "one\0two", 7, &error));
    assert_ok(spc__file_write(at("f"), "three", 5, &error));
    assert_ok(spc__file_read(&text, at("f"), 5, &error));
    ck_assert_str_eq(spc__buf_text(&text), "three");
    ck_assert_int_eq(unlink(at("f")), 0);
    /* no temporary file is left */
    ck_assert_int_eq(rmdir(spc__buf_text(&folder)), 0);
    spc__buf_release(&text);
}
END_TEST

START_TEST(reading_says_what_is_wrong)
{
    spc__buf text = SPC__BUF_INIT;
    ck_assert_int_eq(spc__file_read(&text, at("none"), 9, &error),
                     SPC_ENOTFOUND);
    ck_assert_ptr_nonnull(strstr(error.text, "none"));
    ck_assert_int_eq(spc__file_read(&text, at("."), 9, &error), SPC_EIO);
    assert_ok(spc__file_write(at("f"), "0123456789", 10, &error));
    ck_assert_int_eq(spc__file_read(&text, at("f"), 9, &error), SPC_ECAPACITY);
    spc__buf_release(&text);
}
END_TEST

START_TEST(a_write_that_fails_leaves_the_old_file)
{
    static char big[100000];
    struct rlimit small = {50000, RLIM_INFINITY}, before;
    spc__buf text = SPC__BUF_INIT;
    assert_ok(spc__file_write(at("f"), "old", 3, &error));
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before);
    setrlimit(RLIMIT_FSIZE, &small);
    ck_assert_int_eq(spc__file_write(at("f"), big, sizeof(big), &error),
                     SPC_EIO);
    setrlimit(RLIMIT_FSIZE, &before);
    assert_ok(spc__file_read(&text, at("f"), 100, &error));
    ck_assert_str_eq(spc__buf_text(&text), "old");
    ck_assert_int_eq(unlink(at("f")), 0);
    ck_assert_int_eq(rmdir(spc__buf_text(&folder)), 0);
    spc__buf_release(&text);
    ck_assert_int_eq(spc__file_write("/dev/null/f", "", 0, &error), SPC_EIO);
}
END_TEST

START_TEST(parents_are_made_once_and_a_file_in_the_way_is_named)
{
    struct stat facts;
    assert_ok(spc__make_parents(at("a"), &error));
    assert_ok(spc__make_parents(at("b//c/d"), &error));
    assert_ok(spc__make_parents(at("b/c/d"), &error));
    ck_assert_int_eq(stat(at("b/c"), &facts), 0);
    ck_assert(S_ISDIR(facts.st_mode));
    ck_assert_int_ne(stat(at("b/c/d"), &facts), 0);
    assert_ok(spc__make_parents("plain", &error));
    assert_ok(spc__file_write(at("b/f"), "", 0, &error));
    ck_assert_int_eq(spc__make_parents(at("b/f/g"), &error), SPC_EIO);
    ck_assert_ptr_nonnull(strstr(error.text, "b/f"));
    ck_assert_int_eq(unlink(at("b/f")), 0);
    ck_assert_int_eq(rmdir(at("b/c")), 0);
    ck_assert_int_eq(rmdir(at("b")), 0);
}
END_TEST

/* Folders without a holder are removed. New ones are too, if they are old or
 * dated before the clock was set back. */
START_TEST(a_work_folder_lives_as_long_as_its_lock)
{
    static const struct timespec times[][2] = {
        {{1000, 0}, {1000, 0}}, {{4000000000, 0}, {4000000000, 0}}};
    const struct timespec *old = times[0];
    spc__buf work = SPC__BUF_INIT, killed = SPC__BUF_INIT;
    char new_one[512], other[512];
    struct stat facts;
    int lock, free_lock;

    setenv("TMPDIR", spc__buf_text(&folder), 1);
    assert_ok(spc__work_dir_create(&work, &lock, NULL, &error));
    assert_ok(spc__work_dir_create(&killed, &free_lock, NULL, &error));
    close(free_lock); /* as if its process had ended */
    snprintf(new_one, sizeof(new_one), "%s/spctune-new-a1b2c3",
             spc__buf_text(&folder));
    snprintf(other, sizeof(other), "%s/spctune-other", spc__buf_text(&folder));
    ck_assert_int_eq(mkdir(new_one, 0700) + mkdir(other, 0700), 0);
    ck_assert_int_eq(utimensat(AT_FDCWD, work.data, old, 0), 0);
    ck_assert_int_eq(utimensat(AT_FDCWD, other, old, 0), 0);
    spc__work_dirs_sweep(NULL);
    ck_assert_int_eq(stat(work.data, &facts), 0);
    ck_assert_int_ne(stat(killed.data, &facts), 0);
    ck_assert_int_eq(stat(new_one, &facts), 0);
    ck_assert_int_eq(utimensat(AT_FDCWD, new_one, times[_i], 0), 0);
    close(lock);
    spc__work_dirs_sweep(NULL);
    ck_assert_int_ne(stat(work.data, &facts), 0);
    ck_assert_int_ne(stat(new_one, &facts), 0);
    ck_assert_int_eq(stat(other, &facts), 0);
    unsetenv("TMPDIR");
    rmdir(other);
    spc__buf_release(&work);
    spc__buf_release(&killed);
}
END_TEST

START_TEST(a_temporary_folder_is_private_and_goes_with_its_files)
{
    struct stat facts;
    ck_assert_int_eq(stat(spc__buf_text(&folder), &facts), 0);
    ck_assert_int_eq(facts.st_mode & 0777, 0700);
    assert_ok(spc__file_write(at("f"), "", 0, &error));
    spc__temp_dir_remove(spc__buf_text(&folder));
    ck_assert_int_ne(stat(spc__buf_text(&folder), &facts), 0);
    spc__temp_dir_remove(NULL);
    setenv("TMPDIR", "/nonexistent", 1);
    spc__buf none = SPC__BUF_INIT;
    ck_assert_int_eq(spc__temp_dir_create(&none, &error), SPC_ENOTFOUND);
    ck_assert_ptr_nonnull(strstr(error.text, "/nonexistent"));
    spc__buf_release(&none);
}
END_TEST

static TCase *values(void)
{
    TCase *tc = tcase_create("values");
    tcase_add_test(tc, every_status_has_a_name_a_text_and_an_exit_code);
    tcase_add_test(tc, an_error_keeps_its_status_under_a_prefix);
    tcase_add_test(tc, an_error_has_letters_and_ends_of_lines_alone);
    tcase_add_test(tc, an_error_may_quote_itself_and_is_cut_not_overrun);
    tcase_add_test(tc, a_buffer_grows_and_stays_terminated);
    tcase_add_test(tc, a_detached_buffer_is_a_string_of_its_own);
    tcase_add_test(tc, a_failed_buffer_takes_no_more_and_detaches_to_null);
    tcase_add_test(tc, attributes_keep_their_order_and_replace_in_place);
    tcase_add_loop_test(tc, attributes_format_and_parse_are_inverse, 0,
                        LENGTH(canonical));
    tcase_add_test(tc, digits_make_a_number_and_nothing_else_does);
    tcase_add_loop_test(tc,
                        malformed_attributes_are_refused_with_their_position, 0,
                        LENGTH(malformed));
    tcase_add_test(tc, too_many_attributes_are_refused);
    tcase_add_test(tc, attributes_differ_by_value_name_order_and_count);
    tcase_add_test(tc, json_places_commas_keys_and_nesting);
    tcase_add_loop_test(tc, json_strings_are_escaped_and_always_valid_utf8, 0,
                        LENGTH(strings));
    tcase_add_test(tc, json_numbers_read_back_and_non_finite_ones_are_null);
    return tc;
}

/* Short numbers are read without the C library and must equal its result in
 * every bit, including the sign of zero. */
START_TEST(short_numbers_are_read_as_strtod_reads_them)
{
    static const char *const whole[] = {"0",
                                        "-0",
                                        "0.0",
                                        "-0.000",
                                        ".5",
                                        "5.",
                                        "00012",
                                        "-1.",
                                        "0.1",
                                        "1e3",
                                        "999999999999999",
                                        "9999999999999999",
                                        "123456789.123456",
                                        "0.000000000000001",
                                        "inf"};
    static const char *const none[] = {"-", ".", "-.", "1.2.3", "--1", "1 "};
    spc__random random;
    char text[40];
    double read;

    spc__random_init(&random, suite_seed(NULL));
    for (int i = 0; i < 20000 + LENGTH(whole); i++) {
        int point = (int)spc__random_below(&random, 17);
        uint64_t digits = spc__random_u64(&random) %
                          (uint64_t)pow(10, 1 + spc__random_below(&random, 17));
        if (i < LENGTH(whole))
            snprintf(text, sizeof(text), "%s", whole[i]);
        else
            snprintf(text, sizeof(text), "%s%llu.%0*llu", i % 2 ? "-" : "",
                     (unsigned long long)(digits / 1000), 1 + point % 6,
                     (unsigned long long)(digits % 1000));
        double expected = strtod(text, NULL);
        ck_assert_msg(spc__number_read(&read, text), "%s", text);
        ck_assert_msg(memcmp(&read, &expected, sizeof(read)) == 0,
                      "%s is read as %.17g", text, read);
    }
    for (int i = 0; i < LENGTH(none); i++)
        ck_assert_msg(!spc__number_read(&read, none[i]), "%s", none[i]);
}
END_TEST

START_TEST(numbers_are_written_and_read_with_a_point_in_every_locale)
{
    static const struct {
        const char *text;
        bool is_number;
        double value;
    } texts[] = {{"1.5", true, 1.5}, {"-2e-3", true, -2e-3}, {"7", true, 7},
                 {"1,5", false, 0},  {"", false, 0},         {" 1", false, 0},
                 {"1.5m", false, 0}, {"0x10", false, 0}};
    spc__buf out = SPC__BUF_INIT;
    spc__json json;
    double value;
    char text[32];

    use_decimal_comma();
    for (int i = 0; i < LENGTH(texts); i++) {
        ck_assert_int_eq(spc__number_read(&value, texts[i].text),
                         texts[i].is_number);
        if (texts[i].is_number)
            ck_assert_double_eq(value, texts[i].value);
    }
    spc__number_print(text, sizeof(text), 6, 1234.5678);
    ck_assert_str_eq(text, "1234.57");
    spc__number_print_word(text, sizeof(text), 6, 99999997952.0f);
    ck_assert_str_eq(text, "1e11");
    spc__json_init(&json, &out);
    spc__json_real(&json, NULL, 0.1);
    ck_assert_str_eq(spc__buf_text(&out), "0.1");
    snprintf(text, sizeof(text), "%.1f", 0.5);
    ck_assert_str_eq(text, "0,5"); /* the host's own locale is unchanged */
    spc__buf_release(&out);
}
END_TEST

static TCase *numbers(void)
{
    TCase *tc = tcase_create("numbers");
    tcase_add_test(tc, short_numbers_are_read_as_strtod_reads_them);
    tcase_add_test(tc,
                   numbers_are_written_and_read_with_a_point_in_every_locale);
    tcase_add_loop_test(tc,
                        the_median_and_spread_of_samples_are_the_textbook_ones,
                        0, LENGTH(statistics));
    tcase_add_test(tc, time_goes_forward_and_the_wall_clock_is_of_this_century);
    tcase_add_test(tc, a_clock_that_is_set_back_loses_no_time);
    tcase_add_test(tc, every_type_reads_what_it_wrote);
    tcase_add_test(tc, whole_numbers_are_rounded_to_even_and_saturate);
    tcase_add_test(tc, every_half_survives_the_way_through_float);
    tcase_add_test(tc, halves_round_to_nearest_even_between_all_neighbours);
    tcase_add_test(tc, bfloats_are_upper_halves_rounded_to_nearest_even);
    tcase_add_loop_test(tc, known_values_have_their_known_bits, 0,
                        LENGTH(known_halves));
    tcase_add_loop_test(tc, sha256_gives_the_digests_of_the_standard, 0,
                        LENGTH(fips));
    tcase_add_test(tc, sha256_does_not_care_how_its_input_is_cut);
    tcase_add_test(tc, sha256_fields_do_not_run_together);
    tcase_add_test(tc, splitmix_gives_its_published_sequence);
    tcase_add_test(tc, random_numbers_fill_their_range_evenly);
    return tc;
}

static void note_signals(void *payload, int64_t i)
{
    sigset_t *masks = payload;
    const struct timespec pause = {0, 20 * 1000 * 1000};

    pthread_sigmask(SIG_SETMASK, NULL, &masks[i]);
    nanosleep(&pause, NULL); /* gives every thread an iteration */
}

START_TEST(threads_of_a_loop_take_their_own_faults_and_no_signals)
{
    sigset_t masks[16], mine;
    int others = 0;

    spc__parallel_for(LENGTH(masks), 4, note_signals, masks);
    pthread_sigmask(SIG_SETMASK, NULL, &mine);
    ck_assert(!sigismember(&mine, SIGTERM));
    for (int i = 0; i < LENGTH(masks); i++) {
        others += sigismember(&masks[i], SIGTERM);
        ck_assert_int_eq(sigismember(&masks[i], SIGTERM),
                         sigismember(&masks[i], SIGINT));
        ck_assert(!sigismember(&masks[i], SIGSEGV));
        ck_assert(!sigismember(&masks[i], SIGABRT));
    }
    ck_assert_int_gt(others, 0);
}
END_TEST

static TCase *world(void)
{
    TCase *tc = tcase_create("world");
    tcase_add_checked_fixture(tc, make_folder, remove_folder);
    tcase_add_test(tc, the_log_reaches_its_callback_if_there_is_one);
    tcase_add_loop_test(tc, a_parallel_loop_visits_every_index_once, 0, 5);
    tcase_add_test(tc, a_loop_in_the_body_of_another_runs_on_its_thread);
    tcase_add_test(tc, threads_of_a_loop_take_their_own_faults_and_no_signals);
    tcase_add_test(tc, a_parallel_loop_ends_with_its_flag);
    tcase_add_loop_test(tc, a_pool_of_any_size_does_all_of_a_loop, 0, 4);
    tcase_add_test(tc, a_pool_works_in_the_background_until_finished);
    tcase_add_test(tc,
                   bodies_that_wait_for_each_other_are_all_begun_or_none_is);
    tcase_add_test(tc, who_finishes_does_what_nobody_began);
    tcase_add_test(tc, a_written_file_reads_back_and_leaves_nothing_else);
    tcase_add_test(tc, reading_says_what_is_wrong);
    tcase_add_test(tc, a_write_that_fails_leaves_the_old_file);
    tcase_add_test(tc, parents_are_made_once_and_a_file_in_the_way_is_named);
    tcase_add_test(tc, a_temporary_folder_is_private_and_goes_with_its_files);
    tcase_add_loop_test(tc, a_work_folder_lives_as_long_as_its_lock, 0, 2);
    return tc;
}

Suite *suite(void)
{
    Suite *base = suite_create("base");
    suite_add_tcase(base, values());
    suite_add_tcase(base, numbers());
    suite_add_tcase(base, world());
    return base;
}

int main(void)
{
    return run_suite(suite());
}
