// The gather kernels' entry points: rows of a table in host memory, picked by id, into device memory.
//
//   gather_begin                               one thread; resets the report; none where the host sent a prepared one
//   gather_KERNEL_{i32,i64}                    any grid; rows from the table
//   gather_KERNEL_{i32,i64}_cached             any grid; rows with a slot from the cache, the others from the table
//   gather_KERNEL_tables                       any grid; rows from several tables, by int64 ids of each
//   cache_insert                               any grid; a FIFO cache takes in rows that were gathered
//   order_count, order_place, order_fill       any grid; the order in which a gather visits its rows
//   copy_arrays                                any grid; arrays of a batch from one place on the device to another
//   sum_rows_TYPE                              any grid; sums of gathered rows by lists
//   continue_sums_TYPE                         any grid; the host's sums continued with cached rows; in place of a gather
//   gather_finish_{i32,i64}                    one thread; completes the report
//   gather_finish_tables                       one thread; the same, after a gather from several tables
//   spin_until                                 one thread; holds the stream until the host lets go
//
// In one stream, in this order. An id that is not a row of the table is never read; its output row is not changed, and
// the report names the first of them. docs/internals/kernels.md describes how the
// kernels differ: naive, shift, wide, wide_plain, wide_evict_first.
#include "cache.cuh"
#include "copies.cuh"
#include "gather_narrow.cuh"
#include "gather_tables.cuh"
#include "gather_wide.cuh"
#include "order.cuh"
#include "sums.cuh"

#define UVA_GATHER __global__ void __launch_bounds__(UVA_GATHER_BLOCK_THREADS, UVA_GATHER_BLOCKS_PER_MULTIPROCESSOR)

