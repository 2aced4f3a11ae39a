//! The maximum size of a batch, known before the first one is sampled.

use uva_graph::{Relation, TypedDataset};

use super::sizes::{BlockSize, RelationEnds, TypeSize};
use crate::{
    Capacity, Expand, FanoutPer, Fanouts, InvalidOption, SampleError, SamplerKind, SamplerOptions, Trees,
    Walks,
};

/// The maximum size of a batch, which determines its memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchBounds {
    /// Seeds and nodes of each type.
    pub types: Vec<TypeSize>,
    /// Each block: layer by layer from the seeds outward, in each layer one for each relation.
    pub blocks: Vec<BlockSize>,
    /// The node types of each relation.
    pub relations: Vec<RelationEnds>,
    /// Whether blocks have edge ids.
    pub edge_ids: bool,
    /// Whether blocks have weights.
    pub weights: bool,
    /// Whether nodes are in trees.
    pub trees: bool,
}

/// The sizes of a graph that bound its batches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GraphSize {
    /// The number of nodes of each type.
    pub nodes: Vec<usize>,
    /// Each relation.
    pub relations: Vec<RelationSize>,
}

/// One relation of a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RelationSize {
    /// Its node types.
    pub ends: RelationEnds,
    /// The number of edges.
    pub edges: usize,
}

impl GraphSize {
    /// The sizes of a dataset.
    #[must_use]
    pub fn of(dataset: &TypedDataset) -> Self {
        let metagraph = dataset.metagraph();
        let size = |relation| RelationSize {
            ends: RelationEnds::of(metagraph, relation),
            edges: dataset.edges_of(relation),
        };
        Self {
            nodes: metagraph.types().map(|of| dataset.nodes_of(of)).collect(),
            relations: metagraph.relations().map(size).collect(),
        }
    }

    /// A homogeneous graph.
    #[must_use]
    pub fn homogeneous(nodes: usize, edges: usize) -> Self {
        Self { nodes: vec![nodes], relations: vec![RelationSize { ends: RelationEnds::ONLY, edges }] }
    }
}

/// The most nodes of each type, and the most edges of each relation in a block, that a batch has of a graph.
struct GraphLimits {
    nodes: Vec<usize>,
    edges: Vec<usize>,
}

impl GraphLimits {
    /// Those of batches from at most this many seeds of each type: of one copy of the graph, or of one for each tree. A
    /// node of a tree that decreases in time may be there once for each time.
    fn of(options: &SamplerOptions, seeds: &[usize], graph: &GraphSize) -> Self {
        let copies = match options.trees {
            None => 1,
            Some(Trees { time: Some(time) }) if time.splits_nodes() => usize::MAX,
            Some(_) => seeds.iter().fold(0_usize, |sum, &seeds| sum.saturating_add(seeds)),
        };
        Self {
            nodes: graph.nodes.iter().map(|&nodes| nodes.saturating_mul(copies)).collect(),
            edges: graph.relations.iter().map(|size| size.edges.saturating_mul(copies)).collect(),
        }
    }
}

/// Local ids and offsets are 32 bits, signed as in common file formats.
const MOST: usize = i32::MAX as usize;

impl BatchBounds {
    /// [`for_graph`](Self::for_graph) in a homogeneous graph of `nodes` nodes and `edges` edges.
    ///
    /// # Errors
    /// As [`new`](Self::new) or [`within`](Self::within).
    pub fn for_options(
        options: &SamplerOptions,
        batch_size: usize,
        nodes: usize,
        edges: usize,
        bytes: Option<usize>,
    ) -> Result<Self, SampleError> {
        Self::for_graph(options, &[batch_size], &GraphSize::homogeneous(nodes, edges), bytes)
    }

