/* SPDX-License-Identifier: Apache-2.0 */
/*
 * operators.c - spctune layers: the operators with their words, and an example
 * of each.
 */
#include "command/cli/cli.h"
#include "command/cli/output.h"

#include <stdio.h>
#include <string.h>

enum { COLUMN = 17, WIDTH = 79 };

/* ---- for people ---------------------------------------------------------- */

/* Prints words after a margin, as many per line as fit. */
static void print_words(const char *words)
{
    int used = 0;

    while (*words != '\0') {
        int length = (int)strcspn(words, " ");
        if (used == 0 || used + 1 + length > WIDTH) {
            printf("%s%*s%.*s", used > 0 ? "\n" : "", COLUMN, "", length,
                   words);
            used = COLUMN + length;
        } else {
            used += printf(" %.*s", length, words);
        }
        words += length;
        words += *words == ' ';
    }
    if (used > 0)
        putchar('\n');
}

static void print_operator(const spc_operator_info *of)
{
    int used = printf("  %s", of->name);

    if (used > COLUMN - 2)
        printf("\n%*s%s\n", COLUMN, "", of->does);
    else
        printf("%*s%s\n", COLUMN - used, "", of->does);
    print_words(of->words);
    printf("%*s%s\n", COLUMN, "", of->example);
}

static const char *title_of(const char *kind)
{
    return strcmp(kind, "convolution") == 0 ? "convolutions: spctune tune, "
                                              "verify, bench ..."
           : strcmp(kind, "features") == 0
               ? "operators on features: spctune features, verify"
               : "sets made of other sets: spctune verify";
}

/* ---- for programs -------------------------------------------------------- */

/* "k=3" states a default, "slope=" is optional, and "cin" is required. */
static void write_words(spc__json *json, const char *words)
{
    spc__json_array(json, "words");
    while (*words != '\0') {
        size_t length = strcspn(words, " "), name = strcspn(words, " =");
        char text[64];
        spc__json_object(json, NULL);
        snprintf(text, sizeof(text), "%.*s", (int)name, words);
        spc__json_text(json, "word", text);
        spc__json_bool(json, "needed", words[name] != '=');
        if (length > name + 1) {
            snprintf(text, sizeof(text), "%.*s", (int)(length - name - 1),
                     words + name + 1);
            spc__json_text(json, "default", text);
        }
        spc__json_end_object(json);
        words += length;
        words += *words == ' ';
    }
    spc__json_end_array(json);
}

static void write_operator(spc__json *json, const spc_operator_info *of)
{
    spc__json_object(json, NULL);
    spc__json_text(json, "kind", of->kind);
    spc__json_text(json, "operator", of->name);
    spc__json_text(json, "does", of->does);
    write_words(json, of->words);
    spc__json_text(json, "example", of->example);
    spc__json_end_object(json);
}

/* ---- selection ----------------------------------------------------------- */

static bool is_name(const spc_operator_info *of, const char *name)
{
    size_t length = strcspn(of->name, "=");

    return strlen(name) == length && strncmp(of->name, name, length) == 0;
}

static bool is_wanted(const cli *self, const spc_operator_info *of)
{
    bool wanted = self->operands.count == 0;

    for (int i = 0; i < self->operands.count; i++)
        wanted |= is_name(of, self->operands.at[i]);
    return wanted;
}

static spc_status check_names(const cli *self)
{
    for (int i = 0; i < self->operands.count; i++) {
        int n = 0;
        while (spc_operators(n) != NULL &&
               !is_name(spc_operators(n), self->operands.at[i]))
            n++;
        if (spc_operators(n) == NULL)
            return cli_fail(
                SPC_EINVAL,
                "unknown operator '%s': 'spctune layers' lists them",
                self->operands.at[i]);
    }
    return SPC_OK;
}

static spc_status print_json(const cli *self)
{
    spc__buf text = SPC__BUF_INIT;
    spc__json json;

    spc__json_init(&json, &text);
    spc__json_array(&json, NULL);
    for (int i = 0; spc_operators(i) != NULL; i++)
        if (is_wanted(self, spc_operators(i)))
            write_operator(&json, spc_operators(i));
    spc__json_end_array(&json);
    return output_json(&text);
}

static spc_status command_operators(cli *self, void *args)
{
    const char *kind = NULL;
    spc_status status = check_names(self);

    (void)args;
    if (status != SPC_OK || self->globals.json)
        return status != SPC_OK ? status : print_json(self);
    for (int i = 0; spc_operators(i) != NULL; i++) {
        const spc_operator_info *of = spc_operators(i);
        if (!is_wanted(self, of))
            continue;
        if (kind == NULL || strcmp(of->kind, kind) != 0)
            printf("%s%s\n", kind != NULL ? "\n" : "", title_of(of->kind));
        kind = of->kind;
        print_operator(of);
    }
    return SPC_OK;
}

static const cli_option no_options[] = {
    {0, NULL, NULL, CLI_FLAG, 0, NULL},
};

const cli_command cli_layers = {
    .name = "layers",
    .operands = "[OPERATOR...]",
    .summary = "list the operators, their words, an example of each",
    .more =
        "An operator is written as its name and its words, separated by "
        "commas, in any\norder. 'k=3' is 3 if nothing is said, 'slope=' may "
        "be left out, a word without\n'=' must be given.",
    .options = no_options,
    .run = command_operators,
};
