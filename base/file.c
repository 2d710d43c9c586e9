/* SPDX-License-Identifier: Apache-2.0 */
/* file.c - whole files and temporary folders. */
#include "base/file.h"

#include "base/clock.h"
#include "base/error.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* Fails with the cause that errno names. A missing file has a status of its
 * own, since callers treat it as "nothing there yet". */
static spc_status fail_errno(spc_error *error, const char *what,
                             const char *path)
{
    /* Keeps errno first, since the calls below may change it. */
    int cause = errno;
    spc_status status = cause == ENOENT   ? SPC_ENOTFOUND
                        : cause == ENOMEM ? SPC_ENOMEM
                                          : SPC_EIO;
    return spc__fail(error, status, "cannot %s '%s': %s", what, path,
                     strerror(cause));
}

/* Calls read() or write() again if a signal interrupts it. */
static ssize_t read_some(int fd, void *data, size_t bytes)
{
    ssize_t got;
    do
        got = read(fd, data, bytes);
    while (got < 0 && errno == EINTR);
    return got;
}

/* Writes all bytes: one write() may take fewer, or be interrupted by a
 * signal. */
static int write_all(int fd, const char *data, size_t bytes)
{
    while (bytes > 0) {
        ssize_t put = write(fd, data, bytes);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return -1;
        data += put;
        bytes -= (size_t)put;
    }
    return 0;
}

/* Reads to the end instead of asking for the size, since pipes and /proc report
 * none. */
static spc_status read_all(spc__buf *out, int fd, const char *path,
                           size_t limit_bytes, spc_error *error)
{
    char chunk[16384];
    size_t total = 0;

    for (;;) {
        ssize_t got = read_some(fd, chunk, sizeof(chunk));
        if (got < 0)
            return fail_errno(error, "read", path);
        if (got == 0)
            return SPC_OK;
        if ((size_t)got > limit_bytes - total)
            return spc__fail(error, SPC_ECAPACITY,
                             "cannot read '%s': it is larger than %zu bytes",
                             path, limit_bytes);
        total += (size_t)got;
        spc__buf_append(out, chunk, (size_t)got);
        if (out->failed)
            return spc__fail_memory(error, total);
    }
}

spc_status spc__file_read(spc__buf *out, const char *path, size_t limit_bytes,
                          spc_error *error)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return fail_errno(error, "open", path);
    spc_status status = read_all(out, fd, path, limit_bytes, error);
    close(fd);
    return status;
}

/* Opens a new file in the folder of `path`, with the mode of the old file or
 * that of the umask. It does not use mkstemp, whose files are private. */
static int open_beside(spc__buf *name, const char *path, const struct stat *old)
{
    /* The process and the clock make the name unique; O_EXCL catches what they
     * do not. */
    uint64_t tag = spc__now_ns();

    for (int attempt = 0; attempt < 100; attempt++) {
        spc__buf_clear(name);
        spc__buf_printf(name, "%s.%ld-%llx.tmp", path, (long)getpid(),
                        (unsigned long long)(tag + (uint64_t)attempt));
        if (name->failed) {
            errno = ENOMEM;
            return -1;
        }
        int fd = open(spc__buf_text(name),
                      O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        /* Ignores a failure, as some file systems have no modes. */
        if (fd >= 0 && old != NULL)
            (void)!fchmod(fd, old->st_mode & 07777);
        if (fd >= 0 || errno != EEXIST)
            return fd;
    }
    return -1;
}

/* Makes the rename itself durable. Some file systems cannot sync a folder. The
 * file is complete anyway, so errors are ignored. */
static void sync_parent(const char *path)
{
    const char *slash = strrchr(path, '/');
    size_t length = slash != NULL ? (size_t)(slash - path) : 0;
    char *folder = slash == NULL ? strdup(".")
                   : length == 0 ? strdup("/")
                                 : strndup(path, length);
    if (folder == NULL)
        return;
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        fsync(fd);
        close(fd);
    }
    free(folder);
}

/* Also closes `fd`. Returns 0, or -1 and errno. */
static int fill(int fd, const spc__piece *pieces, int count, bool sync)
{
    int result = 0;

    for (int i = 0; i < count && result == 0; i++)
        result = write_all(fd, pieces[i].data, pieces[i].bytes);
    if (result == 0 && sync)
        result = fsync(fd);
    /* close() may fail for delayed writes, such as a full quota, so its result
     * counts. */
    int cause = errno;
    if (close(fd) != 0 && result == 0)
        return -1;
    errno = cause;
    return result;
}

