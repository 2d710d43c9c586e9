/* SPDX-License-Identifier: Apache-2.0 */
/* audit_figures.c - results of an audit, as numbers and as lines. */
#include "command/audit/audit_figures.h"

#include "base/text/scan.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const audit_names[AUDIT_FIGURES] = {
    [AUDIT_REGRET] = "regret",
    [AUDIT_FLIP] = "flip",
    [AUDIT_SERVED] = "served",
    [AUDIT_BUCKET] = "bucket",
};

const char *const audit_about[AUDIT_FIGURES] = {
    [AUDIT_REGRET] = "quick's choice over the best that is known",
    [AUDIT_FLIP] = "the choices of two tunings, one over the other",
    [AUDIT_SERVED] = "a served plan over what was recorded",
    [AUDIT_BUCKET] = "a choice of another scene over the own one",
};

bool audit_add(audit_sample *to, double share)
{
    double *more = realloc(to->at, ((size_t)to->count + 1) * sizeof(*more));

    if (more == NULL)
        return false;
    to->at = more;
    to->at[to->count++] = share;
    return true;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

void audit_sort(audit_sample *sample)
{
    if (sample->count > 0)
        qsort(sample->at, (size_t)sample->count, sizeof(double), by_size);
}

/* Uses the nearest rank, so the result is always a measured value. */
double audit_percentile(const audit_sample *sample, double share)
{
    int rank = (int)ceil(share * sample->count);

    return sample->count > 0 ? sample->at[rank > 0 ? rank - 1 : 0] : NAN;
}

bool audit_is_reached(const audit_sample *sample)
{
    return audit_percentile(sample, 0.5) <= AUDIT_REACH_MEDIAN &&
           audit_percentile(sample, 0.95) <= AUDIT_REACH_HIGH;
}

bool audit_read_line(audit_figure *figure, double *share, const char **about,
                     const char *line)
{
    spc__span rest = spc__span_of(line), word = spc__scan_part(&rest, ' ');

    for (int i = 0; i < AUDIT_FIGURES && rest.at != NULL; i++) {
        if (!spc__span_is(word, audit_names[i]))
            continue;
        spc__span number = spc__scan_part(&rest, ' ');
        *figure = (audit_figure)i;
        *about = rest.at != NULL ? rest.at : number.at + number.length;
        return spc__scan_real(share, number) && isfinite(*share) && *share >= 0;
    }
    return false;
}
