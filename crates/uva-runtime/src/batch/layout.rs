//! Where each array of a batch lies in a slot.

use uva_graph::{Dataset, ElementType, Labels};
use uva_sample::{BatchBounds, BatchMut, BlockMut, LayerBounds, MAX_LAYERS};

use super::BatchHeader;
use crate::{LoaderOptions, RuntimeError};

const CACHE_LINE: usize = 64;
/// Feature rows start on a page, whatever pages the region has.
const PAGE: usize = 4096;

/// The offsets and capacities of a slot: the same in every role, since all compute them from the same options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchLayout {
    bounds: BatchBounds,
    label_row_bytes: usize,
    /// Columns of a multi-label dataset.
    label_classes: Option<usize>,
    row_bytes: usize,
    dim: usize,
    element: ElementType,
    nodes_at: usize,
    labels_at: usize,
    /// Offsets of each layer's indptr and indices.
    blocks_at: Vec<(usize, usize)>,
    batch_bytes: usize,
    features_at: usize,
}

impl BatchLayout {
    /// The layout for batches of these options over this dataset.
    ///
    /// # Errors
    /// [`RuntimeError::Usage`] when no batch can have a bound, or the slot bytes given hold not even one seed.
    pub fn new(dataset: &Dataset, options: &LoaderOptions) -> Result<Self, RuntimeError> {
        let (nodes, edges) = (dataset.nodes(), dataset.edges());
        let features = dataset.features();
        let row_bytes = features.row_bytes();
        let mut bounds = match options.slot_bytes {
            None => BatchBounds::new(options.batch_size, &options.fanouts, nodes, edges)?,
            Some(bytes) => {
                let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
                let bounds = BatchBounds::within(bytes, options.batch_size, &options.fanouts, nodes, edges)?;
                limit_rows(bounds, bytes, row_bytes)?
            }
        };
        bounds.nodes = bounds.nodes.max(bounds.seeds);
        let label_row_bytes = dataset.labels().row_bytes();
        let label_classes = match dataset.labels() {
            Labels::Single(_) => None,
            Labels::Multi { classes, .. } => Some(classes),
        };
        let overflow = || {
            RuntimeError::Usage(
                "a slot for the largest batch would not fit the address space: lower --batch-size or --fanouts, or \
                 give --slot-bytes"
                    .into(),
            )
        };
        let mut end = BatchHeader::BYTES;
        let mut place = |bytes: Option<usize>| -> Option<usize> {
            let at = end;
            end = at.checked_add(bytes?)?.checked_next_multiple_of(CACHE_LINE)?;
            Some(at)
        };
        let nodes_at = place(bounds.nodes.checked_mul(8)).ok_or_else(overflow)?;
        let labels_at = place(bounds.seeds.checked_mul(label_row_bytes)).ok_or_else(overflow)?;
        let mut blocks_at = Vec::with_capacity(bounds.layers.len());
        for layer in &bounds.layers {
            let indptr_at = place((layer.destinations + 1).checked_mul(4)).ok_or_else(overflow)?;
            let indices_at = place(layer.edges.checked_mul(4)).ok_or_else(overflow)?;
            blocks_at.push((indptr_at, indices_at));
        }
        let features_at = end.checked_next_multiple_of(PAGE).ok_or_else(overflow)?;
        bounds
            .nodes
            .checked_mul(row_bytes)
            .and_then(|bytes| bytes.checked_add(features_at))
            .ok_or_else(overflow)?;
        Ok(Self {
            label_row_bytes,
            label_classes,
            row_bytes,
            dim: features.dim,
            element: features.element,
            nodes_at,
            labels_at,
            blocks_at,
            batch_bytes: end,
            features_at,
            bounds,
        })
    }

    /// Seeds that fit.
    pub fn seed_capacity(&self) -> usize {
        self.bounds.seeds
    }

    /// Nodes that fit, and so feature rows.
    pub fn node_capacity(&self) -> usize {
        self.bounds.nodes
    }

    /// What fits into each layer's block.
    pub fn layers(&self) -> &[LayerBounds] {
        &self.bounds.layers
    }

    /// Bytes of a batch slot's payload.
    pub fn batch_bytes(&self) -> usize {
        self.batch_bytes
    }

    /// Bytes of a feature slot's payload.
    pub fn feature_slot_bytes(&self) -> usize {
        self.features_at + self.bounds.nodes * self.row_bytes
    }

