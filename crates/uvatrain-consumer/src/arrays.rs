//! A batch as the trainer takes it.

use uva_train::{
    BatchInput, BlockInput, DeviceBatch, DeviceBlock, DeviceEdgeRows, DeviceHopBatch, DeviceHopRows,
    DeviceProof, EdgeRows, HopBatch, HopRows,
};

use uva_cuda::DeviceSlice;
use uva_runtime::Batch;

/// The arrays of a batch, borrowed from its slot.
pub(crate) enum BatchArrays<'b> {
    /// In host memory: everything but the blocks, and the blocks.
    Host(BatchInput<'b>, Vec<BlockInput<'b>>),
    /// On the GPU, likewise.
    Device(DeviceBatch<'b>, Vec<DeviceBlock<'b>>),
    /// Rows of a hop set in host memory: everything but the tables, and the tables.
    Hops(HopBatch<'b>, Vec<&'b [u8]>),
    /// On the GPU, likewise.
    DeviceHops(DeviceHopBatch<'b>, Vec<DeviceSlice<'b>>),
}

impl<'b> BatchArrays<'b> {
    pub fn of(batch: &'b Batch) -> Self {
        let padding = batch.seed_count() - batch.real_seed_count();
        match batch.on_device() {
            None => Self::on_host(batch),
            Some(view) if batch.layout().is_of_hops() => {
                let tables = (0..batch.layout().tables()).map(|table| view.table(table)).collect();
                let input = DeviceHopBatch {
                    rows: DeviceHopRows::Tables(&[]),
                    element: view.element(),
                    seeds: batch.seed_count(),
                    dim: view.dim(),
                    padding,
                    labels: view.labels(),
                    proof: proof(batch),
                };
                Self::DeviceHops(input, tables)
            }
            Some(view) => {
                let blocks = (0..batch.layers())
                    .map(|layer| {
                        let counts = batch.counts(layer);
                        DeviceBlock {
                            destinations: counts.destinations,
                            sources: counts.sources,
                            edges: counts.edges,
                            indptr: view.indptr(layer),
                            indices: view.indices(layer),
                            weights: view.weights(layer),
                            edge_attr: view
                                .edge_attr(layer)
                                .zip(batch.layout().edge_attr())
                                .map(|(slice, (element, dim))| DeviceEdgeRows { slice, element, dim }),
                        }
                    })
                    .collect();
                let input = DeviceBatch {
                    features: view.features(),
                    aggregated: view.aggregated(),
                    element: view.element(),
                    rows: batch.node_count(),
                    dim: view.dim(),
                    padding,
                    labels: view.labels(),
                    degrees: view.degrees(),
                    blocks: &[],
                    proof: proof(batch),
                };
                Self::Device(input, blocks)
            }
        }
    }

    fn on_host(batch: &'b Batch) -> Self {
        if batch.layout().is_of_hops() {
            return Self::of_hops(batch);
        }
        let blocks = (0..batch.layers())
            .map(|layer| {
                let block = batch.block(layer);
                BlockInput {
                    destinations: block.destinations,
                    sources: block.sources,
                    indptr: block.indptr,
                    indices: block.indices,
                    weights: block.weights,
                    edge_attr: batch.edge_attr(layer).map(|table| EdgeRows {
                        bytes: table.bytes,
                        element: table.element,
                        rows: table.rows,
                        dim: table.dim,
                    }),
                }
            })
            .collect();
        let features = batch.features();
        let input = BatchInput {
            features: features.bytes,
            aggregated: batch.aggregated().map(|sums| sums.values()),
            element: features.element,
            rows: batch.node_count(),
            dim: features.dim,
            padding: batch.seed_count() - batch.real_seed_count(),
            labels: batch.labels(),
            degrees: batch.degrees(),
            blocks: &[],
        };
        Self::Host(input, blocks)
    }

    fn of_hops(batch: &'b Batch) -> Self {
        let features = batch.features();
        let tables = (0..batch.layout().tables()).map(|table| batch.table(table).bytes).collect();
        let input = HopBatch {
            rows: HopRows::Tables(&[]),
            element: features.element,
            seeds: batch.seed_count(),
            dim: features.dim,
            padding: 0,
            labels: batch.labels(),
        };
        Self::Hops(input, tables)
    }

    /// The trainer's input.
    pub fn input(&self) -> uva_train::Batch<'_> {
        match self {
            Self::Host(input, blocks) => uva_train::Batch::Host(BatchInput { blocks, ..*input }),
            Self::Device(input, blocks) => uva_train::Batch::Device(DeviceBatch { blocks, ..*input }),
            Self::Hops(input, tables) => {
                uva_train::Batch::Hops(HopBatch { rows: HopRows::Tables(tables), ..*input })
            }
            Self::DeviceHops(input, tables) => {
                let rows = DeviceHopRows::Tables(tables);
                uva_train::Batch::DeviceHops(DeviceHopBatch { rows, ..*input })
            }
        }
    }
}

/// What shows on the device that the batch is whole.
fn proof(batch: &Batch) -> Option<DeviceProof<'_>> {
    batch.proof().map(|proof| DeviceProof { words: proof.words, expected: proof.expected })
}
