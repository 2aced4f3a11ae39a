//! The static shapes that a run's batches are padded to.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use smallvec::SmallVec;
use uva_graph::{NodeType, Relation};
use uva_sample::{BatchBounds, BatchCounts, BlockSize, Expand, MAX_LAYERS, RelationEnds, TypeSize};

/// Standard deviations above the mean, the same as in NVIDIA's MLPerf entry for R-GAT.
const DEVIATIONS: f64 = 5.0;

/// The factor of all counts, so that the rows of every level begin on a multiple too.
const MULTIPLE: usize = 8;

/// The sizes that batches are padded to, by level and node type, and by layer and relation.
///
/// Level 0 has the seeds, level `k` the nodes that hop `k` found. Each level keeps at least one place for padding of each
/// type that it may have, so edges of padding never lead to a node of the batch. A type that a level cannot have stays
/// empty there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StaticShapes {
    /// Nodes, level by level, in each of every type: one more level than there are layers.
    nodes: Vec<usize>,
    /// Edges that hops sample, layer by layer, in each of every relation.
    edges: Vec<usize>,
    /// The node types of each relation.
    relations: Vec<RelationEnds>,
    /// Whether a block includes the previous block ([`Expand::New`]), and so the edges of all layers so far.
    keeps: bool,
    /// Nodes, and edges of all blocks, of the mean batch of the estimate.
    mean: (usize, usize),
}

impl StaticShapes {
    /// Shapes for batches like `samples`: mean plus five standard deviations of each count, within `bounds`.
    ///
    /// # Panics
    /// If `samples` is empty.
    #[must_use]
    pub fn estimate(samples: &[BatchCounts], expand: Expand, bounds: &BatchBounds) -> Self {
        let keeps = expand == Expand::New;
        let (types, relations) = (bounds.types.len(), &bounds.relations);
        let drawn: Vec<Drawn> = samples.iter().map(|counts| Drawn::of(counts, relations, keeps)).collect();
        let likely = |count: &dyn Fn(&Drawn) -> usize, most: usize| {
            let most_likely = likely_most(drawn.iter().map(count));
            most_likely.min(most)
        };
        let likely_nodes = |at: usize, most: usize| match most {
            0 => 0,
            _ => (likely(&|drawn| drawn.nodes[at], most) + 1).next_multiple_of(MULTIPLE),
        };
        let mut nodes: Vec<usize> =
            bounds.types.iter().enumerate().map(|(of, size)| likely_nodes(of, size.seeds)).collect();
        let mut edges = Vec::new();
        for of_layer in bounds.blocks.chunks(relations.len().max(1)) {
            for of in 0..types {
                // The nodes that the hop may find, in the lists of all relations from the type.
                let lists = of_layer.iter().zip(relations).filter(|(_, ends)| ends.source.index() == of);
                let (sources, picks) = lists.fold((0, 0_usize), |(sources, picks), (bound, _)| {
                    (bound.sources.max(sources), picks.saturating_add(bound.edges))
                });
                nodes.push(likely_nodes(nodes.len(), sources.min(picks)));
            }
            for bound in of_layer {
                let at = edges.len();
                edges.push(likely(&|drawn| drawn.edges[at], bound.edges).next_multiple_of(MULTIPLE));
            }
        }
        let mean = |count: &dyn Fn(&BatchCounts) -> usize| {
            samples.iter().map(count).sum::<usize>().div_ceil(samples.len())
        };
        let mean = (mean(&BatchCounts::nodes), mean(&BatchCounts::edges));
        Self { nodes, edges, relations: relations.clone(), keeps, mean }
    }

    /// Seeds of a padded batch, of all types.
    #[must_use]
    pub fn seeds(&self) -> usize {
        self.nodes[..self.types()].iter().sum()
    }

    /// Nodes of all types of a padded batch, the seeds included.
    #[must_use]
    pub fn all_nodes(&self) -> usize {
        self.nodes.iter().sum()
    }

    /// Nodes of all types at each level of a padded batch, the seeds first.
    #[must_use]
    pub fn nodes(&self) -> Vec<usize> {
        self.nodes.chunks(self.types()).map(|level| level.iter().sum()).collect()
    }

