/* SPDX-License-Identifier: Apache-2.0 */
/* test_compiler.c - templates, the search space and the compilers. */
#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/parallel.h"
#include "base/random.h"
#include "compiler/artefact.h"
#include "compiler/backend.h"
#include "compiler/child.h"
#include "compiler/internal.h"
#include "compiler/render.h"
#include "compiler/space.h"
#include "harness/comma_locale.h"
#include "harness/suite.h"

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifndef SPC_TEST_DATA
#define SPC_TEST_DATA "tests"
#endif

static spc_error error;

#define LENGTH(array) ((int)(sizeof(array) / sizeof(*(array))))

#define assert_ok(call)                                                        \
    ck_assert_msg((call) == SPC_OK, "%s: %s", #call, error.text)

#define assert_fails(call, expected)                                           \
    do {                                                                       \
        spc_status status_ = (call);                                           \
        ck_assert_msg(status_ == (expected), "%s gave %s, not %s: %s", #call,  \
                      spc_status_name(status_), spc_status_name(expected),     \
                      error.text);                                             \
    } while (0)

#define assert_says(words)                                                     \
    ck_assert_msg(strstr(error.text, (words)) != NULL,                         \
                  "'%s' does not say '%s'", error.text, (words))

/* ---- helpers ------------------------------------------------------------- */

static const char gpu[] = "device=cuda,sm=90,shared_block=232448,"
                          "max_threads=1024";

static spc__attrs attrs(const char *text)
{
    spc__attrs out;
    assert_ok(spc__attrs_parse(&out, text, &error));
    return out;
}

static spc__library *open_test_library(void)
{
    spc__library *library = NULL;
    assert_ok(spc__library_open(&library, SPC_TEST_DATA "/templates/compiler",
                                NULL, &error));
    return library;
}

static spc__template *find(spc__library *library, const char *name)
{
    spc__template *tpl = spc__library_find(library, name);
    ck_assert_msg(tpl != NULL, "no template '%s'", name);
    return tpl;
}

/* The cancel flag of libraries that open_text() opens. */
static volatile int stop;
static const volatile int *const stopper = &stop;

/* Opens a library with one template file of this text. */
static spc_status open_text(spc__library **out, const char *file,
                            const char *text, size_t bytes)
{
    spc__buf folder = SPC__BUF_INIT, path = SPC__BUF_INIT;

    assert_ok(spc__temp_dir_create(&folder, &error));
    spc__buf_printf(&path, "%s/%s", folder.data, file);
    FILE *stream = fopen(path.data, "w");
    ck_assert(stream != NULL && fwrite(text, 1, bytes, stream) == bytes);
    fclose(stream);
    spc_status status = spc__library_open(out, folder.data, &stopper, &error);
    spc__temp_dir_remove(folder.data);
    spc__buf_release(&folder);
    spc__buf_release(&path);
    return status;
}

/* The shortest valid declaration. It has lines 1 to 5, so the body starts on
 * line 6.
 */
static const char declaration[] =
    "%template = {summary = 's', role = 'conv', device = 'cuda',\n"
    "%  params = {}, accepts = function() return true end,\n"
    "%  launch = function() return {} end,\n"
    "%  default = function() return {} end,\n"
    "%}\n";

/* Renders a body after that declaration. *out may be NULL. */
static spc_status render_body(spc__buf *out, const char *body)
{
    spc__buf text = SPC__BUF_INIT, own = SPC__BUF_INIT;
    spc__library *library = NULL;

    spc__buf_printf(&text, "%s%s", declaration, body);
    spc_status status = open_text(&library, "t.cu.lua", text.data, text.length);
    if (status == SPC_OK)
        status =
            spc__template_render(out != NULL ? out : &own, find(library, "t"),
                                 NULL, NULL, NULL, &error);
    spc__library_close(library);
    spc__buf_release(&text);
    spc__buf_release(&own);
    return status;
}

static spc_status render(spc__buf *out, spc__library *library, const char *name,
                         const char *problem, const char *config)
{
    spc__attrs p = attrs(problem), t = attrs(gpu), c = attrs(config);
    return spc__template_render(out, find(library, name), &p, &t, &c, &error);
}

/* Returns a rendering without its opening comment. */
static const char *body_of(const spc__buf *source)
{
    const char *end = strstr(spc__buf_text(source), "*/\n");
    ck_assert(end != NULL);
    return end + 3;
}

/* Sets an environment variable, which restore() resets. The suite can therefore
 * run in one process (CK_FORK=no), as valgrind prefers. */
static char *kept;

static void replace(const char *name, const char *value)
{
    const char *before = getenv(name);
    free(kept);
    kept = before != NULL ? strdup(before) : NULL;
    setenv(name, value, 1);
}

static void restore(const char *name)
{
    if (kept != NULL)
        setenv(name, kept, 1);
    else
        unsetenv(name);
    free(kept);
    kept = NULL;
}

/* ---- golden renders ------------------------------------------------------ */

static const struct golden {
    const char *template_name;
    const char *problem;
    const char *config;
    const char *file;
} goldens[] = {
    {"halo", "op=halo,cin=40,taps=3", "rows=64,unroll=1,mode=plain",
     "halo_plain.txt"},
    {"halo", "op=halo,cin=33,taps=4", "mode=scaled,unroll=2,rows=32",
     "halo_scaled.txt"},
    {"halo", "op=halo,cin=1,taps=1", "rows=128,unroll=1,mode=plain",
     "halo_one_tap.txt"},
    {"rowsum", "cin=8", "unroll=4", "rowsum.txt"},
};

/* Hides the hash, which covers built-in shared files that golden files must not
 * depend on. */
static void hide_hash(spc__buf *source, const spc__template *tpl)
{
    char *hash = strstr(source->data, spc__template_hash(tpl));
    ck_assert(hash != NULL);
    memset(hash, '0', SPC__SHA256_HEX - 1);
}

START_TEST(a_rendering_matches_its_golden_file)
{
    const struct golden *golden = &goldens[_i];
    spc__library *library = open_test_library();
    spc__buf got = SPC__BUF_INIT, want = SPC__BUF_INIT, path = SPC__BUF_INIT;

    assert_ok(render(&got, library, golden->template_name, golden->problem,
                     golden->config));
    hide_hash(&got, find(library, golden->template_name));
    spc__buf_printf(&path, "%s/golden/%s", SPC_TEST_DATA, golden->file);
    if (getenv("SPC_UPDATE_GOLDEN") != NULL)
        assert_ok(spc__file_write(path.data, got.data, got.length, &error));
    assert_ok(spc__file_read(&want, path.data, 1 << 20, &error));
    ck_assert_msg(got.length == want.length &&
                      memcmp(got.data, want.data, got.length) == 0,
                  "%s differs (SPC_UPDATE_GOLDEN=1 rewrites it):\n%s",
                  golden->file, got.data);
    spc__buf_release(&got);
    spc__buf_release(&want);
    spc__buf_release(&path);
    spc__library_close(library);
}
END_TEST

START_TEST(rendering_twice_gives_the_same_bytes)
{
    spc__library *libraries[2] = {open_test_library(), open_test_library()};
    spc__buf texts[3] = {SPC__BUF_INIT, SPC__BUF_INIT, SPC__BUF_INIT};

    for (int i = 0; i < 3; i++)
        assert_ok(render(&texts[i], libraries[i % 2], "halo",
                         "op=halo,cin=40,taps=4",
                         "rows=64,unroll=2,mode=plain"));
    ck_assert_str_eq(texts[0].data, texts[1].data);
    ck_assert_str_eq(texts[0].data, texts[2].data);
    for (int i = 0; i < 3; i++)
        spc__buf_release(&texts[i]);
    spc__library_close(libraries[0]);
    spc__library_close(libraries[1]);
}
END_TEST

START_TEST(a_failed_rendering_leaves_the_buffer_as_it_was)
{
    spc__library *library = open_test_library();
    spc__buf text = SPC__BUF_INIT;

    spc__buf_puts(&text, "before");
    assert_fails(render(&text, library, "faulty", "fault=typo", "rows=1"),
                 SPC_ETEMPLATE);
    ck_assert_str_eq(text.data, "before");
    spc__buf_release(&text);
    spc__library_close(library);
}
END_TEST

/* ---- values and lines ---------------------------------------------------- */

static const struct value {
    const char *body;
    const char *want;
} values[] = {
    {"$(64 / 2)", "32"},
    {"$(7 // 2)$(7.0 // 2)", "33"},
    {"$(0.5) $(1 / 3) $(1e300)", "0.5 0.3333333333333333 1e+300"},
    {"$(2^53) $(-2^40)", "9007199254740992 -1099511627776"},
    {"$(1 << 62) $(-5)", "4611686018427387904 -5"},
    {"$('text') $(\"$(\")", "text $("},
    {"$((1 + (2)) * (3))", "9"},
    {"$(')')$(\"(\")$([[)]])$([=[ ]] ) ]=])", ")()"
                                              " ]] ) "},
    {"$(('a'):rep(3))", "aaa"},
    {"$(math.max(1, 2)) $(#'four')", "2 4"},
    {"$x $ ( $$ % $", "$x $ ( $$ % $"},
    {" % not Lua", " % not Lua"},
    {"\"quote\" \\n \\\\ \t|", "\"quote\" \\n \\\\ \t|"},
    {"$(tostring({})) $(string.format('%s', math.abs))", "table function"},
    {"$(table.concat({3, 1, 2}, '-'))", "3-1-2"},
    {"$(#table.pack(table.unpack({1, 2, 3})))", "3"},
    {"$(select('#', 1, 2)) $(tonumber('0x10'))", "2 16"},
    {"$(('a.b'):gsub('%.', '_'))", "a_b"},
};

START_TEST(a_value_is_written_as_c_wants_it)
{
    spc__buf text = SPC__BUF_INIT, want = SPC__BUF_INIT;

    spc__buf_printf(&want, "#line 6 \"t.cu.lua\"\n%s\n", values[_i].want);
    assert_ok(render_body(&text, values[_i].body));
    ck_assert_str_eq(body_of(&text), want.data);
    spc__buf_release(&text);
    spc__buf_release(&want);
}
END_TEST

static const struct value bodies[] = {
    /* A gap of one or two lines becomes empty lines. A longer gap becomes a
     * #line. */
    {"a\n% local x = 1\nb\n", "a\n\nb\n"},
    {"a\n%\n%\n%\nb\n", "a\n#line 10 \"t.cu.lua\"\nb\n"},
    {"a\n% for i = 1, 2 do\nb$(i)\n% end\nc",
     "a\n\nb1\n#line 8 \"t.cu.lua\"\nb2\n\nc\n"},
    {"a$('\\n')b\nc", "a\nb\n#line 7 \"t.cu.lua\"\nc\n"},
    {"a \\\n% local x = 1\nb \\\nc\nd", "a \\\nb \\\nc\n\nd\n"},
    {"windows\r\nlines\r\n", "windows\nlines\n"},
    /* pairs() visits keys in ascending order, and table.sort is stable. */
    {"a\n% for k, v in pairs({b = 2, a = 1, [10] = 0, [9] = 9}) do\n"
     "$(k)=$(v)\n"
     "% end",
     "a\n\n9=9\n#line 8 \"t.cu.lua\"\n10=0\n#line 8 \"t.cu.lua\"\na=1\n"
     "#line 8 \"t.cu.lua\"\nb=2\n"},
    {"a\n% local l = {'d1', 'b1', 'd2', 'a1', 'b2', 'a2', 'd3'}\n"
     "% table.sort(l, function(x, y) return x:sub(1, 1) < y:sub(1, 1) end)\n"
     "$(table.concat(l, ' '))",
     "a\n\n\na1 a2 b1 b2 d1 d2 d3\n"},
    {"a\n% local t = {1, 2, 3}\n% for k in pairs(t) do t[k] = nil end\n"
     "$(#t)",
     "a\n\n\n0\n"},
};

START_TEST(lines_of_the_output_follow_those_of_the_template)
{
    spc__buf text = SPC__BUF_INIT, want = SPC__BUF_INIT;

    spc__buf_printf(&want, "#line 6 \"t.cu.lua\"\n%s", bodies[_i].want);
    assert_ok(render_body(&text, bodies[_i].body));
    ck_assert_str_eq(body_of(&text), want.data);
    spc__buf_release(&text);
    spc__buf_release(&want);
}
END_TEST

static const struct mistake {
    const char *body;
    const char *says;
} mistakes[] = {
    {"x\n$(nothing)", "t.cu.lua:7: $(nothing) is nil"},
    {"x\ny\n$(1) and $(1 + nothing)", "t.cu.lua:8: attempt to perform arithm"},
    {"$(1) $(true)", "t.cu.lua:6: $(true) is a boolean"},
    {"$({})", "t.cu.lua:6: $({}) is neither a number nor a text"},
    {"$(0 / 0)", "$(0 / 0) is not a finite number"},
    {"$(math.huge)", "not a finite number"},
    {"$('a\\0b')", "zero byte"},
    {"x\n$(1", "t.cu.lua:7: '$(' is not closed"},
    {"x\n$(')\"", "t.cu.lua:7: a string inside '$(' is not closed"},
    {"x\n$( )", "t.cu.lua:7: '$()' is empty"},
    {"x\n$(1 --2)", "t.cu.lua:7: '--' inside"},
    {"x\n$(1 +)", "t.cu.lua:7: unexpected symbol"},
    {"x\n% if x then\ny\n",
     "'end' expected (a block of the body is not closed)"},
    {"x\n% end\ny\n", "t.cu.lua:8: "},
    {"x\n% local = 1\ny\n", "t.cu.lua:7: <name> expected near '='"},
    {"x\n% goto nowhere\ny\n",
     "no visible label 'nowhere' for <goto> at line 7"},
    {"x\n% error('my own')\n", "t.cu.lua:7: my own"},
    {"x\n% error('my own', 0)\n", "t.cu.lua:7: my own"},
    {"x\n% error({})\n", "t.cu.lua:7: raised a table value"},
    {"x\n% error()\n", "t.cu.lua:7: raised a nil value"},
    {"x\n% assert(false)\n", "t.cu.lua:7: assertion failed!"},
    {"x\n% pairs(nil)\n", "t.cu.lua:7: pairs needs a table, not nil"},
    {"x\n% for k in pairs({[{}] = 1}) do end\n", "t.cu.lua:7: pairs cannot"},
    {"x\n% table.sort({1, 'a'})\n", "t.cu.lua:7: attempt to compare"},
    {"x\n% table.sort(nil)\n", "t.cu.lua:7: attempt to get length"},
    {"x\n% string.rep()\n", "t.cu.lua:7: "},
    {"x\n$(problem.op)", "t.cu.lua:7: $(problem.op) is nil"},
    {"x\n$(config.rowz)", "t.cu.lua:7: config has no parameter 'rowz'"},
};

START_TEST(a_mistake_in_the_body_names_its_line)
{
    assert_fails(render_body(NULL, mistakes[_i].body), SPC_ETEMPLATE);
    assert_says(mistakes[_i].says);
}
END_TEST

/* ---- declarations -------------------------------------------------------- */

#define HEAD "%template = {summary = 's', role = 'conv', device = 'cuda',\n"
#define ACCEPTS "% accepts = function() return true end,\n"
#define LAUNCH "% launch = function() return {} end,\n"
#define DEFAULT "% default = function() return {} end,\n"
#define REST ACCEPTS LAUNCH DEFAULT

static const struct broken {
    const char *text;
    const char *says;
} broken[] = {
    {"", "has no body"},
    {"int x;\n", "t.cu.lua:1: a template starts with its declaration"},
    {"%x = 1\n", "has no body"},
    {"%x = 1\nint x;\n",
     "must set the global 'template' to a table, not a nil"},
    {"%template = 7\nint x;\n", "t.cu.lua:1: the declaration must set"},
    {"%do return end\nint x;\n", "t.cu.lua:1: "},
    {"%x = = 1\nint x;\n", "t.cu.lua:1: unexpected symbol near '='"},
    {"%\n%error('no')\nint x;\n", "t.cu.lua:2: no"},
    {"%local t = nil + 1\nint x;\n", "t.cu.lua:1: attempt to perform"},
    {"%-- one\n%template = {}\nint x;\n",
     "t.cu.lua:2: template.accepts is missing"},
    {HEAD "% params = {},\n" ACCEPTS LAUNCH "%}\nx\n",
     "t.cu.lua:1: template.default is missing"},
    {HEAD "% params = {}, colour = 1,\n" REST "%}\nx\n",
     "template has an unknown field 'colour'"},
    {HEAD "% params = {}, 'stray',\n" REST "%}\nx\n",
     "template has a number as the name of a field"},
    {HEAD "% params = 5,\n" REST "%}\nx\n",
     "template.params must be a table, not a number"},
    {HEAD "% params = {rows = {1, 2}},\n" REST "%}\nx\n",
     "template.params must be a plain list"},
    {HEAD "% params = {'rows'},\n" REST "%}\nx\n",
     "template.params[1] must be a list, not a string"},
    {HEAD "% params = {{'rows'}},\n" REST "%}\nx\n",
     "template.params[1] must be {\"name\", {values} or function"},
    {HEAD "% params = {{'rows', 5}},\n" REST "%}\nx\n",
     "template.params[1] must be"},
    {HEAD "% params = {{'rows', {1}, 5}},\n" REST "%}\nx\n",
     "template.params[1] must be"},
    {HEAD "% params = {{'a b', {1}}},\n" REST "%}\nx\n", "'a b' is not a name"},
    {HEAD "% params = {{'rows', {}}},\n" REST "%}\nx\n",
     "the values of 'rows': 0 of them"},
    {HEAD "% params = {{'rows', {1, 2, 1}}},\n" REST "%}\nx\n",
     "the values of 'rows': 1 appears twice"},
    {HEAD "% params = {{'rows', {1.5}}},\n" REST "%}\nx\n",
     "'rows' is 1.5, not a whole number"},
    {HEAD "% params = {{'rows', {'a b'}}},\n" REST "%}\nx\n",
     "'rows' is 'a b', but a text is"},
    {HEAD "% params = {{'rows', {{}}}},\n" REST "%}\nx\n",
     "'rows' is a table, not a number or a text"},
    {HEAD "% params = {{'r', {1}}, {'r', {2}}},\n" REST "%}\nx\n",
     "template.params: 'r' appears twice"},
    {HEAD "% params = {}, constraints = {{'x'}},\n" REST "%}\nx\n",
     "template.constraints[1] must be {\"what must hold\", function}"},
    {HEAD "% params = {}, constraints = {function() end},\n" REST "%}\nx\n",
     "template.constraints[1] must be"},
    {HEAD "% params = {}, derive = {},\n" REST "%}\nx\n",
     "template.derive must be a function, not a table"},
    {"%template = {summary = '', role = 'conv', device = 'cuda',\n"
     "% params = {},\n" REST "%}\nx\n",
     "template.summary must be one line"},
    {"%template = {summary = 'a\\nb', role = 'conv', device = 'cuda',\n"
     "% params = {},\n" REST "%}\nx\n",
     "template.summary must be one line"},
    {"%template = {summary = 's', role = 'conv', device = 'cpu',\n"
     "% params = {},\n" REST "%}\nx\n",
     "template.device is 'cpu', but a .cu.lua file is for 'cuda'"},
    {"%template = {summary = 's', role = 'a b', device = 'cuda',\n"
     "% params = {},\n" REST "%}\nx\n",
     "template.role 'a b' is not a name"},
    {HEAD "% params = {},\n" REST "%}\n% if true then\nx\n% end\ny\n",
     "'end' expected (to close 'if' at line 7) before this line of text"},
    {HEAD "\n% params = {},\n" REST "%}\nx\n",
     "t.cu.lua:2: unexpected symbol before this line: it ends the declaration, "
     "because it does not begin with '%'"},
    {HEAD "% params = {},\n% accepts = function() return return end,\n" REST
          "%}\nx\n",
     "t.cu.lua:3: unexpected symbol near 'return'"},
};

START_TEST(a_broken_declaration_is_refused_in_words)
{
    spc__library *library = NULL;

    assert_fails(open_text(&library, "t.cu.lua", broken[_i].text,
                           strlen(broken[_i].text)),
                 SPC_ETEMPLATE);
    ck_assert(library == NULL);
    ck_assert_msg(strncmp(error.text, "t.cu.lua:", 9) == 0, "%s", error.text);
    assert_says(broken[_i].says);
}
END_TEST

START_TEST(bytecode_is_refused)
{
    static const char text[] = "%template = 1\n\x1bLua\0x\n";
    static const char start[] = "\x1bLuaS\0\x19\x93\r\n\x1a\n";
    spc__library *library = NULL;

    assert_fails(open_text(&library, "t.cu.lua", text, sizeof(text) - 1),
                 SPC_ETEMPLATE);
    assert_says("not text");
    assert_fails(open_text(&library, "t.cu.lua", start, sizeof(start) - 1),
                 SPC_ETEMPLATE);
    assert_says("not text");
}
END_TEST

START_TEST(a_file_name_must_be_a_name)
{
    spc__library *library = NULL;

    assert_fails(open_text(&library, "Bad-Name.cu.lua", "%x=1\nx\n", 7),
                 SPC_ETEMPLATE);
    assert_says("Bad-Name.cu.lua: a template's name is");
    assert_fails(
        spc__library_open(&library, "/nonexistent/folder", NULL, &error),
        SPC_ENOTFOUND);
    assert_says("/nonexistent/folder");
}
END_TEST

/* ---- hostile templates --------------------------------------------------- */

static const char limit[] = "in one call";

static const struct hostile {
    const char *body;
    const char *says; /* the refusal; "": accepted */
} hostiles[] = {
    {"% io.open('/etc/passwd')", "nil value (global 'io')"},
    {"% os.execute('true')", "nil value (global 'os')"},
    {"% require('os')", "nil value (global 'require')"},
    {"% load('return 1')", "nil value (global 'load')"},
    {"% dofile('/etc/passwd')", "nil value (global 'dofile')"},
    {"% loadstring('x')", "nil value (global 'loadstring')"},
    {"% debug.getregistry()", "nil value (global 'debug')"},
    {"% package.loadlib('a', 'b')", "nil value (global 'package')"},
    {"% coroutine.wrap(print)", "nil value (global 'coroutine')"},
    {"% pcall(error)", "nil value (global 'pcall')"},
    {"% xpcall(error, error)", "nil value (global 'xpcall')"},
    {"% setmetatable({}, {})", "nil value (global 'setmetatable')"},
    {"% getmetatable('')", "nil value (global 'getmetatable')"},
    {"% rawset(string, 'x', 1)", "nil value (global 'rawset')"},
    {"% rawget(string, 'x')", "nil value (global 'rawget')"},
    {"% next({})", "nil value (global 'next')"},
    {"% collectgarbage()", "nil value (global 'collectgarbage')"},
    {"% print('x')", "nil value (global 'print')"},
    {"% warn('@on')", "nil value (global 'warn')"},
    {"% _G.string = nil", "nil value (global '_G')"},
    {"% math.random()", "nil value (field 'random')"},
    {"% math.randomseed(1)", "nil value (field 'randomseed')"},
    {"% string.dump(function() end)", "nil value (field 'dump')"},
    {"% string.pack('i', 1)", "nil value (field 'pack')"},
    {"% (''):dump()", "nil value (method 'dump')"},
    {"% string.rep = nil", "the libraries cannot be changed"},
    {"% table.concat = nil", "the libraries cannot be changed"},
    {"% math.pi = 3", "the libraries cannot be changed"},
    {"% string.format('%p', {})", "no %p here"},
    {"% string.format('%-20p', {})", "no %p here"},
    {"% local x = {} .. ''", "attempt to concatenate"},
    {"% while true do end", limit},
    {"% repeat until false", limit},
    {"% for i = 1, math.maxinteger do end", limit},
    {"% ::a:: goto a", limit},
    {"% local function f() return f() end f()", limit},
    {"% local function f() return 1 + f() end f()", "t.cu.lua"},
    {"% table.sort({3, 2, 1}, function() while true do end end)", limit},
    {"% ('x'):gsub('x', function() while true do end end)", limit},
    {"% table.move({}, 1, math.maxinteger - 2, 2)", limit},
    {"% local s = ('a'):rep(5000)\n% s:find(('a-'):rep(200) .. 'b')",
     "too costly"},
    {"% local s = ('a'):rep(30)\n% s:find(('a?'):rep(30) .. ('a'):rep(30))",
     "too costly"},
    {"% local s = ('x'):rep(100)\n% while true do s:find('.-.-y') end", limit},
    {"% local s = ('x'):rep(1 << 40)", "t.cu.lua"},
    {"% local s = string.rep('', 1 << 60)", ""},
    {"% local s = (''):rep(math.maxinteger, '') .. ('x'):rep(-1)", ""},
    {"% while true do local s = (''):rep(1 << 60) end", limit},
    {"% local s = ('x'):rep(1 << 20)\n% while true do s:reverse() end", limit},
    {"% local s = ('a'):rep(1 << 21)\n% s:find(s .. 'b', 1, true)",
     "too costly"},
    {"% local s = ('a'):rep(1 << 21)\n"
     "% s:find(s:sub(1, 1 << 20) .. '[b]')",
     "too costly"},
    {"% while true do table.unpack('', 1, 200000) end", limit},
    {"% local s = 'x'\n% while true do s = s .. s end", "64 MiB"},
    {"% local t = {}\n% for i = 1, 1e9 do t[i] = {} end", "64 MiB"},
    {"% local t = {}\n% for i = 1, 1e9 do t[('x'):rep(1000) .. i] = i end",
     "64 MiB"},
    {"% table.concat(table.pack(('x'):rep(1 << 25), ('y'):rep(1 << 25)))",
     "64 MiB"},
    {"% local t = table.pack(table.unpack({}, 1, 1e8))", "too many results"},
    {"% string.format('%99999d', 1)", "t.cu.lua:7: "},
    {"% local s = ('x'):rep(1 << 20)\n% while true do\n$(s)\n% end",
     "larger than 16 MB"},
    {"% while true do\ntext\n% end", "larger than 16 MB"},
    {"% spc__text('no', 1)", "t.cu.lua:7: "},
    {"% spc__text(1 << 40)", "no such line"},
    {"% spc__text(99999, 'x', nil, 'y')", "a value is nil"},
    {"% spc__text(7, {})", "t.cu.lua:7: "},
    {"% spc__text = nil\ny", "t.cu.lua:8: "},
    {"% template.launch = nil\n% problem = nil\n% config = nil", ""},
    {"% _ENV = {}", ""},
    {"% local _ENV <const> = {}\n% x = 1", ""},
};

START_TEST(a_hostile_template_does_no_harm)
{
    const struct hostile *hostile = &hostiles[_i];
    spc__buf body = SPC__BUF_INIT;

    spc__buf_printf(&body, "x\n%s\n", hostile->body);
    if (hostile->says[0] == '\0') {
        assert_ok(render_body(NULL, body.data));
    } else {
        assert_fails(render_body(NULL, body.data), SPC_ETEMPLATE);
        ck_assert_msg(strncmp(error.text, "t.cu.lua:", 9) == 0, "%s",
                      error.text);
        assert_says(hostile->says);
    }
    spc__buf_release(&body);
}
END_TEST

static const char *const endless[] = {
    "%while true do end\nx\n",
    HEAD "% params = {{'a', function() while true do end end}},\n" REST
         "%}\nx\n",
    HEAD "% params = {}, accepts = function() while true do end end,\n" LAUNCH
        DEFAULT "%}\nx\n",
    HEAD "% params = {}, default = function() while true do end end,\n" LAUNCH
        ACCEPTS "%}\nx\n",
    HEAD "% params = {}, launch = function() while true do end end,\n" DEFAULT
        ACCEPTS "%}\nx\n",
    HEAD "% params = {}, constraints = {{'c', function() while true do end "
         "end}},\n" REST "%}\nx\n",
};

START_TEST(an_endless_loop_ends_wherever_it_is)
{
    spc__library *library = NULL;
    spc__attrs config;

    spc_status status =
        open_text(&library, "t.cu.lua", endless[_i], strlen(endless[_i]));
    spc__template *tpl = status == SPC_OK ? find(library, "t") : NULL;
    if (status == SPC_OK)
        status = spc__template_accepts(tpl, NULL, NULL, &error);
    if (status == SPC_OK)
        status = spc__template_default(&config, tpl, NULL, NULL, &error);
    ck_assert_int_eq(status, SPC_ETEMPLATE);
    assert_says("t.cu.lua:");
    assert_says(limit);
    spc__library_close(library);
}
END_TEST

START_TEST(an_endless_loop_heeds_the_flag)
{
    spc__library *library = NULL;
    spc__space *space = NULL;
    spc__attrs problem = {0}, target = attrs(gpu);

    stop = 1;
    spc_status status =
        open_text(&library, "t.cu.lua", endless[_i], strlen(endless[_i]));
    if (status == SPC_OK)
        status = spc__space_create(&space, library, "conv", NULL, &problem,
                                   &target, &error);
    ck_assert_int_eq(status, SPC_EINTERRUPTED);
    ck_assert_str_eq(error.text, "interrupted");
    spc__library_close(library);
    stop = 0;
}
END_TEST

/* Declarations that change while they are being read. */
static const struct hostile rewriting[] = {
    {"template.params = nil", "template.params must be a list, not a nil"},
    {"template.params = {5}",
     "template.params[1] must be a list, not a number"},
    {"template.params = {{{}, {1}}}", "template.params[1] must be {"},
    {"template.params[1][1] = nil", "template.params[1] must be"},
    {"template.params[1][1] = ('n'):rep(99)", "is not a name"},
    {"for i = 1, 999 do template.params[i] = {'n' .. i, {1}} end",
     "template.params has more than"},
    {"template.params[1][2] = function() template.params[2] = {} end",
     "the values of 'a' must be a list, not a nil"},
    {"template.params[1][2] = function() template.params[2] = 5; return {1} "
     "end",
     "template.params[2] must be a list, not a number"},
    {"template.constraints = {5}", "template.constraints[1] must be {"},
    {"template.constraints = {{1, 2}}", "template.constraints[1] must be {"},
    {"template.constraints[1][2] = function()"
     " template.constraints[2] = nil return true end",
     "template.constraints[2] must be {"},
    {"template.constraints = nil", ""},
    {"template.default = nil", "attempt to call a nil value"},
    {"template.launch = 5", "attempt to call a number value"},
};

START_TEST(a_declaration_that_rewrites_itself_does_no_harm)
{
    spc__buf text = SPC__BUF_INIT;
    spc__library *library = NULL;
    spc__space *space = NULL;
    spc__attrs problem = {0}, target = attrs(gpu);

    spc__buf_puts(&text,
                  HEAD "% params = {{'a', {1}}, {'b', {1, 2}}},\n"
                       "% constraints = {{'c', function() return true end},\n"
                       "%  {'d', function() return true end}},\n"
                       "% launch = function() return {} end,\n"
                       "% default = function() return {a = 1, b = 1} end,\n"
                       "% accepts = function()\n%  ");
    spc__buf_puts(&text, rewriting[_i].body);
    spc__buf_puts(&text, "\n%  return true\n% end,\n%}\n\n");
    assert_ok(open_text(&library, "t.cu.lua", text.data, text.length));
    spc_status status = spc__space_create(&space, library, "conv", NULL,
                                          &problem, &target, &error);
    if (rewriting[_i].says[0] == '\0') {
        assert_ok(status);
    } else {
        ck_assert_int_eq(status, SPC_ETEMPLATE);
        ck_assert_msg(strncmp(error.text, "t.cu.lua:", 9) == 0, "%s",
                      error.text);
        assert_says(rewriting[_i].says);
    }
    spc__space_free(space);
    spc__library_close(library);
    spc__buf_release(&text);
}
END_TEST

START_TEST(a_library_serves_on_after_a_hostile_template)
{
    spc__library *library = open_test_library();
    spc__buf text = SPC__BUF_INIT;

    for (int i = 0; i < 3; i++) {
        assert_fails(render(&text, library, "faulty", "fault=body", "rows=1"),
                     SPC_ETEMPLATE);
        assert_says("faulty.cu.lua:27: more than");
        assert_ok(render(&text, library, "faulty", "fault=none", "rows=1"));
    }
    spc__buf_release(&text);
    spc__library_close(library);
}
END_TEST

START_TEST(nothing_leaks_from_one_rendering_to_the_next)
{
    static const char text[] =
        "%counter = 0\n"
        "%list = {}\n"
        "%local hidden = 0\n"
        "%function count() counter = counter + 1; return counter end\n"
        "%template = {summary = 's', role = 'conv', device = 'cuda',\n"
        "% params = {},\n" REST "%}\n"
        "$(count()) $(hidden) $(#list) $(stray == nil and 1 or 0)\n"
        "% hidden = hidden + 1; list[1] = 1; stray = 5\n"
        "% template.params = nil; template.launch = nil; problem.x = 1\n"
        "$(stray)\n";
    spc__library *library = NULL;
    spc__buf out[2] = {SPC__BUF_INIT, SPC__BUF_INIT};

    assert_ok(open_text(&library, "t.cu.lua", text, sizeof(text) - 1));
    for (int i = 0; i < 2; i++)
        assert_ok(spc__template_render(&out[i], find(library, "t"), NULL, NULL,
                                       NULL, &error));
    ck_assert_ptr_ne(strstr(out[0].data, "\n1 0 0 1\n"), NULL);
    ck_assert_str_eq(out[0].data, out[1].data);
    spc__buf_release(&out[0]);
    spc__buf_release(&out[1]);
    spc__library_close(library);
}
END_TEST

START_TEST(many_renderings_need_no_more_memory_than_a_few)
{
    spc__library *library = open_test_library();
    spc__buf text = SPC__BUF_INIT;
    size_t most = 0;

    for (int i = 0; i < 1000; i++) {
        spc__buf_clear(&text);
        assert_ok(render(&text, library, "halo", "op=halo,cin=40,taps=4",
                         "rows=64,unroll=2,mode=plain"));
        if (library->box.bytes_used > most)
            most = library->box.bytes_used;
    }
    ck_assert_int_lt((int)most, 4 << 20);
    spc__buf_release(&text);
    spc__library_close(library);
}
END_TEST

/* Each allocation fails once. */
START_TEST(each_refused_allocation_is_an_error)
{
    spc__library *library = open_test_library();
    spc__buf text = SPC__BUF_INIT;
    spc_status status = SPC_ETEMPLATE;
    int refused = 0;

    assert_fails(render(&text, library, "faulty", "fault=typo", "rows=1"),
                 SPC_ETEMPLATE); /* an error also collects all garbage */
    for (size_t more = 0; status != SPC_OK; more += 16, refused++) {
        library->box.bytes_limit = library->box.bytes_used + more;
        status = render(&text, library, "halo", "op=halo,cin=40,taps=2",
                        "rows=64,unroll=2,mode=plain");
        if (status != SPC_OK) {
            ck_assert_int_eq(status, SPC_ETEMPLATE);
            assert_says("halo.cu.lua: ");
        }
    }
    ck_assert_int_gt(refused, 100);
    spc__buf_release(&text);
    spc__library_close(library);
}
END_TEST

START_TEST(numbers_do_not_follow_the_locale)
{
    static const char body[] =
        "$(1.5) $(tostring(2.5)) $('é' < 'z' and 1 or 0)";
    spc__buf text = SPC__BUF_INIT;

    setlocale(LC_ALL, "C.UTF-8");
    use_decimal_comma();
    assert_ok(render_body(&text, body));
    ck_assert_ptr_ne(strstr(text.data, "1.5 2.5 0\n"), NULL);
    setlocale(LC_ALL, "C");
    spc__buf_release(&text);
}
END_TEST

/* Any bytes give an error or an answer, never a crash. */
START_TEST(mutated_templates_never_crash)
{
    static const char *const files[] = {
        SPC_TEST_DATA "/templates/compiler/halo.cu.lua",
        SPC_TEST_DATA "/templates/compiler/rowsum.c.lua",
    };
    spc__attrs problem = attrs("op=halo,cin=8,taps=2"), target = attrs(gpu);
    spc__random random;
    spc__buf original = SPC__BUF_INIT;
    int opened = 0;

    spc__random_init(&random, 20240229u + (uint64_t)_i);
    assert_ok(spc__file_read(&original, files[_i % 2], 1 << 20, &error));
    for (int round = 0; round < 150; round++) {
        spc__library *library = NULL;
        spc__buf text = SPC__BUF_INIT, out = SPC__BUF_INIT;
        spc__attrs config;
        spc__buf_append(&text, original.data, original.length);
        int flips = 1 + (int)spc__random_below(&random, 4);
        for (int i = 0; i < flips; i++)
            text.data[spc__random_below(&random, (uint32_t)text.length)] =
                (char)(spc__random_below(&random, 4) != 0
                           ? "%$()\"'[]{}=\n\\,.-0aZ~#"[spc__random_below(
                                 &random, 22)]
                           : (char)spc__random_below(&random, 256));
        if (open_text(&library, _i % 2 ? "t.c.lua" : "t.cu.lua", text.data,
                      text.length) == SPC_OK) {
            spc__template *tpl = find(library, "t");
            opened++;
            if (spc__template_default(&config, tpl, &problem, &target,
                                      &error) == SPC_OK)
                spc__template_render(&out, tpl, &problem, &target, &config,
                                     &error);
        }
        spc__library_close(library);
        spc__buf_release(&text);
        spc__buf_release(&out);
    }
    ck_assert_int_gt(opened, 0);
    spc__buf_release(&original);
}
END_TEST

/* ---- questions ----------------------------------------------------------- */

START_TEST(templates_come_in_the_order_of_their_names)
{
    static const char *const names[] = {"faulty", "greedy", "halo", "picky",
                                        "rowsum"};
    spc__library *library = open_test_library();
    int count = spc__library_count(library);

    for (int i = 0; i < LENGTH(names); i++)
        find(library, names[i]);
    for (int i = 1; i < count; i++)
        ck_assert_int_lt(
            strcmp(spc__template_name(spc__library_at(library, i - 1)),
                   spc__template_name(spc__library_at(library, i))),
            0);
    ck_assert(spc__library_at(library, -1) == NULL);
    ck_assert(spc__library_at(library, count) == NULL);
    ck_assert(spc__library_find(library, "nope") == NULL);
    spc__template *halo = find(library, "halo");
    ck_assert_str_eq(spc__template_role(halo), "conv");
    ck_assert_str_eq(spc__template_device(halo), "cuda");
    ck_assert_str_eq(halo->summary,
                     "each row's weighted sum of its neighbours");
    ck_assert_int_eq((int)strlen(spc__template_hash(halo)), 64);
    ck_assert(spc__library_header(library, "halo.cuh") != NULL);
    ck_assert(spc__library_header(library, "nope.h") == NULL);
    spc__library_close(library);
}
END_TEST

START_TEST(a_template_says_why_it_refuses_a_problem)
{
    spc__library *library = open_test_library();
    spc__attrs problem = attrs("op=other"), target = attrs(gpu);

    assert_fails(
        spc__template_accepts(find(library, "halo"), &problem, &target, &error),
        SPC_EUNSUPPORTED);
    ck_assert_str_eq(error.text,
                     "'halo' does not take the problem: needs op = halo");
    problem = attrs("op=halo");
    assert_ok(spc__template_accepts(find(library, "halo"), &problem, &target,
                                    &error));
    spc__library_close(library);
}
END_TEST

START_TEST(the_default_has_the_order_of_the_declaration)
{
    spc__library *library = open_test_library();
    spc__attrs problem = attrs("op=halo,cin=40,taps=3"), target = attrs(gpu);
    spc__attrs config, launch;
    spc__buf text = SPC__BUF_INIT;

    assert_ok(spc__template_default(&config, find(library, "halo"), &problem,
                                    &target, &error));
    spc__attrs_format(&text, &config);
    ck_assert_str_eq(text.data, "rows=64,unroll=1,mode=plain");
    assert_ok(spc__template_launch(&launch, find(library, "halo"), &problem,
                                   &target, &config, &error));
    spc__buf_clear(&text);
    spc__attrs_format(&text, &launch);
    ck_assert_str_eq(text.data,
                     "block=64,grid=tiles,pdl=0,shared=4096,tile_rows=64");
    spc__buf_release(&text);
    spc__library_close(library);
}
END_TEST

static const struct check {
    const char *problem;
    const char *config;
    const char *says; /* "" means admitted */
} checks[] = {
    {"op=halo,cin=40,taps=4", "rows=64,unroll=2,mode=plain", ""},
    {"op=halo,cin=40,taps=4", "mode=plain,rows=64,unroll=2", ""},
    {"op=halo,cin=40,taps=3", "rows=64,unroll=2,mode=plain",
     "'halo' refuses this configuration: constraint 'the unroll divides"},
    {"op=halo,cin=40,taps=4", "rows=128,unroll=2,mode=scaled",
     "constraint 'tall blocks are plain': 128 rows"},
    {"op=halo,cin=40,taps=4", "rows=48,unroll=2,mode=plain",
     "rows = 48 is not a legal value (32, 64, 128)"},
    {"op=halo,cin=40,taps=1", "rows=64,unroll=2,mode=plain",
     "unroll = 2 is not a legal value (1)"},
    {"op=halo,cin=40,taps=4", "rows=64,unroll=2", "'mode' is missing"},
    {"op=halo,cin=40,taps=4", "rows=64,unroll=2,mode=plain,x=1",
     "there is no parameter 'x'"},
    {"op=halo,cin=4000,taps=4", "rows=64,unroll=2,mode=plain",
     "256000 bytes of shared memory of a block, the target has 232448"},
};

START_TEST(a_check_names_what_refuses)
{
    spc__library *library = open_test_library();
    spc__attrs problem = attrs(checks[_i].problem), target = attrs(gpu);
    spc__attrs config = attrs(checks[_i].config);

    spc_status status = spc__template_check(find(library, "halo"), &problem,
                                            &target, &config, &error);
    if (checks[_i].says[0] == '\0') {
        assert_ok(status);
    } else {
        ck_assert_int_eq(status, SPC_EUNSUPPORTED);
        assert_says(checks[_i].says);
    }
    spc__library_close(library);
}
END_TEST

static const struct fault {
    const char *name;
    spc_status status;
    const char *says;
} faults[] = {
    {"none", SPC_OK, ""},
    {"accepts", SPC_OK, ""}, /* accepts() is not called for the default */
    {"constraint", SPC_ETEMPLATE, "faulty.cu.lua:12: more than"},
    {"launch", SPC_ETEMPLATE, "faulty.cu.lua:16: launch: 'block' is 1.5"},
    {"illegal", SPC_ETEMPLATE, "faulty.cu.lua:20: default: rows = 3 is not a"},
    {"missing", SPC_ETEMPLATE, "faulty.cu.lua:20: default: parameter 'rows'"},
};

START_TEST(a_fault_of_a_template_names_its_line)
{
    spc__library *library = open_test_library();
    spc__buf text = SPC__BUF_INIT;
    spc__attrs config;

    spc__buf_printf(&text, "fault=%s", faults[_i].name);
    spc__attrs problem = attrs(text.data), target = attrs(gpu);
    assert_fails(spc__template_default(&config, find(library, "faulty"),
                                       &problem, &target, &error),
                 faults[_i].status);
    if (faults[_i].status != SPC_OK)
        assert_says(faults[_i].says);
    spc__buf_release(&text);
    spc__library_close(library);
}
END_TEST

START_TEST(a_refused_default_names_the_constraint)
{
    spc__library *library = open_test_library();
    spc__attrs problem = attrs("x=1"), target = attrs(gpu), config;

    assert_fails(spc__template_default(&config, find(library, "picky"),
                                       &problem, &target, &error),
                 SPC_EUNSUPPORTED);
    ck_assert_str_eq(error.text, "the default of 'picky' is refused: "
                                 "constraint 'nothing pleases'");
    spc__library_close(library);
}
END_TEST

typedef struct crowd {
    spc__library *library;
    atomic_int failures;
} crowd;

static void render_in_crowd(void *payload, int64_t i)
{
    crowd *c = payload;
    spc_error own;
    spc__buf text = SPC__BUF_INIT;
    spc__attrs problem, target, config;

    spc__attrs_parse(&problem, "op=halo,cin=40,taps=4", &own);
    spc__attrs_parse(&target, gpu, &own);
    spc__attrs_parse(&config,
                     i % 2 ? "rows=64,unroll=2,mode=plain"
                           : "rows=32,unroll=1,mode=scaled",
                     &own);
    spc__template *tpl = spc__library_find(c->library, "halo");
    if (spc__template_render(&text, tpl, &problem, &target, &config, &own) !=
            SPC_OK ||
        strstr(text.data, i % 2 ? "rows=64" : "rows=32") == NULL)
        atomic_fetch_add(&c->failures, 1);
    spc__buf_release(&text);
}

START_TEST(one_library_serves_several_threads)
{
    crowd c = {.library = open_test_library()};

    spc__parallel_for(64, 4, render_in_crowd, &c);
    ck_assert_int_eq(atomic_load(&c.failures), 0);
    spc__library_close(c.library);
}
END_TEST

/* ---- built-in templates -------------------------------------------------- */

START_TEST(the_builtin_templates_load)
{
    spc__library *library = NULL;

    assert_ok(spc__library_open(&library, NULL, NULL, &error));
    ck_assert(spc__library_header(library, "spc_abi.h") != NULL);
    find(library, "os_generic");
    spc__library_close(library);
}
END_TEST

/* ---- the space ----------------------------------------------------------- */

static spc__space *create_space(spc__library *library, const char *role,
                                const char *problem, const char *target)
{
    spc__space *space = NULL;
    spc__attrs p = attrs(problem), t = attrs(target);
    assert_ok(spc__space_create(&space, library, role, NULL, &p, &t, &error));
    return space;
}

static spc_status refuse_space(spc__library *library, const char *role,
                               const char *only, const char *problem)
{
    spc__space *space = NULL;
    spc__attrs p = attrs(problem), t = attrs(gpu);
    spc_status status =
        spc__space_create(&space, library, role, only, &p, &t, &error);
    spc__space_free(space);
    return status;
}

START_TEST(a_space_has_every_candidate_and_one_default)
{
    spc__library *library = open_test_library();
    spc__space *space =
        create_space(library, "conv", "op=halo,cin=40,taps=4", gpu);
    int defaults = 0, admitted = 0;

    ck_assert_int_eq(space->count, 12);
    for (int i = 0; i < space->count; i++) {
        const spc__candidate *candidate = &space->candidates[i];
        defaults += candidate->is_default;
        admitted += candidate->admitted;
        ck_assert(candidate->admitted == (candidate->why[0] == '\0'));
        if (candidate->admitted)
            ck_assert(spc__attrs_number(&candidate->launch, "block", 0) ==
                      spc__attrs_number(&candidate->config, "rows", -1));
    }
    ck_assert_int_eq(defaults, 1);
    ck_assert_int_eq(admitted, 10);
    ck_assert_int_eq(space->admitted, 10);
    ck_assert_int_eq(space->refusal_count, 0);
    spc__space_free(space);
    spc__library_close(library);
}
END_TEST

START_TEST(candidates_come_last_parameter_fastest)
{
    spc__library *library = open_test_library();
    spc__space *space = create_space(library, "greedy", "x=1", gpu);
    spc__buf text = SPC__BUF_INIT;

    for (int i = 0; i < space->count; i++) {
        spc__attrs_format(&text, &space->candidates[i].config);
        spc__buf_puts(&text, " ");
    }
    ck_assert_str_eq(text.data, "kib=16,threads=256 kib=16,threads=2048 "
                                "kib=64,threads=256 kib=64,threads=2048 "
                                "kib=256,threads=256 kib=256,threads=2048 ");
    spc__buf_release(&text);
    spc__space_free(space);
    spc__library_close(library);
}
END_TEST

START_TEST(a_target_says_whose_templates_it_takes)
{
    spc__library *library = open_test_library();
    spc__space *space = create_space(library, "conv", "op=halo,cin=40,taps=4",
                                     "device=sim,templates=cuda,sm=90");
    ck_assert_int_eq(space->count, 12);
    spc__space_free(space);
    space = create_space(library, "conv", "cin=40", "device=cpu");
    ck_assert_int_eq(space->count, 3);
    ck_assert_str_eq(spc__template_name(space->candidates[0].tpl), "rowsum");
    spc__space_free(space);
    spc__library_close(library);
}
END_TEST

START_TEST(limits_of_the_target_refuse_candidates)
{
    spc__library *library = open_test_library();
    spc__space *space = create_space(library, "greedy", "x=1",
                                     "sm=90,shared_block=65536,"
                                     "max_threads=1024");
    ck_assert_int_eq(space->count, 6);
    ck_assert_int_eq(space->admitted, 2);
    ck_assert_str_eq(space->candidates[1].why,
                     "2048 threads of a block, the target has 1024");
    ck_assert_str_eq(space->candidates[4].why,
                     "262144 bytes of shared memory of a block, the target "
                     "has 65536");
    spc__space_free(space);
    spc__library_close(library);
}
END_TEST

START_TEST(an_empty_space_names_what_refused_most)
{
    spc__library *library = open_test_library();

    assert_fails(refuse_space(library, "picky", NULL, "x=1"), SPC_EUNSUPPORTED);
    ck_assert_str_eq(error.text, "no configuration is left: 6 of 10 of 'picky' "
                                 "were refused by: constraint 'rows are odd'");
    assert_fails(refuse_space(library, "conv", NULL, "op=other"),
                 SPC_EUNSUPPORTED);
    ck_assert_str_eq(error.text, "no template takes the problem: 'halo': needs "
                                 "op = halo");
    assert_fails(refuse_space(library, "conv", "nobody", "op=halo"),
                 SPC_EUNSUPPORTED);
    ck_assert_str_eq(error.text, "there is no template 'nobody' of role 'conv' "
                                 "for device 'cuda', only halo");
    assert_fails(refuse_space(library, "conv", "rowsum", "op=halo"),
                 SPC_EUNSUPPORTED);
    ck_assert_str_eq(error.text,
                     "template 'rowsum' is not for device 'cuda': use 'cpu'");
    assert_fails(refuse_space(library, "knitting", NULL, "x=1"),
                 SPC_EUNSUPPORTED);
    ck_assert_str_eq(error.text, "there is no template of role 'knitting' for "
                                 "device 'cuda'");
    spc__library_close(library);
}
END_TEST

START_TEST(a_faulty_template_is_a_refusal_until_nothing_else_serves)
{
    spc__library *library = open_test_library();

    assert_fails(refuse_space(library, "faulty", NULL, "fault=constraint"),
                 SPC_ETEMPLATE);
    assert_says("faulty.cu.lua:12: more than");
    assert_fails(refuse_space(library, "faulty", NULL, "fault=illegal"),
                 SPC_ETEMPLATE);
    assert_says("rows = 3 is not a legal value");
    spc__library_close(library);
}
END_TEST

START_TEST(a_large_space_takes_little_time)
{
    static const char text[] =
        HEAD "% params = {{'a', {1, 2, 3, 4}}, {'b', {1, 2, 3, 4}},\n"
             "% {'c', {1, 2, 3, 4}}, {'d', {1, 2, 3, 4}},\n"
             "% {'e', {1, 2, 3, 4, 5, 6, 7, 8}}},\n"
             "% constraints = {\n"
             "%  {'one', function(p, c) return c.a * c.b <= 16 end},\n"
             "%  {'two', function(p, c) return c.c * c.d <= 16 end},\n"
             "%  {'three', function(p, c) return c.e + c.a <= 12 end},\n"
             "% },\n" ACCEPTS "% launch = function(p, c)\n"
             "%  return {block = 128, shared = c.a * 1024, grid = 'tiles',\n"
             "%          tile_rows = c.b, packed_bytes = 5}\n"
             "% end,\n"
             "% default = function() return {a=1, b=1, c=1, d=1, e=1} end,\n"
             "%}\nx\n";
    spc__library *library = NULL;

    assert_ok(open_text(&library, "t.cu.lua", text, sizeof(text) - 1));
    uint64_t start = spc__now_ns();
    spc__space *space = create_space(library, "conv", "x=1", gpu);
    double ms = (double)(spc__now_ns() - start) / 1e6;
    printf("2048 configurations in %.1f ms\n", ms);
    ck_assert_int_eq(space->count, 2048);
    ck_assert_double_lt(ms, 5000); /* ample time for sanitizers and load */
    spc__space_free(space);
    spc__library_close(library);
}
END_TEST

START_TEST(too_large_a_space_is_an_error)
{
    static const char text[] =
        "%local many = {}\n%for i = 1, 240 do many[i] = i end\n" HEAD
        "% params = {{'a', many}, {'b', many}},\n" REST "%}\nx\n";
    spc__library *library = NULL;

    assert_ok(open_text(&library, "t.cu.lua", text, sizeof(text) - 1));
    assert_fails(refuse_space(library, "conv", NULL, "x=1"), SPC_ETEMPLATE);
    assert_says("more than 49152 configurations");
    spc__library_close(library);
}
END_TEST

/* ---- compilers ----------------------------------------------------------- */

static spc__compiler *open_nvrtc(void)
{
    spc__compiler *nvrtc = NULL;
    assert_ok(spc__nvrtc_open(&nvrtc, &error));
    return nvrtc;
}

static spc__compiler *open_hostcc(void)
{
    spc__compiler *cc = NULL;
    assert_ok(spc__hostcc_open(&cc, &error));
    return cc;
}

START_TEST(without_nvrtc_the_error_names_the_path)
{
    spc__compiler *compiler = NULL;

    replace("SPC_NVRTC", "/nonexistent");
    assert_fails(spc__nvrtc_open(&compiler, &error), SPC_EUNSUPPORTED);
    assert_says("SPC_NVRTC sets to '/nonexistent'");
    ck_assert(compiler == NULL);
    setenv("SPC_NVRTC", "libm.so.6", 1); /* a library that is not NVRTC */
    assert_fails(spc__nvrtc_open(&compiler, &error), SPC_EUNSUPPORTED);
    assert_says("nvrtcVersion");
    restore("SPC_NVRTC");
}
END_TEST

static const struct bad_cc {
    const char *variable;
    const char *value;
    const char *says;
} bad_ccs[] = {
    {"SPC_CC", "/nonexistent", "SPC_CC names no C compiler: "},
    {"SPC_CC", "/bin/false", "'/bin/false --version' fails with status 1"},
    {"PATH", "/nonexistent", "there is no C compiler (cc, gcc, clang)"},
};

START_TEST(without_a_c_compiler_the_error_says_so)
{
    spc__compiler *compiler = NULL;

    replace(bad_ccs[_i].variable, bad_ccs[_i].value);
    spc_status status = spc__hostcc_open(&compiler, &error);
    restore(bad_ccs[_i].variable);
    ck_assert_int_eq(status, SPC_EUNSUPPORTED);
    assert_says(bad_ccs[_i].says);
    ck_assert(compiler == NULL);
}
END_TEST

START_TEST(rendered_cuda_becomes_a_cubin)
{
    spc__compiler *nvrtc = open_nvrtc();
    spc__library *library = open_test_library();
    spc__buf text = SPC__BUF_INIT, log = SPC__BUF_INIT;
    spc__artefact artefact;

    assert_ok(render(&text, library, "halo", "op=halo,cin=40,taps=4",
                     "rows=64,unroll=2,mode=scaled"));
    spc__compile_job job = {.source = text.data,
                            .name = "halo",
                            .target = "sm_90",
                            .headers = library};
    assert_ok(spc__compile(&artefact, nvrtc, &job, &log, &error));
    ck_assert_int_gt((int)artefact.code_bytes, 500);
    ck_assert(memcmp(artefact.code, "\177ELF", 4) == 0);
    ck_assert(strncmp(artefact.compiler, "nvrtc ", 6) == 0);
    ck_assert(artefact.compile_ns > 0);
    ck_assert_int_gt(spc__attrs_number(&artefact.resources, "registers", 0), 3);
    ck_assert_int_eq(spc__attrs_number(&artefact.resources, "spill_bytes", -1),
                     0);
    spc__artefact_release(&artefact);
    spc__buf_release(&text);
    spc__buf_release(&log);
    spc__library_close(library);
    spc__compiler_close(nvrtc);
}
END_TEST

/* Uses 2 KB of shared memory, and has many more live values than 24 registers
 * hold. */
static const char greedy_kernel[] =
    "extern \"C\" __global__ void spc_pack(float *p) { *p = 1; }\n"
    "extern \"C\" __global__ void spc_conv(const float *in, float *out)\n"
    "{\n"
    "    __shared__ float tile[512];\n"
    "    float v[64];\n"
    "    tile[threadIdx.x] = in[threadIdx.x];\n"
    "    __syncthreads();\n"
    "#pragma unroll\n"
    "    for (int i = 0; i < 64; i++)\n"
    "        v[i] = in[i * 512 + threadIdx.x] + tile[511 - threadIdx.x];\n"
    "    __syncthreads();\n"
    "#pragma unroll\n"
    "    for (int i = 0; i < 64; i++)\n"
    "        out[i * 512 + threadIdx.x] = v[i] * v[63 - i];\n"
    "}\n";

START_TEST(the_report_of_a_cubin_agrees_with_the_log)
{
    static const char *const targets[] = {"sm_75",  "sm_80",   "sm_90",
                                          "sm_90a", "sm_100a", "sm_120"};
    spc__compiler *nvrtc = open_nvrtc();

    for (int i = 0; i < LENGTH(targets); i++) {
        spc__compile_job job = {.source = greedy_kernel,
                                .name = "greedy",
                                .target = targets[i],
                                .options = "-maxrregcount=24"};
        spc__buf log = SPC__BUF_INIT;
        spc__artefact artefact;
        int registers = 0, shared = 0, frame = 0, stores = 0, loads = 0;
        spc_status status = spc__compile(&artefact, nvrtc, &job, &log, &error);
        if (status == SPC_EUNSUPPORTED)
            continue; /* an older toolkit */
        assert_ok(status);
        const char *at = strstr(log.data, "properties for spc_conv");
        ck_assert(at != NULL);
        at = strpbrk(strstr(at, "\n"), "0123456789");
        ck_assert_int_eq(sscanf(at,
                                "%d bytes stack frame, %d bytes spill "
                                "stores, %d bytes spill loads",
                                &frame, &stores, &loads),
                         3);
        at = strstr(at, "Used ");
        ck_assert_int_eq(sscanf(at,
                                "Used %d registers, used 1 barriers, %*d "
                                "bytes cumulative stack size, %d bytes "
                                "smem",
                                &registers, &shared),
                         2);
        ck_assert_int_gt(stores, 0);
        const spc__attrs *got = &artefact.resources;
        ck_assert_int_eq(spc__attrs_number(got, "registers", -1), registers);
        ck_assert_int_eq(spc__attrs_number(got, "static_shared_bytes", -1),
                         shared);
        ck_assert_int_eq(spc__attrs_number(got, "local_bytes", -1), frame);
        ck_assert_int_eq(spc__attrs_number(got, "spill_bytes", -1),
                         stores + loads);
        spc__artefact_release(&artefact);
        spc__buf_release(&log);
    }
    spc__compiler_close(nvrtc);
}
END_TEST

START_TEST(a_compile_error_points_to_the_template)
{
    spc__compiler *nvrtc = open_nvrtc();
    spc__buf text = SPC__BUF_INIT, log = SPC__BUF_INIT;
    spc__artefact artefact;

    assert_ok(render_body(
        &text, "__device__ int a;\n% for i = 1, 2 do\n__device__ int b$(i);\n"
               "% end\n__device__ int c = missing;\n"));
    spc__compile_job job = {
        .source = text.data, .name = "t", .target = "sm_80"};
    assert_fails(spc__compile(&artefact, nvrtc, &job, &log, &error),
                 SPC_ECOMPILE);
    assert_says("cannot compile 't' for sm_80: t.cu.lua(10): error: identifier "
                "\"missing\" is undefined");
    ck_assert(artefact.code == NULL);
    ck_assert(strstr(log.data, "missing") != NULL);
    spc__buf_release(&text);
    spc__buf_release(&log);
    spc__compiler_close(nvrtc);
}
END_TEST

START_TEST(an_unknown_target_lists_the_known_ones)
{
    static const char *const targets[] = {
        "sm_12", "sm_90x", "compute_90", "sm_", "", "sm_90 -O0", "sm_80a"};
    spc__compiler *nvrtc = open_nvrtc();

    for (int i = 0; i < LENGTH(targets); i++) {
        spc__artefact artefact;
        spc__compile_job job = {
            .source = "\n", .name = "t", .target = targets[i]};
        assert_fails(spc__compile(&artefact, nvrtc, &job, NULL, &error),
                     SPC_EUNSUPPORTED);
        assert_says(" sm_80 ");
        assert_says(" sm_90 ");
    }
    spc__compiler_close(nvrtc);
}
END_TEST

typedef struct compile_crowd {
    spc__compiler *compiler;
    const char *source;
    const char *target;
    atomic_int failures;
} compile_crowd;

static void compile_in_crowd(void *payload, int64_t i)
{
    compile_crowd *c = payload;
    spc__artefact artefact;
    spc_error own;
    spc__compile_job job = {
        .source = c->source, .name = "crowd", .target = c->target};

    (void)i;
    if (spc__compile(&artefact, c->compiler, &job, NULL, &own) != SPC_OK)
        atomic_fetch_add(&c->failures, 1);
    spc__artefact_release(&artefact);
}

START_TEST(nvrtc_serves_several_threads)
{
    spc__compiler *nvrtc = open_nvrtc();
    compile_crowd c = {
        .compiler = nvrtc, .source = greedy_kernel, .target = "sm_90"};

    for (int threads = 1; threads <= 2; threads++) {
        uint64_t start = spc__now_ns();
        spc__parallel_for(8, threads, compile_in_crowd, &c);
        printf("8 compilations, %d threads: %.0f ms\n", threads,
               (double)(spc__now_ns() - start) / 1e6);
    }
    ck_assert_int_eq(atomic_load(&c.failures), 0);
    spc__compiler_close(nvrtc);
}
END_TEST

/* Loads compiled code and calls its function. */
static float call_rowsum(const spc__artefact *artefact, const float *in)
{
    spc__buf folder = SPC__BUF_INIT, path = SPC__BUF_INIT;
    float (*function)(const float *);

    assert_ok(spc__temp_dir_create(&folder, &error));
    spc__buf_printf(&path, "%s/x.so", folder.data);
    assert_ok(spc__file_write(path.data, artefact->code, artefact->code_bytes,
                              &error));
    void *module = dlopen(path.data, RTLD_NOW | RTLD_LOCAL);
    ck_assert_msg(module != NULL, "%s", dlerror());
    void *address = dlsym(module, "spc_conv");
    memcpy(&function, &address, sizeof(function));
    float sum = function(in);
    dlclose(module);
    spc__temp_dir_remove(folder.data);
    spc__buf_release(&folder);
    spc__buf_release(&path);
    return sum;
}

START_TEST(rendered_c_runs)
{
    static const float in[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    spc__library *library = open_test_library();
    spc__compiler *cc = open_hostcc();
    spc__buf text = SPC__BUF_INIT;
    spc__artefact artefact;

    assert_ok(render(&text, library, "rowsum", "cin=8", "unroll=4"));
    spc__compile_job job = {.source = text.data,
                            .name = "rowsum",
                            .target = "",
                            .options = "-O1 -DUNUSED=1"};
    assert_ok(spc__compile(&artefact, cc, &job, NULL, &error));
    ck_assert_double_eq(call_rowsum(&artefact, in), 36);
    ck_assert_int_eq(spc__attrs_number(&artefact.resources, "code_bytes", 0),
                     (int64_t)artefact.code_bytes);
    spc__artefact_release(&artefact);
    spc__buf_release(&text);
    spc__compiler_close(cc);
    spc__library_close(library);
}
END_TEST

START_TEST(headers_reach_the_c_compiler)
{
    spc__library *library = open_test_library();
    spc__compiler *cc = open_hostcc();
    spc__artefact artefact;
    spc__compile_job job = {.source =
                                "#define __device__\n#include \"halo.cuh\"\n"
                                "int f(halo_args a) { return a.rows; }\n",
                            .name = "../odd name*/",
                            .headers = library};

    assert_ok(spc__compile(&artefact, cc, &job, NULL, &error));
    spc__artefact_release(&artefact);
    spc__compiler_close(cc);
    spc__library_close(library);
}
END_TEST

/* A limit on file size acts like a full disk. */
START_TEST(a_source_that_cannot_be_written_says_why)
{
    spc__compiler *cc = open_hostcc();
    spc__artefact artefact;
    struct rlimit before, small = {4, RLIM_INFINITY};
    spc__compile_job job = {.source = "int main_of_nothing;\n", .name = "n"};

    ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &before), 0);
    small.rlim_max = before.rlim_max;
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &small);
    spc_status status = spc__compile(&artefact, cc, &job, NULL, &error);
    setrlimit(RLIMIT_FSIZE, &before);
    ck_assert_int_eq(status, SPC_EIO);
    assert_says("/n.c': File too large");
    spc__compiler_close(cc);
}
END_TEST

