/* SPDX-License-Identifier: Apache-2.0 */
/*
 * torch_file.c - reads PyTorch checkpoints (.pth, .pt, .ckpt), as torch.save
 * has written them since PyTorch 1.6: a zip archive.
 *
 *   NAME/data.pkl    a pickle (pickle.h): names, shapes, strides
 *   NAME/data/KEY    the elements of a storage; several tensors may share it
 *   NAME/byteorder   "little"
 */
#include "import/archive.h"

#include "base/error.h"
#include "import/array.h"
#include "import/pickle.h"
#include <stdio.h>
#include <string.h>

typedef struct reader {
    spc__archive archive;
    const char *prefix; /* "NAME/" of the members; not terminated */
    int prefix_length;
    void **storages; /* the unpacked data of each member; NULL: not unpacked */
    size_t left_bytes; /* that copies of tensors may still take */
    spc_error *error;
} reader;

static spc_status bad(const reader *r, const char *name, const char *what)
{
    return spc__fail(r->error, SPC_EFORMAT, "cannot read '%s': tensor '%s' %s",
                     r->archive.file->path, name, what);
}

/* ---- members ------------------------------------------------------------- */

/* Finds the member NAME/`rest`. */
static bool find_member(spc__member *out, const reader *r, const char *rest)
{
    char name[512];
    int length = snprintf(name, sizeof(name), "%.*s%s", r->prefix_length,
                          r->prefix, rest);
    zip_int64_t index = length > 0 && (size_t)length < sizeof(name)
                            ? zip_name_locate(r->archive.zip, name, 0)
                            : -1;

    return index >= 0 &&
           spc__archive_look(out, &r->archive, (zip_uint64_t)index) == SPC_OK;
}

/* Finds the only pickle of tensors, and with it the prefix of all members. */
static spc_status find_pickle(spc__member *out, reader *r)
{
    static const char suffix[] = "data.pkl";
    zip_int64_t count = zip_get_num_entries(r->archive.zip, 0);
    spc_status status = SPC_OK;

    for (zip_int64_t i = 0; i < count && status == SPC_OK; i++) {
        status = spc__archive_look(out, &r->archive, (zip_uint64_t)i);
        size_t length = status == SPC_OK ? strlen(out->name) : 0;
        size_t before = length - (sizeof(suffix) - 1);
        if (length < sizeof(suffix) - 1 ||
            strcmp(out->name + before, suffix) != 0 ||
            (before > 0 && out->name[before - 1] != '/'))
            continue;
        r->prefix = out->name;
        r->prefix_length = (int)before;
        return SPC_OK;
    }
    return status != SPC_OK
               ? status
               : spc__fail(r->error, SPC_EFORMAT,
                           "cannot read '%s': the archive has no data.pkl, so "
                           "torch.save did not write it",
                           r->archive.file->path);
}

static spc_status check_byte_order(reader *r)
{
    spc__member member;
    spc_status status;
    void *text;

    if (!find_member(&member, r, "byteorder")) /* before PyTorch 2.1 */
        return SPC_OK;
    status = spc__archive_unpack(&text, &r->archive, &member);
    if (status != SPC_OK ||
        (member.bytes == 6 && memcmp(text, "little", 6) == 0))
        return status;
    return spc__fail(r->error, SPC_EUNSUPPORTED,
                     "cannot read '%s': its byte order is not 'little'",
                     r->archive.file->path);
}

/* ---- tensors ------------------------------------------------------------- */

/* A tensor's arguments: storage, offset, sizes, strides. */
typedef struct tensor {
    spc_array array;
    int64_t offset, strides[SPC_ARRAY_RANK], elements;
    int64_t stored; /* elements of its storage */
    const char *key;
} tensor;

static bool read_numbers(int64_t *out, const spc__pickle *tuple)
{
    for (size_t i = 0; i < tuple->count; i++) {
        if (tuple->items[i]->kind != SPC__PICKLE_INT ||
            tuple->items[i]->number < 0)
            return false;
        out[i] = tuple->items[i]->number;
    }
    return true;
}

static bool read_storage(tensor *out, const spc__pickle *storage)
{
    if (storage->kind != SPC__PICKLE_STORAGE ||
        storage->items[1]->kind != SPC__PICKLE_GLOBAL ||
        storage->items[1]->type == SPC_ELEMENTS ||
        storage->items[2]->kind != SPC__PICKLE_TEXT ||
        storage->items[4]->kind != SPC__PICKLE_INT ||
        storage->items[4]->number < 0)
        return false;
    out->array.type = storage->items[1]->type;
    out->key = storage->items[2]->text;
    out->stored = storage->items[4]->number;
    return true;
}

