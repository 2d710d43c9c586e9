/* SPDX-License-Identifier: Apache-2.0 */
/* worklist.c - reads lists of layers and networks, and adds their scenes. */
#include "command/tune/worklist.h"

#include "command/layer_text.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* The position of an item; line 0: the command line. */
typedef struct source {
    const char *file;
    int line;
} source;

static spc_status fail_at(const source *at, spc_status status, const char *text)
{
    if (at->line == 0)
        return cli_fail(status, "%s", text);
    return cli_fail(status, "%s:%d: %s", at->file, at->line, text);
}

bool has_ending(const char *text, const char *ending)
{
    size_t length = strlen(text), tail = strlen(ending);

    return length > tail && strcmp(text + length - tail, ending) == 0;
}

static bool names_network(const char *text)
{
    return has_ending(text, ".lua") || has_ending(text, ".onnx");
}

/* ---- items --------------------------------------------------------------- */

/* Appends an empty item. Pointers to earlier items become invalid. */
static spc_status append(work_item **out, worklist *list)
{
    work_item *more =
        realloc(list->at, ((size_t)list->count + 1) * sizeof(*more));

    if (more == NULL)
        return cli_fail(SPC_ENOMEM, "out of memory");
    list->at = more;
    *out = &list->at[list->count++];
    memset(*out, 0, sizeof(**out));
    return SPC_OK;
}

bool worklist_is_in_folder(const char *spec)
{
    return strncmp(spec, "gen:", 4) != 0;
}

/* Adds a scene to the item; names of files are relative to the folder of
 * --scenes. */
static spc_status add_scene(work_item *item, const char *spec,
                            const char *folder)
{
    bool is_file = strncmp(spec, "gen:", 4) != 0 && spec[0] != '/';
    size_t bytes = strlen(spec) + (folder != NULL ? strlen(folder) : 0) + 2;
    char *path = malloc(bytes);

    if (path == NULL)
        return cli_fail(SPC_ENOMEM, "out of memory");
    if (is_file && folder != NULL)
        snprintf(path, bytes, "%s/%s", folder, spec);
    else
        snprintf(path, bytes, "%s", spec);
    spc_status status = cli_append(&item->scenes, path);
    if (status != SPC_OK)
        free(path);
    return status;
}

static spc_status set_layer(work_item *item, const char *text, const source *at)
{
    spc_error error = {0};

    if (read_layer(&item->layer, text, &error) != SPC_OK)
        return fail_at(at, error.status, error.text);
    item->text = cli_spell(&item->layer);
    return item->text != NULL ? SPC_OK : SPC_ENOMEM;
}

/* Reads the first word of an item: its layer or its network. */
static spc_status read_name(work_item *item, const char *text, const source *at)
{
    item->is_network = names_network(text);
    if (!item->is_network)
        return set_layer(item, text, at);
    item->text = strdup(text);
    return item->text != NULL ? SPC_OK : cli_fail(SPC_ENOMEM, "out of memory");
}

/* Items without scenes use those of the command line. */
static spc_status complete(work_item *item, const worklist_source *from,
                           const source *at)
{
    spc_status status = SPC_OK;

    if (item->dtype != NULL && !item->is_network)
        return fail_at(at, SPC_EINVAL,
                       "--dtype is for networks: a layer has its own dtype=");
    if (item->int8 && !item->is_network)
        return fail_at(at, SPC_EINVAL,
                       "--int8 is for networks: a layer has dtype=i8");
    if (item->scenes.count == 0 && from->scenes->count == 0 &&
        !from->needs_no_scenes)
        return fail_at(at, SPC_EINVAL,
                       "a scene is needed: --scene SPEC, such as "
                       "scan.bin@0.05 or gen:lidar@0.1");
    /* Notes the count before the loop adds scenes. */
    bool has_own = item->scenes.count > 0;
    for (int i = 0; !has_own && i < from->scenes->count && status == SPC_OK;
         i++)
        status = add_scene(item, from->scenes->at[i], from->folder);
    return status;
}

/* ---- lines --------------------------------------------------------------- */

enum { MOST_WORDS = 64 };

/* Splits a line into words, up to a comment; -1: there are too many. */
static int split(char **words, char *line)
{
    static const char blanks[] = " \t\r\n";
    char *rest = NULL;
    int count = 0;

    for (char *word = strtok_r(line, blanks, &rest);
         word != NULL && word[0] != '#'; word = strtok_r(NULL, blanks, &rest)) {
        if (count == MOST_WORDS)
            return -1;
        words[count++] = word;
    }
    return count;
}

