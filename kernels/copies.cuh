// Copies within the device, many by one launch: the columns of a batch that a sampler on the device has made go to a
// feature slot.
#pragma once

#include "cache.cuh"

// Copies that a launch makes at most: the columns of a batch of eight layers, and more.
#define UVA_COPIES_AT_ONCE 32

// One copy; the two places do not overlap. Declared in crates/uva-kernels too, like the struct below.
struct DeviceCopy {
  const unsigned char* from;
  unsigned char* to;
  unsigned long long bytes;
};

// Passed by value.
struct CopyArguments {
  unsigned long long count;
  DeviceCopy copies[UVA_COPIES_AT_ONCE];
};

namespace uva {

// Bytes that a warp copies at a time.
constexpr u64 COPY_PIECE = 8192;

// By warps, whose pieces follow one another through all copies. Wide where both places are multiples of 16.
__device__ __forceinline__ void copy_all(const CopyArguments& arguments) {
  const u64 warps = (u64)gridDim.x * (blockDim.x / LANES);
  u64 piece = (u64)blockIdx.x * (blockDim.x / LANES) + threadIdx.x / LANES;
  for (u64 which = 0; which < arguments.count; ++which) {
    const DeviceCopy& copy = arguments.copies[which];
    const u64 pieces = (copy.bytes + COPY_PIECE - 1) / COPY_PIECE;
    const bool wide = (reinterpret_cast<u64>(copy.from) | reinterpret_cast<u64>(copy.to)) % 16 == 0;
    for (; piece < pieces; piece += warps) {
      const u64 at = piece * COPY_PIECE, left = copy.bytes - at;
      const u64 bytes = left < COPY_PIECE ? left : COPY_PIECE;
      const u64 by_16 = wide ? bytes / 16 * 16 : 0;
      copy_within<16>(copy.from + at, copy.to + at, by_16);
      copy_within<1>(copy.from + at + by_16, copy.to + at + by_16, bytes - by_16);
    }
    // The next copy's pieces go to the following warps.
    piece -= pieces;
  }
}

}  // namespace uva
