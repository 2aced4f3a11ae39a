// CUDA's device names for the host: what kernels/intrinsics.cuh includes when no GPU compiler is at work.
//
// Threads are fibers. Those of a warp run one after another, each until it reaches an operation of the whole warp
// (a shuffle, a ballot, __syncwarp, a logged load), where the next takes over; when the last has arrived, all continue. So
// a run is deterministic, and what lanes share in one warp instruction is known exactly. Blocks run one at a time, on
// the thread that launched; several launches may run at once on several threads.
//
// What it does not model: masks other than the full warp (refused), weak memory order, L1 and L2, and time.
#pragma once

#include <cstdint>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __grid_constant__
// One block runs at a time on an operating-system thread, so what the thread owns is shared by just that block.
#define __shared__ static thread_local

namespace uva_shim {

struct Index {
  unsigned x, y, z;
};

// What all lanes brought to an operation of the warp.
enum class Operation : unsigned { None, Shuffle, Ballot, SyncWarp, SyncBlock, Load };

struct Warp;

// One thread of the block that runs.
struct Lane {
  Index thread;
  unsigned lane;
  bool finished;
  Operation operation;
  unsigned long long generation;
  Warp* warp;
  void* context;
};

struct Launch;

// What the fibers of a warp know. It lies where the memory of their stacks begins, so that a fiber finds it by its stack
// pointer: kernels use it all the time, and a thread_local of a shared library costs a call.
struct Here {
  Lane* current;
  Launch* launch;
  Index block_index, block_size, grid_size;
};

// The stacks of a warp begin at a multiple of this.
constexpr uintptr_t STACKS_ALIGNMENT = uintptr_t{4} << 20;

// To be called on a fiber only.
inline Here& here() {
  return *reinterpret_cast<Here*>(reinterpret_cast<uintptr_t>(__builtin_frame_address(0)) & ~(STACKS_ALIGNMENT - 1));
}

// Brings `value`, waits for all lanes of the warp, and returns what they brought, valid until the second next
// operation.
const unsigned long long* exchange(Operation operation, unsigned long long value);
void sync_block();
void table_load(const void* address, unsigned bytes, bool wanted);
void check_aligned(const void* address, unsigned long bytes);
// Ends the launch with an error.
[[noreturn]] void fail(const char* why);
unsigned long long nanoseconds();
void breathe();

inline void check_mask(unsigned mask) {
  if (mask != 0xffffffffu) fail("an operation of some lanes only: the shim models those of whole warps");
}

}  // namespace uva_shim

#define threadIdx (uva_shim::here().current->thread)
#define blockIdx (uva_shim::here().block_index)
#define blockDim (uva_shim::here().block_size)
#define gridDim (uva_shim::here().grid_size)

template <class T>
T __shfl_sync(unsigned mask, T value, int from) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8, "as CUDA's");
  uva_shim::check_mask(mask);
  unsigned long long bits = 0;
  __builtin_memcpy(&bits, &value, sizeof(T));
  const unsigned long long* all = uva_shim::exchange(uva_shim::Operation::Shuffle, bits);
  __builtin_memcpy(&value, &all[from & 31], sizeof(T));
  return value;
}

template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned by) {
  const unsigned lane = uva_shim::here().current->lane;
  return __shfl_sync(mask, value, lane >= by ? (int)(lane - by) : (int)lane);
}

template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned by) {
  const unsigned lane = uva_shim::here().current->lane;
  return __shfl_sync(mask, value, lane + by < 32 ? (int)(lane + by) : (int)lane);
}

inline unsigned __ballot_sync(unsigned mask, int predicate) {
  uva_shim::check_mask(mask);
  const unsigned long long* all = uva_shim::exchange(uva_shim::Operation::Ballot, predicate != 0);
  unsigned votes = 0;
  for (unsigned lane = 0; lane < 32; ++lane) votes |= (unsigned)all[lane] << lane;
  return votes;
}

inline void __syncwarp(unsigned mask = 0xffffffffu) {
  uva_shim::check_mask(mask);
  uva_shim::exchange(uva_shim::Operation::SyncWarp, 0);
}

inline void __syncthreads() { uva_shim::sync_block(); }

inline int __popc(unsigned bits) { return __builtin_popcount(bits); }
inline int __ffs(int bits) { return __builtin_ffs(bits); }
inline int __clzll(long long bits) { return bits == 0 ? 64 : __builtin_clzll((unsigned long long)bits); }
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return (unsigned long long)((unsigned __int128)a * b >> 64);
}

// The host's doubles are those of IEEE 754, rounded to nearest, unless compiler flags relax this.
#ifdef __FAST_MATH__
#error "the shim needs exact division"
#endif
inline double __ddiv_rn(double a, double b) { return a / b; }
inline double __dsqrt_rn(double a) { return __builtin_sqrt(a); }
inline float __fmaf_rn(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
inline float __fmul_rn(float a, float b) { return a * b; }
inline unsigned __float_as_uint(float value) {
  unsigned bits;
  __builtin_memcpy(&bits, &value, sizeof bits);
  return bits;
}
inline float __uint_as_float(unsigned bits) {
  float value;
  __builtin_memcpy(&value, &bits, sizeof value);
  return value;
}
inline double __longlong_as_double(long long bits) {
  double value;
  __builtin_memcpy(&value, &bits, sizeof value);
  return value;
}
inline long long __double_as_longlong(double value) {
  long long bits;
  __builtin_memcpy(&bits, &value, sizeof bits);
  return bits;
}

inline unsigned long long atomicAdd(unsigned long long* address, unsigned long long value) {
  return __atomic_fetch_add(address, value, __ATOMIC_RELAXED);
}

inline unsigned atomicAdd(unsigned* address, unsigned value) {
  return __atomic_fetch_add(address, value, __ATOMIC_RELAXED);
}

inline unsigned atomicMax(unsigned* address, unsigned value) {
  unsigned old = __atomic_load_n(address, __ATOMIC_RELAXED);
  while (value > old && !__atomic_compare_exchange_n(address, &old, value, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
  return old;
}

inline unsigned long long atomicMin(unsigned long long* address, unsigned long long value) {
  unsigned long long old = __atomic_load_n(address, __ATOMIC_RELAXED);
  while (value < old && !__atomic_compare_exchange_n(address, &old, value, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
  return old;
}

inline void __threadfence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
inline void __threadfence_system() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