/* The elements from the first to the last that the tensor reads must lie in its
 * storage; as many may not be read as the storage has, so that a stride of 0
 * cannot ask for any amount of memory. */
static bool fits_storage(const tensor *t)
{
    int64_t last = t->offset, reach;

    if (t->elements == 0)
        return true;
    for (int i = 0; i < t->array.rank; i++)
        if (__builtin_mul_overflow(t->array.shape[i] - 1, t->strides[i],
                                   &reach) ||
            __builtin_add_overflow(last, reach, &last))
            return false;
    return last < t->stored && t->elements <= t->stored;
}

static spc_status read_tensor(tensor *out, const reader *r, const char *name,
                              const spc__pickle *value)
{
    const spc__pickle *offset = value->items[1], *sizes = value->items[2];
    const spc__pickle *strides = value->items[3];

    *out = (tensor){.array = {.name = name, .file = r->archive.file->path}};
    if (!read_storage(out, value->items[0]))
        return bad(r, name, "has no storage of a known type");
    if (offset->kind != SPC__PICKLE_INT || offset->number < 0 ||
        sizes->kind != SPC__PICKLE_TUPLE ||
        strides->kind != SPC__PICKLE_TUPLE || sizes->count != strides->count)
        return bad(r, name, "has no offset, sizes and strides");
    out->offset = offset->number;
    if (sizes->count > SPC_ARRAY_RANK)
        return SPC_OK; /* unreadable: rank 0 and no elements */
    out->array.rank = (int)sizes->count;
    if (!read_numbers(out->array.shape, sizes) ||
        !read_numbers(out->strides, strides) ||
        !spc__array_measure(&out->array))
        return bad(r, name,
                   "has sizes or strides that are not numbers from 0, or whose "
                   "product does not fit 64 bits");
    out->elements = spc_array_elements(&out->array);
    if (!fits_storage(out))
        return bad(r, name, "reaches beyond its storage");
    return SPC_OK;
}

/* Unpacks the storage of a tensor, unless another tensor shares it. */
static spc_status load_storage(const unsigned char **out, reader *r,
                               const tensor *t)
{
    size_t each = spc_element_bytes(t->array.type);
    spc__member member;
    char rest[256];
    spc_status status = SPC_OK;

    snprintf(rest, sizeof(rest), "data/%.200s", t->key);
    if (!find_member(&member, r, rest))
        return bad(r, t->array.name, "has a storage that is not in the file");
    if (member.bytes / each != (uint64_t)t->stored)
        return bad(r, t->array.name,
                   "has a storage whose size differs from the stated one");
    if (r->storages[member.index] == NULL)
        status = spc__archive_unpack(&r->storages[member.index], &r->archive,
                                     &member);
    *out = r->storages[member.index];
    return status;
}

static bool is_contiguous(const tensor *t)
{
    int64_t stride = 1;

    for (int i = t->array.rank - 1; i >= 0; i--) {
        if (t->array.shape[i] != 1 && t->strides[i] != stride)
            return false;
        stride *= t->array.shape[i];
    }
    return true;
}

/* Copies the elements in C order. */
static void gather(unsigned char *out, const unsigned char *from,
                   const tensor *t)
{
    size_t each = spc_element_bytes(t->array.type);
    int64_t at[SPC_ARRAY_RANK] = {0}, place = t->offset;

    for (int64_t i = 0; i < t->elements; i++) {
        memcpy(out + each * (size_t)i, from + each * (size_t)place, each);
        for (int d = t->array.rank - 1; d >= 0; d--) {
            place += t->strides[d];
            if (++at[d] < t->array.shape[d])
                break;
            place -= at[d] * t->strides[d];
            at[d] = 0;
        }
    }
}

static spc_status add_tensor(reader *r, const char *name,
                             const spc__pickle *value)
{
    const unsigned char *storage = NULL;
    spc_weights *weights = r->archive.out;
    tensor t;
    spc_status status = read_tensor(&t, r, name, value);

    if (status != SPC_OK)
        return status;
    if (value->items[2]->count > SPC_ARRAY_RANK)
        return spc__weights_add_unreadable(
            weights, &t.array, "it has more than 8 dimensions", r->error);
    if ((status = load_storage(&storage, r, &t)) != SPC_OK)
        return status;
    size_t each = spc_element_bytes(t.array.type);
    if (t.elements == 0 || is_contiguous(&t)) {
        t.array.data = storage + (t.elements > 0 ? each * (size_t)t.offset : 0);
    } else {
        if (t.array.bytes > r->left_bytes)
            return bad(r, name,
                       "is not contiguous, and the copies of such tensors "
                       "would take more than twice the file");
        r->left_bytes -= t.array.bytes;
        void *copy = spc__weights_alloc(weights, t.array.bytes);
        if (copy == NULL)
            return spc__fail_memory(r->error, t.array.bytes);
        gather(copy, storage, &t);
        t.array.data = copy;
    }
    return spc__weights_add(weights, &t.array, r->error);
}

