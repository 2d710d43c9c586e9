/* SPDX-License-Identifier: Apache-2.0 */
/*
 * completion.c - spctune completion: writes scripts by which shells complete
 * our command lines, from the tables of the parser.
 *
 * Both scripts need the words that may appear at a position: the words of a
 * command, the names of its options, the values of an option, or the words of
 * an operator: "subm,k" becomes "subm,k=".
 */
#include "command/cli/cli.h"

#include "base/dtype.h"
#include "base/text/names.h"
#include "spc_import.h"
#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* ---- words from the tables ----------------------------------------------- */

typedef void word_taker(const char *word, int length);

static bool is_end(const cli_option *row)
{
    return row == NULL || (row->name == NULL && row->letter == 0);
}

/*
 * If no function lists the first words of a command, its usage line does: "ls |
 * show ID". Words of small letters only are such words.
 */
static void each_verb(const cli_command *command, word_taker *take)
{
    const char *at = command->operands;

    for (int i = 0; command->verb != NULL && command->verb(i) != NULL; i++)
        take(command->verb(i), (int)strlen(command->verb(i)));
    while (at != NULL && command->verb == NULL) {
        int length = 0;
        at += strspn(at, "| ");
        while (islower((unsigned char)at[length]))
            length++;
        if (length > 0 && (at[length] == ' ' || at[length] == '\0'))
            take(at, length);
        at = strchr(at, '|');
    }
}

/* "quick|normal|exhaustive" */
static void each_choice(const char *words, word_taker *take)
{
    while (*words != '\0') {
        int length = (int)strcspn(words, "|");
        take(words, length);
        words += length + (words[length] == '|');
    }
}

/* Takes the generated scenes from the examples in the help of 'scene'. */
static void each_scene(word_taker *take)
{
    const char *at = cli_scene.more;

    while ((at = strstr(at, "\n  gen:")) != NULL) {
        at += 3;
        take(at, (int)strcspn(at, " \n"));
    }
}

static void each_engine(word_taker *take)
{
    for (int i = 0; i < SPC_ENGINES; i++) {
        const char *name = spc_engine_name((spc_engine)i);
        take(name, (int)strlen(name));
    }
}

static void each_device(word_taker *take)
{
    each_choice("cuda|cuda:0|cpu|sim", take);
}

static void each_axes(word_taker *take)
{
    each_choice("xyz|zyx", take);
}

/*
 * The name of a value in the help, and its possible values. If there is no
 * list, or other values are possible, the shell offers files.
 */
static const struct {
    const char *value;
    void (*each)(word_taker *take);
} values[] = {
    {"DEVICE", each_device},
    {"SPEC", each_scene},
    {"ENGINE", each_engine},
    {"AXES", each_axes},
};

/* Returns false if the option has no values to offer. */
static bool each_value(const cli_option *option, word_taker *take)
{
    if (option->value == NULL)
        return false;
    if (strchr(option->value, '|') != NULL) {
        each_choice(option->value, take);
        return true;
    }
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++)
        if (strcmp(option->value, values[i].value) == 0) {
            values[i].each(take);
            return true;
        }
    return false;
}

static bool takes_layers(const cli_command *command)
{
    return strstr(command->operands, "LAYER") != NULL ||
           strstr(command->operands, "OPERATOR") != NULL;
}

/* Prints the words of an operator as a layer has them: "k=", "dtype=f16". */
static void each_operator_word(const char *words, word_taker *take)
{
    char word[64];

    while (*words != '\0') {
        int length = (int)strcspn(words, " "), name = (int)strcspn(words, " =");
        if (name == 5 && strncmp(words, "dtype", 5) == 0) {
            for (int i = 0; spc__dtype_names[i] != NULL; i++)
                take(word, snprintf(word, sizeof(word), "dtype=%s",
                                    spc__dtype_names[i]));
        } else if (name > 0) {
            take(word, snprintf(word, sizeof(word), "%.*s=", name, words));
        }
        words += length + (words[length] == ' ');
    }
}

/* Returns "pool" for "pool=max|mean|sum". */
static int name_length(const spc_operator_info *of)
{
    return (int)strcspn(of->name, "=");
}

/* ---- bash ---------------------------------------------------------------- */

static void bash_word(const char *word, int length)
{
    printf(" %.*s", length, word);
}

static void bash_names(const cli_option *row)
{
    for (; !is_end(row); row++) {
        if (row->name != NULL)
            printf(" --%s", row->name);
        if (row->letter != 0)
            printf(" -%c", row->letter);
    }
}

/* Prints " tune:--effort | tune:-e) words=' quick normal exhaustive' ;;". */
static void bash_values(const char *command, const cli_option *row)
{
    for (; !is_end(row); row++) {
        if (row->kind == CLI_FLAG)
            continue;
        printf("    ");
        if (row->name != NULL)
            printf("%s:--%s", command, row->name);
        if (row->letter != 0)
            printf("%s%s:-%c", row->name != NULL ? " | " : "", command,
                   row->letter);
        printf(") words='");
        each_value(row, bash_word);
        puts("' ;;");
    }
}

