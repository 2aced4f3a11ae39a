//! The feature rows of a run's batches: their columns, and how rows are found.

use uva_graph::ElementType;

use crate::{Column, ColumnKey};

/// The columns of feature rows, and of the producer's sums of them, in the order of a slot. They come last.
pub const FEATURE_COLUMNS: [Column; 3] = [Column::X, Column::Aggregated, Column::Argmax];

/// Whether it is one of the columns of feature rows, which come last.
pub(super) fn of_features(column: Column) -> bool {
    FEATURE_COLUMNS.contains(&column)
}

/// The shape of the feature rows of a node type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowShape {
    /// Values per row.
    pub dim: usize,
    /// Type of a value in a slot.
    pub element: ElementType,
    /// The table's own type, if the producer widens it.
    pub widened_from: Option<ElementType>,
}

impl RowShape {
    /// Bytes of a row in a slot.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.dim * self.element.bytes()
    }

    /// Bytes of a row in the table.
    #[must_use]
    pub fn table_bytes(&self) -> usize {
        self.dim * self.widened_from.unwrap_or(self.element).bytes()
    }
}

/// The feature rows of a run's batches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FeatureParts {
    /// The columns in the order of a slot. A batch may lack some.
    pub columns: Box<[ColumnKey]>,
    /// Number of tables into which the rows of [`Column::X`] are divided; `None` for a single undivided table.
    pub tables: Option<usize>,
    /// The column with the ids of the rows.
    pub row_ids: Column,
    /// Whether rows are read one by one, by their ids. Otherwise they are read in runs of consecutive rows.
    pub read_by_id: bool,
    /// Whether batches with equally many seeds differ in size.
    pub sizes_vary: bool,
}

impl FeatureParts {
    /// The rows of a batch that is sampled in a graph, one for each node of types with rows; with `tables`, those of a batch
    /// whose rows are in this many tables.
    pub fn new(tables: Option<usize>, rows: &[Option<RowShape>]) -> Self {
        match tables {
            None => Self {
                columns: (0..rows.len())
                    .filter(|of_type| rows[*of_type].is_some())
                    .map(|of_type| Column::X.part(of_type))
                    .chain(FEATURE_COLUMNS[1..].iter().map(|column| ColumnKey::from(*column)))
                    .collect(),
                tables,
                row_ids: Column::InputNodes,
                read_by_id: true,
                sizes_vary: true,
            },
            Some(count) => Self {
                columns: (0..count).map(|table| Column::X.part(table)).collect(),
                tables,
                row_ids: Column::InputId,
                read_by_id: false,
                sizes_vary: false,
            },
        }
    }
}
