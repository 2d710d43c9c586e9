/* SPDX-License-Identifier: Apache-2.0 */
/*
 * comma_locale.h - a locale with a decimal comma, for tests on any machine.
 *
 * Few machines have such a locale installed, so its file is written here, in
 * the format of the GNU C library: a magic number, the number of fields, their
 * positions, and the fields.
 */
#ifndef SPC_TESTS_COMMA_LOCALE_H
#define SPC_TESTS_COMMA_LOCALE_H

#include "base/file.h"
#include "harness/suite.h"

#include <locale.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

static inline void use_decimal_comma(void)
{
    const struct {
        uint32_t magic, count, at[6];
        char point[4], thousands[4], grouping[4];
        uint32_t wide_point, wide_thousands;
        char codeset[8];
    } numeric = {0x20031115 ^ LC_NUMERIC,
                 6,
                 {32, 36, 40, 44, 48, 52},
                 ",",
                 "",
                 "\177",
                 ',',
                 0,
                 "UTF-8"};
    spc__buf folder = SPC__BUF_INIT, file = SPC__BUF_INIT;

    ck_assert_int_eq(spc__temp_dir_create(&folder, NULL), SPC_OK);
    spc__buf_printf(&file, "%s/comma/LC_NUMERIC", spc__buf_text(&folder));
    ck_assert_int_eq(spc__make_parents(spc__buf_text(&file), NULL), SPC_OK);
    ck_assert_int_eq(
        spc__file_write(spc__buf_text(&file), &numeric, sizeof(numeric), NULL),
        SPC_OK);
    setenv("LOCPATH", spc__buf_text(&folder), 1);
    const char *set = setlocale(LC_NUMERIC, "comma");
    unsetenv("LOCPATH");
    unlink(spc__buf_text(&file));
    *strrchr(file.data, '/') = '\0';
    rmdir(spc__buf_text(&file));
    spc__temp_dir_remove(spc__buf_text(&folder));
    spc__buf_release(&file);
    spc__buf_release(&folder);
    ck_assert_ptr_nonnull(set);
    ck_assert_str_eq(localeconv()->decimal_point, ",");
}

#endif
