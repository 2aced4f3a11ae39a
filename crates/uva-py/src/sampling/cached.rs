//! `uvatrain.CachedDataset`: sampling and loading through the caches of a plan, for Python.
//!
//! Sampler, gather and caches borrow the dataset, and those of a GPU belong to one thread. So a dedicated thread owns
//! them, and calls are sent there. It ends when the object is dropped.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use uva_batch::Aggregation;
use uva_graph::{Dataset as Graph, ElementType};
use uva_runtime::backend::{Backend, BackendOptions, DeviceChoice, SamplerChoice};
use uva_runtime::options::Pad;
use uva_runtime::options::seed_order::AskedOrder;
use uva_runtime::pipeline::consumer::decide_here;
use uva_runtime::sampler::cache::CacheContents;
use uva_runtime::spec::{OptionError, Spelling};
use uva_runtime::tune::planning::{self, GPU_CACHE, check_plan_fits, read_plan};
use uva_runtime::{Features, LoaderOptions, RuntimeError};
use uva_sample::{BatchKey, MiniBatch};

use crate::arrays::array::Array;
use crate::arrays::dlpack::{DlpackDevice, DlpackType};
use crate::arrays::elements::of_features;
use crate::arrays::input::Input;
use crate::arrays::values::{exported, zeros};
use crate::data::dataset::PyDataset;
use crate::errors::{OrRaise, UvatrainError, of_runtime, with};
use crate::options::keywords::{options_given, split_named};
use crate::process::fork::{self, OwnProcess};

/// A dataset with its two caches.
#[pyclass(frozen, name = "CachedDataset", module = "uvatrain._core")]
pub struct PyCachedDataset {
    /// Whose thread it is; a fork has none of them.
    process: OwnProcess,
    calls: Mutex<Sender<Call>>,
    /// Of a loaded row.
    row: Row,
}

/// A row as it is loaded.
#[derive(Clone, Copy)]
struct Row {
    element: ElementType,
    columns: usize,
    bytes: usize,
}

/// What the thread is to do, and where its answer goes.
enum Call {
    Sample { key: BatchKey, seeds: Vec<i64>, answer: SyncSender<Result<BatchArrays, RuntimeError>> },
    Load { nodes: Vec<i64>, rows: Vec<u64>, answer: SyncSender<Result<Loaded, RuntimeError>> },
}

/// Rows, and how many came from the cache.
struct Loaded {
    rows: Vec<u64>,
    hits: u64,
}

/// Destinations, sources, indptr, indices, and edge ids and weights where there are any.
type BlockArrays = (usize, usize, Array, Array, Option<Array>, Option<Array>);

/// Nodes, how many of them are seeds, the blocks from the seeds outward, the hash, list reads and those that hit.
type BatchArrays = (Array, usize, Vec<BlockArrays>, String, u64, u64);

#[pymethods]
impl PyCachedDataset {
    /// Opens caches over `dataset` by the plan in a file, or no caches. `options` are a loader's, by name.
    ///
    /// device: "cpu", "cuda:0" or "auto"; warn: called with each warning about the plan.
    #[new]
    #[pyo3(signature = (dataset, plan, *, device, options, warn))]
    fn new(
        py: Python<'_>,
        dataset: &Bound<'_, PyDataset>,
        plan: Option<PathBuf>,
        device: &str,
        options: &Bound<'_, PyDict>,
        warn: &Bound<'_, PyAny>,
    ) -> PyResult<Self> {
        let options = options_given(options)?;
        let refused = |message: String| {
            with(PyValueError::new_err(format!("device {message}")), "field", Some("device"))
        };
        let device: DeviceChoice = device.parse().map_err(refused)?;
        fork::check("a cached dataset cannot be made")?;
        let graph = Arc::clone(dataset.get().graph());
        let (warnings, row, calls) = py.detach(|| start(graph, plan.as_deref(), device, options))?;
        for warning in warnings {
            warn.call1((warning,))?;
        }
        Ok(Self { process: OwnProcess::here(), calls: Mutex::new(calls), row })
    }

