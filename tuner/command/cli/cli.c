/* SPDX-License-Identifier: Apache-2.0 */
/* cli.c - reads the command line, opens the context, reports errors. */
#include "command/cli/cli.h"
#include "spc/tune.h"

#include "base/printable.h"
#include "base/text/names.h"
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- messages ------------------------------------------------------------ */

static spc_error last_error;

spc_status cli_fail(spc_status status, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(last_error.text, sizeof(last_error.text), format, arguments);
    va_end(arguments);
    /* The message may quote a file name or a word of the user, whose escape
     * sequences would change the terminal. */
    spc__make_printable(last_error.text);
    last_error.status = status;
    /* Flushes results first, so that they precede the message: standard error
     * is not buffered. */
    fflush(stdout);
    fprintf(stderr, "spctune: %s\n", last_error.text);
    return status;
}

const spc_error *cli_last_error(void)
{
    return &last_error;
}

spc_status cli_fail_ctx(spc_status status, const spc_ctx *ctx)
{
    return cli_fail(status, "%s", spc_ctx_error(ctx));
}

void cli_say(const cli *self, const char *format, ...)
{
    va_list arguments;

    if (self->globals.quiet)
        return;
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
}

/* ---- options ------------------------------------------------------------- */

const cli_option cli_global_options[] = {
    {'d', "device", "DEVICE", CLI_TEXT, offsetof(cli_globals, device),
     "cuda:N, cpu or sim; default: the best that is present"},
    {0, "database", "FILE", CLI_TEXT, offsetof(cli_globals, database),
     "the database; \"\" for none; default: $SPC_DATABASE, else "
     "~/.cache/spctune/spctune.db"},
    {0, "db", "FILE", CLI_TEXT, offsetof(cli_globals, database),
     "the same as --database"},
    {0, "layer-db", "FILE", CLI_LIST, offsetof(cli_globals, layer_files),
     "a read-only database below it (may be repeated, best first)"},
    {0, "trust", NULL, CLI_FLAG, offsetof(cli_globals, trust),
     "run host code of --layer-db files, and a database that others own or may "
     "write"},
    {0, "key", "FILE", CLI_TEXT, offsetof(cli_globals, key),
     "a public key of minisign: use only --layer-db files signed with it"},
    {0, "templates", "DIR", CLI_TEXT, offsetof(cli_globals, templates),
     "use its convolution kernels instead of the built-in ones"},
    {0, "allow", "PASS=NAME+NAME,...", CLI_TEXT, offsetof(cli_globals, allow),
     "the only templates that a pass may use; default: $SPC_ALLOW, else all"},
    {0, "threads", "N", CLI_INT, offsetof(cli_globals, threads),
     "for compiling and for the cpu device; 0, the default: all cores"},
    {0, "json", NULL, CLI_FLAG, offsetof(cli_globals, json), "results as JSON"},
    {0, "progress", "json|plain|none", CLI_WORD,
     offsetof(cli_globals, progress),
     "default: a line of the terminal, else plain: one every few seconds"},
    {'q', "quiet", NULL, CLI_FLAG, offsetof(cli_globals, quiet),
     "no messages on standard error but errors"},
    {'v', "verbose", NULL, CLI_FLAG, offsetof(cli_globals, verbose),
     "also print the library's log messages"},
    {'h', NULL, NULL, CLI_FLAG, offsetof(cli_globals, help_short),
     "the options in short"},
    {0, "help", NULL, CLI_FLAG, offsetof(cli_globals, help_full),
     "the whole help"},
    {'V', "version", NULL, CLI_FLAG, offsetof(cli_globals, version),
     "print the version"},
    {0, NULL, NULL, CLI_FLAG, 0, NULL},
};

static bool is_end(const cli_option *option)
{
    return option->name == NULL && option->letter == 0;
}

/* "--name" or "-l", as the user would write it. */
static const char *spelling(const cli_option *option, char out[40])
{
    if (option->name != NULL)
        snprintf(out, 40, "--%s", option->name);
    else
        snprintf(out, 40, "-%c", option->letter);
    return out;
}

