//! The formats that are imported, a module each; `tables` is what CSV and Parquet share.

pub(crate) mod csv;
pub(crate) mod edgelist;
pub(crate) mod gnn_npz;
pub(crate) mod graphbolt;
pub(crate) mod igb;
pub(crate) mod npy;
pub(crate) mod ogb;
#[cfg(feature = "parquet")]
pub(crate) mod parquet;
pub(crate) mod planetoid;
mod tables;
