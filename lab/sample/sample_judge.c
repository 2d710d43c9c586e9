/* SPDX-License-Identifier: Apache-2.0 */
/* sample_judge.c - compares a result with a sample. */
#include "lab/sample/sample.h"

#include "base/dtype.h"
#include "lab/oracle/exact.h"
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

bool spc__sample_has(const spc__sample *sample, int s, spc__draw draw)
{
    return sample->scenes[s].in[draw] != NULL;
}

bool spc__sample_is_size(const spc__sample *sample, int s)
{
    return s >= sample->given + SPC__AWKWARD;
}

int64_t spc__sample_results(const spc__sample *sample, int s)
{
    spc__operand out = spc__operand_of(&sample->conv, SPC_OPERAND_OUT,
                                       sample->scenes[s].rows_out);

    return out.rows * out.columns;
}

spc__worst spc__sample_compare(const spc__sample *sample, int s, spc__draw draw,
                               const void *out)
{
    const spc__sample_scene *scene = &sample->scenes[s];
    int64_t rows = spc__sample_results(sample, s) / sample->conv.cout;

    return draw == SPC__REAL
               ? spc__compare(out, &sample->conv, rows, scene->reference,
                              scene->tolerance)
               : spc__compare_exact(out, &sample->conv, rows,
                                    scene->exact[draw], scene->slack[draw]);
}

bool spc__sample_gaps_hold(const spc__sample *sample, int s, const void *out)
{
    spc__operand of = spc__operand_of(&sample->conv, SPC_OPERAND_OUT,
                                      sample->scenes[s].rows_out);
    size_t element = spc__dtype_of(of.dtype)->bytes;
    const unsigned char *bytes = out;

    for (int64_t row = 0; row + 1 < of.rows && of.bytes > of.dense_bytes; row++)
        for (size_t i = (size_t)(row * of.pitch + of.columns) * element;
             i < (size_t)((row + 1) * of.pitch) * element; i++)
            if (bytes[i] != SPC__ZONE_BYTE)
                return false;
    return true;
}
