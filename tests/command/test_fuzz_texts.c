/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_fuzz_texts.c - reads the project's own texts and files with random
 * changes: layers, operators, scenes, networks, records, signatures, lists,
 * figures of peers and audits, files of defaults, stored compiled code.
 *
 * Each file of tests/corpus/texts is read unchanged, and then repeatedly with
 * random changes. For any input, a reader returns either a printable error or a
 * value, which is checked. A file that found a fault stays in the corpus. To
 * test the files with a word in their names for some minutes:
 *
 *     test_fuzz_texts --minutes 10 .layer
 */
#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/text/words.h"
#include "cache/exchange/code_form.h"
#include "cache/exchange/exchange.h"
#include "cache/pack/signature.h"
#include "command/audit/audit_figures.h"
#include "command/bench/peers.h"
#include "command/cli/npy.h"
#include "command/tune/worklist.h"
#include "compiler/artefact.h"
#include "compiler/backend.h"
#include "harness/mutate.h"
#include "harness/suite.h"
#include "net/form/net_text.h"
#include "spc/lab.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <unistd.h>

Suite *suite(void);

enum { MOST_FILES = 64, MOST_BYTES = 1 << 16 };

static double seconds; /* 0: run the rounds of the table instead */
static char *names[MOST_FILES];
static int name_count;
static char input[400]; /* the changed input, for readers of files */
static char database[400];

/* ---- shared by the command's files --------------------------------------- */

static const cli_option fuzz_options[] = {
    {'b', "budget", "TIME", CLI_TIME, 0, ""},
    {0, "effort", "quick|normal|exhaustive", CLI_EFFORT, 8, ""},
    {0, "scene", "SPEC", CLI_LIST, 16, ""},
    {0, NULL, NULL, CLI_FLAG, 0, NULL},
};

static spc_status run_nothing(cli *self, void *args)
{
    (void)self;
    (void)args;
    return SPC_OK;
}

const cli_command cli_worker = {.name = "worker", .run = run_nothing};
static const cli_command tune = {.name = "tune",
                                 .options = fuzz_options,
                                 .args_bytes = 64,
                                 .run = run_nothing};
const cli_command *const cli_commands[] = {&tune, NULL};

const volatile int *cli_cancel_flag(void)
{
    static volatile int never;

    return &never;
}

void cli_catch_signals(const cli *self)
{
    (void)self;
}

/*
 * Takes the message of cli_fail as the error. The message need not be
 * printable.
 */
static spc_status take_said(spc_status status, spc_error *error)
{
    if (status != SPC_OK)
        *error = *cli_last_error();
    return status;
}

/* ---- readers ------------------------------------------------------------- */

typedef spc_status (*reader)(const char *data, size_t bytes, spc_error *error);

/* A value that is read, written, and read again must be equal. */
static spc_status read_layer(const char *data, size_t bytes, spc_error *error)
{
    char text[512], again[512];
    spc_conv conv, other;
    spc_error none;

    (void)bytes;
    spc_status status = spc_conv_parse(&conv, data, error);
    if (status == SPC_OK)
        status = spc_conv_check(&conv, error);
    if (status != SPC_OK)
        return status;
    spc_conv_format(text, sizeof(text), &conv);
    ck_assert_msg(spc_conv_parse(&other, text, &none) == SPC_OK,
                  "'%s' is written '%s': %s", data, text, none.text);
    spc_conv_format(again, sizeof(again), &other);
    ck_assert_str_eq(text, again);
    return SPC_OK;
}

static spc_status read_feature(const char *data, size_t bytes, spc_error *error)
{
    char text[512], again[512];
    spc_feature feature, other;
    spc_error none;

    (void)bytes;
    spc_status status = spc_feature_parse(&feature, data, error);
    if (status != SPC_OK)
        return status;
    spc_feature_format(text, sizeof(text), &feature);
    ck_assert_msg(spc_feature_parse(&other, text, &none) == SPC_OK,
                  "'%s' is written '%s': %s", data, text, none.text);
    spc_feature_format(again, sizeof(again), &other);
    ck_assert_str_eq(text, again);
    return SPC_OK;
}

