/* SPDX-License-Identifier: Apache-2.0 */
/*
 * builtin.c - facts about the built-in templates that need neither opening them
 * nor Lua.
 */
#include "compiler/builtin.h"

#include "compiler/space.h"
#include "compiler/template.h"
#include <stdio.h>
#include <string.h>

static bool is_name(const char *file, const char *name)
{
    size_t length = strlen(name);

    return strncmp(file, name, length) == 0 &&
           (strcmp(file + length, ".cu.lua") == 0 ||
            strcmp(file + length, ".c.lua") == 0);
}

bool spc__builtin_template_hash(char hex[SPC__SHA256_HEX], const char *name)
{
    for (int i = 0; i < spc__builtin_count; i++)
        if (is_name(spc__builtin_files[i].name, name)) {
            memcpy(hex, spc__builtin_files[i].hash, SPC__SHA256_HEX);
            return true;
        }
    return false;
}

/* The name is the part before the first point: "os_mma" of "os_mma.cu.lua". */
bool spc__builtin_template_name(char name[SPC__TEMPLATE_NAME], int i)
{
    for (int at = 0; at < spc__builtin_count; at++) {
        const spc__builtin_file *file = &spc__builtin_files[at];
        if (file->hash[0] == '\0' || i-- > 0)
            continue;
        snprintf(name, SPC__TEMPLATE_NAME, "%.*s",
                 (int)strcspn(file->name, "."), file->name);
        return true;
    }
    return false;
}

const char *spc__target_templates(const spc__attrs *target)
{
    const char *device = spc__attrs_text(target, "device", "cuda");

    return spc__attrs_text(target, "templates", device);
}
