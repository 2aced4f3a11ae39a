//! Views of a batch: its columns, typed or by name, in any slot memory.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytemuck::Pod;
use half::{bf16, f16};
use uva_cuda::DeviceSlice;
use uva_graph::{FeatureTable, Labels, Metagraph, NodeType, Relation, Split};
use uva_sample::{BlockRef, BlockSize, ListReads, TypeSize};

use super::columns::{labels_of, values_of};
use crate::schema::Presence;
use crate::{
    Aggregation, ArrayMemory, BatchColumns, BatchHeader, BatchLayout, Column, ColumnArray, ColumnError,
    ColumnKey, ColumnPlace, Element, FeatureRows,
};

/// The memory of a slot that holds a batch.
pub trait SlotMemory {
    /// Bytes of the slot; `None` if they are in GPU memory only.
    ///
    /// # Panics
    /// If they are not within the slot. A header that was checked against the layout has no such range.
    fn host(&self, range: Range<usize>) -> Option<&[u8]>;

    /// Bytes of the slot in a GPU's memory, with that GPU's index; `None` if they are in host memory.
    ///
    /// # Panics
    /// See [`SlotMemory::host`].
    fn device(&self, range: Range<usize>) -> Option<(DeviceSlice<'_>, usize)>;

    /// Whether the slot is on a GPU, where its columns are [packed](BatchLayout::packed).
    fn is_packed(&self) -> bool;

    /// The slot's first byte in host memory, which its reader may write to; `None` on a GPU.
    fn first_byte(&self) -> Option<*mut u8>;
}

/// A batch in a slot's memory. On a GPU ([`BatchView::is_on_device`]), methods that return host slices panic or return
/// an error; counts, times and hash are always available.
#[derive(Debug)]
pub struct BatchView<M> {
    memory: M,
    layout: Arc<BatchLayout>,
    header: BatchHeader,
}

impl<M: SlotMemory> BatchView<M> {
    /// The batch of this header, which must have been checked against the layout.
    pub fn new(memory: M, layout: Arc<BatchLayout>, header: BatchHeader) -> Self {
        Self { memory, layout, header }
    }

    /// The layout of its columns.
    pub fn layout(&self) -> &BatchLayout {
        &self.layout
    }

    /// Its header.
    pub fn header(&self) -> &BatchHeader {
        &self.header
    }

    /// The memory that it is in.
    pub fn memory(&self) -> &M {
        &self.memory
    }

    /// The memory that it is in, mutable.
    pub fn memory_mut(&mut self) -> &mut M {
        &mut self.memory
    }

    /// A column by its full name: `labels`, `x`, `block0.indptr`, or in typed graphs `x.paper`,
    /// `block0.author__writes__paper.indptr` ([`ColumnKey::parse`]). [`COLUMNS`](crate::COLUMNS) lists them.
    ///
    /// ```
    /// # use uva_batch::{BatchView, ColumnError, SlotMemory};
    /// # fn of<M: SlotMemory>(batch: &BatchView<M>) -> Result<(), ColumnError> {
    /// let nodes: &[i64] = batch.column("input_nodes")?.i64()?;
    /// let picks: &[i32] = batch.column("block0.indices")?.i32()?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`ColumnError::Unknown`] with the nearest name, [`ColumnError::NoSuchLayer`], [`ColumnError::Absent`] if batches
    /// of this run do not have it.
    pub fn column(&self, name: &str) -> Result<ColumnRef<'_>, ColumnError> {
        self.column_of(self.layout.key(name)?)
    }