char *cli_spell(const spc_conv *layer)
{
    size_t bytes = (size_t)spc_conv_format(NULL, 0, layer) + 1;
    char *text = malloc(bytes);

    if (text == NULL)
        cli_fail(SPC_ENOMEM, "out of memory");
    else
        spc_conv_format(text, bytes, layer);
    return text;
}

spc_status cli_append(cli_list *list, const char *text)
{
    const char **more =
        realloc(list->at, ((size_t)list->count + 1) * sizeof(*more));

    if (more == NULL)
        return cli_fail(SPC_ENOMEM, "out of memory");
    list->at = more;
    list->at[list->count++] = text;
    return SPC_OK;
}

/* "--limit: '-1' is not a positive number up to 1e9". */
static spc_status bad_value(const cli_option *option, const char *text,
                            const char *right)
{
    char name[40];

    return cli_fail(SPC_EINVAL, "%s: '%s' is not %s", spelling(option, name),
                    text, right);
}

/* The range of each kind of integer. */
static const struct range {
    uint64_t least, most;
} ranges[] = {
    [CLI_INT] = {0, 1000000},
    [CLI_COUNT] = {1, 1000000},
    [CLI_ROWS] = {1, INT_MAX},
    [CLI_SEED] = {0, UINT64_MAX},
};

/* Reads a positive number. The limit keeps sums and conversions of times from
 * overflow. */
static spc_status read_real(const cli_option *option, double *to,
                            const char *text)
{
    double value;

    if (strchr(".0123456789", text[0]) == NULL || /* excludes "inf" */
        !spc__scan_real(&value, spc__span_of(text)) || !(value > 0) ||
        value > 1e9)
        return bad_value(option, text, "a positive number up to 1e9");
    *to = value;
    return SPC_OK;
}

/* Reads a whole number within the range of the option's kind. */
static spc_status read_number(const cli_option *option, void *to,
                              const char *text)
{
    const struct range *range = &ranges[option->kind];
    char right[80];
    uint64_t value;

    if (!spc__scan_unsigned(&value, spc__span_of(text), range->most) ||
        value < range->least) {
        snprintf(right, sizeof(right),
                 "a whole number from %" PRIu64 " to %" PRIu64, range->least,
                 range->most);
        return bad_value(option, text, right);
    }
    if (option->kind == CLI_SEED)
        *(uint64_t *)to = value;
    else
        *(int *)to = (int)value;
    return SPC_OK;
}

/* ---- words --------------------------------------------------------------- */

bool cli_is_word(const char *word, const char *words)
{
    size_t length = strlen(word);

    for (const char *at = words; at != NULL; at = strchr(at, '|')) {
        at += *at == '|';
        if (length > 0 && strncmp(at, word, length) == 0 &&
            (at[length] == '|' || at[length] == '\0'))
            return true;
    }
    return false;
}

spc_status cli_unknown(const char *what, const char *word, const char *words)
{
    enum { MOST = 32 };
    char *copy = strdup(words), *rest = copy;
    const char *known[MOST + 1] = {NULL};
    spc_error error;

    if (copy == NULL)
        return cli_fail(SPC_ENOMEM, "out of memory");
    for (int i = 0; i < MOST && rest != NULL; i++)
        known[i] = strsep(&rest, "|");
    spc__fail_unknown(&error, what, spc__span_of(word), known);
    free(copy);
    return cli_fail(SPC_EINVAL, "%s", error.text);
}

/* Reads one of the words that the option lists. Efforts are in the order of
 * spc_effort. */
static spc_status read_word(const cli_option *option, void *to,
                            const char *text)
{
    static const char *const efforts[] = {"quick", "normal", "exhaustive"};

    if (!cli_is_word(text, option->value))
        return cli_unknown(option->kind == CLI_EFFORT ? "effort" : option->name,
                           text, option->value);
    if (option->kind == CLI_WORD)
        *(const char **)to = text;
    for (int i = 0; option->kind == CLI_EFFORT && i < 3; i++)
        if (strcmp(text, efforts[i]) == 0)
            *(spc_effort *)to = (spc_effort)i;
    return SPC_OK;
}

