//! Signals that end a command, at once or after its results are kept.

pub mod ending;
pub mod interrupt;
