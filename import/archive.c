/* SPDX-License-Identifier: Apache-2.0 */
/* archive.c - reads members of zip archives. */
#include "import/archive.h"

#include "base/error.h"
#include <stdio.h>
#include <string.h>

/* Upper bound of deflate's expansion factor. */
enum { DEFLATE_MOST = 1032 };

spc_status spc__archive_look(spc__member *out, const spc__archive *archive,
                             zip_uint64_t index)
{
    const zip_uint64_t needed = ZIP_STAT_NAME | ZIP_STAT_SIZE |
                                ZIP_STAT_COMP_SIZE | ZIP_STAT_COMP_METHOD;
    zip_stat_t facts;

    if (zip_stat_index(archive->zip, index, 0, &facts) != 0 ||
        (facts.valid & needed) != needed)
        return spc__fail(archive->error, SPC_EFORMAT,
                         "cannot read '%s': member %llu has no name or size",
                         archive->file->path, (unsigned long long)index);
    *out = (spc__member){index, facts.name, facts.size, facts.comp_size,
                         facts.comp_method};
    return SPC_OK;
}

/* Checks the stated sizes before memory is allocated: the packed data can
 * expand to this size, and all members together fit into the file. */
static spc_status check_sizes(spc__archive *archive, const spc__member *member)
{
    zip_uint64_t growth = member->method == ZIP_CM_STORE ? 1 : DEFLATE_MOST;

    if (member->method != ZIP_CM_STORE && member->method != ZIP_CM_DEFLATE)
        return spc__fail(archive->error, SPC_EUNSUPPORTED,
                         "cannot read '%s': '%s' is packed by method %d; NumPy "
                         "and PyTorch store or deflate",
                         archive->file->path, member->name, member->method);
    if (member->packed_bytes > archive->left_bytes ||
        member->bytes / growth > member->packed_bytes)
        return spc__fail(archive->error, SPC_EFORMAT,
                         "cannot read '%s': '%s' is said to have %llu bytes, "
                         "%llu packed, in a file of %zu",
                         archive->file->path, member->name,
                         (unsigned long long)member->bytes,
                         (unsigned long long)member->packed_bytes,
                         archive->file->bytes);
    archive->left_bytes -= member->packed_bytes;
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

spc_status spc__archive_unpack(void **out, spc__archive *archive,
                               const spc__member *member)
{
    spc_status status = check_sizes(archive, member);

    *out = NULL;
    if (status != SPC_OK)
        return status;
    *out = spc__weights_alloc(archive->out, (size_t)member->bytes);
    if (*out == NULL)
        return spc__fail_memory(archive->error, (size_t)member->bytes);
    zip_file_t *stream = zip_fopen_index(archive->zip, member->index, 0);
    if (stream == NULL)
        return spc__fail(archive->error, SPC_EFORMAT,
                         "cannot read '%s': '%s': %s", archive->file->path,
                         member->name, zip_strerror(archive->zip));
    if (!read_exactly(*out, stream, member->bytes))
        status = spc__fail(archive->error, SPC_EFORMAT,
                           "cannot read '%s': '%s': its data is damaged: %s",
                           archive->file->path, member->name,
                           zip_file_strerror(stream));
    zip_fclose(stream);
    return status;
}

char *spc__archive_path(const spc__archive *archive, const spc__member *member)
{
    size_t bytes = strlen(archive->file->path) + strlen(member->name) + 4;
    char *text = spc__weights_alloc(archive->out, bytes);

    if (text != NULL)
        snprintf(text, bytes, "%s: %s", archive->file->path, member->name);
    return text;
}

spc_status spc__archive_open(spc__archive *out, spc_weights *weights,
                             const spc__weight_file *file, spc_error *error)
{
    zip_error_t cause;
    zip_error_init(&cause);
    zip_source_t *source =
        zip_source_buffer_create(file->data, file->bytes, 0, &cause);
    zip_t *zip = source != NULL
                     ? zip_open_from_source(source, ZIP_RDONLY, &cause)
                     : NULL;
    spc_status status = SPC_OK;

    if (zip == NULL) {
        status = spc__fail(error, SPC_EFORMAT, "cannot read '%s': %s",
                           file->path, zip_error_strerror(&cause));
        /* An archive that is open owns its source. */
        zip_source_free(source);
    }
    zip_error_fini(&cause);
    *out = (spc__archive){weights, zip, file, file->bytes, error};
    return status;
}
