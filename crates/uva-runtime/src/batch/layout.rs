//! Where each array of a batch lies in a slot.

use uva_graph::{Dataset, ElementType, Labels};
use uva_rows::HalfFloat;
use uva_sample::{BatchBounds, BatchMut, BlockMut, LayerBounds, MAX_LAYERS};

use super::BatchHeader;
use crate::backend::Backend;
use crate::spec::OptionError;
use crate::{LoaderOptions, RuntimeError};

const CACHE_LINE: usize = 64;
/// Feature rows start on a page, whatever pages the region has.
const PAGE: usize = 4096;
/// What a gather on a GPU reports of itself.
const REPORT_BYTES: usize = size_of::<uva_cuda::kernels::gather::GatherReport>();

/// The offsets and capacities of a slot: the same in every role, since all compute them from the same options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchLayout {
    bounds: BatchBounds,
    label_row_bytes: usize,
    /// Columns of a multi-label dataset.
    label_classes: Option<usize>,
    /// Of a row in a slot.
    row_bytes: usize,
    dim: usize,
    /// Of a value in a slot.
    element: ElementType,
    /// What the table has instead, where the producer widens.
    widened_from: Option<HalfFloat>,
    nodes_at: usize,
    labels_at: usize,
    /// Where the input nodes' in-degrees lie, if the options ask for them.
    degrees_at: Option<usize>,
    /// Offsets of each layer's indptr and indices.
    blocks_at: Vec<(usize, usize)>,
    /// Offsets of each layer's edge ids; empty unless the options ask for them.
    edge_ids_at: Vec<usize>,
    /// Offsets of each layer's weights; empty unless the kind of sampler weighs edges.
    weights_at: Vec<usize>,
    batch_bytes: usize,
    features_at: usize,
}

