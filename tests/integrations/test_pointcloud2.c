/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_pointcloud2.c - PointCloud2 messages of every layout give the same rows;
 * messages whose sizes or fields are wrong are refused with a sentence.
 */
#include "base/random.h"
#include "harness/suite.h"
#include "integrations/ros2/pointcloud2.h"

#include <math.h>

enum { INT8 = 1, UINT8, INT16, UINT16, INT32, UINT32, FLOAT32, FLOAT64 };

static spc_error error;

/* A message whose data end where their allocation ends, so that
 * AddressSanitizer detects reads beyond the data. */
typedef struct message {
    spc_pointcloud2 cloud;
    spc_pointcloud2_field fields[5];
    uint8_t *data;
} message;

/* Returns a coordinate of a point. Every datatype can hold these numbers. */
static double number_at(int point, int field)
{
    return (point * 7 + field * 31) % 120;
}

/* Appends a number in the byte order of the message. It writes byte by byte, so
 * that the order does not depend on the host. */
static void store(uint8_t *at, int datatype, double value, bool big)
{
    static const int sizes[] = {0, 1, 1, 2, 2, 4, 4, 4, 8};
    int size = sizes[datatype];
    uint64_t bits;
    float single = (float)value;
    uint32_t word;

    if (datatype == FLOAT32)
        memcpy(&word, &single, 4), bits = word;
    else if (datatype == FLOAT64)
        memcpy(&bits, &value, 8);
    else
        bits = (uint64_t)(int64_t)value;
    for (int i = 0; i < size; i++)
        at[big ? size - 1 - i : i] = (uint8_t)(bits >> (8 * i));
}

/* Makes a message whose fields have one type. There are `pads` bytes before
 * each field, after each point, and after each row. */
static message make_message(int height, int width, int datatype, int pads,
                            bool big)
{
    static const char *const names[] = {"x", "y", "z", "intensity", "ring"};
    static const int sizes[] = {0, 1, 1, 2, 2, 4, 4, 4, 8};
    message m = {.cloud = {.field_count = 5,
                           .height = (uint32_t)height,
                           .width = (uint32_t)width,
                           .is_bigendian = big}};
    uint32_t step = 0;

    for (int i = 0; i < 5; i++) {
        step += (uint32_t)pads;
        m.fields[i] =
            (spc_pointcloud2_field){names[i], step, (uint8_t)datatype};
        step += (uint32_t)sizes[datatype];
    }
    m.cloud.point_step = step + (uint32_t)pads;
    m.cloud.row_step = (uint32_t)width * m.cloud.point_step + (uint32_t)pads;
    m.cloud.data_bytes = (size_t)height * m.cloud.row_step;
    m.data = malloc(m.cloud.data_bytes + 1);
    memset(m.data, 0xee, m.cloud.data_bytes);
    for (int p = 0; p < height * width; p++)
        for (int i = 0; i < 5; i++)
            store(m.data + p / width * (int)m.cloud.row_step +
                      p % width * (int)m.cloud.point_step + m.fields[i].offset,
                  datatype, number_at(p, i), big);
    m.data = realloc(m.data, m.cloud.data_bytes);
    m.cloud.data = m.data;
    return m;
}

static const spc_pointcloud2_column columns[] = {
    {"x", 1, NAN},  {"y", 1, NAN}, {"z", 1, NAN}, {"intensity", 0.5f, NAN},
    {"time", 1, 7}, /* absent from the message */
};
enum { COLUMNS = 5, POINTS = 12 };

static spc_status read_message(float *out, spc_pointcloud2_counts *counts,
                               message *m, int64_t capacity)
{
    m->cloud.fields = m->fields;
    *error.text = '\0';
    return spc_pointcloud2_read(out, counts, &m->cloud, columns, COLUMNS,
                                capacity, &error);
}

static void expect_point(const float *row, int point)
{
    ck_assert_float_eq(row[0], (float)number_at(point, 0));
    ck_assert_float_eq(row[1], (float)number_at(point, 1));
    ck_assert_float_eq(row[2], (float)number_at(point, 2));
    ck_assert_float_eq(row[3], (float)number_at(point, 3) / 2);
    ck_assert_float_eq(row[4], 7);
}

