//! The static shapes that a run's batches are padded to.

use serde::{Deserialize, Serialize};
use uva_sample::{BatchBounds, BatchCounts, BlockSize, Expand, MAX_LAYERS};

/// Standard deviations above the mean, the same as in NVIDIA's MLPerf entry for R-GAT.
const DEVIATIONS: f64 = 5.0;

/// The factor of all counts, so that the rows of every level begin on a multiple too.
const MULTIPLE: usize = 8;

/// The sizes that batches are padded to, by level.
///
/// Level 0 has the seeds, level `k` the nodes that hop `k` found. Each level keeps at least one place for padding, so
/// edges of padding never lead to a node of the batch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StaticShapes {
    /// Nodes of each level: one more level than there are layers.
    nodes: Vec<usize>,
    /// Edges that each layer samples.
    edges: Vec<usize>,
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
        let drawn: Vec<Drawn> = samples.iter().map(|counts| Drawn::of(counts, keeps)).collect();
        let likely = |count: &dyn Fn(&Drawn) -> usize, most: usize| {
            let most_likely = likely_most(drawn.iter().map(count));
            most_likely.min(most)
        };
        let mut nodes = vec![likely(&|drawn| drawn.nodes[0], bounds.seeds())];
        let mut edges = Vec::new();
        for (layer, bound) in bounds.blocks.iter().enumerate() {
            nodes.push(likely(&|drawn| drawn.nodes[layer + 1], bound.sources.min(bound.edges)));
            edges.push(likely(&|drawn| drawn.edges[layer], bound.edges).next_multiple_of(MULTIPLE));
        }
        nodes.iter_mut().for_each(|count| *count = (*count + 1).next_multiple_of(MULTIPLE));
        let mean = |count: &dyn Fn(&BatchCounts) -> usize| {
            samples.iter().map(count).sum::<usize>().div_ceil(samples.len())
        };
        let mean = (mean(&BatchCounts::nodes), mean(&BatchCounts::edges));
        Self { nodes, edges, keeps, mean }
    }

    /// Seeds of a padded batch.
    #[must_use]
    pub fn seeds(&self) -> usize {
        self.nodes[0]
    }

    /// Nodes of a padded batch, the seeds included.
    #[must_use]
    pub fn all_nodes(&self) -> usize {
        self.nodes.iter().sum()
    }

    /// Nodes of each level of a padded batch, the seeds first.
    #[must_use]
    pub fn nodes(&self) -> &[usize] {
        &self.nodes
    }

    /// The block of a layer of a padded batch.
    ///
    /// # Panics
    /// If the layer does not exist.
    #[must_use]
    pub fn layer(&self, layer: usize) -> BlockSize {
        let destinations = self.nodes[..=layer].iter().sum();
        let first = if self.keeps { 0 } else { layer };
        BlockSize {
            destinations,
            sources: destinations + self.nodes[layer + 1],
            edges: self.edges[first..=layer].iter().sum(),
        }
    }

    /// The shares of padding among the nodes and the edges of a padded batch of mean size.
    #[must_use]
    pub fn waste(&self) -> (f64, f64) {
        let padded = self.counts();
        let share = |own: usize, all: usize| 1.0 - own.min(all) as f64 / all.max(1) as f64;
        (share(self.mean.0, padded.nodes()), share(self.mean.1, padded.edges()))
    }

    /// Layers of a batch.
    #[must_use]
    pub fn layers(&self) -> usize {
        self.edges.len()
    }

    /// Extends the bounds to those of padded batches.
    pub(crate) fn extend(&self, bounds: &mut BatchBounds) {
        let size = &mut bounds.types[0];
        size.seeds = size.seeds.max(self.seeds());
        size.nodes = size.nodes.max(self.all_nodes());
        for (layer, bound) in bounds.blocks.iter_mut().enumerate() {
            let BlockSize { destinations, sources, edges } = self.layer(layer);
            bound.destinations = bound.destinations.max(destinations);
            bound.sources = bound.sources.max(sources);
            bound.edges = bound.edges.max(edges);
        }
    }

    /// The padding of the batch of these counts; `None` if it does not fit.
    #[must_use]
    pub fn padding(&self, counts: &BatchCounts) -> Option<Padding> {
        let drawn = Drawn::of(counts, self.keeps);
        let (layers, levels) = (self.layers(), self.nodes.len());
        if counts.layers() != layers || counts.seeds() == 0 {
            return None;
        }
        let mut padding = Padding { levels, nodes: drawn.nodes, ..Padding::NONE };
        for (level, shape) in self.nodes.iter().enumerate() {
            padding.more_nodes[level] = shape.checked_sub(drawn.nodes[level]).filter(|more| *more > 0)?;
        }
        for (layer, shape) in self.edges.iter().enumerate() {
            padding.more_edges[layer] = shape.checked_sub(drawn.edges[layer])?;
        }
        padding.keeps = self.keeps;
        Some(padding)
    }

    /// The counts of a padded batch.
    #[must_use]
    pub fn counts(&self) -> BatchCounts {
        BatchCounts::of_blocks(self.seeds(), (0..self.layers()).map(|layer| self.layer(layer)))
    }
}

