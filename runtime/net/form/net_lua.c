/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net_lua.c - networks described in Lua.
 *
 * A file runs once, in the compiler's sandbox, and calls
 *
 *   network "NAME"
 *   input {channels = 4, shape = {X, Y, Z}, voxel = {..}, low = {..},
 *          high = {..}, points = 10, cloud = true,
 *          dtype = "f16"}                            a tensor
 *   conv(x, "subm,cout=16,k=3", {name =, residual =, at =, key =, norm =,
 *          eps =})                                   a tensor
 *   feature(x, "add,act=relu", {name =, add =, at =, index =})
 *   cat(a, b, ...)
 *   regroup({a, b}, {scale = {..}, split = {..}, slices = true})
 *   regroup({x}, {..., mask = logits, above = 0, room = 4})
 *   output(x, "NAME")     without a name: "out", then "out2" and so on
 *   channels(x)   shape(x)                           properties of a tensor
 *   width("NAME", 16)   count("conv1.#.0", 0, 2)     of the weights, if known
 *   include "FILE.lua"                               from the same folder
 *
 * Tensors are numbers. A layer's text may omit the words cin (c) and dtype;
 * they default to those of its input.
 */
#include "net/net.h"

#include "base/buf.h"
#include "base/dtype.h"
#include "base/error.h"
#include "base/file.h"
#include "base/sized.h"
#include "base/text/names.h"
#include "compiler/sandbox.h"
#include <lauxlib.h>
#include <limits.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FILE_BYTES_MOST = 1 << 20, FILES_MOST = 16 };

typedef struct reader {
    spc_net *net;
    const char *folder; /* folder of the file, with its '/'; may be "" */
    int folder_length;
    const char *file; /* name of the file in this folder */
    spc_dtype dtype;
    const spc_net_like *like; /* NULL: read only the file */
    /* width of the input, from the weights; 0: as in the file */
    int channels;
    bool has_grid;            /* true if the file states a grid */
    spc__buf texts[FILES_MOST]; /* texts of files; freed here, as Lua errors
                                 * skip other cleanup */
    int text_count;
    spc_error error; /* error of a C function that Lua called */
    bool is_part;    /* another file includes it, so it returns something */
} reader;

static reader *self(lua_State *L)
{
    return lua_touserdata(L, lua_upvalueindex(1));
}

/* Raises the reader's error in Lua. */
static int raise(lua_State *L, const reader *r)
{
    return luaL_error(L, "%s", r->error.text);
}

/* ---- arguments ----------------------------------------------------------- */

/* Pushes the table at `index`, or an empty one if it is absent. */
static void need_table(lua_State *L, int index)
{
    if (lua_isnoneornil(L, index)) {
        /* The stack then ends with the table, whatever the number of
         * arguments. */
        lua_settop(L, index - 1);
        lua_newtable(L);
    }
    luaL_checktype(L, index, LUA_TTABLE);
    lua_settop(L, index);
}

/* Rejects unknown names, since a misspelt one would have no effect. */
static void check_names(lua_State *L, int index, const char *const *known)
{
    for (lua_pushnil(L); lua_next(L, index) != 0; lua_pop(L, 1)) {
        /* lua_tostring() would change a number in place, and that confuses
         * lua_next(). */
        const char *name =
            lua_type(L, -2) == LUA_TSTRING ? lua_tostring(L, -2) : "?";
        int i = 0;
        while (known[i] != NULL && strcmp(known[i], name) != 0)
            i++;
        if (known[i] == NULL)
            luaL_error(L, "unknown name '%s'", name);
    }
}

/* The string is valid as long as the table. */
static const char *text_field(lua_State *L, int index, const char *name,
                              const char *otherwise)
{
    const char *text = otherwise;

    if (lua_getfield(L, index, name) != LUA_TNIL) {
        if (lua_type(L, -1) != LUA_TSTRING)
            luaL_error(L, "%s must be a text", name);
        text = lua_tostring(L, -1);
    }
    lua_pop(L, 1);
    return text;
}

/* A number of a table, or `otherwise`. Texts are refused, although Lua would
 * convert them. */
