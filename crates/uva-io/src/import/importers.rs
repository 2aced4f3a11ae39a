//! The table of importers, in the order of `--help`.

#[cfg(feature = "parquet")]
use super::formats::parquet;
use super::formats::{csv, dgl_chunked, edgelist, gnn_npz, graphbolt, igb, npy, nt, ogb, planetoid};
use super::importer::Importer;

/// Every format that can be imported.
pub const IMPORTERS: &[Importer] = &[
    npy::IMPORTER,
    ogb::IMPORTER,
    planetoid::IMPORTER,
    gnn_npz::IMPORTER,
    graphbolt::IMPORTER,
    edgelist::IMPORTER,
    igb::IMPORTER,
    csv::IMPORTER,
    nt::IMPORTER,
    dgl_chunked::IMPORTER,
    #[cfg(feature = "parquet")]
    parquet::IMPORTER,
];

/// The importer called `name`.
pub fn importer(name: &str) -> Option<&'static Importer> {
    IMPORTERS.iter().find(|importer| importer.name == name)
}
