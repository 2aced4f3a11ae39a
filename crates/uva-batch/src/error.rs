//! Errors of a run's layout, and of access to a batch's columns.

use uva_graph::ElementType;
use uva_sample::SampleError;

use crate::Element;
use uva_options::ByteSize;

/// Why batches of these options cannot lie in slots.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LayoutError {
    /// No batch of these options has a bound, or none fits.
    #[error(transparent)]
    Bounds(#[from] SampleError),
    /// Slots would be larger than memory can be addressed.
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
        /// Bytes given.
        bytes: usize,
        /// Rows that they hold.
        rows: usize,
        /// Bytes of a row.
        row_bytes: usize,
        /// Seeds of a batch.
        seeds: usize,
    },
    /// Rows of the edges' features, and there are none.
    #[error(
        "`edge_attr`: the dataset has no edge_feat.npy, where the features of edges are (docs/reference/data-format.md)"
    )]
    NoEdgeFeatures,
    /// float32 of a table of integers.
    #[error(
        "`feature_type=float32`: feat.npy has {table} values, and only f16, bf16 and e4m3 are widened on the way. Leave \
         `feature_type` out, and convert where the batch is used, as in batch.x.float()"
    )]
    NotWidened {
        /// The table's type.
        table: ElementType,
    },
}

impl LayoutError {
    /// The option to change, where there is one.
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

/// Why a batch has no such column, or not with the requested type.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ColumnError {
    /// No column has that name.
    #[error("`{name}` is no column of a batch{}", suggestion(.nearest))]
    Unknown {
        /// The name given.
        name: String,
        /// The one most like it.
        nearest: Option<String>,
    },
    /// The batch has fewer layers.
    #[error("layer {layer}: this batch has {layers} layers, counted from 0")]
    NoSuchLayer {
        /// The layer given.
        layer: usize,
        /// Layers of the batch.
        layers: usize,
    },
    /// This run's batches come without it.
    #[error("this batch has no `{name}`: {why}")]
    Absent {
        /// The column's name.
        name: String,
        /// What brings it.
        why: &'static str,
    },
    /// Its values are of another type.
    #[error("`{name}` has {is} values, not {wanted}")]
    OtherType {
        /// The column's name.
        name: String,
        /// The requested type.
        wanted: Element,
        /// The type that it has.
        is: Element,
    },
    /// It is in a GPU's memory.
    #[error("`{name}` is on a GPU: `on_device` lends it")]
    OnDevice {
        /// The column's name.
        name: String,
    },
}

fn suggestion(nearest: &Option<String>) -> String {
    nearest.as_ref().map_or_else(String::new, |near| format!("; the nearest name is `{near}`"))
}