impl BatchLayout {
    /// The layout for batches of these options over this dataset.
    ///
    /// # Errors
    /// [`RuntimeError::Usage`] when no batch can have a bound, the slot bytes given hold not even one seed, or the table's
    /// values are not to be had as the options want them.
    pub fn new(dataset: &Dataset, options: &LoaderOptions) -> Result<Self, RuntimeError> {
        let (nodes, edges) = (dataset.nodes(), dataset.edges());
        let features = dataset.features();
        let widened_from = options.feature_type.widened_from(features.element)?;
        let element = if widened_from.is_some() { ElementType::F32 } else { features.element };
        let row_bytes = features.dim * element.bytes();
        let mut bounds = match options.slot_bytes {
            None => BatchBounds::for_options(&options.sampling(), options.batch_size, nodes, edges, None)?,
            Some(bytes) => {
                let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
                let sampling = options.sampling();
                let bounds =
                    BatchBounds::for_options(&sampling, options.batch_size, nodes, edges, Some(bytes))?;
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
            RuntimeError::from(OptionError::of(
                "slot_bytes",
                "a slot for the largest batch would not fit the address space: lower `batch_size` or `fanouts`, or \
                 give `slot_bytes`",
            ))
        };
        let mut end = BatchHeader::BYTES;
        let mut place = |bytes: Option<usize>| -> Option<usize> {
            let at = end;
            end = at.checked_add(bytes?)?.checked_next_multiple_of(CACHE_LINE)?;
            Some(at)
        };
        let nodes_at = place(bounds.nodes.checked_mul(8)).ok_or_else(overflow)?;
        let labels_at = place(bounds.seeds.checked_mul(label_row_bytes)).ok_or_else(overflow)?;
        let degrees_at = match options.degrees {
            true => Some(place(bounds.nodes.checked_mul(4)).ok_or_else(overflow)?),
            false => None,
        };
        let mut blocks_at = Vec::with_capacity(bounds.layers.len());
        for layer in &bounds.layers {
            let indptr_at = place((layer.destinations + 1).checked_mul(4)).ok_or_else(overflow)?;
            let indices_at = place(layer.edges.checked_mul(4)).ok_or_else(overflow)?;
            blocks_at.push((indptr_at, indices_at));
        }
        let mut edge_ids_at = Vec::new();
        if bounds.edge_ids {
            for layer in &bounds.layers {
                edge_ids_at.push(place(layer.edges.checked_mul(8)).ok_or_else(overflow)?);
            }
        }
        let mut weights_at = Vec::new();
        if bounds.weights {
            for layer in &bounds.layers {
                weights_at.push(place(layer.edges.checked_mul(4)).ok_or_else(overflow)?);
            }
        }
        let features_at = end.checked_next_multiple_of(PAGE).ok_or_else(overflow)?;
        bounds
            .nodes
            .checked_mul(row_bytes)
            .and_then(|bytes| bytes.checked_add(features_at))
            // Room to round up to whole pages behind the report of a slot on a GPU.
            .and_then(|bytes| bytes.checked_add(2 * PAGE))
            .ok_or_else(overflow)?;
        Ok(Self {
            label_row_bytes,
            label_classes,
            row_bytes,
            dim: features.dim,
            element,
            widened_from,
            nodes_at,
            labels_at,
            degrees_at,
            blocks_at,
            edge_ids_at,
            weights_at,
            batch_bytes: end,
            features_at,
            bounds,
        })
    }

    /// The bounds of what fits.
    pub(crate) fn bounds(&self) -> &BatchBounds {
        &self.bounds
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

    /// Where the gather's report lies in a slot on a GPU: behind the rows, on a cache line.
    pub(crate) fn report_at(&self) -> usize {
        self.feature_slot_bytes().next_multiple_of(CACHE_LINE)
    }

    /// Bytes of a feature slot on a GPU: the arrays at the same offsets as on the host, and the gather's report.
    pub fn device_slot_bytes(&self) -> usize {
        (self.report_at() + REPORT_BYTES).next_multiple_of(PAGE)
    }

    /// Bytes of one feature row in a slot.
    pub fn row_bytes(&self) -> usize {
        self.row_bytes
    }

    /// Elements of one feature row.
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// Bytes of one feature row in the table.
    pub(crate) fn table_row_bytes(&self) -> usize {
        self.widened_from.map_or(self.row_bytes, |_| self.dim * HalfFloat::BYTES)
    }

    /// The features' type in a slot.
    pub fn element(&self) -> ElementType {
        self.element
    }

    /// The features' type in the table, where that is another one and the producer widens it.
    pub(crate) fn widened_from(&self) -> Option<HalfFloat> {
        self.widened_from
    }

    /// Checks that rows can be had so with this backend: into slots on a GPU they go as they are.
    ///
    /// # Errors
    /// [`RuntimeError::Usage`] with what to do instead.
    pub(crate) fn check_backend(&self, backend: &Backend) -> Result<(), RuntimeError> {
        if self.widened_from.is_none() || backend.device_slots().is_none() {
            return Ok(());
        }
        Err(RuntimeError::option(
            "feature_type",
            "float32",
            "rows go to a GPU as the table has them, half the bytes over the link, and nothing there widens them yet. \
             Leave `feature_type` out, and convert on the GPU, as in batch.x.float()",
        ))
    }

    /// Lends a batch slot's arrays to `fill`: the labels' bytes, the degrees (empty unless asked for) and the
    /// sampler's.
    pub(crate) fn with_arrays<R>(
        &self,
        payload: &mut [u8],
        fill: impl FnOnce(&mut [u8], &mut [i32], &mut BatchMut<'_>) -> R,
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
        let degrees = match self.degrees_at {
            Some(at) => bytemuck::cast_slice_mut(take(at, self.bounds.nodes * 4)),
            None => &mut [],
        };
        let mut blocks: [BlockMut<'_>; MAX_LAYERS] = std::array::from_fn(|_| BlockMut::default());
        for ((block, bounds), (indptr_at, indices_at)) in
            blocks.iter_mut().zip(&self.bounds.layers).zip(&self.blocks_at)
        {
            block.indptr = bytemuck::cast_slice_mut(take(*indptr_at, (bounds.destinations + 1) * 4));
            block.indices = bytemuck::cast_slice_mut(take(*indices_at, bounds.edges * 4));
        }
        for ((block, bounds), at) in blocks.iter_mut().zip(&self.bounds.layers).zip(&self.edge_ids_at) {
            block.edge_ids = bytemuck::cast_slice_mut(take(*at, bounds.edges * 8));
        }
        for ((block, bounds), at) in blocks.iter_mut().zip(&self.bounds.layers).zip(&self.weights_at) {
            block.weights = bytemuck::cast_slice_mut(take(*at, bounds.edges * 4));
        }
        fill(labels, degrees, &mut BatchMut { nodes, layers: &mut blocks[..self.blocks_at.len()] })
    }

    /// The arrays of a batch with this header as ranges of the payload, without what is unused behind them.
    pub(crate) fn used(&self, header: &BatchHeader) -> impl Iterator<Item = std::ops::Range<usize>> {
        let head =
            [Some(self.nodes_range(header)), Some(self.labels_range(header)), self.degrees_range(header)];
        let header = *header;
        let blocks = (0..self.blocks_at.len())
            .flat_map(move |layer| [self.indptr_range(&header, layer), self.indices_range(&header, layer)]);
        let edge_ids =
            (0..self.edge_ids_at.len()).filter_map(move |layer| self.edge_ids_range(&header, layer));
        let weights = (0..self.weights_at.len()).filter_map(move |layer| self.weights_range(&header, layer));
        head.into_iter().flatten().chain(blocks).chain(edge_ids).chain(weights)
    }

    pub(crate) fn nodes_range(&self, header: &BatchHeader) -> std::ops::Range<usize> {
        self.nodes_at..self.nodes_at + header.nodes() * 8
    }

    pub(crate) fn labels_range(&self, header: &BatchHeader) -> std::ops::Range<usize> {
        self.labels_at..self.labels_at + header.seeds() * self.label_row_bytes
    }

    /// `None` where the options ask for no degrees.
    pub(crate) fn degrees_range(&self, header: &BatchHeader) -> Option<std::ops::Range<usize>> {
        self.degrees_at.map(|at| at..at + header.nodes() * 4)
    }

    pub(crate) fn indptr_range(&self, header: &BatchHeader, layer: usize) -> std::ops::Range<usize> {
        let at = self.blocks_at[layer].0;
        at..at + (header.layer(layer).destinations + 1) * 4
    }

    pub(crate) fn indices_range(&self, header: &BatchHeader, layer: usize) -> std::ops::Range<usize> {
        let at = self.blocks_at[layer].1;
        at..at + header.layer(layer).edges * 4
    }

    /// `None` where the options ask for no edge ids.
    pub(crate) fn edge_ids_range(
        &self,
        header: &BatchHeader,
        layer: usize,
    ) -> Option<std::ops::Range<usize>> {
        self.edge_ids_at.get(layer).map(|&at| at..at + header.layer(layer).edges * 8)
    }

    /// `None` where the kind of sampler weighs no edges.
    pub(crate) fn weights_range(&self, header: &BatchHeader, layer: usize) -> Option<std::ops::Range<usize>> {
        self.weights_at.get(layer).map(|&at| at..at + header.layer(layer).edges * 4)
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
        return Err(RuntimeError::option(
            "slot_bytes",
            bytes,
            format!(
                "it holds {rows} feature rows of {row_bytes} bytes, but a batch has {} seeds: raise it, or lower \
                 `batch_size`",
                bounds.seeds
            ),
        ));
    }
    bounds.nodes = bounds.nodes.min(rows);
    for layer in &mut bounds.layers {
        layer.sources = layer.sources.min(rows);
        layer.destinations = layer.destinations.min(rows);
    }
    Ok(bounds)
}

#[cfg(test)]
pub(crate) mod tests {
    use std::path::Path;

    use proptest::prelude::*;
    use uva_graph::Split;
    use uva_io::generate::{PowerLaw, power_law};
    use uva_sample::{BatchCounts, BatchKey, LayerCounts, SamplerKind};

    use super::*;

    /// 500 nodes with rows of 12 bytes.
    pub(crate) fn small_graph(directory: &Path) -> Dataset {
        let path = directory.join("graph");
        let options = PowerLaw {
            nodes: 500,
            average_degree: 6.0,
            feature_dim: 3,
            classes: 2,
            seed: 1,
            ..PowerLaw::default()
        };
        power_law(&path, &options, &|_| {}).expect("a graph");
        Dataset::open(&path).expect("a dataset")
    }

    /// The same with three labels a node.
    fn multi_label_graph(directory: &Path) -> Dataset {
        let path = small_graph(directory).path().to_owned();
        let head = "{'descr': '|u1', 'fortran_order': False, 'shape': (500, 3), }";
        let mut label = b"\x93NUMPY\x01\x00".to_vec();
        let padded = format!("{head:<117}\n");
        label.extend((padded.len() as u16).to_le_bytes());
        label.extend(padded.into_bytes());
        label.extend((0..1500).map(|value| (value % 2) as u8));
        std::fs::write(path.join("label.npy"), label).expect("labels");
        // It says two classes.
        std::fs::remove_file(path.join("meta.json")).expect("the generator's meta.json");
        Dataset::open(&path).expect("a dataset")
    }

    impl BatchLayout {
        /// Where each array's room ends, in the order of [`BatchLayout::used`].
        pub(crate) fn ends(&self) -> Vec<usize> {
            let labels = self.labels_at + self.bounds.seeds * self.label_row_bytes;
            let mut ends = vec![self.nodes_at + self.bounds.nodes * 8, labels];
            ends.extend(self.degrees_at.map(|at| at + self.bounds.nodes * 4));
            for (layer, (indptr, indices)) in self.bounds.layers.iter().zip(&self.blocks_at) {
                ends.extend([indptr + (layer.destinations + 1) * 4, indices + layer.edges * 4]);
            }
            for (layer, edge_ids) in self.bounds.layers.iter().zip(&self.edge_ids_at) {
                ends.push(edge_ids + layer.edges * 8);
            }
            for (layer, weights) in self.bounds.layers.iter().zip(&self.weights_at) {
                ends.push(weights + layer.edges * 4);
            }
            ends
        }
    }

    fn options(fanouts: &[i32], batch_size: usize, slot_bytes: Option<u64>) -> LoaderOptions {
        LoaderOptions { fanouts: fanouts.to_vec(), batch_size, slot_bytes, ..LoaderOptions::default() }
    }

    /// The header of a batch that fills its slot to the last element.
    fn full(layout: &BatchLayout) -> BatchHeader {
        let bounds = &layout.bounds;
        let mut counts = BatchCounts {
            seeds: bounds.seeds,
            nodes: bounds.nodes,
            layer_count: bounds.layers.len(),
            ..BatchCounts::default()
        };
        for (to, from) in counts.layers.iter_mut().zip(&bounds.layers) {
            *to = LayerCounts {
                destinations: from.destinations,
                sources: from.sources.min(bounds.nodes),
                edges: from.edges,
            };
        }
        BatchHeader::of_batch(BatchKey { split: Split::Train, epoch: 0, batch: 0 }, &counts)
    }

    #[test]
    fn what_is_written_through_the_arrays_is_read_back_whole_through_the_ranges() {
        for (multi_label, degrees, edge_ids, sampler_kind) in [
            (false, false, false, SamplerKind::NEIGHBOR),
            (true, false, false, SamplerKind::NEIGHBOR),
            (false, true, false, SamplerKind::LABOR),
            (false, false, true, SamplerKind::WEIGHTED),
            (false, false, false, SamplerKind::LADIES),
            (false, true, true, SamplerKind::FASTGCN),
            (false, false, false, SamplerKind::WALK),
        ] {
            let temp = tempfile::tempdir().unwrap();
            let dataset = if multi_label { multi_label_graph(temp.path()) } else { small_graph(temp.path()) };
            let options = LoaderOptions { degrees, edge_ids, sampler_kind, ..options(&[3, 2], 10, None) };
            let layout = BatchLayout::new(&dataset, &options).unwrap();
            assert_eq!(layout.label_classes(), multi_label.then_some(3));
            // A slot is page-aligned; so is this.
            let mut memory = vec![0_u64; layout.batch_bytes() / 8 + 512];
            let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut memory);
            let skip = bytes.as_ptr().align_offset(PAGE);
            let payload = &mut bytes[skip..skip + layout.batch_bytes()];

            // Every element of every array gets a value of its own: an overlap would show.
            let lengths = layout.with_arrays(payload, |labels, degrees, out| {
                (7..).zip(degrees.iter_mut()).for_each(|(value, degree)| *degree = value);
                (0..).zip(out.nodes.iter_mut()).for_each(|(value, node)| *node = value);
                (0..).zip(labels.iter_mut()).for_each(|(value, label): (usize, _)| *label = value as u8);
                for (layer, block) in out.layers.iter_mut().enumerate() {
                    let base = 1_000_000 * (layer as i32 + 1);
                    (base..).zip(block.indptr.iter_mut()).for_each(|(value, to)| *to = value);
                    (-base..).zip(block.indices.iter_mut()).for_each(|(value, to)| *to = value);
                    let base = 3 * i64::from(base);
                    (base..).zip(block.edge_ids.iter_mut()).for_each(|(value, to)| *to = value);
                    let weights = (base..).zip(block.weights.iter_mut());
                    weights.for_each(|(value, to)| *to = f32::from_bits(value as u32));
                }
                (out.nodes.len(), labels.len(), out.layers.len())
            });
            assert_eq!(lengths, (layout.node_capacity(), 10 * layout.label_row_bytes(), 2));
            full(&layout).write(payload);

            let header = BatchHeader::read(payload, &layout).unwrap();
            let nodes: &[i64] = bytemuck::cast_slice(&payload[layout.nodes_range(&header)]);
            assert!(nodes.iter().copied().eq(0..layout.node_capacity() as i64));
            let labels = &payload[layout.labels_range(&header)];
            assert!(labels.iter().copied().eq((0..10 * layout.label_row_bytes()).map(|value| value as u8)));
            assert_eq!(layout.degrees_range(&header).is_some(), degrees);
            if let Some(range) = layout.degrees_range(&header) {
                let read: &[i32] = bytemuck::cast_slice(&payload[range]);
                assert!(read.iter().copied().eq(7..7 + layout.node_capacity() as i32));
            }
            for (layer, bounds) in layout.layers().iter().enumerate() {
                let base = 1_000_000 * (layer as i32 + 1);
                let indptr: &[i32] = bytemuck::cast_slice(&payload[layout.indptr_range(&header, layer)]);
                assert!(indptr.iter().copied().eq(base..=base + bounds.destinations as i32));
                let indices: &[i32] = bytemuck::cast_slice(&payload[layout.indices_range(&header, layer)]);
                assert!(indices.iter().copied().eq(-base..-base + bounds.edges as i32));
                assert_eq!(layout.edge_ids_range(&header, layer).is_some(), edge_ids);
                if let Some(range) = layout.edge_ids_range(&header, layer) {
                    let (read, base) = (bytemuck::cast_slice::<_, i64>(&payload[range]), 3 * i64::from(base));
                    assert!(read.iter().copied().eq(base..base + bounds.edges as i64));
                }
                assert_eq!(layout.weights_range(&header, layer).is_some(), sampler_kind.weighs_edges());
                if let Some(range) = layout.weights_range(&header, layer) {
                    let (read, base) = (bytemuck::cast_slice::<_, u32>(&payload[range]), 3 * base as u32);
                    assert!(read.iter().copied().eq(base..base + bounds.edges as u32));
                }
            }
        }
    }

    #[test]
    fn slot_bytes_below_the_seeds_rows_are_refused_with_the_option() {
        let temp = tempfile::tempdir().unwrap();
        let dataset = small_graph(temp.path());
        let refused = limit_rows(BatchBounds::new(100, &[2], 500, 3000).unwrap(), 1000, 12).unwrap_err();
        assert!(refused.to_string().contains("--slot-bytes 1000 holds 83 feature rows"), "{refused}");
        let layout = BatchLayout::new(&dataset, &options(&[-1], 100, Some(6000))).unwrap();
        assert!(layout.node_capacity() <= 500 && layout.node_capacity() >= 100);
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn arrays_begin_on_cache_lines_and_do_not_overlap(
            fanouts in proptest::collection::vec(prop_oneof![Just(-1), 1..9], 1..5),
            batch_size in 1_usize..600,
            slot_bytes in 16_000_u64..100_000,
            degrees in any::<bool>(),
            edge_ids in any::<bool>(),
            sampler_kind in proptest::sample::select(&SamplerKind::ALL[..]),
        ) {
            // One dataset for all cases: only its sizes matter.
            static DATASET: std::sync::OnceLock<(tempfile::TempDir, Dataset)> = std::sync::OnceLock::new();
            let (_, dataset) = DATASET.get_or_init(|| {
                let temp = tempfile::tempdir().unwrap();
                let dataset = small_graph(temp.path());
                (temp, dataset)
            });
            let slots = options(&fanouts, batch_size, Some(slot_bytes));
            let options = LoaderOptions { degrees, edge_ids, sampler_kind, ..slots };
            let layout = BatchLayout::new(dataset, &options).unwrap();
            let header = full(&layout);
            let mut ranges: Vec<_> = layout.used(&header).collect();
            prop_assert_eq!(ranges.iter().map(|range| range.end).collect::<Vec<_>>(), layout.ends());
            ranges.push(layout.features_range(&header));
            let mut end = BatchHeader::BYTES;
            for range in ranges {
                prop_assert_eq!(range.start % CACHE_LINE, 0);
                prop_assert!(range.start >= end, "{:?} begins before {}", range, end);
                end = range.end;
            }
            prop_assert_eq!(end, layout.feature_slot_bytes());
            prop_assert!(layout.report_at() >= end && layout.report_at().is_multiple_of(CACHE_LINE));
            prop_assert!(layout.device_slot_bytes() >= layout.report_at() + REPORT_BYTES);
            prop_assert_eq!(layout.features_range(&header).start % PAGE, 0);
            prop_assert!(layout.features_range(&header).len() as u64 <= slot_bytes);
        }
    }
}
