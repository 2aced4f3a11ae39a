// Random words and picks: docs/spec/reproducible-batches.md, exactly.
#pragma once

#include "sample.cuh"

namespace uva {

// Philox's key, and its counter for block 0 of a stream.
struct Stream {
  u32 key0, key1;
  u32 node, node_and_layer, batch, epoch_and_split;
};

// The four words of a block.
struct Words {
  u32 first, second, third, fourth;
};

// Philox 4x32-10 (Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC'11): a block of a
// stream.
__device__ __forceinline__ Words words_of(const Stream& stream, u32 block) {
  u32 c0 = stream.node, c1 = stream.node_and_layer | (block & 0xffff), c2 = stream.batch, c3 = stream.epoch_and_split;
  u32 key0 = stream.key0, key1 = stream.key1;
  for (int round = 0; round < 10; ++round) {
    const u64 product0 = (u64)c0 * 0xD2511F53u, product1 = (u64)c2 * 0xCD9E8D57u;
    c0 = (u32)(product1 >> 32) ^ c1 ^ key0;
    c1 = (u32)product1;
    c2 = (u32)(product0 >> 32) ^ c3 ^ key1;
    c3 = (u32)product0;
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  return {c0, c1, c2, c3};
}

// Word `index` of a stream.
__device__ __forceinline__ u32 word_of(const Stream& stream, u32 index) {
  const Words words = words_of(stream, index / 4);
  // Chosen by selects: an array with a computed index would lie in local memory.
  const u32 low = index & 1 ? words.second : words.first, high = index & 1 ? words.fourth : words.third;
  return index & 2 ? high : low;
}

// The purpose of words, as a part of the counter.
constexpr u32 PURPOSE_NEIGHBORS = 0, PURPOSE_WEIGHTS = 5 << 21;

// The stream of the node with this original id.
__device__ __forceinline__ Stream stream_of(const SampleArguments& arguments, u64 original_id, u32 purpose) {
  // Picks stay for batch_dependency batches, staggered by node.
  const u64 kept = arguments.batch_dependency;
  const u64 batch = kept == 1 ? arguments.batch : (arguments.batch + mix(original_id) % kept) / kept;
  return {(u32)arguments.seed, (u32)(arguments.seed >> 32),
          (u32)original_id, arguments.layer << 16 | purpose | ((u32)(original_id >> 32) & 0xff) << 24,
          (u32)batch, arguments.epoch_and_split};
}

// The next draw below `bound`, by Lemire's method with rejection ("Fast random integer generation in an interval",
// 2019).
__device__ __forceinline__ u32 bounded(const Stream& stream, u32& used, u32 bound) {
  u64 product = (u64)word_of(stream, used++) * bound;
  if ((u32)product < bound) {
    const u32 threshold = (0u - bound) % bound;
    while ((u32)product < threshold) product = (u64)word_of(stream, used++) * bound;
  }
  return (u32)(product >> 32);
}

// Draw `index` of a destination is below this.
__device__ __forceinline__ u32 bound_of(const SampleArguments& arguments, u32 degree, u32 index) {
  return arguments.replace ? degree : degree - arguments.fanout + index + 1;
}

// The draws of a destination, into `draws`: one a lane, turn by turn. Each lane
// assumes that no draw is rejected, so that word i is draw i's; where that is in doubt, which is rare, one lane draws
// all of them one after the other. What each lane wrote last it also returns.
__device__ __forceinline__ u32 draw(const SampleArguments& arguments, const Stream& stream, u32 degree, i64* draws) {
  const u32 lane = threadIdx.x % LANES;
  bool doubt = false;
  u32 drawn = 0;
  for (u32 index = lane; index < arguments.fanout; index += LANES) {
    const u32 bound = bound_of(arguments, degree, index);
    const u64 product = (u64)word_of(stream, index) * bound;
    doubt |= (u32)product < bound;
    drawn = (u32)(product >> 32);
    draws[index] = drawn;
  }
  if (__ballot_sync(ALL_LANES, doubt) == 0) return drawn;
  __syncwarp();
  if (lane == 0) {
    u32 used = 0;
    for (u32 index = 0; index < arguments.fanout; ++index)
      draws[index] = bounded(stream, used, bound_of(arguments, degree, index));
  }
  __syncwarp();
  for (u32 index = lane; index < arguments.fanout; index += LANES) drawn = (u32)draws[index];
  return drawn;
}

// Floyd's method (Bentley and Floyd, "A sample of brilliance", 1987) takes draw i, t, or j = first + i where t has been
// taken already. What is taken before draw i is, for each earlier draw k, its t in any case, and its j too if its t had
// been taken. So t is taken exactly if an earlier draw gave the same t, or t is the j of an earlier draw that took it.
// Both are determined here without an order among draws; only the second leads from one draw to another, and always back.

// For a fanout of 32 at most: draw i in lane i. Whether the lane's draw is taken already.
__device__ __forceinline__ bool taken_in_warp(u32 drawn, u32 first, u32 fanout) {
  const u32 lane = threadIdx.x % LANES;
  bool repeats = false;
  for (u32 earlier = 0; earlier + 1 < fanout; ++earlier) {
    const u32 other = __shfl_sync(ALL_LANES, drawn, (int)earlier);
    repeats |= earlier < lane && other == drawn;
  }
  repeats &= lane < fanout;
  const u32 from = drawn - first;
  const bool follows = lane < fanout && !repeats && drawn >= first && from < lane;
  u32 taken = __ballot_sync(ALL_LANES, repeats);
  while (true) {
    const u32 now = __ballot_sync(ALL_LANES, repeats || (follows && (taken >> (from & 31) & 1) != 0));
    if (now == taken) return (taken >> lane & 1) != 0;
    taken = now;
  }
}

// For any fanout: the draws lie in `draws`, which the picks replace.
__device__ __forceinline__ void take_from_memory(i64 begin, u32 first, u32 fanout, i64* draws) {
  constexpr u64 REPEATS = 1ull << 63, TAKEN = 1ull << 62;
  volatile u64* const entries = reinterpret_cast<volatile u64*>(draws);
  const u32 lane = threadIdx.x % LANES;
  __syncwarp();
  for (u32 index = lane; index < fanout; index += LANES) {
    const u64 drawn = entries[index];
    bool repeats = false;
    for (u32 earlier = 0; earlier < index && !repeats; ++earlier) repeats = (u32)entries[earlier] == (u32)drawn;
    if (repeats) entries[index] = drawn | REPEATS;
  }
  __syncwarp();
  for (u32 index = lane; index < fanout; index += LANES) {
    u32 at = index;
    while (true) {
      const u64 entry = entries[at];
      const u32 drawn = (u32)entry;
      if ((entry & REPEATS) != 0) {
        // Others follow this entry meanwhile; they look at the bits that stay.
        entries[index] = entries[index] | TAKEN;
        break;
      }
      if (drawn < first || drawn - first >= at) break;
      at = drawn - first;
    }
  }
  __syncwarp();
  for (u32 index = lane; index < fanout; index += LANES) {
    const u64 entry = entries[index];
    entries[index] = (u64)begin + ((entry & TAKEN) != 0 ? first + index : (u32)entry);
  }
}

// Writes where the picks of a destination lie in the graph's indices. The whole warp comes here.
__device__ __forceinline__ void pick(const SampleArguments& arguments, u64 destination) {
  const u32 lane = threadIdx.x % LANES;
  const u32 degree = arguments.degrees[destination], fanout = arguments.fanout;
  const i64 begin = arguments.begins[destination];
  i64* const picks = arguments.slots + arguments.block_indptr[destination];
  if (!draws(arguments, degree)) {
    for (u32 index = lane; index < degree; index += LANES) picks[index] = begin + index;
    return;
  }
  const i64 node = arguments.batch_nodes[destination];
  const i64 original_id = name_of(arguments.original_ids, arguments.original_ids_wide, node);
  const u32 drawn = draw(arguments, stream_of(arguments, (u64)original_id, PURPOSE_NEIGHBORS), degree, picks);
  if (arguments.replace) {
    for (u32 index = lane; index < fanout; index += LANES) picks[index] += begin;
  } else if (fanout <= LANES) {
    const bool taken = taken_in_warp(drawn, degree - fanout, fanout);
    if (lane < fanout) picks[lane] = begin + (taken ? degree - fanout + lane : drawn);
  } else {
    take_from_memory(begin, degree - fanout, fanout, picks);
  }
}

}  // namespace uva
