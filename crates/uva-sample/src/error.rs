//! Errors of sampling.

use std::fmt;

use uva_exchange::ExchangeError;

use crate::limits::{MAX_EPOCH, MAX_FANOUT, MAX_LAYERS, MAX_PICKS};
use crate::{BatchKey, SamplerKind};
use uva_options::ByteSize;

/// The reason why a batch was not sampled.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SampleError {
    /// The batch does not fit the provided memory.
    #[error(
        "{key} needs room for more than {capacity} {what}, all that its slot holds: \
         raise `slot_bytes`, or lower `batch_size` or `fanouts`"
    )]
    BatchTooLarge {
        /// The batch.
        key: BatchKey,
        /// Which array was too short.
        what: Capacity,
        /// Its length.
        capacity: usize,
    },
    /// The system lacks memory for the per-node arrays of a sampler.
    #[error("a sampler needs {} for the graph's nodes, which the system cannot allocate: {reason}", ByteSize::from_bytes(*bytes as u64))]
    Memory {
        /// Requested bytes.
        bytes: usize,
        /// The system's message.
        reason: String,
    },
    /// An option is invalid for this graph.
    #[error(transparent)]
    InvalidOption(#[from] InvalidOption),
    /// A seed is not a node.
    #[error("seed {position} of {key} is node {seed}, but the graph's nodes are 0 to {}", *nodes as i64 - 1)]
    SeedOutOfRange {
        /// The batch.
        key: BatchKey,
        /// Position among the batch's seeds.
        position: usize,
        /// The seed.
        seed: i64,
        /// Nodes in the graph.
        nodes: usize,
    },
    /// `indptr` does not describe a list.
    #[error(
        "indptr.npy: the list of node {node} goes from {begin} to {end}, which is not a range of the {edges} edges"
    )]
    InvalidList {
        /// The node of the list.
        node: i64,
        /// The start of the list.
        begin: i64,
        /// Its end.
        end: i64,
        /// Edges in the graph.
        edges: usize,
    },
    /// `indices` contains an id that is not a node.
    #[error("indices.npy: the entry at {position} is {neighbor}, but the graph's nodes are 0 to {}", *nodes as i64 - 1)]
    InvalidNeighbor {
        /// Position in `indices`.
        position: usize,
        /// The id found there.
        neighbor: i64,
        /// Nodes in the graph.
        nodes: usize,
    },
    /// The exchange with the ranks that hold the other lists has failed.
    #[error(transparent)]
    Exchange(#[from] ExchangeError),
    /// Another rank that holds lists of the graph samples differently. This rank ends the exchange.
    #[error("rank {rank}: rank {peer} does not agree about lists of neighbours: {reason}")]
    Disagreement {
        /// The rank that found the difference.
        rank: usize,
        /// The rank that differs.
        peer: usize,
        /// The difference, and the expected value.
        reason: &'static str,
    },
    /// The provided memory and the fanouts have different numbers of layers.
    #[error("the batch memory has {given} layers, but there are {expected} fanouts")]
    LayerMismatch {
        /// Fanouts of the sampler.
        expected: usize,
        /// Layers in the memory given.
        given: usize,
    },
    /// There is not one time for each seed.
    #[error("the seeds of a type have {times} times, but there are {seeds} of them")]
    SeedTimes {
        /// Seeds of the type.
        seeds: usize,
        /// Times given for them.
        times: usize,
    },
    /// The seeds or the provided memory are for another number of node types.
    #[error("the seeds and the batch memory are for {given} node types, but the graph has {expected}")]
    TypeMismatch {
        /// Node types of the graph.
        expected: usize,
        /// Those of the seeds or of the memory.
        given: usize,
    },
}

/// A fixed-length array of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Capacity {
    /// The node ids.
    Nodes,
    /// Destinations of a layer: its `indptr`.
    Destinations {
        /// The layer, 0 at the seeds.
        layer: usize,
    },
    /// Edges of a layer: its `indices`.
    Edges {
        /// The layer, 0 at the seeds.
        layer: usize,
    },
}

impl fmt::Display for Capacity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nodes => f.write_str("nodes"),
            Self::Destinations { layer } => write!(f, "destinations of layer {layer}"),
            Self::Edges { layer } => write!(f, "edges of layer {layer}"),
        }
    }
}

