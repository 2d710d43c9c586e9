/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_fuzz_import.c - reads randomly changed files of other programs.
 *
 * Each file of tests/corpus is read unchanged, and then repeatedly with some
 * bytes changed. A reader must return either an error with a message, or arrays
 * whose bytes are all readable. A file that caused a failure stays in the
 * corpus. To run for a number of minutes in total, on files with a word in
 * their names:
 *
 *     test_fuzz_import --minutes 10 .onnx
 */
#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "harness/counted_allocations.h"
#include "harness/mutate.h"
#include "harness/suite.h"
#include "import/pickle.h"
#include "import/weights.h"
#ifdef SPC_WITH_PROTOBUF
#include "import/onnx_file.h"
#endif

#include <dirent.h>

enum { MOST_FILES = 64, MOST_BYTES = 16384, ROUNDS = 10000 };

static double seconds; /* 0: ROUNDS for each file instead */
static char *names[MOST_FILES];
static int name_count;

/* ---- readers ------------------------------------------------------------- */

typedef spc_status (*reader)(const unsigned char *data, size_t bytes,
                             spc_error *error);

/* Reads every byte of every array, so that a sanitizer detects missing
 * bytes. */
static uint64_t sum_arrays(const spc_weights *weights)
{
    uint64_t sum = 0;

    for (int i = 0; i < spc_weights_count(weights); i++) {
        const spc_array *array = spc_weights_at(weights, i);
        const unsigned char *data = array->data;
        for (size_t byte = 0; byte < array->bytes; byte++)
            sum += data[byte];
        sum += strlen(array->name) + strlen(array->file);
    }
    return sum;
}

static volatile uint64_t sink;

static spc_status read_weights(spc__weight_reader read,
                               const unsigned char *data, size_t bytes,
                               spc_error *error)
{
    spc__weight_file file = {"file.npy", data, bytes};
    spc_weights *weights = spc__weights_create();
    spc_status status = weights != NULL ? read(weights, &file, error)
                                        : spc__fail_memory(error, 1);

    if (status == SPC_OK)
        status = spc__weights_finish(weights, error);
    if (status == SPC_OK)
        sink += sum_arrays(weights);
    spc_weights_free(weights);
    return status;
}

#ifdef SPC_WITH_JANSSON
static spc_status read_safetensors(const unsigned char *data, size_t bytes,
                                   spc_error *error)
{
    return read_weights(spc__weights_read_safetensors, data, bytes, error);
}
#endif

#ifdef SPC_WITH_LIBZIP
static spc_status read_npz(const unsigned char *data, size_t bytes,
                           spc_error *error)
{
    return read_weights(spc__weights_read_npz, data, bytes, error);
}

static spc_status read_torch(const unsigned char *data, size_t bytes,
                             spc_error *error)
{
    return read_weights(spc__weights_read_torch, data, bytes, error);
}

/* The checksums of an archive refuse most changes, so the pickle inside is also
 * changed alone. */
static spc_status read_pickle(const unsigned char *data, size_t bytes,
                              spc_error *error)
{
    spc__pickle *root, *all;
    spc_status status =
        spc__pickle_read(&root, &all, "file.pkl", data, bytes, error);

    sink += status == SPC_OK ? root->count : 0;
    spc__pickle_free(all);
    return status;
}
#endif

static spc_status read_npy(const unsigned char *data, size_t bytes,
                           spc_error *error)
{
    return read_weights(spc__weights_read_npy, data, bytes, error);
}

#ifdef SPC_WITH_PROTOBUF
static spc_status read_onnx(const unsigned char *data, size_t bytes,
                            spc_error *error)
{
    spc_onnx_options options = SPC_ONNX_OPTIONS_INIT;
    spc_onnx_range range;
    spc_onnx *onnx = NULL;
    spc_net *net = NULL;
    spc_status status = spc__onnx_read(&onnx, "file.onnx", data, bytes, error);

    if (status == SPC_OK)
        status = spc_onnx_build(&net, onnx, &options, error);
    for (int i = 0; spc_onnx_range_at(&range, onnx, i) == SPC_OK; i++)
        for (int c = 0; c < range.weight_count; c++)
            sink += (uint64_t)(range.weights[c] > 0);
    spc_net_free(net);
    spc_onnx_free(onnx);
    return status;
}
#endif

