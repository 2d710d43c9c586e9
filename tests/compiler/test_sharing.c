/* SPDX-License-Identifier: Apache-2.0 */
/* test_sharing.c - files that templates share: included Lua, headers, and the
 * files that a folder of templates may omit. */
#include "base/error.h"
#include "base/file.h"
#include "compiler/backend.h"
#include "compiler/builtin.h"
#include "compiler/internal.h"
#include "compiler/space.h"
#include "harness/folder_harness.h"
#include "harness/suite.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static spc_error error;

#define LENGTH(array) ((int)(sizeof(array) / sizeof(*(array))))

#define assert_ok(call)                                                        \
    ck_assert_msg((call) == SPC_OK, "%s: %s", #call, error.text)

#define assert_starts(text, words)                                             \
    ck_assert_msg(strncmp((text), (words), strlen(words)) == 0,                \
                  "'%s' does not start with '%s'", (text), (words))

static void put_file(const char *name, const char *text)
{
    write_at(name, text, strlen(text), "");
}

static spc__library *open_folder(void)
{
    spc__library *library = NULL;
    assert_ok(
        spc__library_open(&library, spc__buf_text(&folder), NULL, &error));
    return library;
}

/* A template on 6 lines; its body begins on line 7. */
#define DECLARATION(first)                                                     \
    first "\n"                                                                 \
          "%template = {summary = 's', role = 'conv', device = 'cuda',\n"      \
          "%  params = {}, accepts = function() return true end,\n"            \
          "%  launch = function() return {block = 32} end,\n"                  \
          "%  default = function() return {} end,\n"                           \
          "%}\n"

static spc_status render(spc__buf *out, spc__library *library)
{
    spc__attrs problem;
    spc__template *tpl = spc__library_find(library, "t");
    ck_assert(tpl != NULL);
    assert_ok(spc__attrs_parse(&problem, "cin=4", &error));
    return spc__template_render(out, tpl, &problem, NULL, NULL, &error);
}

/* Returns a rendering without its opening comment. */
static const char *body_of(const spc__buf *source)
{
    const char *end = strstr(spc__buf_text(source), "*/\n");
    ck_assert(end != NULL);
    return end + 3;
}

/* Opens and renders "t.cu.lua" with this first line and body. */
static spc_status try(spc__buf *out, const char *first, const char *body)
{
    spc__buf text = SPC__BUF_INIT, own = SPC__BUF_INIT;
    spc__library *library = NULL;

    spc__buf_puts(&text, first);
    spc__buf_puts(&text, DECLARATION(""));
    spc__buf_puts(&text, body);
    put_file("t.cu.lua", spc__buf_text(&text));
    spc_status status =
        spc__library_open(&library, spc__buf_text(&folder), NULL, &error);
    if (status == SPC_OK)
        status = render(out != NULL ? out : &own, library);
    spc__library_close(library);
    spc__buf_release(&text);
    spc__buf_release(&own);
    return status;
}

/* ---- Lua ----------------------------------------------------------------- */

START_TEST(shared_lua_runs_in_the_globals_of_the_template)
{
    spc__buf out = SPC__BUF_INIT;

    put_file("more.lua", "%include 'rows.lua'\n"
                         "%function twice(n) return double(n) end\n");
    put_file("rows.lua", "%runs = (runs or 0) + 1\n"
                         "%function double(n) return 2 * n end\n"
                         "%function write_channels(name)\n"
                         "int $(name) = $(problem.cin);\n"
                         "% if twice then\n"
                         "int more;\n"
                         "% end\n"
                         "%end\n");
    assert_ok(try(&out, "%include 'more.lua' include 'rows.lua'",
                  "a $(twice(3)) $(runs)\n"
                  "% write_channels('c')\n"
                  "b\n"
                  "c\n"));
    ck_assert_str_eq(body_of(&out), "#line 7 \"t.cu.lua\"\n"
                                    "a 6 1\n"
                                    "#line 4 \"rows.lua\"\n"
                                    "int c = 4;\n"
                                    "\n"
                                    "int more;\n"
                                    "#line 9 \"t.cu.lua\"\n"
                                    "b\n"
                                    "c\n");
    spc__buf_release(&out);
}
END_TEST

/* A #line may not come between the lines of a macro. */
START_TEST(a_macro_may_be_continued_in_shared_lua)
{
    spc__buf out = SPC__BUF_INIT;

    put_file("rows.lua", "%function write_sum()\n"
                         "    x + \\\n"
                         "    y\n"
                         "%end\n");
    assert_ok(try(&out, "%include 'rows.lua'",
                  "#define SUM \\\n"
                  "% write_sum()\n"
                  "z\n"));
    ck_assert_str_eq(body_of(&out), "#line 7 \"t.cu.lua\"\n"
                                    "#define SUM \\\n"
                                    "    x + \\\n"
                                    "    y\n"
                                    "#line 9 \"t.cu.lua\"\n"
                                    "z\n");
    spc__buf_release(&out);
}
END_TEST

static const struct mistake {
    const char *shared; /* content of rows.lua; NULL: no file */
    const char *first;
    const char *body;
    const char *says; /* how the message starts */
} mistakes[] = {
    {NULL, "%include 'rows.lua'", "x\n",
     "t.cu.lua:1: include: no file 'rows.lua' among the templates"},
    {NULL, "%include 'spc_abi.h'", "x\n",
     "t.cu.lua:1: include: no file 'spc_abi.h' among the templates"},
    {NULL, "%include 't.cu.lua'", "x\n",
     "t.cu.lua:1: include: no file 't.cu.lua' among the templates"},
    {NULL, "%include()", "x\n", "t.cu.lua:1: bad argument #1 to 'include'"},
    {"%\n%x = = 1\n", "%", "x\n", "rows.lua:2: unexpected symbol near '='"},
    {"%function f()\n", "%", "x\n",
     "rows.lua:2: 'end' expected (to close 'function' at line 1) near <eof>"},
    {"%function f()\n%if x then\ny\n%end\n%end end\n", "%", "x\n",
     "rows.lua:5: "},
    {"%\nint $(1;\n", "%", "x\n", "rows.lua:2: '$(' is not closed"},
    {"%\nint x;\n", "%include 'rows.lua'", "x\n",
     "rows.lua:2: text outside of the body"},
    {"%local x = 1\n%while true do end\n", "%include 'rows.lua'", "x\n",
     "rows.lua:2: more than 50 million instructions in one call"},
    {"%local x = nil + 1\n", "%include 'rows.lua'", "x\n",
     "rows.lua:1: attempt to perform arithmetic"},
    {"%\n%error('mine')\n", "%include 'rows.lua'", "x\n", "rows.lua:2: mine"},
    {"%\n%error('mine', 0)\n", "%include 'rows.lua'", "x\n",
     "rows.lua:2: mine"},
    {"%function f()\n%error('of the caller', 2)\n%end\n", "%include 'rows.lua'",
     "x\n% f()\n", "t.cu.lua:8: of the caller"},
    {"%function f()\nint $(nothing);\n%end\n", "%include 'rows.lua'",
     "x\n% f()\n", "rows.lua:2: $(nothing) is nil"},
    {"%function f()\n%while true do end\n%end\n", "%include 'rows.lua'",
     "x\n% f()\n", "rows.lua:2: more than 50 million"},
    {"%function f() io.open('x') end\n", "%include 'rows.lua'", "x\n% f()\n",
     "rows.lua:1: attempt to index a nil value (global 'io')"},
    {"%include 'rows.lua'\n%nothing()\n", "%include 'rows.lua'", "x\n",
     "rows.lua:2: attempt to call a nil value"},
};

START_TEST(a_mistake_in_shared_lua_names_its_line)
{
    const struct mistake *mistake = &mistakes[_i];

    if (mistake->shared != NULL)
        put_file("rows.lua", mistake->shared);
    spc_status status = try(NULL, mistake->first, mistake->body);
    ck_assert_msg(status == SPC_ETEMPLATE, "%s: %s", spc_status_name(status),
                  error.text);
    assert_starts(error.text, mistake->says);
}
END_TEST

/* Every part of the declaration may come from rows.lua, which contains one of
 * them. The template's own parts are always valid. */
static const char parts_template[] =
    "%include 'rows.lua'\n"
    "%local function yes() return true end\n"
    "%template = {summary = 's', role = 'conv', device = 'cuda',\n"
    "%  params = {{'n', values or {1, 2}}}, accepts = accepts or yes,\n"
    "%  constraints = {{'c', constraint or yes}}, derive = derive,\n"
    "%  launch = launch or function() return {block = 32} end,\n"
    "%  default = default or function() return {n = 1} end,\n"
    "%}\n"
    "\n";

static const struct mistake parts[] = {
    {"%function accepts() return nothing.here end\n", NULL, NULL,
     "rows.lua:1: attempt to index a nil value (global 'nothing')"},
    {"%\n%function constraint()\n%error('no', 0) end\n", NULL, NULL,
     "rows.lua:3: no"},
    {"%\n%function default() return {n = 3} end\n", NULL, NULL,
     "rows.lua:2: default: n = 3 is not a legal value (1, 2)"},
    {"%\n%\n%function launch() return 7 end\n", NULL, NULL,
     "rows.lua:3: launch must return a table, not a number"},
    {"%\n%function launch() return {block = 0} end\n", NULL, NULL,
     "rows.lua:2: launch: block = 0 is not a number of threads"},
    {"%\n%function derive() return {n = 1, config = 2} end\n", NULL, NULL,
     "rows.lua:2: derive: 'config' is the name of a global already"},
    {"%\n%function values() return {1, 1} end\n", NULL, NULL,
     "rows.lua:2: the values of 'n': 1 appears twice"},
    /* The shared file makes the function, which returns the template's
     * table. */
    {"%local function give(t) return function()\n"
     "%  return t\n%end end\n%default = give({n = 3})\n",
     NULL, NULL, "rows.lua:1: default: n = 3 is not a legal value (1, 2)"},
    /* The error is in the template's table, not in the function before it. */
    {"%\n%\n%\n%\n%function accepts() return true end\n"
     "%values = {0.5}\n",
     NULL, NULL, "t.cu.lua:3: the values of 'n': 'n' is 0.5, not a whole"},
    /* A function of Lua itself has no file. */
    {"%default = pairs\n", NULL, NULL,
     "t.cu.lua:3: default must return a table, not a function"},
    {"%default = string.rep\n", NULL, NULL,
     "t.cu.lua:3: bad argument #1 to 'string.rep'"},
    {"%function accepts() return true end\n%constraint = math.floor\n", NULL,
     NULL, "t.cu.lua:3: bad argument #1 to 'math.floor'"},
};

/* An error that C raises about a function's result names the function's file
 * and line. */
START_TEST(a_wrong_part_from_shared_lua_names_its_line)
{
    spc__attrs target, config, problem = {0};
    spc__library *library = NULL;
    spc__space *space = NULL;
    spc__buf out = SPC__BUF_INIT, says = SPC__BUF_INIT;
    spc_error why;

    put_file("rows.lua", parts[_i].shared);
    put_file("t.cu.lua", parts_template);
    assert_ok(spc__attrs_parse(&target, "device=cuda", &why));
    assert_ok(spc__attrs_parse(&config, "n=2", &why));
    spc_status status =
        spc__library_open(&library, spc__buf_text(&folder), NULL, &error);
    if (status == SPC_OK)
        status = spc__space_create(&space, library, "conv", NULL, &problem,
                                   &target, &error);
    if (status == SPC_OK)
        status = spc__template_render(&out, spc__library_find(library, "t"),
                                      NULL, NULL, &config, &error);
    ck_assert_msg(status == SPC_ETEMPLATE, "%s: %s", spc_status_name(status),
                  error.text);
    assert_starts(error.text, parts[_i].says);
    if (strncmp(parts[_i].says, "rows", 4) == 0) {
        spc__buf_printf(&says, "%s (for t.cu.lua)", parts[_i].says);
        ck_assert_str_eq(error.text, spc__buf_text(&says));
    }
    spc__space_free(space);
    spc__library_close(library);
    spc__buf_release(&out);
    spc__buf_release(&says);
}
END_TEST

/* The error names the innermost file, however it was reached. */
START_TEST(a_mistake_in_lua_that_shared_lua_includes_names_its_line)
{
    put_file("more.lua", "%\n%include 'rows.lua'\n");
    put_file("rows.lua", "%\n%\n%nothing()\n");
    ck_assert_int_eq(try(NULL, "%include 'more.lua'", "x\n"), SPC_ETEMPLATE);
    ck_assert_str_eq(error.text, "rows.lua:3: attempt to call a nil value "
                                 "(global 'nothing') (for t.cu.lua)");
    put_file("rows.lua", "%\n%\n%\n%x = = 1\n");
    ck_assert_int_eq(try(NULL, "%include 'more.lua'", "x\n"), SPC_ETEMPLATE);
    ck_assert_str_eq(error.text, "rows.lua:4: unexpected symbol near '='");
    put_file("rows.lua", "%include 'none.lua'\n");
    ck_assert_int_eq(try(NULL, "%include 'more.lua'", "x\n"), SPC_ETEMPLATE);
    ck_assert_str_eq(error.text,
                     "rows.lua:1: include: no file 'none.lua' among "
                     "the templates (for t.cu.lua)");
    put_file("rows.lua", "%function last() nothing() end\n");
    ck_assert_int_eq(try(NULL, "%include 'more.lua'", "x\n% last()\n"),
                     SPC_ETEMPLATE);
    ck_assert_str_eq(error.text, "rows.lua:1: attempt to call a nil value "
                                 "(global 'nothing') (for t.cu.lua)");
}
END_TEST

/* A shared file may set `template`; the error then names the template's line
 * that includes it. */
START_TEST(a_wrong_declaration_in_shared_lua_is_one_of_the_template)
{
    spc__library *library = NULL;

    put_file("rows.lua", "%\n%\n%template = {}\n");
    put_file("t.cu.lua", "%include 'rows.lua'\n\n");
    ck_assert_int_eq(
        spc__library_open(&library, spc__buf_text(&folder), NULL, &error),
        SPC_ETEMPLATE);
    ck_assert_str_eq(error.text, "t.cu.lua:1: template.accepts is missing");
}
END_TEST

START_TEST(the_name_of_shared_lua_is_as_of_templates)
{
    put_file("Rows-1.lua", "%\n");
    ck_assert_int_eq(try(NULL, "%", "x\n"), SPC_ETEMPLATE);
    ck_assert_msg(strncmp(error.text, "Rows-1.lua: a template's name", 29) == 0,
                  "%s", error.text);
}
END_TEST

/* ---- hashes -------------------------------------------------------------- */

static void hash_of(char out[SPC__SHA256_HEX])
{
    spc__library *library = open_folder();
    strcpy(out, spc__template_hash(spc__library_find(library, "t")));
    spc__library_close(library);
}

/* "t" includes files by both keywords and with both kinds of quotes, in a
 * branch that is not taken, by a name with an expression, and through other
 * files. One file is not included. */
#define INCLUDER                                                               \
    DECLARATION("%include 'rows.lua'")                                         \
    "\n% if false then\n#include \"deep.cuh\"\n% end\n"                        \
    "#include \"index_$(nothing).cuh\"\n"

static const struct seen {
    const char *file;
    const char *text;
    bool seen;
} seen[] = {
    {"rows.lua", "%include(\"inner.lua\")\n", true},
    {"inner.lua", "%function f()\n#include <spc_abi.h>\n%end\n", true},
    {"spc_abi.h", "\n", true},
    {"deep.cuh", "  # include \t\"deeper.h\"\n", true},
    {"deeper.h", "#include \"deep.cuh\"\n#include \"lost.h\"\n", true},
    {"index_mine.cuh", "\n", true},
    {"other.lua", "%include 'rows.lua'\n", false},
    {"other.h", "\n", false},
    {"points_abi.h", "\n", false},
    {"xindex_a.cuh", "\n", false},
};

static void put_changed(const struct seen *one)
{
    char text[256];

    snprintf(text, sizeof(text), "%s%s\n", one->text,
             strstr(one->file, ".lua") != NULL ? "% local x = 1" : "int x;");
    put_file(one->file, text);
}

START_TEST(a_hash_covers_what_the_template_includes)
{
    char before[SPC__SHA256_HEX], after[SPC__SHA256_HEX];

    put_file("t.cu.lua", INCLUDER);
    for (int i = 0; i < LENGTH(seen); i++)
        put_file(seen[i].file, seen[i].text);
    hash_of(before);
    hash_of(after);
    ck_assert_str_eq(before, after);
    for (int i = 0; i < LENGTH(seen); i++) {
        put_changed(&seen[i]);
        hash_of(after);
        ck_assert_msg((strcmp(before, after) != 0) == seen[i].seen, "%s",
                      seen[i].file);
        strcpy(before, after);
    }
}
END_TEST

/* Two texts of a template, and whether they have the same hash. */
static const struct rewritten {
    const char *text;
    const char *other;
    bool same;
} rewritten[] = {
    {"int x;\n", "/* Why. */\nint x;\n", true},
    {"int x;\n", "/* Why.\n * In ** two lines. */\n\n  \nint x;\n", true},
    {"int x;\n", "int x; /* why */\n", true},
    {"int x;\n", "%-- why\n%\n  % -- and how\nint x;\n", true},
    {"/* a */ int x;\n", "/* b */ int x;\n", true},
    {"int x;\n", "int y;\n", false},
    {"int x;\n", "int  x;\n", false},
    {"int x;\n",
     "/* Why. *"
     "/\nint x;\nint y;\n",
     false},
    {"% local i = 1\n", "% local i = 1 -- why\n", false},
    {"--x;\n", "--y;\n", false},
    {"%--[[\n%x()\n", "%--[[\n%y()\n", false},
    {"f(\"/*\");\nx\n", "f(\"/*\");\ny\n", false},
    {"x = a /* b\n c */;\n", "x = a /* d\n c */;\n", false},
};

START_TEST(a_hash_leaves_out_comments)
{
    char before[SPC__SHA256_HEX], after[SPC__SHA256_HEX], text[512];
    const struct rewritten *one = &rewritten[_i];

    put_file("seen.cuh", one->text);
    snprintf(text, sizeof(text), "%s\n#include \"seen.cuh\"\n",
             DECLARATION("%"));
    put_file("t.cu.lua", text);
    hash_of(before);
    put_file("seen.cuh", one->other);
    hash_of(after);
    ck_assert_int_eq(strcmp(before, after) == 0, one->same);
}
END_TEST

/* Bodies that differ in comments; the last two renderings differ in #line. */
static const char *const commented[] = {
    "int a;\nint b;\n",
    "/* Why. */\nint a; /* and how */\n\nint b;\n",
    "int a;\n/* Why,\n * in\n * four\n * lines. */\nint b;\n",
    "%-- Why.\n%\n%-- How.\n%-- When.\nint a;\nint b;\n",
    "int a;\n%-- Why.\n%\n%-- How.\n%-- When.\nint b;\n",
};

/* The artefact's key of the rendering of "t.cu.lua" with this body. */
static void key_of(char key[SPC__SHA256_HEX], const char *body,
                   bool keeps_lines)
{
    spc__compiler compiler = {
        .identity = "c", .flags = "", .keeps_lines = keeps_lines};
    spc__buf source = SPC__BUF_INIT, text = SPC__BUF_INIT;

    spc__buf_printf(&text, "%s#include \"seen.cuh\"\n%s", DECLARATION("%"),
                    body);
    put_file("t.cu.lua", spc__buf_text(&text));
    spc__library *library = open_folder();
    assert_ok(render(&source, library));
    spc__artefact_key(key, &compiler,
                      &(spc__compile_job){.source = spc__buf_text(&source),
                                          .headers = library});
    spc__library_close(library);
    spc__buf_release(&source);
    spc__buf_release(&text);
}

START_TEST(a_change_of_comments_keeps_the_key_of_the_code)
{
    char first[SPC__SHA256_HEX], key[SPC__SHA256_HEX];

    put_file("seen.cuh", "int c;\n");
    key_of(first, commented[0], _i);
    for (int i = 1; i < LENGTH(commented); i++) {
        key_of(key, commented[i], _i);
        ck_assert_msg(strcmp(key, first) == 0, "%d", i);
    }
    put_file("seen.cuh", "/* Why. */\n\nint c; /* and how */\n");
    key_of(key, commented[0], _i);
    ck_assert_str_eq(key, first);
    put_file("seen.cuh", "int d;\n");
    key_of(key, commented[0], _i);
    ck_assert_str_ne(key, first);
}
END_TEST

START_TEST(code_with_line_numbers_has_a_key_for_each)
{
    char keys[LENGTH(commented)][SPC__SHA256_HEX], key[SPC__SHA256_HEX];

    put_file("seen.cuh", "int c = __LINE__;\n");
    for (int i = 0; i < LENGTH(commented); i++) {
        key_of(keys[i], commented[i], true);
        for (int j = 0; j < i; j++)
            ck_assert_msg(strcmp(keys[i], keys[j]) != 0, "%d and %d", i, j);
    }
    put_file("seen.cuh", "/* Why. */\nint c = __LINE__;\n");
    key_of(key, commented[0], true);
    ck_assert_str_ne(key, keys[0]);
    /* NVRTC does not see the branch of the emulation. */
    key_of(keys[0], commented[0], false);
    key_of(keys[1], commented[1], false);
    ck_assert_str_eq(keys[0], keys[1]);
}
END_TEST

static const struct mistake uncovered[] = {
    {"%\n", "%include('ro' .. 'ws.lua')", "x\n",
     "t.cu.lua:1: include: 'rows.lua' must be named in a line of text, include "
     "\"rows.lua\", for the template's hash to cover it"},
    {"%\n", "%", "#include $('\"spc_' .. 'abi.h\"')\n",
     "t.cu.lua: its output includes 'spc_abi.h', but its text has no "
     "include of that file"},
};

START_TEST(what_a_hash_does_not_cover_is_not_included)
{
    put_file("rows.lua", uncovered[_i].shared);
    ck_assert_int_eq(try(NULL, uncovered[_i].first, uncovered[_i].body),
                     SPC_ETEMPLATE);
    assert_starts(error.text, uncovered[_i].says);
}
END_TEST

/* Finds included names independently of the library: follows quoted names from
 * the top file down. */
static bool mentions(const char *text, const char *file, int depth)
{
    char quoted[64];

    snprintf(quoted, sizeof(quoted), "include \"%s\"", file);
    if (strstr(text, quoted) != NULL)
        return true;
    for (int i = 0; depth > 0 && i < spc__builtin_count; i++) {
        snprintf(quoted, sizeof(quoted), "include \"%s\"",
                 spc__builtin_files[i].name);
        if (strstr(text, quoted) != NULL &&
            mentions(spc__builtin_files[i].text, file, depth - 1))
            return true;
    }
    return false;
}

static const spc__builtin_file *builtin_file(const char *name)
{
    for (int i = 0; i < spc__builtin_count; i++)
        if (strcmp(spc__builtin_files[i].name, name) == 0)
            return &spc__builtin_files[i];
    ck_abort_msg("%s is not built in", name);
    return NULL;
}

/* index.cu.lua names its search files by a parameter. */
static bool searcher_mentions(const char *file)
{
    static const char *const names[] = {"index_binary.cuh", "index_hash.cuh",
                                        "index_zdelta.cuh"};
    for (int i = 0; i < LENGTH(names); i++)
        if (strcmp(file, names[i]) == 0 ||
            mentions(builtin_file(names[i])->text, file, 8))
            return true;
    return false;
}

static bool builtin_includes(const spc__builtin_file *tpl, const char *file)
{
    return mentions(tpl->text, file, 8) ||
           (strcmp(tpl->name, "index.cu.lua") == 0 && searcher_mentions(file));
}

/* A changed shared file must outdate the records of exactly the templates that
 * include it. Otherwise each change would invalidate all measurements. */
START_TEST(the_hash_of_a_builtin_template_covers_what_it_includes)
{
    spc__library *library = NULL;

    assert_ok(spc__library_open(&library, NULL, NULL, &error));
    for (int i = 0; i < spc__library_count(library); i++) {
        const spc__template *tpl = spc__library_at(library, i);
        const spc__builtin_file *text = builtin_file(tpl->file);
        for (int k = 0; k < library->shared_count; k++) {
            const char *file = library->shared[k].name;
            ck_assert_msg(spc__template_covers(tpl, file) ==
                              builtin_includes(text, file),
                          "%s, %s", tpl->file, file);
        }
    }
    spc__library_close(library);
}
END_TEST

/* CMake computes the hashes of the built-in templates; both must agree. */
START_TEST(the_hash_of_a_builtin_template_needs_no_library)
{
    spc__library *library = NULL;
    char hex[SPC__SHA256_HEX];

    assert_ok(spc__library_open(&library, NULL, NULL, &error));
    for (int i = 0; i < spc__library_count(library); i++) {
        spc__template *tpl = spc__library_at(library, i);
        ck_assert(spc__builtin_template_hash(hex, spc__template_name(tpl)));
        ck_assert_str_eq(hex, spc__template_hash(tpl));
    }
    ck_assert(!spc__builtin_template_hash(hex, "os_rows"));
    spc__library_close(library);
}
END_TEST

/* ---- incomplete folders -------------------------------------------------- */

START_TEST(a_folder_needs_no_more_than_its_kernel)
{
    put_file("t.cu.lua", DECLARATION("%include 'os_rows.lua'") "\n");
    put_file(".#t.cu.lua", "what an editor leaves");
    spc__library *library = open_folder();
    int convolutions = 0;

    for (int i = 0; i < spc__library_count(library); i++)
        convolutions += strcmp(spc__template_role(spc__library_at(library, i)),
                               "conv") == 0;
    ck_assert_int_eq(convolutions, 1);
    ck_assert(spc__library_find(library, "t") != NULL);
    ck_assert(spc__library_find(library, "index") != NULL);
    ck_assert(spc__library_find(library, "measure") != NULL);
    ck_assert(spc__library_header(library, "spc_stream.cuh") != NULL);
    spc__library_close(library);
}
END_TEST

/* A .c.lua may even replace a .cu.lua. */
START_TEST(what_a_folder_has_replaces_what_is_built_in)
{
    put_file("t.cu.lua", DECLARATION("%include 'os_rows.lua'") "$(mine)\n");
    put_file("index.c.lua", "%template = {summary = 'my own', role = 'map',\n"
                            "%  device = 'cpu', params = {},\n"
                            "%  accepts = function() return true end,\n"
                            "%  launch = function() return {} end,\n"
                            "%  default = function() return {} end,\n"
                            "%}\n\n");
    put_file("os_rows.lua", "%mine = 'here'\n");
    put_file("spc_abi.h", "/* mine */\n");
    spc__library *library = open_folder();
    spc__buf out = SPC__BUF_INIT;

    ck_assert_str_eq(spc__library_header(library, "spc_abi.h"), "/* mine */\n");
    ck_assert_str_eq(spc__library_find(library, "index")->summary, "my own");
    assert_ok(render(&out, library));
    ck_assert_str_eq(body_of(&out), "#line 7 \"t.cu.lua\"\nhere\n");
    spc__buf_release(&out);
    spc__library_close(library);
}
END_TEST

START_TEST(a_folder_without_templates_is_a_mistake)
{
    spc__library *library = NULL;
    spc__buf path = SPC__BUF_INIT;

    put_file("spc_abi.h", "/* mine */\n");
    ck_assert_int_eq(
        spc__library_open(&library, spc__buf_text(&folder), NULL, &error),
        SPC_ENOTFOUND);
    ck_assert_ptr_ne(strstr(error.text, "has no templates: their names"), NULL);
    spc__buf_printf(&path, "%s/t.cu.lua", spc__buf_text(&folder));
    ck_assert_int_eq(mkfifo(spc__buf_text(&path), 0600), 0);
    ck_assert_int_eq(
        spc__library_open(&library, spc__buf_text(&folder), NULL, &error),
        SPC_EIO);
    ck_assert_ptr_ne(strstr(error.text, "t.cu.lua': it is not a plain file"),
                     NULL);
    spc__buf_release(&path);
}
END_TEST

/* ---- the suite ----------------------------------------------------------- */

int main(void)
{
    Suite *s = suite_create("sharing");
    TCase *t = tcase_create("sharing");

    tcase_set_timeout(t, 600); /* valgrind and sanitizers are slow */
    tcase_add_checked_fixture(t, make_folder, remove_folder);
    tcase_add_test(t, shared_lua_runs_in_the_globals_of_the_template);
    tcase_add_test(t, a_macro_may_be_continued_in_shared_lua);
    tcase_add_loop_test(t, a_mistake_in_shared_lua_names_its_line, 0,
                        LENGTH(mistakes));
    tcase_add_loop_test(t, a_wrong_part_from_shared_lua_names_its_line, 0,
                        LENGTH(parts));
    tcase_add_test(t, a_mistake_in_lua_that_shared_lua_includes_names_its_line);
    tcase_add_test(t, a_wrong_declaration_in_shared_lua_is_one_of_the_template);
    tcase_add_test(t, the_name_of_shared_lua_is_as_of_templates);
    tcase_add_test(t, a_hash_covers_what_the_template_includes);
    tcase_add_loop_test(t, a_hash_leaves_out_comments, 0, LENGTH(rewritten));
    tcase_add_loop_test(t, a_change_of_comments_keeps_the_key_of_the_code, 0,
                        2);
    tcase_add_test(t, code_with_line_numbers_has_a_key_for_each);
    tcase_add_loop_test(t, what_a_hash_does_not_cover_is_not_included, 0,
                        LENGTH(uncovered));
    tcase_add_test(t, the_hash_of_a_builtin_template_covers_what_it_includes);
    tcase_add_test(t, the_hash_of_a_builtin_template_needs_no_library);
    tcase_add_test(t, a_folder_needs_no_more_than_its_kernel);
    tcase_add_test(t, what_a_folder_has_replaces_what_is_built_in);
    tcase_add_test(t, a_folder_without_templates_is_a_mistake);
    suite_add_tcase(s, t);
    return run_suite(s);
}
