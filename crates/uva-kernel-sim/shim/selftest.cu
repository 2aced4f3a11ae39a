// Kernels that test the shim itself.
#include "../../../kernels/intrinsics.cuh"

extern "C" {

// Reverses each warp's values by a shuffle, twice as often as needed so that operations overlap.
__global__ void selftest_reverse(unsigned* values) {
  const unsigned at = blockIdx.x * blockDim.x + threadIdx.x;
  unsigned value = values[at];
  for (int times = 0; times < 3; ++times) value = __shfl_sync(uva::ALL_LANES, value, 31 - (int)(threadIdx.x % 32));
  values[at] = value;
}

// Sums a block's values through shared memory: every thread needs what all others have written.
__global__ void selftest_block_sum(const unsigned* values, unsigned* sums) {
  __shared__ unsigned shared[1024];
  shared[threadIdx.x] = values[blockIdx.x * blockDim.x + threadIdx.x];
  __syncthreads();
  unsigned sum = 0;
  for (unsigned other = 0; other < blockDim.x; ++other) sum += shared[other];
  __syncthreads();
  shared[threadIdx.x] = 0;
  sums[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

// Half of a warp shuffles, the other half votes.
__global__ void selftest_diverge(unsigned* values) {
  if (threadIdx.x % 32 < 16) {
    values[threadIdx.x] = __shfl_sync(uva::ALL_LANES, values[threadIdx.x], 0);
  } else {
    values[threadIdx.x] = __ballot_sync(uva::ALL_LANES, 1);
  }
}

// Some lanes leave, the others wait for them.
__global__ void selftest_return_early(unsigned* values) {
  if (threadIdx.x % 32 == 5) return;
  __syncwarp();
  values[threadIdx.x] = 1;
}

__global__ void selftest_misaligned(const unsigned char* bytes, unsigned* word) {
  *word = uva::load<4>(bytes + 1, true).word[0];
}

// Where each thread believes it is.
__global__ void selftest_where(uva_shim::Index* threads, uva_shim::Index* blocks) {
  const unsigned thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  const unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  const unsigned at = block * blockDim.x * blockDim.y * blockDim.z + thread;
  threads[at] = threadIdx;
  blocks[at] = blockIdx;
}

}  // extern "C"
