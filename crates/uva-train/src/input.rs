//! A mini-batch as it lies in memory, and the checks it gets before libtorch sees it.

use crate::TrainError;
use crate::borrowed::Borrowed;
use tch::{Device, Kind, Tensor};
use uva_graph::{ElementType, Labels};

/// One hop of a batch: for each destination node the local ids of the neighbours that were picked.
#[derive(Clone, Copy, Debug)]
pub struct BlockInput<'a> {
    /// Number of destination nodes. They are the first of the source nodes.
    pub destinations: usize,
    /// Number of source nodes.
    pub sources: usize,
    /// `destinations + 1` offsets into `indices`, starting at 0.
    pub indptr: &'a [i32],
    /// Local source ids, each in `0..sources`.
    pub indices: &'a [i32],
    /// The weight of each edge: a destination's sum of weight times row estimates the mean over all its neighbours. If
    /// empty, the mean over its edges does.
    pub weights: &'a [f32],
    /// Features of the edges, a row each; `None` where the model takes none.
    pub edge_attr: Option<EdgeRows<'a>>,
}

/// Rows of the features of a block's edges.
#[derive(Clone, Copy, Debug)]
pub struct EdgeRows<'a> {
    /// One row an edge, in the order of `indices`, `dim` elements each in C order.
    pub bytes: &'a [u8],
    /// Type of an element. Anything but f32 is converted on the way.
    pub element: ElementType,
    /// How many rows.
    pub rows: usize,
    /// Features of an edge.
    pub dim: usize,
}

impl<'a> EdgeRows<'a> {
    /// As a tensor.
    pub(crate) fn borrowed(&self) -> Result<Borrowed<'a>, TrainError> {
        Borrowed::table(self.bytes, self.element, self.rows, self.dim)
    }
}

/// Refuses features of edges that are not what a model takes: `edge_dim` of each, or none where that is 0. `found` is
/// rows and columns of those of block `layer`, which has `edges` edges.
pub(crate) fn check_edge_rows(
    layer: usize,
    edges: usize,
    found: Option<(usize, usize)>,
    edge_dim: usize,
) -> Result<(), TrainError> {
    match found {
        _ if edge_dim == 0 => Ok(()),
        Some(shape) if shape == (edges, edge_dim) => Ok(()),
        Some((rows, dim)) => Err(TrainError::Input(format!(
            "block {layer}: {rows} rows of {dim} features of edges, where {edges} rows of {edge_dim} are needed"
        ))),
        None => {
            Err(TrainError::Input(format!("block {layer}: no features of edges for a model of {edge_dim}")))
        }
    }
}

/// One mini-batch, borrowed from a slot or from anywhere else.
#[derive(Clone, Copy, Debug)]
pub struct BatchInput<'a> {
    /// Feature rows of the input nodes, `rows` × `dim` elements in C order.
    pub features: &'a [u8],
    /// Sums that the first layer begins with, where they were made with the batch: a row of `dim` float32 a destination
    /// of the last block. `features` then has the rows of these destinations alone, or none for a model that reads none
    /// but the sums.
    pub aggregated: Option<&'a [f32]>,
    /// Type of a feature element. Anything but f32 is converted on the way.
    pub element: ElementType,
    /// Number of input nodes: the sources of the last block.
    pub rows: usize,
    /// Feature columns.
    pub dim: usize,
    /// How many of the seeds are padding: the last ones. They have no part in losses, counts and predictions.
    pub padding: usize,
    /// Labels of the seeds; −1 means none. A prediction does not read them.
    pub labels: Labels<'a>,
    /// In-degree of each input node in the whole graph. Only GCN reads it; other models take an empty slice.
    pub degrees: &'a [i32],
    /// The hops. `blocks[0]` is the one at the seeds, as in a slot; the model's first layer consumes the last.
    pub blocks: &'a [BlockInput<'a>],
}

/// Compares the sizes of a batch with each other and with the model's: `blocks` are (destinations, sources) of each
/// hop, above `rows` input nodes of `dim` columns; the model takes `layers` of them and `wanted_dim` columns.
pub(crate) fn check_shapes(
    blocks: &[(usize, usize)],
    rows: usize,
    (layers, dim, wanted_dim): (usize, usize, usize),
) -> Result<(), TrainError> {
    let refuse = |problem: String| Err(TrainError::Input(problem));
    if blocks.len() != layers {
        return refuse(format!("a batch of {} blocks for a model of {layers} layers", blocks.len()));
    }
    if dim != wanted_dim {
        return refuse(format!("a batch of {dim} feature columns for a model of {wanted_dim}"));
    }
    for (layer, &(destinations, sources)) in blocks.iter().enumerate() {
        if destinations > sources {
            return refuse(format!(
                "block {layer}: {destinations} destinations are more than the {sources} sources"
            ));
        }
        let below = blocks.get(layer + 1).map_or(rows, |next| next.0);
        if sources != below {
            return refuse(format!(
                "block {layer} has {sources} sources, and what is below it has {below} rows"
            ));
        }
    }
    Ok(())
}

/// Refuses more padding than there are seeds.
pub(crate) fn check_padding(padding: usize, seeds: usize) -> Result<(), TrainError> {
    if padding <= seeds {
        return Ok(());
    }
    Err(TrainError::Input(format!("{padding} of {seeds} seeds are padding")))
}

