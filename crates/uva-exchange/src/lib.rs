//! Exchange of bytes between the ranks of a group: each rank sends bytes to every rank and receives bytes from each.
//!
//! [`Exchange`] is the contract, and the `conformance` module (behind the feature of that name) checks it. [`Single`]
//! is a group of one rank. [`SharedMemory`] joins ranks of one machine, as threads or processes. A [`Book`] has the
//! rows that each rank owns.
//!
//! This crate must not depend on the meaning of the bytes: rows, graphs or devices. Next: `uva-mem` (the slot ring that
//! transports the bytes), and `Remote` of `uva-rows` (rows of other ranks).

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
