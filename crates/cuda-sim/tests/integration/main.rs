//! The simulated driver, called as the project calls it.

#![allow(clippy::macro_metavars_in_unsafe, reason = "the arguments of `code!` are plain values and places")]

mod common;
mod driver;
mod memory;
mod processes;