/* _i: datatype, bytes of padding, byte order. */
START_TEST(every_layout_gives_the_same_rows)
{
    int datatype = 1 + _i % 8, pads = _i / 8 % 4, big = _i / 32;
    message m = make_message(3, POINTS / 3, datatype, pads, big != 0);
    float out[POINTS][COLUMNS];
    spc_pointcloud2_counts counts;

    ck_assert_msg(read_message(out[0], &counts, &m, POINTS) == SPC_OK, "%s",
                  error.text);
    ck_assert_int_eq(counts.rows, POINTS);
    ck_assert_int_eq(counts.dropped, 0);
    for (int p = 0; p < POINTS; p++)
        expect_point(out[p], p);
    free(m.data);
}
END_TEST

START_TEST(signed_integers_are_negative)
{
    for (int datatype = INT8; datatype <= FLOAT64; datatype++)
        for (int big = 0; big < 2; big++) {
            bool sign =
                datatype != UINT8 && datatype != UINT16 && datatype != UINT32;
            message m = make_message(1, 1, datatype, 1, big != 0);
            float out[COLUMNS];
            spc_pointcloud2_counts counts;

            store(m.data + m.fields[0].offset, datatype, sign ? -100 : 100,
                  big != 0);
            ck_assert_int_eq(read_message(out, &counts, &m, 1), SPC_OK);
            ck_assert_float_eq(out[0], sign ? -100 : 100);
            free(m.data);
        }
}
END_TEST

START_TEST(points_that_are_not_finite_are_dropped)
{
    static const double bad[] = {NAN, INFINITY, -INFINITY, 1e300};

    for (int i = 0; i < 4 * 4; i++) {
        message m = make_message(2, POINTS / 2, FLOAT64, 3, false);
        float out[POINTS][COLUMNS];
        spc_pointcloud2_counts counts;

        /* The bad number is in the first row, in one of the four fields that
         * are read. */
        store(m.data + m.cloud.point_step + m.fields[i / 4].offset, FLOAT64,
              bad[i % 4], false);
        ck_assert_int_eq(read_message(out[0], &counts, &m, POINTS), SPC_OK);
        ck_assert_int_eq(counts.rows, POINTS - 1);
        ck_assert_int_eq(counts.dropped, 1);
        expect_point(out[0], 0);
        for (int p = 1; p < POINTS - 1; p++)
            expect_point(out[p], p + 1);
        free(m.data);
    }
}
END_TEST

START_TEST(a_field_that_is_not_read_may_be_nan)
{
    message m = make_message(1, 1, FLOAT32, 0, false);
    float out[COLUMNS];
    spc_pointcloud2_counts counts;

    store(m.data + m.fields[4].offset, FLOAT32, NAN, false);
    ck_assert_int_eq(read_message(out, &counts, &m, 1), SPC_OK);
    ck_assert_int_eq(counts.rows, 1);
    free(m.data);
}
END_TEST

START_TEST(an_empty_cloud_has_no_rows)
{
    float out[COLUMNS];
    spc_pointcloud2_counts counts;

    for (int i = 0; i < 3; i++) {
        message m = make_message(1, 1, FLOAT32, 0, false);
        m.cloud.width = i == 0 ? 0 : 5;
        m.cloud.height = i == 1 ? 0 : 5;
        if (i == 2)
            m.cloud.width = m.cloud.height = 0;
        m.cloud.data = NULL;
        m.cloud.data_bytes = 0;
        ck_assert_msg(read_message(out, &counts, &m, 1) == SPC_OK, "%s",
                      error.text);
        ck_assert_int_eq(counts.rows, 0);
        free(m.data);
    }
}
END_TEST

START_TEST(the_padding_of_the_last_row_may_be_missing)
{
    message m = make_message(3, POINTS / 3, FLOAT32, 3, false);
    float out[POINTS][COLUMNS];
    spc_pointcloud2_counts counts;

    m.cloud.data_bytes -= 3;
    m.data = realloc(m.data, m.cloud.data_bytes);
    m.cloud.data = m.data;
    ck_assert_int_eq(read_message(out[0], &counts, &m, POINTS), SPC_OK);
    expect_point(out[POINTS - 1], POINTS - 1);
    m.cloud.data_bytes--;
    ck_assert_int_eq(read_message(out[0], &counts, &m, POINTS), SPC_EINVAL);
    free(m.data);
}
END_TEST

/* ---- refused messages ---------------------------------------------------- */

