// What the kernel that prepares the blocks of a batch and its launcher share.
#pragma once

#include "intrinsics.cuh"

// Threads of a block of threads. The kernel takes no other number.
#define UVA_BLOCK_THREADS 256
// Destinations that a block of threads works on: their offsets lie in shared memory.
#define UVA_BLOCK_DESTINATIONS 2048
// Blocks that a launch prepares at most.
#define UVA_BLOCKS_AT_ONCE 8

// How edges are weighted: the weights of uva-model's `Weighting`.
constexpr unsigned int UVA_WEIGHTS_NONE = 0;
constexpr unsigned int UVA_WEIGHTS_MEAN = 1;
constexpr unsigned int UVA_WEIGHTS_SUM = 2;
constexpr unsigned int UVA_WEIGHTS_DEGREES = 3;

// A block as it lies in a slot, and where the prepared one goes. All numbers of the slot may have any value: its writer
// may have died.
struct BlockArguments {
  const int* indptr;                 // destinations + 1 entries
  const int* indices;                // edges entries
  const float* sampled;              // edges entries: the sampler's weights; null where there are none
  const int* degrees;                // sources entries; null unless edges are weighted by degrees
  unsigned long long destinations;
  unsigned long long edges;          // 0 without destinations
  unsigned long long sources;        // not below destinations
  unsigned long long weighting;      // one of UVA_WEIGHTS_…
  unsigned long long wide;           // 0: weights are float32, 1: float64
  // destinations + 1 entries in 0…edges, none below the one before: clamped, and raised to what precedes.
  int* offsets;
  // edges entries each: the source, clamped, and the destination in whose list the edge is. Never falling.
  int* sources_of_edges;
  int* destinations_of_edges;
  void* weights;                     // edges entries; null for UVA_WEIGHTS_NONE
  void* own;                         // destinations entries for UVA_WEIGHTS_DEGREES, else null
};

// The blocks that a launch prepares. The grid is a multiple of their number.
struct BatchBlocks {
  unsigned long long count;          // 1 to UVA_BLOCKS_AT_ONCE
  BlockArguments blocks[UVA_BLOCKS_AT_ONCE];
};