impl SampleError {
    /// The option to change, if there is one.
    #[must_use]
    pub fn field(&self) -> Option<&'static str> {
        match self {
            Self::BatchTooLarge { .. } => Some("slot_bytes"),
            Self::InvalidOption(invalid) => invalid.field(),
            _ => None,
        }
    }
}

/// An invalid option, or an invalid combination of option and graph, that is rejected before sampling.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidOption {
    /// There are no fanouts.
    #[error("`fanouts`: none given; give one number for each hop, for example 15,10,5")]
    NoFanouts,
    /// There are more hops than the random key can represent.
    #[error("`fanouts`: {given} hops, but at most {MAX_LAYERS} are supported")]
    TooManyFanouts {
        /// Fanouts given.
        given: usize,
    },
    /// A fanout that is neither -1 nor 1 to [`MAX_FANOUT`].
    #[error(
        "`fanouts`: hop {layer}: invalid value '{fanout}': expected -1 (all neighbours) or 1 to {MAX_FANOUT}"
    )]
    Fanout {
        /// The hop, 0 at the seeds.
        layer: usize,
        /// The value given.
        fanout: i32,
    },
    /// More picks from one list than a random stream has words for.
    #[error(
        "`fanouts`: hop {layer} would pick {fanout} of the {degree} neighbours of node {node}; \
         at most {MAX_PICKS} can be picked at random (-1 takes all)"
    )]
    TooManyPicks {
        /// The hop, 0 at the seeds.
        layer: usize,
        /// Its fanout.
        fanout: i32,
        /// A node whose list is longer.
        node: usize,
        /// The length of that list.
        degree: usize,
    },
    /// A list too long for 32-bit draws.
    #[error("node {node} has {degree} neighbours, but random picks require fewer than 2^32")]
    DegreeTooLarge {
        /// The node.
        node: usize,
        /// Its list's length.
        degree: usize,
    },
    /// More nodes than the random key has bits for.
    #[error("the graph has {nodes} nodes, but at most 2^40 are supported")]
    TooManyNodes {
        /// Nodes in the graph.
        nodes: usize,
    },
    /// `orig_id` does not fit the graph.
    #[error("orig_id.npy has {given} entries, but the graph has {nodes} nodes")]
    OriginalIds {
        /// Entries in it.
        given: usize,
        /// Nodes in the graph.
        nodes: usize,
    },
    /// κ is 0.
    #[error("`batch_dependency=0`: expected 1 (the default) or more")]
    BatchDependency,
    /// A kind of sampler without GPU kernels.
    #[error(
        "`sampler_kind={kind}`: only supported on the CPU: use `sampler=cpu`, or \
         `sampler_kind={instead}`"
    )]
    KindOnDevice {
        /// The kind.
        kind: SamplerKind,
        /// The kinds with GPU kernels.
        instead: String,
    },
    /// Options that belong to another kind of sampler.
    #[error("options of the {asked} sampler were given to the {this} sampler")]
    OtherKind {
        /// The kind in the options.
        asked: SamplerKind,
        /// The kind of the requested sampler.
        this: SamplerKind,
    },
    /// Picks with replacement, for a kind that supports only one way.
    #[error(
        "`replace`: not supported with `sampler_kind={kind}`; omit `replace`, or use \
         `sampler_kind={instead}`"
    )]
    Replace {
        /// The kind.
        kind: SamplerKind,
        /// The kinds that support both.
        instead: String,
    },
    /// Picks kept over hops, for a kind that draws for all destinations of a hop together.
    #[error(
        "`expand=new`: the {kind} sampler draws the nodes of a layer for all of its destinations together; use \
         `expand=all`, or `sampler_kind={instead}`"
    )]
    ExpandNew {
        /// The kind.
        kind: SamplerKind,
        /// The kinds that support it.
        instead: String,
    },
    /// Picks that are not made list by list, and lists that are divided among ranks.
    #[error(
        "`sampler_kind={kind}`: not supported with `graph=divided`, since it reads lists of other ranks; use \
         `sampler_kind={instead}`, or omit `graph=divided`"
    )]
    DividedLists {
        /// The kind.
        kind: SamplerKind,
        /// The kinds that pick list by list.
        instead: String,
    },
    /// The kind of sampler draws for nodes of one type.
    #[error(
        "`sampler_kind`: {kind} samples graphs of one node type and one relation, but this graph has {types} and \
         {relations}; {instead} sample it"
    )]
    Types {
        /// The kind.
        kind: SamplerKind,
        /// Node types of the graph.
        types: usize,
        /// Its relations.
        relations: usize,
        /// The kinds that sample such graphs.
        instead: String,
    },
    /// The kind has variates or weights that different relations cannot share.
    #[error(
        "`fanout_per=node` is not supported with the sampler {kind}: the weights or variates of different relations have \
         no common scale; requires the sampler neighbor"
    )]
    FanoutPerNode {
        /// The kind.
        kind: SamplerKind,
    },
    /// The kind of sampler does not make batches of disjoint trees.
    #[error(
        "`sampler_kind={kind}`: not supported with disjoint trees, which share no nodes; use `sampler_kind={instead}`"
    )]
    TreesOfKind {
        /// The kind.
        kind: SamplerKind,
        /// The kinds that make them.
        instead: String,
    },
    /// Trees, and lists that are divided among ranks.
    #[error("`disjoint`: disjoint trees are not supported with `graph=divided` yet")]
    DividedTrees,
    /// Trees, and a sampler on a GPU.
    #[error("`disjoint`: disjoint trees are only sampled on the CPU: use `sampler=cpu`")]
    TreesOnDevice,
    /// A batch has more trees than their numbers have bits.
    #[error("`batch_size`: a batch has {seeds} seeds, but at most 2^24 disjoint trees are supported")]
    TooManyTrees {
        /// Seeds of all types.
        seeds: usize,
    },
    /// One draw for all lists of a node, and a rule of time.
    #[error("`fanout_per=node` is not supported with `time_rule` yet")]
    TimePerNode,
    /// The latest entries, with replacement.
    #[error(
        "`time_pick=last`: the latest entries are picked once each; omit `replace`, or use `time_pick=uniform`"
    )]
    LastReplaced,
    /// A window below 0.
    #[error("`time_window={window}`: expected 0 or more")]
    TimeWindow {
        /// The value given.
        window: i64,
    },
    /// A rule of time for a graph without times.
    #[error("`time_rule`: no relation and no node type has time.npy")]
    NoTimes,
    /// Lists that may not be sorted by time.
    #[error(
        "`time_rule`: the lists of relation {relation} are not known to be sorted by time: meta.json has no \"order\": \"time\" \
         for it; import with `order=time` sorts them"
    )]
    NotSorted {
        /// The number of the relation.
        relation: u16,
    },
    /// The numbers of times and of edges or nodes differ.
    #[error("time.npy has {given} entries, expected {wanted}")]
    Times {
        /// Entries in it.
        given: usize,
        /// Edges of the relation, or nodes of the type.
        wanted: usize,
    },
    /// There are fanouts for another number of relations.
    #[error("`fanouts`: there are fanouts for {given} relations, but the graph has {relations}")]
    FanoutRelations {
        /// Relations with fanouts.
        given: usize,
        /// Relations of the graph.
        relations: usize,
    },
    /// Fanouts name something that the graph does not have, or has twice.
    #[error("`fanouts`: {reason}")]
    FanoutName {
        /// The name, and those of the graph.
        reason: uva_graph::UnknownName,
    },
    /// Fanouts name relations of a graph with only one.
    #[error("`fanouts`: the graph has one node type and one relation, so give one list without names")]
    FanoutNames,
    /// Two names in fanouts are those of one relation or node type.
    #[error("`fanouts`: {name} has two lists")]
    FanoutTwice {
        /// The relation or node type.
        name: String,
    },
    /// A relation or node type has no fanouts.
    #[error("`fanouts`: {name} has no list, and there is no default (`*`)")]
    FanoutMissing {
        /// The relation or node type.
        name: String,
    },
    /// Fanouts are for different numbers of hops.
    #[error("`fanouts`: {name} has {given} hops, the others {hops}")]
    FanoutHops {
        /// The relation or node type.
        name: String,
        /// Its hops.
        given: usize,
        /// Those of the default, or else of the first list.
        hops: usize,
    },
    /// No relation has picks in a hop.
    #[error(
        "`fanouts`: in hop {layer} every relation has a fanout of 0: at least one has to pick neighbours"
    )]
    NoPicks {
        /// The hop, 0 at the seeds.
        layer: usize,
    },
    /// The graph and the lists that ranks hold have different numbers of nodes.
    #[error("ranks hold the lists of {lists} nodes in all, but the graph has {nodes} nodes")]
    DividedNodes {
        /// Nodes whose lists they hold.
        lists: u64,
        /// Nodes in the graph.
        nodes: usize,
    },
    /// The numbers of parts and ranks differ.
    #[error(
        "the lists are divided into {parts} parts, but there are {ranks} ranks: expected one part per rank"
    )]
    Parts {
        /// Parts of the lists.
        parts: usize,
        /// Ranks of the exchange.
        ranks: usize,
    },
    /// Fanouts that differ, for a kind that makes one subgraph for all hops.
    #[error(
        "`fanouts`: hop {layer} has fanout {fanout}; with `sampler_kind={kind}` all hops use one subgraph, so give the \
         same number of draws for each hop, as in 4000,4000"
    )]
    OneSubgraph {
        /// The kind.
        kind: SamplerKind,
        /// The first hop whose fanout differs.
        layer: usize,
        /// Its fanout.
        fanout: i32,
    },
    /// Walk options out of range: count, length or chance to end.
    #[error("`{what}={given}`: expected {least} to {most}")]
    Walks {
        /// The option's name.
        what: &'static str,
        /// The value given.
        given: u32,
        /// The minimum.
        least: u32,
        /// The maximum.
        most: u32,
    },
    /// A fanout that is not a valid number of found nodes.
    #[error(
        "`fanouts`: hop {layer} has fanout {fanout}; with `sampler_kind={kind}` it is the number of nodes that are picked around \
         each destination: expected 1 to {MAX_PICKS}"
    )]
    FoundFanout {
        /// The kind.
        kind: SamplerKind,
        /// The hop, 0 at the seeds.
        layer: usize,
        /// The value given.
        fanout: i32,
    },
    /// Edge ids are requested for a kind whose picks are not edges of their nodes.
    #[error(
        "`edge_ids`: not supported with `sampler_kind={kind}`, whose blocks have edges to any nodes that were found, not \
         edges of the graph; omit `edge_ids`, or use another kind"
    )]
    EdgeIds {
        /// The kind.
        kind: SamplerKind,
    },
    /// A sum of node importances that overflows.
    #[error(
        "`sampler_kind={kind}`: the sum of all nodes' importance is beyond 2^64 in a graph of {nodes} nodes; use \
         `sampler_kind=ladies`, which needs no sum over the graph"
    )]
    ImportanceTooLarge {
        /// The kind.
        kind: SamplerKind,
        /// Nodes in the graph.
        nodes: usize,
    },
    /// A batch needs more in-hops than a part of a partitioned dataset has.
    #[error(
        "`{option}`: batches reach {reach} in-hops from their seeds, but this dataset is a part that is whole within {hops} \
         in-hops of its training nodes: {less}, or write parts with more hops",
        option = if kind.walks() { "walk_length" } else { "fanouts" },
        less = if kind.walks() { "take fewer hops or steps" } else { "give fewer fanouts" }
    )]
    BeyondPart {
        /// The kind.
        kind: SamplerKind,
        /// In-hops that a batch needs.
        reach: usize,
        /// In-hops that the part has.
        hops: usize,
    },
    /// A kind that may read any list, for a part of a partitioned dataset.
    #[error(
        "`sampler_kind={kind}`: it draws from the whole graph, but this dataset is a part of one: use the whole dataset, \
         or `sampler_kind={instead}`"
    )]
    WholeGraph {
        /// The kind.
        kind: SamplerKind,
        /// The kinds that read only near lists.
        instead: String,
    },
    /// A kind that picks by weight, for a graph without weights.
    #[error("`sampler_kind={kind}`: requires weight.npy, which the dataset does not have")]
    NoWeights {
        /// The kind.
        kind: SamplerKind,
    },
    /// The numbers of weights and edges differ.
    #[error("weight.npy has {given} entries, but the graph has {edges} edges")]
    Weights {
        /// Entries in it.
        given: usize,
        /// Edges in the graph.
        edges: usize,
    },
    /// A batch without seeds.
    #[error("`batch_size=0`: expected 1 or more")]
    BatchSizeZero,
    /// More seeds than positions have bits for.
    #[error("the {split} split has {len} nodes, but fewer than 2^32 are supported")]
    TooManySeeds {
        /// The split.
        split: uva_graph::Split,
        /// Its length.
        len: usize,
    },
    /// More nodes than an order that follows the graph has bits for.
    #[error(
        "`seed_order`: the graph has {nodes} nodes, but such orders are supported for fewer than 2^32 - 1"
    )]
    TooManyToFollow {
        /// Nodes in the graph.
        nodes: usize,
    },
    /// An epoch that the random key cannot represent.
    #[error("epoch {epoch} is not supported; {MAX_EPOCH} is the last")]
    Epoch {
        /// The epoch.
        epoch: u32,
    },
    /// A fanout of −1, whose batches are bounded only by the graph.
    #[error(
        "`fanouts`: hop {layer} takes all neighbours (-1), so the size of a batch has no bound: \
         give the maximum size of its slot with `slot_bytes`"
    )]
    Unbounded {
        /// The hop, 0 at the seeds.
        layer: usize,
    },
    /// A bound beyond 32-bit local ids.
    #[error(
        "a batch could have {bound} {what}, but 32-bit local ids end at {}: lower `batch_size` or `fanouts`, \
         or limit it with `slot_bytes`",
        i32::MAX
    )]
    BoundTooLarge {
        /// The array that could become too long.
        what: Capacity,
        /// Its possible length.
        bound: usize,
    },
    /// Memory too small even for the seeds.
    #[error("`slot_bytes={}`: it cannot hold a batch; its seeds alone take {}", ByteSize::from_bytes(*bytes as u64).value(), ByteSize::from_bytes(*needed as u64))]
    SlotTooSmall {
        /// Bytes given.
        bytes: usize,
        /// Bytes of the smallest batch.
        needed: usize,
    },
}

