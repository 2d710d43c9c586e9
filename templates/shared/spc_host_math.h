/*
 * spc_host_math.h - the functions of epilogues on the host, for cpu kernels and
 * for the emulation. It uses no includes and no C library.
 *
 * The functions have no branches and no tables, so that loops over them can be
 * vectorised. spc_device.cuh states their accuracy, and the test suite checks
 * it.
 */
#ifndef SPC_HOST_MATH_H
#define SPC_HOST_MATH_H

#define SPC_HOST_MATH static inline __attribute__((always_inline, unused))

SPC_HOST_MATH float spc_host_from_bits(unsigned bits)
{
    float value;
    __builtin_memcpy(&value, &bits, sizeof(value));
    return value;
}

/* 2^n, -126 <= n <= 127. */
SPC_HOST_MATH float spc_host_power(int n)
{
    return spc_host_from_bits((unsigned)(n + 127) << 23);
}

/*
 * exp(v) - 1 = 2^n (1 + p) - 1, where v = n log 2 + r and |r| <= log(2) / 2. p
 * = exp(r) - 1 is the Taylor series up to r^8; the omitted terms are below
 * 2^-31 of r. log 2 is split in two parts, so that n times the first part is
 * exact. 2^n is a product of two factors, because n may be 128. Below -104 and
 * above 89 the result no longer changes, except for infinity.
 */
SPC_HOST_MATH float spc_host_reduce(float *p, float v)
{
    float low = v < -104.0f ? -104.0f : v;
    float x = low > 89.0f ? 89.0f : low;
    float n = x * 1.44269504f + 12582912.0f - 12582912.0f; /* to nearest */
    float r = x - n * 0.693359375f + n * 2.12194440e-4f;
    float q = 2.48015873e-5f;

    q = q * r + 1.98412698e-4f;
    q = q * r + 1.38888889e-3f;
    q = q * r + 8.33333333e-3f;
    q = q * r + 4.16666667e-2f;
    q = q * r + 1.66666667e-1f;
    q = q * r + 0.5f;
    *p = q * r * r + r;
    return n;
}

SPC_HOST_MATH float spc_exp(float v)
{
    float p, n = spc_host_reduce(&p, v);
    int half = (int)n / 2, rest = (int)n - half;
    float y = (1.0f + p) * spc_host_power(half) * spc_host_power(rest);

    return v != v ? v : y;
}

/* If n is 0 the result is p itself, without a subtraction. */
SPC_HOST_MATH float spc_expm1(float v)
{
    float p, n = spc_host_reduce(&p, v);
    int half = (int)n / 2, rest = (int)n - half;
    float scale = spc_host_power(half);
    float y = (scale * spc_host_power(rest) - 1.0f) +
              p * scale * spc_host_power(rest);

    return v != v ? v : n == 0.0f ? p : y;
}

/*
 * Abramowitz and Stegun, Handbook of Mathematical Functions, 7.1.26: within
 * 1.5e-7. Below 1/2 that formula cancels, so the Taylor series up to v^11 is
 * used.
 */
SPC_HOST_MATH float spc_erf(float v)
{
    float x = v < 0.0f ? -v : v;
    float t = 1.0f / (1.0f + 0.3275911f * x);
    float q = 1.061405429f;

    q = q * t - 1.453152027f;
    q = q * t + 1.421413741f;
    q = q * t - 0.284496736f;
    q = q * t + 0.254829592f;
    float y = 1.0f - q * t * spc_exp(-x * x);
    float s = x * x, p = -8.54832702e-4f;

    p = p * s + 5.22397762e-3f;
    p = p * s - 2.68661706e-2f;
    p = p * s + 1.12837917e-1f;
    p = p * s - 3.76126389e-1f;
    p = p * s + 1.12837917f;
    y = x < 0.5f ? x * p : y;
    return v < 0.0f ? -y : y;
}

SPC_HOST_MATH float spc_divide(float a, float b)
{
    return a / b;
}

#endif