START_TEST(a_call_of_an_unknown_function_is_a_compile_error)
{
    spc__compiler *cc = open_hostcc();
    spc__artefact artefact;
    spc__compile_job job = {.source = "float f(void) { return spc_fmaa(1); }\n",
                            .name = "call"};

    assert_fails(spc__compile(&artefact, cc, &job, NULL, &error), SPC_ECOMPILE);
    assert_says("spc_fmaa");
    spc__compiler_close(cc);
}
END_TEST

START_TEST(a_c_compile_error_points_to_the_template)
{
    spc__library *library = open_test_library();
    spc__compiler *cc = open_hostcc();
    spc__buf text = SPC__BUF_INIT, log = SPC__BUF_INIT;
    spc__artefact artefact;

    assert_ok(render(&text, library, "rowsum", "cin=8,mistake=1", "unroll=1"));
    spc__compile_job job = {.source = text.data, .name = "rowsum"};
    assert_fails(spc__compile(&artefact, cc, &job, &log, &error), SPC_ECOMPILE);
    assert_says("cannot compile 'rowsum': rowsum.c.lua:18:");
    assert_says("missing");
    ck_assert(strstr(log.data, "/tmp/") == NULL);
    spc__buf_release(&text);
    spc__buf_release(&log);
    spc__compiler_close(cc);
    spc__library_close(library);
}
END_TEST