static double number_field(lua_State *L, int index, const char *name,
                           double otherwise)
{
    double number = otherwise;

    if (lua_getfield(L, index, name) != LUA_TNIL) {
        if (lua_type(L, -1) != LUA_TNUMBER)
            luaL_error(L, "%s must be a number", name);
        number = lua_tonumber(L, -1);
    }
    lua_pop(L, 1);
    return number;
}

/* The number as an int. */
static int whole(lua_State *L, double number, const char *name)
{
    /* The range comes first: casting a double outside int is undefined. The
     * negation refuses NaN. */
    if (!(number >= INT_MIN && number <= INT_MAX) ||
        number != (double)(int)number)
        luaL_error(L, "%s must be a whole number", name);
    return (int)number;
}

static int tensor_field(lua_State *L, int index, const char *name)
{
    return whole(L, number_field(L, index, name, SPC_NO_TENSOR), name);
}

/* Reads three numbers. Returns false if there is no such field. */
static bool three_field(lua_State *L, int index, const char *name,
                        double out[3])
{
    bool there = lua_getfield(L, index, name) != LUA_TNIL;

    if (there && (lua_type(L, -1) != LUA_TTABLE || lua_rawlen(L, -1) != 3))
        luaL_error(L, "%s must be three numbers, {x, y, z}", name);
    for (int i = 0; there && i < 3; i++) {
        if (lua_rawgeti(L, -1, i + 1) != LUA_TNUMBER)
            luaL_error(L, "%s must be three numbers, {x, y, z}", name);
        out[i] = lua_tonumber(L, -1);
        lua_pop(L, 1);
    }
    lua_pop(L, 1);
    return there;
}

/* A field with three whole numbers, if the table has it. */
static void three_whole(lua_State *L, int index, const char *name, int out[3])
{
    double numbers[3];

    if (three_field(L, index, name, numbers))
        for (int i = 0; i < 3; i++)
            out[i] = whole(L, numbers[i], name);
}

/* A tensor's number. The network checks that it has such a tensor. */
static int tensor_argument(lua_State *L, int index)
{
    int is_whole;
    lua_Integer tensor = lua_tointegerx(L, index, &is_whole);

    if (!is_whole || tensor < 0 || tensor > INT_MAX)
        luaL_error(L, "argument %d must be a tensor", index);
    return (int)tensor;
}

/* ---- texts of layers ----------------------------------------------------- */

/* True if the layer's text has the word. */
static bool has_word(const char *text, const char *word)
{
    size_t length = strlen(word);

    for (const char *at = strchr(text, ','); at != NULL;
         at = strchr(at + 1, ','))
        if (strncmp(at + 1, word, length) == 0 && at[1 + length] == '=')
            return true;
    return false;
}

/* Completes a layer's text by its input's channels and type: "," WORD "="
 * channels. */
static const char *complete(lua_State *L, reader *r, int tensor,
                            const char *text, const char *word)
{
    spc_tensor_info info;

    if (spc_net_tensor_at(&info, r->net, tensor, &r->error) != SPC_OK)
        raise(L, r);
    /* The text stays on the stack, which keeps it alive until the function
     * returns. */
    if (!has_word(text, word))
        text = lua_pushfstring(L, "%s,%s=%d", text, word, info.channels);
    if (!has_word(text, "dtype"))
        text = lua_pushfstring(L, "%s,dtype=%s", text,
                               spc__dtype_names[info.dtype]);
    if (strncmp(text, "bev", 3) == 0 && !has_word(text, "shape"))
        text = lua_pushfstring(L, "%s,shape=%dx%dx%d", text, info.shape[0],
                               info.shape[1], info.shape[2]);
    return text;
}

/* ---- functions for files ------------------------------------------------- */

/* network(name) */
static int do_network(lua_State *L)
{
    reader *r = self(L);
    char *name;

    if (spc__net_text(&name, luaL_checkstring(L, 1), &r->error) != SPC_OK)
        return raise(L, r);
    /* Only now, as luaL_checkstring() may leave by an error. */
    free(r->net->name);
    r->net->name = name;
    return 0;
}