extern "C" {

__global__ void gather_begin(GatherReport* report) {
  report->stamp = 0;
  report->ended_ns = 0;
  report->bad_position = uva::NO_POSITION;
  report->bad_id = 0;
  report->next = 0;
  report->hits = 0;
  report->next_hit = 0;
  report->began_ns = uva::global_nanoseconds();
}

UVA_GATHER gather_naive_i32(GatherArguments arguments) { uva::gather_narrow<int, false, false>(arguments); }
UVA_GATHER gather_naive_i64(GatherArguments arguments) { uva::gather_narrow<long long, false, false>(arguments); }
UVA_GATHER gather_naive_i32_cached(GatherArguments arguments) { uva::gather_narrow<int, true, false>(arguments); }
UVA_GATHER gather_naive_i64_cached(GatherArguments arguments) { uva::gather_narrow<long long, true, false>(arguments); }

UVA_GATHER gather_shift_i32(GatherArguments arguments) { uva::gather_narrow<int, false, true>(arguments); }
UVA_GATHER gather_shift_i64(GatherArguments arguments) { uva::gather_narrow<long long, false, true>(arguments); }
UVA_GATHER gather_shift_i32_cached(GatherArguments arguments) { uva::gather_narrow<int, true, true>(arguments); }
UVA_GATHER gather_shift_i64_cached(GatherArguments arguments) { uva::gather_narrow<long long, true, true>(arguments); }

UVA_GATHER gather_wide_i32(GatherArguments arguments) { uva::gather_wide<int, uva::Hint::NO_L1>(arguments); }
UVA_GATHER gather_wide_i64(GatherArguments arguments) { uva::gather_wide<long long, uva::Hint::NO_L1>(arguments); }
UVA_GATHER gather_wide_i32_cached(GatherArguments arguments) {
  uva::gather_wide_cached<int, uva::Hint::NO_L1>(arguments);
}
UVA_GATHER gather_wide_i64_cached(GatherArguments arguments) {
  uva::gather_wide_cached<long long, uva::Hint::NO_L1>(arguments);
}

UVA_GATHER gather_wide_plain_i32(GatherArguments arguments) { uva::gather_wide<int, uva::Hint::PLAIN>(arguments); }
UVA_GATHER gather_wide_plain_i64(GatherArguments arguments) { uva::gather_wide<long long, uva::Hint::PLAIN>(arguments); }
UVA_GATHER gather_wide_plain_i32_cached(GatherArguments arguments) {
  uva::gather_wide_cached<int, uva::Hint::PLAIN>(arguments);
}
UVA_GATHER gather_wide_plain_i64_cached(GatherArguments arguments) {
  uva::gather_wide_cached<long long, uva::Hint::PLAIN>(arguments);
}

UVA_GATHER gather_wide_evict_first_i32(GatherArguments arguments) { uva::gather_wide<int, uva::Hint::L2_EVICT_FIRST>(arguments); }
UVA_GATHER gather_wide_evict_first_i64(GatherArguments arguments) { uva::gather_wide<long long, uva::Hint::L2_EVICT_FIRST>(arguments); }
UVA_GATHER gather_wide_evict_first_i32_cached(GatherArguments arguments) {
  uva::gather_wide_cached<int, uva::Hint::L2_EVICT_FIRST>(arguments);
}
UVA_GATHER gather_wide_evict_first_i64_cached(GatherArguments arguments) {
  uva::gather_wide_cached<long long, uva::Hint::L2_EVICT_FIRST>(arguments);
}

UVA_GATHER gather_naive_tables(const __grid_constant__ TablesArguments arguments) {
  uva::gather_tables_narrow<false>(arguments);
}
UVA_GATHER gather_shift_tables(const __grid_constant__ TablesArguments arguments) {
  uva::gather_tables_narrow<true>(arguments);
}
UVA_GATHER gather_wide_tables(const __grid_constant__ TablesArguments arguments) {
  uva::gather_tables_wide<uva::Hint::NO_L1>(arguments);
}
UVA_GATHER gather_wide_plain_tables(const __grid_constant__ TablesArguments arguments) {
  uva::gather_tables_wide<uva::Hint::PLAIN>(arguments);
}
UVA_GATHER gather_wide_evict_first_tables(const __grid_constant__ TablesArguments arguments) {
  uva::gather_tables_wide<uva::Hint::L2_EVICT_FIRST>(arguments);
}

UVA_GATHER cache_insert(InsertArguments arguments) { uva::insert(arguments); }

UVA_GATHER order_count(OrderArguments arguments) { uva::count_regions(arguments); }
UVA_GATHER order_place(OrderArguments arguments) { uva::place_regions(arguments); }
UVA_GATHER order_fill(OrderArguments arguments) { uva::fill_order(arguments); }

UVA_GATHER copy_arrays(const __grid_constant__ CopyArguments arguments) { uva::copy_all(arguments); }

UVA_GATHER sum_rows_f32(SumArguments arguments) { uva::sum_rows<uva::Float32>(arguments); }
UVA_GATHER sum_rows_f16(SumArguments arguments) { uva::sum_rows<uva::Float16>(arguments); }
UVA_GATHER sum_rows_bf16(SumArguments arguments) { uva::sum_rows<uva::Bfloat16>(arguments); }
UVA_GATHER sum_rows_e4m3(SumArguments arguments) { uva::sum_rows<uva::Float8E4m3>(arguments); }

UVA_GATHER continue_sums_f32(ContinuedArguments arguments) { uva::continue_sums<uva::Float32>(arguments); }
UVA_GATHER continue_sums_f16(ContinuedArguments arguments) { uva::continue_sums<uva::Float16>(arguments); }
UVA_GATHER continue_sums_bf16(ContinuedArguments arguments) { uva::continue_sums<uva::Bfloat16>(arguments); }
UVA_GATHER continue_sums_e4m3(ContinuedArguments arguments) { uva::continue_sums<uva::Float8E4m3>(arguments); }

__global__ void gather_finish_i32(GatherReport* report, const void* ids, unsigned long long stamp) {
  uva::finish<int>(report, ids, stamp);
}
__global__ void gather_finish_i64(GatherReport* report, const void* ids, unsigned long long stamp) {
  uva::finish<long long>(report, ids, stamp);
}
__global__ void gather_finish_tables(const __grid_constant__ TablesArguments arguments, unsigned long long stamp) {
  uva::finish_tables(arguments, stamp);
}

// nvbandwidth's way to time what runs without the cost of enqueueing it: the stream waits here for a word of pinned
// host memory to become other than zero.
__global__ void spin_until(volatile unsigned* flag) {
  while (*flag == 0) uva::breathe();
}

}  // extern "C"