/* Counts the entries of $TMPDIR, to check that no files remain. */
static int count_entries(const char *path)
{
    DIR *folder = opendir(path);
    int count = 0;
    while (readdir(folder) != NULL)
        count++;
    closedir(folder);
    return count;
}

static void *cancel_soon(void *payload)
{
    nanosleep(&(struct timespec){0, 200 * 1000 * 1000}, NULL);
    __atomic_store_n((volatile int *)payload, 1, __ATOMIC_RELAXED);
    return NULL;
}

/* Opens a script in `folder` that acts as a compiler. */
static spc__compiler *open_script(const spc__buf *folder, const char *script)
{
    spc__buf path = SPC__BUF_INIT, text = SPC__BUF_INIT;
    spc__compiler *cc = NULL;

    spc__buf_printf(&path, "%s/cc", folder->data);
    spc__buf_printf(&text,
                    "#!/bin/sh\ncase $1 in --version) echo slow 1; exit;; "
                    "esac\n%s\n",
                    script);
    assert_ok(spc__file_write(path.data, text.data, text.length, &error));
    ck_assert_int_eq(chmod(path.data, 0700), 0);
    replace("SPC_CC", path.data);
    spc_status opened = spc__hostcc_open(&cc, &error);
    restore("SPC_CC");
    assert_ok(opened);
    ck_assert_str_eq(spc__compiler_identity(cc), "slow 1");
    spc__buf_release(&path);
    spc__buf_release(&text);
    return cc;
}

