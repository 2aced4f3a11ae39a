// Sums over the threads of a block.
#pragma once

#include "intrinsics.cuh"

namespace uva {

// The sum over the threads before this one, and over all of the block. Every thread comes here.
struct Scanned {
  u64 before;
  u64 all;
};

__device__ __forceinline__ Scanned block_scan(u64 value) {
  __shared__ u64 sums[LANES];
  const u32 lane = threadIdx.x % LANES, warp = threadIdx.x / LANES;
  u64 up_to = value;
  for (u32 by = 1; by < LANES; by *= 2) {
    const u64 below = __shfl_up_sync(ALL_LANES, up_to, by);
    if (lane >= by) up_to += below;
  }
  __syncthreads();
  if (lane == LANES - 1) sums[warp] = up_to;
  __syncthreads();
  Scanned scanned = {up_to - value, 0};
  for (u32 other = 0; other < blockDim.x / LANES; ++other) {
    const u64 sum = sums[other];
    if (other < warp) scanned.before += sum;
    scanned.all += sum;
  }
  return scanned;
}

}  // namespace uva
