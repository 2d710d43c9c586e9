/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_cpu.c - the cpu templates against the naive loop, for
 * docs/performance.md.
 *
 *   bench_cpu [SCENE [LAYER [THREADS [TEMPLATE [CONFIG]]]]]
 *
 * Prints the naive triple loop at -O2 on one thread in both weight layouts,
 * the template on one thread and on THREADS, and the ratios. CONFIG "all" walks
 * the template's whole space on one thread.
 */
#include "base/clock.h"
#include "compiler/space.h"
#include "harness/kernel_harness.h"
#include "spc/lab.h"
#include <stdio.h>

_Noreturn static void fail(const harness *r)
{
    fprintf(stderr, "bench_cpu: %s\n", r->error.text);
    exit(1);
}

/* The simplest loop: a dot product for each pair and output channel, over KRSC
 * weights. */
__attribute__((noinline)) static void
naive_krsc(float *out, const float *in, const float *weights,
           const int32_t *index, int64_t rows, int offsets, int cin, int cout)
{
    for (int64_t row = 0; row < rows; row++)
        for (int co = 0; co < cout; co++) {
            float sum = 0;
            for (int k = 0; k < offsets; k++) {
                int32_t from = index[k * rows + row];
                for (int ci = 0; ci < cin && from >= 0; ci++)
                    sum += in[(int64_t)from * cin + ci] *
                           weights[((int64_t)co * offsets + k) * cin + ci];
            }
            out[row * cout + co] = sum;
        }
}

/* The better order of the same loops: output channels innermost, over RSCK
 * weights, which needs no sum across a vector. */
__attribute__((noinline)) static void
naive_rsck(float *out, const float *in, const float *weights,
           const int32_t *index, int64_t rows, int offsets, int cin, int cout)
{
    for (int64_t row = 0; row < rows; row++) {
        float *to = out + row * cout;
        memset(to, 0, (size_t)cout * sizeof(*to));
        for (int k = 0; k < offsets; k++) {
            int32_t from = index[k * rows + row];
            for (int ci = 0; ci < cin && from >= 0; ci++) {
                float x = in[(int64_t)from * cin + ci];
                const float *w = weights + ((int64_t)k * cin + ci) * cout;
                for (int co = 0; co < cout; co++)
                    to[co] += x * w[co];
            }
        }
    }
}

static double time_naive(bool rsck, const spc_conv *conv, const relation *rel,
                         const harness_data *data, float *out)
{
    double best = 0;
    for (int i = 0; i < 3; i++) {
        uint64_t start = spc__now_ns();
        (rsck ? naive_rsck : naive_krsc)(out, data->in, data->weights,
                                         rel->from, rel->rows, rel->offsets,
                                         conv->cin, conv->cout);
        double us = (double)(spc__now_ns() - start) * 1e-3;
        best = i == 0 || us < best ? us : best;
    }
    return best;
}

static void report(const char *what, double us, double flops, double naive)
{
    printf("%-34s %10.0f us %8.1f GFLOP/s %8.1f x naive\n", what, us,
           flops / us * 1e-3, naive / us);
}

/* Returns the least of the template's times on `threads` threads, which is its
 * time on an idle machine. The naive loops are timed in the same way. */
static double time_template(const char *name, const spc_conv *conv,
                            const relation *rel, const spc__attrs *config,
                            int threads)
{
    harness r;
    layout map;
    harness_data data;
    harness_kernel kernel;
    double samples[30];
    int count = 0;

    if (harness_open(&r, "cpu", threads) != SPC_OK)
        fail(&r);
    harness_data_create(&data, conv, rel->rows_in, false);
    if (harness_build(&kernel, &r, name, conv, config, &data, false) != SPC_OK)
        fail(&r);
    layout_create(&map, rel,
                  (int)spc__attrs_number(&kernel.launch, "tile_rows", 1), 0,
                  OWN_ORDER);
    void *out = malloc((size_t)rel->rows * (size_t)conv->cout * 4 + 64);
    harness_run run = harness_prepare(&r, &kernel, conv, &map.view, &data, out);
    spc__measure measure = {harness_enqueue, &run, 30, 1.0, false, NULL};
    if (r.ops->measure(r.device, &measure, samples, &count, &r.error) != SPC_OK)
        fail(&r);
    free(out);
    harness_kernel_free(&r, &kernel);
    layout_release(&map);
    harness_data_free(&data);
    harness_close(&r);
    for (int i = 1; i < count; i++)
        samples[0] = samples[i] < samples[0] ? samples[i] : samples[0];
    return samples[0];
}

