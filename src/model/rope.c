/* Rotations as Hugging Face computes them: each step in float32, with the
 * functions (powers, cosines) rounded from double, so that no library's last
 * digit shows. */
#include <math.h>

#include "model/ops.h"

static const double two_pi = 6.283185307179586477;

/* theta^(2i / dim) */
static float power(const pl_rope_t *rope, int32_t i, int32_t dim)
{
    float exponent = (float)(2 * i) / (float)dim;

    return (float)pow((double)(float)rope->theta, (double)exponent);
}

/* The frequency that turns `rotations` times over the original positions, as
 * an index (not whole) of frequencies. */
static double correction(const pl_rope_t *rope, double rotations, int32_t dim)
{
    double turns = (double)rope->original_positions / (rotations * two_pi);

    return (double)dim * log(turns) / (2.0 * log(rope->theta));
}

/* How far frequency i is stretched: 0 (below `low`) to 1 (above `high`). */
static float ramp(int32_t i, double low, double high)
{
    float at = ((float)i - (float)low) / (float)(high - low);

    return fminf(fmaxf(at, 0.0F), 1.0F);
}

void pl_rope_frequencies(const pl_rope_t *rope, int32_t dim, float *frequencies)
{
    double low = 0.0, high = 0.0;

    if (rope->yarn) {
        low  = floor(correction(rope, rope->beta_fast, dim));
        high = ceil(correction(rope, rope->beta_slow, dim));
        low  = fmax(low, 0.0);
        high = fmin(high, (double)(dim - 1));
        high += low == high ? 0.001 : 0.0;
    }
    for (int32_t i = 0; i < dim / 2; i++) {
        float period = power(rope, i, dim);

        frequencies[i] = 1.0F / period;
        if (rope->yarn) {
            float plain     = 1.0F - ramp(i, low, high);
            float stretched = 1.0F / ((float)rope->factor * period);

            frequencies[i] =
                stretched * (1.0F - plain) + frequencies[i] * plain;
        }
    }
}

void pl_rope_angles(const pl_rope_t *rope, const float *frequencies,
                    int32_t dim, int32_t position, float *cosines, float *sines)
{
    const float factor = (float)rope->attention_factor;

    for (int32_t i = 0; i < dim / 2; i++) {
        float angle = (float)position * frequencies[i];

        cosines[i] = (float)cos((double)angle) * factor;
        sines[i]   = (float)sin((double)angle) * factor;
    }
}

void pl_rope_interleaved(float *x, int32_t dim, const float *cosines,
                         const float *sines)
{
    for (int32_t i = 0; i < dim / 2; i++) {
        float a = x[2 * i];
        float b = x[2 * i + 1];

        x[2 * i]     = a * cosines[i] - b * sines[i];
        x[2 * i + 1] = b * cosines[i] + a * sines[i];
    }
}

void pl_rope_half_split(float *x, int32_t dim, const float *cosines,
                        const float *sines)
{
    const int32_t half = dim / 2;

    for (int32_t i = 0; i < half; i++) {
        float a = x[i];
        float b = x[i + half];

        x[i]        = a * cosines[i] - b * sines[i];
        x[i + half] = b * cosines[i] + a * sines[i];
    }
}
