/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cli.h - the framework of the spctune command: options, commands, messages.
 *
 * A command is a row: its name, a table of options (for both the parser and the
 * help), and a function. Results go to standard output, messages to standard
 * error. The command uses only spc.h of the library.
 */
#ifndef SPC_CMD_CLI_H
#define SPC_CMD_CLI_H

#include "spc.h"

typedef enum cli_kind {
    CLI_FLAG,  /* bool */
    CLI_TEXT,  /* const char * */
    CLI_WORD,  /* const char *: one of the words of `value` */
    CLI_OUT,   /* like CLI_TEXT, for a file that the command writes */
    CLI_LIST,  /* cli_list: may be given several times */
    CLI_INT,   /* int: 0 to a million */
    CLI_COUNT, /* int: 1 to a million */
    CLI_ROWS,  /* int: 1 and more, a number of voxels */
    CLI_SEED,  /* uint64_t */
    CLI_REAL,  /* double, positive, up to 1e9 */
    CLI_TIME,  /* double: seconds, from 90s, 10m, 1h30m */
    CLI_EFFORT /* spc_effort */
} cli_kind;

typedef struct cli_list {
    const char **at;
    int count;
} cli_list;

/* Options end with a row whose name is NULL. */
typedef struct cli_option {
    char letter;      /* 0: the option has no letter */
    const char *name; /* without the dashes */
    /* name of the value in the help, or for CLI_WORD and CLI_EFFORT
     * "one|two|three"; NULL for flags */
    const char *value;
    cli_kind kind;
    size_t offset; /* offset of its member in the arguments' struct */
    const char *help;
} cli_option;

typedef struct cli_globals {
    const char *device;
    const char *database;
    cli_list layer_files;
    const char *templates;
    const char *allow;
    const char *progress;
    int threads;
    bool trust;
    const char *key;     /* a file name */
    const char *shipped; /* see spc_ctx_options; audit uses none */
    bool json;
    bool quiet;
    bool verbose;
    bool help_short;
    bool help_full;
    bool version;
} cli_globals;

typedef struct cli_command cli_command;

/* The time of the command's last progress message. */
typedef struct cli_talk {
    uint64_t started_ns;
    double last_s;
} cli_talk;

typedef struct cli {
    cli_globals globals;
    const cli_command *command;
    cli_list operands;
    cli_list warnings; /* printed so far, so that each appears once */
    /* options of the command line, which take precedence */
    const cli_option *given[64];
    int given_count;
    cli_list config; /* values of the file of defaults, which it owns */
    cli_talk *talk;
    const struct progress_board *board; /* progress of a list; NULL: the command
                                         * works on no list */
    struct progress_lane *lane;         /* this process's lane on the board;
                                         * NULL: no lane */
    bool needs_database;   /* the command cannot work without one */
    bool is_lane;          /* this process serves one of several devices */
    char threads_text[16]; /* a worker's argument */
    const char *worker[16];
} cli;

struct cli_command {
    const char *name;
    const char *operands; /* arguments, for the usage line */
    const char *summary;  /* one line for the list of commands */
    const char *more;     /* additional text of --help */
    /* returns the words after the name, then NULL; if there is no function,
     * `operands` has all words */
    const char *(*verb)(int i);
    const cli_option *options;
    size_t args_bytes; /* size of the struct that the options fill */
    spc_status (*run)(cli *self, void *args);
    /* Sets values that are not zero; may be NULL. */
    void (*defaults)(void *args);
    /* exits with status 75 after SIGTERM or SIGUSR1, and continues when it is
     * run again */
    bool resumes;
};

extern const cli_command cli_audit, cli_bench, cli_build, cli_completion,
    cli_db, cli_devices, cli_explain, cli_features, cli_help, cli_layers,
    cli_net, cli_quantise, cli_report, cli_run, cli_scene, cli_space, cli_tune,
    cli_verify, cli_version, cli_weights, cli_worker;

/* All commands, ended by NULL; those without a summary are hidden. */
extern const cli_command *const cli_commands[];
const cli_command *cli_find_command(const char *name); /* NULL: unknown */
/* Reports an unknown command and suggests a similar one. */
spc_status cli_unknown_command(const char *word);
/* The option of that name in a table, or NULL. */
const cli_option *cli_find_option(const cli_option *table, const char *name);
/* Stores a value at its place in `base`; reports an invalid one. */
spc_status cli_store(const cli_option *option, void *base, const char *text);
extern const cli_option cli_global_options[];

/* Prints "spctune: MESSAGE" to standard error and returns `status`. */
spc_status cli_fail(spc_status status, const char *format, ...)
    SPC_PRINTF(2, 3);
/* The last message of cli_fail, for --json; status SPC_OK: none yet. */
const spc_error *cli_last_error(void);
/* Reports "unknown effort 'fast' (quick, normal, exhaustive)"; '|' separates
 * the `words`. */
spc_status cli_unknown(const char *what, const char *word, const char *words);
/* True if `word` is one of `words`, which are separated by '|'. */
bool cli_is_word(const char *word, const char *words);
/* The same for the context's error. */
spc_status cli_fail_ctx(spc_status status, const spc_ctx *ctx);
/* Prints a remark to standard error, unless --quiet. */
void cli_say(const cli *self, const char *format, ...) SPC_PRINTF(2, 3);

/*
 * The canonical text of a layer, however long its list of offsets; the caller
 * frees it. NULL: out of memory, which is reported.
 */
char *cli_spell(const spc_conv *layer);

/* Reads options and operands; *args is filled by the command's table. */
spc_status cli_parse(cli *self, int argc, char **argv, void **args);
/*
 * outputs.c: refuses an output that is a database, or that the command also
 * reads or writes otherwise. Called before any work, so that no work is lost.
 */
spc_status cli_check_outputs(const cli *self, const void *args);
spc_status cli_append(cli_list *list, const char *text);
/* config.c: applies the file of defaults to options that were not given. */
spc_status cli_read_config(cli *self, void *args);

/* Opens the context that the global options describe. */
spc_status cli_open(spc_ctx **out, cli *self);
/* The arguments of a measuring worker on the same device. */
const char *const *cli_worker_arguments(cli *self);

void cli_help_short(const cli *self);
void cli_help_full(const cli *self);

/*
 * signals.c: the first SIGINT, SIGTERM or SIGHUP sets a flag, the second ends
 * the program. cli_open installs this; commands with earlier work call it
 * earlier, before any thread starts.
 */
const volatile int *cli_cancel_flag(void);
void cli_catch_signals(const cli *self);
/*
 * Runs work that checks no flag on a separate thread: returns SPC_OK when it is
 * done, SPC_EINTERRUPTED as soon as the flag is set. The work then goes on
 * until the program ends, so nothing that it uses may be freed.
 */
spc_status cli_run_apart(void *(*work)(void *payload), void *payload);
/* True if SIGTERM or SIGUSR1 ended a command that can be resumed. */
bool cli_was_preempted(void);
enum { CLI_PREEMPTED = 75 }; /* EX_TEMPFAIL: run the command again */
/* Removes remaining temporary files; called last. */
void cli_tidy(void);

#endif
