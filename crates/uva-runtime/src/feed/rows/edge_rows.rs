//! The feature rows of a batch's edges, gathered by the sampler's places.

use std::ops::Range;
use std::sync::Arc;

use uva_batch::{BatchHeader, BatchLayout, Column};
use uva_cuda::memory::TableBytes;
use uva_graph::Dataset;
use uva_rows::{GatherError, HostPlace, MappedTable, RowSource};

use crate::RuntimeError;

/// The bytes of edge_feat.npy, while the dataset is mapped.
struct EdgeFeatureBytes(Arc<Dataset>);

impl TableBytes for EdgeFeatureBytes {
    fn bytes(&self) -> &[u8] {
        self.0.edge_features().map_or(&[], |table| table.bytes)
    }
}

/// A source of these rows. The CPU reads the mapped table, even if the batch is on a GPU.
pub(crate) struct EdgeRowSource {
    source: MappedTable<'static>,
}

impl EdgeRowSource {
    /// Creates the source for batches of this layout; `None` if they have no such rows. `threads` copy.
    pub fn new(
        dataset: &Arc<Dataset>,
        layout: &BatchLayout,
        threads: usize,
    ) -> Result<Option<Self>, RuntimeError> {
        let Some((element, dim)) = layout.edge_attr() else { return Ok(None) };
        let table = Arc::new(EdgeFeatureBytes(Arc::clone(dataset)));
        let source = MappedTable::owned(table, element.bytes() * dim, threads).map_err(failed)?;
        Ok(Some(Self { source }))
    }

    /// The bytes of a slot for each layer's rows in the batch of this header.
    pub fn ranges(layout: &BatchLayout, header: &BatchHeader) -> impl Iterator<Item = Range<usize>> {
        (0..layout.layers()).map(|layer| layout.range(header, Column::EdgeAttr.at(layer)))
    }

    /// Gathers a layer's rows into `out`, which is as long as its range. `from` is the batch slot's payload.
    pub fn fill(
        &mut self,
        layout: &BatchLayout,
        header: &BatchHeader,
        layer: usize,
        from: &[u8],
        place: HostPlace<'_>,
    ) -> Result<(), RuntimeError> {
        let edges: &[i64] = bytemuck::cast_slice(&from[layout.range(header, Column::EdgeIds.at(layer))]);
        self.source.fill(edges, place).map(drop).map_err(failed)
    }
}

fn failed(error: GatherError) -> RuntimeError {
    RuntimeError::failed(format!("edge_feat.npy: {error}"))
}
