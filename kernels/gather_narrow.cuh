// `naive` and `shift`: lanes as narrow as the alignment requires, one warp a row. They serve for comparison.
#pragma once

#include "gather.cuh"

namespace uva {

// gcd(4, numbers): the widest lane whose multiples all of them are.
__device__ __forceinline__ u32 narrow_lane(u64 numbers) { return numbers % 4 == 0 ? 4 : numbers % 2 == 0 ? 2 : 1; }

// Stores a lane's WIDTH bytes in units of `unit` bytes, as wide as the output's alignment permits.
template <int WIDTH>
__device__ __forceinline__ void store_narrow(u8* to, u32 word, u32 unit) {
  if (WIDTH == 4 && unit == 4) {
    store<u32>(to, word);
  } else if (WIDTH >= 2 && unit >= 2) {
    store<u16>(to, word & 0xffff);
    if (WIDTH == 4) store<u16>(to + 2, word >> 16);
  } else {
#pragma unroll
    for (int at = 0; at < WIDTH; ++at) store<u8>(to + at, word >> (8 * at) & 0xff);
  }
}

// One row by one warp, in lanes of WIDTH bytes. Turn i of lane l takes element (32·i + l + rotation) mod elements:
// with a rotation of what is left of the first line, every turn but those that wrap starts on a line, and the row's
// head is read after its tail (Min et al., the circular shift). Where head and tail together are more than one
// turn, that costs a read more than the row has lines.
template <int WIDTH, bool SHIFT>
__device__ __forceinline__ void copy_row_narrow(const u8* from, u8* to, u64 row_bytes, u32 unit) {
  const u64 elements = row_bytes / WIDTH;
  u64 rotation = 0;
  // A row of one line at most gains nothing; rows of whole lines have the same alignment as the table.
  if (SHIFT && row_bytes > LINE_BYTES && row_bytes % LINE_BYTES != 0) {
    rotation = (LINE_BYTES - reinterpret_cast<u64>(from) % LINE_BYTES) % LINE_BYTES / WIDTH;
  }
  const u32 lane = threadIdx.x % LANES;
  for (u64 turn = 0; turn < elements; turn += (u64)LANES * UVA_GATHER_NARROW_DEPTH) {
    Piece<WIDTH> pieces[UVA_GATHER_NARROW_DEPTH];
#pragma unroll
    for (int ahead = 0; ahead < UVA_GATHER_NARROW_DEPTH; ++ahead) {
      const u64 index = turn + (u64)ahead * LANES + lane;
      const u64 rotated = index + rotation;
      const u64 element = rotated >= elements ? rotated - elements : rotated;
      pieces[ahead] = load<WIDTH>(from + element * WIDTH, index < elements);
    }
    // Keeps ptxas from using the first load before it has sent the last (see `load`).
    __syncwarp();
#pragma unroll
    for (int ahead = 0; ahead < UVA_GATHER_NARROW_DEPTH; ++ahead) {
      const u64 index = turn + (u64)ahead * LANES + lane;
      const u64 rotated = index + rotation;
      const u64 element = rotated >= elements ? rotated - elements : rotated;
      if (index < elements) store_narrow<WIDTH>(to + element * WIDTH, pieces[ahead].word[0], unit);
    }
  }
}

template <class Id, bool CACHED, bool SHIFT>
__device__ __forceinline__ void gather_narrow(const GatherArguments& arguments) {
  const u64 row_bytes = arguments.row_bytes;
  const u64 cache = CACHED ? reinterpret_cast<u64>(arguments.cache) : 0;
  const u32 width = narrow_lane(reinterpret_cast<u64>(arguments.table) | cache | row_bytes);
  const u32 unit = narrow_lane(reinterpret_cast<u64>(arguments.out) | row_bytes);
  const u32 rows = rows_per_take(arguments.count);
  u64 hits = 0;
  for (;;) {
    const Take take = take_rows(&arguments.report->next, rows, arguments.count, arguments.report);
    if (take.count == 0) break;
    for (u64 turn = take.first; turn < take.first + take.count; ++turn) {
      const u64 position = visited(arguments, turn);
      // The same for all lanes, so that they stay together.
      const Source source = source_of<Id, CACHED>(arguments, position);
      if (source.row == nullptr) continue;
      hits += source.hit;
      u8* to = arguments.out + position * row_bytes;
      if (width == 4) {
        copy_row_narrow<4, SHIFT>(source.row, to, row_bytes, unit);
      } else if (width == 2) {
        copy_row_narrow<2, SHIFT>(source.row, to, row_bytes, unit);
      } else {
        copy_row_narrow<1, SHIFT>(source.row, to, row_bytes, unit);
      }
    }
  }
  if (CACHED && threadIdx.x % LANES == 0 && hits != 0) atomicAdd(&arguments.report->hits, hits);
}

}  // namespace uva
