/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shipped.c - finds the database that is installed with the library.
 *
 * It is installed in share/spctune, in the same folder as bin and lib. That
 * tree may have been moved, so the search starts at the file that contains this
 * code: in lib, lib/TRIPLET or bin. In a build tree the database is next to the
 * program.
 *
 * A GPU whose class has no file is served that of the nearest GPU.
 */
#include "context/shipped.h"

#include "context/ctx.h"
#include "context/related.h"
#include "device/architecture.h"
#include <dirent.h>
#include <dlfcn.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

static char lower(char byte)
{
    return byte >= 'A' && byte <= 'Z' ? (char)(byte - 'A' + 'a') : byte;
}

/* Turns "NVIDIA H200" into "nvidia-h200.db": one dash replaces all characters
 * between words. */
static void put_name(spc__buf *out, const char *device)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyz0123456789.";
    bool dash = false;

    for (; *device != '\0'; device++) {
        char byte = lower(*device);
        bool is_plain = strchr(plain, byte) != NULL;
        if (is_plain && dash)
            spc__buf_puts(out, "-");
        if (is_plain)
            spc__buf_append(out, &byte, 1);
        dash = !is_plain;
    }
    spc__buf_puts(out, ".db");
}

/* Finds the file that contains this code. For the program itself, the loader
 * reports only the name used to start it, which may be a word searched in PATH
 * or a relative path. */
static bool own_file(char out[PATH_MAX])
{
    static const char here;
    const void *headers = (const void *)getauxval(AT_PHDR);
    Dl_info ours, program;

    if (dladdr(&here, &ours) == 0)
        return false;
    bool is_program =
        dladdr(headers, &program) != 0 && program.dli_fbase == ours.dli_fbase;
    return realpath(is_program ? "/proc/self/exe" : ours.dli_fname, out) !=
           NULL;
}

/* True if the file exists. Otherwise `out` is left empty. */
static bool is_file(spc__buf *out, const char *folder, const char *device)
{
    spc__buf_clear(out);
    spc__buf_printf(out, "%s/", folder);
    put_name(out, device);
    if (!out->failed && access(spc__buf_text(out), R_OK) == 0)
        return true;
    spc__buf_clear(out);
    return false;
}

enum { FOLDERS = 3 };

/* Lists the folders that are searched: the given one, or those relative to this
 * library, as an installation may be moved, and then that of the build. */
static int list_folders(spc__buf out[FOLDERS], const char *folder)
{
    char own[PATH_MAX];
    int count = 0;

    if (folder == NULL)
        folder = getenv("SPC_SHIPPED");
    if (folder != NULL) {
        spc__buf_puts(&out[0], folder);
        return folder[0] != '\0';
    }
    char *slash = own_file(own) ? strrchr(own, '/') : NULL;
    if (slash != NULL) {
        *slash = '\0';
        spc__buf_printf(&out[count++], "%s/../share/spctune", own);
        spc__buf_printf(&out[count++], "%s/../../share/spctune", own);
    }
    spc__buf_puts(&out[count++], SPC_SHIPPED_FOLDER);
    return count;
}

static void release_folders(spc__buf folders[FOLDERS])
{
    for (int i = 0; i < FOLDERS; i++)
        spc__buf_release(&folders[i]);
}

void spc__shipped_file(spc__buf *out, const char *folder, const char *device)
{
    spc__buf folders[FOLDERS] = {SPC__BUF_INIT, SPC__BUF_INIT, SPC__BUF_INIT};
    int count = list_folders(folders, folder);

    for (int i = 0; i < count; i++)
        if (is_file(out, spc__buf_text(&folders[i]), device))
            break;
    release_folders(folders);
}

/* ---- another device's file ----------------------------------------------- */

/* True for a database that may have choices for the device. The names are those
 * of put_name(). "NAME.sm_90a.db" has only code. */
static bool may_serve(const spc_ctx *ctx, const char *name)
{
    size_t length = strlen(name);
    bool is_emulation = spc__device_ops_of(ctx->device)->is_emulation;

    return length > 3 && strcmp(name + length - 3, ".db") == 0 &&
           strstr(name, ".sm_") == NULL && strncmp(name, "cpu-", 4) != 0 &&
           (strncmp(name, "sim-", 4) == 0) == is_emulation;
}

/* Keeps the file if its device is nearer than that of the one kept before. */
static void compare_file(spc__buf *best, spc__related *nearest,
                         const spc_ctx *ctx, const char *path)
{
    spc__cache *cache = NULL;
    spc__related found;
    spc_error error;

    if (spc__cache_open(&cache, NULL, &path, 1, &error) != SPC_OK) {
        spc__log_printf(&ctx->log, SPC_LOG_INFO, "%s", error.text);
        return;
    }
    if (spc__ctx_nearest_in(&found, ctx, cache) &&
        (best->length == 0 || spc__related_compare(&found, nearest) < 0)) {
        *nearest = found;
        spc__buf_clear(best);
        spc__buf_puts(best, path);
    }
    spc__cache_close(cache);
}

static void search_folder(spc__buf *best, spc__related *nearest,
                          const spc_ctx *ctx, const char *folder)
{
    DIR *dir = opendir(folder);
    struct dirent *entry;

    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        spc__buf path = SPC__BUF_INIT;
        if (!may_serve(ctx, entry->d_name))
            continue;
        spc__buf_printf(&path, "%s/%s", folder, entry->d_name);
        if (!path.failed)
            compare_file(best, nearest, ctx, spc__buf_text(&path));
        spc__buf_release(&path);
    }
    if (dir != NULL)
        closedir(dir);
}

void spc__ctx_find_shipped(spc__buf *out, const char *folder,
                           const spc_ctx *ctx)
{
    spc__buf folders[FOLDERS] = {SPC__BUF_INIT, SPC__BUF_INIT, SPC__BUF_INIT};
    spc__related nearest = {0};
    int count;

    spc__shipped_file(out, folder, ctx->info.name);
    if (out->length > 0 || spc__architecture_sm(ctx->info.target) == 0)
        return;
    count = list_folders(folders, folder);
    for (int i = 0; i < count && out->length == 0; i++)
        search_folder(out, &nearest, ctx, spc__buf_text(&folders[i]));
    release_folders(folders);
}