/* Returns 0, or -1 and errno. */
static int replace(const char *path, const struct stat *old,
                   const spc__piece *pieces, int count)
{
    spc__buf name = SPC__BUF_INIT;
    int fd = open_beside(&name, path, old);
    int result = fd >= 0 ? fill(fd, pieces, count, true) : -1;

    /* Renames only after fsync(), so that a crash leaves the old file or the
     * whole new one. */
    if (result == 0)
        result = rename(spc__buf_text(&name), path);
    int cause = errno;
    if (fd >= 0 && result != 0)
        unlink(spc__buf_text(&name));
    if (result == 0)
        sync_parent(path);
    spc__buf_release(&name);
    errno = cause;
    return result;
}

/* Fails with the cause that errno names, and a hint for a full disk. */
static spc_status fail_write(const char *path, spc_error *error)
{
    bool is_full = errno == ENOSPC || errno == EDQUOT;

    return spc__fail(error, errno == ENOMEM ? SPC_ENOMEM : SPC_EIO,
                     "cannot write '%s': %s%s", path, strerror(errno),
                     is_full ? "; free some space (the earlier file is kept)"
                             : "");
}

spc_status spc__file_put(const char *path, const spc__piece *pieces, int count,
                         spc_error *error)
{
    char real[PATH_MAX];
    struct stat old;
    int result;

    /* If `path` is a link, its target is replaced and the link stays. */
    if (realpath(path, real) == NULL || stat(real, &old) != 0) {
        result = errno == ENOENT ? replace(path, NULL, pieces, count) : -1;
    } else if (S_ISREG(old.st_mode)) {
        /* A rename needs only the folder's permission, but a read-only file
         * must stay as it is. */
        result =
            access(real, W_OK) == 0 ? replace(real, &old, pieces, count) : -1;
    } else {
        /* A device or pipe, such as /dev/stdout, cannot be replaced. */
        int fd = open(real, O_WRONLY | O_CLOEXEC);
        result = fd >= 0 ? fill(fd, pieces, count, false) : -1;
    }
    return result == 0 ? SPC_OK : fail_write(path, error);
}

spc_status spc__file_write(const char *path, const void *data, size_t bytes,
                           spc_error *error)
{
    return spc__file_put(path, &(spc__piece){data, bytes}, 1, error);
}

static const char *temp_root(void)
{
    const char *root = getenv("TMPDIR");

    return root != NULL && root[0] != '\0' ? root : "/tmp";
}

/* Makes a folder with a name of its own, open to this user only (mkdtemp). */
static spc_status make_temp_dir(spc__buf *out, const char *root,
                                const char *prefix, spc_error *error)
{
    spc__buf_clear(out);
    spc__buf_printf(out, "%s/%sXXXXXX", root, prefix);
    if (out->failed)
        return spc__fail_memory(error, strlen(root) + 16);
    if (mkdtemp(out->data) == NULL)
        return fail_errno(error, "make a temporary folder in", root);
    return SPC_OK;
}

spc_status spc__temp_dir_create(spc__buf *out, spc_error *error)
{
    return make_temp_dir(out, temp_root(), "spctune-", error);
}

/* A work folder is created under the first prefix and renamed to the second
 * once its lock is held. A folder with the second prefix and a free lock is
 * therefore an orphan. */
#define NEW_PREFIX "spctune-new-"
#define WORK_PREFIX "spctune-work-"