static const struct {
    const char *suffix;
    reader read;
} readers[] = {
#ifdef SPC_WITH_PROTOBUF
    {".onnx", read_onnx},
#endif
#ifdef SPC_WITH_JANSSON
    {".safetensors", read_safetensors},
#endif
#ifdef SPC_WITH_LIBZIP
    {".npz", read_npz},
    {".pth", read_torch},
    {".pkl", read_pickle},
#endif
    {".npy", read_npy},
};

/* Returns the format's reader, or NULL if this build does not include it. */
static reader reader_of(const char *name)
{
    for (size_t i = 0; i < sizeof(readers) / sizeof(*readers); i++)
        if (strstr(name, readers[i].suffix) != NULL)
            return readers[i].read;
    return NULL;
}

/* ---- rounds -------------------------------------------------------------- */

/* Copies `data` to a block of exactly its size, so that reads past the end are
 * detected. */
static spc_status read_once(reader read, const char *data, size_t bytes,
                            spc_error *error)
{
    unsigned char *exact = malloc(bytes > 0 ? bytes : 1);

    memcpy(exact, data, bytes);
    *error = (spc_error){0};
    spc_status status = read(exact, bytes, error);
    free(exact);
    return status;
}

static void check_answer(spc_status status, const spc_error *error)
{
    bool is_known = status == SPC_OK || status == SPC_EFORMAT ||
                    status == SPC_EUNSUPPORTED || status == SPC_EDUPLICATE ||
                    status == SPC_EINVAL || status == SPC_ERANGE;

    ck_assert_msg(is_known, "%s: %s", spc_status_name(status), error->text);
    ck_assert_int_eq(status, error->status);
    ck_assert(status == SPC_OK || error->text[0] != '\0');
}

static void change_and_read(reader read, const spc__buf *file, uint64_t seed)
{
    static char data[MOST_BYTES];
    spc_error error;
    spc__random random;

    spc__random_init(&random, seed);
    memcpy(data, file->data, file->length);
    size_t bytes = mutate(data, file->length, sizeof(data), &random);
    check_answer(read_once(read, data, bytes, &error), &error);
}

static void read_file(spc__buf *out, const char *name)
{
    char inside[512];
    spc_error error;

    snprintf(inside, sizeof(inside), "corpus/%s", name);
    ck_assert_msg(spc__file_read(out, suite_path(inside), MOST_BYTES / 2,
                                 &error) == SPC_OK,
                  "%s", error.text);
}

START_TEST(a_changed_file_is_read_or_refused_in_one_sentence)
{
    const char *name = names[_i];
    reader read = reader_of(name);
    spc__buf file = SPC__BUF_INIT;
    spc_error error;
    double since = cpu_seconds();
    uint64_t first = (uint64_t)suite_variant() * 1000000, i = 0;

    if (read == NULL)
        skip_test("a format that was left out of this build");
    if (seconds > 0)
        first = spc__now_ns();
    printf("%s from seed %llu on\n", name, (unsigned long long)first);
    fflush(stdout);
    read_file(&file, name);
    check_answer(read_once(read, file.data, file.length, &error), &error);
    uint64_t rounds = suite_wants_all() ? 20 * ROUNDS : ROUNDS;
    for (; seconds > 0 ? cpu_seconds() - since < seconds : i < rounds; i++)
        change_and_read(read, &file, first + i);
    printf("%s: %llu from seed %llu on\n", name, (unsigned long long)i,
           (unsigned long long)first);
    spc__buf_release(&file);
}
END_TEST

/* A cut behind the network may be accepted: in an ONNX file only the versions
 * of operator sets follow it. */
enum { BEHIND_NETWORK = 13 };