static const struct {
    const char *script;
    int limit_seconds;
    bool is_cancelled;
    spc_status status;
    const char *says;
} deaths[] = {
    {"sleep 1000 &\nsleep 1000", 1, false, SPC_ETIMEOUT,
     "killed after 1 seconds"},
    {"sleep 1000 &\nsleep 1000", 1000, true, SPC_EINTERRUPTED, "interrupted"},
    {"exec >&- 2>&-\nsleep 1000", 1, false, SPC_ETIMEOUT,
     "killed after 1 seconds"},
    {"exec >&- 2>&-\nsleep 1000", 1000, true, SPC_EINTERRUPTED, "interrupted"},
};

START_TEST(a_compiler_that_hangs_is_killed)
{
    spc__buf folder = SPC__BUF_INIT;
    spc__artefact artefact;
    volatile int cancel = 0;
    spc__compile_job job = {
        .source = "int x;\n", .name = "slow", .cancel = &cancel};
    pthread_t thread;

    assert_ok(spc__temp_dir_create(&folder, &error));
    spc__compiler *cc = open_script(&folder, deaths[_i].script);
    cc->limit_seconds = deaths[_i].limit_seconds;
    uint64_t start = spc__now_ns();
    replace("TMPDIR", folder.data);
    if (deaths[_i].is_cancelled)
        ck_assert_int_eq(
            pthread_create(&thread, NULL, cancel_soon, (void *)&cancel), 0);
    spc_status status = spc__compile(&artefact, cc, &job, NULL, &error);
    if (deaths[_i].is_cancelled)
        pthread_join(thread, NULL);
    restore("TMPDIR");
    ck_assert_int_eq(status, deaths[_i].status);
    assert_says("cannot compile 'slow': ");
    assert_says(deaths[_i].says);
    ck_assert_double_lt((double)(spc__now_ns() - start) / 1e9, 10);
    ck_assert_int_eq(count_entries(folder.data), 3); /* ., .. and cc */
    spc__compiler_close(cc);
    spc__temp_dir_remove(folder.data);
    spc__buf_release(&folder);
}
END_TEST

