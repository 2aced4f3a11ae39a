// The smallest of many keys, and who works on which list: what the kinds of sampler share that read lists whole.
//
// A short list is worked off by a warp, a long one by a block. Neither keeps a list's keys: they are computed from the
// graph's entries each time they are compared.
#pragma once

#include "sample_pick.cuh"

namespace uva {

// Lists longer than this are a whole block's: read by one warp, a hub would hold up its batch.
constexpr u32 WARP_LIST = 4096;

// What a list's destination needs to be worked off.
struct PickedList {
  i64 begin;
  u32 degree;
  i64* picks;
};

__device__ __forceinline__ PickedList list_of(const SampleArguments& arguments, u64 destination) {
  return {arguments.begins[destination], arguments.degrees[destination],
          arguments.slots + arguments.block_indptr[destination]};
}

// Has a warp or, where the work says so, a block work on each of the destinations. Every thread comes here.
template <class Work>
__device__ __forceinline__ void for_each_list(u64 begin, u64 end, const Work& work) {
  __shared__ u32 long_ones[UVA_SAMPLE_BLOCK_THREADS];
  __shared__ u32 found;
  for (u64 first = begin + blockIdx.x; first < end; first += launch_threads()) {
    if (threadIdx.x == 0) found = 0;
    __syncthreads();
    const u64 at = first + (u64)threadIdx.x * gridDim.x;
    if (at < end && work.is_long(at)) long_ones[atomicAdd(&found, 1u)] = threadIdx.x;
    __syncthreads();
    // In whatever order they were found: each has a place of its own to write to.
    const u32 many = found;
    for (u32 index = 0; index < many; ++index) {
      work.by_block(first + (u64)long_ones[index] * gridDim.x);
      __syncthreads();
    }
  }
  const u64 warps = launch_threads() / LANES;
  for (u64 at = begin + launch_thread() / LANES; at < end; at += warps)
    if (!work.is_long(at)) work.by_warp(at);
}

// A whole list, by `threads` threads.
__device__ __forceinline__ void take_whole(const PickedList& list, u32 thread, u32 threads) {
  for (u64 place = thread; place < list.degree; place += threads) list.picks[place] = list.begin + (i64)place;
}

// The places of the `want` smallest keys, of equal ones the first, in the order of the list. `keys(place, key)` gives
// the key of an entry, or says that it has none; more than `want` have one, and `want` is 32 at most. One pass: the
// smallest so far lie sorted in the lanes, and a key that belongs among them moves the larger ones up. Of a list in
// random order the entry at place p does with a chance of want / p, so that the moves are want · ln(degree / want) in
// all.
template <class Keys>
__device__ __forceinline__ void select_by_warp(const PickedList& list, u32 want, const Keys& keys) {
  const u32 lane = threadIdx.x % LANES;
  u64 kept = 0, largest = ~0ull;
  u32 kept_place = 0, count = 0;
  for (u32 first = 0; first < list.degree; first += LANES) {
    u64 key = 0;
    const bool offered = first + lane < list.degree && keys(first + lane, key);
    u32 waiting = __ballot_sync(ALL_LANES, offered && (count < want || key < largest));
    // In the order of the list, so that of equal keys the first is there already.
    for (; waiting != 0; waiting &= waiting - 1) {
      const u32 from = (u32)__ffs((int)waiting) - 1;
      const u64 next = __shfl_sync(ALL_LANES, key, (int)from);
      if (count == want && next >= largest) continue;
      const u32 rank = (u32)__popc(__ballot_sync(ALL_LANES, lane < count && kept <= next));
      const u64 below = __shfl_up_sync(ALL_LANES, kept, 1);
      const u32 place_below = __shfl_up_sync(ALL_LANES, kept_place, 1);
      if (lane >= rank) {
        kept = lane == rank ? next : below;
        kept_place = lane == rank ? first + from : place_below;
      }
      count += count < want;
      largest = __shfl_sync(ALL_LANES, kept, (int)want - 1);
    }
  }
  u32 rank = 0;
  for (u32 other = 0; other < want; ++other) rank += __shfl_sync(ALL_LANES, kept_place, (int)other) < kept_place;
  if (lane < want) list.picks[rank] = list.begin + kept_place;
}

// The same by a block, for any `want`. A radix select: each pass counts the keys that agree with the sought one as far
// as it is known by their next eight bits, until no more agree than are wanted; one pass more takes what is below it.
// Even keys are distinguished by about log(degree) / log(256) + 1 passes, and none needs more than eight. Each reads the
// list again.
template <class Keys>
__device__ __forceinline__ void select_by_block(const PickedList& list, u32 want, const Keys& keys) {
  constexpr u32 DIGITS = 256;
  __shared__ u32 counts[DIGITS];
  u64 known = 0;
  u32 left = 64, missing = want;
  while (left != 0) {
    for (u32 digit = threadIdx.x; digit < DIGITS; digit += blockDim.x) counts[digit] = 0;
    __syncthreads();
    for (u64 place = threadIdx.x; place < list.degree; place += blockDim.x) {
      u64 key = 0;
      if (!keys((u32)place, key) || (left < 64 && key >> left != known)) continue;
      atomicAdd(&counts[key >> (left - 8) & (DIGITS - 1)], 1u);
    }
    __syncthreads();
    u32 digit = 0;
    while (counts[digit] < missing) missing -= counts[digit++];
    known = known << 8 | digit;
    left -= 8;
    const bool exact = counts[digit] == missing;
    __syncthreads();
    if (exact) break;
  }
  u32 below = 0, equal = 0;
  for (u64 first = 0; first < list.degree; first += blockDim.x) {
    const u64 place = first + threadIdx.x;
    u64 key = 0;
    const bool offered = place < list.degree && keys((u32)place, key);
    const bool is_below = offered && key >> left < known, is_equal = offered && key >> left == known;
    const Scanned scanned = block_scan((u64)is_equal << 32 | (u64)is_below);
    const u32 equal_before = equal + (u32)(scanned.before >> 32);
    if (is_below || (is_equal && equal_before < missing)) {
      const u32 taken = equal_before < missing ? equal_before : missing;
      list.picks[below + (u32)scanned.before + taken] = list.begin + (i64)place;
    }
    below += (u32)scanned.all;
    equal += (u32)(scanned.all >> 32);
  }
}

}  // namespace uva
