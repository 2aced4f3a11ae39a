// The sampling kernels' entry points: a batch of seeds, hop by hop, out of a graph in host memory.
//
//   sample_begin                       one thread; resets the report
//   sample_seeds                       the seeds become the first nodes of the batch
//   then for each layer:
//     sample_lists                     where lists lie
//     sample_weigh, sample_totals      which of their entries exist; only where these are picked by weight
//     sample_offsets                   the block's indptr
//     sample_picks, or sample_labor_{i32,i64} or sample_weighted    which positions are picked
//     sample_edge_ids                  where that is in the dataset; only if requested
//     sample_ids_{i32,i64}             the ids at these positions
//     sample_fresh, sample_assign      which of them are new nodes; their local ids
//     sample_relabel                   the block's indices
//   sample_nodes                       the nodes' names and degrees; completes the report
//
// In one stream, in this order, each with any grid of whole warps; sample_lists, sample_totals and sample_offsets have
// the same grid, so have sample_fresh and sample_assign. The picks are those of docs/spec/reproducible-batches.md, and
// docs/internals/kernels.md describes how they are found. An id that is not a node is never looked up, and an entry without room is
// never written; the report names the first.
#include "sample_labor.cuh"
#include "sample_weighted.cuh"

#define UVA_SAMPLE __global__ void __launch_bounds__(UVA_SAMPLE_BLOCK_THREADS, UVA_SAMPLE_BLOCKS_PER_MULTIPROCESSOR)

namespace uva {

__device__ __forceinline__ u32 picks_of(const SampleArguments& arguments, u64 destination) {
  const u32 entries = (arguments.existing == nullptr ? arguments.degrees : arguments.existing)[destination];
  return draws(arguments, entries) ? arguments.fanout : entries;
}

// The reads of a list's weights: 32 bytes each, in every pass over them. The first pass finds the entries that exist,
// another picks, and draws with replacement are added up before.
__device__ __forceinline__ u64 weight_reads(const SampleArguments& arguments, u32 degree) {
  if (arguments.existing == nullptr) return 0;
  const u64 passes = !draws(arguments, degree) ? 1 : arguments.replace ? 3 : 2;
  return passes * (((u64)degree + 7) / 8);
}

// How many picks the lists of this block's part have, and how often lists are read. Every thread comes here.
__device__ __forceinline__ void count_picks(const SampleArguments& arguments, const Part& part) {
  u64 picks = 0, reads = 0, cached_reads = 0;
  for (u64 at = part.begin + threadIdx.x; at < part.end; at += blockDim.x) {
    const u32 of_list = picks_of(arguments, at);
    const u32 degree = arguments.degrees[at];
    const i64 node = arguments.batch_nodes[at];
    const u64 of_entries = 1 + (u64)(arguments.reads_whole_lists ? degree : of_list);
    const u64 of_weights = weight_reads(arguments, degree);
    picks += of_list;
    reads += of_entries + of_weights;
    if ((u64)node < arguments.cached_lists)
      cached_reads += of_entries + (caches_weights(arguments, node) ? of_weights : 0);
  }
  picks = block_sum(picks);
  if (threadIdx.x == 0) arguments.totals[blockIdx.x] = picks;
  add_to(&arguments.report->reads, reads);
  add_to(&arguments.report->cached_reads, cached_reads);
}

// Whether the node at this pick is new to the batch, and this its first pick.
__device__ __forceinline__ bool is_fresh(const SampleArguments& arguments, u64 edge) {
  const i64 id = arguments.slots[edge];
  return id >= 0 && arguments.local_ids[id] == (local_id_base(arguments) | CANDIDATE | edge);
}

// Reads the ids at the picked positions, each of which becomes a candidate for its node's first pick.
template <class Id>
__device__ __forceinline__ void find_ids(const SampleArguments& arguments) {
  const u64 candidate = local_id_base(arguments) | CANDIDATE;
  const u64 edges = arguments.report->edges;
  for (u64 edge = kept_of(arguments).edges + launch_thread(); edge < edges; edge += launch_threads()) {
    const u64 position = (u64)arguments.slots[edge];
    const void* const indices = position < arguments.cached_edges ? arguments.cached_indices : arguments.indices;
    const i64 id = reinterpret_cast<const Id*>(indices)[position];
    // A negative id is a huge unsigned one. Its slot keeps the position, made negative by its complement.
    if ((u64)id >= arguments.nodes) {
      atomicMin(&arguments.report->bad_edge, edge);
      arguments.slots[edge] = ~(i64)position;
      continue;
    }
    arguments.slots[edge] = id;
    // Most picks are not the first of their node: no need for an atomic where a smaller number is there already.
    if (arguments.local_ids[id] > (candidate | edge)) atomicMin(&arguments.local_ids[id], candidate | edge);
  }
}

}  // namespace uva

