//! The place of each column of a batch in a slot, and the sizes of slots.

mod arrangement;
mod batch_layout;
mod column_place;
mod columns_mut;
mod feature_parts;
mod packed;
mod pad;
mod slot_room;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod typed_tests;

pub use batch_layout::BatchLayout;
pub use column_place::ColumnPlace;
pub use columns_mut::ColumnsMut;
pub use feature_parts::{FEATURE_COLUMNS, RowShape};
pub use pad::pad;
pub use slot_room::SlotRoom;
