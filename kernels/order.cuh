// The order in which a gather visits its rows: region by region of the table, instead of as the batch has them.
//
// A GPU translates the addresses of host memory by 64 KiB, from a cache of translations that reaches about 1 GiB. Each
// miss costs a walk through page tables, of which an H100 makes 30 million a second: rows of 512 bytes, drawn from a
// table of 8 GiB, come at 16 GB/s over a link of 51. Rows of one region that are read together share their
// translations. docs/internals/kernels.md has the figures.
//
// This is a counting sort by region. Three launches in one stream, each with any grid, after `places` is zeroed:
//
//   order_count   counts the rows of each region; the gather begins with it
//   order_place   gives each region that has rows a range of `order`
//   order_fill    writes the rows' positions into their regions' ranges
//
// Which region comes before which, and which row of a region before which, differs between runs. No output depends on it.
#pragma once

#include "gather.cuh"
#include "scan.cuh"

// Passed by value; declared in crates/uva-kernels too.
struct OrderArguments {
  const long long* ids;         // `count` of them
  unsigned long long count;     // less than 2^32
  unsigned long long regions;   // a region is 2^row_bits rows; rows after the last region count as the last region's
  unsigned long long row_bits;
  unsigned* places;             // of each region, and one more: zeroes before order_count
  unsigned* order;              // `count` positions, each once
  GatherReport* report;         // the gather's, whose beginning this is
};

namespace uva {

// Also for an id that is not a row: the gather reports it.
__device__ __forceinline__ u64 region_of(const OrderArguments& arguments, u64 position) {
  const u64 region = (u64)arguments.ids[position] >> arguments.row_bits;
  return region < arguments.regions ? region : arguments.regions - 1;
}

__device__ __forceinline__ u64 first_of_grid() { return (u64)blockIdx.x * blockDim.x + threadIdx.x; }
__device__ __forceinline__ u64 threads_of_grid() { return (u64)gridDim.x * blockDim.x; }

__device__ __forceinline__ void count_regions(const OrderArguments& arguments) {
  if (first_of_grid() == 0) atomicMin(&arguments.report->began_ns, (u64)global_nanoseconds());
  for (u64 position = first_of_grid(); position < arguments.count; position += threads_of_grid()) {
    atomicAdd(&arguments.places[region_of(arguments, position)], 1u);
  }
}

// A block takes as many regions as it has threads, and one range for all of them.
__device__ __forceinline__ void place_regions(const OrderArguments& arguments) {
  __shared__ u32 range;
  for (u64 first = (u64)blockIdx.x * blockDim.x; first < arguments.regions; first += threads_of_grid()) {
    const u64 region = first + threadIdx.x;
    const Scanned scanned = block_scan(region < arguments.regions ? arguments.places[region] : 0);
    if (threadIdx.x == 0) range = atomicAdd(&arguments.places[arguments.regions], (u32)scanned.all);
    __syncthreads();
    if (region < arguments.regions) arguments.places[region] = range + (u32)scanned.before;
    __syncthreads();
  }
}

__device__ __forceinline__ void fill_order(const OrderArguments& arguments) {
  for (u64 position = first_of_grid(); position < arguments.count; position += threads_of_grid()) {
    const u32 at = atomicAdd(&arguments.places[region_of(arguments, position)], 1u);
    arguments.order[at] = (u32)position;
  }
}

}  // namespace uva
