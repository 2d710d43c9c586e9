/* SPDX-License-Identifier: Apache-2.0 */
/*
 * capture.c - records the layers and scenes of a host application for later
 * tuning.
 *
 * A folder holds a list, with one line for each layer on a scene, and the
 * scenes as .npy files. A file is named by its content, so equal scenes are
 * written once, even by several processes. The list is locked while a line is
 * added, so several processes may write to one folder.
 */
#include "plan/capture.h"
#include "spc/tune.h"

#include "base/error.h"
#include "base/file.h"
#include "base/sha256.h"
#include "context/ctx.h"
#include "coords/coords.h"
#include "operators/conv.h"
#include "operators/offset_list.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LIST_MOST = 16 << 20, LAYER_BYTES = 512 + SPC__LIST_BYTES };
enum { NAME_BYTES = 40 };

static spc_status fail(spc_error *error, const char *what, const char *path)
{
    return spc__fail(error, SPC_EIO, "cannot %s '%s': %s", what, path,
                     strerror(errno));
}

/* ---- the folder ---------------------------------------------------------- */

/* Returns the full path, since lists are read from any working directory. Words
 * of a line are separated by blanks, so the path must have none. */
static spc_status find_folder(char out[PATH_MAX], const char *folder,
                              spc_error *error)
{
    if (mkdir(folder, 0777) != 0 && errno != EEXIST)
        return fail(error, "create the folder", folder);
    if (realpath(folder, out) == NULL)
        return fail(error, "find the folder", folder);
    for (const char *at = out; *at != '\0'; at++)
        if ((unsigned char)*at <= ' ' || *at == '#')
            return spc__fail(error, SPC_EINVAL,
                             "cannot capture into '%s': a list of layers can "
                             "hold no path with a blank or '#' in it",
                             out);
    return SPC_OK;
}

/* ---- scenes -------------------------------------------------------------- */

/* Names a file by its content, so that one scene of many layers is written
 * once. */
static void name_scene(char out[NAME_BYTES], const int32_t *coords,
                       int64_t rows)
{
    char hex[SPC__SHA256_HEX];
    spc__sha256 sha;

    spc__sha256_init(&sha);
    spc__sha256_update(&sha, coords, 16 * (size_t)rows);
    spc__sha256_end(hex, &sha);
    snprintf(out, NAME_BYTES, "scene-%.16s.npy", hex);
}

/* Writes the .npy header of [rows][4] int32, padded so that the data begin at a
 * multiple of 64. */
static void write_header(spc__buf *out, int64_t rows)
{
    /* The string ends with the high byte of the length: its final zero. */
    static const char start[] = "\x93NUMPY\x01\x00\x76"; /* header length 118 */

    spc__buf_append(out, start, sizeof(start));
    spc__buf_printf(out,
                    "{'descr': '<i4', 'fortran_order': False, "
                    "'shape': (%lld, 4), }",
                    (long long)rows);
    while (out->length < 127 && !out->failed)
        spc__buf_puts(out, " ");
    spc__buf_puts(out, "\n");
}

/* Writes the coordinates as a file of NumPy. */
static spc_status write_scene(const char *path, const int32_t *coords,
                              int64_t rows, spc_error *error)
{
    struct stat facts;
    spc__buf file = SPC__BUF_INIT;
    spc_status status;

    /* The name is a digest of the content, so a file of this name has it
     * already. */
    if (stat(path, &facts) == 0)
        return SPC_OK;
    write_header(&file, rows);
    spc__buf_append(&file, coords, 16 * (size_t)rows);
    status = file.failed ? spc__fail_memory(error, 16 * (size_t)rows)
                         : spc__file_write(path, file.data, file.length, error);
    spc__buf_release(&file);
    return status;
}

/* ---- the list ------------------------------------------------------------ */

/* `line` ends with a newline, like every line of the list. */
static bool has_line(const char *list, const char *line)
{
    const char *at = list;

    /* A match in the middle of another line does not count. */
    while ((at = strstr(at, line)) != NULL) {
        if (at == list || at[-1] == '\n')
            return true;
        at++;
    }
    return false;
}

/* Appends the line unless the list has it. */
static spc_status add_to(int file, const char *path, const char *line,
                         spc_error *error)
{
    spc__buf list = SPC__BUF_INIT;
    spc_status status = spc__file_read(&list, path, LIST_MOST, error);
    size_t bytes = strlen(line);

    if (status == SPC_OK && !has_line(spc__buf_text(&list), line) &&
        /* One write to a file opened for appending: a reader never sees half a
         * line. */
        write(file, line, bytes) != (ssize_t)bytes)
        status = fail(error, "write", path);
    spc__buf_release(&list);
    return status;
}

/* Appends a line to a list that other processes may write as well. */
static spc_status add_line(const char *path, const char *line, spc_error *error)
{
    int file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    spc_status status;

    if (file < 0)
        return fail(error, "open", path);
    /* The list is read under the lock, so two processes cannot both find the
     * line missing. */
    status = flock(file, LOCK_EX) == 0 ? add_to(file, path, line, error)
                                       : fail(error, "lock", path);
    close(file); /* also releases the lock */
    return status;
}

/* ---- entry --------------------------------------------------------------- */

spc_status spc__capture_write(const char *folder, const spc_conv *conv,
                              const int32_t *coords, int64_t rows,
                              spc_error *error)
{
    char root[PATH_MAX], layer[LAYER_BYTES], name[NAME_BYTES];
    spc__buf path = SPC__BUF_INIT, line = SPC__BUF_INIT;
    spc_status status = find_folder(root, folder, error);

    if (status != SPC_OK)
        return status;
    spc_conv_format(layer, sizeof(layer), conv);
    name_scene(name, coords, rows);
    spc__buf_printf(&path, "%s/%s", root, name);
    spc__buf_printf(&line, "%s --scene %s/%s\n", layer, root, name);
    status = path.failed || line.failed
                 ? spc__fail_memory(error, PATH_MAX)
                 : write_scene(spc__buf_text(&path), coords, rows, error);
    spc__buf_clear(&path);
    spc__buf_printf(&path, "%s/layers.txt", root);
    /* The scene is written before the line that names it. */
    if (status == SPC_OK)
        status = add_line(spc__buf_text(&path), spc__buf_text(&line), error);
    spc__buf_release(&path);
    spc__buf_release(&line);
    return status;
}

spc_status spc_record_layer(spc_ctx *ctx, const char *folder,
                            const spc_conv *conv, const int32_t *coords,
                            int64_t rows, void *stream)
{
    spc_error error = {0};
    int32_t *host = NULL;
    spc_status status =
        spc__need(spc__error_of(ctx), __func__, "ctx", ctx, "folder", folder,
                  "conv", conv, "coords", coords, NULL);

    if (status != SPC_OK)
        return status;
    if (rows < 1)
        status =
            spc__fail(&error, SPC_EINVAL,
                      "cannot tune on a scene of %lld voxels", (long long)rows);
    else if (rows > INT32_MAX - SPC_ROW_PAD)
        status = spc__fail(&error, SPC_EINVAL,
                           "a scene of %lld voxels: expected at most %d",
                           (long long)rows, INT32_MAX - SPC_ROW_PAD);
    if (status == SPC_OK)
        status = spc_conv_check(conv, &error);
    if (status == SPC_OK)
        status = spc__coords_fetch(&host, ctx, coords, rows, stream, &error);
    if (status == SPC_OK)
        status = spc__capture_write(folder, conv, host, rows, &error);
    free(host);
    return status == SPC_OK ? status : spc__ctx_fail(ctx, &error);
}