static void no_intensity(message *m)
{
    m->fields[3].name = "reflectivity";
}
static void no_fields(message *m)
{
    m->cloud.field_count = 0;
}
static void unknown_type(message *m)
{
    m->fields[2].datatype = 9;
}
static void zero_type(message *m)
{
    m->fields[0].datatype = 0;
}
static void field_outside(message *m)
{
    m->fields[1].offset = m->cloud.point_step - 3;
}
static void offset_wraps(message *m)
{
    m->fields[1].offset = UINT32_MAX - 1;
}
static void rows_too_short(message *m)
{
    m->cloud.row_step = 4 * m->cloud.point_step - 1;
}
static void too_wide(message *m)
{
    m->cloud.width = UINT32_MAX;
}
static void too_high(message *m)
{
    m->cloud.height = UINT32_MAX;
}
static void zero_step(message *m)
{
    m->cloud.point_step = 0;
    m->cloud.field_count = 0;
}
static void data_cut(message *m)
{
    m->cloud.data_bytes -= 1;
}
static void no_data(message *m)
{
    m->cloud.data = NULL;
}

static const struct {
    void (*spoil)(message *m);
    const char *sentence;
} wrong[] = {
    {no_intensity, "no field 'intensity'; its fields are: x, y, z, reflectivi"},
    {no_fields, "no field 'x'; its fields are: none"},
    {unknown_type, "field 'z' has the datatype 9; PointCloud2 has 1 (INT8) to"},
    {zero_type, "field 'x' has the datatype 0"},
    {field_outside, "field 'y' ends at byte 21 of a point, but point_step is"},
    {offset_wraps, "field 'y' ends at byte 4294967298"},
    {rows_too_short, "a row of 4 points of 20 bytes has 80 bytes, but row_st"},
    {too_wide, "a row of 4294967295 points"},
    {too_high, "the data have 240 bytes, but height 4294967295"},
    {zero_step, "no field 'x'"},
    {data_cut, "the data have 239 bytes, but height 3, width 4, row_step 80 a"},
    {no_data, "the data have 0 bytes"},
};

START_TEST(a_wrong_message_is_refused)
{
    message m = make_message(3, 4, FLOAT32, 0, false);
    float out[POINTS][COLUMNS];
    spc_pointcloud2_counts counts;

    wrong[_i].spoil(&m);
    ck_assert_int_eq(read_message(out[0], &counts, &m, POINTS), SPC_EINVAL);
    ck_assert_int_eq(error.status, SPC_EINVAL);
    ck_assert_msg(strstr(error.text, wrong[_i].sentence) != NULL,
                  "'%s' lacks '%s'", error.text, wrong[_i].sentence);
    free(m.data);
}
END_TEST

/* If all columns are constants, no data are read. The reader must not loop over
 * 2^64 points. */
START_TEST(points_of_no_bytes_are_refused)
{
    message m = make_message(1, 1, FLOAT32, 0, false);
    spc_pointcloud2_column constant = {"time", 1, 0};
    float out[1];
    spc_pointcloud2_counts counts;

    m.cloud.fields = m.fields;
    m.cloud.point_step = m.cloud.row_step = 0;
    m.cloud.width = m.cloud.height = UINT32_MAX;
    ck_assert_int_eq(
        spc_pointcloud2_read(out, &counts, &m.cloud, &constant, 1, 1, &error),
        SPC_EINVAL);
    ck_assert_ptr_nonnull(strstr(error.text, "point_step is 0"));
    free(m.data);
}
END_TEST

START_TEST(more_points_than_room_are_counted)
{
    message m = make_message(3, POINTS / 3, FLOAT32, 0, false);
    float out[POINTS][COLUMNS];
    spc_pointcloud2_counts counts;

    out[5][0] = -1;
    ck_assert_int_eq(read_message(out[0], &counts, &m, 5), SPC_ECAPACITY);
    ck_assert_str_eq(error.text, "the cloud has 12 finite points, but there is "
                                 "room for 5");
    ck_assert_int_eq(counts.rows, POINTS);
    expect_point(out[4], 4);
    ck_assert_float_eq(out[5][0], -1); /* beyond the capacity: unchanged */
    free(m.data);
}
END_TEST