    /// Bounds of the batches that `options` produce from at most this many seeds of each type. Without `bytes` it is
    /// [`new`](Self::new), else [`within`](Self::within). Those two cover homogeneous graphs, [`Expand::All`] and kinds
    /// of sampler that draw list by list without replacement; this one covers all.
    ///
    /// With replacement a list gives as many picks as the fanout says, however short it is. So a layer's bound is
    /// `destinations · fanout` edges, even if the graph has fewer.
    ///
    /// A layer of a kind that [draws together](crate::SamplerKind::draws_together) has at most the graph's edges, since
    /// any entry of any list may name a drawn node. Its sources exceed its destinations by at most the nodes that its
    /// fanout's draws bring. In one subgraph, they exceed the seeds by that number.
    ///
    /// # Errors
    /// As [`new`](Self::new) or [`within`](Self::within).
    pub fn for_graph(
        options: &SamplerOptions,
        seeds: &[usize],
        graph: &GraphSize,
        bytes: Option<usize>,
    ) -> Result<Self, SampleError> {
        let full = Self::of_graph(options, seeds, graph)?;
        match (bytes, options.fanouts.hop_of_all()) {
            (Some(bytes), _) => full.shrunk(bytes, options.kind.draws_together()),
            (None, Some(layer)) => Err(InvalidOption::Unbounded { layer }.into()),
            (None, None) => {
                full.check()?;
                Ok(full)
            }
        }
    }

    /// Bounds that every batch of these options keeps, in a homogeneous graph of `nodes` nodes and `edges` edges: at most
    /// `min(nodes, batch_size · Π(1 + fanout))` nodes, and in each layer at most `min(edges, destinations · fanout)`
    /// edges.
    ///
    /// # Errors
    /// Options without a valid batch; a fanout of −1, which needs [`within`](Self::within); and bounds beyond 32-bit
    /// local ids.
    pub fn new(
        batch_size: usize,
        fanouts: impl Into<Fanouts>,
        nodes: usize,
        edges: usize,
    ) -> Result<Self, SampleError> {
        let fanouts = fanouts.into();
        if let Some(layer) = fanouts.hop_of_all() {
            return Err(InvalidOption::Unbounded { layer }.into());
        }
        let graph = GraphSize::homogeneous(nodes, edges);
        let bounds = Self::of_graph(&list_by_list(fanouts), &[batch_size], &graph)?;
        bounds.check()?;
        Ok(bounds)
    }

    /// Bounds whose arrays use at most `bytes` bytes together ([`bytes`](Self::bytes)), for `--slot-bytes` and for
    /// fanouts of −1. A batch may then exceed its memory, which is [`SampleError::BatchTooLarge`].
    ///
    /// If the graph's own bounds need more, nodes and edges shrink by one common factor; the seeds always fit.
    ///
    /// # Errors
    /// Options without a valid batch, and `bytes` too small for the seeds.
    pub fn within(
        bytes: usize,
        batch_size: usize,
        fanouts: impl Into<Fanouts>,
        nodes: usize,
        edges: usize,
    ) -> Result<Self, SampleError> {
        let graph = GraphSize::homogeneous(nodes, edges);
        Self::of_graph(&list_by_list(fanouts.into()), &[batch_size], &graph)?.shrunk(bytes, false)
    }

    /// These bounds, reduced to fit `bytes`. With `nodes_first`, nodes keep their bound if `bytes` holds it: such
    /// batches come near the bound on nodes but not near the one on edges.
    fn shrunk(&self, bytes: usize, nodes_first: bool) -> Result<Self, SampleError> {
        let needed = self.scaled(0, false).bytes();
        if needed > bytes {
            return Err(InvalidOption::SlotTooSmall { bytes, needed }.into());
        }
        let keeps_nodes = nodes_first && self.scaled(0, true).bytes() <= bytes;
        // The largest factor that fits: bytes grow with it, so a binary search finds it bit by bit.
        let mut factor = 0;
        for bit in (0..=FACTOR_BITS).rev() {
            let larger = factor | 1 << bit;
            if larger <= 1 << FACTOR_BITS && self.scaled(larger, keeps_nodes).bytes() <= bytes {
                factor = larger;
            }
        }
        Ok(self.scaled(factor, keeps_nodes))
    }