/* ---- numbers ------------------------------------------------------------- */

/* "90s", "10m", "1h30m"; a number alone is seconds. */
static spc_status read_time(const cli_option *option, void *to,
                            const char *text)
{
    static const char units[] = "smh";
    static const double seconds[] = {1, 60, 3600};
    double sum = 0;
    bool good = true;

    /* The loop runs at least once, so that an empty text is refused. */
    for (const char *at = text; good && (at == text || *at != '\0');) {
        size_t digits = strcspn(at, units);
        const char *unit =
            at[digits] != '\0' ? strchr(units, at[digits]) : units;
        double value = 0;
        good = isdigit((unsigned char)at[0]) &&
               spc__scan_real(&value, (spc__span){at, digits});
        sum += value * seconds[unit - units];
        at += digits + (at[digits] != '\0');
    }
    if (!good || !(sum > 0) || sum > 1e9)
        return bad_value(option, text, "a time such as 90s, 10m or 1h30m");
    *(double *)to = sum;
    return SPC_OK;
}

spc_status cli_store(const cli_option *option, void *base, const char *text)
{
    void *to = (char *)base + option->offset;

    switch (option->kind) {
    case CLI_FLAG:
        *(bool *)to = true;
        return SPC_OK;
    case CLI_TEXT:
    case CLI_OUT:
        *(const char **)to = text;
        return SPC_OK;
    case CLI_LIST:
        return cli_append(to, text);
    case CLI_WORD:
    case CLI_EFFORT:
        return read_word(option, to, text);
    case CLI_TIME:
        return read_time(option, to, text);
    case CLI_REAL:
        return read_real(option, to, text);
    default:
        return read_number(option, to, text);
    }
}

/* The option that `word` of `length` names: long, or one letter. */
static const cli_option *find_option(const cli_option *table, const char *word,
                                     size_t length, bool is_long)
{
    for (const cli_option *o = table; o != NULL && !is_end(o); o++) {
        if (is_long && o->name != NULL && strlen(o->name) == length &&
            strncmp(o->name, word, length) == 0)
            return o;
        if (!is_long && o->letter != 0 && o->letter == word[0])
            return o;
    }
    return NULL;
}

const cli_option *cli_find_option(const cli_option *table, const char *name)
{
    return find_option(table, name, strlen(name), true);
}

/* ---- the command line ---------------------------------------------------- */

struct reader {
    cli *self;
    int argc;
    char **argv;
    int at;
    void *args;
};

/* Appends the long names of a table, from which a similar name is suggested. */
static int list_options(const char **names, int count, int most,
                        const cli_option *table)
{
    for (; table != NULL && !is_end(table) && count < most; table++)
        if (table->name != NULL)
            names[count++] = table->name;
    return count;
}

/* `name` is `word` without dashes and value. */
static spc_status unknown_option(const struct reader *reader, const char *word,
                                 const char *name, size_t length)
{
    const cli_command *command = reader->self->command;
    const char *names[128], *near;
    char bare[40];
    int most = (int)(sizeof(names) / sizeof(*names)) - 1, count = 0;

    if (command != NULL)
        count = list_options(names, 0, most, command->options);
    count = list_options(names, count, most, cli_global_options);
    names[count] = NULL;
    snprintf(bare, sizeof(bare), "%.*s", (int)length, name);
    /* A name of one letter is near every other letter, so nothing is
     * suggested. */
    if (length > 1 && (near = spc__meant(bare, names)) != NULL)
        return cli_fail(SPC_EINVAL, "unknown option '%s': did you mean '--%s'?",
                        word, near);
    return cli_fail(
        SPC_EINVAL, "unknown option '%s' ('spctune %s%s-h' lists them)", word,
        command != NULL ? command->name : "", command != NULL ? " " : "");
}

