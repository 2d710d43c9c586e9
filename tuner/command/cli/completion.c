/*
 * completion.c - spctune completion: scripts by which shells complete our
 * command lines, written from the tables that parse them.
 */
#include "command/cli/cli.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* Calls `each` for what is listed of a table, long names first. */
static void each_option(const cli_option *row,
                        void (*each)(const cli_option *option))
{
    for (; row != NULL && (row->name != NULL || row->letter != 0); row++)
        each(row);
}

static void each_command(void (*each)(const cli_command *command))
{
    for (int i = 0; cli_commands[i] != NULL; i++)
        if (cli_commands[i]->summary != NULL)
            each(cli_commands[i]);
}

/* A usage line says which words a command takes first: "ls | show ID". Small
 * letters alone are such a word. */
static void each_verb(const cli_command *command,
                      void (*each)(const char *word, int length))
{
    const char *at = command->operands;

    while (at != NULL) {
        int length = 0;
        at += strspn(at, "| ");
        while (islower((unsigned char)at[length]))
            length++;
        if (length > 0 && (at[length] == ' ' || at[length] == '\0'))
            each(at, length);
        at = strchr(at, '|');
    }
}

/* ---- bash ---------------------------------------------------------------- */

static void bash_option(const cli_option *option)
{
    if (option->name != NULL)
        printf(" --%s", option->name);
    else
        printf(" -%c", option->letter);
}

static void bash_verb(const char *word, int length)
{
    printf(" %.*s", length, word);
}

static void bash_name(const cli_command *command)
{
    printf(" %s", command->name);
}

static void bash_case(const cli_command *command)
{
    printf("    %s) words='", command->name);
    each_verb(command, bash_verb);
    each_option(command->options, bash_option);
    printf("' ;;\n");
}

static void print_bash(void)
{
    puts("# Completion of spctune for bash: spctune completion bash\n"
         "_spctune() {\n"
         "    local words='' command='' i\n"
         "    for ((i = 1; i < COMP_CWORD; i++)); do\n"
         "        [[ ${COMP_WORDS[i]} == -* ]] || "
         "{ command=${COMP_WORDS[i]}; break; }\n"
         "    done\n"
         "    case $command in");
    printf("    '') words='");
    each_command(bash_name);
    puts("' ;;");
    each_command(bash_case);
    puts("    esac");
    printf("    words+='");
    each_option(cli_global_options, bash_option);
    puts("'\n"
         "    COMPREPLY=($(compgen -W \"$words\" -- "
         "\"${COMP_WORDS[COMP_CWORD]}\"))\n"
         "}\n"
         "complete -o default -F _spctune spctune");
}

/* ---- zsh ----------------------------------------------------------------- */

/* Within single quotes; a colon would end the word that is described. */
static void zsh_text(const char *text)
{
    for (; *text != '\0'; text++)
        if (*text == '\'')
            printf("'\\''");
        else if (*text == ':')
            printf("\\:");
        else
            putchar(*text);
}

static void zsh_option(const cli_option *option)
{
    if (option->name != NULL)
        printf(" '--%s:", option->name);
    else
        printf(" '-%c:", option->letter);
    zsh_text(option->help);
    putchar('\'');
}

static void zsh_verb(const char *word, int length)
{
    printf(" '%.*s'", length, word);
}

static void zsh_name(const cli_command *command)
{
    printf("        '%s:", command->name);
    zsh_text(command->summary);
    puts("'");
}

static void zsh_case(const cli_command *command)
{
    printf("    %s) words_of=(", command->name);
    each_verb(command, zsh_verb);
    each_option(command->options, zsh_option);
    puts(") ;;");
}

static void print_zsh(void)
{
    puts("#compdef spctune\n"
         "# Completion of spctune for zsh: spctune completion zsh\n"
         "_spctune() {\n"
         "    local -a commands words_of global\n"
         "    commands=(");
    each_command(zsh_name);
    printf("    )\n    global=(");
    each_option(cli_global_options, zsh_option);
    puts(")\n"
         "    if ((CURRENT == 2)); then\n"
         "        _describe command commands\n"
         "        _describe option global\n"
         "        return\n"
         "    fi\n"
         "    case $words[2] in");
    each_command(zsh_case);
    puts("    esac\n"
         "    _describe word words_of\n"
         "    _describe option global\n"
         "    _files\n"
         "}\n"
         "_spctune \"$@\"");
}

/* ---- entry --------------------------------------------------------------- */

static spc_status run(cli *self, void *args)
{
    const char *shell = self->operands.count == 1 ? self->operands.at[0] : "";

    (void)args;
    if (strcmp(shell, "bash") == 0)
        print_bash();
    else if (strcmp(shell, "zsh") == 0)
        print_zsh();
    else
        return cli_fail(SPC_EINVAL,
                        "'completion bash' and 'completion zsh' are right");
    return SPC_OK;
}

const cli_command cli_completion = {
    .name = "completion",
    .operands = "bash | zsh",
    .summary = "a script by which a shell completes command lines",
    .more = "Prints it; 'source <(spctune completion bash)' tries it at once. "
            "Installed, it lies\nwhere the shells look for it.",
    .run = run,
};
