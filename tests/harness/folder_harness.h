/* SPDX-License-Identifier: Apache-2.0 */
/* folder_harness.h - a temporary folder for the files of one test. */
#ifndef SPC_TESTS_FOLDER_HARNESS_H
#define SPC_TESTS_FOLDER_HARNESS_H

#include "base/buf.h"
#include "base/file.h"
#include "harness/suite.h"

static spc__buf folder = SPC__BUF_INIT;

static inline void make_folder(void)
{
    spc_error why;

    ck_assert_msg(spc__temp_dir_create(&folder, &why) == SPC_OK, "%s",
                  why.text);
}

static inline void remove_folder(void)
{
    spc__temp_dir_remove(spc__buf_text(&folder));
    spc__buf_release(&folder);
}

/*
 * Returns the path of `name` in the folder. Only the last few returned paths
 * are valid.
 */
static inline const char *at(const char *name)
{
    static char paths[16][512];
    static int next;
    char *path = paths[next++ % 16];

    snprintf(path, sizeof(paths[0]), "%s/%s", spc__buf_text(&folder), name);
    return path;
}

/* Writes a file in the folder, and returns its path with `suffix`. */
static inline const char *write_at(const char *name, const void *data,
                                   size_t bytes, const char *suffix)
{
    char with_suffix[400];
    spc_error why;

    ck_assert_msg(spc__file_write(at(name), data, bytes, &why) == SPC_OK, "%s",
                  why.text);
    snprintf(with_suffix, sizeof(with_suffix), "%s%s", name, suffix);
    return at(with_suffix);
}

#endif
