/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_torch_file.c - checkpoints of PyTorch. The tests write them, operation
 * by operation, as torch.save does.
 */
#include "base/buf.h"
#include "base/file.h"
#include "harness/suite.h"
#include "spc_import.h"

#include <zip.h>

static spc__buf folder = SPC__BUF_INIT, pickle = SPC__BUF_INIT;
static spc_error error;
static char path[512];

static void set_up(void)
{
    ck_assert_int_eq(spc__temp_dir_create(&folder, &error), SPC_OK);
    snprintf(path, sizeof(path), "%s/model.pth", spc__buf_text(&folder));
    spc__buf_clear(&pickle);
}

static void tear_down(void)
{
    spc__temp_dir_remove(spc__buf_text(&folder));
    spc__buf_release(&folder);
    spc__buf_release(&pickle);
}

/* ---- writing ------------------------------------------------------------- */

#define OP(text) spc__buf_append(&pickle, text, sizeof(text) - 1)

static void put_text(const char *text)
{
    uint32_t length = (uint32_t)strlen(text);

    OP("X");
    spc__buf_append(&pickle, &length, 4);
    spc__buf_append(&pickle, text, length);
}

static void put_int(int32_t value)
{
    OP("J");
    spc__buf_append(&pickle, &value, 4);
}

static void put_ints(const int *values, int count)
{
    OP("(");
    for (int i = 0; i < count; i++)
        put_int(values[i]);
    OP("t");
}

/* A tensor, and the storage that it reads. */
typedef struct sample {
    const char *name, *type, *key;
    int stored, offset, rank, shape[9], strides[9];
} sample;

static void put_tensor(const sample *s)
{
    OP("ctorch._utils\n_rebuild_tensor_v2\n((");
    put_text("storage");
    OP("ctorch\n");
    spc__buf_puts(&pickle, s->type);
    OP("\n");
    put_text(s->key);
    put_text("cpu");
    put_int(s->stored);
    OP("tQ");
    put_int(s->offset);
    put_ints(s->shape, s->rank);
    put_ints(s->strides, s->rank);
    OP("\x89"
       "ccollections\nOrderedDict\n)RtR");
}

static void put_table(const sample *samples, int count)
{
    OP("ccollections\nOrderedDict\n)Rq\x01(");
    for (int i = 0; i < count; i++) {
        put_text(samples[i].name);
        put_tensor(&samples[i]);
    }
    OP("u}");
    put_text("_metadata");
    OP("ccollections\nOrderedDict\n)Rsb");
}

static void add_member(zip_t *archive, const char *name, const void *data,
                       size_t bytes)
{
    zip_source_t *source = zip_source_buffer(archive, data, bytes, 0);
    zip_int64_t index = zip_file_add(archive, name, source, 0);

    ck_assert_int_ge(index, 0);
    ck_assert_int_eq(
        zip_set_file_compression(archive, (zip_uint64_t)index, ZIP_CM_STORE, 0),
        0);
}

/* Storage 0 has 24 bytes, 1 to 24; storage 1 has the number 7 in 64 bits. */
static const char *write_archive(const char *order)
{
    static char bytes[24];
    static const int64_t seven = 7;
    zip_t *archive = zip_open(path, ZIP_CREATE | ZIP_TRUNCATE, NULL);

    for (int i = 0; i < 24; i++)
        bytes[i] = (char)(i + 1);
    ck_assert_ptr_nonnull(archive);
    add_member(archive, "model/data.pkl", pickle.data, pickle.length);
    add_member(archive, "model/byteorder", order, strlen(order));
    add_member(archive, "model/data/0", bytes, sizeof(bytes));
    add_member(archive, "model/data/1", &seven, sizeof(seven));
    ck_assert_int_eq(zip_close(archive), 0);
    return path;
}

/* A file with these tensors. */
static const char *write_samples(const sample *samples, int count)
{
    OP("\x80\x02");
    put_table(samples, count);
    OP(".");
    return write_archive("little");
}

