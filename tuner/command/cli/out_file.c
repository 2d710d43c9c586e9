/* SPDX-License-Identifier: Apache-2.0 */
/*
 * out_file.c - writes files completely or not at all, and never replaces one of
 * another kind (overwrite.h).
 */
#include "command/cli/out_file.h"

#include "command/cli/cli.h"
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

spc_status out_file_put(const char *path, const spc__piece *pieces, int count)
{
    spc_error error = {0};

    return spc__overwrite(path, pieces, count, &error) == SPC_OK
               ? SPC_OK
               : cli_fail(error.status, "%s", error.text);
}

/* ---- streams ------------------------------------------------------------- */

/*
 * True if a file could be created there, so that a command fails before hours
 * of work.
 */
static bool is_open_to_us(const char *path)
{
    char real[PATH_MAX];
    struct stat old;

    if (realpath(path, real) == NULL)
        snprintf(real, sizeof(real), "%s", path);
    else if (access(real, W_OK) != 0)
        return false;
    else if (stat(real, &old) == 0 && !S_ISREG(old.st_mode))
        return true;
    char *slash = strrchr(real, '/');
    if (slash == NULL)
        return access(".", W_OK) == 0;
    slash[slash == real] = '\0'; /* keeps "/" of an absolute path */
    return access(real, W_OK) == 0;
}

spc_status out_file_open(out_file *out, const char *path)
{
    spc_error error = {0};

    *out = (out_file){0};
    if (path != NULL && !is_open_to_us(path))
        return cli_fail(SPC_EIO, "cannot write '%s': %s", path,
                        strerror(errno));
    if (path != NULL && spc__overwrite_check(path, NULL, 0, &error) != SPC_OK)
        return cli_fail(error.status, "%s", error.text);
    out->path = path;
    /* Collects the text in memory, so that the file changes only when the text
     * is complete. */
    out->to = path != NULL ? open_memstream(&out->text, &out->bytes) : stdout;
    return out->to != NULL ? SPC_OK : cli_fail(SPC_ENOMEM, "out of memory");
}

spc_status out_file_save(out_file *out)
{
    /* This flush also fails if the disk of standard output is full. */
    if (fflush(out->to) != 0 || ferror(out->to))
        return out->path != NULL
                   ? cli_fail(SPC_ENOMEM, "out of memory")
                   : cli_fail(SPC_EIO, "cannot write to standard output: %s",
                              strerror(errno));
    return out->path != NULL
               ? out_file_put(out->path, &(spc__piece){out->text, out->bytes},
                              1)
               : SPC_OK;
}

spc_status out_file_close(out_file *out, spc_status status)
{
    if (out->to == NULL)
        return status;
    if (status == SPC_OK)
        status = out_file_save(out);
    if (out->path != NULL)
        fclose(out->to);
    free(out->text);
    *out = (out_file){0};
    return status;
}
