// What the sampling kernels have in common: their arguments, the report, and sums and prefix sums over a whole launch.
//
// A batch is sampled by a chain of launches in one stream, none of which waits for the host: how much there is to do
// each reads from the report, where the one before has written it. After an error the counts there are zero, so what is
// left of the chain does nothing.
#pragma once

#include "scan.cuh"

// Threads of a block, in every sampling kernel but the one that takes one thread.
#define UVA_SAMPLE_BLOCK_THREADS 512
// Blocks that a multiprocessor must be able to hold at once: bounds the registers to 64 a thread.
#define UVA_SAMPLE_BLOCKS_PER_MULTIPROCESSOR 2
// Most layers of a batch.
#define UVA_SAMPLE_LAYERS 32

// The size of one block of the batch.
struct SampleLayer {
  unsigned long long destinations;
  unsigned long long sources;
  unsigned long long edges;
};

// How a batch went. In device memory. Declared in crates/uva-kernels too, which does not build if the two differ.
// "First" ones are all ones where there is none.
struct SampleReport {
  unsigned long long stamp;         // written last, by sample_nodes: everything before is complete
  unsigned long long began_ns;      // device clock at sample_begin
  unsigned long long ended_ns;      // device clock at sample_nodes
  unsigned long long hash;          // of the batch: docs/spec/reproducible-batches.md
  unsigned long long reads;         // of lists: one for the place, one for each pick
  unsigned long long cached_reads;  // those of cached lists
  unsigned long long nodes;         // of the batch
  unsigned long long failure;       // one of the numbers below, 0: none
  unsigned long long failed_layer;
  unsigned long long failed_first;  // the first destination there whose picks are not kept
  unsigned long long bad_seed;      // the position of the first seed that is not a node
  unsigned long long bad_list;      // first destination whose list is none
  unsigned long long bad_node;      // that node
  unsigned long long bad_home;      // first destination that the dataset has no weights for
  unsigned long long bad_home_node;   // that node
  unsigned long long bad_home_begin;  // where its list should begin in the dataset
  unsigned long long overflow;      // first destination whose picks have no room
  unsigned long long bad_edge;      // first pick whose id is not a node
  unsigned long long bad_position;  // its position in the graph's indices
  unsigned long long no_room;       // first pick whose node is new and has no room
  unsigned long long bad_entry;     // first entry without a name, being no node: destination << 32 | place in list
  unsigned long long bad_entry_edge;      // the first pick of the destinations that are processed together with it
  unsigned long long bad_entry_position;  // its position in the graph's indices
  unsigned long long destinations;  // nodes so far: the kernels' own, as what follows
  unsigned long long known;         // nodes whose lists have been found
  unsigned long long picking;       // destinations that are picked for
  unsigned long long edges;         // their picks
  unsigned long long base;          // the first local id of this layer's new nodes
  unsigned long long done;          // blocks of a launch that have done their part
  SampleLayer layers[UVA_SAMPLE_LAYERS];
};

// Passed by value; declared in crates/uva-kernels too.
struct SampleArguments {
  // The graph: arrays that the device can read, in host memory as a rule.
  const long long* indptr;              // nodes + 1 entries
  const void* indices;                  // int32 or int64 by the kernel's name
  unsigned long long nodes;
  unsigned long long edges;
  // A copy of the lists of nodes 0…cached_lists-1, in device memory.
  const long long* cached_indptr;       // cached_lists entries; null where no list is cached
  const void* cached_indices;
  unsigned long long cached_lists;
  unsigned long long cached_edges;      // where the last of them ends
  const long long* cached_homes;        // an entry a cached list: where it begins in the dataset; null where that is
                                        // looked up in home_indptr
  const unsigned int* cached_weights;   // float32, one an entry of the cached lists; null where these are read from
                                        // weights
  // Other names of the nodes, an entry a node; null where a node's id is its name.
  const void* original_ids;             // what random words and hashes are keyed by
  const void* dataset_ids;              // what comes out as the batch's nodes
  unsigned long long original_ids_wide; // 0: int32, 1: int64
  unsigned long long dataset_ids_wide;
  // The dataset's indptr, where the graph is the dataset's in another order: the way back to the dataset's edges.
  const long long* home_indptr;         // nodes + 1 entries; null where a list is at home where it lies
  const unsigned int* weights;          // float32, one an edge of the dataset, where picks are by weight
  const int* whole_degrees;             // in-degrees in the graph that this one is a part of, an entry a node of the
                                        // dataset; null where every list is whole
  // The batch.
  unsigned long long seed;
  unsigned int batch;
  unsigned int epoch_and_split;         // the counter's last word
  unsigned int batch_dependency;        // number of batches for which picks stay; 1 at least
  unsigned int stamp;                   // differs from that of each batch before, since local_ids were all ones
  unsigned int layer;
  unsigned int fanout;                  // all ones: every list is taken as it stands
  unsigned int replace;                 // whether a neighbour may be picked more than once
  unsigned int group;                   // destinations that are checked before any of them is picked for
  unsigned long long reads_whole_lists; // whether a list is read whole whatever is picked
  unsigned long long seeds;             // in batch_nodes already
  // The block of the layer before, where its picks are kept; null where every destination gets picks of its own.
  const int* kept_indptr;
  const int* kept_indices;
  const long long* kept_edge_ids;       // null if not requested
  // What a batch is written to.
  long long* batch_nodes;
  unsigned long long nodes_room;
  int* node_degrees;                    // in-degree in the graph of each of batch_nodes; null if not requested
  int* block_indptr;                    // destinations_room + 1 entries
  unsigned long long destinations_room;
  int* block_indices;
  unsigned long long edges_room;        // below 2^31
  long long* edge_ids;                  // one a pick: its position in the dataset's indices; null if not requested
  // Scratch.
  unsigned long long* local_ids;        // one a node: see local_id_base
  long long* slots;                     // one a pick: its position in indices, then the id found there
  long long* begins;                    // one a destination: where its list begins
  unsigned int* degrees;                // one a destination
  long long* homes;                     // one a destination: where its list begins in the dataset; null as home_indptr
  unsigned int* existing;               // one a destination: its list's entries above 0; null unless by weight
  unsigned int* heaviest;               // one a destination: the bits of their largest weight; null as existing
  unsigned long long* totals;           // one a block of the launch
  SampleReport* report;
};