static spc_weights *open_file(const char *of)
{
    spc_weights *weights = NULL;

    ck_assert_msg(spc_weights_open(&weights, &of, 1, &error) == SPC_OK, "%s",
                  error.text);
    return weights;
}

static void assert_refused(const char *of, spc_status status, const char *said)
{
    spc_weights *weights = NULL;
    spc_status got = spc_weights_open(&weights, &of, 1, &error);

    ck_assert_msg(got == status && strstr(error.text, said) != NULL,
                  "%s, not %s: '%s' lacks '%s'", spc_status_name(got),
                  spc_status_name(status), error.text, said);
    ck_assert_ptr_null(weights);
}

/* ---- reading ------------------------------------------------------------- */

static const sample whole[] = {
    {"conv.weight", "ByteStorage", "0", 24, 0, 3, {2, 3, 4}, {12, 4, 1}},
    {"conv.turned", "ByteStorage", "0", 24, 0, 2, {4, 3}, {1, 4}},
    {"conv.slice", "ByteStorage", "0", 24, 5, 1, {3}, {1}},
    {"conv.halves", "HalfStorage", "0", 12, 2, 2, {1, 5}, {77, 1}},
    {"conv.floats", "FloatStorage", "0", 6, 0, 1, {6}, {1}},
    {"conv.none", "BFloat16Storage", "0", 12, 12, 2, {0, 4}, {4, 1}},
    {"bn.num_batches_tracked", "LongStorage", "1", 1, 0, 0, {0}, {0}},
};

static void check_bytes(const spc_weights *weights, const char *name,
                        spc_element type, const unsigned char *want, int count)
{
    const spc_array *array = spc_weights_find(weights, name);

    ck_assert_msg(array != NULL, "no array '%s'", name);
    ck_assert_int_eq(array->type, type);
    ck_assert_int_eq((int)array->bytes, count);
    ck_assert_mem_eq(array->data, want, (size_t)count);
    ck_assert_ptr_nonnull(strstr(array->file, "model.pth"));
}

static void check_whole(const char *of)
{
    unsigned char row[24], turned[12];
    const unsigned char seven[8] = {7};
    spc_weights *weights = open_file(of);

    for (int i = 0; i < 24; i++)
        row[i] = (unsigned char)(i + 1);
    for (int i = 0; i < 12; i++)
        turned[i] = (unsigned char)(1 + i / 3 + 4 * (i % 3));
    ck_assert_int_eq(spc_weights_count(weights), 7);
    check_bytes(weights, "conv.weight", SPC_ELEMENT_U8, row, 24);
    check_bytes(weights, "conv.turned", SPC_ELEMENT_U8, turned, 12);
    check_bytes(weights, "conv.slice", SPC_ELEMENT_U8, row + 5, 3);
    check_bytes(weights, "conv.halves", SPC_ELEMENT_F16, row + 4, 10);
    check_bytes(weights, "conv.floats", SPC_ELEMENT_F32, row, 24);
    check_bytes(weights, "conv.none", SPC_ELEMENT_BF16, row, 0);
    check_bytes(weights, "bn.num_batches_tracked", SPC_ELEMENT_I64, seven, 8);
    ck_assert_int_eq(spc_weights_find(weights, "conv.weight")->shape[1], 3);
    ck_assert_int_eq(spc_weights_find(weights, "conv.none")->rank, 2);
    spc_weights_free(weights);
}

START_TEST(a_state_dict_is_read)
{
    check_whole(write_samples(whole, 7));
}
END_TEST

