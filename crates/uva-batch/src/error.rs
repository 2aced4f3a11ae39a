//! Errors of a run's layout, and of access to a batch's columns.

use uva_graph::ElementType;
use uva_sample::SampleError;

use crate::Element;
use uva_options::ByteSize;

/// The reason why batches with these options do not fit into slots.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LayoutError {
    /// Batches with these options have no bound, or no batch fits.
    #[error(transparent)]
    Bounds(#[from] SampleError),
    /// Slots would exceed the address space.
    #[error(
        "a slot for the largest batch would not fit the address space: lower `batch_size` or `fanouts`, or give \
         `slot_bytes`"
    )]
    TooLarge,
    /// The slot bytes hold fewer feature rows than a batch has seeds.
    #[error(
        "`slot_bytes={}`: it holds {rows} feature rows of {row_bytes} bytes, but a batch has {seeds} seeds: raise it, \
         or lower `batch_size`",
        ByteSize::from_bytes(*bytes as u64).value()
    )]
    RowsBelowSeeds {
        /// The given bytes.
        bytes: usize,
        /// Rows that fit into these bytes.
        rows: usize,
        /// Bytes of a row.
        row_bytes: usize,
        /// Seeds of a batch.
        seeds: usize,
    },
    /// Edge features are requested, but the dataset has none.
    #[error(
        "`edge_attr`: the dataset has no edge features: no edge_feat.npy, and no feat.npy of a relation \
         (docs/reference/data-format.md)"
    )]
    NoEdgeFeatures,
    /// float32 is requested for a table of integers.
    #[error(
        "`feature_type=float32`: feat.npy has {table} values, and only f16, bf16 and e4m3 are converted. Omit \
         `feature_type`, and convert where the batch is used, as in batch.x.float()"
    )]
    NotWidened {
        /// The table's type.
        table: ElementType,
    },
}

impl LayoutError {
    /// The option to change, if there is one.
    #[must_use]
    pub fn field(&self) -> Option<&'static str> {
        match self {
            Self::Bounds(error) => error.field(),
            Self::TooLarge | Self::RowsBelowSeeds { .. } => Some("slot_bytes"),
            Self::NoEdgeFeatures => Some("edge_attr"),
            Self::NotWidened { .. } => Some("feature_type"),
        }
    }
}

/// The reason why a batch has no such column, or not with the requested type.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ColumnError {
    /// No column has this name.
    #[error("a batch has no column `{name}`{}", suggestion(.nearest))]
    Unknown {
        /// The given name.
        name: String,
        /// The most similar name.
        nearest: Option<String>,
    },
    /// The batch has fewer layers.
    #[error("layer {layer}: this batch has {layers} layers, counted from 0")]
    NoSuchLayer {
        /// The given layer.
        layer: usize,
        /// Layers of the batch.
        layers: usize,
    },
    /// Batches of this run do not have the column.
    #[error("this batch has no `{name}`: {why}")]
    Absent {
        /// The column's name.
        name: String,
        /// The option that adds the column.
        why: &'static str,
    },
    /// The column's values have another type.
    #[error("`{name}` has {is} values, not {wanted}")]
    OtherType {
        /// The column's name.
        name: String,
        /// The requested type.
        wanted: Element,
        /// The actual type.
        is: Element,
    },
    /// The column is in a GPU's memory.
    #[error("`{name}` is on a GPU: `on_device` lends it")]
    OnDevice {
        /// The column's name.
        name: String,
    },
}

fn suggestion(nearest: &Option<String>) -> String {
    nearest.as_ref().map_or_else(String::new, |near| format!("; the nearest name is `{near}`"))
}
