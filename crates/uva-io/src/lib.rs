//! Import, export and generation of graph datasets.
//!
//! [`import`] reads other programs' files, [`export`] writes files for them, [`generate`] makes graphs with planted
//! classes. All write through the bounded-memory writers of `uva-graph`; an output appears only when it is complete.
//! [`typed`] writes graphs with several types of nodes and edges.
//! [`table`] writes tables of results as CSV and Parquet. This crate must not depend on processes, sampling, training
//! or GPUs. Next: `uva-graph` for the definition of a dataset, `docs/guide/datasets.md` for the formats.
//!
//! ```
//! use uva_graph::Dataset;
//! use uva_io::generate::{self, Common};
//!
//! let parent = tempfile::tempdir()?;
//! let out = parent.path().join("graph");
//! let options = generate::PowerLaw::of(Common { nodes: 1000, feature_dim: 8, ..Common::default() });
//! generate::write(&out, &options, &|progress| eprintln!("{}: {}", progress.stage, progress.done))?;
//! assert_eq!(Dataset::open(&out)?.nodes(), 1000);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

pub mod export;
mod float8;
pub mod generate;
pub mod import;
pub mod table;
pub mod typed;
