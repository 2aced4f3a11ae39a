//! The offset of each column of a batch in a slot.

use std::ops::Range;

use uva_graph::{ElementType, Metagraph, NodeType, Relation};
use uva_sample::{BatchBounds, BlockSize};

use super::feature_parts::{FeatureParts, RowShape, of_features};
use crate::{
    Aggregation, BatchHeader, Column, ColumnError, ColumnKey, ColumnPlace, ColumnsMut, HandOver, StaticShapes,
};

pub(super) const CACHE_LINE: usize = 64;
/// Feature rows start on a page of this size, for any page size of the region.
pub(super) const PAGE: usize = 4096;

/// The offsets and bounds of a slot: equal in every role, since all roles compute them from the same options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchLayout {
    pub(super) bounds: BatchBounds,
    /// The names of node types and relations, and the type whose splits are seeds.
    pub(super) metagraph: Metagraph,
    pub(super) target: NodeType,
    /// The columns of batches, in the order of a slot.
    pub(super) places: Vec<ColumnPlace>,
    /// The feature rows of each node type; `None` for types without features.
    pub(super) rows: Vec<Option<RowShape>>,
    /// Type and number of columns of the feature rows of each relation's edges; `None` if batches have none.
    pub(super) edge_attr: Vec<Option<(ElementType, usize)>>,
    /// The shapes that batches are padded to.
    pub(super) shapes: Option<StaticShapes>,
    /// The rows that the producer sums.
    pub(super) aggregation: Aggregation,
    /// Whether the producer sums in some batches only.
    pub(super) chooses_sums: bool,
    /// The columns of feature rows, and how rows are found.
    pub(super) feature_parts: FeatureParts,
    pub(super) batch_bytes: usize,
    pub(super) arrays_bytes: usize,
}

impl BatchLayout {
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

    /// Layers of a batch.
    pub fn layers(&self) -> usize {
        self.bounds.layers()
    }

    /// The bounds of each block: for each layer, one for each relation.
    pub fn blocks(&self) -> &[BlockSize] {
        &self.bounds.blocks
    }

    /// Whether all nodes are of one type with features, and all edges of one relation.
    pub fn is_homogeneous(&self) -> bool {
        let counts = (self.metagraph.type_count(), self.metagraph.relation_count());
        matches!(counts, (1, 0 | 1)) && self.rows[0].is_some()
    }

    /// The node types and relations of batches.
    pub fn metagraph(&self) -> &Metagraph {
        &self.metagraph
    }

    /// The node type whose splits are seeds.
    pub fn target(&self) -> NodeType {
        self.target
    }

    /// The array of this full name, as in [`ColumnKey::parse`].
    ///
    /// # Errors
    /// [`ColumnError::Unknown`] with the nearest name, or [`ColumnError::NoSuchLayer`].
    pub fn key(&self, name: &str) -> Result<ColumnKey, ColumnError> {
        ColumnKey::parse(name, self.layers(), &self.metagraph, self.target)
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
        BatchHeader::bytes(self.bounds.types.len(), self.bounds.blocks.len())
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
        self.of_features().map(|place| place.room().end).max().unwrap_or(self.arrays_bytes)
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
    pub(super) fn of_features(&self) -> impl Iterator<Item = &ColumnPlace> {
        self.places.iter().filter(|place| of_features(place.key.column))
    }

    /// The shape of the feature rows of a node type; `None` if it has no features.
    ///
    /// # Panics
    /// If the type does not exist.
    pub fn rows_of(&self, node_type: NodeType) -> Option<RowShape> {
        self.rows[node_type.index()]
    }

    /// The shape of the rows of the first type. A type without features has rows of no values.
    fn first_rows(&self) -> RowShape {
        let none = RowShape { dim: 0, element: ElementType::F32, widened_from: None };
        self.rows.first().copied().flatten().unwrap_or(none)
    }

    /// Bytes of one feature row of the first type in a slot. Likewise the methods below.
    pub fn row_bytes(&self) -> usize {
        self.first_rows().bytes()
    }

    /// Elements of one feature row.
    pub fn dim(&self) -> usize {
        self.first_rows().dim
    }

    /// Bytes of one feature row in the dataset. For a hop set, the rows of a node in all tables that batches have.
    pub fn table_row_bytes(&self) -> usize {
        self.tables() * self.first_rows().table_bytes()
    }

    /// The number of tables that a batch's rows are from, if there are others than one for all nodes: those of a hop set, or
    /// those of the node types with features.
    pub fn row_tables(&self) -> Option<usize> {
        let of_types = (self.rows.len(), self.rows.iter().flatten().count());
        self.feature_parts.tables.or((of_types != (1, 1)).then_some(of_types.1))
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
        self.first_rows().element
    }

    /// The features' type in the table, if it differs and the producer widens it.
    pub fn widened_from(&self) -> Option<ElementType> {
        self.first_rows().widened_from
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

    /// Whether batches have the feature rows of the edges of a relation.
    pub fn has_edge_attr(&self) -> bool {
        self.edge_attr.iter().any(Option::is_some)
    }

    /// The type of the feature values of a relation's edges, and their number per row; `None` if batches have none.
    pub fn edge_attr_of(&self, relation: Relation) -> Option<(ElementType, usize)> {
        self.edge_attr.get(relation.index()).copied().flatten()
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