/* A type by its name. */
static spc_dtype dtype_field(lua_State *L, int index, spc_dtype otherwise)
{
    const char *name =
        text_field(L, index, "dtype", spc__dtype_names[otherwise]);

    int at = spc__name_index(spc__dtype_names, name);

    if (at < 0)
        luaL_error(L, "unknown dtype '%s'", name);
    return (spc_dtype)at;
}

/*
 * Replaces the file's grid. Shapes may have more voxels than the grid has cells
 * (SECOND's have one more along z), and keep them.
 */
static void take_grid(lua_State *L, spc_net_input *input,
                      const spc_net_like *like)
{
    if (!(input->voxel[0] > 0) || !(like->voxel[0] > 0))
        return;
    for (int i = 0; i < 3; i++) {
        double were = round((input->high[i] - input->low[i]) / input->voxel[i]);
        double cells = (like->high[i] - like->low[i]) / like->voxel[i];
        if (!(fabs(were) < 1 << 30))
            luaL_error(L, "its own grid has no whole number of voxels along %s",
                       (const char *[]){"x", "y", "z"}[i]);
        if (!(cells >= 0.5 && cells < 1 << 30) ||
            fabs(cells - round(cells)) > 1e-3)
            luaL_error(L,
                       "a grid from %f to %f has no whole number of voxels of "
                       "%f along %s",
                       like->low[i], like->high[i], like->voxel[i],
                       (const char *[]){"x", "y", "z"}[i]);
        if (input->shape[i] > 0)
            input->shape[i] += (int)(round(cells) - were);
    }
    memcpy(input->voxel, like->voxel, sizeof(input->voxel));
    memcpy(input->low, like->low, sizeof(input->low));
    memcpy(input->high, like->high, sizeof(input->high));
}

/* input {fields}: returns a tensor. */
static int do_input(lua_State *L)
{
    static const char *const names[] = {"name",  "channels", "dtype", "shape",
                                        "voxel", "low",      "high",  "points",
                                        "cloud", NULL};
    reader *r = self(L);
    spc_net_input input = SPC_NET_INPUT_INIT;
    spc_tensor out;

    need_table(L, 1);
    check_names(L, 1, names);
    input.name = text_field(L, 1, "name", "x");
    input.channels = whole(L, number_field(L, 1, "channels", 0), "channels");
    input.dtype = dtype_field(L, 1, r->dtype);
    three_whole(L, 1, "shape", input.shape);
    three_field(L, 1, "voxel", input.voxel);
    three_field(L, 1, "low", input.low);
    three_field(L, 1, "high", input.high);
    input.points = whole(L, number_field(L, 1, "points", 0), "points");
    lua_getfield(L, 1, "cloud");
    input.cloud = lua_toboolean(L, -1);
    r->has_grid = input.voxel[0] > 0;
    if (r->like != NULL)
        take_grid(L, &input, r->like);
    if (r->channels > 0)
        input.channels = r->channels;
    if (spc_net_add_input(&out, r->net, &input, &r->error) != SPC_OK)
        return raise(L, r);
    lua_pushinteger(L, out);
    return 1;
}

/* True if the weights have the layer. */
static bool find_layer(const reader *r, int *cin, int *cout, const char *name)
{
    return r->like != NULL && r->like->find != NULL && name != NULL &&
           r->like->find(cin, cout, name, r->like->payload);
}

/* width(name, channels): output channels of the layer's weights, else the
 * second argument. */
static int do_width(lua_State *L)
{
    const char *name = luaL_checkstring(L, 1);
    lua_Integer width = luaL_checkinteger(L, 2);
    int cin, cout;

    lua_pushinteger(L, find_layer(self(L), &cin, &cout, name) ? cout : width);
    return 1;
}

/*
 * count(name, first, number): how many layers the weights have, numbered from
 * `first` on, where the name has a '#' for the number. Without weights, or
 * without any such layer, the third argument.
 */
