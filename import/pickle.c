/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pickle.c - a reader of pickles, protocol 2 (pickle.h). The operations are
 * those of Python's pickletools.
 */
#include "import/pickle.h"

#include "base/error.h"
#include <stdlib.h>
#include <string.h>

typedef struct reader {
    const char *path;
    const unsigned char *begin, *at, *end;
    size_t operation; /* where the current operation begins */
    spc__pickle *all;
    spc__pickle **stack, **memo;
    size_t depth, stack_room, memo_room;
    bool done;
    spc_error *error;
} reader;

static const char elsewhere[] =
    "tools/pth2safetensors.py converts it where PyTorch is";

/* ---- failures ------------------------------------------------------------ */

static spc_status damaged(const reader *r, const char *what)
{
    return spc__fail(r->error, SPC_EFORMAT,
                     "cannot read '%s': byte %zu of its pickle %s", r->path,
                     r->operation, what);
}

static spc_status refuse_global(const reader *r, const char *name)
{
    return spc__fail(r->error, SPC_EUNSUPPORTED,
                     "cannot read '%s': byte %zu of its pickle names "
                     "'%.100s', but only tensors, containers, numbers and "
                     "texts are read: save model.state_dict() alone, or %s",
                     r->path, r->operation, name, elsewhere);
}

/* ---- values -------------------------------------------------------------- */

static spc__pickle *create(reader *r, spc__pickle_kind kind)
{
    spc__pickle *value = calloc(1, sizeof(*value));

    if (value == NULL)
        return NULL;
    value->kind = kind;
    value->type = SPC_ELEMENTS;
    value->next = r->all;
    r->all = value;
    return value;
}

/* Makes room for one more pointer. */
static bool reserve(spc__pickle ***list, size_t *room, size_t needed)
{
    size_t more = *room > 0 ? *room : 8;

    while (more < needed)
        more *= 2;
    if (more == *room)
        return true;
    spc__pickle **bigger = realloc(*list, more * sizeof(*bigger));
    if (bigger == NULL)
        return false;
    memset(bigger + *room, 0, (more - *room) * sizeof(*bigger));
    *list = bigger;
    *room = more;
    return true;
}

static spc_status push(reader *r, spc__pickle *value)
{
    if (value == NULL || !reserve(&r->stack, &r->stack_room, r->depth + 1))
        return spc__fail_memory(r->error, sizeof(*value));
    r->stack[r->depth++] = value;
    return SPC_OK;
}

static spc_status push_kind(reader *r, spc__pickle_kind kind)
{
    return push(r, create(r, kind));
}

static spc_status push_int(reader *r, int64_t number)
{
    spc_status status = push_kind(r, SPC__PICKLE_INT);

    if (status == SPC_OK)
        r->stack[r->depth - 1]->number = number;
    return status;
}

/* Takes the topmost value off the stack. */
static spc_status pop(spc__pickle **out, reader *r)
{
    *out = NULL;
    if (r->depth == 0 || r->stack[r->depth - 1]->kind == SPC__PICKLE_MARK)
        return damaged(r, "takes a value that is not there");
    *out = r->stack[--r->depth];
    return SPC_OK;
}

/* Returns the topmost value, which must be of this kind. */
static spc_status top(spc__pickle **out, const reader *r, spc__pickle_kind kind)
{
    *out = NULL;
    if (r->depth == 0 || r->stack[r->depth - 1]->kind != kind)
        return damaged(r, "adds to a value that is not there, or has no items");
    *out = r->stack[r->depth - 1];
    return SPC_OK;
}

/* The position after the last mark. */
static spc_status find_mark(size_t *out, const reader *r)
{
    size_t i = r->depth;

    while (i > 0 && r->stack[i - 1]->kind != SPC__PICKLE_MARK)
        i--;
    *out = i;
    return i > 0 ? SPC_OK : damaged(r, "looks for a mark that is not there");
}

/* Moves the values from position `from` on into `to`, in their order. */
static spc_status move_items(reader *r, spc__pickle *to, size_t from)
{
    size_t count = r->depth - from;

    if (count > 0 && !reserve(&to->items, &to->capacity, to->count + count))
        return spc__fail_memory(r->error, count * sizeof(*to->items));
    if (count > 0)
        memcpy(to->items + to->count, r->stack + from,
               count * sizeof(*to->items));
    to->count += count;
    r->depth = from;
    return SPC_OK;
}

/* ---- bytes --------------------------------------------------------------- */

