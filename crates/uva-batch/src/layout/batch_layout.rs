//! The offset of each column of a batch in a slot.

use std::ops::Range;

use uva_cuda::kernels::gather::GatherReport;
use uva_graph::{Dataset, ElementType, Labels};
use uva_sample::{BatchBounds, BlockSize, TypeSize};

use super::feature_parts::{FEATURE_COLUMNS, FeatureParts};
use crate::schema::{Rows, Slots, Values};
use crate::{
    Aggregation, BatchHeader, BatchSpec, COLUMNS, Column, ColumnKey, ColumnPlace, ColumnSpec, ColumnsMut,
    Element, HandOver, LayoutError, StaticShapes,
};

const CACHE_LINE: usize = 64;
/// Feature rows start on a page of this size, for any page size of the region.
const PAGE: usize = 4096;
/// Bytes of the report of a gather on a GPU.
const REPORT_BYTES: usize = size_of::<GatherReport>();
// Arrays after the report begin on a cache line, and no later than after a header.
const _: () = assert!(REPORT_BYTES.is_multiple_of(CACHE_LINE) && REPORT_BYTES <= BatchHeader::bytes(0));

/// The offsets and bounds of a slot: equal in every role, since all roles compute them from the same options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchLayout {
    bounds: BatchBounds,
    /// The columns of batches, in the order of a slot.
    places: Vec<ColumnPlace>,
    /// Columns of the feature rows.
    dim: usize,
    /// Type of a feature value in a slot.
    element: ElementType,
    /// The table's own type, if the producer widens it.
    widened_from: Option<ElementType>,
    /// Type and number of columns of the edges' feature rows.
    edge_attr: Option<(ElementType, usize)>,
    /// The shapes that batches are padded to.
    shapes: Option<StaticShapes>,
    /// The rows that the producer sums.
    aggregation: Aggregation,
    /// Whether the producer sums in some batches only.
    chooses_sums: bool,
    /// The columns of feature rows, and how rows are found.
    feature_parts: FeatureParts,
    batch_bytes: usize,
    arrays_bytes: usize,
}

impl BatchLayout {
    /// The layout for batches of this specification over this dataset.
    ///
    /// # Errors
    /// [`LayoutError`] if batches have no bound, the given slot bytes are too few for one batch's seeds, or the table's
    /// values cannot be widened to the requested type.
    pub fn new(dataset: &Dataset, spec: &BatchSpec) -> Result<Self, LayoutError> {
        // A repeated node has its own rows and edges.
        let again = dataset.repeats();
        let (nodes, edges) = (dataset.nodes() + again.rows, dataset.edges() + again.edges);
        let features = dataset.table();
        let widened_from = spec.feature_type.widened_from(features.element)?;
        let element = if widened_from.is_some() { ElementType::F32 } else { features.element };
        let row_bytes = features.dim * element.bytes();
        let bytes = spec.slot_bytes.map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
        let mut bounds = match spec.tables {
            None => BatchBounds::for_options(&spec.sampling, spec.batch_size, nodes, edges, bytes)?,
            Some(_) => of_rows(spec.batch_size)?,
        };
        if let Some(bytes) = bytes {
            bounds = limit_rows(bounds, bytes, row_bytes, features.dim, spec)?;
        }
        bounds.types[0].nodes = bounds.nodes().max(bounds.seeds());
        let labelled = dataset.labels().are_there();
        let edge_features = match (spec.has(Column::EdgeAttr, labelled), dataset.edge_features()) {
            (true, None) => return Err(LayoutError::NoEdgeFeatures),
            (true, Some(table)) => Some(table),
            (false, _) => None,
        };
        if let (Some(bytes), Some(table)) = (bytes, edge_features) {
            for layer in &mut bounds.blocks {
                layer.edges = layer.edges.min(bytes / table.row_bytes());
            }
        }

        if let Some(shapes) = &spec.shapes {
            shapes.extend(&mut bounds);
            // Local ids have 32 bits.
            let counts = shapes.counts();
            let most = counts.blocks().iter().map(|block| block.edges).fold(counts.nodes(), usize::max);
            i32::try_from(most).map_err(|_| LayoutError::TooLarge)?;
        }

        let of_values = |values: Values| match (values, dataset.labels()) {
            (Values::One(element), _) => (element, None),
            (Values::Labels, Labels::Single(_) | Labels::Absent) => (Element::I64, None),
            (Values::Labels, Labels::Regression { columns, .. }) => (Element::F32, columns),
            (Values::Labels, Labels::Multi { classes, .. }) => (Element::U8, Some(classes)),
            (Values::Features, _) => (element.into(), Some(features.dim)),
            (Values::Sums, _) => (Element::F32, Some(features.dim)),
            (Values::Places, _) => (Element::I32, Some(features.dim)),
            (Values::EdgeFeatures, _) => {
                edge_features.map_or((Element::F32, None), |table| (table.element.into(), Some(table.dim)))
            }
        };
        let mut places: Vec<ColumnPlace> = Vec::new();
        let header_bytes = BatchHeader::bytes(bounds.blocks.len());
        let (mut batch_bytes, mut arrays_bytes) = (header_bytes, 0);
        let (mut end, mut summed_end) = (header_bytes, 0);
        let tables = spec.tables.unwrap_or(1);
        for key in in_slot_order(spec, labelled, bounds.blocks.len(), tables) {
            let column = key.column;
            let of_column = column.spec();
            let (element, width) = of_values(of_column.values);
            let [counted, counted_if_summed] = counted_rows(spec, column);
            let capacity =
                |counted: Option<Rows>| counted.map_or(0, |rows| most_rows(rows, key.layer, &bounds));
            let of_sums = capacity(counted_if_summed);
            let capacity = capacity(counted).max(of_sums);
            let mut place = ColumnPlace { key, element, width, counted, counted_if_summed, capacity, at: 0 };
            if let Some(whole) = of_column.first_of {
                place.at = places.iter().find(|other| other.key.column == whole).map_or(0, |whole| whole.at);
                places.push(place);
                continue;
            }
            if of_features(column) && arrays_bytes == 0 {
                arrays_bytes = end;
                end = end.checked_next_multiple_of(PAGE).ok_or(LayoutError::TooLarge)?;
                summed_end = end;
            }
            // A batch has either all its rows or sums. If a run has both kinds of batches, the sums and their
            // companions begin at the offset of the rows of all nodes.
            let overlaps = spec.chooses_sums && of_features(column);
            place.at = if overlaps { summed_end } else { end };
            let behind = |rows: usize| {
                rows.checked_mul(place.row_bytes())
                    .and_then(|bytes| place.at.checked_add(bytes)?.checked_next_multiple_of(CACHE_LINE))
                    .ok_or(LayoutError::TooLarge)
            };
            end = end.max(behind(capacity)?);
            summed_end = behind(of_sums)?;
            if of_column.lives_in == Slots::Both {
                batch_bytes = end;
            }
            places.push(place);
        }
        // Space to round up to whole pages.
        end.checked_add(PAGE).ok_or(LayoutError::TooLarge)?;
        let (dim, aggregation) = (features.dim, spec.aggregation);
        let edge_attr = edge_features.map(|table| (table.element, table.dim));
        Ok(Self {
            bounds,
            places,
            dim,
            element,
            widened_from,
            edge_attr,
            shapes: spec.shapes.clone(),
            aggregation,
            chooses_sums: spec.chooses_sums,
            feature_parts: FeatureParts::new(spec.tables),
            batch_bytes,
            arrays_bytes,
        })
    }

