//! METIS's division of a graph into parts (Karypis and Kumar 1998), by the library that a machine has.
//!
//! The library is opened when it is asked for, so neither builds nor other methods need it. It exists with numbers of 32
//! and of 64 bits and says in no function which: [`Metis::open`] finds out. All of its options keep their defaults, among
//! them the seed: their places differ between METIS 5.1 and 5.2, and nothing tells these apart either.
//!
//! This crate must not know of datasets, training or options of a program.
#![deny(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod error;
mod library;
mod lists;

pub use error::MetisError;
pub use library::{Metis, VARIABLE};
pub use lists::Lists;
