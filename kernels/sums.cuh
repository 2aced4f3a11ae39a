// Sums of listed rows, which lie in device memory already: what the first layer of some models begins with. A group of
// lanes makes the sum of a list, each lane of its own columns and in the order of the list's edges, so the bits depend
// on no grid. The rows are those that were gathered for the batch. Or they are those of a cache, and continue sums that
// the host began with the others. docs/guide/aggregation.md has the formulas.
#pragma once

#include "cache.cuh"
#include "gather.cuh"
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

// Passed by value; declared in crates/uva-kernels too. Sums of which the host made a part: those of the listed rows that
// are not in a cache. The list's rows that are there continue it, in the list's order.
struct ContinuedArguments {
  SumArguments lists;               // `rows` are those of the cache, slot by slot, in place of the sources'
  unsigned long long cached;        // how many of them
  const long long* ids;             // sources entries: the row of the table that each is. They may have any value
  const int* slot_map;              // table_rows entries: the slot of each row in the cache, negative: none
  unsigned long long table_rows;
  const float* begun;               // begun_rows sums, aligned to their size
  const int* begun_of;              // destinations entries: which of these the list's is, negative: it begins at zero
  unsigned long long begun_rows;
  const unsigned char* missed;      // missed_rows rows of row_bytes, aligned to a value: own rows that are not cached
  const int* missed_of;             // destinations entries: which of these the own row is, negative: none; or null
  unsigned long long missed_rows;
  GatherReport* report;             // gets the time of the beginning
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

// The most loads of a lane in flight before the first is used, one for each edge. A group has as many lanes at
// least, so that it looks up as many edges at once.
constexpr u32 SUMS_DEPTH = 4;

// The weight of an edge of `destination`, by the length of its list. The order of operations is that of
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

// No row: any negative number is.
constexpr int NOWHERE = -1;

// Rows of a batch, gathered beforehand: that of a source has its number.
struct GatheredRows {
  static constexpr bool SOME_MISS = false;

  // Addresses that the pieces of own rows, and of sums, are aligned to.
  __device__ __forceinline__ u64 rows_at() const { return 0; }
  __device__ __forceinline__ u64 sums_at() const { return 0; }

  // Which row is that of the source; negative: none.
  __device__ __forceinline__ int row_of(int source) const { return source; }
};

// Rows of a cache. Those of the other sources are in the sums that the host began.
struct CachedRows {
  static constexpr bool SOME_MISS = true;
  const ContinuedArguments& arguments;

  __device__ __forceinline__ u64 rows_at() const { return reinterpret_cast<u64>(arguments.missed); }
  __device__ __forceinline__ u64 sums_at() const { return reinterpret_cast<u64>(arguments.begun); }