    /// The maximum sizes of a batch.
    pub fn bounds(&self) -> &BatchBounds {
        &self.bounds
    }

    /// The shapes that batches are padded to; `None` if batches are not padded.
    pub fn shapes(&self) -> Option<&StaticShapes> {
        self.shapes.as_ref()
    }

    /// Maximum number of seeds.
    pub fn seed_capacity(&self) -> usize {
        self.bounds.seeds()
    }

    /// Maximum number of nodes, and of feature rows, unless the producer sums.
    pub fn node_capacity(&self) -> usize {
        self.bounds.nodes()
    }

    /// The bounds of each layer's block.
    pub fn layers(&self) -> &[BlockSize] {
        &self.bounds.blocks
    }

    /// The columns of batches, in the order of a slot.
    pub fn columns(&self) -> &[ColumnPlace] {
        &self.places
    }

    /// The place of a column; `None` if batches have no such column, layer or [table](Self::tables).
    pub fn place(&self, key: impl Into<ColumnKey>) -> Option<&ColumnPlace> {
        let key = key.into();
        self.places.iter().find(|place| place.key == key)
    }

    /// The bytes that the batch of this header uses in a column; empty if the batch does not have it.
    pub fn range(&self, header: &BatchHeader, key: impl Into<ColumnKey>) -> Range<usize> {
        self.place(key).map_or(0..0, |place| place.used(header))
    }

    /// Bytes of the header before a slot's columns.
    pub fn header_bytes(&self) -> usize {
        BatchHeader::bytes(self.layers().len())
    }

    /// Bytes of a batch slot's payload.
    pub fn batch_bytes(&self) -> usize {
        self.batch_bytes
    }

    /// Bytes of a feature slot's payload before its feature rows: a batch's, and the feature rows of edges.
    pub fn arrays_bytes(&self) -> usize {
        self.arrays_bytes
    }

    /// Bytes of a feature slot's payload.
    pub fn feature_slot_bytes(&self) -> usize {
        self.of_features().map(|place| place.room().end).max().unwrap_or(0)
    }

    /// Bytes of the payload that the batch of this header uses.
    pub fn used_bytes(&self, header: &BatchHeader) -> usize {
        let there = self.of_features().filter(|place| place.rows(header) > 0);
        there.map(|place| place.used(header).end).max().unwrap_or(self.arrays_bytes)
    }

    /// Bytes of the feature rows and sums of the largest batch, in whole cache lines.
    pub fn features_bytes(&self) -> usize {
        let begin = self.of_features().map(|place| place.room().start).min();
        (self.feature_slot_bytes() - begin.unwrap_or_else(|| self.feature_slot_bytes()))
            .next_multiple_of(CACHE_LINE)
    }

    /// The columns of feature rows.
    fn of_features(&self) -> impl Iterator<Item = &ColumnPlace> {
        self.places.iter().filter(|place| of_features(place.key.column))
    }

    /// Maximum bytes of one upload to a slot on a GPU: the report and the [packed](Self::packed) columns. Columns that
    /// a sampler writes on the GPU are excluded.
    pub fn upload_bytes(&self, sampled_on_gpu: bool) -> usize {
        let sent = self.own_room(false).chain(self.own_room(true).filter(|_| !sampled_on_gpu));
        sent.fold(REPORT_BYTES, |end, place| end + place.room().len().next_multiple_of(CACHE_LINE))
    }

    /// The columns before the feature rows that have their own memory: those that a sampler on a GPU makes there, or
    /// the others.
    fn own_room(&self, made_on_gpu: bool) -> impl Iterator<Item = &ColumnPlace> {
        self.places.iter().filter(move |place| {
            let spec = place.key.column.spec();
            !of_features(place.key.column) && spec.first_of.is_none() && spec.made_on_gpu == made_on_gpu
        })
    }

    /// Bytes of a feature slot on a GPU that fits the largest batch.
    pub fn device_slot_bytes(&self) -> usize {
        self.feature_slot_bytes().next_multiple_of(PAGE)
    }

