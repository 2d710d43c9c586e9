/* library.c - the templates of a folder, or those built in. */
#include "builtin.h"
#include "error.h"
#include "file.h"
#include "internal.h"
#include "render.h"
#include <dirent.h>
#include <errno.h>
#include <lauxlib.h>
#include <stdlib.h>
#include <string.h>

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

static bool is_header(const char *file)
{
    return ends_with(file, ".cuh") || ends_with(file, ".h");
}

/* ---- one template -------------------------------------------------------- */

static void free_template(spc__template *tpl)
{
    if (tpl == NULL)
        return;
    free(tpl->name);
    free(tpl->file);
    free(tpl->text);
    free(tpl);
}

static void digest_of(char hex[SPC__SHA256_HEX], const char *text, size_t bytes,
                      const char *more)
{
    spc__sha256 sha;
    unsigned char digest[SPC__SHA256_BYTES];

    spc__sha256_init(&sha);
    spc__sha256_update(&sha, text, bytes);
    spc__sha256_update(&sha, more, strlen(more));
    spc__sha256_final(&sha, digest);
    spc__sha256_hex(hex, digest);
}

/* The line on which the declaration starts, to place what C says about it. */
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

/* Raises Lua's message about the syntax, in terms of the template's text: the
 * calls and the function around the body are ours, not the author's. */
static int fail_syntax(lua_State *L)
{
    const char *message = lua_tostring(L, -1);

    message =
        luaL_gsub(L, message, "near 'spc__text'", "before this line of text");
    const char *close = strstr(message, " (to close 'function' at line ");
    if (close != NULL && strstr(close, "near <eof>") != NULL)
        lua_pushfstring(L, "%s (a block of the body is not closed)",
                        lua_pushlstring(L, message, (size_t)(close - message)));
    return lua_error(L);
}

/* Loads the chunk (text only: bytecode is not to be trusted), then runs the
 * declaration once to see whether it is valid. */
static int load(lua_State *L)
{
    spc__question *question = lua_touserdata(L, SPC__AT_QUESTION);
    spc__template *tpl = question->tpl;

    lua_pushfstring(L, "@%s", tpl->file);
    if (luaL_loadbufferx(L, spc__buf_text(question->text),
                         question->text->length, lua_tostring(L, -1),
                         "t") != LUA_OK)
        return fail_syntax(L);
    tpl->chunk = luaL_ref(L, LUA_REGISTRYINDEX);
    lua_settop(L, 1);
    spc__session_open(L);
    spc__declaration_check(L, tpl);
    return 0;
}

static spc_status make_template(spc__template *tpl, spc_error *error)
{
    spc__buf chunk = SPC__BUF_INIT;
    spc__question question = {.tpl = tpl, .text = &chunk, .error = error};
    size_t bytes = strlen(tpl->text);

    tpl->declared_at = find_declaration(tpl->text);
    spc_status status =
        spc__translate(&chunk, tpl->file, tpl->text, bytes, error);
    if (status == SPC_OK)
        status = spc__ask(&question, load);
    spc__buf_release(&chunk);
    return status;
}

static spc_status check_name(const spc__library *library, const char *file,
                             size_t length, spc_error *error)
{
    if (length > MOST_NAME ||
        strspn(file, "abcdefghijklmnopqrstuvwxyz0123456789_") != length)
        return spc__fail(error, SPC_ETEMPLATE,
                         "%s: a template's name is 1 to %d small letters, "
                         "digits and _",
                         file, MOST_NAME);
    for (int i = 0; i < library->count; i++) {
        const spc__template *other = library->templates[i];
        if (strlen(other->name) == length &&
            strncmp(other->name, file, length) == 0)
            return spc__fail(error, SPC_ETEMPLATE,
                             "%s: there is a template of this name already, "
                             "%s",
                             file, other->file);
    }
    return SPC_OK;
}

/* ---- files --------------------------------------------------------------- */

static void *grow(void *array, int count, size_t size)
{
    return realloc(array, ((size_t)count + 1) * size);
}

static spc_status add_template(spc__library *library, const char *file,
                               const char *text, spc_error *error)
{
    size_t length = strlen(file) - strlen(template_suffix(file));
    spc_status status = check_name(library, file, length, error);
    if (status != SPC_OK)
        return status;

    spc__template *tpl = calloc(1, sizeof(*tpl));
    spc__template **list =
        grow(library->templates, library->count, sizeof(*list));
    if (list != NULL)
        library->templates = list;
    if (tpl != NULL) {
        tpl->library = library;
        tpl->name = strndup(file, length);
        tpl->file = strdup(file);
        tpl->text = strdup(text);
    }
    if (list == NULL || tpl == NULL || tpl->name == NULL || tpl->file == NULL ||
        tpl->text == NULL) {
        free_template(tpl);
        return spc__fail_memory(error, sizeof(*tpl) + strlen(text));
    }
    library->templates[library->count++] = tpl;
    return make_template(tpl, error);
}

static spc_status add_header(spc__library *library, const char *file,
                             const char *text, spc_error *error)
{
    spc__header *list =
        grow(library->headers, library->header_count, sizeof(*list));
    if (list == NULL)
        return spc__fail_memory(error, sizeof(*list));
    library->headers = list;
    spc__header *header = &list[library->header_count++];
    header->name = strdup(file);
    header->text = strdup(text);
    return header->name != NULL && header->text != NULL
               ? SPC_OK
               : spc__fail_memory(error, strlen(text));
}

