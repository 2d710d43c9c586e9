/* SPDX-License-Identifier: Apache-2.0 */
/* ceilings.c - stores the measured figures of a device as facts of the
 * database. */
#include "context/ceilings.h"

#include "base/number.h"
#include <stdio.h>
#include <string.h>

/* A figure, or an array with one for each size of gathered rows. */
static const struct {
    const char *name;
    size_t offset;
    bool by_row_bytes;
} figures[] = {
#define AT(member) offsetof(spc_device_info, member)
    {"memory_read_gbps", AT(memory.read_gbps), false},
    {"memory_write_gbps", AT(memory.write_gbps), false},
    {"memory_copy_gbps", AT(memory.copy_gbps), false},
    {"cache_read_gbps", AT(cache.read_gbps), false},
    {"cache_write_gbps", AT(cache.write_gbps), false},
    {"cache_copy_gbps", AT(cache.copy_gbps), false},
    {"gather_near_gbps", AT(gather_near_gbps), true},
    {"gather_far_gbps", AT(gather_far_gbps), true},
    {"gather_cold_gbps", AT(gather_cold_gbps), true},
    {"f16_tflops", AT(f16_tflops), false},
    {"tf32_tflops", AT(tf32_tflops), false},
    {"f32_tflops", AT(f32_tflops), false},
    {"i8_tflops", AT(i8_tflops), false},
    {"launch_us", AT(launch_us), false},
#undef AT
};

typedef void (*figure_visit)(spc__attrs *facts, const char *name,
                             double *figure);

/* The size of a row in bytes follows the name: "gather_far_gbps_64". */
static void each(spc_device_info *info, spc__attrs *facts, figure_visit visit)
{
    for (size_t i = 0; i < sizeof(figures) / sizeof(figures[0]); i++) {
        double *figure = (double *)((char *)info + figures[i].offset);
        char name[SPC__ATTR_NAME];
        if (!figures[i].by_row_bytes) {
            visit(facts, figures[i].name, figure);
            continue;
        }
        for (int size = 0; size < SPC_GATHER_SIZES; size++) {
            snprintf(name, sizeof(name), "%s_%d", figures[i].name, 8 << size);
            visit(facts, name, &figure[size]);
        }
    }
}

/* Writes a figure that was measured. Others are left out. */
static void write_one(spc__attrs *facts, const char *name, double *figure)
{
    char text[SPC__ATTR_TEXT];

    spc__number_print(text, sizeof(text), 6, *figure);
    /* The "+" of an exponent is not allowed in an attribute, and such values
     * are absurd. */
    if (*figure > 0 && strchr(text, '+') == NULL)
        spc__attrs_set_text(facts, name, text);
}

static void read_one(spc__attrs *facts, const char *name, double *figure)
{
    *figure = 0;
    spc__number_read(figure, spc__attrs_text(facts, name, "0"));
}

static void clear_one(spc__attrs *facts, const char *name, double *figure)
{
    (void)facts;
    (void)name;
    *figure = 0;
}

void spc__ceilings_write(spc__attrs *facts, const spc_device_info *info)
{
    spc_device_info copy = *info;

    spc__attrs_set_number(facts, "measured_units", info->multiprocessors);
    each(&copy, facts, write_one);
}

void spc__ceilings_read(spc_device_info *info, const spc__attrs *facts)
{
    spc__attrs copy = *facts;
    bool same =
        spc__attrs_number(facts, "measured_units", 0) == info->multiprocessors;

    each(info, &copy, same ? read_one : clear_one);
}
