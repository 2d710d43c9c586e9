/* SPDX-License-Identifier: Apache-2.0 */
/* architecture.c - the table of GPU architectures. */
#include "device/architecture.h"

#include "base/text/scan.h"
#include <string.h>

/* CUDA C++ Programming Guide, table of compute capabilities. The first row is
 * what the emulation has by default. */
const spc__architecture spc__architectures[] = {
    {"sm_90a", 90, 232448, 233472, 2048, 32},
    {"sm_90", 90, 232448, 233472, 2048, 32},
    {"sm_75", 75, 65536, 65536, 1024, 16},
    {"sm_80", 80, 166912, 167936, 2048, 32},
    {"sm_86", 86, 101376, 102400, 1536, 16},
    {"sm_89", 89, 101376, 102400, 1536, 24},
    {"sm_100", 100, 232448, 233472, 2048, 32},
    {"sm_120", 120, 101376, 102400, 1536, 24},
    {0},
};

const spc__architecture *spc__architecture_find(const char *target)
{
    for (const spc__architecture *a = spc__architectures; a->name != NULL; a++)
        if (strcmp(a->name, target) == 0)
            return a;
    return NULL;
}

int spc__architecture_sm(const char *target)
{
    static const char prefix[] = "sm_";
    spc__span digits;
    int64_t sm;

    if (strncmp(target, prefix, strlen(prefix)) != 0)
        return 0;
    /* A letter at the end selects instructions of the same hardware. */
    digits = spc__span_of(target + strlen(prefix));
    digits.length = strspn(digits.at, "0123456789");
    return spc__scan_integer(&sm, digits, 1, 9999) ? (int)sm : 0;
}
