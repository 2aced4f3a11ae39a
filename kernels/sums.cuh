// Sums of listed rows, which lie in device memory already: what the first layer of some models begins with. A group of
// lanes makes the sum of a list, each lane of its own columns and in the order of the list's edges, so the bits depend
// on no grid. docs/aggregation.md has the formulas.
#pragma once

#include "cache.cuh"
#include "lists.cuh"

// Passed by value; declared in crates/uva-kernels too. Numbers in the lists may have any value: they are held to their
// ranges, so that no number leads outside an array.
struct SumArguments {
  const unsigned char* rows;        // row 0 of `sources` rows, aligned to a value
  unsigned long long row_bytes;     // a multiple of a value's bytes, at least one value
  unsigned long long sources;       // not below destinations
  const int* indptr;                // destinations + 1 entries
  const int* indices;               // edges entries
  const float* sampled;             // edges entries: the sampler's weights; null where there are none
  const int* degrees;               // sources entries: weights are those by degrees, own rows are in the sums; or null
  unsigned long long destinations;
  unsigned long long edges;
  float* sums;                      // destinations rows of as many values, aligned to their size
  unsigned char* own;               // destinations rows of row_bytes, aligned to a value: copies of the first rows; or null
};

namespace uva {

// The types of values: bytes of one, and value `index` of a word as float32. Every narrow value is exact there.
struct Float32 {
  static constexpr int BYTES = 4;
  static __device__ __forceinline__ float value(u32 word, int) { return __uint_as_float(word); }
};

struct Float16 {
  static constexpr int BYTES = 2;
  static __device__ __forceinline__ float value(u32 word, int index) {
    const u32 bits = word >> (16 * index);
    // Exponent and fraction move to their places, and 2^112 makes up for the other bias, of subnormal numbers too.
    const float size = __fmul_rn(__uint_as_float((bits & 0x7fff) << 13), __uint_as_float(0x77800000));
    // Infinities and NaNs keep an exponent of all ones.
    const u32 special = (bits & 0x7c00) == 0x7c00 ? 0x7f800000 : 0;
    return __uint_as_float(__float_as_uint(size) | special | (bits & 0x8000) << 16);
  }
};

struct Bfloat16 {
  static constexpr int BYTES = 2;
  static __device__ __forceinline__ float value(u32 word, int index) {
    return __uint_as_float(index == 0 ? word << 16 : word & 0xffff0000);
  }
};

// float8_e4m3fn: no infinities, and one NaN of each sign.
struct Float8E4m3 {
  static constexpr int BYTES = 1;
  static __device__ __forceinline__ float value(u32 word, int index) {
    const u32 bits = word >> (8 * index);
    const float size = __fmul_rn(__uint_as_float((bits & 0x7f) << 20), __uint_as_float(0x7b800000));
    const u32 special = (bits & 0x7f) == 0x7f ? 0x7fc00000 : 0;
    return __uint_as_float(__float_as_uint(size) | special | (bits & 0x80) << 24);
  }
};

// Loads of a lane that are on their way before the first is used, of one edge each, at most. A group has as many lanes at
// least, so that it looks up as many edges at once.
constexpr u32 SUMS_DEPTH = 4;

// The weight of an edge of `destination`, whose list has so many. The order of operations is that of
// crates/uva-ops/src/lists/degree_weights.rs, so that the bits are the same.
__device__ __forceinline__ float weight_in_sum(const SumArguments& arguments, u64 edge, u64 destination, int source,
                                               u32 picks) {
  if (arguments.degrees == nullptr) {
    return arguments.sampled != nullptr ? arguments.sampled[edge] : (float)__ddiv_rn(1.0, (double)picks);
  }
  const int degree = arguments.degrees[destination];
  const double scale = arguments.sampled != nullptr ? (double)degree * (double)arguments.sampled[edge]
                                                    : __ddiv_rn((double)degree, (double)picks);
  return (float)(scale * root(degree) * root(arguments.degrees[source]));
}

template <class Value, int WIDTH>
__device__ __forceinline__ void add(float (&sums)[WIDTH / Value::BYTES], const Piece<WIDTH>& piece, float weight) {
  constexpr int OF_WORD = WIDTH < 4 ? 1 : 4 / Value::BYTES;
#pragma unroll
  for (int value = 0; value < WIDTH / Value::BYTES; ++value) {
    sums[value] = __fmaf_rn(Value::value(piece.word[value / OF_WORD], value % OF_WORD), weight, sums[value]);
  }
}

// By pieces of WIDTH bytes: a lane has one at a time. A row of more pieces than a warp has lanes is summed in panels,
// and its list is read again for each.
template <class Value, int WIDTH>
__device__ __forceinline__ void sum_pieces(const SumArguments& arguments) {
  constexpr int VALUES = WIDTH / Value::BYTES;
  // Sixteen sums and four pieces are more than 64 registers hold.
  constexpr u32 DEPTH = VALUES > 8 ? SUMS_DEPTH / 2 : SUMS_DEPTH;
  const u64 row_bytes = arguments.row_bytes, pieces = row_bytes / WIDTH;
  u32 group = SUMS_DEPTH;
  while (group < LANES && group < pieces) group *= 2;
  const u32 lane = threadIdx.x % LANES, place = lane % group, leader = lane - place;
  const u32 at_once = LANES / group;
  const u64 warps = (u64)gridDim.x * (blockDim.x / LANES);
  const int edges = (int)arguments.edges, last_source = (int)arguments.sources - 1;
  u64 first = ((u64)blockIdx.x * (blockDim.x / LANES) + threadIdx.x / LANES) * at_once;
  for (; first < arguments.destinations; first += warps * at_once) {
    const u64 destination = first + lane / group;
    const bool there = destination < arguments.destinations;
    int begin = 0;
    u32 picks = 0;
    if (there) {
      begin = within(arguments.indptr[destination], edges);
      const int end = within(arguments.indptr[destination + 1], edges);
      picks = end > begin ? (u32)(end - begin) : 0;
    }
    for (u64 panel = 0; panel < pieces; panel += group) {
      const u64 at = (panel + place) * WIDTH;
      const bool mine = there && at < row_bytes;
      float sums[VALUES] = {};
      // Every lane of the warp makes every turn, since loads and shuffles are operations of all of them.
      for (u32 done = 0; __ballot_sync(ALL_LANES, done < picks) != 0; done += group) {
        const u32 here = done >= picks ? 0 : picks - done < group ? picks - done : group;
        int source = 0;
        float weight = 0;
        if (place < here) {
          const u64 edge = (u64)begin + done + place;
          source = within(arguments.indices[edge], last_source);
          weight = weight_in_sum(arguments, edge, destination, source, picks);
        }
        for (u32 next = 0; __ballot_sync(ALL_LANES, next < here) != 0; next += DEPTH) {
          Piece<WIDTH> read[DEPTH];
#pragma unroll
          for (u32 ahead = 0; ahead < DEPTH; ++ahead) {
            const u64 row = (u64)__shfl_sync(ALL_LANES, source, (int)(leader + next + ahead));
            read[ahead] = load<WIDTH>(arguments.rows + row * row_bytes + at, mine && next + ahead < here);
          }
          // Keeps ptxas from using the first load before it has sent the last (see `load`).
          __syncwarp();
#pragma unroll
          for (u32 ahead = 0; ahead < DEPTH; ++ahead) {
            const float of_edge = __shfl_sync(ALL_LANES, weight, (int)(leader + next + ahead));
            // An edge that is not there must not add: even a zero would turn -0 into 0.
            if (next + ahead < here) add<Value, WIDTH>(sums, read[ahead], of_edge);
          }
        }
      }
      if (arguments.degrees != nullptr || arguments.own != nullptr) {
        const Piece<WIDTH> own = load<WIDTH>(arguments.rows + destination * row_bytes + at, mine);
        if (mine && arguments.degrees != nullptr) {
          const double factor = root(arguments.degrees[destination]);
          add<Value, WIDTH>(sums, own, (float)(factor * factor));
        }
        if (mine && arguments.own != nullptr) store_lane<WIDTH>(arguments.own + destination * row_bytes + at, own);
      }
      if (mine) {
        float* const to = arguments.sums + destination * (row_bytes / Value::BYTES) + at / Value::BYTES;
        if constexpr (WIDTH == 16) {
#pragma unroll
          for (int value = 0; value < VALUES; value += 4) {
            const Piece<16> four = {{__float_as_uint(sums[value]), __float_as_uint(sums[value + 1]),
                                     __float_as_uint(sums[value + 2]), __float_as_uint(sums[value + 3])}};
            store16(reinterpret_cast<u8*>(to + value), four);
          }
        } else {
#pragma unroll
          for (int value = 0; value < VALUES; ++value) to[value] = sums[value];
        }
      }
    }
  }
}

// By the widest pieces that rows on both sides consist of.
template <class Value>
__device__ __forceinline__ void sum_rows(const SumArguments& arguments) {
  const u64 mixed = reinterpret_cast<u64>(arguments.rows) | reinterpret_cast<u64>(arguments.own) | arguments.row_bytes;
  if ((mixed | reinterpret_cast<u64>(arguments.sums)) % 16 == 0) {
    sum_pieces<Value, 16>(arguments);
  } else if (mixed % 4 == 0) {
    sum_pieces<Value, 4>(arguments);
  } else {
    sum_pieces<Value, Value::BYTES>(arguments);
  }
}

}  // namespace uva