    /// The columns before the feature rows of a slot on a GPU, with the bytes that the batch of this header uses. They
    /// follow the report without gaps, so that one copy transfers them all. Each begins on a cache line. Columns that a
    /// sampler on a GPU makes there come last, so that one copy still transfers the others.
    pub fn packed(&self, header: &BatchHeader) -> impl Iterator<Item = (&ColumnPlace, Range<usize>)> {
        side_by_side(REPORT_BYTES, self.own_room(false).chain(self.own_room(true)), header)
    }

    /// The columns of feature rows of a slot on a GPU, with the bytes that the batch of this header uses. They follow
    /// the [packed](Self::packed) columns, the first at the start of a page. A batch therefore uses no more of a slot
    /// than it fills, and a slot may be smaller than the largest batch.
    pub fn packed_features(
        &self,
        header: &BatchHeader,
    ) -> impl Iterator<Item = (&ColumnPlace, Range<usize>)> {
        let arrays = self.packed(header).last().map_or(REPORT_BYTES, |(_, range)| range.end);
        side_by_side(arrays.next_multiple_of(PAGE), self.of_features(), header)
    }

    /// Bytes of a slot on a GPU that the batch of this header uses.
    pub fn packed_bytes(&self, header: &BatchHeader) -> usize {
        let columns = self.packed(header).chain(self.packed_features(header));
        columns
            .filter(|(_, range)| !range.is_empty())
            .map(|(_, range)| range.end)
            .max()
            .unwrap_or(REPORT_BYTES)
    }

    /// The counterpart of [`range`](Self::range) for a slot on a GPU.
    pub fn packed_range(&self, header: &BatchHeader, key: impl Into<ColumnKey>) -> Range<usize> {
        let key = key.into();
        let Some(of) = self.place(key) else { return 0..0 };
        let whole = ColumnKey { column: key.column.spec().first_of.unwrap_or(key.column), ..key };
        let is_whole = |(place, _): &(&ColumnPlace, _)| place.key == whole;
        let found = match of_features(key.column) {
            true => self.packed_features(header).find(is_whole),
            false => self.packed(header).find(is_whole),
        };
        found.map_or(0..0, |(_, range)| range.start..range.start + of.rows(header) * of.row_bytes())
    }

    /// Bytes of one feature row in a slot.
    pub fn row_bytes(&self) -> usize {
        self.dim * self.element.bytes()
    }

    /// Elements of one feature row.
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// Bytes of one feature row in the dataset. For a hop set, the rows of a node in all tables that batches have.
    pub fn table_row_bytes(&self) -> usize {
        self.tables() * self.dim * self.widened_from.unwrap_or(self.element).bytes()
    }

    /// Tables of feature rows in a batch: several for a hop set, otherwise one.
    pub fn tables(&self) -> usize {
        self.feature_parts.tables.unwrap_or(1)
    }

    /// Number of parts of a column, each with a [key](Column::part); `None` for an undivided column.
    pub fn parts(&self, column: Column) -> Option<usize> {
        self.feature_parts.tables.filter(|_| column == Column::X)
    }

    /// Whether batches with equally many seeds differ in size.
    pub fn sizes_vary(&self) -> bool {
        self.feature_parts.sizes_vary
    }

    /// Whether feature rows are read one by one, by their [ids](Self::row_ids). Otherwise they are read in runs of
    /// consecutive rows.
    pub fn reads_rows_by_id(&self) -> bool {
        self.feature_parts.read_by_id
    }

    /// The column with the ids of a batch's feature rows.
    pub fn row_ids(&self) -> Column {
        self.feature_parts.row_ids
    }

    /// The columns of feature rows, or of the producer's sums of them, in the order of a slot. A batch may lack some.
    pub fn feature_columns(&self) -> &[ColumnKey] {
        &self.feature_parts.columns
    }

    /// The features' type in a slot.
    pub fn element(&self) -> ElementType {
        self.element
    }

    /// The features' type in the table, if it differs and the producer widens it.
    pub fn widened_from(&self) -> Option<ElementType> {
        self.widened_from
    }

    /// The aggregation of the producer, in every batch or in [some](Self::chooses_sums).
    pub fn aggregation(&self) -> Aggregation {
        self.aggregation
    }

    /// Whether the producer chooses batch by batch whether it sums.
    pub fn chooses_sums(&self) -> bool {
        self.chooses_sums
    }

    /// The aggregation of the producer in the batch of this header.
    pub fn aggregation_of(&self, header: &BatchHeader) -> Aggregation {
        if self.chooses_sums && !header.is_summed() { Aggregation::None } else { self.aggregation }
    }

    /// The type of the feature values of edges, and their number per row; `None` if batches have none.
    pub fn edge_attr(&self) -> Option<(ElementType, usize)> {
        self.edge_attr
    }

    /// Reads and checks the header of a slot that also holds the batch's columns.
    ///
    /// # Errors
    /// Returns the invalid field, or the length of a truncated payload.
    pub fn read_header(&self, payload: &[u8]) -> Result<BatchHeader, String> {
        let header = BatchHeader::read(payload, &self.bounds)?;
        if header.is_summed() && !self.chooses_sums {
            return Err("summed by choice, where the producer has none".to_owned());
        }
        if header.kind() == HandOver::Batch && payload.len() < self.batch_bytes {
            return Err(format!("{} bytes where a batch has {}", payload.len(), self.batch_bytes));
        }
        Ok(header)
    }

    /// Borrows a batch slot's columns for writing, each with its full capacity.
    ///
    /// # Panics
    /// If the payload is shorter than a batch, or does not begin on a cache line.
    pub fn columns_mut<'a>(&'a self, payload: &'a mut [u8]) -> ColumnsMut<'a> {
        ColumnsMut::over(&self.places, &mut payload[..self.batch_bytes])
    }

