//! `uvatrain.Loader`: threads of this process that prepare a dataset's batches.

use std::path::PathBuf;
use std::sync::Arc;

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use uva_graph::{Dataset as Graph, Split, Verify};
use uva_runtime::backend::{BackendOptions, DeviceChoice};
use uva_runtime::feed::ranks::RankExchanges;
use uva_runtime::options::input_nodes::TypeName;
use uva_runtime::options::part::Part;
use uva_runtime::pipeline::consumer::{BatchStream, StreamCache, StreamSetup, decide_here};
use uva_runtime::sampler::cache::CacheRanks;
use uva_runtime::spec::OptionError;
use uva_runtime::tune::planning::GpuCache;
use uva_runtime::{InputNodes, InputSeeds, gather_by_cpu};

use crate::arrays::input::Input;
use crate::data::dataset::{PyDataset, open_divided, open_here};
use crate::errors::{OrRaise, of_runtime, with};
use crate::loader::exchange::TorchExchange;
use crate::loader::source::{Source, lock};
use crate::options::keywords::{caches_given, count, options_given, size, split_named};
use crate::process::fork;

fn device_named(name: &str) -> PyResult<DeviceChoice> {
    let index = match name {
        "cpu" => return Ok(DeviceChoice::Cpu),
        "cuda" => Some(0),
        other => other.strip_prefix("cuda:").and_then(|index| index.parse().ok()),
    };
    index.map(DeviceChoice::Cuda).ok_or_else(|| {
        PyValueError::new_err(format!("invalid device {name:?}: expected cpu, cuda or cuda:0, cuda:1, …"))
    })
}

/// The name of the argument of nodes.
const NAME: &str = "input_nodes";

/// The argument `input_nodes`: nodes, or nodes by the names of their types.
fn seeds_given(value: &Bound<'_, PyAny>) -> PyResult<InputSeeds> {
    let Ok(of_types) = value.cast::<PyDict>() else { return nodes_given(value).map(InputSeeds::from) };
    let of_type = |(name, nodes): (Bound<'_, PyAny>, Bound<'_, PyAny>)| {
        let Ok(name) = name.extract::<String>() else {
            let message = format!("{NAME} has the key {name}: the name of a node type is needed");
            return Err(with(PyTypeError::new_err(message), "field", Some(NAME)));
        };
        let Ok(name) = name.parse::<TypeName>();
        Ok((name, nodes_given(&nodes)?))
    };
    of_types.iter().map(of_type).collect()
}

/// Nodes of one type. Files are read, and ids compared with the dataset, without the interpreter's lock.
fn nodes_given(value: &Bound<'_, PyAny>) -> PyResult<InputNodes> {
    let named = |error| with(error, "field", Some(NAME));
    if value.is_instance_of::<PyString>() || value.hasattr("__fspath__")? {
        let path: PathBuf = value.extract()?;
        return Ok(if path.as_os_str() == "all" { InputNodes::All } else { InputNodes::File(path) });
    }
    let array = Input::new(NAME, value).map_err(named)?;
    let said = array.describe();
    if array.shape.len() != 1 {
        let message = format!("{NAME} is {said}, but must have one dimension: ids, or a mask");
        return Err(named(PyValueError::new_err(message)));
    }
    if let Some(mask) = array.as_bools() {
        return Ok(InputNodes::Mask(mask));
    }
    let mut ids = Vec::with_capacity(array.elements());
    let widened = array.widened(|piece| -> PyResult<()> {
        ids.extend_from_slice(piece);
        Ok(())
    });
    match widened {
        Some(read) => read.map(|()| InputNodes::Ids(ids)),
        None => {
            let message = format!("{NAME} is {said}: node ids must be integers, and a mask bool");
            Err(named(PyTypeError::new_err(message)))
        }
    }
}

