/* output.c - tables for people, JSON for programs. */
#include "output.h"

#include "cli.h"
#include "printable.h"
#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

void table_init(table *t, const char *const *titles)
{
    memset(t, 0, sizeof(*t));
    for (; titles[t->columns] != NULL && t->columns < TABLE_COLUMNS;
         t->columns++) {
        t->right[t->columns] = titles[t->columns][0] == '>';
        t->titles[t->columns] =
            titles[t->columns] + (t->right[t->columns] ? 1 : 0);
    }
    assert(titles[t->columns] == NULL); /* else TABLE_COLUMNS is too few */
}

static void add_row(table *t)
{
    size_t cells = (size_t)(t->rows + 1) * (size_t)t->columns;
    char **more = realloc(t->cells, cells * sizeof(*more));

    if (more == NULL) {
        t->failed = true;
        return;
    }
    memset(more + (size_t)t->rows * (size_t)t->columns, 0,
           (size_t)t->columns * sizeof(*more));
    t->cells = more;
    t->rows++;
}

static void put(table *t, char *text)
{
    if (t->at == 0)
        add_row(t);
    if (t->failed)
        free(text);
    else
        t->cells[(t->rows - 1) * t->columns + t->at] = text;
    t->at = (t->at + 1) % t->columns;
}

void table_cell(table *t, const char *format, ...)
{
    char text[512];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    spc__make_printable(text);
    put(t, strdup(text));
}

void table_blank(table *t)
{
    put(t, NULL);
}

void table_us(table *t, double us)
{
    if (us <= 0)
        table_blank(t);
    else
        table_cell(t, "%.*f", us < 100 ? 2 : us < 10000 ? 1 : 0, us);
}

static const char *cell(const table *t, int row, int column)
{
    const char *text =
        row < 0 ? t->titles[column] : t->cells[row * t->columns + column];
    return text != NULL ? text : "";
}

/* The widest cell of a column; 0: no row says anything there, and so a table
 * that has rows is without it. */
static int width_of(const table *t, int column)
{
    int width = 0;

    for (int r = 0; r < t->rows; r++)
        if ((int)strlen(cell(t, r, column)) > width)
            width = (int)strlen(cell(t, r, column));
    if ((width > 0 || t->rows == 0) && (int)strlen(t->titles[column]) > width)
        width = (int)strlen(t->titles[column]);
    return width;
}

void table_print(const table *t, FILE *to)
{
    int width[TABLE_COLUMNS] = {0}, end = 0;

    for (int c = 0; c < t->columns; c++)
        if ((width[c] = width_of(t, c)) > 0)
            end = c;
    for (int r = -1; r < t->rows; r++) {
        for (int c = 0; c <= end; c++) {
            int room = t->right[c] ? width[c] : c == end ? 0 : -width[c];
            if (width[c] > 0)
                fprintf(to, "%*s%s", room, cell(t, r, c), c == end ? "" : "  ");
        }
        fputc('\n', to);
    }
}

void table_release(table *t)
{
    for (int i = 0; i < t->rows * t->columns; i++)
        free(t->cells[i]);
    free(t->cells);
    memset(t, 0, sizeof(*t));
}

/* Standard output gets one JSON value. */
static bool has_json;

spc_status output_json(spc__buf *text)
{
    spc_status status = SPC_OK;

    if (text->failed)
        status = cli_fail(SPC_ENOMEM, "out of memory");
    else if (puts(spc__buf_text(text)) < 0) /* while errno says why */
        status = cli_fail(SPC_EIO, "cannot write to standard output: %s",
                          strerror(errno));
    has_json |= !text->failed;
    spc__buf_release(text);
    return status;
}

void json_error(spc__json *json, spc_status status, const char *message)
{
    spc__json_object(json, "error");
    spc__json_int(json, "status", spc_status_exit_code(status));
    spc__json_text(json, "name", spc_status_name(status));
    spc__json_text(json, "message", message);
    spc__json_end_object(json);
}

void output_error(void)
{
    const spc_error *error = cli_last_error();
    spc__buf text = SPC__BUF_INIT;
    spc__json json;

    if (has_json || error->status == SPC_OK)
        return;
    spc__json_init(&json, &text);
    spc__json_object(&json, NULL);
    json_error(&json, error->status, error->text);
    spc__json_end_object(&json);
    output_json(&text);
}

const char *origin_name(spc_origin origin)
{
    static const char *const names[] = {"exact", "bucket", "nearest",
                                        "default"};
    return names[origin];
}