    /// Nodes of a type at each level of a padded batch, the seeds first.
    ///
    /// # Panics
    /// If the type does not exist.
    #[must_use]
    pub fn nodes_of(&self, node_type: NodeType) -> Vec<usize> {
        self.nodes[node_type.index()..].iter().copied().step_by(self.types()).collect()
    }

    /// The block of a layer of the first relation in a padded batch.
    ///
    /// # Panics
    /// If the layer does not exist.
    #[must_use]
    pub fn layer(&self, layer: usize) -> BlockSize {
        self.block(layer, Relation::ONLY)
    }

    /// A block of a padded batch.
    ///
    /// # Panics
    /// If the layer or relation does not exist.
    #[must_use]
    pub fn block(&self, layer: usize, relation: Relation) -> BlockSize {
        let RelationEnds { source, destination } = self.relations[relation.index()];
        let first = if self.keeps { 0 } else { layer };
        BlockSize {
            destinations: self.before_level(layer + 1, destination),
            sources: self.before_level(layer + 2, source),
            edges: (first..=layer).map(|layer| self.edges_of(layer, relation)).sum(),
        }
    }

    /// The shares of padding among the nodes and the edges of a padded batch of mean size.
    #[must_use]
    pub fn waste(&self) -> (f64, f64) {
        let padded = self.counts();
        let share = |own: usize, all: usize| 1.0 - own.min(all) as f64 / all.max(1) as f64;
        (share(self.mean.0, padded.nodes()), share(self.mean.1, padded.edges()))
    }

    /// The shapes for the metrics: nodes of each level, edges of each block, and the shares of padding; of a typed graph
    /// nodes and edges also by type and relation.
    #[must_use]
    pub fn in_force(&self) -> Value {
        let (nodes, edges) = self.waste();
        let share = |value: f64| (value * 1e4).round() / 1e4;
        let layers = || 0..self.layers();
        let edges_of = |of| layers().map(|layer| self.block(layer, of).edges).collect::<Vec<_>>();
        let by_relation: Vec<Vec<usize>> = self.all_relations().map(edges_of).collect();
        let edges_of_layer = |layer: usize| by_relation.iter().map(|edges| edges[layer]).sum::<usize>();
        let mut made = json!({
            "nodes": self.nodes(),
            "edges": layers().map(edges_of_layer).collect::<Vec<_>>(),
            "waste": { "nodes": share(nodes), "edges": share(edges) },
        });
        if self.types() > 1 || by_relation.len() > 1 {
            made["nodes_by_type"] = self.all_types().map(|of| self.nodes_of(of)).collect();
            made["edges_by_relation"] = json!(by_relation);
        }
        made
    }

    /// Layers of a batch.
    #[must_use]
    pub fn layers(&self) -> usize {
        self.edges.len().checked_div(self.relations.len()).unwrap_or(0)
    }

    /// The number of node types.
    #[must_use]
    pub fn types(&self) -> usize {
        self.nodes.len() / (self.layers() + 1)
    }

    fn nodes_at(&self, level: usize, node_type: NodeType) -> usize {
        self.nodes[level * self.types() + node_type.index()]
    }

    /// Nodes of a type at all levels before this one.
    fn before_level(&self, level: usize, node_type: NodeType) -> usize {
        (0..level).map(|level| self.nodes_at(level, node_type)).sum()
    }

    fn edges_of(&self, layer: usize, relation: Relation) -> usize {
        self.edges[layer * self.relations.len() + relation.index()]
    }

    /// The last level up to this one that has nodes of a type, and so some of padding.
    fn last_level(&self, most: usize, node_type: NodeType) -> Option<usize> {
        (0..=most).rev().find(|level| self.nodes_at(*level, node_type) > 0)
    }

    /// The levels of the destinations and sources of padding edges of a relation that a layer samples.
    fn ends_of_padding(&self, layer: usize, relation: Relation) -> Option<(usize, usize)> {
        let RelationEnds { source, destination } = self.relations[relation.index()];
        let to = self.last_level(layer, destination)?;
        // A kept block has the destinations that it had, and a hop samples for those that were new.
        (to == layer || !self.keeps).then_some(())?;
        Some((to, self.last_level(layer + 1, source)?))
    }