    /// A column by its key.
    ///
    /// # Errors
    /// [`ColumnError::NoSuchLayer`], or [`ColumnError::Absent`] if batches of this run do not have it.
    pub fn column_of(&self, key: impl Into<ColumnKey>) -> Result<ColumnRef<'_>, ColumnError> {
        let key = key.into();
        if key.column.spec().is_of_layers() && key.layer >= self.layers() {
            return Err(ColumnError::NoSuchLayer { layer: key.layer, layers: self.layers() });
        }
        let place = self.layout.place(key).ok_or_else(|| ColumnError::Absent {
            name: key.name_in(self.layout.metagraph()),
            why: match key.column.spec().presence {
                Presence::WeighedEdges => "its kind of sampler weighs no edges",
                Presence::ForModel => {
                    "only runs whose built-in model or aggregation (`aggregate=gcn`) needs it have it"
                }
                Presence::Labelled => "the dataset has no labels",
                Presence::Padded => "the run does not pad its batches",
                Presence::Rows => {
                    "its producer aggregates the rows, and the model reads only the sums (column `aggregated`)"
                }
                Presence::Summed => "only a run whose producer aggregates rows has it",
                Presence::Asked | Presence::Always => "the run does not request this column",
            },
        })?;
        let (metagraph, rows) = (self.layout.metagraph(), place.rows(&self.header));
        Ok(ColumnRef { place, metagraph, memory: &self.memory, rows, range: self.range(key) })
    }

    /// The column's values in host memory; empty if the batches do not have it.
    fn slice<T: Pod>(&self, key: impl Into<ColumnKey>) -> &[T] {
        values_of(self.bytes(self.range(key.into())))
    }

    fn range(&self, key: ColumnKey) -> Range<usize> {
        if self.memory.is_packed() {
            self.layout.packed_range(&self.header, key)
        } else {
            self.layout.range(&self.header, key)
        }
    }

    fn bytes(&self, range: Range<usize>) -> &[u8] {
        match self.memory.host(range) {
            Some(bytes) => bytes,
            None => panic!("the batch is on a GPU: `columns` lends its arrays"),
        }
    }

    /// Whether its columns are in a GPU's memory, where the methods that return host slices panic.
    pub fn is_on_device(&self) -> bool {
        self.memory.device(0..0).is_some()
    }

    /// Its arrays by key, in host memory or on a GPU.
    pub fn columns(&self) -> BatchColumns<'_> {
        let layers = (0..self.layers()).map(|layer| self.counts(layer)).collect();
        let mut columns = BatchColumns {
            nodes: self.node_count(),
            padding: self.seed_count() - self.real_seed_count(),
            ..BatchColumns::new(self.seed_count(), layers)
        };
        for place in self.layout.columns().iter().filter(|place| place.is_in(&self.header)) {
            let range = self.range(place.key);
            let memory = match self.memory.device(range.clone()) {
                Some((slice, _)) => ArrayMemory::Device(slice),
                None => ArrayMemory::Host(self.bytes(range)),
            };
            let (element, rows, width) = (place.element, place.rows(&self.header), place.width);
            columns.arrays.insert(place.key, ColumnArray { memory, element, rows, width });
        }
        columns
    }

    /// Whether it is padded to the run's static shapes: counts and columns then include padding.
    pub fn is_padded(&self) -> bool {
        self.header.is_padded()
    }

    /// Number of real (non-padding) seeds, which are the first ones.
    pub fn real_seed_count(&self) -> usize {
        self.header.real_seeds()
    }

    /// Number of real (non-padding) nodes. Those of each level are at the beginning of their level.
    pub fn real_node_count(&self) -> usize {
        self.header.real_nodes()
    }

    /// The size of a layer's block without padding.
    ///
    /// # Panics
    /// If the layer does not exist.
    pub fn real_counts(&self, layer: usize) -> BlockSize {
        assert!(layer < self.layers(), "layer {layer} of {}", self.layers());
        self.header.real_layer(layer)
    }

    /// Number of real (non-padding) edges of a layer, of all relations.
    ///
    /// # Panics
    /// If the layer does not exist.
    pub fn real_edges(&self, layer: usize) -> usize {
        let relations = self.layout.metagraph().relations();
        relations.map(|relation| self.header.real_block(layer, relation).edges).sum()
    }

    /// Number of seeds.
    pub fn seed_count(&self) -> usize {
        self.header.seeds()
    }

    /// Number of nodes, the seeds included.
    pub fn node_count(&self) -> usize {
        self.header.nodes()
    }

    /// Numbers of destinations, sources and edges of a layer's block.
    ///
    /// # Panics
    /// If the layer does not exist.
    pub fn counts(&self, layer: usize) -> BlockSize {
        assert!(layer < self.layers(), "layer {layer} of {}", self.layers());
        self.header.layer(layer)
    }

    /// The split of the seeds.
    pub fn split(&self) -> Split {
        self.header.key().split
    }

    /// The epoch, from 0; 0 for test batches.
    pub fn epoch(&self) -> u32 {
        self.header.key().epoch
    }

    /// The batch's number within its pass, from 0.
    pub fn index(&self) -> u32 {
        self.header.key().batch
    }

    /// The batch's hash (docs/spec/reproducible-batches.md).
    pub fn hash(&self) -> u64 {
        self.header.hash()
    }

    /// Ids of all nodes of the batch, the seeds first: row `i` of the features belongs to `input_nodes()[i]`.
    ///
    /// # Panics
    /// On a GPU, like every method that returns a host slice: see [`BatchView::is_on_device`].
    pub fn input_nodes(&self) -> &[i64] {
        self.slice(Column::InputNodes)
    }

    /// Ids of the seeds.
    pub fn seeds(&self) -> &[i64] {
        self.slice(Column::Seeds)
    }

    /// Position of each seed in its split, as in PyG's loaders; empty unless the options request it.
    pub fn input_id(&self) -> &[i64] {
        self.slice(Column::InputId)
    }

    /// Labels of the seeds.
    pub fn labels(&self) -> Labels<'_> {
        let Some(place) = self.layout.place(Column::Labels) else { return Labels::Absent };
        labels_of(self.slice(Column::Labels), place.element, place.width)
    }

    /// In-degree of each input node in the whole graph; empty unless the options request them.
    pub fn degrees(&self) -> &[i32] {
        self.slice(Column::Degrees)
    }

    /// Feature rows, row `i` for `input_nodes()[i]`; 64-byte aligned. If the producer sums, there are only rows for the
    /// outermost layer's destinations, or no rows ([`Aggregation`](crate::Aggregation)).
    pub fn features(&self) -> FeatureTable<'_> {
        FeatureTable {
            bytes: self.slice(Column::X),
            rows: self.layout.place(Column::X).map_or(0, |place| place.rows(&self.header)),
            dim: self.layout.dim(),
            element: self.layout.element(),
        }
    }

    /// The seeds' rows in one of the tables of a hop set that the model reads, row `i` for `seeds()[i]`; 64-byte
    /// aligned. [`features`](Self::features) is the first.
    ///
    /// # Panics
    /// If the table does not exist, and on a GPU.
    pub fn table(&self, table: usize) -> FeatureTable<'_> {
        assert!(table < self.layout.tables(), "table {table} of {}", self.layout.tables());
        FeatureTable { bytes: self.slice(Column::X.part(table)), ..self.features() }
    }

    /// The sums or maxima of the outermost layer's lists, row `i` for `input_nodes()[i]`; `None` if the producer makes
    /// none.
    pub fn aggregated(&self) -> Option<FeatureRows<'_, f32>> {
        if self.layout.aggregation_of(&self.header) == Aggregation::None {
            return None;
        }
        Some(FeatureRows::new(self.slice(Column::Aggregated), self.layout.dim()))
    }

    /// The row that each maximum of [`aggregated`](Self::aggregated) is from, as a position in `input_nodes()`: the
    /// first of equal values in the list's order, and the first NaN; -1 if the list is empty. `None` unless the run
    /// requests it.
    pub fn argmax(&self) -> Option<FeatureRows<'_, i32>> {
        self.layout.place(Column::Argmax)?;
        Some(FeatureRows::new(self.slice(Column::Argmax), self.layout.dim()))
    }

    /// Feature rows as float32.
    ///
    /// ```
    /// # use uva_batch::{BatchView, ColumnError, SlotMemory};
    /// # fn of<M: SlotMemory>(batch: &BatchView<M>) -> Result<(), ColumnError> {
    /// for (node, row) in batch.input_nodes().iter().zip(batch.features_f32()?) {
    ///     println!("node {node}: {row:?}");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`ColumnError::OtherType`] with the actual type, or [`ColumnError::OnDevice`].
    pub fn features_f32(&self) -> Result<FeatureRows<'_, f32>, ColumnError> {
        self.feature_rows(Element::F32)
    }

    /// Feature rows as float16.
    ///
    /// # Errors
    /// As [`BatchView::features_f32`].
    pub fn features_f16(&self) -> Result<FeatureRows<'_, f16>, ColumnError> {
        self.feature_rows(Element::F16)
    }

    /// Feature rows as bfloat16.
    ///
    /// # Errors
    /// As [`BatchView::features_f32`].
    pub fn features_bf16(&self) -> Result<FeatureRows<'_, bf16>, ColumnError> {
        self.feature_rows(Element::Bf16)
    }

    fn feature_rows<T: Pod>(&self, wanted: Element) -> Result<FeatureRows<'_, T>, ColumnError> {
        let values = self.column_of(Column::X)?.values(wanted)?;
        Ok(FeatureRows::new(values, self.layout.dim()))
    }

    /// The node types and relations that the methods for a type or relation take.
    pub fn metagraph(&self) -> &Metagraph {
        self.layout.metagraph()
    }

    /// Numbers of seeds and of all nodes of a type.
    ///
    /// # Panics
    /// If the type does not exist, as all methods for a type.
    pub fn sizes_of(&self, node_type: NodeType) -> TypeSize {
        self.header.of_type(node_type)
    }

    /// Ids of the nodes of a type, its seeds first.
    ///
    /// # Panics
    /// On a GPU.
    pub fn nodes_of(&self, node_type: NodeType) -> &[i64] {
        self.slice(Column::InputNodes.of(node_type))
    }

    /// Ids of the seeds of a type.
    ///
    /// # Panics
    /// On a GPU.
    pub fn seeds_of(&self, node_type: NodeType) -> &[i64] {
        self.slice(Column::Seeds.of(node_type))
    }

    /// Labels of the seeds of a type.
    ///
    /// # Panics
    /// On a GPU.
    pub fn labels_of(&self, node_type: NodeType) -> Labels<'_> {
        let key = Column::Labels.of(node_type);
        let Some(place) = self.layout.place(key) else { return Labels::Absent };
        labels_of(self.slice(key), place.element, place.width)
    }

    /// Feature rows of the nodes of a type, row `i` for `nodes_of(node_type)[i]`; 64-byte aligned. `None` if the type has
    /// no features.
    ///
    /// # Panics
    /// On a GPU.
    pub fn rows_of(&self, node_type: NodeType) -> Option<FeatureTable<'_>> {
        let (key, shape) = (Column::X.of(node_type), self.layout.rows_of(node_type)?);
        let rows = self.layout.place(key)?.rows(&self.header);
        Some(FeatureTable { bytes: self.slice(key), rows, dim: shape.dim, element: shape.element })
    }

    /// The block of a relation in a layer; layer 0 is the hop at the seeds. Destinations are the first nodes of the
    /// relation's destination type, sources the first of its source type.
    ///
    /// # Panics
    /// If the layer or relation does not exist, and on a GPU.
    pub fn block_of(&self, layer: usize, relation: Relation) -> BlockRef<'_> {
        assert!(layer < self.layers(), "layer {layer} of {}", self.layers());
        let BlockSize { destinations, sources, .. } = self.header.block(layer, relation);
        BlockRef {
            destinations,
            sources,
            indptr: self.slice(Column::Indptr.between(layer, relation)),
            indices: self.slice(Column::Indices.between(layer, relation)),
            edge_ids: self.slice(Column::EdgeIds.between(layer, relation)),
            weights: self.slice(Column::Weights.between(layer, relation)),
        }
    }

    /// Layers of the batch, one per fanout.
    pub fn layers(&self) -> usize {
        self.layout.layers()
    }

    /// The block of a layer of the first relation; layer 0 is the hop at the seeds.
    ///
    /// # Panics
    /// If the layer does not exist.
    pub fn block(&self, layer: usize) -> BlockRef<'_> {
        self.block_of(layer, Relation::ONLY)
    }

    /// Feature rows of a layer's edges, row `i` for `block(layer).indices[i]`; `None` unless the options request them.
    ///
    /// # Panics
    /// See [`BatchView::block`].
    pub fn edge_attr(&self, layer: usize) -> Option<FeatureTable<'_>> {
        self.edge_attr_of(layer, Relation::ONLY)
    }

    /// Feature rows of a relation's edges in a layer, row `i` for `block_of(layer, relation).indices[i]`; `None` if the
    /// relation has none, and unless the options request them.
    ///
    /// # Panics
    /// See [`BatchView::block_of`].
    pub fn edge_attr_of(&self, layer: usize, relation: Relation) -> Option<FeatureTable<'_>> {
        let (element, dim) = self.layout.edge_attr_of(relation)?;
        let rows = self.header.block(layer, relation).edges;
        Some(FeatureTable {
            bytes: self.slice(Column::EdgeAttr.between(layer, relation)),
            rows,
            dim,
            element,
        })
    }

    /// Type of each of a layer's edges, in the order of `block(layer).indices`; empty unless the options request them.
    pub fn edge_type(&self, layer: usize) -> &[u16] {
        self.slice(Column::EdgeType.at(layer))
    }

    /// Index of the sampler that made it, from 0.
    pub fn sampler(&self) -> u32 {
        self.header.sampler()
    }

    /// The start times of its sampling and its gathering, by a clock that all processes of the machine share
    /// (`CLOCK_MONOTONIC`).
    pub fn began(&self) -> [Duration; 2] {
        self.header.began()
    }

    /// The duration of its sampling.
    pub fn sample_time(&self) -> Duration {
        Duration::from_nanos(self.header.sample_ns())
    }

    /// Reads of neighbour lists during its sampling, and reads of cached lists.
    pub fn list_reads(&self) -> ListReads {
        self.header.list_reads()
    }

    /// Batches that waited for the consumer when the producer began with this one. It determines back-pressure.
    pub fn queue(&self) -> u32 {
        self.header.queue()
    }

    /// Number of the producer's threads that gathered it; 0 if a GPU gathered.
    pub fn pace(&self) -> u32 {
        self.header.pace()
    }
}

