// Picks that the nodes of a hop share: LABOR-0 (Balın and Çatalyürek, "Layer-Neighbor Sampling", NeurIPS 2023) with as
// many picks as the fanout.
//
// Ids are read through the link, in a warp's or a block's coalesced reads: a list that a warp works off crosses it
// once, one that a block does three to five times as a rule. Each look at an entry is a block of Philox.
#pragma once

#include "sample_select.cuh"

namespace uva {

// The variates of a list's entries: each that of the neighbour that the entry names.
template <class Id>
struct Variates {
  const SampleArguments& arguments;
  u64 destination;
  u64 begin;

  __device__ __forceinline__ bool operator()(u32 place, u64& variate) const {
    const u64 position = begin + place;
    const void* const indices = position < arguments.cached_edges ? arguments.cached_indices : arguments.indices;
    const i64 id = reinterpret_cast<const Id*>(indices)[position];
    u64 name = (u64)id;
    if (arguments.original_ids != nullptr) {
      if ((u64)id < arguments.nodes) {
        name = (u64)name_of(arguments.original_ids, arguments.original_ids_wide, id);
      } else {
        atomicMin(&arguments.report->bad_entry, destination << 32 | place);
      }
    }
    const Words words = words_of(stream_of(arguments, name, PURPOSE_NEIGHBORS), 0);
    variate = (u64)words.second << 32 | words.first;
    return true;
  }
};

template <class Id>
struct Labor {
  const SampleArguments& arguments;

  __device__ __forceinline__ bool is_long(u64 destination) const {
    const u32 degree = arguments.degrees[destination], fanout = arguments.fanout;
    return degree > WARP_LIST || (fanout > LANES && degree > fanout);
  }

  __device__ __forceinline__ void by_warp(u64 destination) const {
    const PickedList list = list_of(arguments, destination);
    if (list.degree <= arguments.fanout) {
      take_whole(list, threadIdx.x % LANES, LANES);
    } else {
      select_by_warp(list, arguments.fanout, Variates<Id>{arguments, destination, (u64)list.begin});
    }
  }

  __device__ __forceinline__ void by_block(u64 destination) const {
    const PickedList list = list_of(arguments, destination);
    if (list.degree <= arguments.fanout) {
      take_whole(list, threadIdx.x, blockDim.x);
    } else {
      select_by_block(list, arguments.fanout, Variates<Id>{arguments, destination, (u64)list.begin});
    }
  }
};

}  // namespace uva
