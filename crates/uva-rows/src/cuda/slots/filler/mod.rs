//! Slots of device memory, filled one after another: a producer's work for each batch.

mod fill;
mod filler_state;
mod slot_filler;

pub use fill::{BeginSums, BroughtRows, Fill, HostMadeRows, HostPartialSums, MakeRows, OnDevice, SlotPlace};
pub use slot_filler::SlotFiller;
