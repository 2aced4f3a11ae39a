// Rows of several tables by one launch, each table by ids of its own.
//
// The turns of all tables are numbered through, and a table's turns begin at a multiple of the largest take. A take is a
// power of two, so it never crosses from one table to the next: lanes never mix sizes of rows, and a row costs the reads
// that it costs in a gather of its table alone.
#pragma once

#include "gather_narrow.cuh"
#include "gather_wide.cuh"

// Tables of a launch at most: their arguments fit into the 4 KB that a kernel takes, in constant memory.
#define UVA_TABLES_AT_ONCE 32

// One table and the rows to gather from it. Declared in crates/uva-kernels too, like the struct below.
struct GatheredTable {
  const unsigned char* table;       // as in GatherArguments, and so are the next five
  unsigned long long rows;
  unsigned long long row_bytes;
  const long long* ids;
  unsigned long long count;
  unsigned char* out;
  const unsigned* order;
  unsigned long long first;         // the table's first turn: a multiple of UVA_GATHER_ROWS_PER_TAKE
};

// Passed by value.
struct TablesArguments {
  unsigned long long tables;
  unsigned long long number;        // of the first table, in the report
  unsigned long long turns;         // the end of the last table's turns
  GatherReport* report;
  unsigned long long* counter;      // of the turns handed out: `next` of the report, or another that is 0
  GatheredTable table[UVA_TABLES_AT_ONCE];
};

namespace uva {

// As `rows_per_take`, and a power of two.
__device__ __forceinline__ u32 turns_per_take(u64 turns) {
  const u32 most = rows_per_take(turns);
  u32 power = 1;
  while (2 * power <= most) power *= 2;
  return power;
}

// The table of that turn, which is `from` or a later one: the last that begins no later.
__device__ __forceinline__ u32 table_of(const TablesArguments& arguments, u64 turn, u32 from) {
  while (from + 1 < arguments.tables && arguments.table[from + 1].first <= turn) ++from;
  return from;
}

// The part of a take that has rows: nothing between a table's last row and the next table's first turn.
__device__ __forceinline__ Take within(const GatheredTable& table, Take take) {
  take.first -= table.first;
  const u64 left = take.first < table.count ? table.count - take.first : 0;
  if (left < take.count) take.count = (u32)left;
  return take;
}

// As `source_of`, without a cache.
__device__ __forceinline__ const u8* row_of(const TablesArguments& arguments, u32 which, u64 position) {
  const GatheredTable& table = arguments.table[which];
  const i64 id = table.ids[position];
  if ((u64)id >= table.rows) {
    atomicMin(&arguments.report->bad_position, (arguments.number + which) << POSITION_BITS | position);
    return nullptr;
  }
  return table.table + (u64)id * table.row_bytes;
}

__device__ __forceinline__ u64 visited(const GatheredTable& table, u64 turn) {
  return table.order == nullptr ? turn : table.order[turn];
}

template <bool SHIFT>
__device__ __forceinline__ void gather_tables_narrow(const TablesArguments& arguments) {
  const u32 at_once = turns_per_take(arguments.turns);
  u32 which = 0;
  for (;;) {
    const Take taken = take_rows(arguments.counter, at_once, arguments.turns, arguments.report);
    if (taken.count == 0) break;
    which = table_of(arguments, taken.first, which);
    const GatheredTable& table = arguments.table[which];
    const u64 row_bytes = table.row_bytes;
    const u32 width = narrow_lane(reinterpret_cast<u64>(table.table) | row_bytes);
    const u32 unit = narrow_lane(reinterpret_cast<u64>(table.out) | row_bytes);
    const Take take = within(table, taken);
    for (u64 turn = take.first; turn < take.first + take.count; ++turn) {
      const u64 position = visited(table, turn);
      // The same for all lanes, so that they stay together.
      const u8* const row = row_of(arguments, which, position);
      if (row == nullptr) continue;
      u8* to = table.out + position * row_bytes;
      if (width == 4) {
        copy_row_narrow<4, SHIFT>(row, to, row_bytes, unit);
      } else if (width == 2) {
        copy_row_narrow<2, SHIFT>(row, to, row_bytes, unit);
      } else {
        copy_row_narrow<1, SHIFT>(row, to, row_bytes, unit);
      }
    }
  }
}

template <Hint HINT>
__device__ __forceinline__ void gather_tables_wide(const TablesArguments& arguments) {
  __shared__ Rows<LANES> of_warp[UVA_GATHER_BLOCK_THREADS / LANES];
  Rows<LANES>& rows = of_warp[threadIdx.x / LANES];
  const u32 lane = threadIdx.x % LANES;
  const u32 at_once = turns_per_take(arguments.turns);
  u32 which = 0;
  for (;;) {
    const Take taken = take_rows(arguments.counter, at_once, arguments.turns, arguments.report);
    if (taken.count == 0) break;
    which = table_of(arguments, taken.first, which);
    const GatheredTable& table = arguments.table[which];
    const Take take = within(table, taken);
    if (lane < take.count) {
      const u64 position = visited(table, take.first + lane);
      rows.row[lane] = row_of(arguments, which, position);
      rows.output[lane] = table.out + position * table.row_bytes;
    }
    __syncwarp();
    copy_rows<HINT>(layout_of(table.table, table.row_bytes), take.count, rows);
    __syncwarp();
  }
}

// As `finish`. Where the tables need several launches, each of them is finished, all but the last without a stamp.
__device__ __forceinline__ void finish_tables(const TablesArguments& arguments, u64 stamp) {
  GatherReport* const report = arguments.report;
  const u64 table = report->bad_position >> POSITION_BITS;
  if (report->bad_position != NO_POSITION && table >= arguments.number && table < arguments.number + arguments.tables) {
    const u64 position = report->bad_position & ((1ull << POSITION_BITS) - 1);
    report->bad_id = arguments.table[table - arguments.number].ids[position];
  }
  if (stamp != 0) complete(report, stamp);
}

}  // namespace uva
