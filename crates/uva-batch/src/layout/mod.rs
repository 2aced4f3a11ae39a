//! The place of each column of a batch in a slot, and the sizes of slots.

mod batch_layout;
mod column_place;
mod columns_mut;
mod feature_parts;
mod pad;
mod slot_room;

pub use batch_layout::BatchLayout;
pub use column_place::ColumnPlace;
pub use columns_mut::ColumnsMut;
pub use feature_parts::FEATURE_COLUMNS;
pub use pad::pad;
pub use slot_room::SlotRoom;