    /// The columns that both slots hold, as ranges of the payload, without unused capacity. These ranges are copied
    /// from slot to slot.
    pub fn copied(&self, header: &BatchHeader) -> impl Iterator<Item = Range<usize>> {
        let header = header.clone();
        self.places.iter().filter(|place| place.is_copied()).map(move |place| place.used(&header))
    }
}

/// The given columns laid out from byte `end` on, each on a cache line, with the bytes that the batch of this header
/// uses.
fn side_by_side<'l>(
    mut end: usize,
    places: impl Iterator<Item = &'l ColumnPlace>,
    header: &BatchHeader,
) -> impl Iterator<Item = (&'l ColumnPlace, Range<usize>)> {
    let header = header.clone();
    places.map(move |place| {
        let range = end..end + place.rows(&header) * place.row_bytes();
        end = range.end.next_multiple_of(CACHE_LINE);
        (place, range)
    })
}

/// Whether it is one of the columns of feature rows, which come last.
fn of_features(column: Column) -> bool {
    FEATURE_COLUMNS.contains(&column)
}

/// The rows of a column in a batch that is not marked as summed, and in one that is. `None` if the column is absent.
fn counted_rows(spec: &BatchSpec, column: Column) -> [Option<Rows>; 2] {
    let beside_sums = spec.aggregation.keeps_own_rows().then_some(Rows::Outermost);
    match (column, spec.aggregation) {
        (Column::X, Aggregation::None) => [Some(Rows::Nodes); 2],
        (Column::X, _) if spec.chooses_sums => [Some(Rows::Nodes), beside_sums],
        (Column::X, _) => [beside_sums; 2],
        (Column::Aggregated, _) if spec.chooses_sums => [None, Some(Rows::Outermost)],
        _ => [Some(column.spec().rows); 2],
    }
}

/// The bounds of batches of a hop set: one row per seed, and no layers.
fn of_rows(seeds: usize) -> Result<BatchBounds, LayoutError> {
    // Headers count in 32 bits.
    u32::try_from(seeds).map_err(|_| LayoutError::TooLarge)?;
    let types = vec![TypeSize { seeds, nodes: seeds }];
    Ok(BatchBounds { types, blocks: Vec::new(), relations: Vec::new(), edge_ids: false, weights: false })
}

/// The columns of batches of `layers` layers with `tables` tables of feature rows, in the order of [`COLUMNS`].
fn in_slot_order(
    spec: &BatchSpec,
    labelled: bool,
    layers: usize,
    tables: usize,
) -> impl Iterator<Item = ColumnKey> {
    let beside =
        |a: &ColumnSpec, b: &ColumnSpec| a.is_of_layers() && b.is_of_layers() && a.presence == b.presence;
    COLUMNS.chunk_by(beside).flat_map(move |group| {
        let layers = if group[0].is_of_layers() { layers } else { 1 };
        let parts = if group[0].column == Column::X { tables } else { 1 };
        (0..layers * parts).flat_map(move |at| {
            group.iter().filter(move |of| spec.has(of.column, labelled)).map(move |of| ColumnKey {
                column: of.column,
                layer: at / parts,
                part: at % parts,
            })
        })
    })
}

/// The maximum number of rows of a column.
fn most_rows(rows: Rows, layer: usize, bounds: &BatchBounds) -> usize {
    match rows {
        Rows::Seeds => bounds.seeds(),
        Rows::Nodes => bounds.nodes(),
        Rows::Offsets => bounds.blocks[layer].destinations + 1,
        Rows::Edges => bounds.blocks[layer].edges,
        Rows::Outermost => bounds.blocks.last().map_or(0, |layer| layer.destinations),
    }
}

