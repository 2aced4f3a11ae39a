//! Bytes exchanged between the ranks of a group: each rank gives every rank some bytes and gets some from each.
//!
//! [`Exchange`] is the contract, and the `conformance` module (behind the feature of that name) checks it. [`Single`] is
//! a group of one rank. [`SharedMemory`] joins ranks of one machine, as threads or processes. A [`Book`] says which rank
//! owns which rows.
//!
//! This crate must not know what the bytes mean: no rows, no graphs, no devices. Next: `uva-mem` (the slot ring, through
//! which the bytes pass), and `Remote` of `uva-rows` (rows of other ranks).

#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod book;
#[cfg(feature = "conformance")]
pub mod conformance;
mod error;
mod exchange;
mod shared;
mod single;

pub use book::{Book, BookError};
pub use error::{Cause, ExchangeError};
pub use exchange::{Canceller, Exchange, Splits};
pub use shared::{Group, Link, MOST_RANKS, Settings, SharedMemory};
pub use single::Single;