    /// Bytes of the arrays of a batch: 8 per node id or edge id, 4 per offset, local id, weight or tree.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let of_edge = 1 + if self.edge_ids { 2 } else { 0 } + usize::from(self.weights);
        let of_node = if self.trees { 12 } else { 8 };
        let words = |block: &BlockSize| {
            block.destinations.saturating_add(1).saturating_add(block.edges.saturating_mul(of_edge))
        };
        let blocks = self.blocks.iter().fold(0_usize, |sum, block| sum.saturating_add(words(block)));
        self.nodes().saturating_mul(of_node).saturating_add(blocks.saturating_mul(4))
    }

    /// Seeds of all types.
    #[must_use]
    pub fn seeds(&self) -> usize {
        self.types.iter().fold(0, |sum, size| sum.saturating_add(size.seeds))
    }

    /// Nodes of all types, seeds included.
    #[must_use]
    pub fn nodes(&self) -> usize {
        self.types.iter().fold(0, |sum, size| sum.saturating_add(size.nodes))
    }

    /// The number of layers.
    #[must_use]
    pub fn layers(&self) -> usize {
        self.blocks.len().checked_div(self.relations.len()).unwrap_or(0)
    }

    /// The bounds that follow from options and graph; −1 picks every edge.
    fn of_graph(options: &SamplerOptions, seeds: &[usize], graph: &GraphSize) -> Result<Self, SampleError> {
        let SamplerOptions { kind, fanouts, replace, expand, edge_ids, .. } = options;
        fanouts.check()?;
        if seeds.iter().all(|&seeds| seeds == 0) {
            return Err(InvalidOption::BatchSizeZero.into());
        }
        let limits = GraphLimits::of(options, seeds, graph);
        let seeds: Vec<usize> =
            seeds.iter().zip(&limits.nodes).map(|(&seeds, &nodes)| seeds.min(nodes)).collect();
        let mut destinations = seeds.clone();
        // For each relation the picks kept from the hop before, and for each type the destinations without kept picks.
        let (mut kept, mut new) = (vec![0; graph.relations.len()], seeds.clone());
        let mut blocks = Vec::with_capacity(fanouts.hops() * graph.relations.len());
        for hop in 0..fanouts.hops() {
            // All layers share the drawn nodes of a subgraph.
            let before = if kind.draws_one_subgraph() { &seeds } else { &destinations };
            let mut sources = before.clone();
            let mut found = vec![0_usize; graph.nodes.len()];
            for (relation, size) in graph.relations.iter().enumerate() {
                let (RelationEnds { source, destination }, edges) = (size.ends, limits.edges[relation]);
                // The length of lists bounds only picks without replacement from these lists.
                let most = if kind.picks_in_lists() && !replace { edges } else { usize::MAX };
                let (picks, drawn) = match options.picks_a_list(fanouts.of(hop, Relation(relation as u16))) {
                    Some(draws) if kind.draws_together() => {
                        (edges, draws.saturating_mul(kind.nodes_a_draw()).min(edges))
                    }
                    Some(picks) => {
                        let picks = new[destination.index()].saturating_mul(picks).min(most);
                        (picks, picks)
                    }
                    // Lists of a tree are taken whole: each has at most the relation's edges.
                    None if options.trees.is_some() => {
                        let picks = new[destination.index()].saturating_mul(size.edges).min(edges);
                        (picks, picks)
                    }
                    None => (edges, edges),
                };
                let (sources, found) = (&mut sources[source.index()], &mut found[source.index()]);
                *sources = sources.saturating_add(drawn).min(limits.nodes[source.index()]);
                *found = found.saturating_add(picks).min(limits.nodes[source.index()]);
                // Without replacement, each list is picked from at most once, copies of kept picks included.
                let of_block = picks.saturating_add(kept[relation]).min(most);
                let destinations = destinations[destination.index()];
                blocks.push(BlockSize { destinations, sources: 0, edges: of_block });
                if *expand == Expand::New {
                    kept[relation] = of_block;
                }
            }
            for (block, size) in blocks.iter_mut().skip(hop * graph.relations.len()).zip(&graph.relations) {
                block.sources = sources[size.ends.source.index()];
            }
            new = match expand {
                Expand::All => sources.clone(),
                Expand::New => found,
            };
            destinations = sources;
        }
        let types =
            seeds.into_iter().zip(destinations).map(|(seeds, nodes)| TypeSize { seeds, nodes }).collect();
        let relations = graph.relations.iter().map(|size| size.ends).collect();
        let (edge_ids, weights) = (*edge_ids, kind.weighs_edges());
        Ok(Self { types, blocks, relations, edge_ids, weights, trees: options.trees.is_some() })
    }

    fn check(&self) -> Result<(), InvalidOption> {
        let too_large = |what, bound| Err(InvalidOption::BoundTooLarge { what, bound });
        if let Some(size) = self.types.iter().find(|size| size.nodes > MOST) {
            return too_large(Capacity::Nodes, size.nodes);
        }
        match self.blocks.iter().position(|block| block.edges > MOST) {
            Some(at) => {
                too_large(Capacity::Edges { layer: at / self.relations.len() }, self.blocks[at].edges)
            }
            None => Ok(()),
        }
    }

    /// Nodes (unless they are kept) and edges times `factor / 2^FACTOR_BITS`. There are at least as many nodes as
    /// seeds, and no more than 32-bit local ids can count.
    fn scaled(&self, factor: u64, keeps_nodes: bool) -> Self {
        // The product is of 64 and 33 bits; the quotient is no larger than `count`, so it fits again.
        let scale = |count: usize| ((count as u128 * u128::from(factor)) >> FACTOR_BITS) as usize;
        let of_type = |size: &TypeSize| {
            let nodes = if keeps_nodes { size.nodes } else { scale(size.nodes).max(size.seeds) }.min(MOST);
            TypeSize { seeds: size.seeds.min(nodes), nodes }
        };
        let types: Vec<TypeSize> = self.types.iter().map(of_type).collect();
        let block = |(block, ends): (&BlockSize, &RelationEnds)| BlockSize {
            destinations: block.destinations.min(types[ends.destination.index()].nodes),
            sources: block.sources.min(types[ends.source.index()].nodes),
            edges: scale(block.edges).min(MOST),
        };
        let blocks = self.blocks.iter().zip(self.relations.iter().cycle()).map(block).collect();
        Self { types, blocks, relations: self.relations.clone(), ..*self }
    }
}

