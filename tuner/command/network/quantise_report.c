/* SPDX-License-Identifier: Apache-2.0 */
/* quantise_report.c - prints the layers of a quantised network and their
 * errors. */
#include "command/network/quantise.h"

#include "base/dtype.h"
#include "base/plural.h"
#include "command/cli/output.h"
#include <math.h>
#include <stdio.h>

/* ---- errors -------------------------------------------------------------- */

/* Why a layer does not read i8. */
static void explain(char out[80], const quantise_layer *l)
{
    if (l->in_type == SPC_I8)
        out[0] = '\0';
    else if (l->asked)
        snprintf(out, 80, "kept by --keep");
    else if (l->refused > 0)
        snprintf(out, 80, "its error on i8 is %.3g", l->refused);
    else
        snprintf(out, 80, "its input stays f16");
}

static void types_of(char out[32], const quantise_layer *l)
{
    snprintf(out, 32, "%s to %s", spc__dtype_names[l->in_type],
             spc__dtype_names[l->out_type]);
}

static void print_errors(const quantising *q)
{
    static const char *const titles[] = {
        "layer",       "type",   ">-range",    ">--rounding", ">error",
        ">-run error", ">--f16", ">--f16 run", "note",        NULL};
    table t;

    table_init(&t, titles);
    for (int i = 0; i < q->layer_count; i++) {
        const quantise_layer *l = &q->layers[i];
        char note[80], types[32];
        explain(note, l);
        types_of(types, l);
        table_cell(&t, "%s", l->name);
        table_cell(&t, "%s", types);
        if (l->out_type == SPC_I8)
            table_cell(&t, "%.3g", (double)q->shown[l->out]);
        else
            table_blank(&t);
        table_cell(&t, "%.2e", l->rounding);
        table_cell(&t, "%.2e", l->own);
        table_cell(&t, "%.2e", l->total);
        table_cell(&t, "%.2e", l->f16_own);
        table_cell(&t, "%.2e", l->f16_total);
        table_cell(&t, "%s", note);
    }
    table_print(&t, stdout);
    table_release(&t);
}

/* ---- floors -------------------------------------------------------------- */

typedef struct sums {
    double macs, gathered16, moved16, gathered, moved, us16, us;
} sums;

static void add_cost(sums *s, const quantise_cost *c)
{
    s->macs += c->mixed.macs;
    s->gathered16 += c->f16.gathered_bytes;
    s->moved16 += c->f16.compulsory_bytes;
    s->gathered += c->mixed.gathered_bytes;
    s->moved += c->mixed.compulsory_bytes;
    s->us16 += c->f16.us;
    s->us += c->mixed.us;
}

static void print_cost(table *t, const char *name, const sums *s)
{
    table_cell(t, "%s", name);
    table_cell(t, "%.1f", s->macs * 1e-6);
    table_cell(t, "%.2f", s->gathered16 * 1e-6);
    table_cell(t, "%.2f", s->moved16 * 1e-6);
    table_cell(t, "%.2f", s->gathered * 1e-6);
    table_cell(t, "%.2f", s->moved * 1e-6);
    table_us(t, s->us16);
    table_us(t, s->us);
}

static void print_costs(const quantising *q)
{
    static const char *const titles[] = {"layer",
                                         ">MMAC",
                                         ">-f16 gathers MB",
                                         ">-f16 moves MB",
                                         ">-gathers MB",
                                         ">-moves MB",
                                         ">f16 floor us",
                                         ">floor us",
                                         "f16 floor by",
                                         "floor by",
                                         NULL};
    sums all = {0};
    table t;

    table_init(&t, titles);
    for (int i = 0; i < q->cost_count; i++) {
        sums one = {0};
        add_cost(&one, &q->costs[i]);
        add_cost(&all, &q->costs[i]);
        print_cost(&t, q->costs[i].name, &one);
        table_cell(&t, "%s", q->costs[i].f16.by);
        table_cell(&t, "%s", q->costs[i].mixed.by);
    }
    print_cost(&t, "all", &all);
    table_blank(&t);
    table_blank(&t);
    table_print(&t, stdout);
    table_release(&t);
    if (all.us16 > 0)
        printf("floors on %s: %.1f us in f16, %.1f us in these types, %.2f "
               "times as long\n",
               q->args->floors, all.us16, all.us, all.us / all.us16);
    else
        printf("the rates of '%s' are unknown, so it has no floors\n",
               q->args->floors);
}

