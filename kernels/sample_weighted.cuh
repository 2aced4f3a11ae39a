// Picks in proportion to the weights of edges: docs/spec/reproducible-batches.md, exactly.
//
// Weights of cached lists lie in device memory, others where the dataset has them, in host memory. They are read in a
// warp's or a block's coalesced reads: once to count the entries that exist, and again where there are more than are
// picked. Doubles are divided and multiplied, never added, so that nothing can be contracted; both are rounded as IEEE
// 754 has it.
#pragma once

#include "sample_select.cuh"

namespace uva {

// Whether an entry whose weight has these bits is there to be picked: the weight is finite and above 0.
__device__ __forceinline__ bool exists(u32 weight) { return weight - 1 < 0x7f7fffffu; }

// -log2((word + 1/2) / 2^32) in units of 2^-32.
__device__ __forceinline__ u64 exponential(u32 word) {
  constexpr u32 COEFFICIENTS[] = {1901360720, 1196802686, 868614893, 680046808, 555475204, 456913028,
                                  355293914,  236551560,  118923742, 38334212,  5783109};
  const u64 x = 2 * (u64)word + 1;
  const u32 e = 63 - (u32)__clzll((long long)x);
  const u32 t = (u32)(x << (32 - e));
  u32 q = 0;
#pragma unroll
  for (int at = 10; at >= 0; --at) q = COEFFICIENTS[at] - (u32)((u64)q * t >> 32);
  const u64 bow = (u64)t * (u32)~t >> 30;
  return ((u64)(33 - e) << 32) - t - (bow * q >> 34);
}

// Picks without replacement (Efraimidis and Spirakis, "Weighted random sampling with a reservoir", 2006): the key of an
// entry that exists, as bits that order as the numbers do. Each lane computes a block of words for one word of it.
struct WeightKeys {
  const u32* weights;
  Stream stream;
  u64 seed;

