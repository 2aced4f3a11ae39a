// What the gather kernels have in common: their arguments, the report, and how rows are handed out.
#pragma once

#include "intrinsics.cuh"
#include "tuning.cuh"

// How a gather went. In device memory. Declared in crates/uva-kernels too, which does not build if the two differ.
struct GatherReport {
  unsigned long long stamp;         // written last, by gather_finish: everything before is complete
  unsigned long long began_ns;      // device clock at gather_begin, or when the first rows were handed out
  unsigned long long ended_ns;      // device clock at gather_finish
  unsigned long long bad_position;  // first position whose id is not a row; all ones when there is none
  long long bad_id;                 // that id
  unsigned long long next;          // turns handed out so far (of misses, in the cached form of `wide`)
  unsigned long long hits;          // rows read from the cache
  unsigned long long next_hit;      // turns handed out so far to warps that look for hits
};

// Passed by value; declared in crates/uva-kernels too. `table` and `cache` are read in 16-byte pieces by `wide`: the
// aligned piece around a row's first and last byte has to be readable. It is wherever memory is mapped in pages.
struct GatherArguments {
  const unsigned char* table;       // row 0, any alignment
  unsigned long long rows;          // rows of the table: ids are 0…rows-1
  unsigned long long row_bytes;     // at least 1
  const void* ids;                  // `count` of them, int32 or int64 by the kernel's name
  unsigned long long count;
  unsigned char* out;               // output row 0, any alignment; nothing outside count * row_bytes is written
  GatherReport* report;
  const int* slot_map;              // cached form: the slot in `cache` of each row of the table, negative: none
  const unsigned char* cache;       // cached form: rows of row_bytes
  const unsigned* order;            // the positions in the order of their visits; null: as they are
};

namespace uva {

constexpr u64 NO_POSITION = ~0ull;
// A bad position: the number of its table above the position in the table's ids.
constexpr u32 POSITION_BITS = 48;
// What began_ns is in a report that the host prepared, until a kernel begins.
constexpr u64 NOT_BEGUN = ~0ull;
// A read of the link never crosses from one line into the next.
constexpr u32 LINE_BYTES = 128;

// Turns first…first+count-1 of the visits.
struct Take {
  u64 first;
  u32 count;
};

// How many turns a warp takes at once: many, so that the counter is seldom asked, but few enough for every warp of
// the grid to come back several times, since the last take decides when the kernel ends.
__device__ __forceinline__ u32 rows_per_take(u64 count) {
  const u64 warps = (u64)gridDim.x * (blockDim.x / LANES);
  const u64 even = count / (warps * UVA_GATHER_TAKES_PER_WARP);
  return even < 1 ? 1 : even > UVA_GATHER_ROWS_PER_TAKE ? UVA_GATHER_ROWS_PER_TAKE : (u32)even;
}

// The next turns for this warp; count is 0 when there are none left. The first of them begin the gather: a report
// from gather_begin has an earlier time already, one that the host prepared gets this time.
__device__ __forceinline__ Take take_rows(u64* counter, u32 rows, u64 count, GatherReport* report) {
  u64 first = 0;
  if (threadIdx.x % LANES == 0) {
    first = atomicAdd(counter, (u64)rows);
    if (first == 0) atomicMin(&report->began_ns, (u64)global_nanoseconds());
  }
  first = __shfl_sync(ALL_LANES, first, 0);
  Take take = {first, 0};
  if (first < count) take.count = count - first < rows ? (u32)(count - first) : rows;
  return take;
}

// The position that is visited at this turn.
__device__ __forceinline__ u64 visited(const GatherArguments& arguments, u64 turn) {
  return arguments.order == nullptr ? turn : arguments.order[turn];
}

// Where a row is read.
struct Source {
  const u8* row;  // null: the id is not a row
  bool hit;       // in the cache
};

// Looks an id up. An id that is not a row is noted in the report, and neither the slot map nor the table is touched.
template <class Id, bool CACHED>
__device__ __forceinline__ Source source_of(const GatherArguments& arguments, u64 position) {
  const i64 id = reinterpret_cast<const Id*>(arguments.ids)[position];
  Source source = {nullptr, false};
  // A negative id is a huge unsigned one.
  if ((u64)id >= arguments.rows) {
    atomicMin(&arguments.report->bad_position, position);
    return source;
  }
  if (CACHED) {
    const i64 slot = arguments.slot_map[id];
    if (slot >= 0) {
      source.row = arguments.cache + (u64)slot * arguments.row_bytes;
      source.hit = true;
      return source;
    }
  }
  source.row = arguments.table + (u64)id * arguments.row_bytes;
  return source;
}

// Ends the report. The gather before it in the stream is complete, but a reader in another process trusts the stamp
// alone: the fence orders it after all other writes.
__device__ __forceinline__ void complete(GatherReport* report, u64 stamp) {
  report->ended_ns = global_nanoseconds();
  // No rows, and so no gather.
  if (report->began_ns == NOT_BEGUN) report->began_ns = report->ended_ns;
  __threadfence_system();
  *reinterpret_cast<volatile u64*>(&report->stamp) = stamp;
}

// Completes the report of a gather of these ids.
template <class Id>
__device__ __forceinline__ void finish(GatherReport* report, const void* ids, u64 stamp) {
  if (report->bad_position != NO_POSITION) report->bad_id = reinterpret_cast<const Id*>(ids)[report->bad_position];
  complete(report, stamp);
}

}  // namespace uva