static spc_status add_file(spc__library *library, const char *file,
                           const char *text, size_t bytes, spc_error *error)
{
    if (strlen(text) != bytes)
        return spc__fail(error, SPC_ETEMPLATE,
                         "%s: a zero byte: this is not text", file);
    return is_header(file) ? add_header(library, file, text, error)
                           : add_template(library, file, text, error);
}

static spc_status read_builtin(spc__library *library, spc_error *error)
{
    spc_status status = SPC_OK;

    for (int i = 0; i < spc__builtin_count && status == SPC_OK; i++)
        status = add_file(library, spc__builtin_files[i].name,
                          spc__builtin_files[i].text,
                          spc__builtin_files[i].bytes, error);
    return status;
}

static int wanted(const struct dirent *entry)
{
    return template_suffix(entry->d_name) != NULL || is_header(entry->d_name);
}

/* Not alphasort, which follows the locale. */
static int by_bytes(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static spc_status read_one(spc__library *library, const char *directory,
                           const char *file, spc_error *error)
{
    spc__buf path = SPC__BUF_INIT, text = SPC__BUF_INIT;

    spc__buf_printf(&path, "%s/%s", directory, file);
    spc_status status = path.failed
                            ? spc__fail_memory(error, strlen(directory))
                            : spc__file_read(&text, spc__buf_text(&path),
                                             MOST_FILE_BYTES, error);
    if (status == SPC_OK)
        status =
            add_file(library, file, spc__buf_text(&text), text.length, error);
    spc__buf_release(&path);
    spc__buf_release(&text);
    return status;
}

static spc_status read_directory(spc__library *library, const char *directory,
                                 spc_error *error)
{
    struct dirent **entries = NULL;
    spc_status status = SPC_OK;

    int count = scandir(directory, &entries, wanted, by_bytes);
    if (count < 0)
        return spc__fail(error, errno == ENOENT ? SPC_ENOTFOUND : SPC_EIO,
                         "cannot read the templates of '%s': %s", directory,
                         strerror(errno));
    for (int i = 0; i < count; i++) {
        if (status == SPC_OK)
            status = read_one(library, directory, entries[i]->d_name, error);
        free(entries[i]);
    }
    free(entries);
    return status;
}

/* ---- hashes: a template's text and all headers ---------------------------- */

/* As embed.cmake computes it for the built-in headers. */
static spc_status digest_headers(char hex[SPC__SHA256_HEX],
                                 const spc__library *library, spc_error *error)
{
    spc__buf all = SPC__BUF_INIT;

    for (int i = 0; i < library->header_count; i++) {
        const char *text = library->headers[i].text;
        char one[SPC__SHA256_HEX];
        digest_of(one, text, strlen(text), "");
        spc__buf_puts(&all, one);
    }
    digest_of(hex, spc__buf_text(&all), all.length, "");
    bool failed = all.failed;
    spc__buf_release(&all);
    return failed ? spc__fail_memory(error, SPC__SHA256_HEX) : SPC_OK;
}

static spc_status hash_templates(spc__library *library, spc_error *error)
{
    char headers[SPC__SHA256_HEX];
    spc_status status = digest_headers(headers, library, error);

    for (int i = 0; i < library->count && status == SPC_OK; i++) {
        spc__template *tpl = library->templates[i];
        digest_of(tpl->hash, tpl->text, strlen(tpl->text), headers);
    }
    return status;
}

bool spc__builtin_template_hash(char hex[SPC__SHA256_HEX], const char *name)
{
    for (int i = 0; i < spc__builtin_count; i++) {
        const spc__builtin_file *file = &spc__builtin_files[i];
        const char *suffix = template_suffix(file->name);
        if (suffix == NULL ||
            strlen(name) != strlen(file->name) - strlen(suffix) ||
            strncmp(name, file->name, strlen(name)) != 0)
            continue;
        digest_of(hex, file->text, file->bytes, spc__builtin_headers_digest);
        return true;
    }
    return false;
}

/* ---- the library --------------------------------------------------------- */

static int by_name(const void *a, const void *b)
{
    const spc__template *const *first = a, *const *second = b;
    return strcmp((*first)->name, (*second)->name);
}

spc_status spc__library_open(spc__library **out, const char *directory,
                             spc_error *error)
{
    spc_status status;

    *out = NULL;
    spc__library *library = calloc(1, sizeof(*library));
    if (library == NULL)
        return spc__fail_memory(error, sizeof(*library));
    pthread_mutex_init(&library->lock, NULL);
    library->locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if ((status = spc__sandbox_open(&library->box, error)) != SPC_OK)
        goto done;
    status = directory != NULL ? read_directory(library, directory, error)
                               : read_builtin(library, error);
    if (status == SPC_OK)
        status = hash_templates(library, error);
    if (status != SPC_OK)
        goto done;
    if (library->count > 0)
        qsort(library->templates, (size_t)library->count,
              sizeof(library->templates[0]), by_name);
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
    spc__sandbox_close(&library->box);
    for (int i = 0; i < library->count; i++)
        free_template(library->templates[i]);
    for (int i = 0; i < library->header_count; i++) {
        free(library->headers[i].name);
        free(library->headers[i].text);
    }
    free(library->templates);
    free(library->headers);
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

static const spc__header *find_header(const spc__library *library,
                                      const char *name)
{
    for (int i = 0; i < library->header_count; i++)
        if (strcmp(library->headers[i].name, name) == 0)
            return &library->headers[i];
    return NULL;
}

const char *spc__library_header(const spc__library *library, const char *name)
{
    const spc__header *header = find_header(library, name);
    return header != NULL ? header->text : NULL;
}

const char *spc__library_header_name(const spc__library *library,
                                     const char *name)
{
    const spc__header *header = find_header(library, name);
    return header != NULL ? header->name : NULL;
}