/// Starts the threads that prepare a dataset's batches. `path` is its directory, or a `Dataset` that is open;
/// `options` are the loader's, by name.
///
/// input_nodes: nodes instead of the split's: a path, "all", or an array of ids or bools; or a dict of these by the names
/// of node types. shuffle: whether each epoch
/// reorders the seeds; None: shuffle training only. part: the part of a partition that the dataset must be, the training
/// nodes of the smallest part and of this part, and the text of `partition.json`. exchanges: `path` is a partition in
/// ranges, of which this rank has one; the first exchange transfers rows of the others, the second, if any, picks from
/// the lists of their nodes. remote_cache: bytes for copies of such rows, as a number or a size. caches: the options of
/// this process's caches, by name. cache_exchange: the exchange of ranks on this machine whose GPUs share the rows of
/// `gpu_cache`.
#[pyfunction]
#[pyo3(signature = (path, *, split, device, rank, world_size, options, caches, input_nodes=None, shuffle=None, part=None, exchanges=Vec::new(), remote_cache=None, cache_exchange=None))]
#[expect(clippy::too_many_arguments, reason = "keywords")]
pub fn _open_loader(
    py: Python<'_>,
    path: &Bound<'_, PyAny>,
    split: &str,
    device: &str,
    rank: &Bound<'_, PyAny>,
    world_size: &Bound<'_, PyAny>,
    options: &Bound<'_, PyDict>,
    caches: &Bound<'_, PyDict>,
    input_nodes: Option<&Bound<'_, PyAny>>,
    shuffle: Option<bool>,
    part: Option<(u32, usize, usize, Vec<u8>)>,
    exchanges: Vec<Bound<'_, PyAny>>,
    remote_cache: Option<&Bound<'_, PyAny>>,
    cache_exchange: Option<&Bound<'_, PyAny>>,
) -> PyResult<Source> {
    let split = split_named(split)?;
    let mut options = options_given(options)?;
    options.part = Part { index: count("rank", rank)?, of: count("world_size", world_size)? };
    if let Some(shuffle) = shuffle {
        options.shuffled = options.shuffled.with(split, shuffle);
    }
    let input_nodes = input_nodes.map(seeds_given).transpose()?;
    let device = device_named(device)?;
    options.check().or_raise()?;
    fork::check("a loader cannot be made")?;
    let opened = path.cast::<PyDataset>().ok().map(|dataset| Arc::clone(dataset.get().graph()));
    let path: PathBuf = if opened.is_some() { PathBuf::new() } else { path.extract()? };
    let mut over = exchanges.iter().map(TorchExchange::new).collect::<PyResult<Vec<_>>>()?.into_iter();
    let (rows, lists) = (over.next(), over.next());
    let remote = remote_cache.map(|bytes| size("remote_cache", bytes)).transpose()?.unwrap_or(0);
    let caches = caches_given(caches)?;
    let cache_exchange = cache_exchange.map(TorchExchange::new).transpose()?;
    let raised = cache_exchange.as_ref().map(TorchExchange::raised);
    let gpu_cache = caches.gpu_cache.map(|budget| {
        let cache = GpuCache::new(budget, caches.cache_policy);
        match cache_exchange {
            Some(exchange) => cache.between(CacheRanks::new(Box::new(exchange))),
            None => cache,
        }
    });
    let cache = match (caches.host_cache, gpu_cache) {
        (Some(_), Some(_)) => {
            let reason =
                "not supported with `gpu_cache`, which replaces a cache of rows on disk: omit one of them";
            return Err(of_runtime(OptionError::of("host_cache", reason).into()));
        }
        (Some(budget), None) => Some(StreamCache::Host(budget)),
        (None, on_gpu) => on_gpu.map(StreamCache::Gpu),
    };
    let caches_on_gpu = matches!(cache, Some(StreamCache::Gpu(_)));
    let exchanges = exchanges.into_iter().map(Bound::unbind).collect();
    let made = py.detach(|| {
        let dataset = match opened {
            Some(dataset) => dataset,
            None if rows.is_some() => Arc::new(open_divided(&path, options.part.index, Verify::Stamp)?),
            None => Arc::new(open_here(&path, options.target.as_ref(), input_nodes.as_ref())?),
        };
        if let Some((number, _, train, description)) = &part {
            check_part(&dataset, *number, *train, description)?;
        }
        let fewest = part.map(|(_, fewest, ..)| fewest).filter(|_| input_nodes.is_none());
        let dataset = match input_nodes {
            Some(nodes) => Arc::new(nodes.in_place_of(split, Graph::clone(&dataset)).or_raise()?),
            None => dataset,
        };
        let asked = BackendOptions { device, ..BackendOptions::default() };
        let asked = gather_by_cpu(&asked, &options, &dataset, caches_on_gpu);
        let backend =
            decide_here(&asked, &dataset, options.gather_threads, caches_on_gpu).or_raise()?.backend;
        let ranks = rows.map(|rows| {
            let ranks = RankExchanges::new(Box::new(rows)).with_cache(remote);
            Arc::new(lists.into_iter().fold(ranks, |ranks, lists| ranks.with_lists(Box::new(lists))))
        });
        let setup = StreamSetup { main: split, fewest, ranks, cache };
        let stream =
            BatchStream::in_this_process(dataset, &options, backend.clone(), setup.clone()).or_raise()?;
        Ok(Source::new(stream, options, backend, Some(setup)).over_exchanges(exchanges))
    });
    // An interrupt while ranks met is raised unchanged.
    made.map_err(|error| raised.and_then(|raised| lock(&raised).take()).unwrap_or(error))
}

/// Refuses a dataset that is not this part of the partition with this description, or has another number of training
/// nodes than that says.
fn check_part(dataset: &Graph, number: u32, train: usize, description: &[u8]) -> PyResult<()> {
    let refused = |message: String| Err(with(PyValueError::new_err(message), "field", Some("part")));
    let path = dataset.path().display();
    let found = dataset.part().filter(|part| part.number == number);
    let Some(part) = found else {
        let is = dataset.part();
        let is =
            is.map_or_else(|| "not a part of a dataset".to_owned(), |part| format!("part {}", part.number));
        return refused(format!(
            "part: {path} is {is}, but must be part {number}: write the parts again (uvatrain partition)"
        ));
    };
    if !part.is_of(description) {
        return refused(format!(
            "part: {path} was written with another partition.json: write the parts again (uvatrain partition)"
        ));
    }
    let nodes = dataset.split(Split::Train).len();
    if nodes != train {
        return refused(format!(
            "part: {path} has {nodes} training nodes, but \"train\" of partition.json is {train}: write the parts again \
             (uvatrain partition)"
        ));
    }
    Ok(())
}
