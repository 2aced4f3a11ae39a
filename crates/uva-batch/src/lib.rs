//! A batch in a slot: its columns, their layout, its header, and views of it.
//!
//! Everything is derived from one table, [`COLUMNS`]: offsets and bounds, the copies between slots, the typed views,
//! the arrays that Python sees and the table in `docs/spec/wire-protocol.md`. **A new array needs one row of this
//! table** and the code of the stage that writes it.
//!
//! | look here | for |
//! |---|---|
//! | [`schema`] | the table of columns: names, types, shapes, writers, slots |
//! | [`BatchSpec`] | the options that determine a run's columns and their maximum sizes |
//! | [`BatchLayout`] | the offset of each column in a slot |
//! | [`BatchHeader`] | the number of rows of each column in a batch |
//! | [`StaticShapes`] | the sizes that batches are padded to, and [`pad`](pad()) |
//! | [`SlotRoom`] | the capacity of a feature slot on a GPU |
//! | [`BatchView`] | a batch to read, typed or by column name |
//! | [`BatchColumns`] | the input of a model: a batch's arrays by [`ColumnKey`], in host memory or on a GPU |
//!
//! ```text
//! batch slot header │ input_nodes │ labels │ optional columns │ block0.indptr, block0.indices │ …
//! feature slot the same, at the same offsets, and after it │ x, row i for input_nodes[i]
//! ```
//!
//! With a feature slot on a GPU the header is in the ring, in host memory. The slot begins with the gather's report
//! ([`uva_cuda::kernels::gather::GatherReport`]). The columns after it are packed ([`BatchLayout::packed`]), so that
//! one copy transfers them all; `x` follows on the next page.
//!
//! This crate must not know rings, processes, the stages that sample or gather, or a consumer's computation.
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
pub use layout::{BatchLayout, ColumnPlace, ColumnsMut, FEATURE_COLUMNS, RowShape, SlotRoom, pad};
pub use schema::{COLUMNS, Column, ColumnSpec, Scope, Stage};
pub use spec::BatchSpec;
pub use static_shapes::{Padding, StaticShapes};
pub use uva_sample::BlockSize;
pub use view::{
    ArrayMemory, BatchColumns, BatchView, ColumnArray, ColumnRef, FeatureRows, Proof, RawArray, SlotMemory,
};