  __device__ __forceinline__ bool operator()(u32 place, u64& key) const {
    const u32 weight = weights[place];
    if (!exists(weight)) return false;
    Stream of_place = stream;
    const u64 other_seed = seed ^ mix(place >> 18);
    of_place.key0 = (u32)other_seed;
    of_place.key1 = (u32)(other_seed >> 32);
    const u64 dividend = exponential(word_of(of_place, place & ((1u << 18) - 1)));
    key = (u64)__double_as_longlong(__ddiv_rn((double)dividend, (double)__uint_as_float(weight)));
    return true;
  }
};

// What turns the weights of a list into integers: 2^(31 - e), the heaviest being of 2^e to 2^(e + 1).
__device__ __forceinline__ double scale_of(u32 heaviest) {
  const i64 e = (__double_as_longlong((double)__uint_as_float(heaviest)) >> 52) - 1023;
  return __longlong_as_double((1023 + 31 - e) << 52);
}

__device__ __forceinline__ u64 integer_weight(u32 weight, double scale) {
  return exists(weight) ? (u64)((double)__uint_as_float(weight) * scale) : 0;
}

// Draw `index` below `bound`, if no draw is rejected, and whether this one may have to be.
__device__ __forceinline__ u64 draw_long(const Stream& stream, u32 index, u64 bound, bool& doubt) {
  const Words words = words_of(stream, index / 2);
  const u64 word = index % 2 == 0 ? (u64)words.second << 32 | words.first : (u64)words.fourth << 32 | words.third;
  doubt |= word * bound < bound;
  return __umul64hi(word, bound);
}

// All draws, one after the other.
__device__ __forceinline__ void draw_exactly(const Stream& stream, u64 bound, u32 count, i64* draws) {
  const u64 threshold = (0 - bound) % bound;
  u32 used = 0;
  for (u32 index = 0; index < count; ++index) {
    u64 word;
    do {
      word = (u64)word_of(stream, used) | (u64)word_of(stream, used + 1) << 32;
      used += 2;
    } while (word * bound < threshold);
    draws[index] = (i64)__umul64hi(word, bound);
  }
}

// The entries that exist, in the order of the list.
__device__ __forceinline__ void existing_by_warp(const PickedList& list, const u32* weights) {
  const u32 lane = threadIdx.x % LANES;
  u32 before = 0;
  for (u32 first = 0; first < list.degree; first += LANES) {
    const bool there = first + lane < list.degree && exists(weights[first + lane]);
    const u32 all = __ballot_sync(ALL_LANES, there);
    if (there) list.picks[before + (u32)__popc(all & ((1u << lane) - 1))] = list.begin + first + lane;
    before += (u32)__popc(all);
  }
}

__device__ __forceinline__ void existing_by_block(const PickedList& list, const u32* weights) {
  u64 before = 0;
  for (u64 first = 0; first < list.degree; first += blockDim.x) {
    const u64 place = first + threadIdx.x;
    const bool there = place < list.degree && exists(weights[place]);
    const Scanned scanned = block_scan(there);
    if (there) list.picks[before + scanned.before] = list.begin + (i64)place;
    before += scanned.all;
  }
}

// `count` draws with replacement, 32 at most: one a lane.
__device__ __forceinline__ void draw_by_warp(const PickedList& list, const u32* weights, double scale,
                                             const Stream& stream, u32 count) {
  const u32 lane = threadIdx.x % LANES;
  u64 total = 0;
  for (u32 place = lane; place < list.degree; place += LANES) total += integer_weight(weights[place], scale);
  for (u32 by = LANES / 2; by != 0; by /= 2) total += __shfl_down_sync(ALL_LANES, total, by);
  total = __shfl_sync(ALL_LANES, total, 0);
  bool doubt = false;
  u64 drawn = lane < count ? draw_long(stream, lane, total, doubt) : 0;
  if (__ballot_sync(ALL_LANES, doubt) != 0) {
    if (lane == 0) draw_exactly(stream, total, count, list.picks);
    __syncwarp();
    if (lane < count) drawn = (u64)list.picks[lane];
    __syncwarp();
  }
  u64 before = 0;
  for (u32 first = 0; first < list.degree; first += LANES) {
    u64 up_to = first + lane < list.degree ? integer_weight(weights[first + lane], scale) : 0;
    for (u32 by = 1; by < LANES; by *= 2) {
      const u64 below = __shfl_up_sync(ALL_LANES, up_to, by);
      if (lane >= by) up_to += below;
    }
    const u64 all = __shfl_sync(ALL_LANES, up_to, (int)LANES - 1);
    const bool here = lane < count && drawn >= before && drawn - before < all;
    if (__ballot_sync(ALL_LANES, here) != 0) {
      u32 found = 0;
      for (u32 by = LANES / 2; by != 0; by /= 2)
        if (__shfl_sync(ALL_LANES, up_to, (int)(found + by - 1)) <= drawn - before) found += by;
      if (here) list.picks[lane] = list.begin + first + found;
    }
    before += all;
  }
}

// The same for any count. The draws lie where the picks will, and meanwhile `places`, as many, get the places.
__device__ __forceinline__ void draw_by_block(const PickedList& list, const u32* weights, double scale,
                                              const Stream& stream, u32 count, int* places) {
  __shared__ u64 ends[UVA_SAMPLE_BLOCK_THREADS];
  __shared__ u64 shared_total;
  __shared__ u32 doubts;
  u64 sum = 0;
  for (u64 place = threadIdx.x; place < list.degree; place += blockDim.x) sum += integer_weight(weights[place], scale);
  sum = block_sum(sum);
  if (threadIdx.x == 0) {
    shared_total = sum;
    doubts = 0;
  }
  __syncthreads();
  const u64 total = shared_total;
  bool doubt = false;
  for (u32 index = threadIdx.x; index < count; index += blockDim.x)
    list.picks[index] = (i64)draw_long(stream, index, total, doubt);
  if (doubt) atomicAdd(&doubts, 1u);
  __syncthreads();
  if (doubts != 0 && threadIdx.x == 0) draw_exactly(stream, total, count, list.picks);
  u64 before = 0;
  for (u64 first = 0; first < list.degree; first += blockDim.x) {
    const u64 place = first + threadIdx.x;
    const u64 weight = place < list.degree ? integer_weight(weights[place], scale) : 0;
    const Scanned scanned = block_scan(weight);
    ends[threadIdx.x] = scanned.before + weight;
    __syncthreads();
    for (u32 index = threadIdx.x; index < count; index += blockDim.x) {
      const u64 drawn = (u64)list.picks[index];
      if (drawn < before || drawn - before >= scanned.all) continue;
      // The first entry at which the sum is more.
      u32 found = 0, behind = blockDim.x - 1;
      while (found < behind) {
        const u32 middle = (found + behind) / 2;
        if (ends[middle] > drawn - before) {
          behind = middle;
        } else {
          found = middle + 1;
        }
      }
      places[index] = (int)(u32)(first + found);
    }
    before += scanned.all;
    __syncthreads();
  }
  for (u32 index = threadIdx.x; index < count; index += blockDim.x)
    list.picks[index] = list.begin + (i64)(u32)places[index];
}

// The weights of a destination's list.
__device__ __forceinline__ const u32* weights_of(const SampleArguments& arguments, u64 destination) {
  if (caches_weights(arguments, arguments.batch_nodes[destination]))
    return arguments.cached_weights + arguments.begins[destination];
  return arguments.weights + home_begin(arguments, destination);
}

// Counts the entries of each list that exist, and finds the heaviest.
struct Weigh {
  const SampleArguments& arguments;