    /// Extends the bounds to those of padded batches.
    pub(crate) fn extend(&self, bounds: &mut BatchBounds) {
        let counts = self.counts();
        for (bound, size) in bounds.types.iter_mut().zip(counts.types()) {
            bound.seeds = bound.seeds.max(size.seeds);
            bound.nodes = bound.nodes.max(size.nodes);
        }
        for (bound, size) in bounds.blocks.iter_mut().zip(counts.blocks()) {
            bound.destinations = bound.destinations.max(size.destinations);
            bound.sources = bound.sources.max(size.sources);
            bound.edges = bound.edges.max(size.edges);
        }
    }

    /// The padding of the batch of these counts; `None` if it does not fit.
    #[must_use]
    pub fn padding(&self, counts: &BatchCounts) -> Option<Padding<'_>> {
        if counts.layers() != self.layers() || counts.types().len() != self.types() || counts.seeds() == 0 {
            return None;
        }
        let drawn = Drawn::of(counts, &self.relations, self.keeps);
        let keeps_a_place = |(shape, drawn): (&usize, &usize)| drawn < shape || *shape == 0 && *drawn == 0;
        if !self.nodes.iter().zip(&drawn.nodes).all(keeps_a_place) {
            return None;
        }
        let padding = Padding { shapes: self, drawn };
        for layer in 0..self.layers() {
            for relation in self.all_relations() {
                let more =
                    self.edges_of(layer, relation).checked_sub(padding.edges_drawn(layer, relation))?;
                if more > 0 {
                    self.ends_of_padding(layer, relation)?;
                }
            }
        }
        Some(padding)
    }

    /// The counts of a padded batch.
    #[must_use]
    pub fn counts(&self) -> BatchCounts {
        let types = self.all_types().map(|of| TypeSize {
            seeds: self.nodes_at(0, of),
            nodes: self.before_level(self.layers() + 1, of),
        });
        let blocks = (0..self.layers())
            .flat_map(|layer| self.all_relations().map(move |relation| self.block(layer, relation)));
        BatchCounts::of_sizes(types, self.relations.len(), blocks)
    }

    fn all_types(&self) -> impl Iterator<Item = NodeType> + use<> {
        (0..self.types()).map(|of| NodeType(of as u16))
    }

    fn all_relations(&self) -> impl Iterator<Item = Relation> + use<> {
        (0..self.relations.len()).map(|relation| Relation(relation as u16))
    }
}

// As JSON, for messages of a run's set-up and for metrics.
uva_options::json_values!(StaticShapes);

/// The additions of each hop of a batch, arranged as in [`StaticShapes`]. Inline for a homogeneous graph.
#[derive(Debug)]
struct Drawn {
    nodes: SmallVec<[usize; MAX_LAYERS]>,
    edges: SmallVec<[usize; MAX_LAYERS]>,
}

impl Drawn {
    fn of(counts: &BatchCounts, relations: &[RelationEnds], keeps: bool) -> Self {
        let types = counts.types().len();
        let mut nodes: SmallVec<_> = counts.types().iter().map(|size| size.seeds).collect();
        let mut before = nodes.clone();
        let mut edges = SmallVec::new();
        for (at, block) in counts.blocks().iter().enumerate() {
            let relation = at % relations.len();
            if relation == 0 {
                nodes.resize(nodes.len() + types, 0);
            }
            let source = relations[relation].source.index();
            // All relations from a type have the same sources.
            let of_level = nodes.len() - types;
            nodes[of_level + source] += block.sources - before[source];
            before[source] = block.sources;
            let kept =
                if keeps && at >= relations.len() { counts.blocks()[at - relations.len()].edges } else { 0 };
            edges.push(block.edges - kept);
        }
        Self { nodes, edges }
    }
}

/// The padding of one batch.
#[derive(Debug)]
pub struct Padding<'s> {
    shapes: &'s StaticShapes,
    /// What the batch has, at most as much as the shapes.
    drawn: Drawn,
}

