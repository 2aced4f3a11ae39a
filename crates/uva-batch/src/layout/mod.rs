//! The place of each column of a batch in a slot, and the sizes of slots.

mod batch_layout;
mod column_place;
mod columns_mut;
mod pad;
mod slot_room;

pub use batch_layout::BatchLayout;
pub use column_place::ColumnPlace;
pub use columns_mut::ColumnsMut;
pub use pad::pad;
pub use slot_room::SlotRoom;
