/* SPDX-License-Identifier: Apache-2.0 */
/*
 * library.c - loads the templates of a folder, or the built-in ones.
 *
 * A folder replaces all convolution kernels. Shared files and kernels of other
 * roles replace the built-in ones one by one. Files may lie in the folder or
 * one level below it, as in templates/.
 */
#include "base/error.h"
#include "base/file.h"
#include "compiler/builtin.h"
#include "compiler/internal.h"
#include "compiler/render.h"
#include <dirent.h>
#include <errno.h>
#include <lauxlib.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MOST_FILE_BYTES = 1 << 20, MOST_NAME = 31 };

static bool ends_with(const char *text, const char *suffix)
{
    size_t length = strlen(text), suffix_length = strlen(suffix);
    return length > suffix_length &&
           strcmp(text + length - suffix_length, suffix) == 0;
}

static const char *template_suffix(const char *file)
{
    return ends_with(file, ".cu.lua")  ? ".cu.lua"
           : ends_with(file, ".c.lua") ? ".c.lua"
                                       : NULL;
}

static bool is_template(const char *file)
{
    return template_suffix(file) != NULL;
}

static bool is_shared_lua(const char *file)
{
    return ends_with(file, ".lua") && !is_template(file);
}

/* True for files that templates share. embed.cmake uses the same rule. */
static bool is_shared(const char *file)
{
    return is_shared_lua(file) || ends_with(file, ".cuh") ||
           ends_with(file, ".h");
}

/* ---- one template -------------------------------------------------------- */

static void free_template(spc__template *tpl)
{
    if (tpl == NULL)
        return;
    free(tpl->name);
    free(tpl->file);
    free(tpl->text);
    free(tpl->covers);
    free(tpl);
}

/* Returns the line where the declaration starts, for errors raised from C. */
static int find_declaration(const char *text)
{
    int line = 1;

    for (; *text == '%'; line++) {
        const char *p = text + 1 + strspn(text + 1, " \t");
        if (strncmp(p, "template", 8) == 0 && strchr(" \t=", p[8]) != NULL)
            return line;
        const char *newline = strchr(text, '\n');
        if (newline == NULL)
            break;
        text = newline + 1;
    }
    return 1;
}

/* Returns the line where the body starts: the first that is not Lua. */
static int find_body(const char *text)
{
    int line = 1;

    for (; *text == '%'; line++) {
        const char *newline = strchr(text, '\n');
        if (newline == NULL)
            break;
        text = newline + 1;
    }
    return line;
}

/*
 * Pushes Lua's message. An empty line may have ended the declaration by
 * mistake: if it is incomplete where the body starts, the message says so.
 */
static const char *explain_end(lua_State *L, const char *file, const char *text,
                               const char *message)
{
    char start[MOST_NAME + 32];

    snprintf(start, sizeof(start), "%s:%d: ", file, find_body(text));
    if (strncmp(message, start, strlen(start)) != 0)
        return lua_pushstring(L, message);
    return luaL_gsub(L, message, "near 'return'",
                     "before this line: it ends the declaration, because it "
                     "does not begin with '%'");
}

/* Loads a chunk (text only, since bytecode is not trusted). On failure it
 * raises Lua's message without the calls and the function that the translation
 * added. Returns a reference. */
static int load_chunk(lua_State *L, const char *file, const char *text,
                      const spc__buf *chunk)
{
    lua_pushfstring(L, "@%s", file);
    if (luaL_loadbufferx(L, spc__buf_text(chunk), chunk->length,
                         lua_tostring(L, -1), "t") == LUA_OK)
        return luaL_ref(L, LUA_REGISTRYINDEX);

    const char *message = explain_end(L, file, text, lua_tostring(L, -1));

    message =
        luaL_gsub(L, message, "near 'spc__text'", "before this line of text");
    const char *close = strstr(message, " (to close 'function' at line ");
    if (is_template(file) && close != NULL &&
        strstr(close, "near <eof>") != NULL)
        lua_pushfstring(L, "%s (a block of the body is not closed)",
                        lua_pushlstring(L, message, (size_t)(close - message)));
    return lua_error(L);
}

/* Runs the declaration once to validate it. */
static int load_template(lua_State *L)
{
    spc__question *question = lua_touserdata(L, SPC__AT_QUESTION);
    spc__template *tpl = question->tpl;

    tpl->chunk = load_chunk(L, tpl->file, tpl->text, question->text);
    lua_settop(L, 1);
    spc__session_open(L);
    spc__declaration_check(L, tpl);
    return 0;
}

/* Translates a template, loads it, and runs its declaration once, so that an
 * error in it shows at opening. */
