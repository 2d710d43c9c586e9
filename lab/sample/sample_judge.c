/* SPDX-License-Identifier: Apache-2.0 */
/* sample_judge.c - compares a result with a sample. */
#include "lab/sample/sample.h"

#include "operators/operands.h"

spc__work spc__sample_work(const spc__sample *sample, int s)
{
    const spc__sample_scene *scene = &sample->scenes[s];

    return (spc__work){.conv = &sample->conv,
                       .rows_in = scene->rows_read,
                       .rows_out = scene->rows_out,
                       .pairs = scene->pairs,
                       .offsets = scene->offsets_used};
}

bool spc__sample_has(const spc__sample *sample, int s, spc__dataset dataset)
{
    return sample->scenes[s].in[dataset] != NULL;
}

bool spc__sample_is_size(const spc__sample *sample, int s)
{
    return s >= sample->given + SPC__AWKWARD;
}

spc__operand spc__sample_out(const spc__sample *sample, int s)
{
    return spc__operand_of(&sample->conv, SPC_OPERAND_OUT,
                           sample->scenes[s].rows_out);
}

/* Real numbers are judged by a bound, the other data sets exactly. */
static spc__expected expected_of(const spc__sample *sample, int s,
                                 spc__dataset dataset)
{
    const spc__sample_scene *scene = &sample->scenes[s];

    return dataset == SPC__REAL
               ? (spc__expected){.reference = scene->reference,
                                 .tolerance = scene->tolerance}
               : (spc__expected){.stored = scene->exact[dataset],
                                 .tolerance = scene->slack[dataset]};
}

spc__worst spc__sample_compare(const spc__sample *sample, int s,
                               spc__dataset dataset, const void *out)
{
    spc__operand of = spc__sample_out(sample, s);
    spc__expected expected = expected_of(sample, s, dataset);

    return spc__judge(out, &of, &expected);
}

spc__worst spc__sample_element(const spc__sample *sample, int s,
                               spc__dataset dataset, const void *out, int64_t i)
{
    spc__operand of = spc__sample_out(sample, s);
    spc__expected expected = expected_of(sample, s, dataset);

    return spc__judge_element(out, &of, &expected, i);
}
