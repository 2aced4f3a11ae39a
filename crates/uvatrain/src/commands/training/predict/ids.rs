//! Writes the user's ids of the predicted nodes to a separate file.

use std::io::Write;
use std::path::Path;

use uva_graph::Dataset;
use uva_graph::npy::{NpyType, NpyWriter};
use uva_launch::training::InferenceNodes;
use uva_mem::files::Replacement;

use super::rows::PredictedNodes;
use super::source_names::{NodeNames, SourceNames};
use super::written::WrittenFile;
use crate::exit;

/// The user's ids of the nodes, and the file to write them to.
pub(super) struct UserIds<'p> {
    path: &'p Path,
    /// Number of nodes in the dataset.
    nodes: usize,
    known: Known,
}

/// Names of nodes, by id.
enum Known {
    /// The nodes have no names other than their ids.
    Ids,
    Numbers(Vec<i64>),
    Names(NodeNames),
}

impl<'p> UserIds<'p> {
    pub(super) fn of(dataset: &Dataset, path: &'p Path) -> anyhow::Result<Self> {
        let known = match SourceNames::of(dataset)? {
            Some(SourceNames::Numbers(numbers)) => Known::Numbers(numbers),
            Some(SourceNames::Texts(names)) => Known::Names(names),
            None => dataset.original_ids().map_or(Known::Ids, |ids| Known::Numbers(ids.to_vec())),
        };
        Ok(Self { path, nodes: dataset.nodes_of(dataset.seed_type()), known })
    }

    /// Writes the ids into a file that is not yet renamed to its final name.
    pub(super) fn written(&self, nodes: &InferenceNodes, overwrite: bool) -> anyhow::Result<WrittenFile> {
        let failed = |error: std::io::Error| exit::of_output("--ids", self.path, error);
        let mut file = Replacement::of(self.path, 0o666).map_err(failed)?;
        let rows = PredictedNodes::new(nodes, self.nodes);
        match &self.known {
            Known::Names(names) => {
                let mut text = std::io::BufWriter::new(file.file());
                for node in rows.pieces(1 << 16).flatten() {
                    writeln!(text, "{}", names.name(node as usize)).map_err(failed)?;
                }
                text.flush().map_err(failed)?;
            }
            known => {
                let onto = file.file().try_clone().map_err(failed)?;
                let mut array = NpyWriter::onto(onto, self.path, NpyType::I64, &[]);
                for mut ids in rows.pieces(1 << 16) {
                    if let Known::Numbers(numbers) = known {
                        ids.iter_mut().for_each(|id| *id = numbers[*id as usize]);
                    }
                    array.write(&ids)?;
                }
                array.finish()?;
            }
        }
        WrittenFile::new("--ids", file, overwrite)
    }
}
