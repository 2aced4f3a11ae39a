//! Neighbours of given seeds, for PyG's loaders: the sampler of uva-sample in the calling thread.
//!
//! No thread is made and no lock is waited for, so it works in a process that was forked from one with threads. Batches
//! have no size known before: memory grows until the batch fits, which is the same batch however often it is sampled.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use pyo3::exceptions::{PyIndexError, PyValueError};
use pyo3::prelude::*;
use uva_graph::{Dataset as Graph, Split};
use uva_runtime::spec::Spelling;
use uva_sample::{
    BatchCounts, BatchKey, BatchMut, BatchSampler, BlockMut, Capacity, Expand, GraphView, SampleError,
    SamplerKind, SamplerOptions, sampler,
};

use crate::array::Array;
use crate::dataset::Dataset;
use crate::dlpack::Element;
use crate::edges::{exported, zeros};
use crate::errors::{UvatrainError, in_python};
use crate::input::Input;
use crate::loader::{kind_named, kinds_named};

/// The first size tried for a batch, unless its bounds are known to be smaller.
const FIRST_ROOM: usize = 1 << 16;

/// Samples as PyG does: each hop only for the nodes that the hop before has found.
#[pyclass(frozen, module = "uvatrain._core")]
pub struct NeighborSampler {
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
        let layers = options.fanouts.iter().map(|_| Layer::default()).collect();
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
            let mut out = BatchMut { nodes: &mut self.nodes, layers: &mut blocks };
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
    let message = in_python(&Spelling::Keyword.sentence(&error.to_string()));
    match error {
        SampleError::SeedOutOfRange { .. } => PyIndexError::new_err(message),
        SampleError::InvalidOption(_) => PyValueError::new_err(message.replace("fanouts", "num_neighbors")),
        _ => UvatrainError::new_err(message),
    }
}

/// A batch for PyG: nodes; sources and destinations of its edges (positions among the nodes), and the position of each
/// edge in the dataset's indices; nodes of each hop, edges of each hop. If no seed occurs twice, also its hash as defined
/// in docs/reproducible-batches.md.
type Subgraph = (Array, Array, Array, Array, Vec<usize>, Vec<usize>, Option<String>);