/* Trainers store more, and the table under a name. */
START_TEST(a_table_inside_a_checkpoint_is_read)
{
    static const char *const names[] = {"model_state", "state_dict", "model"};

    OP("\x80\x02}q\x00(");
    put_text("epoch");
    OP("K\x07");
    put_text("rates");
    OP("](G\x3f\xb9\x99\x99\x99\x99\x99\x9a"
       "NM\x01\x02\x8a\x05\x01\x02\x03\x04\x05\x8a\x09\x01\x02\x03\x04\x05\x06"
       "\x07\x08\x09\x88"
       "K\x01K\x02\x86r\x05\x01\x00\x00j\x05\x01\x00\x00\x85h\x00\x87K\x01]"
       "K\x02"
       "ae");
    put_text("others");
    put_table(whole, 0);
    put_text(names[_i]);
    put_table(whole, 7);
    OP("u.");
    check_whole(write_archive("little"));
}
END_TEST

/* The parameter of a module, and names of values that are not tensors. */
START_TEST(a_parameter_is_a_tensor_and_other_values_are_left_out)
{
    OP("\x80\x02}(");
    put_text("p");
    OP("ctorch._utils\n_rebuild_parameter\n(");
    put_tensor(&whole[2]);
    OP("\x88"
       "ccollections\nOrderedDict\n)RtR");
    put_text("version");
    put_text("1.2");
    OP("K\x01");
    put_tensor(&whole[2]);
    OP("u.");
    spc_weights *weights = open_file(write_archive("little"));
    ck_assert_int_eq(spc_weights_count(weights), 1);
    ck_assert_int_eq((int)spc_weights_find(weights, "p")->bytes, 3);
    spc_weights_free(weights);
}
END_TEST

#ifdef SPC_WITH_JANSSON
/* Both forms of the same weights give the same arrays. */
START_TEST(a_checkpoint_is_its_safetensors)
{
    char copy[600];
    spc_weights *weights = open_file(write_samples(whole, 7));
    int count = spc_weights_count(weights);

    snprintf(copy, sizeof(copy), "%s/copy.safetensors", spc__buf_text(&folder));
    ck_assert_msg(spc_weights_save(copy, spc_weights_at(weights, 0), count,
                                   NULL, &error) == SPC_OK,
                  "%s", error.text);
    spc_weights *other = open_file(copy);
    ck_assert_int_eq(spc_weights_count(other), count);
    for (int i = 0; i < count; i++) {
        const spc_array *a = spc_weights_at(weights, i);
        const spc_array *b = spc_weights_at(other, i);
        ck_assert_str_eq(a->name, b->name);
        ck_assert_int_eq(a->type, b->type);
        ck_assert_int_eq(a->rank, b->rank);
        ck_assert_mem_eq(a->shape, b->shape, sizeof(a->shape));
        ck_assert_uint_eq(a->bytes, b->bytes);
        ck_assert_mem_eq(a->data, b->data, a->bytes);
    }
    spc_weights_free(weights);
    spc_weights_free(other);
}
END_TEST
#endif

START_TEST(a_tensor_of_nine_dimensions_leaves_the_others)
{
    const sample both[] = {
        whole[2],
        {"deep",
         "ByteStorage",
         "0",
         24,
         0,
         9,
         {1, 1, 1, 1, 1, 1, 1, 1, 1},
         {0}},
    };
    spc_weights *weights = open_file(write_samples(both, 2));

    ck_assert_int_eq(spc_weights_count(weights), 2);
    ck_assert_ptr_nonnull(spc_weights_find(weights, "deep")->unreadable);
    ck_assert_ptr_null(spc_weights_find(weights, "conv.slice")->unreadable);
    spc_weights_free(weights);
}
END_TEST

/* ---- refusals ------------------------------------------------------------ */

#define PICKLE(text) text, sizeof(text) - 1