static spc_status make_template(spc__template *tpl, spc_error *error)
{
    spc__buf chunk = SPC__BUF_INIT;
    spc__question question = {.tpl = tpl, .text = &chunk, .error = error};
    size_t bytes = strlen(tpl->text);

    tpl->declared_at = find_declaration(tpl->text);
    spc_status status =
        spc__translate(&chunk, tpl->file, tpl->text, bytes, error);
    if (status == SPC_OK)
        status = spc__ask(&question, load_template);
    spc__buf_release(&chunk);
    return status;
}

static spc_status check_name(const char *file, const char *suffix,
                             spc_error *error)
{
    size_t length = strlen(file) - strlen(suffix);

    if (length <= MOST_NAME &&
        strspn(file, "abcdefghijklmnopqrstuvwxyz0123456789_") == length)
        return SPC_OK;
    return spc__fail(error, SPC_ETEMPLATE,
                     "%s: a template's name is 1 to %d small letters, digits "
                     "and _",
                     file, MOST_NAME);
}

/* Returns the template with the name that `file` would get, or NULL. */
static const spc__template *find_of_file(const spc__library *library,
                                         const char *file)
{
    size_t length = strlen(file) - strlen(template_suffix(file));

    for (int i = 0; i < library->count; i++) {
        const spc__template *tpl = library->templates[i];
        if (strlen(tpl->name) == length &&
            strncmp(tpl->name, file, length) == 0)
            return tpl;
    }
    return NULL;
}

/* ---- files --------------------------------------------------------------- */

/* Makes room for one more element. A library has only some dozens of files, so
 * this is fast enough. */
static void *grow(void *array, int count, size_t size)
{
    return realloc(array, ((size_t)count + 1) * size);
}

/* Adds a template. It is linked after the shared files, because its hash covers
 * those that it includes. */
static spc_status add_template(spc__library *library, const char *file,
                               const char *text, spc_error *error)
{
    const char *suffix = template_suffix(file);
    const spc__template *other = find_of_file(library, file);
    spc_status status = check_name(file, suffix, error);
    if (status != SPC_OK)
        return status;
    if (other != NULL)
        return spc__fail(error, SPC_ETEMPLATE,
                         "%s: there is a template of this name already, %s",
                         file, other->file);

    spc__template *tpl = calloc(1, sizeof(*tpl));
    spc__template **list =
        grow(library->templates, library->count, sizeof(*list));
    if (list != NULL)
        /* The old array no longer exists, even if another allocation failed. */
        library->templates = list;
    if (tpl != NULL) {
        tpl->library = library;
        tpl->name = strndup(file, strlen(file) - strlen(suffix));
        tpl->file = strdup(file);
        tpl->text = strdup(text);
    }
    if (list == NULL || tpl == NULL || tpl->name == NULL || tpl->file == NULL ||
        tpl->text == NULL) {
        free_template(tpl);
        return spc__fail_memory(error, sizeof(*tpl) + strlen(text));
    }
    /* From here on the library owns the template, even if it turns out to be
     * faulty. */
    library->templates[library->count++] = tpl;
    spc_status linked = spc__template_link(tpl, error);
    return linked == SPC_OK ? make_template(tpl, error) : linked;
}

typedef struct shared_question {
    spc__shared *shared;
    const spc__buf *chunk;
} shared_question;

static int load_shared(lua_State *L)
{
    const shared_question *question = lua_touserdata(L, 1);
    question->shared->chunk = load_chunk(
        L, question->shared->name, question->shared->text, question->chunk);
    return 0;
}

/* Translates and loads a shared Lua file. Templates that include it run its
 * chunk. */
static spc_status make_shared_lua(spc__library *library, spc__shared *shared,
                                  spc_error *error)
{
    spc__buf chunk = SPC__BUF_INIT;
    shared_question question = {shared, &chunk};

    spc_status status = check_name(shared->name, ".lua", error);
    if (status == SPC_OK)
        status = spc__translate_shared(&chunk, shared->name, shared->text,
                                       strlen(shared->text), error);
    if (status == SPC_OK)
        status =
            spc__protect(library, shared->name, load_shared, &question, error);
    spc__buf_release(&chunk);
    return status;
}

static spc_status add_shared(spc__library *library, const char *file,
                             const char *text, spc_error *error)
{
    spc__shared *list =
        grow(library->shared, library->shared_count, sizeof(*list));
    if (list == NULL)
        return spc__fail_memory(error, sizeof(*list));
    library->shared = list;
    /* Counts the file at once, so that closing the library frees it even if it
     * is incomplete. */
    spc__shared *shared = &list[library->shared_count++];
    *shared = (spc__shared){
        .name = strdup(file), .text = strdup(text), .chunk = LUA_NOREF};
    if (shared->name == NULL || shared->text == NULL)
        return spc__fail_memory(error, strlen(text));
    return is_shared_lua(file) ? make_shared_lua(library, shared, error)
                               : SPC_OK;
}

