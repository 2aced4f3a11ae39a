//! Views of a batch in any slot memory.

mod batch_view;
mod columns;
mod feature_rows;

pub use batch_view::{BatchView, ColumnRef, RawArray, SlotMemory};
pub use columns::{ArrayMemory, BatchColumns, ColumnArray, Proof};
pub use feature_rows::FeatureRows;