/* Skips the empty file, which is refused before the reader is called. */
START_TEST(a_file_that_is_cut_short_is_refused)
{
    const char *name = names[_i];
    reader read = reader_of(name);
    spc__buf file = SPC__BUF_INIT;
    spc_error error;

    if (read == NULL)
        skip_test("a format that was left out of this build");
    read_file(&file, name);
    for (size_t bytes = 1; bytes < file.length; bytes++) {
        spc_status status = read_once(read, file.data, bytes, &error);
        bool may_be_whole = strstr(name, ".onnx") != NULL &&
                            bytes + BEHIND_NETWORK >= file.length;
        check_answer(status, &error);
        ck_assert_msg(status != SPC_OK || may_be_whole, "%s of %zu bytes", name,
                      bytes);
    }
    spc__buf_release(&file);
}
END_TEST

/* Files named "bad..." must be refused, and all others accepted. */
START_TEST(the_corpus_itself_is_as_its_names_say)
{
    spc__buf file = SPC__BUF_INIT;
    spc_error error;
    reader read = reader_of(names[_i]);

    if (read == NULL)
        skip_test("a format that was left out of this build");
    read_file(&file, names[_i]);
    spc_status status = read_once(read, file.data, file.length, &error);
    ck_assert_msg((status != SPC_OK) == (strncmp(names[_i], "bad", 3) == 0),
                  "%s: %s", names[_i],
                  status == SPC_OK ? "it was read" : error.text);
    spc__buf_release(&file);
}
END_TEST

/* If an allocation fails, the reader must report it. A sanitizer checks that
 * nothing leaks. Allocations inside other libraries do not fail here. */
START_TEST(each_allocation_fails_once)
{
    spc__buf file = SPC__BUF_INIT;
    spc_error error;
    reader read = reader_of(names[_i]);
    spc_status status = SPC_ENOMEM;
    int nth = 0;

    if (read == NULL)
        skip_test("a format that was left out of this build");
    read_file(&file, names[_i]);
    while (status == SPC_ENOMEM && nth < 5000) {
        error = (spc_error){0};
        fail_allocation(++nth);
        status = read((unsigned char *)file.data, file.length, &error);
        fail_allocation(0);
        ck_assert_int_eq(status, error.status);
    }
    ck_assert_msg((status != SPC_OK) == (strncmp(names[_i], "bad", 3) == 0),
                  "allocation %d: %s", nth, error.text);
    ck_assert_int_gt(nth, 2);
    spc__buf_release(&file);
}
END_TEST

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void list_corpus(const char *part)
{
    DIR *folder = opendir(suite_path("corpus"));
    const struct dirent *entry;

    while (folder != NULL && (entry = readdir(folder)) != NULL)
        if (strchr(entry->d_name, '.') > entry->d_name && /* a file, not a
                                                           * folder */
            name_count < MOST_FILES && strstr(entry->d_name, part) != NULL)
            names[name_count++] = strdup(entry->d_name);
    if (folder != NULL)
        closedir(folder);
    qsort(names, (size_t)name_count, sizeof(*names), by_text);
}

int main(int argc, char **argv)
{
    Suite *suite = suite_create("fuzz_import");
    TCase *tcase = tcase_create("corpus");

    int next = 1;

    if (argc > 2 && strcmp(argv[1], "--minutes") == 0) {
        seconds = 60 * atof(argv[2]);
        next = 3;
    }
    list_corpus(argc > next ? argv[next] : "");
    if (name_count == 0)
        return suite_skip("no corpus");
    seconds /= name_count;
    tcase_set_timeout(tcase, 60 + 10 * seconds);
    tcase_add_loop_test(tcase, the_corpus_itself_is_as_its_names_say, 0,
                        name_count);
    tcase_add_loop_test(tcase,
                        a_changed_file_is_read_or_refused_in_one_sentence, 0,
                        name_count);
    tcase_add_loop_test(tcase, a_file_that_is_cut_short_is_refused, 0,
                        name_count);
    tcase_add_loop_test(tcase, each_allocation_fails_once, 0, name_count);
    suite_add_tcase(suite, tcase);
    int result = run_suite(suite);
    for (int i = 0; i < name_count; i++)
        free(names[i]);
    return result;
}
