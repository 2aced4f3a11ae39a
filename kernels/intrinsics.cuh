// The few things a kernel needs from the machine, each with a device version and a host version. All inline PTX is
// here.
//
// The kernels are compiled in two ways: by NVRTC for a GPU, and by the system's C++ compiler under the shim of
// crates/uva-kernel-sim, which brings CUDA's own names (threadIdx, __shfl_sync, atomicAdd…) and logs what
// `uva::load` reads. Nothing else may be included: NVRTC is given these files by name and has no include path.
#pragma once

#ifndef __CUDACC_RTC__
#include "shim.h"
#endif

namespace uva {

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long i64;

static_assert(sizeof(u16) == 2 && sizeof(u32) == 4 && sizeof(u64) == 8 && sizeof(void*) == 8, "64-bit device and host");

constexpr u32 LANES = 32;
constexpr u32 ALL_LANES = 0xffffffffu;

// WIDTH bytes in registers: words in memory order, narrower ones in the low bits of one word.
template <int WIDTH>
struct Piece {
  u32 word[WIDTH < 4 ? 1 : WIDTH / 4];
};

// A load of table memory: WIDTH bytes at `address`, zeros where `wanted` is false (`address` is then not looked at).
//
// Every lane of the warp reaches every load together. A lane that must not read sets a predicate; it never branches
// around the load. So one load is one warp instruction, and the shim knows exactly which lanes shared it.
//
// What is read is not kept in L1, since a row is read once. It is a plain load, not one by the read-only path: ptxas
// moves those over anything, and so put the first load's use before the last load; plain ones stay on their side of a
// __syncwarp.
template <int WIDTH>
__device__ __forceinline__ Piece<WIDTH> load(const void* address, bool wanted);

// How a load of 16 bytes treats the caches.
enum class Hint {
  NO_L1,          // not kept in L1: what `load` does
  PLAIN,          // no hint
  L2_EVICT_FIRST  // not kept in L1, and the first to leave L2; without the hint on devices before sm_80
};

// The same load of 16 bytes by each hint.
template <Hint HINT>
__device__ __forceinline__ Piece<16> load_piece(const void* address, bool wanted);

#ifdef __CUDACC_RTC__

template <>
__device__ __forceinline__ Piece<1> load<1>(const void* address, bool wanted) {
  Piece<1> piece = {{0}};
  asm volatile(
      "{\n\t.reg .pred wanted;\n\tsetp.ne.u32 wanted, %2, 0;\n\t"
      "@wanted ld.global.L1::no_allocate.u8 %0, [%1];\n\t}"
      : "+r"(piece.word[0])
      : "l"(address), "r"((u32)wanted));
  return piece;
}

template <>
__device__ __forceinline__ Piece<2> load<2>(const void* address, bool wanted) {
  u16 half = 0;
  asm volatile(
      "{\n\t.reg .pred wanted;\n\tsetp.ne.u32 wanted, %2, 0;\n\t"
      "@wanted ld.global.L1::no_allocate.u16 %0, [%1];\n\t}"
      : "+h"(half)
      : "l"(address), "r"((u32)wanted));
  Piece<2> piece = {{half}};
  return piece;
}

template <>
__device__ __forceinline__ Piece<4> load<4>(const void* address, bool wanted) {
  Piece<4> piece = {{0}};
  asm volatile(
      "{\n\t.reg .pred wanted;\n\tsetp.ne.u32 wanted, %2, 0;\n\t"
      "@wanted ld.global.L1::no_allocate.u32 %0, [%1];\n\t}"
      : "+r"(piece.word[0])
      : "l"(address), "r"((u32)wanted));
  return piece;
}

template <>
__device__ __forceinline__ Piece<16> load<16>(const void* address, bool wanted) {
  Piece<16> piece = {{0, 0, 0, 0}};
  asm volatile(
      "{\n\t.reg .pred wanted;\n\tsetp.ne.u32 wanted, %5, 0;\n\t"
      "@wanted ld.global.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];\n\t}"
      : "+r"(piece.word[0]), "+r"(piece.word[1]), "+r"(piece.word[2]), "+r"(piece.word[3])
      : "l"(address), "r"((u32)wanted));
  return piece;
}

template <>
__device__ __forceinline__ Piece<16> load_piece<Hint::NO_L1>(const void* address, bool wanted) {
  return load<16>(address, wanted);
}

template <>
__device__ __forceinline__ Piece<16> load_piece<Hint::PLAIN>(const void* address, bool wanted) {
  Piece<16> piece = {{0, 0, 0, 0}};
  asm volatile(
      "{\n\t.reg .pred wanted;\n\tsetp.ne.u32 wanted, %5, 0;\n\t"
      "@wanted ld.global.v4.u32 {%0, %1, %2, %3}, [%4];\n\t}"
      : "+r"(piece.word[0]), "+r"(piece.word[1]), "+r"(piece.word[2]), "+r"(piece.word[3])
      : "l"(address), "r"((u32)wanted));
  return piece;
}

template <>
__device__ __forceinline__ Piece<16> load_piece<Hint::L2_EVICT_FIRST>(const void* address, bool wanted) {
#if __CUDA_ARCH__ >= 800
  Piece<16> piece = {{0, 0, 0, 0}};
  asm volatile(
      "{\n\t.reg .pred wanted;\n\t.reg .b64 policy;\n\tsetp.ne.u32 wanted, %5, 0;\n\t"
      "createpolicy.fractional.L2::evict_first.b64 policy, 1.0;\n\t"
      "@wanted ld.global.L1::no_allocate.L2::cache_hint.v4.u32 {%0, %1, %2, %3}, [%4], policy;\n\t}"
      : "+r"(piece.word[0]), "+r"(piece.word[1]), "+r"(piece.word[2]), "+r"(piece.word[3])
      : "l"(address), "r"((u32)wanted));
  return piece;
#else
  return load<16>(address, wanted);
#endif
}

// 16 bytes to an address that is a multiple of 16.
__device__ __forceinline__ void store16(u8* address, const Piece<16>& piece) {
  *reinterpret_cast<uint4*>(address) = make_uint4(piece.word[0], piece.word[1], piece.word[2], piece.word[3]);
}

// The low 32 bits of (high:low) >> bits, for bits of 0…31.
__device__ __forceinline__ u32 funnel_right(u32 low, u32 high, u32 bits) { return __funnelshift_r(low, high, bits); }

// The device's clock in nanoseconds: the same one for all kernels of the device.
__device__ __forceinline__ u64 global_nanoseconds() {
  u64 now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

// Somewhere to breathe in a loop that waits for the host.
__device__ __forceinline__ void breathe() {}

#else

template <int WIDTH>
__device__ __forceinline__ Piece<WIDTH> load(const void* address, bool wanted) {
  uva_shim::table_load(address, WIDTH, wanted);
  Piece<WIDTH> piece = {};
  if (wanted) __builtin_memcpy(piece.word, address, WIDTH);
  return piece;
}

template <Hint HINT>
__device__ __forceinline__ Piece<16> load_piece(const void* address, bool wanted) {
  return load<16>(address, wanted);
}

inline void store16(u8* address, const Piece<16>& piece) {
  uva_shim::check_aligned(address, 16);
  __builtin_memcpy(address, piece.word, 16);
}

inline u32 funnel_right(u32 low, u32 high, u32 bits) { return (u32)(((u64)high << 32 | low) >> bits); }

inline u64 global_nanoseconds() { return uva_shim::nanoseconds(); }

inline void breathe() { uva_shim::breathe(); }

#endif

// A store of 1, 2 or 4 bytes to an address that is a multiple of as many.
template <class Word>
__device__ __forceinline__ void store(u8* address, u32 word) {
#ifndef __CUDACC_RTC__
  uva_shim::check_aligned(address, sizeof(Word));
#endif
  *reinterpret_cast<Word*>(address) = (Word)word;
}

}  // namespace uva