static void bash_commands(void)
{
    puts("_spctune_names() { # COMMAND: its options\n    case $1 in");
    for (int i = 0; cli_commands[i] != NULL; i++) {
        printf("    %s) words='", cli_commands[i]->name);
        bash_names(cli_commands[i]->options);
        puts("' ;;");
    }
    printf("    esac\n    words+='");
    bash_names(cli_global_options);
    puts("'\n}");
    puts("_spctune_values() { # COMMAND:OPTION, false: it takes none\n"
         "    case $1 in");
    for (int i = 0; cli_commands[i] != NULL; i++)
        bash_values(cli_commands[i]->name, cli_commands[i]->options);
    bash_values("*", cli_global_options);
    puts("    *) return 1 ;;\n    esac\n}");
}

static void bash_operands(void)
{
    puts("_spctune_operands() { # COMMAND: what it takes first\n"
         "    case $1 in");
    for (int i = 0; cli_commands[i] != NULL; i++) {
        const cli_command *command = cli_commands[i];
        printf("    %s) words='", command->name);
        if (takes_layers(command))
            for (int k = 0; spc_operators(k) != NULL; k++)
                printf(" %.*s,", name_length(spc_operators(k)),
                       spc_operators(k)->name);
        else if (strstr(command->operands, "SPEC...") == command->operands)
            each_scene(bash_word);
        else if (command == &cli_help)
            printf("'$_spctune_commands'");
        else
            each_verb(command, bash_word);
        puts("' ;;");
    }
    puts("    esac\n}");
    puts("_spctune_operator() { # OPERATOR: its words\n    case $1 in");
    for (int i = 0; spc_operators(i) != NULL; i++) {
        const spc_operator_info *of = spc_operators(i);
        printf("    %.*s) words='", name_length(of), of->name);
        each_operator_word(of->words, bash_word);
        puts("' ;;");
    }
    puts("    esac\n}");
}

/* Readline splits words at '=' and ':', and replaces only the last part. */
static const char bash_frame[] =
    "_spctune() {\n"
    "    local line=${COMP_LINE:0:COMP_POINT} words='' head='' command='' i\n"
    "    local cur option operands=0\n"
    "    local -a all\n"
    "    read -ra all <<<\"$line\"\n"
    "    [[ $line == *[[:space:]] ]] && all+=('')\n"
    "    cur=${all[${#all[@]} - 1]}\n"
    "    for ((i = 1; i < ${#all[@]} - 1; i++)); do\n"
    "        option=${all[i]}\n"
    "        if [[ $option == -* ]]; then\n"
    "            [[ $option != *=* ]] && "
    "_spctune_values \"$command:$option\" && ((i++))\n"
    "        elif [[ -z $command ]]; then\n"
    "            command=$option\n"
    "        else\n"
    "            ((operands++))\n"
    "        fi\n"
    "    done\n"
    "    words=''\n"
    "    if ((i == ${#all[@]})); then # behind an option\n"
    "        _spctune_values \"$command:$option\"\n"
    "    elif [[ $cur == --*=* ]]; then\n"
    "        head=${cur%%=*}= cur=${cur#*=}\n"
    "        _spctune_values \"$command:${head%=}\"\n"
    "    elif [[ $cur == -* ]]; then\n"
    "        _spctune_names \"$command\"\n"
    "    elif [[ -z $command ]]; then\n"
    "        words=$_spctune_commands\n"
    "    elif [[ $cur == *,* && $cur != gen:* ]]; then\n"
    "        _spctune_operator \"${cur%%,*}\"\n"
    "        head=${cur%,*}, cur=${cur##*,}\n"
    "    else\n"
    "        _spctune_operands \"$command\"\n"
    "        case $words in *,* | *:*) ;; *) ((operands)) && words='' ;; "
    "esac\n"
    "    fi\n"
    "    mapfile -t COMPREPLY < <(compgen -W \"$words\" -P \"$head\" -- "
    "\"$cur\")\n"
    "    cur=$head$cur\n"
    "    cur=${cur%\"${cur##*[=:]}\"}\n"
    "    COMPREPLY=(\"${COMPREPLY[@]#\"$cur\"}\")\n"
    "    [[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} == *[=,] ]] &&\n"
    "        compopt -o nospace 2>/dev/null\n"
    "    return 0\n"
    "}\n"
    "complete -o default -F _spctune spctune";

static void print_bash(void)
{
    puts("# Completion of spctune for bash: spctune completion bash");
    printf("_spctune_commands='");
    for (int i = 0; cli_commands[i] != NULL; i++)
        if (cli_commands[i]->summary != NULL)
            printf(" %s", cli_commands[i]->name);
    puts(" help version'");
    bash_commands();
    bash_operands();
    puts(bash_frame);
}

/* ---- zsh ----------------------------------------------------------------- */

/*
 * Within single quotes, escapes the characters that would end a part of a
 * specification.
 */
static void zsh_text(const char *text)
{
    for (; *text != '\0'; text++)
        if (*text == '\'')
            printf("'\\''");
        else if (strchr(":[]", *text) != NULL)
            printf("\\%c", *text);
        else
            putchar(*text);
}

