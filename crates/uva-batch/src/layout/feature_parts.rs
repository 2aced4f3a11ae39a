//! The feature rows of a run's batches: their columns, and how rows are found.

use crate::{Column, ColumnKey};

/// The columns of feature rows, and of the producer's sums of them, in the order of a slot. They come last.
pub const FEATURE_COLUMNS: [Column; 3] = [Column::X, Column::Aggregated, Column::Argmax];

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
    /// The rows of a batch that is sampled in a graph, one for each node; with `tables`, those of a batch whose rows are in
    /// this many tables.
    pub fn new(tables: Option<usize>) -> Self {
        match tables {
            None => Self {
                columns: FEATURE_COLUMNS.map(ColumnKey::from).into(),
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