extern "C" {

__global__ void sample_begin(SampleArguments arguments) {
  SampleReport* const report = arguments.report;
  uva::u64* const words = reinterpret_cast<uva::u64*>(report);
  for (uva::u32 word = 0; word < sizeof(SampleReport) / 8; ++word) words[word] = 0;
  report->bad_seed = report->bad_list = report->bad_home = report->overflow = uva::NONE;
  report->bad_entry = report->bad_edge = report->no_room = uva::NONE;
  report->began_ns = uva::global_nanoseconds();
}

// A seed's local id is its position, of a repeated one the first.
UVA_SAMPLE sample_seeds(SampleArguments arguments) {
  SampleReport* const report = arguments.report;
  const uva::u64 base = uva::local_id_base(arguments);
  for (uva::u64 at = uva::launch_thread(); at < arguments.seeds; at += uva::launch_threads()) {
    const uva::i64 seed = arguments.batch_nodes[at];
    if ((uva::u64)seed >= arguments.nodes) {
      atomicMin(&report->bad_seed, (uva::u64)at);
    } else {
      atomicMin(&arguments.local_ids[seed], (uva::u64)(base | at));
    }
  }
  if (uva::is_last_block(report) && threadIdx.x == 0) {
    const bool good = uva::fresh_value(&report->bad_seed) == uva::NONE;
    report->destinations = good ? arguments.seeds : 0;
    if (!good) report->failure = uva::FAILED_SEEDS;
  }
}

// Where the lists of the nodes so far lie, and, unless that depends on weights, how many picks each block of the launch
// has.
UVA_SAMPLE sample_lists(SampleArguments arguments) {
  SampleReport* const report = arguments.report;
  const uva::u64 known = report->known;
  uva::u64 destinations = report->destinations;
  const bool fits = destinations <= arguments.destinations_room;
  const uva::Kept kept = uva::kept_of(arguments);
  if (!fits) destinations = kept.destinations;
  const uva::Part part = uva::part_of(kept.destinations, destinations);
  for (uva::u64 at = part.begin + threadIdx.x; at < part.end; at += blockDim.x) {
    if (at < known) continue;
    const uva::i64 node = arguments.batch_nodes[at];
    const uva::Ends ends = uva::ends_of(arguments, node);
    uva::u64 begin = ends.begin, end = ends.end;
    // One comparison each refuses negative numbers too.
    if (begin > end || end > arguments.edges) {
      atomicMin(&report->bad_list, at);
      begin = end = 0;
    }
    // The host has checked the places of lists whose weights it has cached: only edge ids need them.
    const bool needs_home = arguments.edge_ids != nullptr || !uva::caches_weights(arguments, node);
    if (arguments.homes != nullptr && needs_home) {
      const uva::u64 home = (uva::u64)uva::home_of(arguments, node);
      arguments.homes[at] = (uva::i64)home;
      if (arguments.existing != nullptr && (home > arguments.edges || end - begin > arguments.edges - home)) {
        atomicMin(&report->bad_home, at);
        begin = end = 0;
      }
    }
    arguments.begins[at] = begin;
    arguments.degrees[at] = (uva::u32)(end - begin);
  }
  const bool counts = arguments.existing == nullptr;
  if (counts) uva::count_picks(arguments, part);
  if (!uva::is_last_block(report)) return;
  if (counts) uva::scan_totals(arguments.totals);
  if (threadIdx.x != 0) return;
  if (counts) report->known = destinations;
  if (!fits || kept.edges > arguments.edges_room) {
    report->failure = fits ? uva::FAILED_KEPT : uva::FAILED_DESTINATIONS;
    report->failed_layer = arguments.layer;
    report->destinations = 0;
  }
}

// How many entries exist of each list that has just been found.
UVA_SAMPLE sample_weigh(SampleArguments arguments) {
  uva::for_each_list(arguments.report->known, arguments.report->destinations, uva::Weigh{arguments});
}

// How many picks each block of the launch has, where that depends on weights.
UVA_SAMPLE sample_totals(SampleArguments arguments) {
  SampleReport* const report = arguments.report;
  const uva::u64 destinations = report->destinations;
  uva::count_picks(arguments, uva::part_of(uva::kept_of(arguments).destinations, destinations));
  if (!uva::is_last_block(report)) return;
  uva::scan_totals(arguments.totals);
  if (threadIdx.x == 0) report->known = destinations;
}

// The block's indptr. If a list is invalid, or picks have no room, the layer continues as far as it would if destinations
// were taken in groups, so that of several errors CPU and GPU report the same one.
UVA_SAMPLE sample_offsets(SampleArguments arguments) {
  SampleReport* const report = arguments.report;
  const uva::u64 tag = uva::TAG_BLOCKS + 2 * arguments.layer;
  const uva::u64 destinations = report->destinations;
  const uva::Kept kept = uva::kept_of(arguments);
  const uva::Part part = uva::part_of(kept.destinations, destinations);
  uva::u64 before = kept.edges + arguments.totals[blockIdx.x], hash = 0;
  for (uva::u64 first = part.begin; first < part.end; first += blockDim.x) {
    const uva::u64 at = first + threadIdx.x;
    const uva::u32 picks = at < part.end ? uva::picks_of(arguments, at) : 0;
    const uva::Scanned scanned = uva::block_scan(picks);
    const uva::u64 end = before + scanned.before + picks;
    before += scanned.all;
    if (at >= part.end) continue;
    if (end > arguments.edges_room) {
      atomicMin(&report->overflow, at);
    } else {
      arguments.block_indptr[at + 1] = (int)end;
      hash += uva::term(tag, at + 1, end);
    }
  }
  for (uva::u64 at = 1 + uva::launch_thread(); at <= kept.destinations; at += uva::launch_threads()) {
    const int end = arguments.kept_indptr[at];
    arguments.block_indptr[at] = end;
    hash += uva::term(tag, at, (uva::u64)end);
  }
  if (uva::launch_thread() == 0) {
    arguments.block_indptr[0] = 0;
    hash += uva::term(tag, 0, 0);
  }
  uva::add_to(&report->hash, hash);
  if (!uva::is_last_block(report) || threadIdx.x != 0) return;
  const uva::u64 bad_list = uva::fresh_value(&report->bad_list), overflow = uva::fresh_value(&report->overflow);
  const uva::u64 bad_home = uva::fresh_value(&report->bad_home);
  const uva::u64 bad = bad_list < bad_home ? bad_list : bad_home, limit = bad < overflow ? bad : overflow;
  uva::u64 picking = destinations;
  if (limit != uva::NONE && report->failure == 0) {
    picking = uva::group_begin(arguments, kept, limit);
    report->failure = uva::FAILED_LAYER;
    report->failed_layer = arguments.layer;
    report->failed_first = kept.destinations;
    if (bad_list != uva::NONE) report->bad_node = arguments.batch_nodes[bad_list];
    if (bad_home != uva::NONE) {
      report->bad_home_node = arguments.batch_nodes[bad_home];
      report->bad_home_begin = arguments.homes[bad_home];
    }
  }
  report->picking = picking;
  report->edges = picking == 0 ? 0 : *reinterpret_cast<volatile int*>(&arguments.block_indptr[picking]);
}

// A warp a destination.
UVA_SAMPLE sample_picks(SampleArguments arguments) {
  const uva::u64 destinations = arguments.report->picking;
  const uva::u64 warps = uva::launch_threads() / uva::LANES;
  const uva::u64 first = uva::kept_of(arguments).destinations + uva::launch_thread() / uva::LANES;
  for (uva::u64 at = first; at < destinations; at += warps) uva::pick(arguments, at);
}

UVA_SAMPLE sample_labor_i32(SampleArguments arguments) {
  uva::for_each_list(uva::kept_of(arguments).destinations, arguments.report->picking, uva::Labor<int>{arguments});
}
UVA_SAMPLE sample_labor_i64(SampleArguments arguments) {
  uva::for_each_list(uva::kept_of(arguments).destinations, arguments.report->picking, uva::Labor<long long>{arguments});
}

UVA_SAMPLE sample_weighted(SampleArguments arguments) {
  uva::for_each_list(uva::kept_of(arguments).destinations, arguments.report->picking, uva::Weighted{arguments});
}

// A warp a destination. A list keeps the order of its entries wherever it lies.
UVA_SAMPLE sample_edge_ids(SampleArguments arguments) {
  const uva::u64 destinations = arguments.report->picking;
  const uva::u64 warps = uva::launch_threads() / uva::LANES;
  const uva::Kept kept = uva::kept_of(arguments);
  for (uva::u64 edge = uva::launch_thread(); edge < kept.edges; edge += uva::launch_threads())
    arguments.edge_ids[edge] = arguments.kept_edge_ids[edge];
  for (uva::u64 at = kept.destinations + uva::launch_thread() / uva::LANES; at < destinations; at += warps) {
    const uva::u64 way = (uva::u64)uva::home_begin(arguments, at) - (uva::u64)arguments.begins[at];
    const int end = arguments.block_indptr[at + 1];
    for (int edge = arguments.block_indptr[at] + (int)(threadIdx.x % uva::LANES); edge < end; edge += uva::LANES)
      arguments.edge_ids[edge] = (uva::i64)((uva::u64)arguments.slots[edge] + way);
  }
}

UVA_SAMPLE sample_ids_i32(SampleArguments arguments) { uva::find_ids<int>(arguments); }
UVA_SAMPLE sample_ids_i64(SampleArguments arguments) { uva::find_ids<long long>(arguments); }

// How many new nodes each block of the launch has, and so how many there are.
UVA_SAMPLE sample_fresh(SampleArguments arguments) {
  SampleReport* const report = arguments.report;
  const uva::Kept kept = uva::kept_of(arguments);
  const uva::Part part = uva::part_of(kept.edges, report->edges);
  uva::u64 fresh = 0;
  for (uva::u64 edge = part.begin + threadIdx.x; edge < part.end; edge += blockDim.x)
    fresh += uva::is_fresh(arguments, edge);
  fresh = uva::block_sum(fresh);
  if (threadIdx.x == 0) arguments.totals[blockIdx.x] = fresh;
  if (!uva::is_last_block(report)) return;
  fresh = uva::scan_totals(arguments.totals);
  if (threadIdx.x != 0) return;
  const uva::u64 base = report->destinations, sources = base + fresh;
  report->base = base;
  if (report->bad_edge != uva::NONE) report->bad_position = ~arguments.slots[report->bad_edge];
  const bool of_this_layer = report->failure == 0 || report->failed_layer == arguments.layer;
  if (report->bad_entry != uva::NONE && of_this_layer) {
    const uva::u64 destination = report->bad_entry >> 32;
    report->bad_entry_position = (uva::u64)arguments.begins[destination] + (uva::u32)report->bad_entry;
    report->bad_entry_edge = (uva::u64)arguments.block_indptr[uva::group_begin(arguments, kept, destination)];
  }
  const bool bad = report->bad_edge != uva::NONE || report->bad_entry != uva::NONE;
  const bool fails = bad || sources > arguments.nodes_room;
  if (fails && report->failure == 0) {
    report->failure = uva::FAILED_LAYER;
    report->failed_layer = arguments.layer;
  }
  if (report->failure == 0) report->layers[arguments.layer] = {base, sources, report->edges};
  report->destinations = report->failure == 0 ? sources : 0;
}

// New nodes in the order of their first picks.
UVA_SAMPLE sample_assign(SampleArguments arguments) {
  SampleReport* const report = arguments.report;
  const uva::u64 stamped = uva::local_id_base(arguments), base = report->base;
  const uva::Part part = uva::part_of(uva::kept_of(arguments).edges, report->edges);
  uva::u64 before = base + arguments.totals[blockIdx.x];
  for (uva::u64 first = part.begin; first < part.end; first += blockDim.x) {
    const uva::u64 edge = first + threadIdx.x;
    // If the pick is the first of its node, no other thread changes the node's entry; otherwise the entry differs.
    const bool fresh = edge < part.end && uva::is_fresh(arguments, edge);
    const uva::Scanned scanned = uva::block_scan(fresh);
    const uva::u64 local = before + scanned.before;
    before += scanned.all;
    if (!fresh) continue;
    if (local >= arguments.nodes_room) {
      atomicMin(&report->no_room, edge);
      continue;
    }
    const uva::i64 id = arguments.slots[edge];
    arguments.batch_nodes[local] = id;
    arguments.local_ids[id] = stamped | local;
  }
}

UVA_SAMPLE sample_relabel(SampleArguments arguments) {
  SampleReport* const report = arguments.report;
  const uva::u64 tag = uva::TAG_BLOCKS + 1 + 2 * arguments.layer, edges = report->edges;
  uva::u64 hash = 0;
  const uva::u64 kept = uva::kept_of(arguments).edges;
  for (uva::u64 edge = uva::launch_thread(); edge < edges; edge += uva::launch_threads()) {
    const uva::i64 id = edge < kept ? 0 : arguments.slots[edge];
    if (id < 0) continue;
    const uva::u32 local = edge < kept ? (uva::u32)arguments.kept_indices[edge] : (uva::u32)arguments.local_ids[id];
    arguments.block_indices[edge] = (int)local;
    hash += uva::term(tag, edge, local);
  }
  uva::add_to(&report->hash, hash);
}

// The stamp is the batch's own, which a reader can trust alone: the fence orders it after all other writes.
UVA_SAMPLE sample_nodes(SampleArguments arguments) {
  SampleReport* const report = arguments.report;
  const uva::u64 nodes = report->destinations, known = report->known;
  uva::u64 hash = 0;
  for (uva::u64 at = uva::launch_thread(); at < nodes; at += uva::launch_threads()) {
    const uva::i64 node = arguments.batch_nodes[at];
    const uva::u64 name = uva::name_of(arguments.original_ids, arguments.original_ids_wide, node);
    hash += uva::term(uva::TAG_NODES, at, name);
    if (at < arguments.seeds) hash += uva::term(uva::TAG_SEEDS, at, name);
    if (arguments.node_degrees != nullptr) {
      uva::u64 degree = at < known ? arguments.degrees[at] : uva::entries_of(uva::ends_of(arguments, node));
      const uva::u64 home = uva::name_of(arguments.dataset_ids, arguments.dataset_ids_wide, node);
      if (arguments.whole_degrees != nullptr && home < arguments.nodes) degree = arguments.whole_degrees[home];
      arguments.node_degrees[at] = degree > 0x7fffffff ? 0x7fffffff : (int)degree;
    }
    if (arguments.dataset_ids != nullptr)
      arguments.batch_nodes[at] = uva::name_of(arguments.dataset_ids, arguments.dataset_ids_wide, node);
  }
  uva::add_to(&report->hash, hash);
  if (!uva::is_last_block(report) || threadIdx.x != 0) return;
  report->nodes = nodes;
  report->ended_ns = uva::global_nanoseconds();
  __threadfence_system();
  *reinterpret_cast<volatile uva::u64*>(&report->stamp) = arguments.stamp;
}

}  // extern "C"
