//! Signals that end a command: at once, or after what it has done is kept.

pub mod ending;
pub mod interrupt;