/* True if the process runs and is not a zombie. */
static bool is_alive(pid_t id)
{
    char path[40], state = 'X';

    snprintf(path, sizeof(path), "/proc/%d/stat", (int)id);
    FILE *file = fopen(path, "r");
    if (file != NULL && fscanf(file, "%*d (%*[^)]) %c", &state) != 1)
        state = 'X';
    if (file != NULL)
        fclose(file);
    return state != 'X' && state != 'Z';
}

/* Waits for a file and returns the number in it. */
static pid_t await_number(const char *path)
{
    int number = 0;

    for (int i = 0; number == 0 && i < 1000; i++) {
        FILE *file = fopen(path, "r");
        if (file == NULL || fscanf(file, "%d", &number) != 1)
            poll(NULL, 0, 10);
        if (file != NULL)
            fclose(file);
    }
    return number;
}

/* If the host is killed, the compiler and the processes it started end too. The
 * next compiler removes their files. */
START_TEST(a_compiler_ends_with_a_host_that_is_killed)
{
    spc__buf folder = SPC__BUF_INIT, note = SPC__BUF_INIT,
             script = SPC__BUF_INIT;
    spc__compile_job job = {.source = "int x;\n", .name = "orphan"};

    assert_ok(spc__temp_dir_create(&folder, &error));
    spc__buf_printf(&note, "%s/pid", folder.data);
    spc__buf_printf(&script, "sleep 1000 &\necho $! >%s\nsleep 1000",
                    note.data);
    spc__compiler *cc = open_script(&folder, script.data);
    pid_t host = fork();
    if (host == 0) {
        spc__artefact artefact;
        setenv("TMPDIR", folder.data, 1);
        spc__compile(&artefact, cc, &job, NULL, &error);
        _exit(0);
    }
    pid_t started = await_number(note.data);
    ck_assert_int_gt(started, 0);
    ck_assert(is_alive(started));
    kill(host, SIGKILL);
    waitpid(host, NULL, 0);
    for (int i = 0; i < 1000 && is_alive(started); i++)
        poll(NULL, 0, 10);
    ck_assert(!is_alive(started));
    spc__compiler_close(cc);
    /* ., .., cc, pid and work */
    ck_assert_int_eq(count_entries(folder.data), 5);
    DIR *entries = opendir(folder.data);
    for (struct dirent *e = readdir(entries); e != NULL; e = readdir(entries))
        utimensat(dirfd(entries), e->d_name,
                  (struct timespec[]){{1000, 0}, {1000, 0}}, 0);
    closedir(entries);
    replace("TMPDIR", folder.data);
    spc__work_dirs_sweep(NULL);
    restore("TMPDIR");
    ck_assert_int_eq(count_entries(folder.data), 4);
    spc__temp_dir_remove(folder.data);
    spc__buf_release(&folder);
    spc__buf_release(&note);
    spc__buf_release(&script);
}
END_TEST