static const struct {
    const char *bytes;
    size_t count;
    spc_status status;
    const char *said;
} wrong[] = {
    {PICKLE("\x80\x02"
            "cos\nsystem\nX\x02\0\0\0ls\x85R."),
     SPC_EUNSUPPORTED, "byte 2 of its pickle names 'os.system'"},
    {PICKLE("\x80\x02"
            "cnumpy.core.multiarray\nscalar\n."),
     SPC_EUNSUPPORTED, "names 'numpy.core.multiarray.scalar'"},
    {PICKLE("\x80\x02(ios\nsystem\n."), SPC_EUNSUPPORTED,
     "byte 3 of its pickle has the operation 0x69 INST"},
    {PICKLE("\x80\x02)\x81."), SPC_EUNSUPPORTED, "0x81 NEWOBJ"},
    {PICKLE("\x80\x02\xff"), SPC_EUNSUPPORTED, "operation 0xff,"},
    {PICKLE("\x80\x04N."), SPC_EUNSUPPORTED, "protocol 4"},
    {PICKLE("\x80\x02"
            "ctorch\nFloatStorage\n)R."),
     SPC_EFORMAT, "calls the type of a storage"},
    {PICKLE("\x80\x02"
            "ccollections\nOrderedDict\nN\x85R."),
     SPC_EFORMAT, "makes an OrderedDict of other values"},
    {PICKLE("\x80\x02"
            "ctorch._utils\n_rebuild_tensor_v2\nN\x85R."),
     SPC_EFORMAT, "too few or too many values"},
    {PICKLE("\x80\x02NNR."), SPC_EFORMAT,
     "calls an object that is not a function"},
    {PICKLE("\x80\x02]N\x85"
            "b."),
     SPC_EFORMAT, "adds to a value that is not"},
    {PICKLE("\x80\x02}Nb."), SPC_EFORMAT, "sets a state that is not a dict"},
    {PICKLE("\x80\x02NQ."), SPC_EFORMAT, "not a storage"},
    {PICKLE("\x80\x02h\x05."), SPC_EFORMAT, "never remembered"},
    {PICKLE("\x80\x02Nr\xff\xff\xff\x7f."), SPC_EFORMAT, "invalid index"},
    {PICKLE("\x80\x02t."), SPC_EFORMAT, "a mark that is not there"},
    {PICKLE("\x80\x02}(Nu."), SPC_EFORMAT, "adds to a value that is not"},
    {PICKLE("\x80\x02(\x85."), SPC_EFORMAT, "takes a value that is not there"},
    {PICKLE("\x80\x02."), SPC_EFORMAT, "ends with no value"},
    {PICKLE("\x80\x02X\xff\xff\xff\xff"), SPC_EFORMAT,
     "continues past its end"},
    {PICKLE("\x80\x02X\x02\0\0\0a\0."), SPC_EFORMAT, "a zero byte"},
    {PICKLE("\x80\x02"
            "ctorch\nFloat"),
     SPC_EFORMAT, "without an end"},
    {PICKLE("\x80\x02N"), SPC_EFORMAT, "continues past its end"},
    {PICKLE("\x80\x02N."), SPC_EFORMAT, "not a dict of tensors"},
    {PICKLE("\x80\x02}]]as."), SPC_EFORMAT, "adds to a value that is not"},
    {PICKLE("\x80\x02}."), SPC_EFORMAT, "save model.state_dict()"},
};

START_TEST(a_pickle_that_is_no_table_of_tensors_is_refused_in_one_sentence)
{
    spc__buf_append(&pickle, wrong[_i].bytes, wrong[_i].count);
    assert_refused(write_archive("little"), wrong[_i].status, wrong[_i].said);
}
END_TEST

static const struct {
    sample of;
    const char *said;
} misfits[] = {
    {{"t", "ByteStorage", "0", 24, 0, 1, {25}, {1}}, "beyond its storage"},
    {{"t", "ByteStorage", "0", 24, 20, 2, {2, 2}, {4, 1}},
     "beyond its storage"},
    {{"t", "ByteStorage", "0", 24, 0, 2, {100, 1}, {0, 1}},
     "beyond its storage"},
    {{"t", "ByteStorage", "0", 24, 0, 2, {2, 2}, {0x7fffffff, 0x7fffffff}},
     "beyond its storage"},
    {{"t", "ByteStorage", "0", 24, 0, 1, {-1}, {1}}, "not numbers from 0"},
    {{"t", "ByteStorage", "0", 24, 0, 2, {2, 2}, {1, -1}}, "not numbers from 0"},
    {{"t", "ByteStorage", "0", 24, -1, 1, {1}, {1}}, "no offset"},
    {{"t", "ByteStorage", "0", 25, 0, 1, {1}, {1}}, "size differs"},
    {{"t", "ByteStorage", "2", 24, 0, 1, {1}, {1}}, "not in the file"},
    {{"t", "FloatStorage", "0", 24, 0, 1, {1}, {1}}, "size differs"},
    {{"t\x1b", "ByteStorage", "0", 24, 0, 1, {1}, {1}}, "control character"},
};

