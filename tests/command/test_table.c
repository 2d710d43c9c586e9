/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_table.c - tables of the command are complete in a file and fit a
 * terminal.
 */
#include "command/cli/table.h"
#include "harness/suite.h"

#include <stdlib.h>
#include <string.h>

Suite *suite(void);

static const char *const titles[] = {">id",  "layer",  "-device", ">us",
                                     "note", "--file", NULL};
enum { COLUMNS = 6, ROWS = 2 };
static const char *const cells[ROWS][COLUMNS] = {
    {"1", "subm,cin=16,cout=32,k=3,dtype=f16,epilogue=scale+bias+relu",
     "NVIDIA H200", "12.5", "", "/home/somebody/.cache/spctune/spctune.db"},
    {"204", "inverse,cin=64,cout=16,k=2,rule=floor,stride=2,dtype=bf16", "cpu",
     "1340.0", "two words", "/home/somebody/.cache/spctune/spctune.db"},
};

/* Returns the table as text with lines of `width`. The caller frees it. */
static char *print(int width)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *to = open_memstream(&text, &bytes);
    table t;

    table_init(&t, titles);
    for (int r = 0; r < ROWS; r++)
        for (int c = 0; c < COLUMNS; c++)
            if (cells[r][c][0] == '\0')
                table_blank(&t);
            else
                table_cell(&t, "%s", cells[r][c]);
    table_print_width(&t, to, width);
    table_release(&t);
    fclose(to);
    return text;
}

static int widest_line(const char *text)
{
    int widest = 0;

    while (*text != '\0') {
        int length = (int)strcspn(text, "\n");
        ck_assert_msg(length == 0 || text[length - 1] != ' ', "%s", text);
        widest = length > widest ? length : widest;
        text += length + (text[length] == '\n');
    }
    return widest;
}

/* Returns `text` without the blanks and line ends that a table adds. */
static char *squeeze(const char *text)
{
    char *out = calloc(1, strlen(text) + 1), *at = out;

    for (; *text != '\0'; text++)
        if (*text != ' ' && *text != '\n')
            *at++ = *text;
    return out;
}

START_TEST(no_line_is_wider_than_the_terminal)
{
    for (int width = 30; width <= 200; width++) {
        char *text = print(width);
        ck_assert_msg(widest_line(text) <= width, "%d: %d\n%s", width,
                      widest_line(text), text);
        free(text);
    }
}
END_TEST

START_TEST(a_file_gets_every_column_in_one_line_a_row)
{
    char *text = print(0);
    int lines = 0;

    for (const char *at = text; *at != '\0'; at++)
        lines += *at == '\n';
    ck_assert_int_eq(lines, 1 + ROWS);
    for (int r = 0; r < ROWS; r++)
        for (int c = 0; c < COLUMNS; c++)
            ck_assert_ptr_nonnull(strstr(text, cells[r][c]));
    free(text);
}
END_TEST

/* Cells are wrapped first. Then --file is left out, then -device. */
START_TEST(the_least_important_columns_are_left_out_first)
{
    static const struct {
        int width;
        const char *rest;
    } rows[] = {
        {180, NULL},
        {120, NULL},
        {75, "(not shown in this width: file)\n"},
        {50, "(not shown in this width: device, file)\n"},
    };
    char *text = print(rows[_i].width);
    const char *rest = strstr(text, "(not shown");

    if (rows[_i].rest == NULL)
        ck_assert_msg(rest == NULL, "%s", text);
    else
        ck_assert_msg(rest != NULL && strcmp(rest, rows[_i].rest) == 0, "%s",
                      text);
    free(text);
}
END_TEST

/* Each row becomes a block with all of its cells. */
START_TEST(a_row_that_does_not_fit_becomes_a_block)
{
    char *text = print(30), *bare = squeeze(text);

    ck_assert_msg(strncmp(text, "id      1\n", 10) == 0, "%s", text);
    ck_assert_ptr_null(strstr(text, "not shown"));
    for (int r = 0; r < ROWS; r++)
        for (int c = 0; c < COLUMNS; c++) {
            char *cell = squeeze(cells[r][c]);
            ck_assert_msg(strstr(bare, cell) != NULL, "no '%s' in\n%s",
                          cells[r][c], text);
            free(cell);
        }
    free(bare);
    free(text);
}
END_TEST

/* Widths are in characters, not bytes, and no cell is truncated. */
START_TEST(cells_have_any_length_and_umlauts)
{
    static const char *const one[] = {"name", ">n", NULL};
    char *text = NULL, path[2001];
    size_t bytes = 0;
    FILE *to = open_memstream(&text, &bytes);
    table t;

    memset(path, 'x', sizeof(path) - 1);
    path[sizeof(path) - 1] = '\0';
    table_init(&t, one);
    table_cell(&t, "M\xc3\xbcnchen");
    table_cell(&t, "1");
    table_cell(&t, "Nirgend");
    table_cell(&t, "2");
    table_print_width(&t, to, 0);
    table_release(&t);
    table_init(&t, one);
    table_cell(&t, "%s", path);
    table_cell(&t, "a\nb\x1b[2J");
    table_print_width(&t, to, 0);
    table_release(&t);
    fclose(to);
    ck_assert_str_eq(strstr(text, "M"), strstr(text, "M\xc3\xbcnchen  1\nNir"));
    ck_assert_ptr_nonnull(strstr(text, path));
    ck_assert_ptr_nonnull(strstr(text, "a b?[2J"));
    free(text);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("table");
    TCase *t = tcase_create("table");

    tcase_add_test(t, no_line_is_wider_than_the_terminal);
    tcase_add_test(t, a_file_gets_every_column_in_one_line_a_row);
    tcase_add_loop_test(t, the_least_important_columns_are_left_out_first, 0,
                        4);
    tcase_add_test(t, a_row_that_does_not_fit_becomes_a_block);
    tcase_add_test(t, cells_have_any_length_and_umlauts);
    suite_add_tcase(s, t);
    return s;
}

int main(void)
{
    return run_suite(suite());
}