START_TEST(a_compiler_may_leave_a_process_behind)
{
    spc__buf folder = SPC__BUF_INIT, log = SPC__BUF_INIT;
    spc__artefact artefact;
    spc__compile_job job = {.source = "int x;\n", .name = "served"};

    assert_ok(spc__temp_dir_create(&folder, &error));
    spc__compiler *cc =
        open_script(&folder, "sleep 30 &\necho said\nexec cc \"$@\"");
    cc->limit_seconds = 15; /* the child keeps the output open for 30 s */
    assert_ok(spc__compile(&artefact, cc, &job, &log, &error));
    ck_assert_str_eq(spc__buf_text(&log), "said\n");
    spc__artefact_release(&artefact);
    spc__compiler_close(cc);
    spc__temp_dir_remove(folder.data);
    spc__buf_release(&folder);
    spc__buf_release(&log);
}
END_TEST

/* The bits of `_i` are the standard descriptors that the host has closed. */
START_TEST(a_child_runs_where_standard_descriptors_are_closed)
{
    static const char *const words[] = {
        "sh", "-c", "sleep 0.2; echo said; echo more >&2; exit 7", NULL};
    spc__buf output = SPC__BUF_INIT;
    int exit_code = -1, state = -1;

    pid_t host = fork();
    if (host == 0) {
        for (int fd = 0; fd < 3; fd++)
            if (_i >> fd & 1)
                close(fd);
        spc_status status = spc__child_run(&exit_code, &output, "/bin/sh",
                                           words, NULL, 10, NULL, &error);
        bool heard = strcmp(spc__buf_text(&output), "said\nmore\n") == 0;
        _exit(status != SPC_OK ? 100 : heard ? exit_code : 101);
    }
    ck_assert_int_eq(waitpid(host, &state, 0), host);
    ck_assert_msg(WIFEXITED(state), "it was killed");
    ck_assert_int_eq(WEXITSTATUS(state), 7);
}
END_TEST