static spc_status add_file(spc__library *library, const char *file,
                           const char *text, size_t bytes, spc_error *error)
{
    if (strlen(text) != bytes)
        return spc__fail(error, SPC_ETEMPLATE,
                         "%s: a zero byte: this is not text", file);
    return is_template(file) ? add_template(library, file, text, error)
                             : add_shared(library, file, text, error);
}

/* Selects the files of one pass: is_shared or is_template. */
typedef bool kind(const char *file);

static bool is_replaced(const spc__library *library, const char *file)
{
    return is_template(file) ? find_of_file(library, file) != NULL
                             : spc__library_shared(library, file) != NULL;
}

/* Loads the built-in files that the folder does not replace. */
static spc_status read_builtin(spc__library *library, kind *wanted,
                               spc_error *error)
{
    spc_status status = SPC_OK;

    for (int i = 0; i < spc__builtin_count && status == SPC_OK; i++) {
        const spc__builtin_file *file = &spc__builtin_files[i];
        if (wanted(file->name) && !is_replaced(library, file->name))
            status =
                add_file(library, file->name, file->text, file->bytes, error);
    }
    return status;
}

/* Editors leave files that start with a dot. */
static int is_visible(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

/* Does not use alphasort, which follows the locale. */
static int by_bytes(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

/* Refuses pipes and devices, since reading them could block forever. */
static spc_status read_plain(spc__buf *text, const char *path, spc_error *error)
{
    struct stat facts;

    if (stat(path, &facts) == 0 && !S_ISREG(facts.st_mode))
        return spc__fail(error, SPC_EIO,
                         "cannot read '%s': it is not a plain file", path);
    return spc__file_read(text, path, MOST_FILE_BYTES, error);
}

static spc_status read_path(spc__library *library, const char *path,
                            const char *file, spc_error *error)
{
    spc__buf text = SPC__BUF_INIT;

    spc_status status = read_plain(&text, path, error);
    if (status == SPC_OK)
        status =
            add_file(library, file, spc__buf_text(&text), text.length, error);
    spc__buf_release(&text);
    return status;
}

static bool is_folder(const char *path)
{
    struct stat facts;

    return stat(path, &facts) == 0 && S_ISDIR(facts.st_mode);
}

static spc_status read_directory(spc__library *library, const char *directory,
                                 int depth, kind *wanted, spc_error *error);

/* Reads a file of the wanted kind, or the files of a folder. Folders are only
 * for human readers: a file is identified by its own name. */
static spc_status read_entry(spc__library *library, const char *directory,
                             const char *file, int depth, kind *wanted,
                             spc_error *error)
{
    spc__buf path = SPC__BUF_INIT;
    spc_status status = SPC_OK;

    spc__buf_printf(&path, "%s/%s", directory, file);
    if (path.failed)
        status = spc__fail_memory(error, strlen(directory));
    else if (is_folder(spc__buf_text(&path)))
        status = depth > 0 ? read_directory(library, spc__buf_text(&path),
                                            depth - 1, wanted, error)
                           : SPC_OK;
    else if (wanted(file))
        status = read_path(library, spc__buf_text(&path), file, error);
    spc__buf_release(&path);
    return status;
}

/* Reads a folder and its subfolders down to `depth`. */
static spc_status read_directory(spc__library *library, const char *directory,
                                 int depth, kind *wanted, spc_error *error)
{
    struct dirent **entries = NULL;
    spc_status status = SPC_OK;

    int count = scandir(directory, &entries, is_visible, by_bytes);
    if (count < 0)
        return spc__fail(error, errno == ENOENT ? SPC_ENOTFOUND : SPC_EIO,
                         "cannot read the templates of '%s': %s", directory,
                         strerror(errno));
    for (int i = 0; i < count; i++) {
        if (status == SPC_OK)
            status = read_entry(library, directory, entries[i]->d_name, depth,
                                wanted, error);
        free(entries[i]);
    }
    free(entries);
    return status;
}

static int by_file_name(const void *a, const void *b)
{
    const spc__shared *first = a, *second = b;
    return strcmp(first->name, second->name);
}

/* Reads all shared files before any template, because templates include them.
 * Sorts them by name, so that hashes do not depend on the order of reading. */
static spc_status read_shared(spc__library *library, const char *directory,
                              spc_error *error)
{
    spc_status status = directory != NULL ? read_directory(library, directory,
                                                           1, is_shared, error)
                                          : SPC_OK;
    if (status == SPC_OK)
        status = read_builtin(library, is_shared, error);
    if (library->shared_count > 0)
        qsort(library->shared, (size_t)library->shared_count,
              sizeof(library->shared[0]), by_file_name);
    return status == SPC_OK ? spc__library_link(library, error) : status;
}

static int by_name(const void *a, const void *b)
{
    const spc__template *const *first = a, *const *second = b;
    return strcmp((*first)->name, (*second)->name);
}

/* Removes convolution templates from number `own` on. */
static void drop_convolutions(spc__library *library, int own)
{
    int count = own;

    for (int i = own; i < library->count; i++) {
        spc__template *tpl = library->templates[i];
        if (strcmp(tpl->role, "conv") == 0)
            free_template(tpl);
        else
            library->templates[count++] = tpl;
    }
    library->count = count;
}

/* Reads the folder's templates, then the built-in ones that it does not
 * replace. With a folder, built-in convolution templates are dropped. */
static spc_status read_templates(spc__library *library, const char *directory,
                                 spc_error *error)
{
    spc_status status =
        directory != NULL
            ? read_directory(library, directory, 1, is_template, error)
            : SPC_OK;
    /* The folder's templates come first, so that built-in ones of the same name
     * are left out. */
    int own = library->count;
    if (status == SPC_OK && directory != NULL && own == 0)
        return spc__fail(error, SPC_ENOTFOUND,
                         "'%s' has no templates: their names end in .cu.lua or "
                         ".c.lua",
                         directory);
    if (status == SPC_OK)
        status = read_builtin(library, is_template, error);
    if (directory != NULL)
        drop_convolutions(library, own);
    if (library->count > 0)
        qsort(library->templates, (size_t)library->count,
              sizeof(library->templates[0]), by_name);
    return status;
}

/* ---- the library --------------------------------------------------------- */

spc_status spc__library_open(spc__library **out, const char *directory,
                             const volatile int *const *cancel,
                             spc_error *error)
{
    spc_status status;

    *out = NULL;
    spc__library *library = calloc(1, sizeof(*library));
    if (library == NULL)
        return spc__fail_memory(error, sizeof(*library));
    pthread_mutex_init(&library->lock, NULL);
    /* NULL on failure. enter_locale then leaves the host's locale in force. */
    library->locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if ((status = spc__sandbox_open(&library->box, cancel, error)) != SPC_OK)
        goto done;
    if ((status = read_shared(library, directory, error)) != SPC_OK)
        goto done;
    if ((status = read_templates(library, directory, error)) != SPC_OK)
        goto done;
    *out = library;
    library = NULL;
done:
    spc__library_close(library);
    return status;
}

void spc__library_close(spc__library *library)
{
    if (library == NULL)
        return;
    /* Closes Lua before freeing the texts, since chunks and writers point into
     * them. */
    spc__sandbox_close(&library->box);
    for (int i = 0; i < library->count; i++)
        free_template(library->templates[i]);
    for (int i = 0; i < library->shared_count; i++) {
        free(library->shared[i].name);
        free(library->shared[i].text);
        free(library->shared[i].includes);
    }
    free(library->templates);
    free(library->shared);
    if (library->locale != (locale_t)0)
        freelocale(library->locale);
    pthread_mutex_destroy(&library->lock);
    free(library);
}

int spc__library_count(const spc__library *library)
{
    return library->count;
}

spc__template *spc__library_at(spc__library *library, int i)
{
    return i >= 0 && i < library->count ? library->templates[i] : NULL;
}

spc__template *spc__library_find(spc__library *library, const char *name)
{
    for (int i = 0; i < library->count; i++)
        if (strcmp(library->templates[i]->name, name) == 0)
            return library->templates[i];
    return NULL;
}

const spc__shared *spc__library_shared(const spc__library *library,
                                       const char *name)
{
    for (int i = 0; i < library->shared_count; i++)
        if (strcmp(library->shared[i].name, name) == 0)
            return &library->shared[i];
    return NULL;
}

const char *spc__library_header(const spc__library *library, const char *name)
{
    const spc__shared *header = spc__library_shared(library, name);
    return header != NULL ? header->text : NULL;
}

const char *spc__library_header_name(const spc__library *library,
                                     const char *name)
{
    const spc__shared *header = spc__library_shared(library, name);
    return header != NULL ? header->name : NULL;
}

const char *spc__library_header_hash(const spc__library *library,
                                     const char *name)
{
    const spc__shared *header = spc__library_shared(library, name);
    return header != NULL ? header->hash : NULL;
}