static int do_count(lua_State *L)
{
    enum { MOST = 1000 };
    const char *name = luaL_checkstring(L, 1), *mark = strchr(name, '#');
    lua_Integer first = luaL_checkinteger(L, 2);
    lua_Integer number = luaL_checkinteger(L, 3), found = 0;
    int cin, cout;

    if (mark == NULL)
        return luaL_error(L, "'%s' has no # for the number of a layer", name);
    for (; found < MOST; found++) {
        char text[256];
        snprintf(text, sizeof(text), "%.*s%lld%s", (int)(mark - name), name,
                 (long long)(first + found), mark + 1);
        if (!find_layer(self(L), &cin, &cout, text))
            break;
    }
    lua_pushinteger(L, found > 0 ? found : number);
    return 1;
}

/* conv(tensor, text, {fields}): returns a tensor. */
static int do_conv(lua_State *L)
{
    static const char *const names[] = {"name", "residual", "at", "key",
                                        "norm", "eps",      NULL};
    reader *r = self(L);
    spc_net_layer layer = SPC_NET_LAYER_INIT;
    spc_tensor out;

    layer.in = tensor_argument(L, 1);
    const char *text = luaL_checkstring(L, 2);
    need_table(L, 3);
    check_names(L, 3, names);
    layer.name = text_field(L, 3, "name", NULL);
    layer.key = text_field(L, 3, "key", NULL);
    layer.norm = text_field(L, 3, "norm", NULL);
    layer.eps = number_field(L, 3, "eps", 0);
    layer.residual = tensor_field(L, 3, "residual");
    layer.at = tensor_field(L, 3, "at");
    /* After the fields: the text stays on the stack, where need_table() would
     * remove it. */
    text = complete(L, r, layer.in, text, "cin");
    if (spc_conv_parse(&layer.conv, text, &r->error) != SPC_OK)
        return raise(L, r);
    int cin, cout;
    if (find_layer(r, &cin, &cout, layer.name))
        layer.conv.cout = cout;
    if (spc_net_add_conv(&out, r->net, &layer, &r->error) != SPC_OK)
        return raise(L, r);
    lua_pushinteger(L, out);
    return 1;
}

/* feature(tensor, text, {fields}): returns a tensor. */
static int do_feature(lua_State *L)
{
    static const char *const names[] = {"name",  "at", "add",
                                        "index", "by", NULL};
    reader *r = self(L);
    spc_feature feature;
    spc_tensor out, in = tensor_argument(L, 1);
    const char *text = luaL_checkstring(L, 2);

    need_table(L, 3);
    check_names(L, 3, names);
    const char *name = text_field(L, 3, "name", NULL);
    int at = tensor_field(L, 3, "at"), add = SPC_NO_TENSOR;
    for (int i = 2; names[i] != NULL; i++) { /* the names of one operand */
        int operand = tensor_field(L, 3, names[i]);
        if (operand != SPC_NO_TENSOR && add != SPC_NO_TENSOR)
            return luaL_error(L, "a layer has add, index or by: one of them");
        add = operand != SPC_NO_TENSOR ? operand : add;
    }
    text = complete(L, r, in, text, "c");
    if (spc_feature_parse(&feature, text, &r->error) != SPC_OK ||
        spc_net_add_feature(&out, r->net, name, &feature, in, add, at,
                            &r->error) != SPC_OK)
        return raise(L, r);
    lua_pushinteger(L, out);
    return 1;
}

/* cat(tensor, ...): returns a tensor. */
static int do_cat(lua_State *L)
{
    reader *r = self(L);
    spc_tensor out, parts[SPC__NET_SOURCES];
    int count = lua_gettop(L);

    if (count > SPC__NET_SOURCES)
        return luaL_error(L, "%d tensors: expected 1 to %d", count,
                          SPC__NET_SOURCES);
    for (int i = 0; i < count; i++)
        parts[i] = tensor_argument(L, i + 1);
    if (spc_net_add_concat(&out, r->net, parts, count, &r->error) != SPC_OK)
        return raise(L, r);
    lua_pushinteger(L, out);
    return 1;
}

/* Adds the form of a regrouping that a mask chooses. */
static int add_masked(lua_State *L, reader *r, spc_net_masked *masked)
{
    spc_tensor out;

    masked->above = (float)number_field(L, 2, "above", 0);
    masked->room = number_field(L, 2, "room", 0);
    if (spc_net_add_masked(&out, r->net, masked, &r->error) != SPC_OK)
        return raise(L, r);
    lua_pushinteger(L, out);
    return 1;
}