/* Writes the input to a file, for readers that take a path. */
static spc_status write_input(const char *ending, const char *data,
                              size_t bytes, spc_error *error)
{
    snprintf(input, sizeof(input), "/dev/shm/spctune-fuzz-%ld%s",
             (long)getpid(), ending);
    int file = open(input, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    bool good = file >= 0 && write(file, data, bytes) == (ssize_t)bytes;

    if (file >= 0)
        close(file);
    return good ? SPC_OK
                : spc__fail(error, SPC_EIO, "cannot write '%s'", input);
}

static spc_status read_scene(const char *ending, const char *data, size_t bytes,
                             spc_error *error)
{
    char spec[450];
    spc_scene *scene = NULL;
    spc_status status = write_input(ending, data, bytes, error);

    snprintf(spec, sizeof(spec), "%s@0.05", input);
    if (status == SPC_OK)
        status = spc_scene_load(&scene, spec, error);
    if (status == SPC_OK)
        ck_assert_int_ge(spc_scene_rows(scene), 0);
    spc_scene_free(scene);
    return status;
}

static spc_status read_npy(const char *data, size_t bytes, spc_error *error)
{
    spc_scene *scene = NULL;
    spc_status status = read_scene(".npy", data, bytes, error);

    if (status == SPC_OK)
        return status;
    /* A file of voxels has no voxel size, so it is read without one. */
    status = spc_scene_load(&scene, input, error);
    spc_scene_free(scene);
    return status;
}

static spc_status read_ply(const char *data, size_t bytes, spc_error *error)
{
    return read_scene(".ply", data, bytes, error);
}

static spc_status read_bin(const char *data, size_t bytes, spc_error *error)
{
    return read_scene(".bin", data, bytes, error);
}

static spc_status read_lua(const char *data, size_t bytes, spc_error *error)
{
    spc_net *net = NULL;
    spc_status status = write_input(".lua", data, bytes, error);

    if (status == SPC_OK)
        status = spc_net_load(&net, input, SPC_F16, error);
    spc_net_free(net);
    return status;
}

/* The first line of the input states how many bytes its arrays have. */
static spc_status read_net(const char *data, size_t bytes, spc_error *error)
{
    spc__net_array *arrays = NULL;
    const char *text = strchr(data, '\n');
    spc_net *net = NULL;
    int count = 0;

    (void)bytes;
    if (text == NULL)
        return spc__fail(error, SPC_EFORMAT, "no number of bytes");
    spc_status status = spc__net_read(&net, &arrays, &count, text + 1,
                                      strtoll(data, NULL, 10), error);
    free(arrays);
    spc_net_free(net);
    return status;
}

static void check_sentence(const char *text)
{
    for (const char *at = text; *at != '\0'; at++)
        ck_assert_msg((unsigned char)*at >= ' ' || *at == '\n' || *at == '\t',
                      "byte %d in '%s'", *at, text);
}

static spc_status see_fate(spc__fate fate, const char *record,
                           const char *reason, int64_t line, void *payload)
{
    (void)fate;
    (void)line;
    (void)payload;
    check_sentence(record != NULL ? record : "");
    check_sentence(reason != NULL ? reason : "");
    return SPC_OK;
}

/* Checks that accepted records are valid. */
static spc_status read_records(const char *data, size_t bytes, spc_error *error)
{
    spc__exchange exchange = {.trusts = true, .each = see_fate};
    spc__cache *cache = NULL;
    int64_t checked;

    unlink(database);
    spc_status status = spc__cache_open(&cache, database, NULL, 0, error);
    if (status == SPC_OK)
        status = spc__cache_import(cache, data, bytes, &exchange, error);
    if (status == SPC_OK)
        status = spc__cache_verify(cache, &checked, NULL, NULL, error);
    spc__cache_close(cache);
    return status;
}

/* The key, a line of "====", and the signature of corpus/minisign/text. */
static spc_status read_signature(const char *data, size_t bytes,
                                 spc_error *error)
{
    const char *between = strstr(data, "====\n");
    static spc__buf text;

    (void)bytes;
    if (text.length == 0)
        spc__file_read(&text, suite_path("corpus/minisign/text"), 10000, error);
    if (between == NULL)
        return spc__fail(error, SPC_EFORMAT, "no two texts");
    char *key = strndup(data, (size_t)(between - data));
    spc_status status =
        spc__signature_check(key, between + 5, text.data, text.length, error);
    free(key);
    return status;
}

static spc_status read_config(const char *data, size_t bytes, spc_error *error)
{
    char args[64] = {0};
    cli self = {.command = &tune};
    spc_status status = write_input(".config", data, bytes, error);

    setenv("SPC_CONFIG", input, 1);
    self.globals.quiet = true;
    if (status == SPC_OK)
        status = take_said(cli_read_config(&self, args), error);
    cli_list *scenes = (cli_list *)(void *)(args + 16);
    free(scenes->at);
    free(self.globals.layer_files.at);
    for (int i = 0; i < self.config.count; i++)
        free((char *)self.config.at[i]);
    free(self.config.at);
    return status;
}

static spc_status read_peers(const char *data, size_t bytes, spc_error *error)
{
    peers *all = NULL;
    spc_status status = write_input(".txt", data, bytes, error);

    if (status == SPC_OK)
        status = take_said(peers_read(&all, input), error);
    peers_free(all);
    return status;
}

static spc_status read_list(const char *data, size_t bytes, spc_error *error)
{
    const char *one = input;
    cli_list operands = {&one, 1}, scenes = {0};
    worklist_source from = {
        .operands = &operands, .scenes = &scenes, .command = "tune"};
    worklist list = {0};
    spc_status status = write_input(".list", data, bytes, error);

    if (status == SPC_OK)
        status = take_said(worklist_read(&list, &from), error);
    worklist_free(&list);
    return status;
}

/* The command's readers, of features and of scenes for a network. */
static spc_status read_array(const char *data, size_t bytes, spc_error *error)
{
    float *values = NULL;
    npy_table table;
    int64_t whole;
    spc_status status = write_input(".npy", data, bytes, error);

    if (status != SPC_OK)
        return status;
    status = take_said(npy_open(&table, input, "input"), error);
    if (status == SPC_OK)
        status = take_said(npy_floats(&values, &table), error);
    for (int64_t row = 0; status == SPC_OK && row < table.rows.count; row++)
        for (int64_t c = 0; c < table.rows.columns; c++)
            spc__numpy_int(&whole, &table.rows, row, c);
    free(values);
    npy_close(&table);
    return status;
}

/* Reads each line separately, like a report. */
static spc_status read_figures(const char *data, size_t bytes, spc_error *error)
{
    char *text = strndup(data, bytes), *rest = NULL;
    int figures = 0;

    for (char *line = strtok_r(text, "\n", &rest); line != NULL;
         line = strtok_r(NULL, "\n", &rest)) {
        audit_figure figure;
        double share;
        const char *about;
        if (!audit_read_line(&figure, &share, &about, line))
            continue;
        ck_assert(figure < AUDIT_FIGURES && share >= 0);
        ck_assert(about >= line && about <= line + strlen(line));
        figures++;
    }
    free(text);
    return figures > 0 ? SPC_OK : spc__fail(error, SPC_EFORMAT, "no figure");
}

/* Code that would be passed to a driver or a loader. */
static spc_status read_code(const char *data, size_t bytes, spc_error *error)
{
    spc__attrs resources;
    char kernel[256];
    spc_error none;

    ck_assert_uint_le(spc__code_statics(data, bytes), SIZE_MAX / 2);
    spc__cubin_report(&resources, kernel, sizeof(kernel), data, bytes, &none);
    return spc__cubin_check(data, bytes, 90, error);
}

static spc_status read_object(const char *data, size_t bytes, spc_error *error)
{
    return spc__code_statics(data, bytes) > 0
               ? SPC_OK
               : spc__fail(error, SPC_EFORMAT, "nothing that stays");
}

static spc_status read_packed(const char *data, size_t bytes, spc_error *error)
{
    void *code = NULL;
    size_t count = 0;
    spc_status status = spc__code_unpack(&code, &count, data, bytes, error);

    ck_assert((status == SPC_OK) == (code != NULL));
    if (status == SPC_ENOMEM)
        error->text[0] = error->text[0] != '\0' ? error->text[0] : '?';
    free(code);
    return status;
}

/* True for scenes that can be generated quickly. */
static bool is_small(const char *spec)
{
    enum { DIGITS = 2, TOO_MANY = 20 /* longer than any valid number */ };

    for (size_t digits; *spec != '\0'; spec += digits + (spec[digits] != 0)) {
        digits = strspn(spec, "0123456789");
        if (digits > DIGITS && digits < TOO_MANY)
            return false;
    }
    return true;
}

static spc_status read_spec(const char *data, size_t bytes, spc_error *error)
{
    spc_scene *scene = NULL;

    (void)bytes;
    if (!is_small(data) || strncmp(data, "gen:", 4) != 0)
        return spc__fail(error, SPC_EINVAL, "not asked for");
    spc_status status = spc_scene_load(&scene, data, error);
    spc_scene_free(scene);
    return status;
}

/* A number is accepted exactly if strtoll() reads all of it. */
static void check_integer(spc__span span)
{
    char *text = strndup(span.at, span.length), *end;
    int64_t number;
    bool plain = text[0] == '-' ? isdigit((unsigned char)text[1])
                                : isdigit((unsigned char)text[0]);

    errno = 0;
    long long value = strtoll(text, &end, 10);
    plain = plain && *end == '\0' && strlen(text) == span.length && errno == 0;
    bool read = spc__scan_integer(&number, span, INT64_MIN, INT64_MAX);
    ck_assert_msg(read == plain, "'%s'", text);
    ck_assert(!read || number == value);
    ck_assert(!read || !spc__scan_integer(&number, span, value + (value < 0),
                                          value - (value >= 0)));
    free(text);
}

/* Checks that parts and separators cover the text without gaps. */
static void check_parts(spc__span whole)
{
    const char *at = whole.at;

    for (spc__span rest = whole; rest.at != NULL;) {
        spc__span name, value, part = spc__scan_part(&rest, ',');
        ck_assert(part.at == at && memchr(at, ',', part.length) == NULL);
        at += part.length + 1;
        spc__scan_pair(&name, &value, part);
        ck_assert(name.at == part.at);
        ck_assert_uint_eq(name.length + (value.at != NULL) + value.length,
                          part.length);
        check_integer(name);
        check_integer(value.at != NULL ? value : name);
    }
    ck_assert(at == whole.at + whole.length + 1);
}

/* Checks that words and the blanks between them cover all bytes, in order. */
static void check_words(spc__span whole)
{
    const char *at = whole.at, *end = whole.at + whole.length;

    for (spc__span rest = whole; rest.at != NULL;) {
        spc__span word = spc__scan_word(&rest);
        ck_assert(word.at >= at && word.at + word.length <= end);
        for (; at < word.at; at++)
            ck_assert(*at == ' ' || *at == '\t');
        for (; at < word.at + word.length; at++)
            ck_assert(*at != ' ' && *at != '\t');
        ck_assert(word.length > 0 || rest.at == NULL);
    }
    for (; at < end; at++)
        ck_assert(*at == ' ' || *at == '\t');
}

/* A share is accepted exactly if 1 <= k <= n <= most. */
static void check_share(int64_t k, int64_t n)
{
    char text[64];
    int index = -1, count = -1;

    snprintf(text, sizeof(text), "%lld/%lld", (long long)k, (long long)n);
    bool read = spc__scan_share(&index, &count, spc__span_of(text), 1000);
    ck_assert_msg(read == (k >= 1 && k <= n && n <= 1000), "%s", text);
    ck_assert(!read || (index == k - 1 && count == n));
}

/* A struct with all forms of words. */
typedef struct typed {
    int count, axes[3], name;
    float real, length;
    bool flag;
} typed;

static const char *const typed_names[] = {"alpha", "beta", "gamma", NULL};

#define AT(field) offsetof(typed, field)
static const spc__word typed_words[] = {
    {"count", AT(count), "1", SPC__INT(1, 1000, "things"), .need = 1},
    {"axes", AT(axes), "1", SPC__AXES(-7, 7)},
    {"flag", AT(flag), "1", SPC__FLAG},
    {"real", AT(real), "1", SPC__REAL},
    {"length", AT(length), "1", SPC__LENGTH},
    {"name", AT(name), "beta", SPC__NAME(typed_names), .least = 1},
    {"other", AT(count), "1", SPC__INT(1, 2, "things"), .only = 2},
    {0},
};

static spc_status parse_typed(typed *out, const char *data, size_t bytes,
                              spc_error *error)
{
    spc__word_list list = {
        .table = typed_words, .kind = 1, .example = "x,count=1"};
    spc__span rest = {data, bytes}, head;
    spc_status status = spc__word_list_next(&head, data, &rest, error);

    *out = (typed){1, {1, 1, 1}, 1, 0, 1, false};
    return status == SPC_OK ? spc__word_list_read(out, &list, data, rest, error)
                            : status;
}

static spc_status read_typed(const char *data, size_t bytes, spc_error *error)
{
    char text[256];
    typed value, again;

    check_parts((spc__span){data, bytes});
    check_words((spc__span){data, bytes});
    check_share(bytes > 0 ? data[0] % 12 : 0, (int64_t)(bytes * 13 % 1300));
    spc_status status = parse_typed(&value, data, bytes, error);
    if (status != SPC_OK)
        return status;
    ck_assert(value.count >= 1 && value.count <= 1000 && value.length > 0);
    ck_assert(isfinite(value.real) && value.name >= 1 && value.name <= 2);
    for (int i = 0; i < 3; i++)
        ck_assert(value.axes[i] >= -7 && value.axes[i] <= 7);
    snprintf(text, sizeof(text),
             "x,count=%d,axes=%dx%dx%d,flag=%d,real=%.9g,length=%.9g,name=%s",
             value.count, value.axes[0], value.axes[1], value.axes[2],
             value.flag, (double)value.real, (double)value.length,
             typed_names[value.name]);
    ck_assert_msg(parse_typed(&again, text, strlen(text), error) == SPC_OK,
                  "'%s': %s", text, error->text);
    ck_assert_int_eq(again.count, value.count);
    ck_assert_int_eq(again.name, value.name);
    ck_assert_int_eq(again.flag, value.flag);
    ck_assert(memcmp(again.axes, value.axes, sizeof(value.axes)) == 0);
    ck_assert(again.real == value.real && again.length == value.length);
    return SPC_OK;
}

static const struct {
    const char *ending;
    reader read;
    int rounds;
} readers[] = {
    {".layer", read_layer, 500},
    {".feature", read_feature, 500},
    {".npy", read_npy, 60},
    {".ply", read_ply, 60},
    {".bin", read_bin, 60},
    {".lua", read_lua, 10},
    {".net", read_net, 150},
    {".records", read_records, 3},
    {".minisign", read_signature, 60},
    {".config", read_config, 60},
    {".peers", read_peers, 60},
    {".list", read_list, 60},
    {".array", read_array, 60},
    {".figures", read_figures, 500},
    {".cubin", read_code, 500},
    {".so", read_object, 500},
    {".zst", read_packed, 500},
    {".scene", read_spec, 60},
    {".words", read_typed, 2000},
};

static int reader_of(const char *name)
{
    size_t length = strlen(name);

    for (int i = 0; i < (int)(sizeof(readers) / sizeof(*readers)); i++) {
        size_t ending = strlen(readers[i].ending);
        if (length > ending &&
            strcmp(name + length - ending, readers[i].ending) == 0)
            return i;
    }
    return -1;
}

/* ---- rounds -------------------------------------------------------------- */

/*
 * Copies `data` to a block of exactly its size, plus one byte that ends a text.
 */
static void read_once(reader read, const char *data, size_t bytes,
                      bool must_read)
{
    char *exact = malloc(bytes + 1);
    spc_error error = {0};

    memcpy(exact, data, bytes);
    exact[bytes] = '\0';
    spc_status status = read(exact, bytes, &error);
    free(exact);
    ck_assert_msg(status == SPC_OK || !must_read, "%s", error.text);
    ck_assert_msg(status == SPC_OK || error.text[0] != '\0', "%s: no sentence",
                  spc_status_name(status));
    ck_assert_msg(status != SPC_ENOMEM && status != SPC_ESTATE, "%s",
                  error.text);
    if (status != SPC_OK)
        check_sentence(error.text);
}

/* Moves a piece, or copies it over another. */
static size_t move_pieces(char *data, size_t bytes, spc__random *random)
{
    size_t length = 1 + spc__random_below(random, 24);

    if (bytes <= length || spc__random_below(random, 3) != 0)
        return bytes;
    size_t from = spc__random_below(random, (uint32_t)(bytes - length));
    size_t to = spc__random_below(random, (uint32_t)(bytes - length));
    memmove(data + to, data + from, length);
    return bytes;
}

/* Returns the start of the line that contains `at`, and its length with the
 * line end. */
static size_t line_at(size_t *length, const char *data, size_t bytes, size_t at)
{
    size_t from = at, to = at;

    while (from > 0 && data[from - 1] != '\n')
        from--;
    while (to < bytes && data[to++] != '\n')
        continue;
    *length = to - from;
    return from;
}

/* Copies a line to the start of another one. Readers that allocate memory by
 * earlier lines depend on the order and number of lines. */
static size_t copy_line(char *data, size_t bytes, size_t capacity,
                        spc__random *random)
{
    static char line[MOST_BYTES];
    size_t length, skipped;

    if (bytes == 0)
        return bytes;
    size_t from = line_at(&length, data, bytes,
                          spc__random_below(random, (uint32_t)bytes));
    size_t to = line_at(&skipped, data, bytes,
                        spc__random_below(random, (uint32_t)bytes));
    if (bytes + length > capacity)
        return bytes;
    memcpy(line, data + from, length);
    memmove(data + to + length, data + to, bytes - to);
    memcpy(data + to, line, length);
    return bytes + length;
}

/* Replaces a number by one at the limit of a range. */
static size_t exchange_number(char *data, size_t bytes, size_t capacity,
                              spc__random *random)
{
    static const char *const ends[] = {
        "0",     "1",          "-1",         "64",          "65536",
        "32768", "1073741824", "2147483647", "-2147483648", "4294967296",
        "1e300", "1e-300",     "nan",        "inf",         ""};
    const char *end =
        ends[spc__random_below(random, sizeof(ends) / sizeof(*ends))];
    size_t at = spc__random_below(random, (uint32_t)bytes + 1), to;

    while (at < bytes && !isdigit((unsigned char)data[at]))
        at++;
    for (to = at; to < bytes && isdigit((unsigned char)data[to]);)
        to++;
    if (to == at || bytes - (to - at) + strlen(end) > capacity)
        return bytes;
    memmove(data + at + strlen(end), data + to, bytes - to);
    memcpy(data + at, end, strlen(end));
    return bytes - (to - at) + strlen(end);
}

/* Changes that keep the lines of a text whole, so that its reader gets far. */
static size_t change_lines(char *data, size_t bytes, size_t capacity,
                           spc__random *random)
{
    int changes = 1 + (int)spc__random_below(random, 4);

    for (int i = 0; i < changes; i++)
        bytes = spc__random_below(random, 2) == 0
                    ? copy_line(data, bytes, capacity, random)
                    : exchange_number(data, bytes, capacity, random);
    return bytes;
}

static void change_and_read(reader read, const spc__buf *file, uint64_t seed)
{
    static char data[MOST_BYTES];
    spc__random random;

    spc__random_init(&random, seed);
    memcpy(data, file->data, file->length);
    size_t bytes = move_pieces(data, file->length, &random);
    bytes = spc__random_below(&random, 2) == 0
                ? mutate(data, bytes, sizeof(data), &random)
                : change_lines(data, bytes, sizeof(data), &random);
    read_once(read, data, bytes, false);
}

static bool goes_on(double since, uint64_t round, int rounds)
{
    return seconds > 0
               ? cpu_seconds() - since < seconds
               : round < (uint64_t)rounds * (suite_wants_all() ? 20 : 1);
}

START_TEST(a_changed_text_is_read_or_refused_in_one_sentence)
{
    const char *name = names[_i];
    int which = reader_of(name);
    spc__buf file = SPC__BUF_INIT;
    char inside[512];
    spc_error error;
    double since = cpu_seconds();
    uint64_t round = 0;
    uint64_t first = (uint64_t)suite_variant() * 1000000;

    ck_assert_msg(which >= 0, "nobody reads '%s'", name);
    if (seconds > 0)
        first = spc__now_ns();
    snprintf(inside, sizeof(inside), "corpus/texts/%s", name);
    ck_assert_msg(spc__file_read(&file, suite_path(inside), MOST_BYTES / 2,
                                 &error) == SPC_OK,
                  "%s", error.text);
    read_once(readers[which].read, file.data, file.length,
              strncmp(name, "bad", 3) != 0);
    for (; goes_on(since, round, readers[which].rounds); round++)
        change_and_read(readers[which].read, &file, first + round);
    printf("%s: %llu from seed %llu on\n", name, (unsigned long long)round,
           (unsigned long long)first);
    fflush(stdout);
    unlink(input);
    unlink(database);
    spc__buf_release(&file);
}
END_TEST

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void list_corpus(const char *part)
{
    DIR *folder = opendir(suite_path("corpus/texts"));
    const struct dirent *entry;

    while (folder != NULL && (entry = readdir(folder)) != NULL)
        if (entry->d_name[0] != '.' && name_count < MOST_FILES &&
            strstr(entry->d_name, part) != NULL)
            names[name_count++] = strdup(entry->d_name);
    if (folder != NULL)
        closedir(folder);
    qsort(names, (size_t)name_count, sizeof(*names), by_text);
}

Suite *suite(void)
{
    Suite *all = suite_create("fuzz_texts");
    TCase *part = tcase_create("corpus");

    tcase_set_timeout(part, 120 + 10 * seconds);
    tcase_add_loop_test(part, a_changed_text_is_read_or_refused_in_one_sentence,
                        0, name_count);
    suite_add_tcase(all, part);
    return all;
}

int main(int argc, char **argv)
{
    int next = 1;

    if (argc > 2 && strcmp(argv[1], "--minutes") == 0) {
        seconds = 60 * atof(argv[2]);
        next = 3;
    }
    list_corpus(argc > next ? argv[next] : "");
    if (name_count == 0)
        return suite_skip("no corpus");
    seconds /= name_count;
    snprintf(database, sizeof(database), "/dev/shm/spctune-fuzz-%ld.db",
             (long)getpid());
    /* for the command's messages */
    if (freopen("/dev/null", "w", stderr) == NULL)
        return 1;
    int result = run_suite(suite());
    for (int i = 0; i < name_count; i++)
        free(names[i]);
    return result;
}
