//! An export in progress, and the files shared by several formats.

use std::fs::File;
use std::io;
use std::path::Path;

use uva_graph::npy::{NpyType, NpyWriter, write_array};
use uva_graph::{Csc, Dataset, GraphError, Labels, Progress, Split, meta, names};
use uva_mem::files::open_regular;

/// Options of an export, in addition to its format.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ExportOptions {
    /// Compress lines of text.
    pub gzip: bool,
}

/// Edges written at a time.
pub(super) const CHUNK: usize = 1 << 16;

/// An export in progress.
pub(super) struct Export<'e> {
    pub(super) dataset: &'e Dataset,
    /// The output directory.
    pub(super) to: &'e Path,
    pub(super) options: ExportOptions,
    pub(super) progress: &'e dyn Fn(Progress),
}

impl Export<'_> {
    /// Copies files of the dataset; optional files are copied if they exist.
    pub(super) fn copy(&self, required: &[&str], optional: &[&str]) -> Result<(), GraphError> {
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

    /// Copies all files except the graph.
    pub(super) fn copy_arrays(&self) -> Result<(), GraphError> {
        let [train, valid, test] = Split::ALL.map(Split::file_name);
        self.copy(
            &[names::FEATURES, train, valid, test],
            &[names::LABELS, meta::FILE_NAME, names::ORIGINAL_IDS, names::NODE_IDS, names::NODE_NAMES],
        )
    }

    /// Writes `edge_index.npy`: [2, E], sources followed by destinations.
    pub(super) fn edge_index(&self) -> Result<(), GraphError> {
        edge_index(self.dataset.csc(), self.to, self.progress)
    }
}

/// Writes the edges of these lists to `edge_index.npy` in `to`: [2, E], sources followed by destinations.
pub(super) fn edge_index(csc: Csc<'_>, to: &Path, progress: &dyn Fn(Progress)) -> Result<(), GraphError> {
    let edges = csc.edges();
    let mut writer = NpyWriter::create(&to.join("edge_index.npy"), NpyType::I64, &[edges])?;
    let tell = |done: usize| {
        progress(Progress { stage: "edges", done: done as u64, total: 2 * edges as u64 });
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

/// The edges in the order of the lists: source and destination.
pub(super) fn pairs(csc: Csc<'_>) -> impl Iterator<Item = (i64, i64)> {
    let lists = csc.indptr.windows(2).zip(0_i64..);
    lists.flat_map(move |(ends, node)| {
        (ends[0]..ends[1]).map(move |edge| (csc.indices.get(edge as usize), node))
    })
}

/// The labels of these nodes, in their order; no file without labels.
pub(super) fn write_rows(labels: Labels<'_>, ids: &[i64], path: &Path) -> Result<(), GraphError> {
    match labels {
        Labels::Absent => Ok(()),
        Labels::Regression { columns, values } => {
            let width = columns.unwrap_or(1);
            let rows: Vec<f32> =
                ids.iter().flat_map(|&id| &values[id as usize * width..][..width]).copied().collect();
            write_array(path, NpyType::F32, &columns.into_iter().collect::<Vec<_>>(), &rows)
        }
        Labels::Single(labels) => {
            let labels: Vec<i64> = ids.iter().map(|&id| labels[id as usize]).collect();
            write_array(path, NpyType::I64, &[], &labels)
        }
        Labels::Multi { classes, values } => {
            let rows: Vec<u8> =
                ids.iter().flat_map(|&id| &values[id as usize * classes..][..classes]).copied().collect();
            write_array(path, NpyType::U8, &[classes], &rows)
        }
    }
}
