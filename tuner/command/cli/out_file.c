/*
 * out_file.c - files that are whole or not there: written beside their place
 * under another name, and renamed once the disk has all of them.
 */
#include "command/cli/out_file.h"

#include "command/cli/cli.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* `errno` says why. */
static spc_status fail(const char *path)
{
    if (errno == ENOSPC || errno == EDQUOT)
        return cli_fail(SPC_EIO,
                        "cannot write '%s': %s; free some space (what was "
                        "there before is kept)",
                        path, strerror(errno));
    return cli_fail(SPC_EIO, "cannot write '%s': %s", path, strerror(errno));
}

static int write_all(int file, const out_piece *piece)
{
    const char *data = piece->data;
    size_t left = piece->bytes;

    while (left > 0) {
        ssize_t wrote = write(file, data, left);
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote <= 0)
            return -1;
        data += wrote;
        left -= (size_t)wrote;
    }
    return 0;
}

/* Closes `file` as well; 0, or -1 and errno. */
static int fill(int file, const out_piece *pieces, int count, bool sync)
{
    int result = 0;

    for (int i = 0; i < count && result == 0; i++)
        result = write_all(file, &pieces[i]);
    if (result == 0 && sync)
        result = fsync(file);
    int cause = errno;
    if (close(file) != 0 && result == 0)
        return -1;
    errno = cause;
    return result;
}

/* A new file, of the mode that the old one has or the umask gives. */
static int open_beside(char *name, size_t bytes, const char *path,
                       const struct stat *old)
{
    for (int attempt = 0; attempt < 100; attempt++) {
        int length = snprintf(name, bytes, "%s.%ld-%d.tmp", path,
                              (long)getpid(), attempt);
        if (length < 0 || (size_t)length >= bytes) {
            errno = ENAMETOOLONG;
            return -1;
        }
        int file = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (file >= 0 && old != NULL)
            (void)!fchmod(file, old->st_mode & 07777);
        if (file >= 0 || errno != EEXIST)
            return file;
    }
    return -1;
}

/* 0, or -1 and errno. */
static int replace(const char *path, const struct stat *old,
                   const out_piece *pieces, int count)
{
    char name[PATH_MAX];
    int file = open_beside(name, sizeof(name), path, old);

    if (file < 0)
        return -1;
    if (fill(file, pieces, count, true) == 0 && rename(name, path) == 0)
        return 0;
    int cause = errno;
    unlink(name);
    errno = cause;
    return -1;
}

spc_status out_file_put(const char *path, const out_piece *pieces, int count)
{
    char real[PATH_MAX];
    struct stat old;
    int result;

    if (realpath(path, real) == NULL || stat(real, &old) != 0) {
        result = errno == ENOENT ? replace(path, NULL, pieces, count) : -1;
    } else if (S_ISREG(old.st_mode)) {
        result =
            access(real, W_OK) == 0 ? replace(real, &old, pieces, count) : -1;
    } else {
        int file = open(real, O_WRONLY | O_CLOEXEC);
        result = file >= 0 ? fill(file, pieces, count, false) : -1;
    }
    return result == 0 ? SPC_OK : fail(path);
}

/* ---- bit by bit ---------------------------------------------------------- */

/* Would a file be made there? What takes hours is to fail before them. */
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
    slash[slash == real] = '\0'; /* "/" stays */
    return access(real, W_OK) == 0;
}

spc_status out_file_open(out_file *out, const char *path)
{
    *out = (out_file){0};
    if (path != NULL && !is_open_to_us(path))
        return fail(path);
    out->path = path;
    out->to = path != NULL ? open_memstream(&out->text, &out->bytes) : stdout;
    return out->to != NULL ? SPC_OK : fail(path);
}

spc_status out_file_save(out_file *out)
{
    if (fflush(out->to) != 0 || ferror(out->to))
        return out->path != NULL
                   ? cli_fail(SPC_ENOMEM, "out of memory")
                   : cli_fail(SPC_EIO, "cannot write to standard output: %s",
                              strerror(errno));
    return out->path != NULL
               ? out_file_put(out->path, &(out_piece){out->text, out->bytes}, 1)
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