impl Padding<'_> {
    /// Number of levels, one more than layers.
    pub(crate) fn levels(&self) -> usize {
        self.shapes.layers() + 1
    }

    /// The node types of a relation.
    pub(crate) fn ends(&self, relation: Relation) -> RelationEnds {
        self.shapes.relations[relation.index()]
    }

    /// The batch's nodes of a type at a level.
    pub(crate) fn nodes(&self, level: usize, node_type: NodeType) -> usize {
        self.drawn.nodes[level * self.shapes.types() + node_type.index()]
    }

    /// Padding nodes after them: at least one, unless the level has none of the type.
    pub(crate) fn more_nodes(&self, level: usize, node_type: NodeType) -> usize {
        self.shapes.nodes_at(level, node_type) - self.nodes(level, node_type)
    }

    fn edges_drawn(&self, layer: usize, relation: Relation) -> usize {
        self.drawn.edges[layer * self.shapes.relations.len() + relation.index()]
    }

    /// Padding edges that a layer's block has to destinations of this level, and the level of their sources.
    pub(crate) fn edges_to(&self, layer: usize, level: usize, relation: Relation) -> (usize, usize) {
        let sampled = if self.shapes.keeps { level } else { layer };
        match self.shapes.ends_of_padding(sampled, relation) {
            Some((to, from)) if to == level && sampled <= layer => {
                (self.shapes.edges_of(sampled, relation) - self.edges_drawn(sampled, relation), from)
            }
            _ => (0, 0),
        }
    }
}

/// The smallest integer that is not below the mean plus [`DEVIATIONS`] standard deviations.
pub(crate) fn likely_most(counts: impl ExactSizeIterator<Item = usize> + Clone) -> usize {
    let length = counts.len() as f64;
    // Counts are below 2^31, and bytes below 2^47, so sums of some of them are exact.
    let mean = counts.clone().map(|count| count as f64).sum::<f64>() / length;
    let squares: f64 = counts.map(|count| (count as f64 - mean).powi(2)).sum();
    let deviation = if length > 1.0 { (squares / (length - 1.0)).sqrt() } else { 0.0 };
    (mean + DEVIATIONS * deviation).ceil() as usize
}

#[cfg(test)]
mod tests {
    use uva_options::OptionValue;

    use super::*;

    /// A batch of two hops with these numbers of new nodes and of edges.
    fn batch(seeds: usize, found: [usize; 2], edges: [usize; 2]) -> BatchCounts {
        let mut destinations = seeds;
        let blocks = found.into_iter().zip(edges).map(|(found, edges)| {
            let block = BlockSize { destinations, sources: destinations + found, edges };
            destinations = block.sources;
            block
        });
        BatchCounts::of_blocks(seeds, blocks)
    }

    fn bounds() -> BatchBounds {
        BatchBounds::new(10, [5, 5], 100_000, 100_000).unwrap()
    }

    #[test]
    fn shapes_are_mean_plus_five_deviations_with_padding_in_each_level() {
        let samples = [batch(10, [30, 100], [40, 150]), batch(10, [32, 100], [44, 150])];
        let shapes = StaticShapes::estimate(&samples, Expand::All, &bounds());
        // 31 + 5·√2 = 38.07, 42 + 5·2√2 = 56.1, the latter bounded by 10 seeds of 5 picks.
        assert_eq!(shapes.nodes, [16, 40, 104]);
        assert_eq!(shapes.edges, [56, 152]);
        assert_eq!(shapes.layer(1), BlockSize { destinations: 56, sources: 160, edges: 152 });
        assert_eq!(shapes.counts().nodes(), 160);
        let kept = StaticShapes::estimate(&samples, Expand::New, &bounds());
        // The second layer draws 110 and 106 edges: 108 + 5·2√2 = 122.1.
        assert_eq!((kept.edges.as_slice(), kept.layer(1).edges), (&[56, 128][..], 184));
    }

