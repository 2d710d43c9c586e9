/* SPDX-License-Identifier: Apache-2.0 */
/* clang-format off */
/*
 * table.h - trials and choices as a table that people can review.
 *
 *     template os_warp template=os_warp hash=~dPfE... config=rows,depth,...
 *     for device="NVIDIA H200" target=sm_90a version=0.1.0 ...
 *     for layer=op=subm,cin=16,cout=16,k*=3,... family=$w3k0
 *     choice 33,,-5 os_warp 16,4,8,1,shared,shared,planes 12.5 20.1 $8fa1
 *      0.02 24 0.91 1795725877 $x1yz 16.3,0,-2.5,4,4 ~98pB...
 *     note w3k0 op=subm,k*=3,dtype=f16,bias=0
 *
 * A row consists of cells in the order of spc__table_first, then of
 * spc__table_chosen for a choice, and on a second line of spc__table_second. The
 * row of a choice is also that of its trial. The other fields come from the last
 * line 'for' that names them. The line of a template lists the names of its
 * attributes, so that a row needs only their values.
 *
 * A cell is one of
 *
 *     -        nothing
 *     .        the usual value; for a choice, that of its trial
 *     $KEY     the text of a line 'note', which may stand anywhere
 *     ~BASE64  a digest, elsewhere written in hexadecimal digits
 *     "TEXT"   a text, with \" \\ and \x00
 *     TEXT     a plain text, a complete list of attributes, or their values
 *
 * Values of attributes are separated by commas, in the order of the names in the
 * template's line. An empty one is the usual value there (NAME=USUAL), or means
 * that there is no such attribute; '!' always means that. In layers and
 * families, k*=3 means kx=3,ky=3,kz=3.
 */
/* clang-format on */
#ifndef SPC_CACHE_TABLE_H
#define SPC_CACHE_TABLE_H

#include "base/attrs.h"
#include "base/buf.h"
#include "cache/exchange/record_form.h"
#include <stdbool.h>

/* A field with a cell of its own, and its usual value (NULL: none). */
typedef struct spc__table_field {
    const char *field, *usual;
} spc__table_field;

enum {
    SPC__TABLE_FIRST = 5,
    SPC__TABLE_CHOSEN = 8,
    SPC__TABLE_SECOND = 13,
    SPC__TABLE_ABOVE = 9,
    SPC__TABLE_LISTS = 5
};

extern const spc__table_field spc__table_first[SPC__TABLE_FIRST];
extern const spc__table_field spc__table_chosen[SPC__TABLE_CHOSEN];
extern const spc__table_field spc__table_second[SPC__TABLE_SECOND];
/* The fields that lines 'for' give. The last two have a line of their own. */
enum { SPC__TABLE_LAYER = 7, SPC__TABLE_FAMILY };
extern const char *const spc__table_above[SPC__TABLE_ABOVE];
/* The fields whose attributes a template's line names. */
extern const char *const spc__table_lists[SPC__TABLE_LISTS];

/* The index of a name in spc__table_lists, or -1. */
int spc__table_list_of(const char *field);

/* The attributes of one field, by their names. */
typedef struct spc__columns {
    struct {
        char name[SPC__ATTR_NAME];
        char usual[SPC__ATTR_TEXT]; /* "": none */
    } at[SPC__ATTRS_MAX];
    int count;
} spc__columns;

/* A template's line. */
typedef struct spc__table_template {
    char label[48]; /* its name, or NAME.HASH for a second text of this name */
    char name[32], hash[65];
    spc__columns lists[SPC__TABLE_LISTS];
} spc__table_template;

#endif