#[pymethods]
impl NeighborSampler {
    #[new]
    #[pyo3(signature = (dataset, num_neighbors, replace=false, seed=0, kind="neighbor"))]
    fn new(
        dataset: &Bound<'_, Dataset>,
        num_neighbors: Vec<i32>,
        replace: bool,
        seed: u64,
        kind: &str,
    ) -> PyResult<Self> {
        let graph = Arc::clone(dataset.get().graph());
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
            fanouts: num_neighbors,
            replace,
            seed,
            expand: Expand::New,
            edge_ids: true,
            ..SamplerOptions::default()
        };
        options.check(&graph.csc()).map_err(raised)?;
        Ok(Self { graph, options, idle: Mutex::new(Vec::new()) })
    }

    /// Samples around `seeds`, int64 [n]. epoch and batch are what the random words are keyed by, with the sampler's
    /// seed: the same three give the same neighbours.
    #[pyo3(signature = (seeds, epoch, batch))]
    fn sample(&self, py: Python<'_>, seeds: &Bound<'_, PyAny>, epoch: u32, batch: u32) -> PyResult<Subgraph> {
        let seeds = Input::new("seeds", seeds)?;
        let (Some(ids), 1) = (seeds.as_i64(), seeds.shape.len()) else {
            return Err(PyValueError::new_err(format!(
                "seeds is {}, it has to be int64 [n]",
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
    let unique = Unique::of(seeds)?;
    let counts = worker.sample(key, &unique.seeds)?;
    let more = seeds.len() - unique.seeds.len();
    let last = counts.layers().last().copied().unwrap_or_default();
    let (indptr, indices, edge_ids) = match worker.layers.last() {
        Some(Layer { indptr, indices, edge_ids }) => {
            (&indptr[..=last.destinations], &indices[..last.edges], &edge_ids[..last.edges])
        }
        None => (&[0][..], &[][..], &[][..]),
    };

    // Nodes: all seeds as they were given, then those found.
    let mut nodes = zeros::<i64>(counts.nodes + more)?;
    nodes[..seeds.len()].copy_from_slice(seeds);
    nodes[seeds.len()..].copy_from_slice(&worker.nodes[unique.seeds.len()..counts.nodes]);
    let moved = |local: i32| match unique.first.get(local as usize) {
        Some(&first) => first as i64,
        None => local as i64 + more as i64,
    };

    // A block begins with the block before, so the last has all edges, hop by hop. A seed that stands twice has its
    // neighbours twice.
    let list = |destination: usize| indptr[destination] as usize..indptr[destination + 1] as usize;
    let again: usize = match counts.layers().first() {
        Some(_) => unique.position.iter().map(|&seed| list(seed).len()).sum::<usize>(),
        None => 0,
    };
    let of_seeds = counts.layers().first().map_or(0, |layer| layer.edges);
    let edges = last.edges - of_seeds + again;
    let (mut sources, mut destinations) = (zeros::<i64>(edges)?, zeros::<i64>(edges)?);
    let mut ids = zeros::<i64>(edges)?;
    let mut at = 0;
    let mut write = |destination: usize, list: Range<usize>| {
        for edge in list {
            (sources[at], destinations[at]) = (moved(indices[edge]), destination as i64);
            ids[at] = edge_ids[edge];
            at += 1;
        }
    };
    if counts.layer_count > 0 {
        for (position, &seed) in unique.position.iter().enumerate() {
            write(position, list(seed));
        }
        for destination in unique.seeds.len()..last.destinations {
            write(destination + more, list(destination));
        }
    }

    let mut nodes_of_hops = vec![seeds.len()];
    let mut edges_of_hops = Vec::with_capacity(counts.layer_count);
    let mut before = 0;
    for (hop, layer) in counts.layers().iter().enumerate() {
        nodes_of_hops.push(layer.sources - layer.destinations);
        edges_of_hops.push(if hop == 0 { again } else { layer.edges - before });
        before = layer.edges;
    }
    let hash = (more == 0).then(|| format!("{:016x}", counts.hash));
    Ok((
        exported(nodes, Element::I64),
        exported(sources, Element::I64),
        exported(destinations, Element::I64),
        exported(ids, Element::I64),
        nodes_of_hops,
        edges_of_hops,
        hash,
    ))
}

/// Seeds, each once. PyG's loaders give a node twice where they draw with replacement.
struct Unique {
    /// Each of them, in the order of first appearance.
    seeds: Vec<i64>,
    /// Where each of them stands first among those given.
    first: Vec<usize>,
    /// Which of them each of those given is.
    position: Vec<usize>,
}

impl Unique {
    fn of(seeds: &[i64]) -> PyResult<Self> {
        let mut order = zeros::<usize>(seeds.len())?;
        order.iter_mut().enumerate().for_each(|(position, entry)| *entry = position);
        order.sort_by_key(|&position| seeds[position]);
        // Positions of equal seeds stand together, the first one first: a stable sort.
        let mut first_of = zeros::<usize>(seeds.len())?;
        for (rank, &position) in order.iter().enumerate() {
            let equal = rank > 0 && seeds[order[rank - 1]] == seeds[position];
            first_of[position] = if equal { first_of[order[rank - 1]] } else { position };
        }
        let mut unique = Self { seeds: Vec::new(), first: Vec::new(), position: zeros(seeds.len())? };
        for (position, &seed) in seeds.iter().enumerate() {
            if first_of[position] == position {
                unique.position[position] = unique.seeds.len();
                unique.seeds.push(seed);
                unique.first.push(position);
            } else {
                unique.position[position] = unique.position[first_of[position]];
            }
        }
        Ok(unique)
    }
}
