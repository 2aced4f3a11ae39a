//! A directory of an object store copied to the local disk, before training starts.
//!
//! [`fetch`] lists what lies below a URL (`s3://BUCKET/PREFIX` or `file:///DIRECTORY`), downloads it several pieces at a
//! time, and gives the directory its final name when all of it is there. An object that changes meanwhile is an error, and
//! an error leaves nothing behind. Rows are then read from the local disk as ever: nothing of this crate is in the path of
//! a batch.
//!
//! `s3://` needs the feature `s3`, which is off by default: it is most of what this crate builds.
//!
//! This crate must not know: what the files mean (graphs, parts, rows), training, and command lines. Next: `uva-graph`,
//! whose `staged` makes the directory that appears whole or not at all.
//!
//! ```
//! use uva_fetch::{FetchOptions, fetch};
//!
//! let parent = tempfile::tempdir()?;
//! let store = parent.path().join("store");
//! std::fs::create_dir_all(store.join("part-0"))?;
//! std::fs::write(store.join("partition.json"), "{}")?;
//! std::fs::write(store.join("part-0/feat.npy"), [0; 100])?;
//!
//! let url = format!("file://{}", store.display());
//! let fetched = fetch(&url, &parent.path().join("local"), &FetchOptions::default(), &|_| {})?;
//! assert_eq!((fetched.files, fetched.bytes), (2, 102));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod answer;
mod error;
mod fetch;
mod listing;
mod location;
mod name;
mod piece;
#[cfg(feature = "s3")]
mod s3;

pub use error::FetchError;
pub use fetch::{FetchOptions, Fetched, fetch};
