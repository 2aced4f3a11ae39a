//! Graph datasets on disk: opening, checking, importing, exporting, generating and reordering them.
//!
//! A dataset is a directory of `.npy` files that numpy can write and read back: the in-neighbours of every node as
//! compressed sparse columns, feature rows, labels and three splits. [`Dataset`] maps those files, checks them once and
//! lends typed views of them; [`generate`] and [`import`] write such directories, beside their final name first, so
//! that a run that fails half-way leaves no half dataset. [`reorder`] gives nodes other places, on disk or in memory.
//!
//! ```
//! use uva_graph::{Dataset, Split, generate};
//!
//! let parent = tempfile::tempdir()?;
//! let out = parent.path().join("graph");
//! let options = generate::PowerLaw { nodes: 1000, feature_dim: 8, ..Default::default() };
//! generate::power_law(&out, &options, &|progress| eprintln!("{}: {}", progress.stage, progress.done))?;
//!
//! let dataset = Dataset::open(&out)?;
//! let csc = dataset.csc();
//! let node = dataset.split(Split::Train)[0] as usize;
//! for edge in csc.indptr[node]..csc.indptr[node + 1] {
//!     println!("{node} aggregates the features of {}", csc.indices.get(edge as usize));
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! This crate must not know of processes, of sampling, of training, or of any GPU.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod csc;
pub mod dataset;
pub mod error;
pub mod export;
mod files;
mod fingerprint;
pub mod generate;
mod hash;
pub mod import;
pub mod kinds;
pub mod meta;
pub mod npy;
mod quote;
pub mod reorder;
mod room;
pub mod shown;
pub mod staged;
mod stamp;
mod steps;
mod verify;
pub mod views;

pub use dataset::{Dataset, Verification, Verify};
pub use error::GraphError;
pub use kinds::{ElementType, Split};
pub use meta::Meta;
pub use uva_mem::mix;
pub use views::{Csc, FeatureTable, Indices, Labels};