/// Refuses sums for a model that takes none, for the given reason, and for one that lacks its own rows.
pub(crate) fn check_sums(refused: Option<String>, lacks_own_rows: bool) -> Result<(), TrainError> {
    if let Some(reason) = refused {
        return Err(TrainError::Input(format!("a batch of sums for a model that takes none: {reason}")));
    }
    if lacks_own_rows {
        return Err(TrainError::Input("a batch of sums without the destinations' own rows".to_owned()));
    }
    Ok(())
}

impl<'a> BatchInput<'a> {
    /// Number of seeds: the destinations of the first block.
    pub(crate) fn seeds(&self) -> usize {
        self.blocks.first().map_or(0, |block| block.destinations)
    }

    /// Rows of `features`, where there are any.
    fn feature_count(&self) -> usize {
        match (self.aggregated, self.blocks.last()) {
            (Some(_), Some(block)) => block.destinations,
            _ => self.rows,
        }
    }

    /// Checks that the model takes sums, and that they are those of the last block. `own_rows` says whether it reads the
    /// destinations' rows besides; `refused` is why it takes none.
    pub(crate) fn check_sums(&self, own_rows: bool, refused: Option<String>) -> Result<(), TrainError> {
        let Some(sums) = self.aggregated else { return Ok(()) };
        let lacks_own_rows = own_rows && self.features.is_empty() && !sums.is_empty();
        check_sums(refused, lacks_own_rows)?;
        let destinations = self.blocks.last().map_or(0, |block| block.destinations);
        if destinations.checked_mul(self.dim) != Some(sums.len()) {
            return Err(TrainError::Input(format!(
                "{} numbers of sums of {destinations} rows of {}",
                sums.len(),
                self.dim
            )));
        }
        Ok(())
    }

    /// The sums, a row a destination of the last block, where they were made with the batch: all of them.
    pub(crate) fn sums(&self) -> Result<Option<(&'a BlockInput<'a>, Borrowed<'a>)>, TrainError> {
        let (Some(sums), Some(block)) = (self.aggregated, self.blocks.last()) else { return Ok(None) };
        let bytes = bytemuck::cast_slice(sums);
        Ok(Some((block, Borrowed::table(bytes, ElementType::F32, block.destinations, self.dim)?)))
    }

    /// The blocks whose sums are still to be made.
    pub(crate) fn listed(&self) -> &'a [BlockInput<'a>] {
        match (self.aggregated, self.blocks.split_last()) {
            (Some(_), Some((_, others))) => others,
            _ => self.blocks,
        }
    }

    /// Checks everything that libtorch would otherwise read out of bounds, or take for another batch. One pass over
    /// the edges, which costs a hundredth of aggregating them.
    pub(crate) fn check(
        &self,
        layers: usize,
        (dim, edge_dim): (usize, usize),
        needs_degrees: bool,
    ) -> Result<(), TrainError> {
        let refuse = |problem: String| Err(TrainError::Input(problem));
        let shapes: Vec<_> = self.blocks.iter().map(|b| (b.destinations, b.sources)).collect();
        check_shapes(&shapes, self.rows, (layers, self.dim, dim))?;
        check_padding(self.padding, self.seeds())?;
        for (layer, block) in self.blocks.iter().enumerate() {
            block.check().or_else(|problem| refuse(format!("block {layer}: {problem}")))?;
            let found = block.edge_attr.map(|rows| (rows.rows, rows.dim));
            check_edge_rows(layer, block.indices.len(), found, edge_dim)?;
        }
        if needs_degrees {
            if self.degrees.len() != self.rows {
                return refuse(format!("{} degrees for {} input nodes", self.degrees.len(), self.rows));
            }
            if let Some(position) = self.degrees.iter().position(|&degree| degree < 0) {
                return refuse(format!("degree {} at position {position}", self.degrees[position]));
            }
        }
        Ok(())
    }

    /// The feature rows as a tensor.
    pub(crate) fn feature_rows(&self) -> Result<Borrowed<'a>, TrainError> {
        if self.aggregated.is_some() && self.features.is_empty() {
            // No bytes begin nowhere in particular.
            let none = Tensor::f_zeros([0, self.dim as i64], (Kind::Float, Device::Cpu))?;
            return Ok(Borrowed::owned(none));
        }
        Borrowed::table(self.features, self.element, self.feature_count(), self.dim)
    }
}

impl BlockInput<'_> {
    fn check(&self) -> Result<(), String> {
        let Self { destinations, sources, indptr, indices, weights, .. } = *self;
        debug_assert!(destinations <= sources, "compared by check_shapes");
        if indptr.len() != destinations + 1 {
            return Err(format!("{} offsets for {destinations} destinations", indptr.len()));
        }
        if indptr[0] != 0 || indptr[destinations] as usize != indices.len() {
            return Err(format!(
                "offsets from {} to {} for {} edges",
                indptr[0],
                indptr[destinations],
                indices.len()
            ));
        }
        if let Some(v) = indptr.windows(2).position(|pair| pair[0] > pair[1]) {
            return Err(format!(
                "the offset falls from {} to {} at destination {v}",
                indptr[v],
                indptr[v + 1]
            ));
        }
        if !weights.is_empty() && weights.len() != indices.len() {
            return Err(format!("{} weights for {} edges", weights.len(), indices.len()));
        }
        // A negative id is a huge one as u32. Branch-free, so that it runs at the speed of memory.
        let bad = indices.iter().fold(false, |bad, &source| bad | (source as u32 as usize >= sources));
        if bad {
            let edge = indices.iter().position(|&source| source as u32 as usize >= sources).unwrap_or(0);
            return Err(format!("source {} at edge {edge} is not below {sources}", indices[edge]));
        }
        Ok(())
    }
}