START_TEST(the_c_compiler_serves_several_threads)
{
    spc__compiler *cc = open_hostcc();
    compile_crowd c = {.compiler = cc,
                       .source = "int f(int x) { return x; }\n"};

    spc__parallel_for(8, 4, compile_in_crowd, &c);
    ck_assert_int_eq(atomic_load(&c.failures), 0);
    spc__compiler_close(cc);
}
END_TEST

/* ---- keys ---------------------------------------------------------------- */

START_TEST(a_key_depends_on_everything_that_decides_the_code)
{
    spc__library *library = open_test_library();
    spc__compiler first = {.identity = "nvrtc 13.0", .flags = "-a"};
    spc__compiler second = {.identity = "nvrtc 13.1", .flags = "-a"};
    spc__compiler third = {.identity = "nvrtc 13.0", .flags = "-b"};
    const struct {
        const spc__compiler *compiler;
        spc__compile_job job;
    } cases[] = {
        {&first, {"ab", "n", "t", "o", library, NULL}},
        {&first, {"a", "n", "bt", "o", library, NULL}},
        {&first, {"ab", "n", "to", "", library, NULL}},
        {&first, {"ab", "n", "t", "", library, NULL}},
        {&first, {"ab ", "n", "t", "o", library, NULL}},
        {&second, {"ab", "n", "t", "o", library, NULL}},
        {&third, {"ab", "n", "t", "o", library, NULL}},
        {&first, {"#include \"halo.cuh\"\n", "n", "t", "o", library, NULL}},
        {&first, {"#include \"halo.cuh\"\n", "n", "t", "o", NULL, NULL}},
        {&first, {"#include \"halo_types.h\"\n", "n", "t", "o", library, NULL}},
    };
    char keys[LENGTH(cases)][SPC__SHA256_HEX], again[SPC__SHA256_HEX];

    for (int i = 0; i < LENGTH(cases); i++) {
        spc__artefact_key(keys[i], cases[i].compiler, &cases[i].job);
        for (int j = 0; j < i; j++)
            ck_assert_msg(strcmp(keys[i], keys[j]) != 0, "%d and %d", i, j);
    }
    spc__artefact_key(again, cases[0].compiler, &cases[0].job);
    ck_assert_str_eq(again, keys[0]);
    spc__library_close(library);
}
END_TEST