START_TEST(wrong_arguments_are_refused)
{
    message m = make_message(1, 1, FLOAT32, 0, false);
    float out[COLUMNS];
    spc_pointcloud2_counts counts;
    static const spc_pointcloud2_column many[SPC_POINTCLOUD2_COLUMNS + 1];

    m.cloud.fields = m.fields;
#define REFUSED(out, counts, cloud, columns, count)                            \
    ck_assert_int_eq(                                                          \
        spc_pointcloud2_read(out, counts, cloud, columns, count, 1, &error),   \
        SPC_EINVAL)
    REFUSED(NULL, &counts, &m.cloud, columns, COLUMNS);
    ck_assert_str_eq(error.text, "spc_pointcloud2_read: out is NULL");
    REFUSED(out, NULL, &m.cloud, columns, COLUMNS);
    REFUSED(out, &counts, NULL, columns, COLUMNS);
    REFUSED(out, &counts, &m.cloud, NULL, COLUMNS);
    REFUSED(out, &counts, &m.cloud, columns, 0);
    REFUSED(out, &counts, &m.cloud, many, SPC_POINTCLOUD2_COLUMNS + 1);
    ck_assert_str_eq(error.text, "17 columns were asked for; there can be 1 to "
                                 "16");
    ck_assert_int_eq(spc_pointcloud2_read(NULL, &counts, &m.cloud, columns,
                                          COLUMNS, 1, NULL),
                     SPC_EINVAL);
    free(m.data);
}
END_TEST

/* ---- changed messages ---------------------------------------------------- */

/* Changes one member a little, or to anything. */
static void change(message *m, spc__random *random)
{
    uint32_t *const members[] = {
        &m->cloud.height,     &m->cloud.width,      &m->cloud.point_step,
        &m->cloud.row_step,   &m->fields[0].offset, &m->fields[1].offset,
        &m->fields[2].offset, &m->fields[3].offset,
    };
    uint32_t which = spc__random_below(random, 10);

    if (which == 8)
        m->fields[spc__random_below(random, 5)].datatype =
            (uint8_t)spc__random_below(random, 11);
    else if (which == 9)
        m->cloud.field_count = spc__random_below(random, 6);
    else if (spc__random_below(random, 2) == 0)
        *members[which] += spc__random_below(random, 7) - 3;
    else
        *members[which] =
            (uint32_t)spc__random_u64(random) >> spc__random_below(random, 32);
}

/* Cuts data anywhere and changes members. Every row must be finite or refused.
 * AddressSanitizer detects reads outside of the data. */
START_TEST(changed_messages_are_read_or_refused)
{
    spc__random random;
    int refused = 0, read = 0;

    spc__random_init(&random, suite_base_seed());
    for (int i = 0; i < 20000; i++) {
        message m = make_message(3, 4, 1 + i % 8, i / 8 % 3, i % 2 != 0);
        float out[POINTS][COLUMNS];
        spc_pointcloud2_counts counts;

        for (uint32_t n = spc__random_below(&random, 3); n > 0; n--)
            change(&m, &random);
        if (spc__random_below(&random, 2) == 0) {
            m.cloud.data_bytes =
                spc__random_below(&random, (uint32_t)m.cloud.data_bytes + 1);
            m.data = realloc(m.data,
                             m.cloud.data_bytes > 0 ? m.cloud.data_bytes : 1);
            m.cloud.data = m.data;
        }
        spc_status status = read_message(out[0], &counts, &m, POINTS);
        ck_assert(status == SPC_OK || *error.text != '\0');
        for (int64_t p = 0; status == SPC_OK && p < counts.rows; p++)
            for (int c = 0; c < COLUMNS; c++)
                ck_assert(isfinite(out[p][c]));
        *(status == SPC_OK ? &read : &refused) += 1;
        free(m.data);
    }
    ck_assert_int_gt(read, 2000);
    ck_assert_int_gt(refused, 2000);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("pointcloud2");
    TCase *tcase = tcase_create("messages");

    tcase_add_loop_test(tcase, every_layout_gives_the_same_rows, 0, 8 * 4 * 2);
    tcase_add_test(tcase, signed_integers_are_negative);
    tcase_add_test(tcase, points_that_are_not_finite_are_dropped);
    tcase_add_test(tcase, a_field_that_is_not_read_may_be_nan);
    tcase_add_test(tcase, an_empty_cloud_has_no_rows);
    tcase_add_test(tcase, the_padding_of_the_last_row_may_be_missing);
    tcase_add_loop_test(tcase, a_wrong_message_is_refused, 0,
                        (int)(sizeof(wrong) / sizeof(*wrong)));
    tcase_add_test(tcase, points_of_no_bytes_are_refused);
    tcase_add_test(tcase, more_points_than_room_are_counted);
    tcase_add_test(tcase, wrong_arguments_are_refused);
    tcase_add_test(tcase, changed_messages_are_read_or_refused);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
