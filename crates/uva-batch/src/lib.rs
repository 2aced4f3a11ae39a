//! A batch in a slot: its columns, where they lie, its header, and the views of it.
//!
//! Everything is derived from one table, [`COLUMNS`]: offsets and bounds, the copies between slots, the typed views,
//! the arrays that Python sees and the table in `docs/spec/wire-protocol.md`. **Adding an array is one row of it** and the
//! code of the stage that writes it.
//!
//! | look here | for |
//! |---|---|
//! | [`schema`] | the table of columns: names, types, shapes, who writes them, where they live |
//! | [`BatchSpec`] | what decides which columns a run has, and how large they become |
//! | [`BatchLayout`] | where each column lies in a slot |
//! | [`BatchHeader`] | how much of each column a batch uses |
//! | [`StaticShapes`] | the sizes that batches are padded to, and [`pad`](pad()) |
//! | [`SlotRoom`] | what a feature slot on a GPU has room for |
//! | [`BatchView`] | reading a batch, typed or by column name |
//! | [`BatchColumns`] | a batch as a model takes it: its arrays by [`ColumnKey`], in host memory or on a GPU |
//!
//! ```text
//! batch slot    header │ input_nodes │ labels │ columns asked for │ block0.indptr, block0.indices │ …
//! feature slot  the same, at the same offsets, and behind it │ x, row i for input_nodes[i]
//! ```
//!
//! With a feature slot on a GPU the header is in the ring, in host memory. The slot begins with the gather's report
//! ([`uva_cuda::kernels::gather::GatherReport`]). The columns behind it are packed ([`BatchLayout::packed`]), so that one
//! copy brings them all; `x` follows on the next page.
//!
//! This crate must not know rings, processes, who samples or gathers, or what a consumer computes.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod aggregation;
mod column_key;
mod element;
mod error;
mod feature_type;
mod header;
mod layout;
pub mod schema;
mod spec;
mod static_shapes;
mod view;

pub use aggregation::Aggregation;
pub use column_key::ColumnKey;
pub use element::Element;
pub use error::{ColumnError, LayoutError};
pub use feature_type::FeatureType;
pub use header::{BatchHeader, BatchReads, HandOver};
pub use layout::{BatchLayout, ColumnPlace, ColumnsMut, SlotRoom, pad};
pub use schema::{COLUMNS, Column, ColumnSpec, Stage};
pub use spec::BatchSpec;
pub use static_shapes::{Padding, StaticShapes};
pub use uva_sample::LayerCounts;
pub use view::{
    ArrayMemory, BatchColumns, BatchView, ColumnArray, ColumnRef, FeatureRows, Proof, RawArray, SlotMemory,
};