/* Without a mask all voxels of all sources stay. */
static int add_regroup(lua_State *L, reader *r, const spc_tensor *sources,
                       int count, const spc_net_masked *as)
{
    spc_tensor out;

    if (lua_getfield(L, 2, "above") != LUA_TNIL ||
        lua_getfield(L, 2, "room") != LUA_TNIL)
        return luaL_error(L, "above and room belong to a mask, which is "
                             "missing");
    if (spc_net_add_regroup(&out, r->net, sources, count, &as->how, as->slices,
                            &r->error) != SPC_OK)
        return raise(L, r);
    lua_pushinteger(L, out);
    return 1;
}

/* Reads the tensors in the table that is argument 1. */
static int sources_argument(lua_State *L, spc_tensor sources[SPC__NET_SOURCES])
{
    luaL_checktype(L, 1, LUA_TTABLE);
    int count = (int)lua_rawlen(L, 1);

    if (count > SPC__NET_SOURCES)
        luaL_error(L, "%d tensors: expected 1 to %d", count, SPC__NET_SOURCES);
    for (int i = 0; i < count; i++) {
        lua_rawgeti(L, 1, i + 1);
        sources[i] = tensor_argument(L, -1);
        lua_pop(L, 1);
    }
    return count;
}

/* regroup(tensors, {fields}): returns a tensor. */
static int do_regroup(lua_State *L)
{
    static const char *const names[] = {"scale", "split", "slices", "mask",
                                        "above", "room",  NULL};
    reader *r = self(L);
    spc_net_masked how = SPC_NET_MASKED_INIT;
    spc_tensor sources[SPC__NET_SOURCES];
    int count = sources_argument(L, sources);

    need_table(L, 2);
    check_names(L, 2, names);
    three_whole(L, 2, "scale", how.how.scale);
    three_whole(L, 2, "split", how.how.split);
    lua_getfield(L, 2, "slices");
    how.slices = lua_toboolean(L, -1);
    lua_pop(L, 1);
    how.mask = tensor_field(L, 2, "mask");
    if (how.mask == SPC_NO_TENSOR)
        return add_regroup(L, r, sources, count, &how);
    if (count != 1)
        return luaL_error(L,
                          "%d tensors: a mask chooses among the voxels of "
                          "one",
                          count);
    how.in = sources[0];
    return add_masked(L, r, &how);
}

/* output(tensor, name) */
static int do_output(lua_State *L)
{
    reader *r = self(L);
    char name[24] = "out"; /* later outputs without a name are out2, out3 ... */

    if (r->net->out_count > 0)
        snprintf(name, sizeof(name), "out%d", r->net->out_count + 1);
    if (spc_net_add_output(r->net, tensor_argument(L, 1),
                           luaL_optstring(L, 2, name), &r->error) != SPC_OK)
        return raise(L, r);
    return 0;
}

/* channels(tensor): returns a number. */
static int do_channels(lua_State *L)
{
    reader *r = self(L);
    spc_tensor_info info;

    if (spc_net_tensor_at(&info, r->net, tensor_argument(L, 1), &r->error) !=
        SPC_OK)
        return raise(L, r);
    lua_pushinteger(L, info.channels);
    return 1;
}

/* shape(tensor): returns three numbers. */
static int do_shape(lua_State *L)
{
    reader *r = self(L);
    spc_tensor_info info;

    if (spc_net_tensor_at(&info, r->net, tensor_argument(L, 1), &r->error) !=
        SPC_OK)
        return raise(L, r);
    for (int i = 0; i < 3; i++)
        lua_pushinteger(L, info.shape[i]);
    return 3;
}

/* ---- files --------------------------------------------------------------- */

/* Reads a file of the folder into one of the reader's buffers. */
static spc_status read_text(spc__buf **out, reader *r, const char *name)
{
    spc__buf path = SPC__BUF_INIT;
    spc_status status;

    if (r->text_count == FILES_MOST)
        return spc__fail(&r->error, SPC_EINVAL,
                         "more than %d files: does one include itself?",
                         FILES_MOST);
    *out = &r->texts[r->text_count++];
    spc__buf_printf(&path, "%.*s%s", r->folder_length, r->folder, name);
    status = path.failed ? spc__fail_memory(&r->error, strlen(name))
                         : spc__file_read(*out, spc__buf_text(&path),
                                          FILE_BYTES_MOST, &r->error);
    spc__buf_release(&path);
    return status;
}