/* Remembers the option, so that a command can say that it has no effect
 * (idle.c). */
static void note_given(cli *self, const cli_option *option)
{
    int most = (int)(sizeof(self->given) / sizeof(self->given[0]));

    if (self->given_count < most)
        self->given[self->given_count++] = option;
}

/* Parses one option and its value, which may be in the same word or the
 * next. */
static spc_status read_option(struct reader *reader, const char *word)
{
    const cli_command *command = reader->self->command;
    bool is_long = word[1] == '-';
    const char *name = word + (is_long ? 2 : 1);
    size_t length = is_long ? strcspn(name, "=") : 1;
    const char *value = name[length] == '\0' ? NULL : name + length;
    void *base = reader->args;
    const cli_option *option =
        command != NULL ? find_option(command->options, name, length, is_long)
                        : NULL;

    /* The command's own options come first: they may use a letter that is
     * global elsewhere. */
    if (option == NULL) {
        option = find_option(cli_global_options, name, length, is_long);
        base = &reader->self->globals;
    }
    if (option == NULL)
        return unknown_option(reader, word, name, length);
    if (value != NULL && is_long)
        value++; /* skips the '=' */
    if (option->kind == CLI_FLAG && value != NULL)
        return cli_fail(SPC_EINVAL, "'%s' takes no value", word);
    if (option->kind != CLI_FLAG && value == NULL) {
        if (reader->at >= reader->argc)
            return cli_fail(SPC_EINVAL, "'%s' needs a value: %s", word,
                            option->value);
        value = reader->argv[reader->at++];
    }
    note_given(reader->self, option);
    return cli_store(option, base, value);
}

/* A number below zero is a word for the command to refuse, no option. */
static bool is_option(const char *word)
{
    return word[0] == '-' && word[1] != '\0' &&
           !isdigit((unsigned char)word[1]);
}

const cli_command *cli_find_command(const char *name)
{
    for (int i = 0; cli_commands[i] != NULL; i++)
        if (strcmp(cli_commands[i]->name, name) == 0)
            return cli_commands[i];
    return NULL;
}

/* Hidden commands, which have no summary, are not suggested. */
static const char *meant_command(const char *word)
{
    const char *names[64];
    int count = 0;

    for (int i = 0; cli_commands[i] != NULL && count < 63; i++)
        if (cli_commands[i]->summary != NULL)
            names[count++] = cli_commands[i]->name;
    names[count] = NULL;
    return spc__meant(word, names);
}

spc_status cli_unknown_command(const char *word)
{
    const char *near = meant_command(word);

    if (near != NULL)
        return cli_fail(SPC_EINVAL, "unknown command '%s': did you mean '%s'?",
                        word, near);
    return cli_fail(SPC_EINVAL,
                    "unknown command '%s' ('spctune help' lists them)", word);
}

/* The first operand is the command; its arguments are zeroed then. */
static spc_status read_command(struct reader *reader, const char *word)
{
    const cli_command *command = cli_find_command(word);

    if (command == NULL)
        return cli_unknown_command(word);
    reader->self->command = command;
    /* Allocates one byte more, as a command may have no arguments. */
    if ((reader->args = calloc(1, command->args_bytes + 1)) == NULL)
        return cli_fail(SPC_ENOMEM, "out of memory");
    if (command->defaults != NULL)
        command->defaults(reader->args);
    return SPC_OK;
}

spc_status cli_parse(cli *self, int argc, char **argv, void **args)
{
    struct reader reader = {self, argc, argv, 1, NULL};
    bool only_operands = false;
    spc_status status = SPC_OK;

    while (reader.at < argc && status == SPC_OK) {
        const char *word = argv[reader.at++];
        if (!only_operands && strcmp(word, "--") == 0)
            only_operands = true;
        else if (!only_operands && is_option(word))
            status = read_option(&reader, word);
        else if (self->command == NULL)
            status = read_command(&reader, word);
        else
            status = cli_append(&self->operands, word);
    }
    *args = reader.args;
    return status;
}

