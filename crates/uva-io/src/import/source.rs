//! What each format's source has to be, said before anything is looked for in it.

use std::fs;
use std::io;
use std::path::Path;

use uva_graph::GraphError;

use super::Format;

/// What a source is among files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Directory,
    File,
    Either,
}

impl Format {
    /// The format as it is called on the command line, what its source is among files, and what has to be in it.
    fn source(self) -> (&'static str, Kind, &'static str) {
        match self {
            Format::Npy => (
                "npy",
                Kind::Directory,
                "a directory of .npy files: indptr and indices, edge_index, or src and dst; feat; train_idx, valid_idx, \
                 test_idx",
            ),
            // Whatever it names begins the names of several files.
            Format::Planetoid => ("planetoid", Kind::Either, ""),
            Format::GnnNpz => ("gnn-npz", Kind::File, "one .npz file of the gnn-benchmark collection"),
            Format::EdgeList => (
                "edgelist",
                Kind::Either,
                "a file with a line an edge, or a directory with edges.tsv, edges.csv or edges.txt",
            ),
            Format::Ogb => {
                ("ogb", Kind::Directory, "the directory that OGB's package unpacks, with raw and split in it")
            }
            Format::GraphBolt => ("graphbolt", Kind::Either, "a directory with metadata.yaml, or that file"),
            Format::Igb => {
                ("igb", Kind::Directory, "a directory with processed/paper/node_feat.npy, or that processed")
            }
        }
    }
}

/// Refuses a source that is not there, or is a file where the format is a directory and the other way round.
///
/// # Errors
/// Bad usage that names the source and what the format reads; the system's answer where it gives none.
pub(super) fn check(format: Format, source: &Path) -> Result<(), GraphError> {
    if format == Format::Planetoid {
        return Ok(());
    }
    let (name, kind, what) = format.source();
    let refuse = |found: &str| {
        let message = format!("{} {found}; --from {name} reads {what}", source.display());
        Err(GraphError::usage("SRC", message))
    };
    match fs::metadata(source) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => refuse("does not exist"),
        Err(error) => Err(GraphError::io(source, "open")(error)),
        Ok(metadata) if kind == Kind::File && metadata.is_dir() => refuse("is a directory"),
        Ok(metadata) if kind == Kind::Directory && !metadata.is_dir() => refuse("is no directory"),
        Ok(_) => Ok(()),
    }
}
