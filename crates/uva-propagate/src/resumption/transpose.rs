//! The graph with all edges reversed, as files in the journal's folder.

use std::io;
use std::path::{Path, PathBuf};

use uva_files::staging;
use uva_graph::csc::{Changes, CscBuilder, LEAST_MEMORY};
use uva_graph::npy::{NpyArray, NpyType};
use uva_graph::{GraphError, Indices, names};
use uva_mem::files::OwnDirectory;

use super::folder::{self, TRANSPOSED, UNFINISHED_TRANSPOSED};
use crate::product::sums::OperatorGraph;

/// Nodes between two checks for a stop.
const BLOCK_NODES: usize = 1 << 16;

/// Lists of out-neighbours, mapped.
pub(crate) struct TransposedLists {
    offsets: NpyArray,
    indices: NpyArray,
    weights: Option<NpyArray>,
}

impl TransposedLists {
    /// Whether an earlier run has made the transposed graph.
    pub(crate) fn is_in(folder: &OwnDirectory) -> bool {
        folder.open_in(TRANSPOSED).is_ok()
    }

    /// Removes unfinished files of an earlier run. The folder has been checked: it holds only files of runs.
    pub(crate) fn remove_unfinished(folder: &OwnDirectory) -> Result<(), GraphError> {
        let path = folder.path().join(UNFINISHED_TRANSPOSED);
        match folder.open_in(UNFINISHED_TRANSPOSED) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(folder::refused(&path, error)),
            Ok(_) => folder.remove_tree(UNFINISHED_TRANSPOSED).map_err(GraphError::io(&path, "remove")),
        }
    }

    /// The transposed lists of `graph`, made in `folder` unless an earlier run has made them. Entries of a list are in
    /// the order of the lists that contained them. `stops` receives the number of nodes whose lists have been read, and
    /// returns whether to stop. `None` if it was stopped.
    pub(crate) fn of(
        graph: OperatorGraph<'_>,
        folder: &OwnDirectory,
        memory: u64,
        stops: &mut dyn FnMut(u64) -> bool,
    ) -> Result<Option<TransposedLists>, GraphError> {
        let done = folder.path().join(TRANSPOSED);
        if !Self::is_in(folder) {
            Self::remove_unfinished(folder)?;
            let partial = folder::create_in(folder, UNFINISHED_TRANSPOSED)?;
            if !write(graph, partial.path(), memory.max(LEAST_MEMORY), stops)? {
                return Ok(None);
            }
            staging::flush(partial.path())?;
            partial.sync().map_err(GraphError::io(partial.path(), "flush"))?;
            // The final name shows that it is complete.
            folder.rename_to(UNFINISHED_TRANSPOSED, &done).map_err(GraphError::io(&done, "create"))?;
        }
        let open = |name: &str| NpyArray::open(&done.join(name));
        let transposed = TransposedLists {
            offsets: open(names::INDPTR)?,
            indices: open(names::INDICES)?,
            weights: graph.weights.map(|_| open(names::WEIGHTS)).transpose()?,
        };
        let edges = transposed.offsets.elements::<i64>(NpyType::I64)?.last().copied();
        match edges == Some(graph.indices.len() as i64) && transposed.graph()?.nodes() == graph.nodes() {
            true => Ok(Some(transposed)),
            false => Err(transposed.offsets.wrong_shape("that of the dataset: remove the folder above it")),
        }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.indices.path().to_owned()
    }

    pub(crate) fn graph(&self) -> Result<OperatorGraph<'_>, GraphError> {
        Ok(OperatorGraph {
            offsets: self.offsets.elements(NpyType::I64)?,
            indices: match self.indices.kind() {
                NpyType::I32 => Indices::I32(self.indices.elements(NpyType::I32)?),
                _ => Indices::I64(self.indices.elements(NpyType::I64)?),
            },
            weights: self.weights.as_ref().map(|weights| weights.elements(NpyType::F32)).transpose()?,
        })
    }
}

/// Writes the lists. Returns false if it was stopped.
fn write(
    graph: OperatorGraph<'_>,
    directory: &Path,
    memory: u64,
    stops: &mut dyn FnMut(u64) -> bool,
) -> Result<bool, GraphError> {
    let weighted = graph.weights.is_some();
    let mut builder = CscBuilder::new(directory, graph.nodes() as u64, Changes::NONE, weighted, memory)?;
    for node in 0..graph.nodes() {
        if node % BLOCK_NODES == 0 && stops(node as u64) {
            return Ok(false);
        }
        for entry in graph.offsets[node] as usize..graph.offsets[node + 1] as usize {
            let weight = graph.weights.map_or(0.0, |weights| weights[entry]);
            builder.push(node as u64, graph.indices.get(entry) as u64, weight)?;
        }
    }
    if stops(graph.nodes() as u64) {
        return Ok(false);
    }
    builder.finish(&|_| ())?;
    Ok(true)
}