/// Bounds a slot's feature rows by the given bytes, in addition to its ids. If the producer sums, these are the rows of
/// the outermost layer's destinations, and their sums of `dim` float32, with the places of maxima if these are
/// requested. Rows that are gathered before they are summed have a separate bound of as many bytes outside the slots.
fn limit_rows(
    mut bounds: BatchBounds,
    bytes: usize,
    row_bytes: usize,
    dim: usize,
    spec: &BatchSpec,
) -> Result<BatchBounds, LayoutError> {
    let aggregation = spec.aggregation;
    let gathered = bytes / row_bytes.max(1);
    let row_bytes = match aggregation {
        Aggregation::None => row_bytes,
        sums if sums.keeps_own_rows() => row_bytes + dim * Element::F32.bytes(),
        _ => dim * Element::F32.bytes(),
    };
    let of_argmax = if spec.asked.contains(&Column::Argmax) { dim * Element::I32.bytes() } else { 0 };
    let row_bytes = row_bytes + of_argmax;
    let rows = bytes / row_bytes.max(1);
    if rows < bounds.seeds() {
        return Err(LayoutError::RowsBelowSeeds { bytes, rows, row_bytes, seeds: bounds.seeds() });
    }
    let (outermost, nodes) = (bounds.blocks.len().saturating_sub(1), bounds.nodes());
    let whole = aggregation == Aggregation::None || spec.gathers_before_sums;
    if whole {
        bounds.types[0].nodes = nodes.min(gathered);
    }
    for (layer, bounds) in bounds.blocks.iter_mut().enumerate() {
        if layer < outermost {
            bounds.sources = bounds.sources.min(rows);
        } else if whole {
            bounds.sources = bounds.sources.min(gathered);
        }
        bounds.destinations = bounds.destinations.min(rows);
    }
    Ok(bounds)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use proptest::prelude::*;
    use uva_graph::Split;
    use uva_graph::npy::{NpyType, write_array};
    use uva_io::generate::{self, Common, PowerLaw};
    use uva_sample::{BatchCounts, BatchKey, BlockSize, SamplerKind, SamplerOptions};

    use super::*;
    use crate::{FeatureType, SlotRoom};

    /// 500 nodes with rows of 12 bytes, edges with rows of 20.
    fn small_graph(directory: &Path) -> Dataset {
        let path = directory.join("graph");
        let common = Common {
            nodes: 500,
            average_degree: 6.0,
            feature_dim: 3,
            classes: 2,
            seed: 1,
            ..Common::default()
        };
        generate::write(&path, &PowerLaw::of(common), &|_| {}).expect("a graph");
        let edges = Dataset::open(&path).expect("a dataset").edges();
        let rows = vec![0_f32; 5 * edges];
        write_array(&path.join("edge_feat.npy"), NpyType::F32, &[5], &rows).expect("edge features");
        Dataset::open(&path).expect("a dataset")
    }

    /// The graph of `small_graph` with three labels per node.
    fn multi_label_graph(directory: &Path) -> Dataset {
        let path = small_graph(directory).path().to_owned();
        let head = "{'descr': '|u1', 'fortran_order': False, 'shape': (500, 3), }";
        let mut label = b"\x93NUMPY\x01\x00".to_vec();
        let padded = format!("{head:<117}\n");
        label.extend((padded.len() as u16).to_le_bytes());
        label.extend(padded.into_bytes());
        label.extend((0..1500).map(|value| (value % 2) as u8));
        std::fs::write(path.join("label.npy"), label).expect("labels");
        // The generator's file states two classes.
        std::fs::remove_file(path.join("meta.json")).expect("the generator's meta.json");
        Dataset::open(&path).expect("a dataset")
    }

    impl BatchLayout {
        /// The end of each copied column's capacity, in the order of [`BatchLayout::copied`].
        fn ends(&self) -> Vec<usize> {
            self.places.iter().filter(|place| place.is_copied()).map(|place| place.room().end).collect()
        }
    }

    fn options(fanouts: &[i32], batch_size: usize, slot_bytes: Option<u64>) -> BatchSpec {
        let sampling = SamplerOptions { fanouts: fanouts.into(), ..SamplerOptions::default() };
        BatchSpec {
            sampling,
            batch_size,
            slot_bytes,
            feature_type: FeatureType::Table,
            aggregation: Aggregation::None,
            gathers_before_sums: false,
            chooses_sums: false,
            asked: Vec::new(),
            shapes: None,
            tables: None,
        }
    }

    /// The specification with these columns, for this kind of sampler.
    fn with(mut spec: BatchSpec, kind: SamplerKind, degrees: bool, edge_ids: bool) -> BatchSpec {
        spec.asked.extend((edge_ids && kind == SamplerKind::WEIGHTED).then_some(Column::EdgeAttr));
        (spec.sampling.kind, spec.sampling.edge_ids) = (kind, edge_ids);
        spec.asked.extend(degrees.then_some(Column::Degrees));
        spec.asked.extend(edge_ids.then_some(Column::EdgeIds));
        spec
    }

    /// The header of a batch that fills its slot to the last element.
    fn full(layout: &BatchLayout) -> BatchHeader {
        let bounds = &layout.bounds;
        let blocks = bounds.blocks.iter().map(|bound| BlockSize {
            destinations: bound.destinations,
            sources: bound.sources.min(bounds.nodes()),
            edges: bound.edges,
        });
        let counts = BatchCounts::of_blocks(bounds.seeds(), blocks);
        BatchHeader::of_batch(BatchKey { split: Split::Train, epoch: 0, batch: 0 }, &counts)
    }

    #[test]
    fn what_is_written_through_the_arrays_is_read_back_through_the_ranges() {
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
            let options = with(options(&[3, 2], 10, None), sampler_kind, degrees, edge_ids);
            let layout = BatchLayout::new(&dataset, &options).unwrap();
            let of_labels = *layout.place(Column::Labels).unwrap();
            assert_eq!(of_labels.width, multi_label.then_some(3));
            let label_bytes = 10 * of_labels.row_bytes();
            // A slot is page-aligned; so is this.
            let mut memory = vec![0_u64; layout.batch_bytes() / 8 + 512];
            let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut memory);
            let skip = bytes.as_ptr().align_offset(PAGE);
            let payload = &mut bytes[skip..skip + layout.batch_bytes()];

            // Every element of every array gets a distinct value, so that an overlap would be detected.
            let mut columns = layout.columns_mut(payload);
            let labels = columns.take::<u8>(Column::Labels);
            let nodes = columns.take::<i64>(Column::InputNodes);
            assert_eq!((nodes.len(), labels.len()), (layout.node_capacity(), label_bytes));
            (7..).zip(columns.take::<i32>(Column::Degrees)).for_each(|(value, degree)| *degree = value);
            (0..).zip(nodes).for_each(|(value, node)| *node = value);
            (0..).zip(labels).for_each(|(value, label): (usize, _)| *label = value as u8);
            for (layer, block) in columns.take_blocks().into_iter().enumerate() {
                let base = 1_000_000 * (layer as i32 + 1);
                (base..).zip(block.indptr).for_each(|(value, to)| *to = value);
                (-base..).zip(block.indices).for_each(|(value, to)| *to = value);
                let base = 3 * i64::from(base);
                (base..).zip(block.edge_ids).for_each(|(value, to)| *to = value);
                let weights = (base..).zip(block.weights);
                weights.for_each(|(value, to)| *to = f32::from_bits(value as u32));
            }
            assert!(columns.take::<i64>(Column::InputNodes).is_empty(), "a column is lent once");
            full(&layout).write(payload);

            let header = layout.read_header(payload).unwrap();
            let read = |column: Column, layer| &payload[layout.range(&header, column.at(layer))];
            let there = |column: Column, layer| layout.place(column.at(layer)).is_some();
            let nodes: &[i64] = bytemuck::cast_slice(read(Column::InputNodes, 0));
            assert_eq!(read(Column::Seeds, 0), &read(Column::InputNodes, 0)[..80]);
            assert!(nodes.iter().copied().eq(0..layout.node_capacity() as i64));
            let labels = read(Column::Labels, 0);
            assert!(labels.iter().copied().eq((0..label_bytes).map(|value| value as u8)));
            assert_eq!(there(Column::Degrees, 0), degrees);
            if degrees {
                let read: &[i32] = bytemuck::cast_slice(read(Column::Degrees, 0));
                assert!(read.iter().copied().eq(7..7 + layout.node_capacity() as i32));
            }
            for (layer, bounds) in layout.layers().iter().enumerate() {
                let base = 1_000_000 * (layer as i32 + 1);
                let indptr: &[i32] = bytemuck::cast_slice(read(Column::Indptr, layer));
                assert!(indptr.iter().copied().eq(base..=base + bounds.destinations as i32));
                let indices: &[i32] = bytemuck::cast_slice(read(Column::Indices, layer));
                assert!(indices.iter().copied().eq(-base..-base + bounds.edges as i32));
                assert_eq!(there(Column::EdgeIds, layer), edge_ids);
                if edge_ids {
                    let (read, base) =
                        (bytemuck::cast_slice::<_, i64>(read(Column::EdgeIds, layer)), 3 * i64::from(base));
                    assert!(read.iter().copied().eq(base..base + bounds.edges as i64));
                }
                assert_eq!(there(Column::Weights, layer), sampler_kind.weighs_edges());
                if there(Column::Weights, layer) {
                    let (read, base) =
                        (bytemuck::cast_slice::<_, u32>(read(Column::Weights, layer)), 3 * base as u32);
                    assert!(read.iter().copied().eq(base..base + bounds.edges as u32));
                }
            }
        }
    }

    #[test]
    fn a_slot_of_sums_has_a_row_for_each_destination_not_for_each_node() {
        let temp = tempfile::tempdir().unwrap();
        let dataset = small_graph(temp.path());
        let of = |aggregation| {
            let spec = BatchSpec { aggregation, ..options(&[3, 2], 10, None) };
            BatchLayout::new(&dataset, &spec).unwrap()
        };
        let header = sampled();
        let [none, mean, gcn] = [Aggregation::None, Aggregation::Mean, Aggregation::Degrees].map(of);
        let bytes = |layout: &BatchLayout, column| layout.range(&header, column).len();
        // 40 nodes, of which 25 are destinations, and rows of three float32.
        assert_eq!((bytes(&none, Column::X), bytes(&none, Column::Aggregated)), (40 * 12, 0));
        assert_eq!((bytes(&mean, Column::X), bytes(&mean, Column::Aggregated)), (25 * 12, 25 * 12));
        assert_eq!((bytes(&gcn, Column::X), bytes(&gcn, Column::Aggregated)), (0, 25 * 12));
        assert!(gcn.place(Column::X).is_none());
        for aggregation in [Aggregation::Sum, Aggregation::Max] {
            assert_eq!(bytes(&of(aggregation), Column::X), 25 * 12);
            assert_eq!(bytes(&of(aggregation), Column::Aggregated), 25 * 12);
        }
        for layout in [&mean, &gcn] {
            assert_eq!(layout.batch_bytes(), none.batch_bytes());
            assert_eq!(layout.arrays_bytes(), none.arrays_bytes());
            assert_eq!(layout.bounds(), none.bounds());
            assert_eq!(layout.used_bytes(&header), layout.range(&header, Column::Aggregated).end);
        }
        assert_eq!(none.used_bytes(&header), none.range(&header, Column::X).end);
    }

    #[test]
    fn a_slot_of_a_choosing_producer_holds_rows_or_sums_and_its_header_says() {
        let temp = tempfile::tempdir().unwrap();
        let dataset = small_graph(temp.path());
        let of = |aggregation, chooses_sums| {
            let spec = BatchSpec { aggregation, chooses_sums, ..options(&[3, 2], 10, None) };
            BatchLayout::new(&dataset, &spec).unwrap()
        };
        let none = of(Aggregation::None, false);
        let raw = sampled();
        let mut summed = sampled();
        summed.set_summed(true);
        for aggregation in [Aggregation::Mean, Aggregation::Degrees] {
            let (always, chooses) = (of(aggregation, false), of(aggregation, true));
            assert_eq!(
                chooses.feature_slot_bytes(),
                none.feature_slot_bytes().max(always.feature_slot_bytes())
            );
            assert_eq!(chooses.range(&raw, Column::X), none.range(&raw, Column::X));
            assert!(chooses.range(&raw, Column::Aggregated).is_empty());
            let bytes = |layout: &BatchLayout, column| layout.range(&summed, column).len();
            for column in [Column::X, Column::Aggregated] {
                assert_eq!(bytes(&chooses, column), bytes(&always, column), "{aggregation} {column}");
            }
            let [own, sums] = [Column::X, Column::Aggregated].map(|column| chooses.range(&summed, column));
            assert!(own.end <= sums.start && sums.start.is_multiple_of(CACHE_LINE), "{own:?} {sums:?}");
            assert_eq!(chooses.used_bytes(&raw), none.used_bytes(&raw));
            assert_eq!(chooses.used_bytes(&summed), sums.end);
            assert!(sums.end <= chooses.feature_slot_bytes());
            let full_of_sums = {
                let mut header = full(&chooses);
                header.set_summed(true);
                header
            };
            assert!(chooses.used_bytes(&full_of_sums) <= chooses.feature_slot_bytes());
            assert_eq!(chooses.aggregation_of(&raw), Aggregation::None);
            assert_eq!(chooses.aggregation_of(&summed), aggregation);
            assert_eq!(always.aggregation_of(&raw), aggregation);
        }
        // The header cannot mark a batch as summed in a slot of any other producer.
        let mut payload = vec![0; none.batch_bytes()];
        summed.write(&mut payload);
        assert!(none.read_header(&payload).unwrap_err().contains("summed by choice"));
        assert!(of(Aggregation::Mean, true).read_header(&payload).unwrap().is_summed());
    }

    #[test]
    fn slot_bytes_bound_the_rows_that_are_gathered_before_they_are_summed() {
        let of = |aggregation, gathers_before_sums| {
            let spec = BatchSpec { aggregation, gathers_before_sums, ..options(&[3, 3], 10, None) };
            let bounds = BatchBounds::new(10, [3, 3], 500, 3000).unwrap();
            let bounds = limit_rows(bounds, 1200, 12, 3, &spec).unwrap();
            let outermost = *bounds.blocks.last().unwrap();
            (outermost.destinations, outermost.sources, bounds.nodes())
        };
        // 100 rows of three float32, of 160.
        assert_eq!(of(Aggregation::None, false), (40, 100, 100));
        for aggregation in [Aggregation::Mean, Aggregation::Degrees] {
            assert_eq!(of(aggregation, true), (40, 100, 100), "{aggregation}");
            assert_eq!(of(aggregation, false), (40, 160, 160), "{aggregation}");
        }
    }

    #[test]
    fn slot_bytes_below_the_seeds_rows_are_refused_with_the_option() {
        let temp = tempfile::tempdir().unwrap();
        let dataset = small_graph(temp.path());
        let bounds = BatchBounds::new(100, [2], 500, 3000).unwrap();
        let refused = limit_rows(bounds, 1000, 12, 3, &options(&[2], 100, None));
        let refused = refused.unwrap_err();
        assert!(refused.to_string().contains("`slot_bytes=1000`: it holds 83 feature rows"), "{refused}");
        let layout = BatchLayout::new(&dataset, &options(&[-1], 100, Some(6000))).unwrap();
        assert!(layout.node_capacity() <= 500 && layout.node_capacity() >= 100);
    }

    /// The header of a sampled batch, well within the bounds of [3, 2] and 10 seeds.
    fn sampled() -> BatchHeader {
        let first = BlockSize { destinations: 7, sources: 25, edges: 21 };
        let second = BlockSize { destinations: 25, sources: 40, edges: 50 };
        let mut counts = BatchCounts::of_blocks(7, [first, second]);
        counts.hash = 0x1234;
        BatchHeader::of_batch(BatchKey { split: Split::Valid, epoch: 5, batch: 3 }, &counts)
    }

    /// Every byte of a header is set to every other value: the ranges that are then read lie within the slot, or the
    /// header is rejected.
    #[test]
    fn no_flipped_byte_makes_a_range_that_leaves_its_array() {
        let temp = tempfile::tempdir().unwrap();
        let layout = BatchLayout::new(&small_graph(temp.path()), &options(&[3, 2], 10, None)).unwrap();
        let mut payload = vec![0; layout.batch_bytes()];
        sampled().write(&mut payload);
        let ends = layout.ends();
        let (mut refused, mut read) = (0, 0);
        for at in 0..layout.header_bytes() {
            for flip in 1..=255 {
                payload[at] ^= flip;
                match layout.read_header(&payload) {
                    Err(_) => refused += 1,
                    Ok(header) if header.kind() == HandOver::Batch => {
                        read += 1;
                        for (range, end) in layout.copied(&header).zip(&ends) {
                            assert!(range.end <= *end, "byte {at} xor {flip}: {range:?} beyond {end}");
                        }
                        assert!(layout.range(&header, Column::X).end <= layout.feature_slot_bytes());
                        assert!(header.seeds() <= header.nodes());
                        for layer in 0..layout.layers().len() {
                            let counts = header.layer(layer);
                            assert!(
                                counts.destinations <= counts.sources && counts.sources <= header.nodes()
                            );
                        }
                        // Other fields may differ, but no method panics.
                        let _ = (header.key(), header.hash());
                    }
                    Ok(_) => {}
                }
                payload[at] ^= flip;
            }
        }
        // Both cases must occur for this test to be effective: the high bytes of every count are refused, hash and
        // times are not.
        assert!(refused > 3000 && read > 5000, "{refused} refused, {read} read");
    }

    /// Packed columns have the sizes that they have on the host, and one copy of the first bytes transfers all of them.
    #[test]
    fn on_a_gpu_columns_follow_the_report_without_gaps() {
        let temp = tempfile::tempdir().unwrap();
        let spec = with(options(&[3, 2], 10, None), SamplerKind::WEIGHTED, true, true);
        let layout = BatchLayout::new(&small_graph(temp.path()), &spec).unwrap();
        for (header, is_full) in [(sampled(), false), (full(&layout), true)] {
            let mut end = REPORT_BYTES;
            for (place, range) in layout.packed(&header) {
                assert_eq!(range.start, end.next_multiple_of(CACHE_LINE), "{:?}", place.key);
                assert_eq!(range, layout.packed_range(&header, place.key));
                end = range.end;
            }
            for place in layout.columns() {
                let range = layout.packed_range(&header, place.key);
                assert_eq!(range.len(), layout.range(&header, place.key).len(), "{}", place.key);
            }
            let nodes = layout.packed_range(&header, Column::InputNodes);
            assert_eq!(layout.packed_range(&header, Column::Seeds).start, nodes.start);
            let features = layout.packed_range(&header, Column::X);
            assert_eq!(features.start, end.next_multiple_of(PAGE));
            assert_eq!(features.end, layout.packed_bytes(&header));
            assert!(end <= layout.upload_bytes(false));
            // A batch that fills its slot leaves only the bytes of rounding.
            assert!(!is_full || end.next_multiple_of(CACHE_LINE) == layout.upload_bytes(false));
            assert!(is_full || end < layout.upload_bytes(false), "{end} of {}", layout.upload_bytes(false));
            // A sampler on a GPU leaves only the labels and the edge features to be sent.
            let first_on_gpu =
                layout.packed(&header).find(|(place, _)| place.key.column.spec().made_on_gpu).unwrap().1;
            assert!(!is_full || first_on_gpu.start == layout.upload_bytes(true));
        }
        assert!(layout.packed_range(&sampled(), Column::InputId).is_empty());
    }

    #[test]
    fn a_payload_that_is_cut_is_refused() {
        let temp = tempfile::tempdir().unwrap();
        let layout = BatchLayout::new(&small_graph(temp.path()), &options(&[3, 2], 10, None)).unwrap();
        let mut payload = vec![0; layout.batch_bytes()];
        sampled().write(&mut payload);
        for length in [0, 1, BatchHeader::bytes(0), layout.header_bytes(), layout.batch_bytes() - 1] {
            let refused = layout.read_header(&payload[..length]).unwrap_err();
            assert!(refused.contains(&length.to_string()), "{refused}");
        }
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
            aggregation in proptest::sample::select(&Aggregation::ALL[..]),
            sampler_kind in proptest::sample::select(&SamplerKind::ALL[..]),
        ) {
            // One dataset for all cases: only its sizes matter.
            static DATASET: std::sync::OnceLock<(tempfile::TempDir, Dataset)> = std::sync::OnceLock::new();
            let (_, dataset) = DATASET.get_or_init(|| {
                let temp = tempfile::tempdir().unwrap();
                let dataset = small_graph(temp.path());
                (temp, dataset)
            });
            let options = with(options(&fanouts, batch_size, Some(slot_bytes)), sampler_kind, degrees, edge_ids);
            let layout = BatchLayout::new(dataset, &BatchSpec { aggregation, ..options }).unwrap();
            let header = full(&layout);
            let mut ranges: Vec<_> = layout.copied(&header).collect();
            prop_assert_eq!(ranges.iter().map(|range| range.end).collect::<Vec<_>>(), layout.ends());
            let layers = layout.layers().len();
            ranges.extend((0..layers).filter_map(|l| Some(layout.place(Column::EdgeAttr.at(l))?.used(&header))));
            prop_assert!(ranges.last().is_none_or(|range| range.end <= layout.arrays_bytes()));
            let features = [Column::X, Column::Aggregated].map(|column| layout.range(&header, column));
            let rows: usize = features.iter().map(Range::len).sum();
            let first = ranges.len();
            ranges.extend(features.into_iter().filter(|range| !range.is_empty()));
            prop_assert_eq!(ranges.len() - first, if aggregation.keeps_own_rows() { 2 } else { 1 });
            prop_assert_eq!(ranges[first].start % PAGE, 0);
            let mut end = layout.header_bytes();
            for range in ranges {
                prop_assert_eq!(range.start % CACHE_LINE, 0);
                prop_assert!(range.start >= end, "{:?} begins before {}", range, end);
                end = range.end;
            }
            prop_assert_eq!(end, layout.feature_slot_bytes());
            prop_assert!(layout.device_slot_bytes() >= end);
            prop_assert_eq!(end, layout.used_bytes(&header));
            prop_assert!(rows as u64 <= slot_bytes);
            // Without gaps: no batch uses more than the largest.
            prop_assert!(SlotRoom::largest(&layout).holds(&layout, &header));
            let arrays = layout.packed(&header).last().map_or(0, |(_, range)| range.end);
            let mut end = arrays.next_multiple_of(PAGE);
            for (place, range) in layout.packed_features(&header) {
                prop_assert_eq!(range.start, end);
                prop_assert_eq!(range.len(), place.used(&header).len());
                end = range.end.next_multiple_of(CACHE_LINE);
            }
            prop_assert_eq!(layout.packed_bytes(&header).next_multiple_of(CACHE_LINE), end);
        }
    }

    #[test]
    fn a_batch_of_a_hop_set_has_a_table_for_each_hop_read_and_no_layers() {
        let temp = tempfile::tempdir().expect("a directory");
        let dataset = small_graph(temp.path());
        let spec = BatchSpec { tables: Some(3), ..options(&[], 10, None) };
        let layout = BatchLayout::new(&dataset, &spec).expect("a layout");
        assert!(!layout.sizes_vary() && !layout.reads_rows_by_id() && layout.layers().is_empty());
        assert_eq!((layout.parts(Column::X), layout.parts(Column::Labels)), (Some(3), None));
        assert_eq!(layout.feature_columns(), [0, 1, 2].map(|table| Column::X.part(table)));
        assert_eq!((layout.tables(), layout.row_bytes(), layout.table_row_bytes()), (3, 12, 36));
        let key = BatchKey { split: Split::Train, epoch: 0, batch: 0 };
        let counts = BatchCounts::of_blocks(7, []);
        let header = BatchHeader::of_batch(key, &counts);
        let ranges: Vec<_> = (0..3).map(|table| layout.range(&header, Column::X.part(table))).collect();
        for (range, next) in ranges.iter().zip(&ranges[1..]) {
            assert_eq!((range.len(), range.start % 64), (7 * 12, 0));
            // Ten rows, and the rest of a cache line.
            assert_eq!(next.start - range.start, 128);
        }
        assert_eq!(ranges[0].start % PAGE, 0);
        assert_eq!(layout.used_bytes(&header), ranges[2].end);
        assert_eq!(layout.range(&header, Column::X.part(3)), 0..0);
        let mut payload = vec![0_u8; layout.feature_slot_bytes()];
        header.write(&mut payload);
        assert_eq!(layout.read_header(&payload).map(|header| header.seeds()), Ok(7));
        let graph = BatchLayout::new(&dataset, &options(&[2], 10, None)).expect("a layout");
        assert!(graph.sizes_vary() && graph.reads_rows_by_id() && graph.parts(Column::X).is_none());
        assert_eq!((graph.tables(), graph.table_row_bytes()), (1, 12));
        assert_eq!(graph.feature_columns(), FEATURE_COLUMNS.map(ColumnKey::from));
    }
}