START_TEST(a_tensor_that_does_not_fit_its_storage_is_refused)
{
    assert_refused(write_samples(&misfits[_i].of, 1), SPC_EFORMAT,
                   misfits[_i].said);
}
END_TEST

/* A tensor that is not contiguous needs a copy, and one tensor may have many
 * names: 20 bytes of the pickle would take 1 MB each. */
START_TEST(copies_cannot_take_more_memory_than_the_file_is_worth)
{
    enum { BYTES = 1 << 20 };
    const sample turned = {"t", "ByteStorage",        "2",      BYTES, 0,
                           2,   {1024, BYTES / 1024}, {1, 1024}};
    char *zeros = calloc(BYTES, 1), name[16];

    OP("\x80\x02}(");
    put_text(turned.name);
    put_tensor(&turned);
    OP("q\x01");
    for (int i = 1; i < 10; i++) {
        snprintf(name, sizeof(name), "t%d", i);
        put_text(name);
        OP("h\x01");
    }
    OP("u.");
    write_archive("little");
    zip_t *archive = zip_open(path, 0, NULL);
    add_member(archive, "model/data/2", zeros, BYTES);
    ck_assert_int_eq(zip_close(archive), 0);
    assert_refused(path, SPC_EFORMAT, "more than twice the file");
    free(zeros);
}
END_TEST

START_TEST(another_container_is_refused)
{
    OP("\x80\x02}.");
    assert_refused(write_archive("big"), SPC_EUNSUPPORTED,
                   "byte order is not 'little'");
    ck_assert_int_eq(
        spc__file_write(path, "\x80\x02\x8a\x0al\xfc\x9c", 7, &error), SPC_OK);
    assert_refused(path, SPC_EUNSUPPORTED, "before 1.6");
    ck_assert_int_eq(spc__file_write(path, "junk", 4, &error), SPC_OK);
    assert_refused(path, SPC_EFORMAT, "model.pth");
    zip_t *archive = zip_open(path, ZIP_CREATE | ZIP_TRUNCATE, NULL);
    add_member(archive, "model/data.npy", "x", 1);
    ck_assert_int_eq(zip_close(archive), 0);
    assert_refused(path, SPC_EFORMAT, "has no data.pkl");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("torch_file");
    TCase *tcase = tcase_create("reading");

    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, a_state_dict_is_read);
    tcase_add_loop_test(tcase, a_table_inside_a_checkpoint_is_read, 0, 3);
    tcase_add_test(tcase,
                   a_parameter_is_a_tensor_and_other_values_are_left_out);
#ifdef SPC_WITH_JANSSON
    tcase_add_test(tcase, a_checkpoint_is_its_safetensors);
#endif
    tcase_add_test(tcase, a_tensor_of_nine_dimensions_leaves_the_others);
    suite_add_tcase(suite, tcase);
    tcase = tcase_create("refusals");
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_loop_test(
        tcase, a_pickle_that_is_no_table_of_tensors_is_refused_in_one_sentence,
        0, (int)(sizeof(wrong) / sizeof(*wrong)));
    tcase_add_loop_test(tcase,
                        a_tensor_that_does_not_fit_its_storage_is_refused, 0,
                        (int)(sizeof(misfits) / sizeof(*misfits)));
    tcase_add_test(tcase,
                   copies_cannot_take_more_memory_than_the_file_is_worth);
    tcase_add_test(tcase, another_container_is_refused);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