typedef struct walk {
    const char *name;
    const spc_conv *conv;
    const relation *rel;
    double flops;
} walk;

static void time_all(const walk *w)
{
    spc__space *space;
    spc__attrs problem = {0};
    harness r;

    if (harness_open(&r, "cpu", 1) != SPC_OK)
        fail(&r);
    spc__conv_attrs(&problem, w->conv);
    if (spc__space_create(&space, r.library, "conv", w->name, &problem,
                          &r.target, &r.error) != SPC_OK)
        fail(&r);
    for (int i = 0; i < space->count; i++) {
        const spc__candidate *candidate = &space->candidates[i];
        const spc__attrs *config = &candidate->config;
        spc__buf text = SPC__BUF_INIT;
        if (candidate->admitted &&
            strcmp(spc__attrs_text(config, "order", "none"), "none") == 0) {
            double us = time_template(w->name, w->conv, w->rel, config, 1);
            spc__attrs_format(&text, config);
            printf("%10.0f us %8.1f GFLOP/s  %s\n", us, w->flops / us * 1e-3,
                   spc__buf_text(&text));
        }
        spc__buf_release(&text);
    }
    spc__space_free(space);
    harness_close(&r);
}

/* Finds the relation of a layer on a scene. */
static void relation_of_scene(relation *rel, harness *r, const spc_conv *conv,
                              const spc_scene *scene)
{
    spc_relation found;

    if (spc_oracle_relation(&found, conv, scene, 0, &r->error) != SPC_OK)
        fail(r);
    relation_init(rel, conv, (int)found.rows_in, (int)found.rows_out);
    memcpy(rel->from, found.index,
           (size_t)found.offsets * (size_t)found.rows_out * sizeof(int32_t));
    spc_relation_release(&found);
}

int main(int argc, char **argv)
{
    const char *spec = argc > 1 ? argv[1] : "gen:lidar";
    const char *layer =
        argc > 2 ? argv[2] : "subm,cin=64,cout=64,k=3,dtype=f32";
    int threads = argc > 3 ? atoi(argv[3]) : 2;
    const char *name = argc > 4 ? argv[4] : "rowgemm";
    const char *text = argc > 5 ? argv[5] : NULL;
    harness r = {0};
    spc_conv conv;
    spc_scene *scene;
    spc__attrs config;
    relation rel;
    harness_data data;

    if (spc_conv_parse(&conv, layer, &r.error) != SPC_OK ||
        spc_scene_load(&scene, spec, &r.error) != SPC_OK)
        fail(&r);
    relation_of_scene(&rel, &r, &conv, scene);
    harness_data_create(&data, &conv, rel.rows_in, false);
    float *out = malloc((size_t)rel.rows * (size_t)conv.cout * 4 + 64);
    int64_t pairs = relation_pairs(&rel);
    double flops = 2.0 * (double)pairs * conv.cin * conv.cout;
    printf("%s: %d rows, %lld pairs; %s\n", spec, rel.rows, (long long)pairs,
           layer);
    if (text != NULL && strcmp(text, "all") == 0) {
        time_all(&(walk){name, &conv, &rel, flops});
    } else {
        if (text != NULL && spc__attrs_parse(&config, text, &r.error) != SPC_OK)
            fail(&r);
        const spc__attrs *chosen = text != NULL ? &config : NULL;
        double krsc = time_naive(false, &conv, &rel, &data, out);
        double rsck = time_naive(true, &conv, &rel, &data, out);
        double one = time_template(name, &conv, &rel, chosen, 1);
        double many = time_template(name, &conv, &rel, chosen, threads);
        report("naive, KRSC, -O2, 1 thread", krsc, flops, krsc);
        report("naive, RSCK, -O2, 1 thread", rsck, flops, krsc);
        report("template, 1 thread", one, flops, krsc);
        report("template, all threads", many, flops, krsc);
        printf("%d threads are %.2f times as fast as one; one is %.1f times "
               "the better naive loop\n",
               threads, one / many, rsck / one);
    }
    free(out);
    harness_data_free(&data);
    relation_release(&rel);
    spc_scene_free(scene);
    return 0;
}
