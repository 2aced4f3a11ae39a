// A FIFO cache of rows takes in what a gather missed: the host has decided which row gets which slot.
#pragma once

#include "intrinsics.cuh"
#include "tuning.cuh"

// One row that comes in. Declared in crates/uva-kernels too, which does not build if the two differ.
struct CacheInsertion {
  long long evicted;            // the row of the table that loses the slot; negative: it was free
  long long inserted;           // the row of the table that gets it
  unsigned long long position;  // where among the gathered rows it lies
  long long slot;
};
static_assert(sizeof(CacheInsertion) == 32, "four of them are a line");

// Passed by value; declared in crates/uva-kernels too. No slot is named twice, nor any row, be it as evicted or as
// inserted: insertions are carried out in no order.
struct InsertArguments {
  const CacheInsertion* insertions;  // `count` of them, from the beginning of a line; pinned host memory, as a rule
  unsigned long long count;
  const unsigned char* gathered;     // row 0 of what was gathered, any alignment
  unsigned long long row_bytes;      // at least 1
  int* slot_map;                     // the slot of each row of the table, negative: none
  unsigned char* cache;              // slot 0, any alignment
};

namespace uva {

template <int WIDTH>
__device__ __forceinline__ void store_lane(u8* to, const Piece<WIDTH>& piece);
template <>
__device__ __forceinline__ void store_lane<1>(u8* to, const Piece<1>& piece) {
  store<u8>(to, piece.word[0] & 0xff);
}
template <>
__device__ __forceinline__ void store_lane<2>(u8* to, const Piece<2>& piece) {
  store<u16>(to, piece.word[0]);
}
template <>
__device__ __forceinline__ void store_lane<4>(u8* to, const Piece<4>& piece) {
  store<u32>(to, piece.word[0]);
}
template <>
__device__ __forceinline__ void store_lane<16>(u8* to, const Piece<16>& piece) {
  store16(to, piece);
}

// One row by one warp, within the device.
template <int WIDTH>
__device__ __forceinline__ void copy_within(const u8* from, u8* to, u64 row_bytes) {
  const u64 mine = (u64)(threadIdx.x % LANES) * WIDTH;
  for (u64 turn = 0; turn < row_bytes; turn += (u64)LANES * WIDTH * UVA_GATHER_NARROW_DEPTH) {
    Piece<WIDTH> pieces[UVA_GATHER_NARROW_DEPTH];
#pragma unroll
    for (int ahead = 0; ahead < UVA_GATHER_NARROW_DEPTH; ++ahead) {
      const u64 at = turn + (u64)ahead * LANES * WIDTH + mine;
      pieces[ahead] = load<WIDTH>(from + at, at < row_bytes);
    }
    __syncwarp();
#pragma unroll
    for (int ahead = 0; ahead < UVA_GATHER_NARROW_DEPTH; ++ahead) {
      const u64 at = turn + (u64)ahead * LANES * WIDTH + mine;
      if (at < row_bytes) store_lane<WIDTH>(to + at, pieces[ahead]);
    }
  }
}

// A warp takes four insertions at a time, which are one line: one read of the link for four rows that crossed it.
__device__ __forceinline__ void insert(const InsertArguments& arguments) {
  constexpr u32 WORDS = sizeof(CacheInsertion) / sizeof(u64);
  constexpr u32 AT_ONCE = 4;
  static_assert(AT_ONCE * WORDS <= LANES, "a lane reads a word");
  const u32 lane = threadIdx.x % LANES;
  const u64 warps = (u64)gridDim.x * (blockDim.x / LANES);
  const u64 row_bytes = arguments.row_bytes;
  const u64 mixed = reinterpret_cast<u64>(arguments.gathered) | reinterpret_cast<u64>(arguments.cache) | row_bytes;
  u64 first = ((u64)blockIdx.x * (blockDim.x / LANES) + threadIdx.x / LANES) * AT_ONCE;
  for (; first < arguments.count; first += warps * AT_ONCE) {
    const u64 left = arguments.count - first;
    const u32 here = left < AT_ONCE ? (u32)left : AT_ONCE;
    u64 word = 0;
    if (lane < here * WORDS) word = reinterpret_cast<const u64*>(arguments.insertions + first)[lane];
    for (u32 index = 0; index < here; ++index) {
      const i64 evicted = (i64)__shfl_sync(ALL_LANES, word, (int)(index * WORDS));
      const i64 inserted = (i64)__shfl_sync(ALL_LANES, word, (int)(index * WORDS + 1));
      const u64 position = __shfl_sync(ALL_LANES, word, (int)(index * WORDS + 2));
      const u64 slot = __shfl_sync(ALL_LANES, word, (int)(index * WORDS + 3));
      if (lane == 0) {
        if (evicted >= 0) arguments.slot_map[evicted] = -1;
        arguments.slot_map[inserted] = (int)slot;
      }
      const u8* const from = arguments.gathered + position * row_bytes;
      u8* const to = arguments.cache + slot * row_bytes;
      if (mixed % 16 == 0) {
        copy_within<16>(from, to, row_bytes);
      } else if (mixed % 4 == 0) {
        copy_within<4>(from, to, row_bytes);
      } else {
        copy_within<1>(from, to, row_bytes);
      }
    }
  }
}

}  // namespace uva
