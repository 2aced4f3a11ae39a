//! A mini-batch as it lies in the memory of a CUDA device.

use crate::TrainError;
use crate::input::{check_edge_rows, check_padding, check_shapes, check_sums};
use uva_cuda::DeviceSlice;
use uva_graph::ElementType;

/// One hop of a batch on a device. Numbers are i32, as in [`crate::BlockInput`].
#[derive(Clone, Copy, Debug)]
pub struct DeviceBlock<'a> {
    /// Number of destination nodes. They are the first of the source nodes.
    pub destinations: usize,
    /// Number of source nodes.
    pub sources: usize,
    /// Number of edges.
    pub edges: usize,
    /// `destinations + 1` offsets into `indices`, from 0 to `edges`, none below the one before.
    pub indptr: DeviceSlice<'a>,
    /// `edges` local source ids, each in `0..sources`.
    pub indices: DeviceSlice<'a>,
    /// The weight of each edge, f32, as in [`crate::BlockInput`]; `None` where it is the mean over the edges that
    /// counts.
    pub weights: Option<DeviceSlice<'a>>,
    /// Features of the edges; `None` where the model takes none.
    pub edge_attr: Option<DeviceEdgeRows<'a>>,
}

/// As [`crate::EdgeRows`], on a device.
#[derive(Clone, Copy, Debug)]
pub struct DeviceEdgeRows<'a> {
    /// One row an edge.
    pub slice: DeviceSlice<'a>,
    /// Type of an element.
    pub element: ElementType,
    /// Features of an edge.
    pub dim: usize,
}

/// What shows on the device that a batch was whole when it was used: words beside it, and their values. The writer of
/// the batch writes them last.
#[derive(Clone, Copy, Debug)]
pub struct DeviceProof<'a> {
    /// The words, i64.
    pub words: DeviceSlice<'a>,
    /// Places among the words, and the value of each beside a whole batch.
    pub expected: [(usize, i64); 2],
}

/// One mini-batch on the trainer's device, borrowed from a slot or from anywhere else. The host knows the counts; only
/// the device knows the contents.
///
/// All reads of it are enqueued on libtorch's current stream of the thread that calls the trainer
/// ([`crate::cuda::TorchCuda::current_stream`]). The caller orders them. Before the call, it makes this stream wait for
/// an event behind the writes. After the call, it records an event on the stream, and the next writes wait for it.
///
/// Invalid contents cannot do harm: an offset, a source or a label out of range is clamped into the range. So a batch
/// that a dying peer left half-written gives a wrong loss and no fault, and the trainer's `confirm`, or its `proof`, can
/// still refuse it. Batches are validated where they are made.
#[derive(Clone, Copy, Debug)]
pub struct DeviceBatch<'a> {
    /// Feature rows of the input nodes, `rows` × `dim` elements in C order. `None` only beside sums, for a model that
    /// reads none but these.
    pub features: Option<DeviceSlice<'a>>,
    /// As in [`crate::BatchInput`]: float32, and `features` then has the rows of the last block's destinations alone.
    pub aggregated: Option<DeviceSlice<'a>>,
    /// Type of a feature element. Anything but f32 is converted on the way.
    pub element: ElementType,
    /// Number of input nodes: the sources of the last block.
    pub rows: usize,
    /// Feature columns.
    pub dim: usize,
    /// As in [`crate::BatchInput`].
    pub padding: usize,
    /// Labels of the seeds: i64, −1 meaning none; or of a multi-label task u8 zeros and ones, of regression f32, a row a
    /// seed. A prediction does not read them.
    pub labels: Option<DeviceSlice<'a>>,
    /// In-degree of each input node in the whole graph, i32. Only GCN reads it, and cannot do without.
    pub degrees: Option<DeviceSlice<'a>>,
    /// The hops. `blocks[0]` is the one at the seeds, as in a slot; the model's first layer consumes the last.
    pub blocks: &'a [DeviceBlock<'a>],
    /// Read by [`crate::Trainer::enqueue_batch`]; `None` for memory that cannot be taken away.
    pub proof: Option<DeviceProof<'a>>,
}

impl<'a> DeviceBatch<'a> {
    /// Number of seeds: the destinations of the first block.
    pub(crate) fn seeds(&self) -> usize {
        self.blocks.first().map_or(0, |block| block.destinations)
    }

    /// Checks what the host knows: that the counts fit each other and the model. The sizes of the slices are compared
    /// with the counts where they are wrapped.
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
            let DeviceBlock { destinations, sources, edges, .. } = *block;
            if edges > 0 && destinations == 0 {
                return refuse(format!("block {layer}: {edges} edges without a destination"));
            }
            check_edge_rows(layer, edges, block.edge_attr.map(|rows| (edges, rows.dim)), edge_dim)?;
            // libtorch is given both as i32.
            if let Some(count) = [sources, edges].into_iter().find(|&count| i32::try_from(count).is_err()) {
                return refuse(format!(
                    "block {layer}: {count} sources or edges are more than i32 can count"
                ));
            }
        }
        if needs_degrees && self.degrees.is_none() {
            return refuse("a batch without degrees for a model that weights by them".to_owned());
        }
        if self.features.is_none() && self.aggregated.is_none() {
            return refuse("a batch without feature rows".to_owned());
        }
        Ok(())
    }

    /// As [`crate::BatchInput::check_sums`].
    pub(crate) fn check_sums(&self, own_rows: bool, refused: Option<String>) -> Result<(), TrainError> {
        if self.aggregated.is_none() {
            return Ok(());
        }
        check_sums(refused, own_rows && self.features.is_none())
    }

    /// Rows of `features`, where there are any.
    pub(crate) fn feature_count(&self) -> usize {
        match (self.aggregated, self.blocks.last()) {
            (Some(_), Some(block)) => block.destinations,
            _ => self.rows,
        }
    }

    /// The blocks whose sums are still to be made.
    pub(crate) fn listed(&self) -> &'a [DeviceBlock<'a>] {
        match (self.aggregated, self.blocks.split_last()) {
            (Some(_), Some((_, others))) => others,
            _ => self.blocks,
        }
    }
}
