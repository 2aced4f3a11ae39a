//! Neighbours of given seeds, for PyG's loaders: the sampler of uva-sample in the calling thread.
//!
//! No thread is made and no lock is waited for, so it works in a process that was forked from one with threads. Batches
//! have no size known before: memory grows until the batch fits, which is the same batch however often it is sampled.

use std::sync::{Arc, Mutex, PoisonError};

use pyo3::exceptions::{PyIndexError, PyValueError};
use pyo3::prelude::*;
use uva_graph::{Dataset as Graph, Split};
use uva_runtime::spec::Spelling;
use uva_sample::{
    BatchCounts, BatchKey, BatchMut, BatchSampler, BlockMut, Capacity, Expand, GraphView, SampleError,
    SamplerKind, SamplerOptions, sampler,
};

use crate::arrays::array::Array;
use crate::arrays::dlpack::DlpackType;
use crate::arrays::input::Input;
use crate::arrays::values::{exported, zeros};
use crate::data::dataset::PyDataset;
use crate::errors::UvatrainError;
use crate::options::keywords::{fanouts, kind_named, kinds_named};
use crate::sampling::cached::check_whole;

/// The first size tried for a batch, unless its bounds are known to be smaller.
const FIRST_ROOM: usize = 1 << 16;

/// Samples as PyG does: each hop only for the nodes that the previous hop found.
#[pyclass(frozen, name = "NeighborSampler", module = "uvatrain._core")]
pub struct PyNeighborSampler {
    graph: Arc<Graph>,
    options: SamplerOptions,
    /// The idle ones: as many as there were concurrent threads.
    idle: Mutex<Vec<Worker>>,
}

/// A sampler and its memory.
struct Worker {
    /// Borrows from `_graph`; declared first, so that it is dropped first.
    sampler: Box<dyn BatchSampler>,
    nodes: Vec<i64>,
    layers: Vec<Layer>,
    _graph: Arc<Graph>,
}

/// Memory for the block of one hop.
#[derive(Default)]
struct Layer {
    indptr: Vec<i32>,
    indices: Vec<i32>,
    edge_ids: Vec<i64>,
}

impl Worker {
    fn new(graph: &Arc<Graph>, options: &SamplerOptions) -> PyResult<Self> {
        let view = GraphView::from(graph.csc());
        // SAFETY: the slices are of files mapped by the dataset, which does not move or unmap them as long as it lives;
        // `_graph` keeps it for longer than the sampler, which is private to the worker and never handed out.
        let view: GraphView<'static> =
            unsafe { std::mem::transmute::<GraphView<'_>, GraphView<'static>>(view) };
        let sampler = sampler(view, options).map_err(raised)?;
        let layers = (0..options.fanouts.hops()).map(|_| Layer::default()).collect();
        Ok(Self { sampler, nodes: Vec::new(), layers, _graph: Arc::clone(graph) })
    }

    /// Samples, with more memory where it was too little.
    fn sample(&mut self, key: BatchKey, seeds: &[i64]) -> PyResult<BatchCounts> {
        grow(&mut self.nodes, FIRST_ROOM.max(seeds.len()))?;
        for Layer { indptr, indices, edge_ids } in &mut self.layers {
            grow(indptr, FIRST_ROOM.max(seeds.len() + 1))?;
            grow(indices, FIRST_ROOM)?;
            grow(edge_ids, FIRST_ROOM)?;
        }
        loop {
            let mut blocks: Vec<BlockMut<'_>> = self
                .layers
                .iter_mut()
                .map(|Layer { indptr, indices, edge_ids }| BlockMut {
                    indptr,
                    indices,
                    edge_ids,
                    ..BlockMut::default()
                })
                .collect();
            let mut out = BatchMut { nodes: &mut [&mut self.nodes], blocks: &mut blocks, trees: &mut [] };
            let error = match self.sampler.sample(key, seeds, &mut out) {
                Ok(counts) => return Ok(counts),
                Err(error) => error,
            };
            let SampleError::BatchTooLarge { what, capacity, .. } = error else { return Err(raised(error)) };
            if capacity >= i32::MAX as usize {
                return Err(raised(error));
            }
            // A quarter is spent on trying, at most as much again as the batch that fits.
            let wanted = (capacity + 1).saturating_mul(2).min(i32::MAX as usize + 1);
            match what {
                Capacity::Nodes => grow(&mut self.nodes, wanted)?,
                Capacity::Destinations { layer } => grow(&mut self.layers[layer].indptr, wanted)?,
                Capacity::Edges { layer } => {
                    grow(&mut self.layers[layer].indices, wanted)?;
                    grow(&mut self.layers[layer].edge_ids, wanted)?;
                }
            }
        }
    }
}

fn grow<T: Copy + Default>(values: &mut Vec<T>, length: usize) -> PyResult<()> {
    if values.len() < length {
        // Its contents are discarded.
        *values = Vec::new();
        *values = zeros(length)?;
    }
    Ok(())
}

