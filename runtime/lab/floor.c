/* floor.c - the least time a device could need for a layer. */
#include "floor.h"

#include "ctx.h"
#include <string.h>

/* What a device can do at best, where it was not measured itself. GB/s and
 * TFLOP/s; of data sheets, but for the first row. The first row whose
 * text occurs in the device's name is taken. */
typedef struct device_class {
    const char *name;
    double copy, gather, f16, tf32, f32;
} device_class;

static const device_class classes[] = {
    {"H200", 4300, 8500, 790, 395, 60}, /* measured */
    {"H100", 3000, 7000, 790, 395, 60},   {"A100", 1700, 4500, 290, 145, 19},
    {"L40", 780, 4000, 340, 85, 80},      {"RTX 4090", 920, 4500, 310, 80, 75},
    {"RTX 3090", 860, 2500, 140, 35, 33},
};

typedef struct ceilings {
    double copy, gather, matrix;
} ceilings;

static double larger(double a, double b)
{
    return a > b ? a : b;
}

/* An fp32 product is one multiplication, or three of tf32 (Henry, Tang and
 * Heinecke, 2019), whichever is faster. */
static double rate_of(spc_dtype dtype, double f16, double tf32, double f32)
{
    if (dtype == SPC_F32)
        return larger(f32, tf32 / 3);
    return dtype == SPC_F16 ? f16 : tf32;
}

static bool measured_ceilings(ceilings *out, const spc_device_info *device,
                              spc_dtype dtype)
{
    out->copy = device->copy_gbps;
    out->gather = device->gather_gbps;
    out->matrix = rate_of(dtype, device->f16_tflops, device->tf32_tflops,
                          device->f32_tflops);
    return out->copy > 0 && out->gather > 0 && out->matrix > 0;
}

static bool class_ceilings(ceilings *out, const spc_device_info *device,
                           spc_dtype dtype)
{
    for (size_t i = 0; i < sizeof(classes) / sizeof(classes[0]); i++) {
        const device_class *c = &classes[i];
        if (strstr(device->name, c->name) == NULL)
            continue;
        out->copy = c->copy;
        out->gather = c->gather;
        out->matrix = rate_of(dtype, c->f16, c->tf32, c->f32);
        return true;
    }
    return false;
}

void spc__floor_compute(spc__floor *out, const spc_conv *conv, int64_t rows,
                        int64_t pairs, const spc_device_info *device)
{
    double element = (double)spc__conv_element_bytes(conv);
    double channels = (double)conv->cin * conv->cout;
    double offsets = spc__conv_offsets(conv);
    ceilings most;

    out->flops = 2 * (double)pairs * channels;
    out->gathered_bytes = (double)pairs * conv->cin * element;
    out->compulsory_bytes = (double)rows * (conv->cin + conv->cout) * element +
                            offsets * channels * element +
                            (double)rows * offsets * 4;
    out->us = 0;
    out->measured = measured_ceilings(&most, device, conv->dtype);
    if (!out->measured && !class_ceilings(&most, device, conv->dtype))
        return;
    /* GB/s are 1e3 bytes a microsecond, TFLOP/s 1e6 operations. */
    out->us = larger(out->flops / (most.matrix * 1e6),
                     larger(out->gathered_bytes / (most.gather * 1e3),
                            out->compulsory_bytes / (most.copy * 1e3)));
}