    #[test]
    fn a_batch_fits_while_each_level_keeps_a_place_for_padding() {
        let samples = [batch(10, [30, 100], [40, 150])];
        let shapes = StaticShapes::estimate(&samples, Expand::All, &bounds());
        assert_eq!(shapes.nodes, [16, 32, 104]);
        assert!(shapes.padding(&batch(15, [31, 103], [40, 152])).is_some());
        assert!(shapes.padding(&batch(16, [31, 103], [40, 152])).is_none(), "no place for a seed of padding");
        assert!(shapes.padding(&batch(15, [32, 103], [40, 152])).is_none(), "nor in level 1");
        assert!(shapes.padding(&batch(15, [31, 104], [40, 152])).is_none(), "nor in level 2");
        assert!(shapes.padding(&batch(15, [31, 103], [41, 152])).is_none(), "an edge too many");
        let mut bounds = bounds();
        shapes.extend(&mut bounds);
        assert_eq!((bounds.seeds(), bounds.blocks[0].destinations), (16, 16));
    }

    #[test]
    fn each_type_and_relation_has_its_shape_and_unreachable_ones_none() {
        let (paper, author) = (NodeType(0), NodeType(1));
        let ends = |source, destination| RelationEnds { source, destination };
        let relations = vec![ends(author, paper), ends(paper, author)];
        let block = |destinations, sources, edges| BlockSize { destinations, sources, edges };
        let size = |seeds, nodes| TypeSize { seeds, nodes };
        // Seeds are papers. The first hop finds authors, the second papers of theirs and further authors.
        let counts = |authors: usize, papers: usize, more: usize| {
            let blocks = [
                block(10, authors, 30),
                block(0, 10, 0),
                block(10, authors + more, 28),
                block(authors, 10 + papers, 2 * papers),
            ];
            BatchCounts::of_sizes([size(10, 10 + papers), size(0, authors + more)], 2, blocks)
        };
        let bounds = BatchBounds {
            types: vec![size(10, 1000), size(0, 1000)],
            blocks: vec![block(10, 40, 40), block(0, 10, 0), block(10, 80, 40), block(40, 1000, 400)],
            relations,
            edge_ids: false,
            weights: false,
            trees: false,
        };
        let shapes = StaticShapes::estimate(&[counts(20, 50, 0)], Expand::All, &bounds);
        assert_eq!(shapes.nodes_of(paper), [16, 0, 56]);
        assert_eq!(shapes.nodes_of(author), [0, 24, 8]);
        assert_eq!((shapes.nodes(), shapes.seeds(), shapes.all_nodes()), (vec![16, 24, 64], 16, 104));
        assert_eq!(shapes.block(0, Relation(0)), block(16, 24, 32));
        assert_eq!(shapes.block(0, Relation(1)), block(0, 16, 0));
        assert_eq!(shapes.block(1, Relation(0)), block(16, 32, 32));
        assert_eq!(shapes.block(1, Relation(1)), block(24, 72, 104));
        assert_eq!(StaticShapes::of_text(&shapes.text()), Some(shapes.clone()));
        let padding = shapes.padding(&counts(20, 50, 7)).unwrap();
        // The second hop reaches papers again, though the first found none: its padding is that of the seeds.
        assert_eq!(padding.edges_to(1, 0, Relation(0)), (4, 2));
        assert_eq!(
            (padding.edges_to(1, 1, Relation(0)), padding.edges_to(1, 1, Relation(1))),
            ((0, 0), (4, 2))
        );
        assert_eq!((padding.more_nodes(0, author), padding.more_nodes(2, author)), (0, 1));
        assert!(shapes.padding(&counts(20, 50, 8)).is_none(), "no place for an author of padding in level 2");
        assert!(shapes.padding(&counts(24, 50, 0)).is_none(), "nor in level 1");
        assert!(shapes.padding(&counts(20, 56, 0)).is_none(), "nor for a paper");
        assert!(shapes.padding(&counts(20, 53, 0)).is_none(), "an edge too many");
    }

    #[test]
    fn shapes_are_read_as_they_were_written() {
        let shapes = StaticShapes::estimate(&[batch(10, [30, 100], [40, 150])], Expand::New, &bounds());
        assert_eq!(StaticShapes::of_text(&shapes.text()), Some(shapes.clone()));
        assert_eq!(StaticShapes::of_json(&serde_json::json!({ "nodes": 3 })), None);
    }
}
