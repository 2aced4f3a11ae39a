//! The graph with all edges turned round, as files beside the journal.

use std::fs;
use std::path::{Path, PathBuf};

use uva_graph::csc::{Changes, CscBuilder};
use uva_graph::npy::{NpyArray, NpyType};
use uva_graph::{GraphError, Indices, names, staged};
use uva_mem::files::open_directory;

use crate::sums::Graph;

/// The least memory that the builder of lists takes.
const LEAST_MEMORY: u64 = 64 << 20;

/// Lists of out-neighbours, mapped.
pub(crate) struct Transposed {
    offsets: NpyArray,
    indices: NpyArray,
    weights: Option<NpyArray>,
}

impl Transposed {
    /// Those of `graph`, made in `folder` unless an earlier run has made them. Entries of a list are in the order of the
    /// lists that they were in.
    pub(crate) fn of(graph: Graph<'_>, folder: &Path, memory: u64) -> Result<Transposed, GraphError> {
        let done = folder.join("transposed");
        if !done.is_dir() {
            let partial = folder.join("transposed.partial");
            if partial.exists() {
                fs::remove_dir_all(&partial).map_err(GraphError::io(&partial, "remove"))?;
            }
            fs::create_dir(&partial).map_err(GraphError::io(&partial, "create"))?;
            write(graph, &partial, memory.max(LEAST_MEMORY))?;
            staged::flush(&partial)?;
            open_directory(&partial)
                .and_then(|directory| directory.sync_all())
                .map_err(GraphError::io(&partial, "flush"))?;
            // Its name tells that it is whole.
            fs::rename(&partial, &done).map_err(GraphError::io(&done, "create"))?;
        }
        let open = |name: &str| NpyArray::open(&done.join(name));
        let transposed = Transposed {
            offsets: open(names::INDPTR)?,
            indices: open(names::INDICES)?,
            weights: graph.weights.map(|_| open(names::WEIGHTS)).transpose()?,
        };
        let edges = transposed.offsets.elements::<i64>(NpyType::I64)?.last().copied();
        match edges == Some(graph.indices.len() as i64) && transposed.graph()?.nodes() == graph.nodes() {
            true => Ok(transposed),
            false => Err(transposed.offsets.wrong_shape("that of the dataset: remove the folder above it")),
        }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.indices.path().to_owned()
    }

    pub(crate) fn graph(&self) -> Result<Graph<'_>, GraphError> {
        Ok(Graph {
            offsets: self.offsets.elements(NpyType::I64)?,
            indices: match self.indices.kind() {
                NpyType::I32 => Indices::I32(self.indices.elements(NpyType::I32)?),
                _ => Indices::I64(self.indices.elements(NpyType::I64)?),
            },
            weights: self.weights.as_ref().map(|weights| weights.elements(NpyType::F32)).transpose()?,
        })
    }
}

fn write(graph: Graph<'_>, directory: &Path, memory: u64) -> Result<(), GraphError> {
    let weighted = graph.weights.is_some();
    let mut builder = CscBuilder::new(directory, graph.nodes() as u64, Changes::NONE, weighted, memory)?;
    for node in 0..graph.nodes() {
        for entry in graph.offsets[node] as usize..graph.offsets[node + 1] as usize {
            let weight = graph.weights.map_or(0.0, |weights| weights[entry]);
            builder.push(node as u64, graph.indices.get(entry) as u64, weight)?;
        }
    }
    builder.finish(&|_| ()).map(drop)
}