static int open_folder(int parent, const char *name)
{
    return openat(parent, name,
                  O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* Keeps the old name if the file system supports no locks. */
static void rename_locked(spc__buf *folder, const char *root)
{
    const char *random = strrchr(folder->data, '-') + 1;
    spc__buf name = SPC__BUF_INIT;

    spc__buf_printf(&name, "%s/" WORK_PREFIX "%s", root, random);
    if (!name.failed && rename(folder->data, name.data) == 0) {
        spc__buf_clear(folder);
        spc__buf_puts(folder, name.data);
    }
    spc__buf_release(&name);
}

spc_status spc__work_dir_create(spc__buf *out, int *lock, const char *root,
                                spc_error *error)
{
    if (root == NULL)
        root = temp_root();
    spc_status status = make_temp_dir(out, root, NEW_PREFIX, error);

    *lock = status == SPC_OK ? open_folder(AT_FDCWD, out->data) : -1;
    if (*lock >= 0 && flock(*lock, LOCK_EX | LOCK_NB) == 0)
        rename_locked(out, root);
    if (!out->failed)
        return status;
    close(*lock);
    *lock = -1;
    return spc__fail_memory(error, PATH_MAX);
}

static bool has_prefix(const char *name, const char *prefix)
{
    return strncmp(name, prefix, strlen(prefix)) == 0;
}

/* True if a folder with the new prefix may still be waiting for its lock: its
 * age is within a minute. A time further in the future was written before the
 * clock was set back. */
static bool is_young(const struct stat *facts)
{
    enum { YOUNG_S = 60 };
    int64_t age_s = spc__unix_seconds() - (int64_t)facts->st_mtime;

    return age_s <= YOUNG_S && age_s >= -YOUNG_S;
}

/* True if this user owns the folder and no process holds its lock. */
static bool is_orphan(int folder, bool is_new)
{
    struct stat facts;

    return fstat(folder, &facts) == 0 && facts.st_uid == geteuid() &&
           !(is_new && is_young(&facts)) &&
           flock(folder, LOCK_EX | LOCK_NB) == 0;
}

/* Removes a temporary folder whose process has ended. */
static void sweep_one(DIR *root, const char *root_path, const char *name)
{
    spc__buf path = SPC__BUF_INIT;
    /* O_NOFOLLOW: a link in a shared folder may point to anything of this
     * user. */
    int folder = open_folder(dirfd(root), name);

    if (folder < 0)
        return;
    spc__buf_printf(&path, "%s/%s", root_path, name);
    if (is_orphan(folder, has_prefix(name, NEW_PREFIX)) && !path.failed)
        spc__temp_dir_remove(path.data);
    spc__buf_release(&path);
    close(folder);
}

void spc__work_dirs_sweep(const char *path)
{
    if (path == NULL)
        path = temp_root();
    DIR *root = opendir(path);
    const struct dirent *entry;

    while (root != NULL && (entry = readdir(root)) != NULL)
        if (has_prefix(entry->d_name, WORK_PREFIX) ||
            has_prefix(entry->d_name, NEW_PREFIX))
            sweep_one(root, path, entry->d_name);
    if (root != NULL)
        closedir(root);
}

/* Called by nftw() for each file. Goes on after one that cannot be removed. */
static int remove_one(const char *path, const struct stat *facts, int kind,
                      struct FTW *at)
{
    (void)facts;
    (void)kind;
    (void)at;
    remove(path);
    return 0;
}

void spc__temp_dir_remove(const char *path)
{
    enum { FOLDERS = 8 /* folders open at a time */ };

    if (path != NULL && path[0] != '\0')
        nftw(path, remove_one, FOLDERS, FTW_DEPTH | FTW_PHYS);
}

/* Creates a folder. An existing folder is not an error. */
static int ensure_folder(const char *path)
{
    struct stat facts;

    if (mkdir(path, 0700) == 0)
        return 0;
    int cause = errno;
    if (stat(path, &facts) == 0) {
        if (S_ISDIR(facts.st_mode))
            return 0;
        cause = ENOTDIR;
    }
    errno = cause;
    return -1;
}

spc_status spc__make_parents(const char *path, spc_error *error)
{
    char *prefix = strdup(path);
    spc_status status = SPC_OK;

    if (prefix == NULL)
        return spc__fail_memory(error, strlen(path) + 1);
    /* The first slash of an absolute path does not end a folder name. */
    for (char *slash = strchr(prefix + (prefix[0] == '/'), '/');
         slash != NULL && status == SPC_OK; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (ensure_folder(prefix) != 0)
            status = fail_errno(error, "make the folder", prefix);
        *slash = '/';
    }
    free(prefix);
    return status;
}

int spc__fd_raise(int fd)
{
    /* A low number would become a standard stream of a child (file.h). */
    int high = fd >= 0 ? fcntl(fd, F_DUPFD_CLOEXEC, SPC__FD_RAISED) : -1;
    int cause = errno;

    if (fd >= 0)
        close(fd);
    errno = cause;
    return high;
}
