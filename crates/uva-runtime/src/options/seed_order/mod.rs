//! The order of a run's training seeds other than the shuffle: its request and its result.

mod asked;
mod made;

pub use asked::{AskedOrder, MOST_SEQUENCES};
pub use made::{LabelErrors, MadeOrder};
