/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cpu_module.c - loads a shared object that exists only in memory, with dlopen.
 *
 * The bytes are written to a file without a name (memfd). If the system forbids
 * executing those, they go into a temporary file that is unlinked immediately.
 * The loader also distinguishes files by the path used to open them, here
 * /proc/self/fd/N. The descriptor N therefore stays open, and its path unique,
 * as long as the object is loaded.
 */
#include "device/cpu_module.h"

#include "base/error.h"
#include "base/file.h"
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct spc__object {
    void *handle;
    int fd; /* -1: the file was deleted after loading */
};

/* Checks the headers. The loader maps segments without checking the length of
 * the file, so a truncated object would crash much later. */
static spc_status check_elf(const unsigned char *code, size_t bytes,
                            spc_error *error)
{
    ElfW(Ehdr) header;
    ElfW(Phdr) segment;

    if (bytes < sizeof(header) || memcmp(code, ELFMAG, SELFMAG) != 0)
        return spc__fail(error, SPC_EFORMAT,
                         "the compiled code (%zu bytes) is not a shared object",
                         bytes);
    memcpy(&header, code, sizeof(header));
    /* Below, differences are compared: a sum of two numbers of the file might
     * wrap around. */
    uint64_t table = header.e_phoff;
    uint64_t table_bytes = (uint64_t)header.e_phnum * sizeof(segment);
    bool good = header.e_type == ET_DYN &&
                header.e_phentsize == sizeof(segment) && table <= bytes &&
                table_bytes <= bytes - table;
    for (int i = 0; i < header.e_phnum && good; i++) {
        memcpy(&segment, code + table + (size_t)i * sizeof(segment),
               sizeof(segment));
        good = segment.p_type != PT_LOAD ||
               (segment.p_offset <= bytes &&
                segment.p_filesz <= bytes - segment.p_offset);
    }
    if (good)
        return SPC_OK;
    return spc__fail(error, SPC_EFORMAT,
                     "the compiled code is cut short or damaged: its headers "
                     "point past its %zu bytes",
                     bytes);
}

static bool write_all(int fd, const void *data, size_t bytes)
{
    const char *at = data;
    while (bytes > 0) {
        ssize_t put = write(fd, at, bytes);
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            return false;
        at += put;
        bytes -= (size_t)put;
    }
    return true;
}

/* Opens code without a file, so nothing has to be written or removed. Returns
 * NULL if the system cannot do this. */
static void *open_from_memory(int *fd, const void *code, size_t bytes)
{
    char path[64];
    void *handle = NULL;

    *fd = memfd_create("spc_kernel", MFD_CLOEXEC);
    if (*fd < 0)
        return NULL;
    snprintf(path, sizeof(path), "/proc/self/fd/%d", *fd);
    if (write_all(*fd, code, bytes))
        handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL) {
        close(*fd);
        *fd = -1;
    }
    return handle;
}

/* Opens code through a file in a temporary folder, which is removed at once. */
static void *open_from_file(const void *code, size_t bytes, spc_error *error)
{
    spc__buf folder = SPC__BUF_INIT, path = SPC__BUF_INIT;
    void *handle = NULL;
    int lock;

    if (spc__work_dir_create(&folder, &lock, NULL, error) != SPC_OK)
        return NULL;
    spc__buf_printf(&path, "%s/kernel.so", spc__buf_text(&folder));
    if (path.failed)
        spc__fail_memory(error, folder.length);
    else if (spc__file_write(path.data, code, bytes, error) == SPC_OK &&
             !(handle = dlopen(path.data, RTLD_NOW | RTLD_LOCAL)))
        spc__fail(error, SPC_EDEVICE, "%s", dlerror());
    /* The mapping keeps the file alive after its name is gone. */
    spc__temp_dir_remove(folder.data);
    close(lock);
    spc__buf_release(&path);
    spc__buf_release(&folder);
    return handle;
}

spc_status spc__object_load(spc__object **out, const void *code, size_t bytes,
                            spc_error *error)
{
    spc_status status = check_elf(code, bytes, error);
    /* Only the failure of the second method is reported, because many systems
     * forbid the first. */
    spc_error cause = {0};

    *out = NULL;
    if (status != SPC_OK)
        return status;
    spc__object *object = malloc(sizeof(*object));
    if (object == NULL)
        return spc__fail_memory(error, sizeof(*object));
    object->handle = open_from_memory(&object->fd, code, bytes);
    if (object->handle == NULL)
        object->handle = open_from_file(code, bytes, &cause);
    if (object->handle == NULL) {
        free(object);
        return spc__fail(error, SPC_EDEVICE,
                         "cannot load the compiled code: %s", cause.text);
    }
    *out = object;
    return SPC_OK;
}

void spc__object_unload(spc__object *object)
{
    if (object == NULL)
        return;
    /* Before the descriptor: its number is part of the path that identifies the
     * object. */
    dlclose(object->handle);
    if (object->fd >= 0)
        close(object->fd);
    free(object);
}

void *spc__object_find(const spc__object *object, const char *name)
{
    return dlsym(object->handle, name);
}
