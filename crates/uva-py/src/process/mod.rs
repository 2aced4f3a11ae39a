//! What a module has to know of its process: forks, signals, the interpreter and its end.

pub mod ending;
pub mod fork;
pub mod interpreter;
pub mod interrupt;
pub mod temporary;
