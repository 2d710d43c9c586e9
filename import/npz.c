/* SPDX-License-Identifier: Apache-2.0 */
/* npz.c - reads archives of NumPy arrays (.npz). Each member NAME.npy is an
 * array; other members are skipped. */
#include "import/archive.h"

#include "base/error.h"
#include <stdlib.h>
#include <string.h>

static bool is_array(const spc__member *member)
{
    size_t length = strlen(member->name);

    return length >= 4 && strcmp(member->name + length - 4, ".npy") == 0;
}

/* Reads the unpacked member as a .npy file, under its name without ".npy". */
static spc_status add_unpacked(const spc__archive *archive, const char *path,
                               const void *data, const spc__member *member)
{
    size_t length = strlen(member->name) - strlen(".npy");
    char *name = strndup(member->name, length);
    spc__weight_file inner = {path, data, (size_t)member->bytes};

    if (name == NULL)
        return spc__fail_memory(archive->error, length + 1);
    spc_status status =
        spc__weights_add_npy(archive->out, &inner, name, archive->error);
    free(name);
    return status;
}

/* Reads one member; other files in the archive are passed over. */
static spc_status read_member(spc__archive *archive, zip_uint64_t i)
{
    spc__member member = {0};
    spc_status status;
    void *data;

    if ((status = spc__archive_look(&member, archive, i)) != SPC_OK ||
        !is_array(&member) ||
        (status = spc__archive_unpack(&data, archive, &member)) != SPC_OK)
        return status;
    char *path = spc__archive_path(archive, &member);
    return path != NULL ? add_unpacked(archive, path, data, &member)
                        : spc__fail_memory(archive->error, 1);
}

spc_status spc__weights_read_npz(spc_weights *out, const spc__weight_file *file,
                                 spc_error *error)
{
    spc__archive archive;
    spc_status status = spc__archive_open(&archive, out, file, error);

    if (status != SPC_OK)
        return status;
    zip_int64_t count = zip_get_num_entries(archive.zip, 0);
    for (zip_int64_t i = 0; i < count && status == SPC_OK; i++)
        status = read_member(&archive, (zip_uint64_t)i);
    zip_discard(archive.zip);
    return status;
}
