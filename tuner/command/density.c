/* SPDX-License-Identifier: Apache-2.0 */
/* density.c - finds, prints and draws the density of maps by L1 norm. */
#include "command/density.h"

#include "base/plural.h"
#include "command/cli/cli.h"
#include "command/cli/out_file.h"
#include "command/verify/relate.h"
#include <stdlib.h>

/* ---- counting ------------------------------------------------------------ */

spc_status density_check(int kernel)
{
    if (kernel == 3 || kernel == 5 || kernel == 7)
        return SPC_OK;
    return cli_fail(SPC_EINVAL,
                    "--density %d: expected a kernel of 3, 5 or 7, which has a "
                    "voxel at its centre",
                    kernel);
}

static int64_t count_pairs(const spc_relation *r, int k)
{
    const int32_t *index = r->index + (int64_t)k * r->rows_out;
    int64_t pairs = 0;

    for (int64_t row = 0; row < r->rows_out; row++)
        pairs += index[row] >= 0;
    return pairs;
}

static int norm_of(const spc_geometry *g, int k)
{
    int at[3];

    spc_geometry_offset_at(at, g, k);
    return abs(at[0]) + abs(at[1]) + abs(at[2]);
}

static void add_offset(density_of_norm *to, int64_t pairs)
{
    if (to->offsets == 0 || pairs < to->least)
        to->least = pairs;
    if (to->offsets == 0 || pairs > to->most)
        to->most = pairs;
    to->offsets++;
    to->pairs += pairs;
}

spc_status density_find(density_facts *out, const spc_scene *scene, int kernel,
                        int threads)
{
    spc_conv conv = SPC_CONV_INIT;
    spc_relation r;

    for (int i = 0; i < 3; i++)
        conv.geometry.kernel[i] = kernel;
    spc_status status = relate(&r, &conv, scene, threads);
    if (status != SPC_OK)
        return status;
    *out = (density_facts){
        .scene = spc_scene_name(scene),
        .kernel = kernel,
        .rows = r.rows_out,
        .norms = 3 * (kernel / 2) + 1,
    };
    for (int k = 0; k < r.offsets; k++)
        add_offset(&out->at[norm_of(&conv.geometry, k)], count_pairs(&r, k));
    spc_relation_release(&r);
    return SPC_OK;
}

/* ---- text and JSON ------------------------------------------------------- */

static double share(int64_t pairs, int64_t rows)
{
    return rows > 0 ? (double)pairs / (double)rows : 0;
}

static double density_at(const density_facts *of, int norm)
{
    return share(of->at[norm].pairs, of->rows * of->at[norm].offsets);
}

const char *const density_titles[] = {"scene",    "-kernel",  ">norm",
                                      ">offsets", ">pairs",   ">density",
                                      ">--least", ">---most", NULL};

void density_add(table *to, const density_facts *of)
{
    for (int norm = 0; norm < of->norms; norm++) {
        const density_of_norm *n = &of->at[norm];
        table_cell(to, "%s", of->scene);
        table_cell(to, "%d", of->kernel);
        table_cell(to, "%d", norm);
        table_cell(to, "%d", n->offsets);
        table_cell(to, "%lld", (long long)n->pairs);
        table_cell(to, "%.4f", density_at(of, norm));
        table_cell(to, "%.4f", share(n->least, of->rows));
        table_cell(to, "%.4f", share(n->most, of->rows));
    }
}

void density_write(spc__json *json, const density_facts *of)
{
    spc__json_object(json, NULL);
    spc__json_text(json, "scene", of->scene);
    spc__json_int(json, "kernel", of->kernel);
    spc__json_int(json, "rows", of->rows);
    spc__json_array(json, "norms");
    for (int norm = 0; norm < of->norms; norm++) {
        const density_of_norm *n = &of->at[norm];
        spc__json_object(json, NULL);
        spc__json_int(json, "norm", norm);
        spc__json_int(json, "offsets", n->offsets);
        spc__json_int(json, "pairs", n->pairs);
        spc__json_real(json, "density", density_at(of, norm));
        spc__json_real(json, "least", share(n->least, of->rows));
        spc__json_real(json, "most", share(n->most, of->rows));
        spc__json_end_object(json);
    }
    spc__json_end_array(json);
    spc__json_end_object(json);
}