/* Runs a file with the globals in upvalue 2 and returns its results. */
static int run_file(lua_State *L, reader *r, const char *name)
{
    spc__buf *text = NULL;

    if (read_text(&text, r, name) != SPC_OK)
        return raise(L, r);
    lua_pushfstring(L, "@%s", name);
    /* "t" refuses precompiled code, which Lua does not verify. */
    if (luaL_loadbufferx(L, spc__buf_text(text), text->length,
                         lua_tostring(L, -1), "t") != LUA_OK)
        return lua_error(L);
    /* The first upvalue of a chunk is its _ENV, so included files share the
     * globals. */
    lua_pushvalue(L, lua_upvalueindex(2));
    lua_setupvalue(L, -2, 1);
    lua_call(L, 0, 1);
    return 1;
}

/* include(name): returns what the file returns. */
static int do_include(lua_State *L)
{
    const char *name = luaL_checkstring(L, 1);

    /* A description must not read files elsewhere on the machine. */
    if (strchr(name, '/') != NULL || name[0] == '.')
        return luaL_error(L,
                          "'%s': files of the same folder can be included, by "
                          "their names",
                          name);
    return run_file(L, self(L), name);
}

static int do_main(lua_State *L)
{
    run_file(L, self(L), self(L)->file);
    self(L)->is_part = !lua_isnil(L, -1);
    return 0;
}

static const luaL_Reg functions[] = {
    {"network", do_network},
    {"input", do_input},
    {"conv", do_conv},
    {"feature", do_feature},
    {"cat", do_cat},
    {"regroup", do_regroup},
    {"output", do_output},
    {"channels", do_channels},
    {"shape", do_shape},
    {"width", do_width},
    {"count", do_count},
    {"include", do_include},
    {NULL, NULL},
};

/* Runs under a protected call: gives the sandbox its functions, which find the
 * reader in their first upvalue, and runs the file. */
static int body(lua_State *L)
{
    reader *r = lua_touserdata(L, 1);

    spc__sandbox_push_globals(L);
    int globals = lua_gettop(L);
    for (const luaL_Reg *f = functions; f->name != NULL; f++) {
        lua_pushlightuserdata(L, r);
        lua_pushvalue(L, globals);
        lua_pushcclosure(L, f->func, 2);
        lua_setfield(L, globals, f->name);
    }
    lua_pushstring(L, spc__dtype_names[r->dtype]);
    lua_setfield(L, globals, "dtype");
    lua_pushlightuserdata(L, r);
    lua_pushvalue(L, globals);
    lua_pushcclosure(L, do_main, 2);
    lua_call(L, 0, 0);
    return 0;
}

/* The host's locale must not affect the format of numbers. */
static spc_status run_sandbox(reader *r, spc_error *error)
{
    spc__sandbox box;
    locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0), before;
    spc_status status;

    if (plain == (locale_t)0)
        return spc__fail_memory(error, 1);
    /* Only for this thread: other threads of the program keep their locale. */
    before = uselocale(plain);
    if ((status = spc__sandbox_open(&box, NULL, error)) == SPC_OK)
        status = spc__sandbox_call(&box, r->file, body, r, error);
    spc__sandbox_close(&box);
    uselocale(before);
    freelocale(plain);
    return status;
}

/* A missing file is reported as such, not as an error in the file. */
static spc_status check_file(const char *path, spc_error *error)
{
    spc__buf text = SPC__BUF_INIT;
    spc_status status = spc__file_read(&text, path, FILE_BYTES_MOST, error);

    spc__buf_release(&text);
    return status;
}

