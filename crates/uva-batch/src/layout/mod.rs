//! Where each column of a batch lies in a slot, and how large slots are.

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