/* ---- the table ----------------------------------------------------------- */

/* Is it a dict in which some name has a tensor? */
static bool is_table(const spc__pickle *value)
{
    for (size_t i = 0; value->kind == SPC__PICKLE_DICT && i < value->count;
         i += 2)
        if (value->items[i]->kind == SPC__PICKLE_TEXT &&
            value->items[i + 1]->kind == SPC__PICKLE_TENSOR)
            return true;
    return false;
}

/* Finds the table of tensors: the root, or what a trainer stored there under
 * one of these names. */
static const spc__pickle *find_table(const spc__pickle *root)
{
    static const char *const names[] = {"model_state", "state_dict", "model"};

    if (root->kind != SPC__PICKLE_DICT || is_table(root))
        return is_table(root) ? root : NULL;
    for (size_t n = 0; n < sizeof(names) / sizeof(*names); n++)
        for (size_t i = 0; i < root->count; i += 2)
            if (root->items[i]->kind == SPC__PICKLE_TEXT &&
                strcmp(root->items[i]->text, names[n]) == 0 &&
                is_table(root->items[i + 1]))
                return root->items[i + 1];
    return NULL;
}

/* Skips values that are not tensors. */
static spc_status add_table(reader *r, const spc__pickle *root)
{
    const spc__pickle *table = find_table(root);
    spc_status status = SPC_OK;

    if (table == NULL)
        return spc__fail(
            r->error, SPC_EFORMAT,
            "cannot read '%s': it is not a dict of tensors, and has no dict "
            "named model_state, state_dict or model: save "
            "model.state_dict()",
            r->archive.file->path);
    for (size_t i = 0; i < table->count && status == SPC_OK; i += 2)
        if (table->items[i]->kind == SPC__PICKLE_TEXT &&
            table->items[i + 1]->kind == SPC__PICKLE_TENSOR)
            status = add_tensor(r, table->items[i]->text, table->items[i + 1]);
    return status;
}

static spc_status read_archive(reader *r)
{
    spc__pickle *root, *all = NULL;
    spc__member member;
    spc_status status;
    void *data;

    if ((status = find_pickle(&member, r)) != SPC_OK ||
        (status = check_byte_order(r)) != SPC_OK ||
        (status = spc__archive_unpack(&data, &r->archive, &member)) != SPC_OK)
        return status;
    status = spc__pickle_read(&root, &all, r->archive.file->path, data,
                              (size_t)member.bytes, r->error);
    if (status == SPC_OK)
        status = add_table(r, root);
    spc__pickle_free(all);
    return status;
}

/* Before version 1.6 PyTorch wrote several pickles one after the other. */
static bool is_old(const spc__weight_file *file)
{
    return file->bytes >= 2 && file->data[0] == 0x80 && file->data[1] <= 5;
}

spc_status spc__weights_read_torch(spc_weights *out,
                                   const spc__weight_file *file,
                                   spc_error *error)
{
    reader r = {.error = error, .left_bytes = 2 * file->bytes};
    spc_status status;

    if (is_old(file))
        return spc__fail(error, SPC_EUNSUPPORTED,
                         "cannot read '%s': PyTorch wrote it in the format "
                         "that it had before 1.6: load and save it with a "
                         "newer PyTorch, or convert it with "
                         "tools/pth2safetensors.py",
                         file->path);
    if ((status = spc__archive_open(&r.archive, out, file, error)) != SPC_OK)
        return status;
    size_t members = (size_t)zip_get_num_entries(r.archive.zip, 0);
    r.storages = spc__weights_alloc(out, (members + 1) * sizeof(void *));
    if (r.storages == NULL)
        status = spc__fail_memory(error, members * sizeof(void *));
    else
        memset(r.storages, 0, (members + 1) * sizeof(void *));
    if (status == SPC_OK)
        status = read_archive(&r);
    zip_discard(r.archive.zip);
    return status;
}