/* Fails unless the description has an input and an output. */
static spc_status check_result(const spc_net *net, bool is_part,
                               const char *file, spc_error *error)
{
    if (net->tensor_count == 0 || net->out_count == 0)
        return spc__fail(
            error, SPC_ETEMPLATE, "%s: it describes a network without %s%s",
            file, net->tensor_count == 0 ? "an input" : "an output",
            net->tensor_count > 0 ? ": output(x) makes x one"
            : is_part
                ? ": what returns something is a part, for files that include "
                  "it; a network's file calls input {channels = N} and "
                  "output(x)"
                : ": its file calls input {channels = N} and output(x)");
    return SPC_OK;
}

/* Reads the file once. */
static spc_status load(spc_net **out, reader *r, const char *path,
                       spc_error *error)
{
    const char *slash = strrchr(path, '/');
    spc_status status;

    r->folder = path;
    r->folder_length = slash != NULL ? (int)(slash + 1 - path) : 0;
    r->file = slash != NULL ? slash + 1 : path;
    if ((status = check_file(path, error)) == SPC_OK &&
        (status = spc_net_create(&r->net, r->file, error)) == SPC_OK &&
        (status = run_sandbox(r, error)) == SPC_OK)
        status = check_result(r->net, r->is_part, r->file, error);
    for (int i = 0; i < r->text_count; i++)
        spc__buf_release(&r->texts[i]);
    r->text_count = 0;
    if (status == SPC_OK) {
        *out = r->net;
        r->net = NULL;
    }
    spc_net_free(r->net);
    r->net = NULL;
    return status;
}

static spc_status check_type(spc_dtype dtype, spc_error *error)
{
    return spc__dtype_of(dtype) != NULL
               ? SPC_OK
               : spc__fail(error, SPC_EINVAL, "type %d is unknown", (int)dtype);
}

spc_status spc_net_load(spc_net **out, const char *path, spc_dtype dtype,
                        spc_error *error)
{
    reader r = {.dtype = dtype};
    spc_status status =
        spc__need(error, __func__, "out", out, "path", path, NULL);

    if (out != NULL)
        *out = NULL;
    if (status == SPC_OK)
        status = check_type(dtype, error);
    return status == SPC_OK ? load(out, &r, path, error) : status;
}

/* ---- like another network ------------------------------------------------ */

/* The input's channels in the weights of the first layer that reads it; 0: not
 * known. */
static int first_channels(const reader *r, const spc_net *net)
{
    int cin, cout;

    for (int i = 0; i < net->node_count; i++) {
        const spc__net_node *n = &net->nodes[i];
        if (n->kind == SPC__NODE_CONV && n->in[0] == 0 &&
            find_layer(r, &cin, &cout, n->name))
            return cin * n->conv.groups;
    }
    return 0;
}

static spc_status check_grid(const reader *r, spc_error *error)
{
    bool given = r->like->voxel[0] > 0;

    if (given == r->has_grid)
        return SPC_OK;
    return spc__fail(error, SPC_EINVAL,
                     given ? "%s: it states no grid, so none can be given"
                           : "%s: it states a grid, and weights have none: "
                             "give the size of a voxel and the range",
                     r->file);
}

/* Reads the file twice: the first time finds which layer reads the input. */
static spc_status load_like(spc_net **out, reader *r, const char *path,
                            spc_error *error)
{
    spc_net *first = NULL;
    spc_status status = load(&first, r, path, error);

    if (status == SPC_OK)
        status = check_grid(r, error);
    if (status == SPC_OK) {
        r->channels = first_channels(r, first);
        if (r->channels > 0 && r->channels != first->input.channels) {
            status = load(out, r, path, error);
        } else {
            *out = first;
            first = NULL;
        }
    }
    spc_net_free(first);
    return status;
}

spc_status spc_net_load_like(spc_net **out, const char *path, spc_dtype dtype,
                             const spc_net_like *like, spc_error *error)
{
    reader r = {.dtype = dtype};
    spc_status status = spc__need(error, __func__, "out", out, "path", path,
                                  "like", like, NULL);

    if (out != NULL)
        *out = NULL;
    if (status != SPC_OK ||
        (status = SPC__TAKE(spc_net_like, like, error)) != SPC_OK ||
        (status = check_type(dtype, error)) != SPC_OK)
        return status;
    r.like = like;
    return load_like(out, &r, path, error);
}
