// Lists of a block as kernels read them: numbers held to their ranges, and the weights by degrees.
#pragma once

#include "intrinsics.cuh"

namespace uva {

__device__ __forceinline__ int within(int value, int largest) {
  return value < 0 ? 0 : value > largest ? largest : value;
}

// 1 / sqrt(degree + 1).
__device__ __forceinline__ double root(int degree) { return __ddiv_rn(1.0, __dsqrt_rn((double)degree + 1.0)); }

}  // namespace uva