/* ---- all ----------------------------------------------------------------- */

static void print_text(const quantising *q)
{
    int measured = q->net.scene_count - quantise_first_measured(q);

    print_errors(q);
    printf("%d of %s on i8; the last output is %.3g of its size away from "
           "that of f32, and in f16 %.3g\n",
           network_whole_layers(q->net.net),
           spc__count(q->net.info.layers, "layer"), q->output, q->f16_output);
    printf("ranges (%s) of %s", quantise_rule(q->args),
           spc__count(q->ranged, "scene"));
    printf(", errors on %s%s\n", spc__count(measured, "scene"),
           q->ranged < q->net.scene_count ? " held out" : ", the same");
    if (q->args->floors != NULL)
        print_costs(q);
    if (q->args->name != NULL)
        cli_say(q->self, "%s: stored", q->args->name);
}

static void write_layer(spc__json *json, const quantising *q,
                        const quantise_layer *l)
{
    spc__json_object(json, NULL);
    spc__json_text(json, "layer", l->name);
    spc__json_text(json, "in", spc__dtype_names[l->in_type]);
    spc__json_text(json, "out", spc__dtype_names[l->out_type]);
    spc__json_real(json, "range", (double)q->shown[l->out]);
    spc__json_real(json, "rounding", l->rounding);
    spc__json_real(json, "error", l->own);
    spc__json_real(json, "run_error", l->total);
    spc__json_real(json, "f16_error", l->f16_own);
    spc__json_real(json, "f16_run_error", l->f16_total);
    spc__json_real(json, "refused_error", l->refused > 0 ? l->refused : NAN);
    spc__json_bool(json, "kept", l->asked);
    spc__json_end_object(json);
}

static void write_floor(spc__json *json, const char *key,
                        const spc_net_floor *f)
{
    spc__json_object(json, key);
    spc__json_real(json, "gathered_bytes", f->gathered_bytes);
    spc__json_real(json, "compulsory_bytes", f->compulsory_bytes);
    spc__json_real(json, "floor_us", f->us > 0 ? f->us : NAN);
    spc__json_text(json, "floor_by", f->by);
    spc__json_end_object(json);
}

static void write_costs(spc__json *json, const quantising *q)
{
    spc__json_text(json, "floors_of", q->args->floors);
    spc__json_array(json, "costs");
    for (int i = 0; i < q->cost_count; i++) {
        const quantise_cost *c = &q->costs[i];
        spc__json_object(json, NULL);
        spc__json_text(json, "layer", c->name);
        spc__json_int(json, "rows", c->rows);
        spc__json_int(json, "pairs", c->pairs);
        spc__json_real(json, "macs", c->mixed.macs);
        write_floor(json, "f16", &c->f16);
        write_floor(json, "mixed", &c->mixed);
        spc__json_end_object(json);
    }
    spc__json_end_array(json);
}

static spc_status print_json(const quantising *q)
{
    spc__buf text = SPC__BUF_INIT;
    spc__json json;

    spc__json_init(&json, &text);
    spc__json_object(&json, NULL);
    spc__json_text(&json, "network", q->net.info.name);
    spc__json_text(&json, "ranges", quantise_rule(q->args));
    spc__json_int(&json, "range_scenes", q->ranged);
    spc__json_int(&json, "held_out_scenes", q->net.scene_count - q->ranged);
    spc__json_real(&json, "most_error", q->args->most);
    spc__json_int(&json, "rounds", q->rounds - 1);
    spc__json_int(&json, "i8_layers", network_whole_layers(q->net.net));
    spc__json_real(&json, "output_error", q->output);
    spc__json_real(&json, "f16_output_error", q->f16_output);
    spc__json_array(&json, "layers");
    for (int i = 0; i < q->layer_count; i++)
        write_layer(&json, q, &q->layers[i]);
    spc__json_end_array(&json);
    if (q->args->floors != NULL)
        write_costs(&json, q);
    spc__json_end_object(&json);
    return output_json(&text);
}

spc_status quantise_report(const quantising *q)
{
    if (q->self->globals.json)
        return print_json(q);
    print_text(q);
    return SPC_OK;
}
