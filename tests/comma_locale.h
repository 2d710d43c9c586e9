/*
 * comma_locale.h - for tests: a locale that writes 1,5, on any machine.
 *
 * Few machines have one installed, so its file is written here, as the C
 * library of GNU reads it: a magic number, the number of fields, where they
 * are, and the fields.
 */
#ifndef SPC_TESTS_COMMA_LOCALE_H
#define SPC_TESTS_COMMA_LOCALE_H

#include "suite.h"

#include <locale.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
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
    char folder[] = "/tmp/spctune-locale-XXXXXX", comma[64], file[96];

    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(comma, sizeof(comma), "%s/comma", folder);
    snprintf(file, sizeof(file), "%s/LC_NUMERIC", comma);
    ck_assert_int_eq(mkdir(comma, 0700), 0);
    FILE *out = fopen(file, "wb");
    ck_assert_ptr_nonnull(out);
    ck_assert_int_eq(fwrite(&numeric, sizeof(numeric), 1, out), 1);
    fclose(out);
    setenv("LOCPATH", folder, 1);
    const char *set = setlocale(LC_NUMERIC, "comma");
    unsetenv("LOCPATH");
    unlink(file);
    rmdir(comma);
    rmdir(folder);
    ck_assert_ptr_nonnull(set);
    ck_assert_str_eq(localeconv()->decimal_point, ",");
}

#endif