START_TEST(a_key_depends_on_the_opening_comment_and_the_code)
{
    static const char *const sources[] = {
        "/* a */\nint x;\n",           "/* b */\nint x;\n",
        "/* a */\nint y;\n",           "/* a */\nint x;\nint x;\n",
        "/* a */\n#line\nint x;\n",    "/* a */\n# line 2\nint x;\n",
        "/* a */\nint x; #line 2 t\n", "/* a */ #line 2\nint x;\n",
    };
    spc__compiler compiler = {.identity = "nvrtc 13.0", .flags = "-a"};
    char keys[LENGTH(sources)][SPC__SHA256_HEX];

    for (int i = 0; i < LENGTH(sources); i++) {
        spc__artefact_key(keys[i], &compiler,
                          &(spc__compile_job){.source = sources[i]});
        for (int j = 0; j < i; j++)
            ck_assert_msg(strcmp(keys[i], keys[j]) != 0, "%d and %d", i, j);
    }
}
END_TEST

START_TEST(headers_are_followed_transitively_and_once)
{
    spc__library *library = open_test_library();
    spc__compile_job job = {.source = "# include  <halo.cuh>\n"
                                      "#include \"halo.cuh\"\n"
                                      "  #include \"unknown.h\"\n"
                                      "#include \"halo_types.h\"",
                            .headers = library};
    spc__includes includes;

    spc__includes_collect(&includes, &job);
    ck_assert_int_eq(includes.count, 2);
    ck_assert_str_eq(includes.names[0], "halo.cuh");
    ck_assert_str_eq(includes.names[1], "halo_types.h");
    spc__library_close(library);
}
END_TEST

/* ---- invalid cubins ------------------------------------------------------ */

static spc_status read_cubin(spc__attrs *out, const void *code, size_t bytes)
{
    char kernel[8];
    return spc__cubin_report(out, kernel, sizeof(kernel), code, bytes, &error);
}

START_TEST(what_is_no_cubin_is_an_error)
{
    spc__attrs out;

    assert_fails(read_cubin(&out, "", 0), SPC_EFORMAT);
    assert_fails(read_cubin(&out, NULL, 0), SPC_EFORMAT);
    assert_fails(read_cubin(&out, greedy_kernel, sizeof(greedy_kernel)),
                 SPC_EFORMAT);
}
END_TEST

START_TEST(a_damaged_cubin_is_an_error_or_an_answer)
{
    spc__compiler *nvrtc = open_nvrtc();
    spc__artefact artefact;
    spc__compile_job job = {
        .source = greedy_kernel, .name = "greedy", .target = "sm_90"};
    spc__attrs out;
    spc__random random;

    assert_ok(spc__compile(&artefact, nvrtc, &job, NULL, &error));
    spc__random_init(&random, 7);
    for (size_t bytes = 0; bytes < artefact.code_bytes; bytes += 97) {
        /* small: AddressSanitizer sees overreads */
        char *copy = malloc(bytes + 1);
        memcpy(copy, artefact.code, bytes);
        read_cubin(&out, copy, bytes);
        free(copy);
    }
    for (int round = 0; round < 2000; round++) {
        unsigned char *copy = malloc(artefact.code_bytes);
        memcpy(copy, artefact.code, artefact.code_bytes);
        for (int i = 0; i < 4; i++) {
            uint32_t range = round % 2 ? 64 : (uint32_t)artefact.code_bytes;
            copy[spc__random_below(&random, range)] =
                (unsigned char)spc__random_u64(&random);
        }
        read_cubin(&out, copy, artefact.code_bytes);
        free(copy);
    }
    spc__artefact_release(&artefact);
    spc__compiler_close(nvrtc);
}
END_TEST

/* ---- the suite ----------------------------------------------------------- */

static TCase *add_case(Suite *s, const char *name)
{
    TCase *tcase = tcase_create(name);
    tcase_set_timeout(tcase, 600); /* valgrind and sanitizers are slow */
    suite_add_tcase(s, tcase);
    return tcase;
}

static void add_rendering(Suite *s)
{
    TCase *t = add_case(s, "rendering");
    tcase_add_loop_test(t, a_rendering_matches_its_golden_file, 0,
                        LENGTH(goldens));
    tcase_add_test(t, rendering_twice_gives_the_same_bytes);
    tcase_add_test(t, a_failed_rendering_leaves_the_buffer_as_it_was);
    tcase_add_loop_test(t, a_value_is_written_as_c_wants_it, 0, LENGTH(values));
    tcase_add_loop_test(t, lines_of_the_output_follow_those_of_the_template, 0,
                        LENGTH(bodies));
    tcase_add_loop_test(t, a_mistake_in_the_body_names_its_line, 0,
                        LENGTH(mistakes));
    tcase_add_loop_test(t, a_broken_declaration_is_refused_in_words, 0,
                        LENGTH(broken));
    tcase_add_test(t, bytecode_is_refused);
    tcase_add_test(t, a_file_name_must_be_a_name);
}

static void add_sandbox(Suite *s)
{
    TCase *t = add_case(s, "sandbox");
    tcase_add_loop_test(t, a_hostile_template_does_no_harm, 0,
                        LENGTH(hostiles));
    tcase_add_loop_test(t, an_endless_loop_ends_wherever_it_is, 0,
                        LENGTH(endless));
    tcase_add_loop_test(t, an_endless_loop_heeds_the_flag, 0, LENGTH(endless));
    tcase_add_loop_test(t, a_declaration_that_rewrites_itself_does_no_harm, 0,
                        LENGTH(rewriting));
    tcase_add_test(t, a_library_serves_on_after_a_hostile_template);
    tcase_add_test(t, nothing_leaks_from_one_rendering_to_the_next);
    tcase_add_test(t, many_renderings_need_no_more_memory_than_a_few);
    tcase_add_test(t, each_refused_allocation_is_an_error);
    tcase_add_test(t, numbers_do_not_follow_the_locale);
    tcase_add_loop_test(t, mutated_templates_never_crash, 0, 4);
}

static void add_questions(Suite *s)
{
    TCase *t = add_case(s, "questions");
    tcase_add_test(t, templates_come_in_the_order_of_their_names);
    tcase_add_test(t, a_template_says_why_it_refuses_a_problem);
    tcase_add_test(t, the_default_has_the_order_of_the_declaration);
    tcase_add_loop_test(t, a_check_names_what_refuses, 0, LENGTH(checks));
    tcase_add_loop_test(t, a_fault_of_a_template_names_its_line, 0,
                        LENGTH(faults));
    tcase_add_test(t, a_refused_default_names_the_constraint);
    tcase_add_test(t, one_library_serves_several_threads);
    tcase_add_test(t, the_builtin_templates_load);
}

static void add_space(Suite *s)
{
    TCase *t = add_case(s, "space");
    tcase_add_test(t, a_space_has_every_candidate_and_one_default);
    tcase_add_test(t, candidates_come_last_parameter_fastest);
    tcase_add_test(t, a_target_says_whose_templates_it_takes);
    tcase_add_test(t, limits_of_the_target_refuse_candidates);
    tcase_add_test(t, an_empty_space_names_what_refused_most);
    tcase_add_test(t, a_faulty_template_is_a_refusal_until_nothing_else_serves);
    tcase_add_test(t, a_large_space_takes_little_time);
    tcase_add_test(t, too_large_a_space_is_an_error);
}

static void add_compilers(Suite *s)
{
    TCase *t = add_case(s, "compilers");
    tcase_add_test(t, without_nvrtc_the_error_names_the_path);
    tcase_add_loop_test(t, without_a_c_compiler_the_error_says_so, 0,
                        LENGTH(bad_ccs));
    tcase_add_test(t, rendered_c_runs);
    tcase_add_test(t, headers_reach_the_c_compiler);
    tcase_add_test(t, a_source_that_cannot_be_written_says_why);
    tcase_add_test(t, a_c_compile_error_points_to_the_template);
    tcase_add_test(t, a_call_of_an_unknown_function_is_a_compile_error);
    tcase_add_loop_test(t, a_compiler_that_hangs_is_killed, 0, LENGTH(deaths));
    tcase_add_test(t, a_compiler_may_leave_a_process_behind);
    tcase_add_loop_test(t, a_child_runs_where_standard_descriptors_are_closed,
                        1, 8);
    tcase_add_test(t, a_compiler_ends_with_a_host_that_is_killed);
    tcase_add_test(t, the_c_compiler_serves_several_threads);
    tcase_add_test(t, a_key_depends_on_everything_that_decides_the_code);
    tcase_add_test(t, a_key_depends_on_the_opening_comment_and_the_code);
    tcase_add_test(t, headers_are_followed_transitively_and_once);
    tcase_add_test(t, what_is_no_cubin_is_an_error);
}

static Suite *nvrtc_suite(void)
{
    Suite *s = suite_create("compiler, NVRTC");
    TCase *t = add_case(s, "NVRTC");
    tcase_add_test(t, rendered_cuda_becomes_a_cubin);
    tcase_add_test(t, the_report_of_a_cubin_agrees_with_the_log);
    tcase_add_test(t, a_compile_error_points_to_the_template);
    tcase_add_test(t, an_unknown_target_lists_the_known_ones);
    tcase_add_test(t, nvrtc_serves_several_threads);
    tcase_add_test(t, a_damaged_cubin_is_an_error_or_an_answer);
    return s;
}

static Suite *suite(void)
{
    Suite *s = suite_create("compiler");
    add_rendering(s);
    add_sandbox(s);
    add_questions(s);
    add_space(s);
    add_compilers(s);
    return s;
}

int main(int argc, char **argv)
{
    spc__compiler *nvrtc = NULL;

    if (!suite_is_part(argc, argv, "nvrtc"))
        return run_suite(suite());
    if (spc__nvrtc_open(&nvrtc, &error) != SPC_OK)
        return suite_skip(error.text);
    spc__compiler_close(nvrtc);
    return run_suite(nvrtc_suite());
}
