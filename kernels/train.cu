// What the consumer launches in a training step: the preparation of all blocks of a batch, and the batch's verdict. See
// docs/internals/kernels.md.
//
// Preparation: offsets and sources within their ranges, the destination of each edge, and the weight of each edge. A
// block of threads works on UVA_BLOCK_DESTINATIONS destinations and on the edges of their lists. Its offsets depend on
// the largest of all before them, since an offset that falls is raised. It reads those itself: for the last of a million
// destinations that is 4 MB of L2, and no block waits for another.

#include "block.cuh"
#include "lists.cuh"
#include "verdict.cuh"

#define UVA_BLOCK __global__ void __launch_bounds__(UVA_BLOCK_THREADS)

namespace uva {

constexpr u32 ITEMS = UVA_BLOCK_DESTINATIONS / UVA_BLOCK_THREADS;
static_assert(ITEMS * UVA_BLOCK_THREADS == UVA_BLOCK_DESTINATIONS, "threads have equal shares");

__device__ __forceinline__ int larger(int a, int b) { return a > b ? a : b; }

// The largest value, none of them negative, of this thread and all before it. Every thread comes here.
__device__ __forceinline__ int largest_so_far(int value) {
  __shared__ int of_warps[UVA_BLOCK_THREADS / LANES];
  const u32 lane = threadIdx.x % LANES, warp = threadIdx.x / LANES;
  for (u32 by = 1; by < LANES; by *= 2) {
    const int before = __shfl_up_sync(ALL_LANES, value, by);
    if (lane >= by) value = larger(value, before);
  }
  __syncthreads();
  if (lane == LANES - 1) of_warps[warp] = value;
  __syncthreads();
  for (u32 before = 0; before < warp; ++before) value = larger(value, of_warps[before]);
  return value;
}

__device__ __forceinline__ void store_weight(void* weights, u64 at, double weight, u64 wide) {
  if (wide) {
    static_cast<double*>(weights)[at] = weight;
  } else {
    static_cast<float*>(weights)[at] = (float)weight;
  }
}

// The weight of an edge from `source` to `destination`, by the length of its list. The order of operations is that of
// crates/uva-train/src/tensor_block.rs, so that the bits are the same.
__device__ __forceinline__ double weight_of(const BlockArguments& arguments, u64 edge, u64 destination, int source,
                                            int picks) {
  if (arguments.weighting == UVA_WEIGHTS_SUM) return 1.0;
  if (arguments.weighting == UVA_WEIGHTS_MEAN) {
    return arguments.sampled ? (double)arguments.sampled[edge] : __ddiv_rn(1.0, (double)picks);
  }
  const double degree = (double)arguments.degrees[destination];
  const double scale = arguments.sampled ? degree * (double)arguments.sampled[edge] : __ddiv_rn(degree, (double)picks);
  return scale * root(arguments.degrees[destination]) * root(arguments.degrees[source]);
}

}  // namespace uva

extern "C" {

UVA_BLOCK block_prepare(const __grid_constant__ BatchBlocks batch) {
  using namespace uva;
  // Blocks of threads take the blocks of the batch in turn.
  const u32 layer = blockIdx.x % (u32)batch.count, share = blockIdx.x / (u32)batch.count;
  const BlockArguments& arguments = batch.blocks[layer];
  // The offsets of these destinations, and one more.
  __shared__ int offsets[UVA_BLOCK_DESTINATIONS + 1];
  // Each thread's largest of its own and all before it.
  __shared__ int largest[UVA_BLOCK_THREADS];
  const u64 destinations = arguments.destinations;
  const int edges = (int)arguments.edges;
  const u64 step = (u64)(gridDim.x / (u32)batch.count) * UVA_BLOCK_DESTINATIONS;
  // Once without destinations, for the one offset.
  for (u64 begin = (u64)share * UVA_BLOCK_DESTINATIONS; begin == 0 || begin < destinations; begin += step) {
    const u32 count =
        (u32)(destinations - begin < UVA_BLOCK_DESTINATIONS ? destinations - begin : UVA_BLOCK_DESTINATIONS);
    int before = 0;
    for (u64 at = threadIdx.x; at <= begin; at += UVA_BLOCK_THREADS)
      before = larger(before, within(arguments.indptr[at], edges));
    before = largest_so_far(before);
    if (threadIdx.x == UVA_BLOCK_THREADS - 1) offsets[0] = before;
    // Consecutive destinations a thread.
    const u32 mine = threadIdx.x * ITEMS;
    int running = 0;
    for (u32 item = 0; item < ITEMS; ++item)
      if (mine + item < count) running = larger(running, within(arguments.indptr[begin + 1 + mine + item], edges));
    largest[threadIdx.x] = largest_so_far(running);
    __syncthreads();
    running = threadIdx.x == 0 ? offsets[0] : larger(offsets[0], largest[threadIdx.x - 1]);
    for (u32 item = 0; item < ITEMS; ++item) {
      if (mine + item >= count) break;
      running = larger(running, within(arguments.indptr[begin + 1 + mine + item], edges));
      offsets[1 + mine + item] = running;
    }
    __syncthreads();
    if (begin == 0 && threadIdx.x == 0) arguments.offsets[0] = offsets[0];
    for (u32 at = threadIdx.x; at < count; at += UVA_BLOCK_THREADS) {
      arguments.offsets[begin + 1 + at] = offsets[1 + at];
      if (arguments.own) {
        const double factor = root(arguments.degrees[begin + at]);
        store_weight(arguments.own, begin + at, factor * factor, arguments.wide);
      }
    }
    // The edges of these lists. Those in no list count to the first or the last destination.
    const int last = begin + count == destinations ? edges : offsets[count];
    for (i64 edge = (begin == 0 ? 0 : offsets[0]) + (i64)threadIdx.x; count > 0 && edge < last;
         edge += UVA_BLOCK_THREADS) {
      u32 low = 0, high = count - 1;
      while (low < high) {
        const u32 middle = (low + high) / 2;
        if (offsets[middle + 1] > edge) {
          high = middle;
        } else {
          low = middle + 1;
        }
      }
      const int source = within(arguments.indices[edge], (int)arguments.sources - 1);
      arguments.sources_of_edges[edge] = source;
      arguments.destinations_of_edges[edge] = (int)(begin + low);
      if (arguments.weights) {
        const int picks = offsets[low + 1] - offsets[low];
        const double weight = weight_of(arguments, (u64)edge, begin + low, source, picks);
        store_weight(arguments.weights, (u64)edge, weight, arguments.wide);
      }
    }
    // The offsets are used until here.
    __syncthreads();
  }
}

// One thread, after the loss.
__global__ void batch_verdict(VerdictArguments arguments) { uva::judge(arguments); }

}  // extern "C"