namespace uva {

// Values of `failure`, each with the field that has the first position; `failed_layer` has the layer.
constexpr u64 FAILED_SEEDS = 1;         // bad_seed
constexpr u64 FAILED_DESTINATIONS = 2;  // more destinations than there is room for
constexpr u64 FAILED_KEPT = 4;          // more picks are kept than there is room for
constexpr u64 FAILED_LAYER = 3;         // one of bad_list, bad_home, overflow, bad_entry, bad_edge and no_room

constexpr u64 NONE = ~0ull;
constexpr u64 TAG_SEEDS = 0, TAG_NODES = 1, TAG_BLOCKS = 16;
constexpr u32 WHOLE_LISTS = ~0u;

// What local_ids hold for this batch: from this number on, plus a local id, or CANDIDATE plus the pick that a node was
// met at. Stamps rise and are complemented, so whatever an earlier batch left there is greater than all of them, and
// atomicMin alone finds a node's first pick, leaves a local id as it is and does away with the past.
__device__ __forceinline__ u64 local_id_base(const SampleArguments& arguments) { return (u64)~arguments.stamp << 32; }
constexpr u64 CANDIDATE = 1ull << 31;

__device__ __forceinline__ u64 launch_thread() { return (u64)blockIdx.x * blockDim.x + threadIdx.x; }
__device__ __forceinline__ u64 launch_threads() { return (u64)gridDim.x * blockDim.x; }

// splitmix64's finaliser.
__device__ __forceinline__ u64 mix(u64 z) {
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return z ^ (z >> 31);
}

// What a value adds to the batch's hash.
__device__ __forceinline__ u64 term(u64 tag, u64 place, u64 value) { return mix(mix((tag << 56) + place) ^ value); }

// What this launch has written by other blocks, past whatever is kept of it nearby.
__device__ __forceinline__ u64 fresh_value(const u64* address) { return *reinterpret_cast<const volatile u64*>(address); }

// A node's other name.
__device__ __forceinline__ i64 name_of(const void* names, u64 wide, i64 node) {
  if (names == nullptr) return node;
  return wide ? reinterpret_cast<const i64*>(names)[node] : reinterpret_cast<const int*>(names)[node];
}

// A list in the graph's indices.
struct Ends {
  u64 begin;
  u64 end;
};

// The ends of a node's list, from the cache or over the link. The last cached list ends where all of them do.
__device__ __forceinline__ Ends ends_of(const SampleArguments& arguments, i64 node) {
  const bool cached = (u64)node < arguments.cached_lists, last = (u64)node + 1 == arguments.cached_lists;
  const long long* const ends = (cached ? arguments.cached_indptr : arguments.indptr) + node;
  return {(u64)ends[0], last ? arguments.cached_edges : (u64)ends[1]};
}

__device__ __forceinline__ u64 entries_of(const Ends& list) { return list.end - list.begin; }

// Whether the weights of a node's list are read from the cache.
__device__ __forceinline__ bool caches_weights(const SampleArguments& arguments, i64 node) {
  return arguments.cached_weights != nullptr && (u64)node < arguments.cached_lists;
}

// Where the list of a node begins in the dataset's indices, if that is elsewhere; -1 for a node that the dataset has
// not.
__device__ __forceinline__ i64 home_of(const SampleArguments& arguments, i64 node) {
  if (arguments.cached_homes != nullptr && (u64)node < arguments.cached_lists) return arguments.cached_homes[node];
  const u64 id = (u64)name_of(arguments.dataset_ids, arguments.dataset_ids_wide, node);
  return id > arguments.nodes ? -1 : arguments.home_indptr[id];
}

// The same of a destination whose list has been found.
__device__ __forceinline__ i64 home_begin(const SampleArguments& arguments, u64 destination) {
  return (arguments.homes == nullptr ? arguments.begins : arguments.homes)[destination];
}

// The part of the things first…end-1 that is this block's: all of a launch's blocks have one part each, in order, and
// the same in every launch of that shape.
struct Part {
  u64 begin;
  u64 end;
};

__device__ __forceinline__ Part part_of(u64 first, u64 end) {
  const u64 count = end - first;
  const u64 tiles = (count + blockDim.x - 1) / blockDim.x;
  const u64 each = (tiles + gridDim.x - 1) / gridDim.x * blockDim.x;
  Part part = {first + each * blockIdx.x, first + each * blockIdx.x + each};
  if (part.begin > end) part.begin = end;
  if (part.end > end) part.end = end;
  return part;
}

// What this layer keeps of the one before, and what comes first in its block: destinations and their picks. After an
// error in a layer before it is nothing, as are the counts of that one.
struct Kept {
  u64 destinations;
  u64 edges;
};

__device__ __forceinline__ Kept kept_of(const SampleArguments& arguments) {
  const SampleReport* const report = arguments.report;
  const bool nothing = report->failure == FAILED_DESTINATIONS || report->failure == FAILED_KEPT;
  if (arguments.kept_indptr == nullptr || nothing) return {0, 0};
  return {report->layers[arguments.layer - 1].destinations, report->layers[arguments.layer - 1].edges};
}

// The first of the destinations that are processed together with this one.
__device__ __forceinline__ u64 group_begin(const SampleArguments& arguments, const Kept& kept, u64 destination) {
  return kept.destinations + (destination - kept.destinations) / arguments.group * arguments.group;
}

// The sum over the block's threads, in its first thread. Every thread comes here.
__device__ __forceinline__ u64 block_sum(u64 value) {
  __shared__ u64 sums[LANES];
  const u32 lane = threadIdx.x % LANES, warp = threadIdx.x / LANES;
  for (u32 by = LANES / 2; by != 0; by /= 2) value += __shfl_down_sync(ALL_LANES, value, by);
  __syncthreads();
  if (lane == 0) sums[warp] = value;
  __syncthreads();
  if (warp == 0) {
    value = lane < blockDim.x / LANES ? sums[lane] : 0;
    for (u32 by = LANES / 2; by != 0; by /= 2) value += __shfl_down_sync(ALL_LANES, value, by);
  }
  return value;
}

// Adds up over the whole launch. Every thread comes here.
__device__ __forceinline__ void add_to(u64* sum, u64 value) {
  value = block_sum(value);
  if (threadIdx.x == 0 && value != 0) atomicAdd(sum, value);
}

// Whether picks are drawn from a list of `entries` entries, which is otherwise taken whole.
__device__ __forceinline__ bool draws(const SampleArguments& arguments, u32 entries) {
  if (arguments.replace) return entries != 0 && arguments.fanout != WHOLE_LISTS;
  return entries > arguments.fanout;
}

// Whether this block is the last of the launch to come here: then it sees what all others have written before. Every
// thread comes here, once in a launch.
__device__ __forceinline__ bool is_last_block(SampleReport* report) {
  __shared__ bool last;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) {
    last = atomicAdd(&report->done, 1ull) == gridDim.x - 1;
    if (last) report->done = 0;
  }
  __syncthreads();
  __threadfence();
  return last;
}

// Turns the blocks' totals into the sums before each of them; gives the sum of all. For the last block, all threads.
__device__ __forceinline__ u64 scan_totals(u64* totals) {
  u64 sum = 0;
  for (u32 first = 0; first < gridDim.x; first += blockDim.x) {
    const u32 at = first + threadIdx.x;
    const Scanned scanned = block_scan(at < gridDim.x ? fresh_value(&totals[at]) : 0);
    if (at < gridDim.x) totals[at] = sum + scanned.before;
    sum += scanned.all;
  }
  return sum;
}

}  // namespace uva