    /// Bytes of one feature row.
    pub fn row_bytes(&self) -> usize {
        self.row_bytes
    }

    /// Elements of one feature row.
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// The features' type.
    pub fn element(&self) -> ElementType {
        self.element
    }

    /// Lends a batch slot's arrays to `fill`: the labels' bytes and the sampler's.
    pub(crate) fn with_arrays<R>(
        &self,
        payload: &mut [u8],
        fill: impl FnOnce(&mut [u8], &mut BatchMut<'_>) -> R,
    ) -> R {
        let mut rest = &mut payload[self.nodes_at..self.batch_bytes];
        let mut taken = self.nodes_at;
        // Arrays lie one behind the other: each takes its bytes off the front of what is left.
        let mut take = |at: usize, bytes: usize| -> &mut [u8] {
            let (_, from) = std::mem::take(&mut rest).split_at_mut(at - taken);
            let (array, behind) = from.split_at_mut(bytes);
            rest = behind;
            taken = at + bytes;
            array
        };
        // Casts hold: slots are page-aligned, every offset is a multiple of 64, every length one of the element's.
        let nodes = bytemuck::cast_slice_mut(take(self.nodes_at, self.bounds.nodes * 8));
        let labels = take(self.labels_at, self.bounds.seeds * self.label_row_bytes);
        let mut blocks: [BlockMut<'_>; MAX_LAYERS] = std::array::from_fn(|_| BlockMut::default());
        for ((block, bounds), (indptr_at, indices_at)) in
            blocks.iter_mut().zip(&self.bounds.layers).zip(&self.blocks_at)
        {
            block.indptr = bytemuck::cast_slice_mut(take(*indptr_at, (bounds.destinations + 1) * 4));
            block.indices = bytemuck::cast_slice_mut(take(*indices_at, bounds.edges * 4));
        }
        fill(labels, &mut BatchMut { nodes, layers: &mut blocks[..self.blocks_at.len()] })
    }

    /// The arrays of a batch with this header as ranges of the payload, without what is unused behind them.
    pub(crate) fn used(&self, header: &BatchHeader) -> impl Iterator<Item = std::ops::Range<usize>> {
        let head = [self.nodes_range(header), self.labels_range(header)];
        let header = *header;
        let blocks = (0..self.blocks_at.len())
            .flat_map(move |layer| [self.indptr_range(&header, layer), self.indices_range(&header, layer)]);
        head.into_iter().chain(blocks)
    }

    pub(crate) fn nodes_range(&self, header: &BatchHeader) -> std::ops::Range<usize> {
        self.nodes_at..self.nodes_at + header.nodes() * 8
    }

    pub(crate) fn labels_range(&self, header: &BatchHeader) -> std::ops::Range<usize> {
        self.labels_at..self.labels_at + header.seeds() * self.label_row_bytes
    }

    pub(crate) fn indptr_range(&self, header: &BatchHeader, layer: usize) -> std::ops::Range<usize> {
        let at = self.blocks_at[layer].0;
        at..at + (header.layer(layer).destinations + 1) * 4
    }

    pub(crate) fn indices_range(&self, header: &BatchHeader, layer: usize) -> std::ops::Range<usize> {
        let at = self.blocks_at[layer].1;
        at..at + header.layer(layer).edges * 4
    }

    pub(crate) fn features_range(&self, header: &BatchHeader) -> std::ops::Range<usize> {
        self.features_at..self.features_at + header.nodes() * self.row_bytes
    }

    pub(crate) fn label_classes(&self) -> Option<usize> {
        self.label_classes
    }

    pub(crate) fn label_row_bytes(&self) -> usize {
        self.label_row_bytes
    }
}

/// Bounds a slot's feature rows by the bytes given, besides its ids.
fn limit_rows(mut bounds: BatchBounds, bytes: usize, row_bytes: usize) -> Result<BatchBounds, RuntimeError> {
    let rows = bytes / row_bytes.max(1);
    if rows < bounds.seeds {
        return Err(RuntimeError::Usage(format!(
            "--slot-bytes {bytes} holds {rows} feature rows of {row_bytes} bytes, but a batch has {} seeds: raise it, \
             or lower --batch-size",
            bounds.seeds
        )));
    }
    bounds.nodes = bounds.nodes.min(rows);
    for layer in &mut bounds.layers {
        layer.sources = layer.sources.min(rows);
        layer.destinations = layer.destinations.min(rows);
    }
    Ok(bounds)
}
