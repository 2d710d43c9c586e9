/* SPDX-License-Identifier: Apache-2.0 */
/* test_out_file.c - files that commands write: complete, or unchanged. */
#include "harness/failing_writes.h"

#include "base/file.h"
#include "command/cli/cli.h"
#include "command/cli/out_file.h"
#include "harness/folder_harness.h"
#include "harness/suite.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>

Suite *suite(void);

static char file[400]; /* a file in that folder */
static spc_error error;

static char said[400];

/* Replaces the command's function, which also prints. */
spc_status cli_fail(spc_status status, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(said, sizeof(said), format, args);
    va_end(args);
    return status;
}

static void name_file(void)
{
    make_folder();
    snprintf(file, sizeof(file), "%s/file", spc__buf_text(&folder));
}

static void assert_holds(const char *path, const char *text)
{
    spc__buf found = SPC__BUF_INIT;

    ck_assert_int_eq(spc__file_read(&found, path, 1 << 20, &error), SPC_OK);
    ck_assert_str_eq(spc__buf_text(&found), text);
    spc__buf_release(&found);
}

static int files_in_folder(void)
{
    DIR *at = opendir(spc__buf_text(&folder));
    int count = -2;

    while (readdir(at) != NULL)
        count++;
    closedir(at);
    return count;
}

static spc_status put(const char *text)
{
    size_t half = strlen(text) / 2;
    spc__piece pieces[] = {{text, half}, {text + half, strlen(text) - half}};

    return out_file_put(file, pieces, 2);
}

START_TEST(a_disk_that_is_full_at_any_write_leaves_the_old_file)
{
    for (disk_fault how = DISK_STAYS_FULL; how <= DISK_TAKES_HALF; how++)
        for (int nth = 1; nth <= 2; nth++) {
            ck_assert_int_eq(put("what was there"), SPC_OK);
            fail_write(nth, how);
            ck_assert_int_eq(put("this is longer than what was"), SPC_EIO);
            fail_write(0, how);
            ck_assert_ptr_nonnull(strstr(said, "No space left on device"));
            assert_holds(file, "what was there");
            ck_assert_int_eq(files_in_folder(), 1);
        }
    ck_assert_int_eq(put("this is longer than what was"), SPC_OK);
    assert_holds(file, "this is longer than what was");
}
END_TEST

START_TEST(a_disk_that_is_full_leaves_no_new_file)
{
    fail_write(1, DISK_TAKES_HALF);
    ck_assert_int_eq(put("text"), SPC_EIO);
    fail_write(0, DISK_STAYS_FULL);
    ck_assert_int_eq(files_in_folder(), 0);
}
END_TEST

START_TEST(what_is_written_bit_by_bit_is_there_once_it_is_saved)
{
    out_file out;

    ck_assert_int_eq(put("old"), SPC_OK);
    ck_assert_int_eq(out_file_open(&out, file), SPC_OK);
    fputs("one\n", out.to);
    assert_holds(file, "old");
    ck_assert_int_eq(out_file_save(&out), SPC_OK);
    assert_holds(file, "one\n");
    fputs("two\n", out.to);
    assert_holds(file, "one\n");
    ck_assert_int_eq(out_file_close(&out, SPC_OK), SPC_OK);
    assert_holds(file, "one\ntwo\n");
    ck_assert_int_eq(out_file_open(&out, file), SPC_OK);
    fputs("three\n", out.to);
    ck_assert_int_eq(out_file_close(&out, SPC_EINVAL), SPC_EINVAL);
    assert_holds(file, "one\ntwo\n");
    ck_assert_int_eq(files_in_folder(), 1);
}
END_TEST

START_TEST(a_link_stays_one_and_a_mode_stays)
{
    char link[420];
    struct stat facts;

    snprintf(link, sizeof(link), "%s.link", file);
    ck_assert_int_eq(put("old"), SPC_OK);
    ck_assert_int_eq(chmod(file, 0640), 0);
    ck_assert_int_eq(symlink("file", link), 0);
    ck_assert_int_eq(out_file_put(link, &(spc__piece){"new", 3}, 1), SPC_OK);
    assert_holds(file, "new");
    ck_assert_int_eq(lstat(link, &facts), 0);
    ck_assert(S_ISLNK(facts.st_mode));
    ck_assert_int_eq(stat(file, &facts), 0);
    ck_assert_int_eq(facts.st_mode & 07777, 0640);
}
END_TEST

static const char *const impossible[] = {"/dev/full", "/proc/none/file", "/",
                                         "/dev/null/file", ""};

START_TEST(what_cannot_be_written_is_an_error)
{
    out_file out;
    spc_status status = out_file_open(&out, impossible[_i]);

    if (status == SPC_OK) {
        fputs("text", out.to);
        status = out_file_close(&out, SPC_OK);
    }
    ck_assert_int_eq(status, SPC_EIO);
}
END_TEST

START_TEST(a_device_is_written_to_as_it_is)
{
    ck_assert_int_eq(out_file_put("/dev/null", &(spc__piece){"text", 4}, 1),
                     SPC_OK);
    struct stat facts;
    ck_assert_int_eq(stat("/dev/null", &facts), 0);
    ck_assert(S_ISCHR(facts.st_mode));
}
END_TEST