/* ---- the picture --------------------------------------------------------- */

/* In pixels. The scenes are named below the axis, one a line. */
enum {
    WIDTH = 640,
    LEFT = 48,
    TOP = 30,
    HEIGHT = 240,
    NAMES = TOP + HEIGHT + 52,
    LINE = 20,
    COLOURS = 6,
};

static const char *const colours[COLOURS] = {"#1a7f37", "#0969da", "#bc4c00",
                                             "#8250df", "#cf222e", "#6e7781"};

/* Names of files may have characters that end a text in XML. */
static void write_text(FILE *to, const char *text)
{
    for (; *text != '\0'; text++)
        switch (*text) {
        case '<':
            fputs("&lt;", to);
            break;
        case '&':
            fputs("&amp;", to);
            break;
        default:
            fputc(*text, to);
        }
}

static void draw_axes(FILE *to, int norms, double of_norm)
{
    for (int percent = 0; percent <= 100; percent += 20) {
        double y = TOP + HEIGHT * (1 - percent / 100.0);
        fprintf(to,
                "<path d=\"M%d %.1fH%d\" stroke=\"#8c959f\" "
                "stroke-opacity=\"%s\"/>\n"
                "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%d %%</text>\n",
                LEFT, y, WIDTH, percent == 0 ? "1" : "0.3", LEFT - 6, y + 4,
                percent);
    }
    for (int norm = 0; norm < norms; norm++)
        fprintf(to,
                "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%d</text>\n",
                LEFT + (norm + 0.5) * of_norm, TOP + HEIGHT + 16, norm);
    fprintf(to,
            "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">L1 norm of the "
            "offset</text>\n",
            (LEFT + WIDTH) / 2, TOP + HEIGHT + 34);
}

/* A bar for each norm of a scene, at its place among `count` scenes. */
static void draw_bars(FILE *to, const density_facts *of, int place, int count,
                      double of_norm)
{
    double width = 0.8 * of_norm / count;

    fprintf(to, "<g fill=\"%s\">\n", colours[place % COLOURS]);
    for (int norm = 0; norm < of->norms; norm++) {
        double high = HEIGHT * density_at(of, norm);
        fprintf(to,
                "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\">"
                "<title>%.2f %%</title></rect>\n",
                LEFT + (norm + 0.1) * of_norm + place * width,
                TOP + HEIGHT - high, width, high, 100 * density_at(of, norm));
    }
    fprintf(to, "<rect x=\"%d\" y=\"%d\" width=\"12\" height=\"12\"/></g>\n",
            LEFT, NAMES + place * LINE - 10);
    fprintf(to, "<text x=\"%d\" y=\"%d\">", LEFT + 18, NAMES + place * LINE);
    write_text(to, of->scene);
    fprintf(to, ": %s</text>\n", spc__count(of->rows, "voxel"));
}

spc_status density_draw(const char *path, const density_facts *of, int count)
{
    double of_norm = (double)(WIDTH - LEFT) / of->norms;
    out_file file;
    spc_status status = out_file_open(&file, path);

    if (status != SPC_OK)
        return status;
    fprintf(file.to,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" "
            "font-family=\"sans-serif\" font-size=\"12\" fill=\"#57606a\">\n"
            "<text x=\"%d\" y=\"16\">rows with a neighbour, kernel "
            "%dx%dx%d</text>\n",
            WIDTH, NAMES + count * LINE, LEFT, of->kernel, of->kernel,
            of->kernel);
    draw_axes(file.to, of->norms, of_norm);
    for (int i = 0; i < count; i++)
        draw_bars(file.to, &of[i], i, count, of_norm);
    fputs("</svg>\n", file.to);
    return out_file_close(&file, SPC_OK);
}