    /// Samples around `seeds`, int64 [n] without repetition: the picks of that batch of a run with these options.
    fn sample(
        &self,
        py: Python<'_>,
        seeds: &Bound<'_, PyAny>,
        split: &str,
        epoch: u32,
        batch: u32,
    ) -> PyResult<BatchArrays> {
        let seeds = ids("seeds", seeds)?;
        let key = BatchKey { split: split_named(split)?, epoch, batch };
        py.detach(|| self.call(|answer| Call::Sample { key, seeds, answer }))
    }

    /// The feature rows of `nodes`, int64 [n], and the number that came from the cache.
    fn load(&self, py: Python<'_>, nodes: &Bound<'_, PyAny>) -> PyResult<(Array, u64)> {
        let nodes = ids("nodes", nodes)?;
        let (count, Row { element, columns, bytes }) = (nodes.len(), self.row);
        // Words, so that rows are aligned for every element.
        let rows = zeros::<u64>((count * bytes).div_ceil(8))?;
        let loaded = py.detach(|| self.call(|answer| Call::Load { nodes, rows, answer }))?;
        let mut rows = loaded.rows;
        let pointer = rows.as_mut_ptr().cast();
        // SAFETY: the vector is moved into the owner, which moves none of its words. They are `count` rows of `columns`
        // elements, `bytes` each, that the gather has written; any bits are a value of every element. No other code has
        // the memory's address.
        let array = unsafe {
            Array::new(
                pointer,
                count,
                Some(columns),
                of_features(element),
                DlpackDevice::HOST,
                Arc::new(rows),
            )
        };
        Ok((array, loaded.hits))
    }
}

impl PyCachedDataset {
    /// Sends a call to the thread, and waits for its answer.
    fn call<T>(&self, call: impl FnOnce(SyncSender<Result<T, RuntimeError>>) -> Call) -> PyResult<T> {
        if !self.process.is_here() {
            return Err(UvatrainError::new_err(format!(
                "this cached dataset was made in process {}, and its thread did not survive the fork: make another one \
                 in this process",
                self.process.number()
            )));
        }
        let ended = |()| UvatrainError::new_err("the thread of this cached dataset has ended");
        let (answer, answered) = sync_channel(1);
        let calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner).clone();
        calls.send(call(answer)).map_err(|_| ended(()))?;
        answered.recv().map_err(|_| ended(()))?.or_raise()
    }
}

/// Node ids of Python's.
fn ids(name: &str, array: &Bound<'_, PyAny>) -> PyResult<Vec<i64>> {
    let input = Input::new(name, array)?;
    match (input.as_i64(), input.shape.len()) {
        (Some(ids), 1) => Ok(ids.to_vec()),
        _ => Err(PyValueError::new_err(format!("{name} is {}, but must be int64 [n]", input.describe()))),
    }
}

/// Reads the plan, starts the thread, and waits until it has its caches.
fn start(
    graph: Arc<Graph>,
    plan: Option<&Path>,
    device: DeviceChoice,
    options: LoaderOptions,
) -> PyResult<(Vec<String>, Row, Sender<Call>)> {
    options.check().or_raise()?;
    let refused = |name, value: &str, reason| Err(of_runtime(OptionError::new(name, value, reason).into()));
    if options.aggregation != Aggregation::None {
        let reason = "a cached dataset does not aggregate rows: omit it, or use `Loader`";
        return refused("aggregate", options.aggregation.name(), reason);
    }
    if options.pad != Pad::Off {
        return refused("pad", options.pad.name(), "a cached dataset does not pad batches: omit it");
    }
    if options.features == Features::Disk {
        return refused(
            "features",
            options.features.name(),
            "a cached dataset reads rows from memory: omit it",
        );
    }
    if options.seed_order != AskedOrder::Shuffle {
        let reason = "a cached dataset samples the given seeds: omit it";
        return refused("seed_order", &options.seed_order.to_string(), reason);
    }
    check_whole(&graph, "a cached dataset")?;
    let asked = BackendOptions { device, ..BackendOptions::default() };
    let mut backend = decide_here(&asked, &graph, options.gather_threads, false).or_raise()?.backend;
    if let Backend::Cuda(cuda) = &mut backend {
        // Lists are cached where a sampler on the GPU reads them.
        cuda.sampler = SamplerChoice::Gpu;
    }
    let (contents, warnings) = match plan {
        Some(path) => {
            let (plan, warnings) = read_plan(path, &graph, &options).or_raise()?;
            check_plan_fits(&plan, &graph, &backend, GPU_CACHE).or_raise()?;
            let in_keywords = |warning: &String| Spelling::Keyword.sentence(warning);
            (CacheContents::of_plan(&graph, &plan).or_raise()?, warnings.iter().map(in_keywords).collect())
        }
        None => (CacheContents::default(), Vec::new()),
    };
    let (calls, called) = channel();
    let (begun, begins) = sync_channel(1);
    thread::Builder::new()
        .name("caches".to_owned())
        .spawn(move || serve(&graph, &options, &backend, &contents, &begun, &called))
        .map_err(|error| UvatrainError::new_err(format!("cannot start the thread of the caches: {error}")))?;
    let ended = || UvatrainError::new_err("the thread of the caches ended before the caches were filled");
    let row = begins.recv().map_err(|_| ended())?.or_raise()?;
    Ok((warnings, row, calls))
}