/* Reads an option after the layer of a line. */
static spc_status read_option(work_item *item, const worklist_source *from,
                              const source *at, const char *name,
                              const char *value)
{
    char text[300];

    if (value == NULL &&
        (strcmp(name, "--scene") == 0 || strcmp(name, "-s") == 0 ||
         strcmp(name, "--dtype") == 0)) {
        snprintf(text, sizeof(text), "'%.200s' needs a value", name);
        return fail_at(at, SPC_EINVAL, text);
    }
    if (strcmp(name, "--scene") == 0 || strcmp(name, "-s") == 0)
        return add_scene(item, value, from->folder);
    if (strcmp(name, "--dtype") == 0) {
        free(item->dtype);
        item->dtype = strdup(value);
        return item->dtype != NULL ? SPC_OK
                                   : cli_fail(SPC_ENOMEM, "out of memory");
    }
    snprintf(text, sizeof(text),
             "'%.200s': a line is a LAYER or a network's FILE, and then "
             "--scene SPEC, --dtype TYPE and --int8",
             name);
    return fail_at(at, SPC_EINVAL, text);
}

/* Reads one line of a list; an empty one is ignored. */
static spc_status read_line(worklist *list, const worklist_source *from,
                            const source *at, char *line)
{
    char *words[MOST_WORDS + 1] = {NULL};
    int count = split(words, line);
    work_item *item = NULL;
    spc_status status;

    if (count == 0)
        return SPC_OK;
    if (count < 0)
        return fail_at(at, SPC_EINVAL, "the line has more than 64 words");
    if ((status = append(&item, list)) != SPC_OK ||
        (status = read_name(item, words[0], at)) != SPC_OK)
        return status;
    /* NULL follows the last word, so an option without a value is noticed. */
    for (int i = 1; i < count && status == SPC_OK; i++)
        if (strcmp(words[i], "--int8") == 0)
            item->int8 = true;
        else {
            status = read_option(item, from, at, words[i], words[i + 1]);
            i++; /* its value */
        }
    return status == SPC_OK ? complete(item, from, at) : status;
}

/* Reads a list of layers. A file that lists none is most likely another kind of
 * file, so it is refused. */
static spc_status read_file(worklist *list, const worklist_source *from,
                            const char *path)
{
    FILE *file = fopen(path, "r");
    source at = {path, 0};
    char *line = NULL;
    size_t capacity = 0;
    spc_status status = SPC_OK;
    int before = list->count;

    if (file == NULL)
        return cli_fail(SPC_EIO, "cannot read '%s': %s", path, strerror(errno));
    while (status == SPC_OK && getline(&line, &capacity, file) >= 0) {
        at.line++;
        status = read_line(list, from, &at, line);
    }
    if (status == SPC_OK && ferror(file))
        status =
            cli_fail(SPC_EIO, "cannot read '%s': %s", path, strerror(errno));
    if (status == SPC_OK && list->count == before)
        status = cli_fail(SPC_EINVAL, "'%s' lists no layer", path);
    free(line);
    fclose(file);
    return status;
}

/* ---- entry point --------------------------------------------------------- */

/* A valid layer has a '='; an existing file takes precedence. */
static bool names_file(const char *text)
{
    struct stat facts;

    return strchr(text, '=') == NULL && stat(text, &facts) == 0 &&
           !S_ISDIR(facts.st_mode);
}

/* An operand is a layer, a file that lists layers, or a network. A word that
 * looks like a path and is not a layer is a missing file. */
static spc_status read_operand(worklist *list, const worklist_source *from,
                               const char *text)
{
    const source here = {NULL, 0};
    work_item *item = NULL;
    spc_status status;

    if (!names_network(text) && names_file(text))
        return read_file(list, from, text);
    if (strchr(text, '=') == NULL && strpbrk(text, "./") != NULL &&
        !names_network(text))
        return cli_fail(SPC_ENOTFOUND,
                        "'%s' is neither a layer nor an existing file", text);
    if ((status = append(&item, list)) != SPC_OK ||
        (status = read_name(item, text, &here)) != SPC_OK)
        return status;
    return complete(item, from, &here);
}

spc_status worklist_add_network(worklist *list, const worklist_source *from,
                                const char *file, const char *dtype)
{
    const source here = {NULL, 0};
    work_item *item = NULL;
    spc_status status = append(&item, list);

    if (status != SPC_OK)
        return status;
    item->is_network = true;
    item->text = strdup(file);
    item->dtype = dtype != NULL ? strdup(dtype) : NULL;
    if (item->text == NULL || (dtype != NULL && item->dtype == NULL))
        return cli_fail(SPC_ENOMEM, "out of memory");
    return complete(item, from, &here);
}

spc_status worklist_read(worklist *out, const worklist_source *from)
{
    spc_status status = SPC_OK;

    memset(out, 0, sizeof(*out));
    if (from->operands->count == 0)
        return cli_fail(SPC_EINVAL,
                        "%s needs a layer, such as "
                        "subm,cin=64,cout=64,k=3,dtype=f16",
                        from->command);
    for (int i = 0; i < from->operands->count && status == SPC_OK; i++)
        status = read_operand(out, from, from->operands->at[i]);
    return status;
}

void worklist_free(worklist *list)
{
    for (int i = 0; i < list->count; i++) {
        work_item *item = &list->at[i];
        for (int s = 0; s < item->scenes.count; s++)
            free((char *)item->scenes.at[s]);
        free(item->scenes.at);
        free(item->text);
        free(item->dtype);
    }
    free(list->at);
    memset(list, 0, sizeof(*list));
}