static spc_status take(const unsigned char **out, reader *r, size_t bytes)
{
    *out = NULL;
    if (bytes > (size_t)(r->end - r->at))
        return damaged(r, "continues past its end");
    *out = r->at;
    r->at += bytes;
    return SPC_OK;
}

/* Reads a number of `bytes` bytes, at most 8, little-endian, with the sign of
 * its last byte. */
static spc_status take_number(int64_t *out, reader *r, size_t bytes,
                              bool is_signed)
{
    const unsigned char *at;
    spc_status status = take(&at, r, bytes);
    uint64_t value = 0;

    *out = 0;
    if (status != SPC_OK)
        return status;
    for (size_t i = 0; i < bytes; i++)
        value |= (uint64_t)at[i] << 8 * i;
    if (is_signed && bytes > 0 && bytes < 8 && at[bytes - 1] >= 0x80)
        value |= ~(uint64_t)0 << 8 * bytes;
    *out = (int64_t)value;
    return SPC_OK;
}

/* Copies a text, which may not have zeros inside. */
static spc_status copy_text(spc__pickle *to, reader *r, const void *text,
                            size_t bytes)
{
    if (memchr(text, '\0', bytes) != NULL)
        return damaged(r, "has a text with a zero byte");
    to->text = strndup(text, bytes);
    return to->text != NULL ? SPC_OK : spc__fail_memory(r->error, bytes + 1);
}

/* ---- operations ---------------------------------------------------------- */

static spc_status run_protocol(reader *r)
{
    int64_t version;
    spc_status status = take_number(&version, r, 1, false);

    if (status != SPC_OK || version == 2)
        return status;
    return spc__fail(r->error, SPC_EUNSUPPORTED,
                     "cannot read '%s': its pickle has protocol %d; torch.save "
                     "writes protocol 2 by default",
                     r->path, (int)version);
}

static spc_status run_mark(reader *r)
{
    return push_kind(r, SPC__PICKLE_MARK);
}

static spc_status run_none(reader *r)
{
    return push_kind(r, SPC__PICKLE_OTHER);
}

static spc_status run_true(reader *r)
{
    return push_int(r, 1);
}

static spc_status run_false(reader *r)
{
    return push_int(r, 0);
}

static spc_status read_int(reader *r, size_t bytes, bool is_signed)
{
    int64_t number;
    spc_status status = take_number(&number, r, bytes, is_signed);

    return status == SPC_OK ? push_int(r, number) : status;
}

static spc_status run_int(reader *r)
{
    return read_int(r, 4, true);
}

static spc_status run_int1(reader *r)
{
    return read_int(r, 1, false);
}

static spc_status run_int2(reader *r)
{
    return read_int(r, 2, false);
}

static spc_status run_long(reader *r)
{
    const unsigned char *skipped;
    int64_t bytes;
    spc_status status = take_number(&bytes, r, 1, false);

    if (status != SPC_OK)
        return status;
    if (bytes <= 8)
        return read_int(r, (size_t)bytes, true);
    status = take(&skipped, r, (size_t)bytes);
    return status == SPC_OK ? run_none(r) : status;
}

static spc_status run_real(reader *r)
{
    const unsigned char *skipped;
    spc_status status = take(&skipped, r, 8);

    return status == SPC_OK ? run_none(r) : status;
}

static spc_status read_text(reader *r, size_t length_bytes)
{
    const unsigned char *text = NULL;
    int64_t bytes;
    spc_status status = take_number(&bytes, r, length_bytes, false);

    if (status == SPC_OK)
        status = take(&text, r, (size_t)bytes);
    if (status == SPC_OK)
        status = push_kind(r, SPC__PICKLE_TEXT);
    return status == SPC_OK
               ? copy_text(r->stack[r->depth - 1], r, text, (size_t)bytes)
               : status;
}

static spc_status run_text(reader *r)
{
    return read_text(r, 4);
}

static spc_status run_short_text(reader *r)
{
    return read_text(r, 1);
}

static spc_status run_dict(reader *r)
{
    return push_kind(r, SPC__PICKLE_DICT);
}

static spc_status run_list(reader *r)
{
    return push_kind(r, SPC__PICKLE_LIST);
}

static spc_status run_empty_tuple(reader *r)
{
    return push_kind(r, SPC__PICKLE_TUPLE);
}

/* Replaces the values from position `from` on by a tuple of them. */
static spc_status make_tuple(reader *r, size_t from)
{
    spc__pickle *tuple = create(r, SPC__PICKLE_TUPLE);
    spc_status status = tuple != NULL
                            ? move_items(r, tuple, from)
                            : spc__fail_memory(r->error, sizeof(*tuple));

    return status == SPC_OK ? push(r, tuple) : status;
}

