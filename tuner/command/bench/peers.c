/* SPDX-License-Identifier: Apache-2.0 */
/* peers.c - reads the measured times of other engines. */
#include "command/bench/peers.h"

#include "base/number.h"
#include "command/cli/cli.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LAYER_TEXT = 400 };

typedef struct engine {
    struct engine *next;
    char *name;
} engine;

typedef struct figure {
    struct figure *next;
    char *scene;
    char layer[LAYER_TEXT]; /* canonical text */
    bool map;
    bool asked;
    char *note;
    peer_figure public;
} figure;

struct peers {
    char *path;
    int line; /* number of the current line */
    bool headed;
    char *gpu, *date;
    engine *engines;
    figure *figures;
};

static spc_status fail_line(const peers *all, const char *text, const char *why)
{
    return cli_fail(SPC_EFORMAT, "%s:%d: '%.60s' %s", all->path, all->line,
                    text, why);
}

/* ---- words --------------------------------------------------------------- */

/* Cuts the first word off *text. */
static char *take_word(char **text)
{
    char *word = *text + strspn(*text, " \t");
    char *end = word + strcspn(word, " \t");

    *text = end + strspn(end, " \t");
    if (*end != '\0')
        *end = '\0';
    return word;
}

/* A file's scene is identified by its name without the folder. */
static const char *scene_key(const char *scene)
{
    const char *slash = strrchr(scene, '/');

    return slash == NULL || strncmp(scene, "gen:", 4) == 0 ? scene : slash + 1;
}

/* The prefix of a layer's training step. */
static const char step[] = "step,";

/* A map does not depend on channels, so its key has one channel. */
static void map_key(char out[LAYER_TEXT], const spc_conv *layer)
{
    spc_conv plain = SPC_CONV_INIT;

    plain.op = layer->op;
    plain.cin = plain.cout = 1;
    plain.geometry = layer->geometry;
    spc_conv_format(out, LAYER_TEXT, &plain);
}

static void step_key(char out[LAYER_TEXT], const spc_conv *layer)
{
    int length = snprintf(out, LAYER_TEXT, "%s", step);

    spc_conv_format(out + length, (size_t)(LAYER_TEXT - length), layer);
}

/* Brings the layer to its canonical text, so that words in another order or
 * left-out defaults find it. */
static spc_status read_layer(figure *out, const char *text, spc_error *error)
{
    char layer[LAYER_TEXT];
    spc_conv conv;
    spc_status status;
    bool is_step = strncmp(text, step, strlen(step)) == 0;

    text += is_step ? strlen(step) : 0;
    out->map = strncmp(text, "map,", 4) == 0;
    if (out->map) {
        /* A figure of a map gives the geometry only. */
        snprintf(layer, sizeof(layer), "%s,cin=1,cout=1,%s",
                 strstr(text, "stride=") != NULL ? "conv" : "subm", text + 4);
        text = layer;
    }
    if ((status = spc_conv_parse(&conv, text, error)) != SPC_OK)
        return status;
    if (out->map)
        map_key(out->layer, &conv);
    else if (is_step)
        step_key(out->layer, &conv);
    else
        spc_conv_format(out->layer, sizeof(out->layer), &conv);
    return SPC_OK;
}

/* ---- records ------------------------------------------------------------- */

static spc_status fail_memory(void)
{
    return cli_fail(SPC_ENOMEM, "out of memory");
}

static spc_status keep(char **out, const char *text)
{
    free(*out);
    *out = strdup(text);
    return *out != NULL ? SPC_OK : fail_memory();
}

static const engine *find_engine(const peers *all, const char *name)
{
    const engine *at = all->engines;

    while (at != NULL && strcmp(at->name, name) != 0)
        at = at->next;
    return at;
}

static spc_status add_gpu(peers *all, char *text)
{
    return keep(&all->gpu, text);
}

static spc_status add_date(peers *all, char *text)
{
    return keep(&all->date, text);
}

static spc_status add_method(peers *all, char *text)
{
    if (*text == '\0')
        return fail_line(all, "method", "has no text: expected 'method TEXT'");
    return SPC_OK; /* a comment for readers */
}

static spc_status add_engine(peers *all, char *text)
{
    const char *name = take_word(&text);
    engine *one;

    if (*text == '\0')
        return fail_line(all, name,
                         "needs a name and a version: expected 'engine "
                         "FlexGEMM 6dd94a8, own tuner'");
    if (find_engine(all, name) != NULL)
        return fail_line(all, name, "is an engine already: give each one name");
    if ((one = calloc(1, sizeof(*one))) == NULL)
        return fail_memory();
    one->next = all->engines;
    all->engines = one;
    return keep(&one->name, name);
}

/* Adds a figure. It joins the list before it is checked, so that peers_free()
 * frees it if it is refused. */
static spc_status add_figure(peers *all, char *text)
{
    const char *scene = take_word(&text), *layer = take_word(&text);
    const char *name = take_word(&text), *us = take_word(&text);
    const engine *by = find_engine(all, name);
    figure *one;
    spc_error error = {0};

    if (*us == '\0')
        return fail_line(all, scene,
                         "is an incomplete figure: expected 'us SCENE LAYER "
                         "ENGINE MICROSECONDS [NOTE]'");
    if (by == NULL)
        return fail_line(all, name,
                         "is not an engine yet: a line 'engine NAME VERSION' "
                         "must come before its figures");
    if ((one = calloc(1, sizeof(*one))) == NULL)
        return fail_memory();
    one->next = all->figures;
    all->figures = one;
    if (!spc__number_read(&one->public.us, us) || !(one->public.us > 0))
        return fail_line(all, us,
                         "is not a time: expected microseconds, as in 20.5");
    if (read_layer(one, layer, &error) != SPC_OK)
        return fail_line(all, layer, error.text);
    one->public.engine = by->name;
    spc_status status = keep(&one->scene, scene_key(scene));
    if (status == SPC_OK)
        status = keep(&one->note, text);
    one->public.note = one->note;
    return status;
}

