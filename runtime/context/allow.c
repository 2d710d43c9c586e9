/* SPDX-License-Identifier: Apache-2.0 */
/* allow.c - reads the lists of allowed templates. */
#include "context/allow.h"

#include "base/error.h"
#include "base/text/names.h"
#include "compiler/space.h"
#include "operators/pass.h"
#include <stdlib.h>
#include <string.h>

enum { MOST_NAMES = 64 };

/* The role of the templates that compute a pass. A gradient of inputs is
 * computed as a convolution. */
static const char *role_of(int pass)
{
    return pass == SPC_WGRAD ? "wgrad" : "conv";
}

/* Collects the names of the templates for a pass, ended by NULL. */
static void list_names(const char *names[MOST_NAMES + 1], spc__library *library,
                       int pass)
{
    int count = 0;

    for (int i = 0; i < spc__library_count(library) && count < MOST_NAMES;
         i++) {
        spc__template *tpl = spc__library_at(library, i);
        if (strcmp(spc__template_role(tpl), role_of(pass)) == 0)
            names[count++] = spc__template_name(tpl);
    }
    names[count] = NULL;
}

/* Without a compiler there are names, but no roles. */
static bool is_builtin(spc__span word)
{
    char name[SPC__TEMPLATE_NAME];
    bool found = false;

    for (int i = 0; !found && spc__builtin_template_name(name, i); i++)
        found = spc__span_is(word, name);
    return found;
}

/* Checks the names of one list. */
static spc_status check_names(spc__span list, spc__library *library, int pass,
                              const char *what, spc_error *error)
{
    const char *names[MOST_NAMES + 1] = {NULL};

    if (library != NULL)
        list_names(names, library, pass);
    while (list.at != NULL) {
        spc__span word = spc__scan_part(&list, '+');
        if (word.length == 0)
            return spc__fail(error, SPC_EINVAL,
                             "%s: the list of pass %s has an empty name: "
                             "expected %s=NAME+NAME",
                             what, spc__pass_names[pass],
                             spc__pass_names[pass]);
        if (library != NULL ? spc__name_find(names, word) >= 0
                            : is_builtin(word))
            continue;
        spc__fail_unknown(error, "template", word, names);
        return spc__fail_prefix(error, "%s, pass %s: ", what,
                                spc__pass_names[pass]);
    }
    return SPC_OK;
}

/* Reads "PASS=NAME+NAME". */
static spc_status read_word(spc__allow *out, spc__span word,
                            spc__library *library, const char *what,
                            spc_error *error)
{
    spc__span name, list;

    spc__scan_pair(&name, &list, word);
    if (list.at == NULL)
        return spc__fail(error, SPC_EINVAL,
                         "%s: '%.*s' is no list of templates for a pass: "
                         "expected PASS=NAME+NAME, such as "
                         "forward=os_mma+os_warp",
                         what, SPC__SPAN(word));
    int pass = spc__name_find(spc__pass_names, name);
    if (pass < 0) {
        spc__fail_unknown(error, "pass", name, spc__pass_names);
        return spc__fail_prefix(error, "%s: ", what);
    }
    if (out->lists[pass].at != NULL)
        return spc__fail(error, SPC_EINVAL, "%s has two lists for pass %s",
                         what, spc__pass_names[pass]);
    out->lists[pass] = list;
    return check_names(list, library, pass, what, error);
}

spc_status spc__allow_read(spc__allow *out, spc__library *library,
                           const char *text, const char *what, spc_error *error)
{
    spc_status status = SPC_OK;

    *out = (spc__allow){0};
    if (text[0] == '\0')
        return spc__fail(error, SPC_EINVAL,
                         "%s is empty, which would allow nothing: expected "
                         "PASS=NAME+NAME,..., or leave it out to allow all",
                         what);
    if ((out->text = strdup(text)) == NULL)
        return spc__fail_memory(error, strlen(text) + 1);
    spc__span rest = spc__span_of(out->text);
    while (rest.at != NULL && status == SPC_OK)
        status =
            read_word(out, spc__scan_part(&rest, ','), library, what, error);
    if (status != SPC_OK)
        spc__allow_release(out);
    return status;
}

void spc__allow_release(spc__allow *allow)
{
    free(allow->text);
    *allow = (spc__allow){0};
}

bool spc__allow_has(const spc__allow *allow, spc_pass pass,
                    const char *template_name)
{
    spc__span list = allow->lists[pass];
    bool has = list.at == NULL;

    while (list.at != NULL && !has)
        has = spc__span_is(spc__scan_part(&list, '+'), template_name);
    return has;
}
