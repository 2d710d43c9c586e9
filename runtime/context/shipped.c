/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shipped.c - finds the database that is installed with the library.
 *
 * It is installed in share/spctune, in the same folder as bin and lib. That
 * tree may have been moved, so the search starts at the file that contains this
 * code: in lib, lib/TRIPLET or bin. In a build tree the database is next to the
 * program.
 */
#include "context/shipped.h"

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
static bool is_file(spc__buf *out, const char *folder, const char *rest,
                    const char *device)
{
    spc__buf_clear(out);
    spc__buf_printf(out, "%s%s/", folder, rest);
    put_name(out, device);
    if (!out->failed && access(spc__buf_text(out), R_OK) == 0)
        return true;
    spc__buf_clear(out);
    return false;
}

/* Looks for the device's file relative to this library, as an installation may
 * be moved, and then at the path of the build. */
static void find_installed(spc__buf *out, const char *device)
{
    char own[PATH_MAX];
    char *slash = own_file(own) ? strrchr(own, '/') : NULL;

    if (slash != NULL) {
        *slash = '\0';
        if (is_file(out, own, "/../share/spctune", device) ||
            is_file(out, own, "/../../share/spctune", device))
            return;
    }
    is_file(out, SPC_SHIPPED_FOLDER, "", device);
}

void spc__shipped_file(spc__buf *out, const char *folder, const char *device)
{
    if (folder == NULL)
        folder = getenv("SPC_SHIPPED");
    if (folder == NULL)
        find_installed(out, device);
    else if (folder[0] != '\0')
        is_file(out, folder, "", device);
}