fn raised(error: SampleError) -> PyErr {
    let message = Spelling::Keyword.sentence(&error.to_string());
    match error {
        SampleError::SeedOutOfRange { .. } => PyIndexError::new_err(message),
        SampleError::InvalidOption(_) => PyValueError::new_err(message.replace("fanouts", "num_neighbors")),
        _ => UvatrainError::new_err(message),
    }
}

/// A batch for PyG: nodes; sources and destinations of its edges (positions among the nodes), and the position of each
/// edge in the dataset's indices; nodes of each hop, edges of each hop; its hash as defined in
/// docs/spec/reproducible-batches.md.
type Subgraph = (Array, Array, Array, Array, Vec<usize>, Vec<usize>, String);

#[pymethods]
impl PyNeighborSampler {
    #[new]
    #[pyo3(signature = (dataset, num_neighbors, replace=false, seed=0, kind="neighbor"))]
    fn new(
        dataset: &Bound<'_, PyDataset>,
        num_neighbors: &Bound<'_, PyAny>,
        replace: bool,
        seed: u64,
        kind: &str,
    ) -> PyResult<Self> {
        let graph = Arc::clone(dataset.get().graph());
        check_whole(&graph, "this sampler")?;
        let kind = kind_named("kind", kind)?;
        let here = |kind: SamplerKind| !kind.needs_weights() && !kind.weighs_edges();
        if kind.needs_weights() {
            // Weights are looked through by threads, which a forked process must not wait for.
            return Err(PyValueError::new_err(format!(
                "kind \"{kind}\" is for uvatrain.Loader: here it is {}",
                kinds_named(here)
            )));
        }
        if kind.weighs_edges() {
            return Err(PyValueError::new_err(format!(
                "kind \"{kind}\" is for uvatrain.Loader: its edges have weights, which PyG's loaders have no place for; here \
                 it is {}",
                kinds_named(here)
            )));
        }
        let options = SamplerOptions {
            kind,
            fanouts: fanouts("num_neighbors", num_neighbors)?,
            replace,
            seed,
            expand: Expand::New,
            edge_ids: true,
            ..SamplerOptions::default()
        };
        options.check(&graph.csc()).map_err(raised)?;
        if let Some(part) = graph.part() {
            options.check_reach(part.hops as usize).map_err(|error| raised(error.into()))?;
        }
        Ok(Self { graph, options, idle: Mutex::new(Vec::new()) })
    }

    /// Samples around `seeds`, int64 [n]. epoch, batch and the sampler's seed key the random words: the same three give the
    /// same neighbours.
    #[pyo3(signature = (seeds, epoch, batch))]
    fn sample(&self, py: Python<'_>, seeds: &Bound<'_, PyAny>, epoch: u32, batch: u32) -> PyResult<Subgraph> {
        let seeds = Input::new("seeds", seeds)?;
        let (Some(ids), 1) = (seeds.as_i64(), seeds.shape.len()) else {
            return Err(PyValueError::new_err(format!(
                "seeds is {}, but must be int64 [n]",
                seeds.describe()
            )));
        };
        let key = BatchKey { split: Split::Train, epoch, batch };
        py.detach(|| {
            let idle = || self.idle.lock().unwrap_or_else(PoisonError::into_inner);
            let waiting = idle().pop();
            let mut worker = match waiting {
                Some(worker) => worker,
                None => Worker::new(&self.graph, &self.options)?,
            };
            let sampled = subgraph(&mut worker, key, ids);
            idle().push(worker);
            sampled
        })
    }
}

fn subgraph(worker: &mut Worker, key: BatchKey, seeds: &[i64]) -> PyResult<Subgraph> {
    let counts = worker.sample(key, seeds)?;
    let last = counts.blocks().last().copied().unwrap_or_default();
    let mut nodes = zeros::<i64>(counts.nodes())?;
    nodes.copy_from_slice(&worker.nodes[..counts.nodes()]);
    let (mut sources, mut destinations) = (zeros::<i64>(last.edges)?, zeros::<i64>(last.edges)?);
    let mut edge_ids = zeros::<i64>(last.edges)?;
    // A block begins with the block before, so the last has all edges, hop by hop.
    if let Some(block) = worker.layers.last().filter(|_| counts.layers() > 0) {
        sources.iter_mut().zip(&block.indices).for_each(|(to, local)| *to = i64::from(*local));
        for (destination, ends) in (0..).zip(block.indptr[..=last.destinations].windows(2)) {
            destinations[ends[0] as usize..ends[1] as usize].fill(destination);
        }
        edge_ids.copy_from_slice(&block.edge_ids[..last.edges]);
    }

    let mut nodes_of_hops = vec![seeds.len()];
    let mut edges_of_hops = Vec::with_capacity(counts.layers());
    let mut before = 0;
    for layer in counts.blocks() {
        nodes_of_hops.push(layer.sources - layer.destinations);
        edges_of_hops.push(layer.edges - before);
        before = layer.edges;
    }
    Ok((
        exported(nodes, DlpackType::I64),
        exported(sources, DlpackType::I64),
        exported(destinations, DlpackType::I64),
        exported(edge_ids, DlpackType::I64),
        nodes_of_hops,
        edges_of_hops,
        format!("{:016x}", counts.hash),
    ))
}