/// Options with these fanouts; all others add nothing to a bound.
fn list_by_list(fanouts: Fanouts) -> SamplerOptions {
    SamplerOptions {
        kind: SamplerKind::LIST_BY_LIST,
        fanouts,
        fanout_per: FanoutPer::Relation,
        replace: false,
        seed: 0,
        batch_dependency: 1,
        expand: Expand::All,
        edge_ids: false,
        trees: None,
        walks: Walks::default(),
    }
}

const FACTOR_BITS: u32 = 32;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{MAX_FANOUT, SamplerKind};

    fn layer(destinations: usize, sources: usize, edges: usize) -> BlockSize {
        BlockSize { destinations, sources, edges }
    }

    #[test]
    fn a_layer_drawn_as_a_whole_grows_by_its_fanout_and_may_have_every_edge() {
        for kind in [SamplerKind::LADIES, SamplerKind::FASTGCN] {
            let options = SamplerOptions { kind, fanouts: [5, 7, 990].into(), ..SamplerOptions::default() };
            let bounds = BatchBounds::for_options(&options, 10, 1000, 2000, None).unwrap();
            let layers = [layer(10, 15, 2000), layer(15, 22, 2000), layer(22, 1000, 2000)];
            assert_eq!((bounds.nodes(), &bounds.blocks[..]), (1000, &layers[..]));
            // A local id and a weight per edge.
            assert_eq!(bounds.bytes(), 8 * 1000 + 4 * (11 + 16 + 23 + 3 * 2 * 2000));
            let less = BatchBounds::for_options(&options, 10, 1000, 2000, Some(20_000)).unwrap();
            assert!(less.weights && less.bytes() <= 20_000 && less.bytes() > 19_900);
        }
    }

    #[test]
    fn a_slot_for_draws_keeps_room_for_all_nodes_as_long_as_it_can() {
        for kind in SamplerKind::ALL.into_iter().filter(|kind| kind.draws_together()) {
            let options = SamplerOptions { kind, fanouts: [20, 20].into(), ..SamplerOptions::default() };
            let with = |bytes| BatchBounds::for_options(&options, 10, 1000, 1_000_000, bytes).unwrap();
            let (full, less) = (with(None), with(Some(2000)));
            let nodes = match kind.name() {
                "saint-node" => 10 + 20,
                "saint-edge" => 10 + 2 * 20,
                _ => 10 + 20 + 20,
            };
            assert_eq!((full.nodes(), less.nodes()), (nodes, nodes), "{kind}");
            let layers = |bounds: &BatchBounds| {
                bounds.blocks.iter().map(|layer| (layer.destinations, layer.sources)).collect::<Vec<_>>()
            };
            assert_eq!(layers(&full), layers(&less), "{kind}");
            assert!(less.bytes() <= 2000 && less.bytes() > 1900 && less.blocks[0].edges > 20, "{less:?}");
            // Not even the nodes fit: the available bytes are divided.
            let tiny = with(Some(300));
            assert!(tiny.nodes() < nodes && tiny.nodes() >= 10 && tiny.bytes() <= 300, "{tiny:?}");
        }
    }

    #[test]
    fn walks_have_no_more_picks_than_steps_for_any_fanout_and_short_lists() {
        let walks = crate::Walks { count: 3, length: 2, stop: 0 };
        let options = SamplerOptions {
            kind: SamplerKind::WALK,
            fanouts: [65_536, 2].into(),
            walks,
            ..SamplerOptions::default()
        };
        let bounds = BatchBounds::for_options(&options, 10, 1000, 5, None).unwrap();
        assert_eq!(bounds.blocks, [layer(10, 70, 60), layer(70, 210, 140)]);
    }

    #[test]
    fn bounds_grow_by_fanout_until_the_graph_ends() {
        let bounds = BatchBounds::new(10, [3, 2], 1_000_000, 2_000_000).unwrap();
        assert_eq!(bounds.blocks, [layer(10, 40, 30), layer(40, 120, 80)]);
        assert_eq!((bounds.seeds(), bounds.nodes()), (10, 120));
        let bounds = BatchBounds::new(10, [3, 2], 35, 50).unwrap();
        assert_eq!(bounds.blocks, [layer(10, 35, 30), layer(35, 35, 50)]);
        let bounds = BatchBounds::new(1000, [3], 35, 50).unwrap();
        assert_eq!((bounds.seeds(), bounds.blocks), (35, vec![layer(35, 35, 50)]));
    }

    #[test]
    fn picks_that_are_kept_are_counted_in_every_block_that_has_them() {
        let with = |fanouts: &[i32], bytes| {
            let options =
                SamplerOptions { fanouts: fanouts.into(), expand: Expand::New, ..SamplerOptions::default() };
            BatchBounds::for_options(&options, 10, 1_000_000, 2_000_000, bytes)
        };
        let bounds = with(&[3, 2, 1], None).unwrap();
        assert_eq!(bounds.blocks, [layer(10, 40, 30), layer(40, 100, 90), layer(100, 160, 150)]);
        assert_eq!(with(&[3, 2, 1], Some(bounds.bytes())).unwrap(), bounds);
        let refused = with(&[3, -1], None).unwrap_err();
        assert_eq!(refused, SampleError::InvalidOption(InvalidOption::Unbounded { layer: 1 }));
    }

    #[test]
    fn draws_with_replacement_are_bounded_by_the_fanouts_and_not_by_the_edges() {
        let with = |fanouts: &[i32], expand, bytes| {
            let options = SamplerOptions {
                fanouts: fanouts.into(),
                replace: true,
                expand,
                ..SamplerOptions::default()
            };
            BatchBounds::for_options(&options, 10, 35, 50, bytes).unwrap().blocks
        };
        assert_eq!(with(&[3, 2], Expand::All, None), [layer(10, 35, 30), layer(35, 35, 70)]);
        assert_eq!(with(&[9, 4], Expand::All, None), [layer(10, 35, 90), layer(35, 35, 140)]);
        // Each of the 35 nodes of the second hop may be new, and the first hop's picks are kept.
        assert_eq!(with(&[9, 4], Expand::New, None), [layer(10, 35, 90), layer(35, 35, 90 + 35 * 4)]);
        // A fanout of −1 takes lists whole.
        let whole = with(&[9, -1], Expand::All, Some(usize::MAX));
        assert_eq!(whole, [layer(10, 35, 90), layer(35, 35, 50)]);
    }

    #[test]
    fn arithmetic_saturates_at_any_fanout_and_depth() {
        let bounds = BatchBounds::new(usize::MAX, [MAX_FANOUT; 32], 1000, 5000).unwrap();
        assert_eq!(bounds.nodes(), 1000);
        assert_eq!(bounds.blocks[31], layer(1000, 1000, 5000));
        let refused = BatchBounds::new(usize::MAX, [MAX_FANOUT; 32], usize::MAX, usize::MAX).unwrap_err();
        assert!(
            matches!(refused, SampleError::InvalidOption(InvalidOption::BoundTooLarge { .. })),
            "{refused}"
        );
    }

    #[test]
    fn a_batch_beyond_local_ids_is_refused_with_the_capacity_it_exceeds() {
        let refusal = |nodes, edges| match BatchBounds::new(1 << 20, [4096], nodes, edges) {
            Err(SampleError::InvalidOption(InvalidOption::BoundTooLarge { what, bound })) => (what, bound),
            other => panic!("{other:?}"),
        };
        assert_eq!(refusal(1 << 20, 1 << 40), (Capacity::Edges { layer: 0 }, 1 << 32));
        assert_eq!(refusal(1 << 33, 1 << 40), (Capacity::Nodes, (1 << 32) + (1 << 20)));
        assert!(BatchBounds::new(1 << 20, [4096], 1 << 20, MOST).is_ok());
        assert!(BatchBounds::new(1 << 20, [4096], 1 << 20, MOST + 1).is_err());
    }

    #[test]
    fn an_unbounded_fanout_is_refused_and_the_message_names_an_alternative() {
        let refused = BatchBounds::new(10, [3, -1], 100, 100).unwrap_err();
        assert_eq!(refused, SampleError::InvalidOption(InvalidOption::Unbounded { layer: 1 }));
        assert!(refused.to_string().contains("`slot_bytes`"));
    }

    #[test]
    fn no_fanouts_and_an_empty_batch_are_refused() {
        for (size, fanouts) in [(10, &[][..]), (10, &[0]), (10, &[5, -2]), (0, &[5]), (10, &[5; 33])] {
            assert!(BatchBounds::new(size, fanouts, 100, 100).is_err(), "{size} {fanouts:?}");
            assert!(BatchBounds::within(1 << 20, size, fanouts, 100, 100).is_err(), "{size} {fanouts:?}");
        }
    }

    #[test]
    fn slot_bytes_larger_than_the_batch_change_nothing() {
        let bounds = BatchBounds::new(10, [3, 2], 1000, 2000).unwrap();
        assert_eq!(BatchBounds::within(bounds.bytes(), 10, [3, 2], 1000, 2000).unwrap(), bounds);
        let all = BatchBounds::within(usize::MAX, 10, [-1, 2], 1000, 2000).unwrap();
        assert_eq!(all.blocks, [layer(10, 1000, 2000), layer(1000, 1000, 2000)]);
        let huge = BatchBounds::within(usize::MAX, 10, [-1], 1 << 40, 1 << 50).unwrap();
        assert_eq!(huge.blocks, [layer(10, MOST, MOST)]);
    }

    #[test]
    fn slot_bytes_below_the_seeds_are_refused_with_what_is_needed() {
        let needed = 10 * 8 + 4 * (11 + 11);
        let refused = BatchBounds::within(needed - 1, 10, [5, 5], 100, 100).unwrap_err();
        assert_eq!(
            refused,
            SampleError::InvalidOption(InvalidOption::SlotTooSmall { bytes: needed - 1, needed })
        );
        let smallest = BatchBounds::within(needed, 10, [5, 5], 100, 100).unwrap();
        assert_eq!(smallest.blocks, [layer(10, 10, 0), layer(10, 10, 0)]);
    }

    proptest! {
        #[test]
        fn bounds_within_slot_bytes_fill_them(
            bytes in 2_000_usize..2_000_000,
            fanouts in proptest::collection::vec(prop_oneof![Just(-1), 1..20], 1..4),
            nodes in 100_usize..100_000,
            edges in 0_usize..1_000_000,
        ) {
            let full = BatchBounds::within(usize::MAX, 10, &fanouts[..], nodes, edges).unwrap();
            let bounds = BatchBounds::within(bytes, 10, &fanouts[..], nodes, edges).unwrap();
            prop_assert!(bounds.bytes() <= bytes);
            // Only rounding is lost, at most a few words per array.
            prop_assert!(bounds == full || bounds.bytes() + 16 * (2 * fanouts.len() + 1) > bytes);
        }
    }
}
