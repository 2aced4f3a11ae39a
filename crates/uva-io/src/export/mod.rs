//! Datasets turned back into what other programs read: one file a [`Target`].
//!
//! What is written can be imported again, and gives the same files; the tests hold every target to that. Like an
//! import, an export writes beside its final name and renames at the end.

mod edgelist;
mod graphbolt;
mod npy;

use std::fs::File;
use std::io;
use std::path::Path;

use uva_graph::npy::{NpyType, NpyWriter};
use uva_graph::staged::StagedDirectory;
use uva_graph::{Csc, Dataset, GraphError, Progress, Split, meta, names};
use uva_mem::files::open_regular;

/// What a dataset is turned into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// A directory of `.npy` files with the edges as pairs, in `edge_index.npy` [2, E].
    Npy,
    /// A directory with a line an edge in `edges.tsv`, everything else as `.npy` files beside.
    EdgeList {
        /// Whether the lines are compressed, as `edges.tsv.gz`.
        gzip: bool,
    },
    /// A directory with the `metadata.yaml` of a DGL GraphBolt `OnDiskDataset`.
    GraphBolt,
}

/// Edges that are written at a time.
const CHUNK: usize = 1 << 16;

/// Writes `dataset` as `target` into the directory `out`, which must not exist.
///
/// # Errors
/// Where the system refuses to write, `out` exists, or an edge, a weight or an original id of the dataset is wrong (its
/// stamp may be older than the files); nothing is left behind then.
pub fn run(
    target: Target,
    dataset: &Dataset,
    out: &Path,
    progress: &dyn Fn(Progress),
) -> Result<(), GraphError> {
    let staged = StagedDirectory::new(out)?;
    dataset.check_edges()?;
    let export = Export { dataset, to: staged.path(), progress };
    match target {
        Target::Npy => npy::write(&export)?,
        Target::EdgeList { gzip } => edgelist::write(&export, gzip)?,
        Target::GraphBolt => graphbolt::write(&export)?,
    }
    staged.commit()
}

/// A dataset on its way out.
struct Export<'e> {
    dataset: &'e Dataset,
    to: &'e Path,
    progress: &'e dyn Fn(Progress),
}

impl Export<'_> {
    /// Copies files of the dataset; those that it need not have only where it has them.
    fn copy(&self, required: &[&str], optional: &[&str]) -> Result<(), GraphError> {
        let all = required.iter().map(|name| (name, true)).chain(optional.iter().map(|name| (name, false)));
        for (name, required) in all {
            let from = self.dataset.path().join(name);
            if required || from.exists() {
                let mut source = open_regular(&from).map_err(GraphError::io(&from, "open"))?;
                let to = self.to.join(name);
                let mut copy = File::create_new(&to).map_err(GraphError::io(&to, "create"))?;
                io::copy(&mut source, &mut copy).map_err(GraphError::io(&from, "copy"))?;
            }
        }
        Ok(())
    }

    /// Copies all but the graph.
    fn copy_arrays(&self) -> Result<(), GraphError> {
        let [train, valid, test] = Split::ALL.map(Split::file_name);
        self.copy(
            &[names::FEATURES, names::LABELS, train, valid, test],
            &[meta::FILE_NAME, names::ORIGINAL_IDS, names::NODE_IDS, names::NODE_NAMES],
        )
    }

    /// Writes `edge_index.npy`: [2, E], sources, then destinations.
    fn edge_index(&self) -> Result<(), GraphError> {
        let csc = self.dataset.csc();
        let edges = csc.edges();
        let mut writer = NpyWriter::create(&self.to.join("edge_index.npy"), NpyType::I64, &[edges])?;
        let tell = |done: usize| {
            (self.progress)(Progress { stage: "edges", done: done as u64, total: 2 * edges as u64 });
        };
        for first in (0..edges).step_by(CHUNK) {
            let last = (first + CHUNK).min(edges);
            let sources: Vec<i64> = (first..last).map(|edge| csc.indices.get(edge)).collect();
            writer.write(&sources)?;
            tell(last);
        }
        let mut destinations = Vec::with_capacity(CHUNK);
        for (edge, (_, destination)) in pairs(csc).enumerate() {
            destinations.push(destination);
            if destinations.len() == CHUNK {
                writer.write(&destinations)?;
                destinations.clear();
                tell(edges + edge);
            }
        }
        writer.write(&destinations)?;
        writer.finish_with_rows(2)
    }
}

/// The edges in the order of the lists: source and destination.
fn pairs(csc: Csc<'_>) -> impl Iterator<Item = (i64, i64)> {
    let lists = csc.indptr.windows(2).zip(0_i64..);
    lists.flat_map(move |(ends, node)| {
        (ends[0]..ends[1]).map(move |edge| (csc.indices.get(edge as usize), node))
    })
}