/// Refuses a part of a graph for samplers whose seeds are not known beforehand: lists near its border are cut.
pub fn check_whole(graph: &Graph, what: &str) -> PyResult<()> {
    match graph.part() {
        None => Ok(()),
        Some(part) => Err(PyValueError::new_err(format!(
            "{}: it is part {} of a graph, whose lists of nodes near the border are cut, which {what} cannot detect: use \
             uvatrain.Loader, or the whole dataset",
            graph.path().display(),
            part.number
        ))),
    }
}

/// The thread: answers calls until all senders are gone.
fn serve(
    graph: &Arc<Graph>,
    options: &LoaderOptions,
    backend: &Backend,
    contents: &CacheContents,
    begun: &SyncSender<Result<Row, RuntimeError>>,
    called: &Receiver<Call>,
) {
    let mut cached = match planning::CachedDataset::new(graph, options, backend, contents) {
        Ok(cached) => cached,
        Err(error) => {
            // The waiting caller gets it; without one it is lost, and so are the caches.
            let _ = begun.send(Err(error));
            return;
        }
    };
    let row = Row { element: cached.row_element(), columns: graph.table().dim, bytes: cached.row_bytes() };
    let _ = begun.send(Ok(row));
    let mut batch = cached.room();
    for call in called {
        // An answer without a waiting caller is dropped.
        match call {
            Call::Sample { key, seeds, answer } => {
                let sampled = cached.sample(key, &seeds, &mut batch);
                let _ = answer.send(sampled.map(|_| copied(&batch, options)));
            }
            Call::Load { nodes, mut rows, answer } => {
                let bytes = &mut bytemuck::cast_slice_mut(&mut rows)[..nodes.len() * row.bytes];
                let loaded = cached.load(&nodes, bytes);
                let _ = answer.send(loaded.map(|hits| Loaded { rows, hits: hits.last }));
            }
        }
    }
}

/// A batch, copied out of the sampler's memory.
fn copied(batch: &MiniBatch, options: &LoaderOptions) -> BatchArrays {
    let blocks = batch.blocks().map(|block| {
        let edge_ids = options.edge_ids.then(|| exported(block.edge_ids.to_vec(), DlpackType::I64));
        let weighs = options.sampler_kind.weighs_edges();
        (
            block.destinations,
            block.sources,
            exported(block.indptr.to_vec(), DlpackType::I32),
            exported(block.indices.to_vec(), DlpackType::I32),
            edge_ids,
            weighs.then(|| exported(block.weights.to_vec(), DlpackType::F32)),
        )
    });
    let list_reads = batch.counts().list_reads;
    (
        exported(batch.nodes().to_vec(), DlpackType::I64),
        batch.seeds().len(),
        blocks.collect(),
        format!("{:016x}", batch.hash()),
        list_reads.all,
        list_reads.cached,
    )
}
