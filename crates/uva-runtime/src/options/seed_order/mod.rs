//! The order of a run's training seeds, where that is another than the shuffle: as asked for, and as made.

mod asked;
mod made;

pub use asked::{AskedOrder, MOST_SEQUENCES};
pub use made::{LabelErrors, MadeOrder};