static void zsh_word(const char *word, int length)
{
    char text[128];

    putchar(' ');
    snprintf(text, sizeof(text), "%.*s", length, word);
    zsh_text(text);
}

/* Prints ":effort:(quick normal exhaustive)". */
static void zsh_value(const cli_option *option)
{
    const char *value = option->value;

    printf(":%s:", option->name);
    if (strcmp(value, "SPEC") == 0)
        printf("_spctune_scene");
    else if (strcmp(value, "DIR") == 0)
        printf("_files -/");
    else if (strcmp(value, "FILE") == 0)
        printf("_files");
    else {
        printf("(");
        each_value(option, zsh_word);
        printf(")");
    }
}

/* Prints "'*'{-e,--effort=}'[what it is]:effort:(quick normal exhaustive)'". */
static void zsh_options(const cli_option *row, const char *indent)
{
    for (; !is_end(row); row++) {
        const char *equals = row->kind == CLI_FLAG ? "" : "=";
        printf("%s'%s'", indent, row->kind == CLI_LIST ? "*" : "");
        if (row->name != NULL && row->letter != 0)
            printf("{-%c,--%s%s}", row->letter, row->name, equals);
        else if (row->name != NULL)
            printf("--%s%s", row->name, equals);
        else
            printf("-%c", row->letter);
        printf("'[");
        zsh_text(row->help);
        putchar(']');
        if (row->kind != CLI_FLAG)
            zsh_value(row);
        puts("' \\");
    }
}

static void zsh_command(const cli_command *command)
{
    printf("    %s) _arguments -s -S \\\n", command->name);
    zsh_options(command->options, "        ");
    puts("        $global \\");
    if (takes_layers(command))
        puts("        '*:layer:_spctune_layer' ;;");
    else if (strstr(command->operands, "SPEC...") == command->operands)
        puts("        '*:scene:_spctune_scene' ;;");
    else if (command == &cli_help)
        puts("        '1:command:($names)' ;;");
    else {
        printf("        '1:word:(");
        each_verb(command, zsh_word);
        puts(")' '*:file:_files' ;;");
    }
}

static void zsh_layers(void)
{
    puts("_spctune_scene() {\n    local -a scenes");
    printf("    scenes=(");
    each_scene(bash_word);
    puts(")\n    compadd -- $scenes\n    _files\n}");
    puts("_spctune_layer() {\n    local -a words\n"
         "    if compset -P '*,'; then\n        case ${IPREFIX%%,*} in");
    for (int i = 0; spc_operators(i) != NULL; i++) {
        const spc_operator_info *of = spc_operators(i);
        printf("        %.*s) words=(", name_length(of), of->name);
        each_operator_word(of->words, bash_word);
        puts(") ;;");
    }
    printf("        esac\n    else\n        words=(");
    for (int i = 0; spc_operators(i) != NULL; i++)
        printf(" %.*s,", name_length(spc_operators(i)), spc_operators(i)->name);
    puts(")\n        _files\n    fi\n    compadd -S '' -- $words\n}");
}

static void print_zsh(void)
{
    puts("#compdef spctune\n"
         "# Completion of spctune for zsh: spctune completion zsh");
    zsh_layers();
    puts("_spctune() {\n"
         "    local -a commands global names\n"
         "    local curcontext=$curcontext state line\n"
         "    commands=(");
    for (int i = 0; cli_commands[i] != NULL; i++)
        if (cli_commands[i]->summary != NULL) {
            printf("        '%s:", cli_commands[i]->name);
            zsh_text(cli_commands[i]->summary);
            puts("'");
        }
    puts("    )\n    names=(${commands%%:*})\n    global=( \\");
    zsh_options(cli_global_options, "        ");
    puts("    )\n"
         "    _arguments -C -s -S $global '1:command:->command' "
         "'*::argument:->argument' && return\n"
         "    [[ $state == command ]] && { _describe command commands; "
         "return; }\n"
         "    case $words[1] in");
    for (int i = 0; cli_commands[i] != NULL; i++)
        zsh_command(cli_commands[i]);
    puts("    esac\n"
         "}\n"
         "_spctune \"$@\"");
}

/* ---- entry --------------------------------------------------------------- */

static spc_status command_completion(cli *self, void *args)
{
    const char *shell = self->operands.count == 1 ? self->operands.at[0] : "";

    (void)args;
    if (strcmp(shell, "bash") == 0)
        print_bash();
    else if (strcmp(shell, "zsh") == 0)
        print_zsh();
    else
        return shell[0] != '\0'
                   ? cli_unknown("shell", shell, "bash|zsh")
                   : cli_fail(SPC_EINVAL,
                              "usage: spctune completion bash | zsh");
    return SPC_OK;
}

const cli_command cli_completion = {
    .name = "completion",
    .operands = "bash | zsh",
    .summary = "a script by which a shell completes command lines",
    .more = "Prints it; 'source <(spctune completion bash)' tries it at once. "
            "Installed, it lies\nwhere the shells look for it.",
    .run = command_completion,
};