/// A column of a batch, for reading.
#[derive(Clone)]
pub struct ColumnRef<'a> {
    place: &'a ColumnPlace,
    metagraph: &'a Metagraph,
    memory: &'a dyn SlotMemory,
    rows: usize,
    range: Range<usize>,
}

impl<'a> ColumnRef<'a> {
    /// Its full name, such as `block0.indptr`.
    pub fn name(&self) -> String {
        self.place.key.name_in(self.metagraph)
    }

    /// The type of its values.
    pub fn element(&self) -> Element {
        self.place.element
    }

    /// Number of its rows, or of its values if it has one dimension.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Values in a row; `None` if it has one dimension.
    pub fn width(&self) -> Option<usize> {
        self.place.width
    }

    /// Its bytes in host memory, in row-major order.
    ///
    /// # Errors
    /// [`ColumnError::OnDevice`].
    pub fn bytes(&self) -> Result<&'a [u8], ColumnError> {
        self.memory.host(self.range.clone()).ok_or_else(|| ColumnError::OnDevice { name: self.name() })
    }

    /// Its int64 values.
    ///
    /// # Errors
    /// [`ColumnError::OtherType`] or [`ColumnError::OnDevice`].
    pub fn i64(&self) -> Result<&'a [i64], ColumnError> {
        self.values(Element::I64)
    }

    /// Its int32 values.
    ///
    /// # Errors
    /// As [`ColumnRef::i64`].
    pub fn i32(&self) -> Result<&'a [i32], ColumnError> {
        self.values(Element::I32)
    }

    /// Its float32 values.
    ///
    /// # Errors
    /// As [`ColumnRef::i64`].
    pub fn f32(&self) -> Result<&'a [f32], ColumnError> {
        self.values(Element::F32)
    }

    /// Its uint16 values.
    ///
    /// # Errors
    /// As [`ColumnRef::i64`].
    pub fn u16(&self) -> Result<&'a [u16], ColumnError> {
        self.values(Element::U16)
    }

    /// Its uint8 values.
    ///
    /// # Errors
    /// As [`ColumnRef::i64`].
    pub fn u8(&self) -> Result<&'a [u8], ColumnError> {
        self.values(Element::U8)
    }

    fn values<T: Pod>(&self, wanted: Element) -> Result<&'a [T], ColumnError> {
        let is = self.place.element;
        if is != wanted {
            return Err(ColumnError::OtherType { name: self.name(), wanted, is });
        }
        self.bytes().map(values_of)
    }

    /// Its address and shape, for code that passes it to another language.
    ///
    /// The address is valid for the lifetime of the batch. The batch's owner may also write its bytes. Code that
    /// permits such writes must prevent concurrent calls of methods that return the bytes as a slice.
    pub fn raw(&self) -> RawArray {
        let (address, device) = match (self.memory.first_byte(), self.memory.device(self.range.clone())) {
            (Some(first), _) => (first.wrapping_add(self.range.start) as u64, None),
            (None, Some((slice, ordinal))) => (slice.address(), Some(ordinal)),
            // With the stand-in driver, device memory is host memory once the host has waited for it.
            (None, None) => {
                (self.memory.host(self.range.clone()).map_or(0, |bytes| bytes.as_ptr() as u64), None)
            }
        };
        let (rows, columns, element) = (self.rows, self.place.width, self.place.element);
        RawArray { address, bytes: self.range.len(), rows, columns, element, device }
    }
}

/// The address and shape of an array in row-major order without gaps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawArray {
    /// Address of its first byte, in this process or on the device. Arrays begin on a cache line, features on a page.
    pub address: u64,
    /// Size in bytes.
    pub bytes: usize,
    /// Number of rows, or of values if it has one dimension.
    pub rows: usize,
    /// Number of columns; `None` if it has one dimension.
    pub columns: Option<usize>,
    /// The type of its values.
    pub element: Element,
    /// The CUDA device that it is on; `None` for host memory.
    pub device: Option<usize>,
}