  __device__ __forceinline__ bool is_long(u64 destination) const { return arguments.degrees[destination] > WARP_LIST; }

  __device__ __forceinline__ void by_warp(u64 destination) const {
    const u32* const weights = weights_of(arguments, destination);
    const u32 degree = arguments.degrees[destination];
    u32 there = 0, heaviest = 0;
#pragma unroll 4
    for (u32 place = threadIdx.x % LANES; place < degree; place += LANES) add(weights[place], there, heaviest);
    for (u32 by = LANES / 2; by != 0; by /= 2) {
      there += __shfl_down_sync(ALL_LANES, there, by);
      const u32 other = __shfl_down_sync(ALL_LANES, heaviest, by);
      heaviest = heaviest < other ? other : heaviest;
    }
    if (threadIdx.x % LANES == 0) write(destination, there, heaviest);
  }

  __device__ __forceinline__ void by_block(u64 destination) const {
    __shared__ u32 of_block;
    const u32* const weights = weights_of(arguments, destination);
    const u32 degree = arguments.degrees[destination];
    if (threadIdx.x == 0) of_block = 0;
    __syncthreads();
    u32 there = 0, heaviest = 0;
#pragma unroll 4
    for (u64 place = threadIdx.x; place < degree; place += blockDim.x) add(weights[place], there, heaviest);
    atomicMax(&of_block, heaviest);
    const u64 all = block_sum(there);
    __syncthreads();
    if (threadIdx.x == 0) write(destination, (u32)all, of_block);
  }

  // Bits of positive numbers order as the numbers do.
  __device__ __forceinline__ static void add(u32 weight, u32& there, u32& heaviest) {
    if (!exists(weight)) return;
    ++there;
    if (heaviest < weight) heaviest = weight;
  }

  __device__ __forceinline__ void write(u64 destination, u32 there, u32 heaviest) const {
    arguments.existing[destination] = there;
    arguments.heaviest[destination] = heaviest;
  }
};

struct Weighted {
  const SampleArguments& arguments;

  __device__ __forceinline__ bool is_long(u64 destination) const {
    return arguments.degrees[destination] > WARP_LIST ||
           (arguments.fanout > LANES && draws(arguments, arguments.existing[destination]));
  }

  __device__ __forceinline__ void by_warp(u64 destination) const {
    const PickedList list = list_of(arguments, destination);
    const u32* const weights = weights_of(arguments, destination);
    const u32 existing = arguments.existing[destination];
    if (!draws(arguments, existing)) {
      if (existing == list.degree) {
        take_whole(list, threadIdx.x % LANES, LANES);
      } else {
        existing_by_warp(list, weights);
      }
    } else if (arguments.replace) {
      const double scale = scale_of(arguments.heaviest[destination]);
      draw_by_warp(list, weights, scale, stream_of_list(destination), arguments.fanout);
    } else {
      select_by_warp(list, arguments.fanout, WeightKeys{weights, stream_of_list(destination), arguments.seed});
    }
  }

  __device__ __forceinline__ void by_block(u64 destination) const {
    const PickedList list = list_of(arguments, destination);
    const u32* const weights = weights_of(arguments, destination);
    const u32 existing = arguments.existing[destination];
    if (!draws(arguments, existing)) {
      if (existing == list.degree) {
        take_whole(list, threadIdx.x, blockDim.x);
      } else {
        existing_by_block(list, weights);
      }
    } else if (arguments.replace) {
      int* const places = arguments.block_indices + arguments.block_indptr[destination];
      const double scale = scale_of(arguments.heaviest[destination]);
      draw_by_block(list, weights, scale, stream_of_list(destination), arguments.fanout, places);
    } else {
      select_by_block(list, arguments.fanout, WeightKeys{weights, stream_of_list(destination), arguments.seed});
    }
  }

  __device__ __forceinline__ Stream stream_of_list(u64 destination) const {
    const i64 node = arguments.batch_nodes[destination];
    const i64 original_id = name_of(arguments.original_ids, arguments.original_ids_wide, node);
    return stream_of(arguments, (u64)original_id, PURPOSE_WEIGHTS);
  }
};

}  // namespace uva