// As JSON, for messages of a run's set-up and for metrics.
uva_options::json_values!(StaticShapes);

/// The additions of each hop of a batch.
struct Drawn {
    nodes: [usize; MAX_LAYERS + 1],
    edges: [usize; MAX_LAYERS],
}

impl Drawn {
    fn of(counts: &BatchCounts, keeps: bool) -> Self {
        let mut drawn = Self { nodes: [0; MAX_LAYERS + 1], edges: [0; MAX_LAYERS] };
        drawn.nodes[0] = counts.seeds();
        let mut kept = 0;
        for (layer, of_layer) in counts.blocks().iter().enumerate() {
            drawn.nodes[layer + 1] = of_layer.sources - of_layer.destinations;
            drawn.edges[layer] = of_layer.edges - kept;
            kept = if keeps { of_layer.edges } else { 0 };
        }
        drawn
    }
}

/// The padding of one batch.
#[derive(Clone, Copy, Debug)]
pub struct Padding {
    /// Number of levels, one more than layers.
    pub(crate) levels: usize,
    /// Nodes of the batch at each level.
    pub(crate) nodes: [usize; MAX_LAYERS + 1],
    /// Padding nodes after them, at least one.
    pub(crate) more_nodes: [usize; MAX_LAYERS + 1],
    /// Padding edges that each layer adds, all to destinations of that level.
    pub(crate) more_edges: [usize; MAX_LAYERS],
    /// Whether a block also has the edges of the previous layers.
    pub(crate) keeps: bool,
}

impl Padding {
    const NONE: Self = Self {
        levels: 0,
        nodes: [0; MAX_LAYERS + 1],
        more_nodes: [0; MAX_LAYERS + 1],
        more_edges: [0; MAX_LAYERS],
        keeps: false,
    };

    /// Padding edges of a layer's block to destinations of this level.
    pub(crate) fn edges_to(&self, layer: usize, level: usize) -> usize {
        if level == layer || (self.keeps && level < layer) { self.more_edges[level] } else { 0 }
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
        assert_eq!(shapes.nodes(), [16, 40, 104]);
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
        assert_eq!(shapes.nodes(), [16, 32, 104]);
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
    fn shapes_are_read_as_they_were_written() {
        let shapes = StaticShapes::estimate(&[batch(10, [30, 100], [40, 150])], Expand::New, &bounds());
        assert_eq!(StaticShapes::of_text(&shapes.text()), Some(shapes.clone()));
        assert_eq!(StaticShapes::of_json(&serde_json::json!({ "nodes": 3 })), None);
    }
}
