/* SPDX-License-Identifier: Apache-2.0 */
/* header_structs.h - checks that tests know the size of every struct of a
 * public header. */
#ifndef SPC_TESTS_HEADER_STRUCTS_H
#define SPC_TESTS_HEADER_STRUCTS_H

#include "base/buf.h"
#include "base/file.h"
#include "harness/suite.h"

/* Fails unless `bytes_of` knows each `typedef struct NAME {` of the header.
 * Returns how many there are. */
static inline int check_structs(const char *path,
                                size_t (*bytes_of)(const char *name))
{
    static const char begin[] = "\ntypedef struct ";
    spc__buf text = SPC__BUF_INIT;
    spc_error e;
    int structs = 0;

    ck_assert_msg(spc__file_read(&text, path, 1 << 22, &e) == SPC_OK, "%s",
                  e.text);
    for (const char *at = spc__buf_text(&text);
         (at = strstr(at, begin)) != NULL;) {
        char name[64];

        at += sizeof(begin) - 1;
        int length = (int)strcspn(at, " {;\n");
        snprintf(name, sizeof(name), "%.*s", length, at);
        if (at[length] != ' ' || at[length + 1] != '{')
            continue; /* an opaque type */
        ck_assert_msg(bytes_of(name) > 0, "%s of %s has no known size", name,
                      path);
        structs++;
    }
    spc__buf_release(&text);
    return structs;
}

#endif
