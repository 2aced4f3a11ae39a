//! The state of the process that a module depends on: forks, signals, the interpreter and its end.

pub mod ending;
pub mod fork;
pub mod interpreter;
pub mod interrupt;
pub mod temporary;