  __device__ __forceinline__ int row_of(int source) const {
    const u64 id = (u64)arguments.ids[source];
    // A negative id is a huge unsigned one.
    return id < arguments.table_rows ? arguments.slot_map[id] : NOWHERE;
  }
};

// The host's part of a sum: columns from `first` on, of which the lane has some if it is `mine`.
template <int VALUES, int WIDTH>
__device__ __forceinline__ void begin_with(float (&sums)[VALUES], const ContinuedArguments& arguments, u64 destination,
                                           u64 columns, u64 first, bool mine) {
  const int row = mine ? arguments.begun_of[destination] : NOWHERE;
  const u8* const from = reinterpret_cast<const u8*>(arguments.begun) + ((u64)row * columns + first) * sizeof(float);
  // Sums of pieces of 16 bytes are whole pieces, too.
  constexpr int WORDS = WIDTH == 16 ? 4 : 1;
#pragma unroll
  for (int value = 0; value < VALUES; value += WORDS) {
    const Piece<4 * WORDS> piece = load<4 * WORDS>(from + value * sizeof(float), row >= 0);
#pragma unroll
    for (int word = 0; word < WORDS; ++word) sums[value + word] = __uint_as_float(piece.word[word]);
  }
}

// Where the own row of a destination lies, whose place in the cache is `row`; null where it is nowhere.
__device__ __forceinline__ const u8* own_row(const ContinuedArguments& arguments, u64 destination, int row) {
  const u64 row_bytes = arguments.lists.row_bytes;
  if (row >= 0) return arguments.lists.rows + (u64)row * row_bytes;
  const int missed = arguments.missed_of == nullptr ? NOWHERE : arguments.missed_of[destination];
  return missed < 0 ? nullptr : arguments.missed + (u64)missed * row_bytes;
}

// By pieces of WIDTH bytes: a lane has one at a time. A row of more pieces than a warp has lanes is summed in panels,
// and its list is read again for each.
template <class Value, int WIDTH, class Rows>
__device__ __forceinline__ void sum_pieces(const SumArguments& arguments, const Rows& rows) {
  constexpr int VALUES = WIDTH / Value::BYTES;
  // Sixteen sums and four pieces are more than 64 registers hold; and eight, where rows are looked up.
  constexpr u32 DEPTH = VALUES > (Rows::SOME_MISS ? 4 : 8) ? SUMS_DEPTH / 2 : SUMS_DEPTH;
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
      if constexpr (Rows::SOME_MISS) {
        begin_with<VALUES, WIDTH>(sums, rows.arguments, destination, row_bytes / Value::BYTES, at / Value::BYTES, mine);
      }
      // Every lane of the warp makes every turn, since loads and shuffles are operations of all of them.
      for (u32 done = 0; __ballot_sync(ALL_LANES, done < picks) != 0; done += group) {
        const u32 here = done >= picks ? 0 : picks - done < group ? picks - done : group;
        int row = Rows::SOME_MISS ? NOWHERE : 0;
        float weight = 0;
        if (place < here) {
          const u64 edge = (u64)begin + done + place;
          const int source = within(arguments.indices[edge], last_source);
          row = rows.row_of(source);
          if (!Rows::SOME_MISS || row >= 0) {
            weight = weight_in_sum(arguments, edge, destination, source, picks);
          }
        }
        // The group's edges whose rows are here, as bits.
        const u32 found = Rows::SOME_MISS ? __ballot_sync(ALL_LANES, row >= 0) >> leader : 0;
        for (u32 next = 0; __ballot_sync(ALL_LANES, next < here) != 0; next += DEPTH) {
          Piece<WIDTH> read[DEPTH];
#pragma unroll
          for (u32 ahead = 0; ahead < DEPTH; ++ahead) {
            const u64 of_edge = (u64)__shfl_sync(ALL_LANES, row, (int)(leader + next + ahead));
            const bool wanted = next + ahead < here && (!Rows::SOME_MISS || (found >> (next + ahead) & 1) != 0);
            read[ahead] = load<WIDTH>(arguments.rows + of_edge * row_bytes + at, mine && wanted);
          }
          // Keeps ptxas from using the first load before it has sent the last (see `load`).
          __syncwarp();
#pragma unroll
          for (u32 ahead = 0; ahead < DEPTH; ++ahead) {
            const float of_edge = __shfl_sync(ALL_LANES, weight, (int)(leader + next + ahead));
            // An edge that is not there must not add: even a zero would turn -0 into 0.
            const bool wanted = next + ahead < here && (!Rows::SOME_MISS || (found >> (next + ahead) & 1) != 0);
            if (wanted) add<Value, WIDTH>(sums, read[ahead], of_edge);
          }
        }
      }
      if (arguments.degrees != nullptr || arguments.own != nullptr) {
        // An own row that the host read is in its part of the sum.
        bool added = mine;
        Piece<WIDTH> own;
        if constexpr (Rows::SOME_MISS) {
          const int row = mine ? rows.row_of((int)destination) : NOWHERE;
          const u8* const from = mine ? own_row(rows.arguments, destination, row) : nullptr;
          own = load<WIDTH>(from + at, from != nullptr);
          added = row >= 0;
        } else {
          own = load<WIDTH>(arguments.rows + destination * row_bytes + at, mine);
        }
        if (added && arguments.degrees != nullptr) {
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
template <class Value, class Rows>
__device__ __forceinline__ void sum_by_pieces(const SumArguments& arguments, const Rows& rows) {
  const u64 mixed = reinterpret_cast<u64>(arguments.rows) | reinterpret_cast<u64>(arguments.own) | arguments.row_bytes |
                    rows.rows_at();
  if ((mixed | reinterpret_cast<u64>(arguments.sums) | rows.sums_at()) % 16 == 0) {
    sum_pieces<Value, 16>(arguments, rows);
  } else if (mixed % 4 == 0) {
    sum_pieces<Value, 4>(arguments, rows);
  } else {
    sum_pieces<Value, Value::BYTES>(arguments, rows);
  }
}

template <class Value>
__device__ __forceinline__ void sum_rows(const SumArguments& arguments) {
  sum_by_pieces<Value>(arguments, GatheredRows());
}

// No gather has noted when the batch began.
template <class Value>
__device__ __forceinline__ void continue_sums(const ContinuedArguments& arguments) {
  if (threadIdx.x == 0) atomicMin(&arguments.report->began_ns, (u64)global_nanoseconds());
  const CachedRows rows = {arguments};
  sum_by_pieces<Value>(arguments.lists, rows);
}

}  // namespace uva