static spc_status run_tuple(reader *r)
{
    size_t from;
    spc_status status = find_mark(&from, r);

    if (status != SPC_OK || (status = make_tuple(r, from)) != SPC_OK)
        return status;
    /* The tuple takes the place of the mark. */
    r->stack[r->depth - 2] = r->stack[r->depth - 1];
    r->depth--;
    return SPC_OK;
}

static spc_status tuple_of(reader *r, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (i >= r->depth ||
            r->stack[r->depth - 1 - i]->kind == SPC__PICKLE_MARK)
            return damaged(r, "takes a value that is not there");
    return make_tuple(r, r->depth - count);
}

static spc_status run_tuple1(reader *r)
{
    return tuple_of(r, 1);
}

static spc_status run_tuple2(reader *r)
{
    return tuple_of(r, 2);
}

static spc_status run_tuple3(reader *r)
{
    return tuple_of(r, 3);
}

/* Adds the topmost `count` values to the value below them. */
static spc_status add_few(reader *r, spc__pickle_kind kind, size_t count)
{
    spc__pickle *items[2] = {NULL, NULL}, *to = NULL;
    spc_status status = SPC_OK;

    for (size_t i = count; i > 0 && status == SPC_OK; i--)
        status = pop(&items[i - 1], r);
    if (status == SPC_OK)
        status = top(&to, r, kind);
    if (status != SPC_OK)
        return status;
    if (!reserve(&to->items, &to->capacity, to->count + count))
        return spc__fail_memory(r->error, sizeof(items));
    for (size_t i = 0; i < count; i++)
        to->items[to->count++] = items[i];
    return SPC_OK;
}

/* Adds all values that follow the last mark to the value below the mark. */
static spc_status add_many(reader *r, spc__pickle_kind kind, size_t multiple)
{
    size_t from;
    spc_status status = find_mark(&from, r);

    if (status != SPC_OK)
        return status;
    if (from < 2 || r->stack[from - 2]->kind != kind ||
        (r->depth - from) % multiple != 0)
        return damaged(r, "adds to a value that is not there, or has no items");
    status = move_items(r, r->stack[from - 2], from);
    r->depth = from - 1; /* without the mark */
    return status;
}

static spc_status run_append(reader *r)
{
    return add_few(r, SPC__PICKLE_LIST, 1);
}

static spc_status run_appends(reader *r)
{
    return add_many(r, SPC__PICKLE_LIST, 1);
}

static spc_status run_set_item(reader *r)
{
    return add_few(r, SPC__PICKLE_DICT, 2);
}

static spc_status run_set_items(reader *r)
{
    return add_many(r, SPC__PICKLE_DICT, 2);
}

/* ---- the memo ------------------------------------------------------------ */

static spc_status put(reader *r, size_t length_bytes)
{
    int64_t place;
    spc_status status = take_number(&place, r, length_bytes, false);

    if (status != SPC_OK)
        return status;
    /* A writer numbers its places from 0 on, so a file of n bytes has fewer
     * than n places. */
    if (place > r->end - r->begin || r->depth == 0)
        return damaged(r, "memoizes nothing, or at an invalid index");
    if (!reserve(&r->memo, &r->memo_room, (size_t)place + 1))
        return spc__fail_memory(r->error, (size_t)place);
    r->memo[place] = r->stack[r->depth - 1];
    return SPC_OK;
}

static spc_status get(reader *r, size_t length_bytes)
{
    int64_t place;
    spc_status status = take_number(&place, r, length_bytes, false);

    if (status != SPC_OK)
        return status;
    if ((uint64_t)place >= r->memo_room || r->memo[place] == NULL ||
        r->memo[place]->kind == SPC__PICKLE_MARK)
        return damaged(r, "recalls a value that was never remembered");
    return push(r, r->memo[place]);
}

static spc_status run_put(reader *r)
{
    return put(r, 1);
}

static spc_status run_long_put(reader *r)
{
    return put(r, 4);
}

static spc_status run_get(reader *r)
{
    return get(r, 1);
}

static spc_status run_long_get(reader *r)
{
    return get(r, 4);
}

/* ---- globals and calls --------------------------------------------------- */

static const char dict_name[] = "collections.OrderedDict";
static const char tensor_name[] = "torch._utils._rebuild_tensor_v2";
static const char parameter_name[] = "torch._utils._rebuild_parameter";

