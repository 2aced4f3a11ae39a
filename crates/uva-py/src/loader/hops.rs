//! The batches of `uvatrain.HopLoader`: rows of a hop set, copied by threads of this process.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use uva_graph::{Dataset, Verify};
use uva_propagate::HopSet;
use uva_runtime::backend::{BackendOptions, DeviceChoice};
use uva_runtime::options::hop_options::{HopBatches, HopOptions};
use uva_runtime::options::part::Part;
use uva_runtime::pipeline::consumer::{BatchStream, StreamSetup, decide_here};
use uva_runtime::spec::{OptionError, PartialOptions};

use crate::errors::{OrRaise, UvatrainError, of_runtime, with};
use crate::loader::source::Source;
use crate::options::keywords::{count, options_given, split_named};
use crate::process::fork;

/// Starts the threads that copy a hop set's rows into batches. `options` are the loader's options for hop sets, by name.
///
/// hops: the hops of batches, as positions in the set, or all; shuffle, chunk: the order of an epoch.
#[pyfunction]
#[pyo3(signature = (path, *, split, rank, world_size, options, hops, shuffle, chunk))]
#[expect(clippy::too_many_arguments, reason = "keywords")]
pub fn _open_hop_loader(
    py: Python<'_>,
    path: PathBuf,
    split: &str,
    rank: &Bound<'_, PyAny>,
    world_size: &Bound<'_, PyAny>,
    options: &Bound<'_, PyDict>,
    hops: Option<Vec<i64>>,
    shuffle: &str,
    chunk: Option<&str>,
) -> PyResult<Source> {
    let split = split_named(split)?;
    let mut options = options_given(options)?;
    options.part = Part { index: count("rank", rank)?, of: count("world_size", world_size)? };
    let refused = |error: OptionError| of_runtime(error.into());
    let mut order = PartialOptions::<HopOptions>::default();
    order.give("shuffle", shuffle).map_err(refused)?;
    if let Some(chunk) = chunk {
        order.give("chunk", chunk).map_err(refused)?;
    }
    let order_options = order.options();
    order.check_use(&order_options).map_err(refused)?;
    fork::check("a loader cannot be made")?;
    py.detach(|| {
        let dataset = Arc::new(opened(&path)?);
        let batches = batches(&dataset, &order_options, options.batch_size, hops)?;
        let options = options.of_hops(batches);
        options.check().or_raise()?;
        let cpu = BackendOptions { device: DeviceChoice::Cpu, ..BackendOptions::default() };
        let backend = decide_here(&cpu, &dataset, options.gather_threads, false).or_raise()?.backend;
        let setup = StreamSetup::of(split);
        let stream =
            BatchStream::in_this_process(dataset, &options, backend.clone(), setup.clone()).or_raise()?;
        Ok(Source::new(stream, options, backend, Some(setup)))
    })
}

/// The hop set at `path` as a dataset of rows, checked on threads made for that.
fn opened(path: &Path) -> PyResult<Dataset> {
    let pool = rayon::ThreadPoolBuilder::new()
        .build()
        .map_err(|error| UvatrainError::new_err(format!("no threads to check a hop set with: {error}")))?;
    pool.install(|| HopSet::open_dataset(path, Verify::Stamp)).or_raise()
}

/// The hops that batches have, and the order of the rows.
fn batches(
    dataset: &Dataset,
    order: &HopOptions,
    batch_size: usize,
    hops: Option<Vec<i64>>,
) -> PyResult<HopBatches> {
    let refused = |message: String| with(PyValueError::new_err(message), "field", Some("hops"));
    let set = dataset.hops().ok_or_else(|| refused("the dataset has none".to_owned()))?;
    let all = order.batches(set, batch_size).map_err(|error| of_runtime(error.into()))?;
    let is_there = |hop: &i64| usize::try_from(*hop).is_ok_and(|hop| hop < set.count());
    match hops {
        None => Ok(all),
        Some(hops) if hops.is_empty() || !hops.iter().all(is_there) => {
            let last = set.count() - 1;
            Err(refused(format!("invalid hops {hops:?}: expected at least one position from 0 to {last}")))
        }
        Some(hops) => Ok(HopBatches { tables: hops.into_iter().map(|hop| hop as usize).collect(), ..all }),
    }
}