/* The first bytes of each kind of file. */
#define START(text) text, sizeof(text) - 1
static const struct {
    const char *kind, *start;
    size_t bytes;
} kinds[] = {
    {"a SQLite database", START("SQLite format 3\0and pages")},
    {"a NumPy array", START("\x93NUMPY\1\0v\0{'descr': '<f4'")},
    {"safetensors", START("\x20\1\0\0\0\0\0\0{\"x\":{}}")},
    {"an archive", START("PK\3\4\x14")},
    {"a program", START("\177ELF\2\1\1")},
    {"a web page", START("<!DOCTYPE html>\n")},
    {"records of a database", START("# spctune records 1: ...\n")},
    {"the manifest of a pack", START("# spctune manifest 1\n")},
    {"figures of an audit", START("# spctune audit 1\n")},
    {"JSON", START("{\"records\":[]}\n")},
    {"text", START("local x = input {channels = 4}\n\xc3\xa4")},
    {"data of an unknown kind", START("\0\0\x80\x3f\1\2")},
};

enum { KINDS = sizeof(kinds) / sizeof(*kinds) };

/* Commands never write the first kind: no output is a database. */
START_TEST(a_file_replaces_only_one_of_its_kind)
{
    spc__piece old = {kinds[_i].start, kinds[_i].bytes};
    spc__buf found = SPC__BUF_INIT;

    for (int k = 1; k < KINDS; k++) {
        spc__piece pieces[] = {{kinds[k].start, 1},
                               {kinds[k].start + 1, kinds[k].bytes - 1}};
        ck_assert_int_eq(spc__file_put(file, &old, 1, &error), SPC_OK);
        ck_assert_int_eq(out_file_put(file, pieces, 2),
                         k == _i ? SPC_OK : SPC_EINVAL);
        spc__buf_clear(&found);
        spc__file_read(&found, file, 1 << 20, &error);
        ck_assert_uint_eq(found.length, old.bytes);
        ck_assert_mem_eq(found.data, kinds[_i].start, old.bytes);
        ck_assert(k == _i || strstr(said, kinds[_i].kind) != NULL);
    }
    spc__buf_release(&found);
    ck_assert_int_eq(files_in_folder(), 1);
}
END_TEST

/* Empty files, as mktemp makes them. */
START_TEST(an_empty_file_is_filled)
{
    ck_assert_int_eq(spc__file_write(file, "", 0, &error), SPC_OK);
    ck_assert_int_eq(put("text"), SPC_OK);
    assert_holds(file, "text");
}
END_TEST

/* SQLite takes files with these endings next to a database for parts of it. */
START_TEST(nothing_is_written_beside_a_database)
{
    static const char *const endings[] = {"-wal", "-shm", "-journal"};
    const spc__piece database = {kinds[0].start, kinds[0].bytes};
    const spc__piece text = {"x", 1};
    char beside[420];
    out_file out;

    for (int i = 0; i < 3; i++) {
        snprintf(beside, sizeof(beside), "%s%s", file, endings[i]);
        ck_assert_int_eq(put("text"), SPC_OK);
        ck_assert_int_eq(out_file_put(beside, &text, 1), SPC_OK);
        unlink(beside);
        ck_assert_int_eq(spc__file_put(file, &database, 1, &error), SPC_OK);
        ck_assert_int_eq(out_file_put(beside, &text, 1), SPC_EINVAL);
        ck_assert_ptr_nonnull(strstr(said, "as part of the database"));
        unlink(file);
    }
    /* A log means that the database may be open. */
    snprintf(beside, sizeof(beside), "%s-wal", file);
    ck_assert_int_eq(spc__file_put(file, &database, 1, &error), SPC_OK);
    ck_assert_int_eq(spc__file_write(beside, "x", 1, &error), SPC_OK);
    ck_assert_int_eq(out_file_open(&out, file), SPC_EINVAL);
    ck_assert_ptr_nonnull(strstr(said, "may be open elsewhere"));
}
END_TEST

Suite *suite(void)
{
    Suite *all = suite_create("out_file");
    TCase *part = tcase_create("out_file");

    tcase_add_checked_fixture(part, name_file, remove_folder);
    tcase_add_test(part, a_disk_that_is_full_at_any_write_leaves_the_old_file);
    tcase_add_test(part, a_disk_that_is_full_leaves_no_new_file);
    tcase_add_test(part, what_is_written_bit_by_bit_is_there_once_it_is_saved);
    tcase_add_test(part, a_link_stays_one_and_a_mode_stays);
    tcase_add_loop_test(part, what_cannot_be_written_is_an_error, 0, 5);
    tcase_add_test(part, a_device_is_written_to_as_it_is);
    tcase_add_loop_test(part, a_file_replaces_only_one_of_its_kind, 0, KINDS);
    tcase_add_test(part, an_empty_file_is_filled);
    tcase_add_test(part, nothing_is_written_beside_a_database);
    suite_add_tcase(all, part);
    return all;
}

int main(void)
{
    return run_suite(suite());
}