static const struct {
    const char *name;
    spc_element type;
} globals[] = {
    {dict_name, SPC_ELEMENTS},
    {tensor_name, SPC_ELEMENTS},
    {parameter_name, SPC_ELEMENTS},
    {"torch.FloatStorage", SPC_ELEMENT_F32},
    {"torch.HalfStorage", SPC_ELEMENT_F16},
    {"torch.BFloat16Storage", SPC_ELEMENT_BF16},
    {"torch.DoubleStorage", SPC_ELEMENT_F64},
    {"torch.LongStorage", SPC_ELEMENT_I64},
    {"torch.IntStorage", SPC_ELEMENT_I32},
    {"torch.ShortStorage", SPC_ELEMENT_I16},
    {"torch.CharStorage", SPC_ELEMENT_I8},
    {"torch.ByteStorage", SPC_ELEMENT_U8},
    {"torch.BoolStorage", SPC_ELEMENT_BOOL},
};

/* Finds a global by its two lines, module and name. */
static spc_status push_global(reader *r, spc__pickle *value)
{
    for (size_t i = 0; i < sizeof(globals) / sizeof(*globals); i++)
        if (strcmp(globals[i].name, value->text) == 0) {
            value->type = globals[i].type;
            return push(r, value);
        }
    return refuse_global(r, value->text);
}

static spc_status run_global(reader *r)
{
    size_t left = (size_t)(r->end - r->at);
    const unsigned char *module = r->at, *first = memchr(module, '\n', left);
    const unsigned char *last =
        first != NULL ? memchr(first + 1, '\n', (size_t)(r->end - first - 1))
                      : NULL;

    if (last == NULL)
        return damaged(r, "names a global without an end");
    r->at = last + 1;
    spc__pickle *value = create(r, SPC__PICKLE_GLOBAL);
    if (value == NULL)
        return spc__fail_memory(r->error, sizeof(*value));
    spc_status status = copy_text(value, r, module, (size_t)(last - module));
    if (status != SPC_OK)
        return status;
    ((char *)value->text)[first - module] = '.';
    return push_global(r, value);
}

/* Pushes a value of this kind with the items of a tuple, at least `least`. */
static spc_status push_copy(reader *r, spc__pickle_kind kind,
                            const spc__pickle *tuple, size_t least)
{
    /* PyTorch writes at most 7. Without a limit, a tuple that is recalled again
     * and again would take far more memory than the file's size. */
    enum { MOST = 8 };

    if (tuple->count < least || tuple->count > MOST)
        return damaged(r, "describes a tensor by too few or too many values");
    spc_status status = push_kind(r, kind);
    if (status != SPC_OK)
        return status;
    spc__pickle *value = r->stack[r->depth - 1];
    if (!reserve(&value->items, &value->capacity, tuple->count))
        return spc__fail_memory(r->error, sizeof(*value));
    memcpy(value->items, tuple->items, tuple->count * sizeof(*tuple->items));
    value->count = tuple->count;
    return SPC_OK;
}

/* Pushes the result that the call would have. Nothing is called. */
static spc_status call(reader *r, const spc__pickle *what,
                       const spc__pickle *arguments)
{
    if (strcmp(what->text, dict_name) == 0)
        return arguments->count == 0
                   ? push_kind(r, SPC__PICKLE_DICT)
                   : damaged(r, "makes an OrderedDict of other values");
    if (strcmp(what->text, parameter_name) == 0)
        return arguments->count > 0
                   ? push(r, arguments->items[0])
                   : damaged(r, "makes a parameter without a tensor");
    if (strcmp(what->text, tensor_name) != 0)
        return damaged(r, "calls the type of a storage");
    return push_copy(r, SPC__PICKLE_TENSOR, arguments, 6);
}

static spc_status run_reduce(reader *r)
{
    spc__pickle *what, *arguments;
    spc_status status;

    if ((status = pop(&arguments, r)) != SPC_OK ||
        (status = pop(&what, r)) != SPC_OK)
        return status;
    if (what->kind != SPC__PICKLE_GLOBAL ||
        arguments->kind != SPC__PICKLE_TUPLE)
        return damaged(r, "calls an object that is not a function");
    return call(r, what, arguments);
}

/* The state of an OrderedDict is the _metadata of a state_dict. */
static spc_status run_build(reader *r)
{
    spc__pickle *state, *of = NULL;
    spc_status status = pop(&state, r);

    if (status == SPC_OK)
        status = top(&of, r, SPC__PICKLE_DICT);
    if (status == SPC_OK && state->kind != SPC__PICKLE_DICT)
        status = damaged(r, "sets a state that is not a dict");
    return status;
}

