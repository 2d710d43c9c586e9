/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_net_files.c - runs every network of examples/networks unchanged on a
 * small scene, and compares each layer with the oracle.
 *
 *     test_net_files [cpu|sim|cuda]
 *
 * Without an argument it runs a few of the files on "cpu". Each file is a case,
 * named after the file without ".lua". New files of that folder run without
 * being listed here.
 */
#include "harness/net_harness.h"

#include <dirent.h>

/* ---- the files ----------------------------------------------------------- */

enum { MOST_FILES = 64, ONE_IN = 5 /* one file of this many runs */ };

static char *files[MOST_FILES]; /* without ".lua", sorted by name */
static int file_count;

/* Files that need other settings. */
static const struct unlike {
    const char *file;
    int rows, capacity;
    double growth;
    bool is_elsewhere;
} unlike[] = {
    /* capacities of its levels are fractions of the plan's */
    {"completion", 40, 200, 8, false},
    /* has a strided layer of size 5 on isolated voxels */
    {"largekernel3d", 90, 90, 27, false},
    /* has gigabytes of weights; test_net_masked.c runs it with fewer
     * channels */
    {"trellis2_shape", 0, 0, 0, true},
};

static const struct unlike *settings_of(const char *file)
{
    static const struct unlike like_all = {NULL, 90, 90, 8, false};

    for (int i = 0; i < LENGTH(unlike); i++)
        if (strcmp(file, unlike[i].file) == 0)
            return &unlike[i];
    return &like_all;
}

/* Some files are parts of others and define no network. */
static bool says_network(const char *path)
{
    spc__buf text = SPC__BUF_INIT;
    spc_status status = spc__file_read(&text, path, 1 << 20, &error);
    bool says = status == SPC_OK &&
                strstr(spc__buf_text(&text), "\nnetwork \"") != NULL;

    spc__buf_release(&text);
    return says;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool find_files(void)
{
    DIR *folder = opendir(suite_path("../examples/networks"));
    struct dirent *entry;

    while (folder != NULL && (entry = readdir(folder)) != NULL) {
        size_t length = strlen(entry->d_name);
        if (length < 5 || strcmp(entry->d_name + length - 4, ".lua") != 0 ||
            !says_network(network_path(entry->d_name)))
            continue;
        char *name = strndup(entry->d_name, length - 4);
        if (name != NULL && settings_of(name)->is_elsewhere) {
            free(name);
            continue;
        }
        if (name == NULL || file_count == MOST_FILES) {
            free(name);
            file_count = 0;
            break;
        }
        files[file_count++] = name;
    }
    if (folder != NULL)
        closedir(folder);
    qsort(files, (size_t)file_count, sizeof(*files), by_name);
    return file_count > 0;
}

/* ---- scenes -------------------------------------------------------------- */

enum { STEPS = 512 }; /* in 1/1024 m: many radii of a cloud */

/* Makes points of two batch elements. */
static spc_scene *draw_cloud(int rows, uint64_t seed)
{
    int32_t *at = malloc(16 * (size_t)rows);
    spc_scene *scene;
    spc__random random;

    spc__random_init(&random, seed);
    for (int i = 0; i < 4 * rows; i++)
        at[i] = (int32_t)spc__random_below(&random, i % 4 == 0 ? 2 : STEPS);
    assert_net(spc_scene_create(&scene, at, rows, "cloud", &error));
    free(at);
    return scene;
}

/* ---- the test ------------------------------------------------------------ */

static spc_net_options options_of(const struct unlike *as)
{
    spc_net_options o = options_for(as->capacity);

    for (int a = 1; a < 4; a++) {
        o.low[a] = -STEPS;
        o.high[a] = STEPS;
    }
    o.growth = as->growth;
    o.keep = true;
    return o;
}

/* The type depends on the file and on the suite's variant. */
static spc_dtype dtype_of(int i)
{
    static const spc_dtype dtypes[] = {SPC_F16, SPC_F32, SPC_BF16};

    return suite_is_gpu() ? SPC_F16 : dtypes[(i + suite_variant() / ONE_IN) % 3];
}

START_TEST(every_layer_is_as_the_oracle_says)
{
    const struct unlike *as = settings_of(files[_i]);
    spc_net_options o = options_of(as);
    uint64_t seed = (uint64_t)suite_variant();
    spc_scene *scene;
    char name[300];
    harness r;

    if (!suite_takes(_i))
        return;
    snprintf(name, sizeof(name), "%s.lua", files[_i]);
    load(&r, name, dtype_of(_i));
    scene = r.info.input->cloud ? draw_cloud(as->rows, seed)
                                : draw_scene(as->rows, 2, seed);
    open_context(&r, device_of(0));
    plan_net(&r, &o);
    upload(&r, scene, seed);
    poison(&r);
    assert_ok(r.ctx, spc_net_plan_execute(r.plan, &r.buffers, NULL));
    check_run(&r, scene, false);
    spc_scene_free(scene);
    close_harness(&r);
}
END_TEST

int main(int argc, char **argv)
{
    int status = suite_open(argc, argv);

    if (status != 0)
        return status;
    if (!find_files()) {
        printf("no network is in %s\n", suite_path("../examples/networks"));
        return EXIT_FAILURE;
    }
    Suite *suite = suite_create("net_files");
    suite_sample(ONE_IN);
    for (int i = 0; i < file_count; i++) {
        TCase *tc = tcase_create(files[i]);
        tcase_set_timeout(tc, 300);
        tcase_add_loop_test(tc, every_layer_is_as_the_oracle_says, i, i + 1);
        suite_add_tcase(suite, tc);
    }
    status = run_suite(suite);
    for (int i = 0; i < file_count; i++)
        free(files[i]);
    return status;
}