/* ---- the context --------------------------------------------------------- */

/* Several threads of the library may log at once. */
static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER;

/*
 * True if this warning was printed before: several contexts of a command find
 * the same fault.
 */
static bool was_printed(cli *self, const char *text)
{
    for (int i = 0; i < self->warnings.count; i++)
        if (strcmp(self->warnings.at[i], text) == 0)
            return true;
    char *copy = strdup(text);
    if (copy != NULL && cli_append(&self->warnings, copy) != SPC_OK)
        free(copy);
    return false;
}

/* The library's log: warnings unless --quiet, the rest with --verbose. */
static void write_log(int level, const char *text, void *payload)
{
    cli *self = payload;
    bool warning = level >= 2;

    if (warning ? self->globals.quiet : !self->globals.verbose)
        return;
    pthread_mutex_lock(&log_lock);
    if (!warning || !was_printed(self, text))
        fprintf(stderr, "spctune: %s%s\n", warning ? "warning: " : "", text);
    pthread_mutex_unlock(&log_lock);
}

/* Reads the text of a small file. */
static spc_status read_key(char *out, size_t bytes, const char *file)
{
    FILE *from = fopen(file, "rb");

    if (from == NULL)
        return cli_fail(SPC_ENOTFOUND, "cannot read '%s': %s", file,
                        strerror(errno));
    out[fread(out, 1, bytes - 1, from)] = '\0';
    fclose(from);
    return SPC_OK;
}

spc_status cli_open(spc_ctx **out, cli *self)
{
    char key[1024];
    const cli_globals *globals = &self->globals;
    spc_ctx_options options = SPC_CTX_OPTIONS_INIT;
    bool is_worker = self->command == &cli_worker;
    spc_error error = {0};

    options.device = globals->device;
    options.database = globals->database;
    options.layers = globals->layer_files.at;
    options.layer_count = globals->layer_files.count;
    options.template_dir = globals->templates;
    options.threads = globals->threads;
    options.allow = globals->allow;
    options.trust = globals->trust;
    options.shipped = globals->shipped;
    if (globals->key != NULL) {
        if (read_key(key, sizeof(key), globals->key) != SPC_OK)
            return SPC_ENOTFOUND;
        options.key = key;
    }
    options.log = write_log;
    options.log_payload = self;
    options.cancel = cli_cancel_flag();
    /*
     * A named database must open, and so must the database of a command that
     * reads it. A worker can run without a database; its tuner has already
     * reported the failure.
     */
    options.need_database =
        !is_worker &&
        (self->needs_database ||
         (globals->database != NULL && globals->database[0] != '\0') ||
         globals->layer_files.count > 0);
    if (!is_worker) /* the tuner decides when its worker ends */
        cli_catch_signals(self);
    if (spc_ctx_create(out, &options, &error) != SPC_OK)
        return cli_fail(error.status, "%s", error.text);
    return SPC_OK;
}

const char *const *cli_worker_arguments(cli *self)
{
    const cli_globals *globals = &self->globals;
    int n = 0;

    snprintf(self->threads_text, sizeof(self->threads_text), "%d",
             globals->threads);
    /* Runs the same program even if its file was replaced since the start,
     * because a worker of another build is refused. */
    self->worker[n++] = "/proc/self/exe";
    self->worker[n++] = "--quiet"; /* only the tuner prints messages */
    self->worker[n++] = "--threads";
    self->worker[n++] = self->threads_text;
    if (globals->device != NULL) {
        self->worker[n++] = "--device";
        self->worker[n++] = globals->device;
    }
    if (globals->database != NULL) {
        self->worker[n++] = "--database";
        self->worker[n++] = globals->database;
    }
    if (globals->trust)
        self->worker[n++] = "--trust";
    if (globals->templates != NULL) {
        self->worker[n++] = "--templates";
        self->worker[n++] = globals->templates;
    }
    self->worker[n++] = "worker";
    self->worker[n] = NULL;
    return self->worker;
}
