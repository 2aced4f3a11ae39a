//! The formats that can be imported, one module each; `tables` is shared by CSV and Parquet.

pub(crate) mod csv;
pub(crate) mod dgl_chunked;
pub(crate) mod edgelist;
pub(crate) mod gnn_npz;
pub(crate) mod graphbolt;
pub(crate) mod igb;
pub(crate) mod npy;
pub(crate) mod nt;
pub(crate) mod ogb;
#[cfg(feature = "parquet")]
pub(crate) mod parquet;
pub(crate) mod planetoid;
mod tables;