static const struct {
    const char *word;
    spc_status (*add)(peers *all, char *text);
} records[] = {
    {"gpu", add_gpu},       {"date", add_date}, {"method", add_method},
    {"engine", add_engine}, {"us", add_figure},
};

/* One line of the file. The first must name the format. */
static spc_status add_record(peers *all, char *line)
{
    char *rest = line, *word = take_word(&rest);

    if (!all->headed) {
        all->headed =
            strcmp(word, "spctune-peers") == 0 && strcmp(rest, "1") == 0;
        return all->headed ? SPC_OK
                           : fail_line(all, word,
                                       "comes first, and must be "
                                       "'spctune-peers 1'");
    }
    for (size_t i = 0; i < sizeof(records) / sizeof(records[0]); i++)
        if (strcmp(word, records[i].word) == 0)
            return records[i].add(all, rest);
    return fail_line(
        all, word, "is not a record: expected gpu, date, method, engine or us");
}

/* ---- the file ------------------------------------------------------------ */

static spc_status read_lines(peers *all, FILE *file)
{
    char *line = NULL;
    size_t capacity = 0;
    spc_status status = SPC_OK;

    while (status == SPC_OK && getline(&line, &capacity, file) >= 0) {
        all->line++;
        line[strcspn(line, "\r\n")] = '\0';
        char *text = line + strspn(line, " \t");
        if (*text != '\0' && *text != '#')
            status = add_record(all, text);
    }
    free(line);
    if (status == SPC_OK && ferror(file))
        return cli_fail(SPC_EIO, "cannot read '%s'", all->path);
    return status;
}

/* A file without a GPU or a date could not be judged later. */
static spc_status check_whole(const peers *all)
{
    const char *missing = all->gpu == NULL       ? "gpu NAME"
                          : all->date == NULL    ? "date TEXT"
                          : all->figures == NULL ? "us SCENE LAYER ENGINE "
                                                   "MICROSECONDS"
                                                 : NULL;
    if (missing == NULL)
        return SPC_OK;
    return cli_fail(SPC_EFORMAT, "%s has no line '%s'", all->path, missing);
}

spc_status peers_read(peers **out, const char *path)
{
    peers *all = calloc(1, sizeof(*all));
    FILE *file = NULL;
    spc_status status = all != NULL ? SPC_OK : fail_memory();

    *out = NULL;
    if (status == SPC_OK && (status = keep(&all->path, path)) == SPC_OK &&
        (file = fopen(path, "re")) == NULL)
        status = cli_fail(SPC_ENOTFOUND,
                          "cannot open the peers' figures in '%s'", path);
    if (status == SPC_OK)
        status = read_lines(all, file);
    if (status == SPC_OK)
        status = check_whole(all);
    if (file != NULL)
        fclose(file);
    if (status == SPC_OK)
        *out = all;
    else
        peers_free(all);
    return status;
}

void peers_free(peers *all)
{
    while (all != NULL && all->figures != NULL) {
        figure *one = all->figures;
        all->figures = one->next;
        free(one->scene);
        free(one->note);
        free(one);
    }
    while (all != NULL && all->engines != NULL) {
        engine *one = all->engines;
        all->engines = one->next;
        free(one->name);
        free(one);
    }
    if (all != NULL) {
        free(all->path);
        free(all->gpu);
        free(all->date);
    }
    free(all);
}

/* ---- lookups ------------------------------------------------------------- */

const char *peers_gpu(const peers *all)
{
    return all->gpu;
}

const char *peers_date(const peers *all)
{
    return all->date;
}

/* Finds the fastest figure. Marks all figures of the layer as used, slower ones
 * too, so that unused figures belong to no row. */
static const peer_figure *find_best(peers *all, const char *scene,
                                    const char *layer, bool map)
{
    const peer_figure *best = NULL;

    for (figure *at = all->figures; at != NULL; at = at->next) {
        if (at->map != map || strcmp(at->layer, layer) != 0 ||
            strcmp(at->scene, scene_key(scene)) != 0)
            continue;
        at->asked = true;
        if (best == NULL || at->public.us < best->us)
            best = &at->public;
    }
    return best;
}

const peer_figure *peers_best(peers *all, const char *scene,
                              const spc_conv *layer, bool map)
{
    char text[LAYER_TEXT];

    if (map)
        map_key(text, layer);
    else
        spc_conv_format(text, sizeof(text), layer);
    return find_best(all, scene, text, map);
}

const peer_figure *peers_step(peers *all, const char *scene,
                              const spc_conv *layer)
{
    char text[LAYER_TEXT];

    step_key(text, layer);
    return find_best(all, scene, text, false);
}

int peers_left(const peers *all)
{
    int left = 0;

    for (const figure *at = all->figures; at != NULL; at = at->next)
        left += !at->asked;
    return left;
}
