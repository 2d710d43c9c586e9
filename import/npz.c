/* SPDX-License-Identifier: Apache-2.0 */
/* npz.c - reads archives of NumPy arrays (.npz). Each member NAME.npy is an
 * array; other members are skipped. */
#include "import/weights.h"

#include "base/error.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zip.h>

/* Upper bound of deflate's expansion factor. */
enum { DEFLATE_MOST = 1032 };

struct reader {
    spc_weights *out;
    zip_t *archive;
    const spc__weight_file *file;
    zip_uint64_t left_bytes; /* bytes of the file that remaining members may
                              * occupy */
    spc_error *error;
};

struct member {
    zip_uint64_t index;
    const char *name;
    zip_uint64_t bytes, packed_bytes;
    zip_uint16_t method;
};

/* Reads the sizes of a member from the archive's directory. */
static spc_status look(struct member *out, const struct reader *r,
                       zip_uint64_t i)
{
    const zip_uint64_t needed = ZIP_STAT_NAME | ZIP_STAT_SIZE |
                                ZIP_STAT_COMP_SIZE | ZIP_STAT_COMP_METHOD;
    zip_stat_t facts;

    if (zip_stat_index(r->archive, i, 0, &facts) != 0 ||
        (facts.valid & needed) != needed)
        return spc__fail(r->error, SPC_EFORMAT,
                         "cannot read '%s': member %llu has no name or size",
                         r->file->path, (unsigned long long)i);
    *out = (struct member){i, facts.name, facts.size, facts.comp_size,
                           facts.comp_method};
    return SPC_OK;
}

static bool is_array(const struct member *member)
{
    size_t length = strlen(member->name);

    return length >= 4 && strcmp(member->name + length - 4, ".npy") == 0;
}

/* Checks the stated sizes before memory is allocated: the packed data can
 * expand to this size, and all members together fit into the file. */
static spc_status check_sizes(struct reader *r, const struct member *member)
{
    zip_uint64_t growth = member->method == ZIP_CM_STORE ? 1 : DEFLATE_MOST;

    if (member->method != ZIP_CM_STORE && member->method != ZIP_CM_DEFLATE)
        return spc__fail(r->error, SPC_EUNSUPPORTED,
                         "cannot read '%s': '%s' is packed by method %d; NumPy "
                         "stores or deflates",
                         r->file->path, member->name, member->method);
    if (member->packed_bytes > r->left_bytes ||
        member->bytes / growth > member->packed_bytes)
        return spc__fail(
            r->error, SPC_EFORMAT,
            "cannot read '%s': '%s' is said to have %llu bytes, "
            "%llu packed, in a file of %zu",
            r->file->path, member->name, (unsigned long long)member->bytes,
            (unsigned long long)member->packed_bytes, r->file->bytes);
    r->left_bytes -= member->packed_bytes;
    return SPC_OK;
}

/* Returns true if exactly `bytes` bytes follow and their checksum is right;
 * libzip checks it at the end of the member. */
static bool read_exactly(void *out, zip_file_t *stream, zip_uint64_t bytes)
{
    zip_uint64_t done = 0;
    zip_int64_t got = 1;
    char beyond;

    while (done < bytes && got > 0) {
        got = zip_fread(stream, (char *)out + done, bytes - done);
        done += got > 0 ? (zip_uint64_t)got : 0;
    }
    return done == bytes && zip_fread(stream, &beyond, 1) == 0;
}

/* Unpacks a member, whose size the archive states. */
static spc_status unpack(void *out, const struct reader *r,
                         const struct member *member)
{
    zip_file_t *stream = zip_fopen_index(r->archive, member->index, 0);
    spc_status status = SPC_OK;

    if (stream == NULL)
        return spc__fail(r->error, SPC_EFORMAT, "cannot read '%s': '%s': %s",
                         r->file->path, member->name, zip_strerror(r->archive));
    if (!read_exactly(out, stream, member->bytes))
        status =
            spc__fail(r->error, SPC_EFORMAT,
                      "cannot read '%s': '%s': its data is damaged: %s",
                      r->file->path, member->name, zip_file_strerror(stream));
    zip_fclose(stream);
    return status;
}

/* "weights.npz: conv1.npy", for messages and spc_array.file. */
static char *name_member(const struct reader *r, const struct member *member)
{
    size_t bytes = strlen(r->file->path) + strlen(member->name) + 4;
    char *text = spc__weights_alloc(r->out, bytes);

    if (text != NULL)
        snprintf(text, bytes, "%s: %s", r->file->path, member->name);
    return text;
}

/* Reads the unpacked member as a .npy file, under its name without ".npy". */
static spc_status add_unpacked(const struct reader *r, const char *path,
                               const void *data, const struct member *member)
{
    size_t length = strlen(member->name) - strlen(".npy");
    char *name = strndup(member->name, length);
    spc__weight_file inner = {path, data, (size_t)member->bytes};

    if (name == NULL)
        return spc__fail_memory(r->error, length + 1);
    spc_status status = spc__weights_add_npy(r->out, &inner, name, r->error);
    free(name);
    return status;
}

/* Reads one member; other files in the archive are passed over. */
static spc_status read_member(struct reader *r, zip_uint64_t i)
{
    struct member member = {0};
    spc_status status;

    if ((status = look(&member, r, i)) != SPC_OK || !is_array(&member) ||
        (status = check_sizes(r, &member)) != SPC_OK)
        return status;
    char *path = name_member(r, &member);
    void *data = spc__weights_alloc(r->out, (size_t)member.bytes);
    if (path == NULL || data == NULL)
        return spc__fail_memory(r->error, (size_t)member.bytes);
    status = unpack(data, r, &member);
    return status == SPC_OK ? add_unpacked(r, path, data, &member) : status;
}

/* Opens the archive in memory, where the file is mapped already. */
static zip_t *open_archive(const spc__weight_file *file, spc_error *error)
{
    zip_error_t cause;
    zip_error_init(&cause);
    zip_source_t *source =
        zip_source_buffer_create(file->data, file->bytes, 0, &cause);
    zip_t *archive = source != NULL
                         ? zip_open_from_source(source, ZIP_RDONLY, &cause)
                         : NULL;

    if (archive == NULL) {
        spc__fail(error, SPC_EFORMAT, "cannot read '%s': %s", file->path,
                  zip_error_strerror(&cause));
        /* An archive that is open owns its source. */
        zip_source_free(source);
    }
    zip_error_fini(&cause);
    return archive;
}

spc_status spc__weights_read_npz(spc_weights *out, const spc__weight_file *file,
                                 spc_error *error)
{
    struct reader r = {out, open_archive(file, error), file, file->bytes,
                       error};
    spc_status status = SPC_OK;

    if (r.archive == NULL)
        return SPC_EFORMAT;
    zip_int64_t count = zip_get_num_entries(r.archive, 0);
    for (zip_int64_t i = 0; i < count && status == SPC_OK; i++)
        status = read_member(&r, (zip_uint64_t)i);
    zip_discard(r.archive);
    return status;
}