impl InvalidOption {
    /// The invalid option; `None` if the graph is at fault. Messages begin with it, and spell options as ``
    /// `slot_bytes` `` or `` `expand=all` ``: front ends rewrite them in their own notation.
    #[must_use]
    pub fn field(&self) -> Option<&'static str> {
        match self {
            Self::NoFanouts
            | Self::TooManyFanouts { .. }
            | Self::Fanout { .. }
            | Self::FanoutRelations { .. }
            | Self::FanoutName { .. }
            | Self::FanoutNames
            | Self::FanoutTwice { .. }
            | Self::FanoutMissing { .. }
            | Self::FanoutHops { .. }
            | Self::NoPicks { .. }
            | Self::TooManyPicks { .. }
            | Self::OneSubgraph { .. }
            | Self::FoundFanout { .. }
            | Self::Unbounded { .. } => Some("fanouts"),
            Self::FanoutPerNode { .. } | Self::TimePerNode => Some("fanout_per"),
            Self::DividedTrees | Self::TreesOnDevice => Some("disjoint"),
            Self::LastReplaced => Some("time_pick"),
            Self::TimeWindow { .. } => Some("time_window"),
            Self::NoTimes | Self::NotSorted { .. } => Some("time_rule"),
            Self::BatchDependency => Some("batch_dependency"),
            Self::BeyondPart { kind, .. } => Some(if kind.walks() { "walk_length" } else { "fanouts" }),
            Self::KindOnDevice { .. }
            | Self::ImportanceTooLarge { .. }
            | Self::NoWeights { .. }
            | Self::DividedLists { .. }
            | Self::Types { .. }
            | Self::TreesOfKind { .. }
            | Self::WholeGraph { .. } => Some("sampler_kind"),
            Self::Replace { .. } => Some("replace"),
            Self::TooManyToFollow { .. } => Some("seed_order"),
            Self::ExpandNew { .. } => Some("expand"),
            Self::EdgeIds { .. } => Some("edge_ids"),
            Self::BatchSizeZero | Self::TooManyTrees { .. } => Some("batch_size"),
            Self::BoundTooLarge { .. } | Self::SlotTooSmall { .. } => Some("slot_bytes"),
            Self::Walks { what, .. } => Some(what),
            Self::DegreeTooLarge { .. }
            | Self::TooManyNodes { .. }
            | Self::OriginalIds { .. }
            | Self::OtherKind { .. }
            | Self::DividedNodes { .. }
            | Self::Parts { .. }
            | Self::Weights { .. }
            | Self::Times { .. }
            | Self::TooManySeeds { .. }
            | Self::Epoch { .. } => None,
        }
    }
}