static spc_status run_persistent(reader *r)
{
    spc__pickle *tuple;
    spc_status status = pop(&tuple, r);

    if (status != SPC_OK)
        return status;
    if (tuple->kind != SPC__PICKLE_TUPLE || tuple->count == 0 ||
        tuple->items[0]->kind != SPC__PICKLE_TEXT ||
        strcmp(tuple->items[0]->text, "storage") != 0)
        return damaged(r, "refers to an object that is not a storage");
    return push_copy(r, SPC__PICKLE_STORAGE, tuple, 5);
}

static spc_status run_stop(reader *r)
{
    if (r->depth != 1 || r->stack[0]->kind == SPC__PICKLE_MARK)
        return damaged(r, "ends with no value, or with several");
    r->done = true;
    return SPC_OK;
}

/* ---- the machine --------------------------------------------------------- */

static const struct {
    unsigned char code;
    const char *name;
    spc_status (*run)(reader *r); /* NULL: refused by name */
} operations[] = {
    {0x80, "PROTO", run_protocol},
    {'(', "MARK", run_mark},
    {'N', "NONE", run_none},
    {0x88, "NEWTRUE", run_true},
    {0x89, "NEWFALSE", run_false},
    {'J', "BININT", run_int},
    {'K', "BININT1", run_int1},
    {'M', "BININT2", run_int2},
    {0x8a, "LONG1", run_long},
    {'G', "BINFLOAT", run_real},
    {'X', "BINUNICODE", run_text},
    {'U', "SHORT_BINSTRING", run_short_text},
    {'}', "EMPTY_DICT", run_dict},
    {']', "EMPTY_LIST", run_list},
    {')', "EMPTY_TUPLE", run_empty_tuple},
    {'t', "TUPLE", run_tuple},
    {0x85, "TUPLE1", run_tuple1},
    {0x86, "TUPLE2", run_tuple2},
    {0x87, "TUPLE3", run_tuple3},
    {'a', "APPEND", run_append},
    {'e', "APPENDS", run_appends},
    {'s', "SETITEM", run_set_item},
    {'u', "SETITEMS", run_set_items},
    {'q', "BINPUT", run_put},
    {'r', "LONG_BINPUT", run_long_put},
    {'h', "BINGET", run_get},
    {'j', "LONG_BINGET", run_long_get},
    {'c', "GLOBAL", run_global},
    {'R', "REDUCE", run_reduce},
    {'b', "BUILD", run_build},
    {'Q', "BINPERSID", run_persistent},
    {'.', "STOP", run_stop},
    {'i', "INST", NULL},
    {'o', "OBJ", NULL},
    {'P', "PERSID", NULL},
    {0x81, "NEWOBJ", NULL},
    {0x82, "EXT1", NULL},
    {0x83, "EXT2", NULL},
    {0x84, "EXT4", NULL},
    {0x92, "NEWOBJ_EX", NULL},
    {0x93, "STACK_GLOBAL", NULL},
};

static spc_status refuse_operation(const reader *r, unsigned char code,
                                   const char *name)
{
    return spc__fail(r->error, SPC_EUNSUPPORTED,
                     "cannot read '%s': byte %zu of its pickle has the "
                     "operation 0x%02x%s%s, which tensors do not need: save "
                     "model.state_dict() alone, or %s",
                     r->path, r->operation, code, name[0] != '\0' ? " " : "",
                     name, elsewhere);
}

static spc_status step(reader *r)
{
    const unsigned char *code;
    size_t i = 0, count = sizeof(operations) / sizeof(*operations);

    r->operation = (size_t)(r->at - r->begin);
    spc_status status = take(&code, r, 1);
    if (status != SPC_OK)
        return status;
    while (i < count && operations[i].code != *code)
        i++;
    if (i == count || operations[i].run == NULL)
        return refuse_operation(r, *code, i < count ? operations[i].name : "");
    return operations[i].run(r);
}

spc_status spc__pickle_read(spc__pickle **root, spc__pickle **all,
                            const char *path, const unsigned char *data,
                            size_t bytes, spc_error *error)
{
    reader r = {.path = path,
                .begin = data,
                .at = data,
                .end = data + bytes,
                .error = error};
    spc_status status = SPC_OK;

    while (status == SPC_OK && !r.done)
        status = step(&r);
    *root = status == SPC_OK ? r.stack[0] : NULL;
    *all = r.all;
    free(r.stack);
    free(r.memo);
    return status;
}

void spc__pickle_free(spc__pickle *all)
{
    while (all != NULL) {
        spc__pickle *next = all->next;
        free((char *)all->text);
        free(all->items);
        free(all);
        all = next;
    }
}
