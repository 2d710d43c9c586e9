/* halo.cuh - a header that the test templates include. */
#include "halo_types.h"

static __device__ float halo_scale(float value) { return 2.0f * value; }
