//! Hop sets: features multiplied by graph operators, made from a dataset, and opened.

use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use uva_cuda::memory::HostMemory;
use uva_graph::npy::{NpyArray, NpyType};
use uva_propagate::{
    Estimate, Layout, PropagateOptions, PropagateOutcome, PropagateProgress, PropagateWatch, parse_operators,
};
use uva_runtime::spec::{ByteSize, Named};

use crate::arrays::array::Array;
use crate::arrays::dlpack::DlpackType;
use crate::arrays::table::PrivateTable;
use crate::data::dataset::PyDataset;
use crate::errors::{OrRaise, UvatrainError, of_graph, of_io, with};
use crate::options::keywords::is_bool;
use crate::process::interrupt::SignalCheck;

/// The minimum time between two calls of `progress`, or between two checks for signals.
const BETWEEN_CALLS: Duration = Duration::from_millis(200);

/// Options by name, as given in Python.
struct HopSetKeywords<'a, 'py>(&'a Bound<'py, PyDict>);

impl HopSetKeywords<'_, '_> {
    fn refused(name: &str, message: &str) -> PyErr {
        with(PyValueError::new_err(format!("{name}: {message}")), "field", Some(name))
    }

    /// The value of an option; `None` if it was not given.
    fn text(&self, name: &str) -> PyResult<Option<String>> {
        let value = self.0.get_item(name)?.filter(|value| !value.is_none());
        value.map(|value| value.str()?.extract()).transpose()
    }

    /// Refuses True and False, whose texts would be refused for another reason.
    fn check_number(&self, name: &str) -> PyResult<()> {
        if self.0.get_item(name)?.is_some_and(|value| is_bool(&value)) {
            let error = PyTypeError::new_err(format!("{name} is an integer, not bool"));
            return Err(with(error, "field", Some(name)));
        }
        Ok(())
    }

    fn read<T>(&self, name: &str, read: impl FnOnce(&str) -> Result<T, String>) -> PyResult<Option<T>> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        read(&text).map(Some).map_err(|message| Self::refused(name, &message))
    }

    fn number<T: FromStr>(&self, name: &str) -> PyResult<Option<T>> {
        self.check_number(name)?;
        self.read(name, |text| {
            text.parse().map_err(|_| {
                format!("invalid value '{text}': expected an integer of 0 or more that is not too large")
            })
        })
    }

    fn choice<T: Named + Default>(&self, name: &str) -> PyResult<T> {
        let found = self.read(name, |text| {
            T::all().into_iter().find(|value| value.name() == text).ok_or_else(|| {
                let names: Vec<&str> = T::all().into_iter().map(T::name).collect();
                format!("invalid value '{text}': expected one of {}", names.join(", "))
            })
        })?;
        Ok(found.unwrap_or_default())
    }

    fn switch(&self, name: &str) -> PyResult<bool> {
        self.0.get_item(name)?.map_or(Ok(false), |value| value.extract())
    }

    fn options(&self) -> PyResult<PropagateOptions> {
        self.check_number("memory")?;
        let memory = self
            .read("memory", |text| ByteSize::from_str(text).map_err(|error| error.to_string()))?
            .map(ByteSize::bytes);
        Ok(PropagateOptions {
            operators: self.read("operator", parse_operators)?.unwrap_or_default(),
            hops: self.number("hops")?.unwrap_or_default(),
            nodes: self.choice("nodes")?,
            element: self.choice("type")?,
            layout: self.choice("layout")?,
            row_order: self.choice("row_order")?,
            seed: self.number("seed")?.unwrap_or_default(),
            weighted: self.switch("weighted")?,
            feature_norm: self.choice("feature_norm")?,
            memory: memory.map_or_else(half_of_memory, Ok)?,
            threads: self
                .number("threads")?
                .unwrap_or_else(|| thread::available_parallelism().map_or(1, usize::from)),
        })
    }
}

fn half_of_memory() -> PyResult<u64> {
    let memory = HostMemory::read().map_err(|error| {
        UvatrainError::new_err(format!("cannot read how much memory is available ({error}): give memory"))
    })?;
    Ok(memory.to_be_had() / 2)
}

/// Multiplies the dataset's features by operators, and stores the rows as the hop set `out`.
///
/// options: options of docs/guide/propagation.md by name. progress: None, or called with the operator's name, the rows
/// that are summed, and all rows of this operator. An exception of it ends the work, as one of a signal handler does;
/// finished parts are kept.
#[pyfunction]
pub fn propagate(
    py: Python<'_>,
    dataset: &PyDataset,
    out: PathBuf,
    options: &Bound<'_, PyDict>,
    resume: bool,
    progress: Option<Py<PyAny>>,
) -> PyResult<()> {
    let options = HopSetKeywords(options).options()?;
    let graph = Arc::clone(dataset.graph());
    let mut watch = ProgressWatch { signals: SignalCheck::default(), progress, raised: None, called: None };
    let ended = py.detach(|| uva_propagate::propagate(&graph, &out, &options, resume, &mut watch));
    match ended.or_raise()? {
        PropagateOutcome::Made(_) => Ok(()),
        PropagateOutcome::Stopped => {
            let raised = watch.raised.or_else(|| watch.signals.raised());
            Err(raised.unwrap_or_else(|| UvatrainError::new_err("it was stopped")))
        }
    }
}

/// Python's handlers of signals, and the function that receives the progress.
struct ProgressWatch {
    signals: SignalCheck,
    progress: Option<Py<PyAny>>,
    /// The exception that this function raised.
    raised: Option<PyErr>,
    /// The time of its last call.
    called: Option<Instant>,
}

impl PropagateWatch for ProgressWatch {
    fn begins(&mut self, _estimate: &Estimate, _finished: u64) {}

    fn progress(&mut self, progress: PropagateProgress<'_>) {
        let Some(function) = &self.progress else { return };
        let last = progress.done == progress.total;
        if self.raised.is_some() || (!last && self.called.is_some_and(|at| at.elapsed() < BETWEEN_CALLS)) {
            return;
        }
        let of_call = (progress.what, progress.done, progress.total);
        // Without an interpreter there is no listener.
        if let Some(Err(raised)) = Python::try_attach(|py| function.call1(py, of_call)) {
            self.raised = Some(raised);
        }
        self.called = Some(Instant::now());
    }

    fn stops(&mut self) -> bool {
        self.raised.is_some() || self.signals.end_the_wait()
    }
}

/// A hop set of docs/guide/propagation.md, checked and mapped. `uvatrain.HopSet` is the public class.
#[pyclass(frozen, name = "HopSet", module = "uvatrain._core")]
pub struct PyHopSet {
    path: PathBuf,
    set: uva_propagate::HopSet,
}

impl PyHopSet {
    fn element(&self) -> DlpackType {
        match self.set.dtype.npy() {
            NpyType::F16 => DlpackType::F16,
            // `.npy` has no name for bfloat16; hops.json has the type.
            NpyType::U16 => DlpackType::BF16,
            _ => DlpackType::F32,
        }
    }

    fn array(&self, file: &str, columns: Option<usize>, element: DlpackType) -> PyResult<Array> {
        PrivateTable::map(&self.path.join(file), self.set.rows, columns, element).map(|table| table.lent())
    }
}

#[pymethods]
impl PyHopSet {
    /// Opens the hop set in the directory `path`: reads hops.json, and checks length, type and shape of every file.
    #[new]
    fn new(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        py.detach(|| {
            let set = uva_propagate::HopSet::open(&path).or_raise()?;
            Ok(Self { path, set })
        })
    }

    /// The directory.
    #[getter]
    fn path(&self) -> PathBuf {
        self.path.clone()
    }

    /// The content of hops.json, as JSON.
    #[getter]
    fn meta(&self) -> PyResult<String> {
        serde_json::to_string(&self.set)
            .map_err(|error| UvatrainError::new_err(format!("hops.json: {error}")))
    }

    /// Hops of a row, including the features themselves.
    #[getter]
    fn hops(&self) -> usize {
        self.set.hops()
    }

    /// The names of hop files in order; one name if all hops of a row are in one file.
    #[getter]
    fn hop_files(&self) -> Vec<String> {
        self.set.hop_files()
    }

    /// The rows of a hop file without a copy, [rows, elements of a row].
    fn rows_of(&self, file: &str) -> PyResult<Array> {
        let columns = match self.set.layout {
            Layout::Hops => self.set.dim,
            Layout::Rows => self.set.hops() * self.set.dim,
        };
        self.array(file, Some(columns), self.element())
    }

    /// The ids of the rows' nodes without a copy.
    fn node_idx(&self) -> PyResult<Array> {
        self.array("node_idx.npy", None, DlpackType::I64)
    }

    /// The labels of the rows without a copy; None where the dataset had none.
    fn labels(&self) -> PyResult<Option<Array>> {
        let file = "label.npy";
        if !self.set.files.contains_key(file) {
            return Ok(None);
        }
        let array = NpyArray::open(&self.path.join(file)).map_err(of_graph)?;
        let element = match array.kind() {
            NpyType::U8 => DlpackType::U8,
            NpyType::F32 => DlpackType::F32,
            NpyType::I64 => DlpackType::I64,
            other => {
                let message = format!("{}: labels of type {other} are not supported", array.path().display());
                return Err(PyValueError::new_err(message));
            }
        };
        self.array(file, array.shape().get(1).copied(), element).map(Some)
    }

    /// Checks the hashes of all files, and that every value of every hop is finite.
    /// A signal handler that raises ends the check.
    fn verify(&self, py: Python<'_>) -> PyResult<()> {
        let signals = SignalCheck::default();
        let stops = AtomicBool::new(false);
        // Relaxed: no other data depends on the flag.
        let check = || self.set.verify_until(&self.path, &|| stops.load(Ordering::Relaxed));
        let checked = py.detach(|| {
            let pool = rayon::ThreadPoolBuilder::new()
                .build()
                .map_err(|error| of_io(&std::io::Error::other(error), "start threads for", "the check"))?;
            let (tell, told) = mpsc::channel();
            pool.in_place_scope(|scope| {
                scope.spawn(|_| drop(tell.send(check())));
                loop {
                    match told.recv_timeout(BETWEEN_CALLS) {
                        Ok(checked) => return checked.or_raise(),
                        // Signals belong to Python, whose handlers run only in this thread.
                        Err(RecvTimeoutError::Timeout) => {
                            if signals.end_the_wait() {
                                stops.store(true, Ordering::Relaxed);
                            }
                        }
                        Err(RecvTimeoutError::Disconnected) => {
                            return Err(UvatrainError::new_err("the check has panicked"));
                        }
                    }
                }
            })
        })?;
        if checked {
            return Ok(());
        }
        Err(signals.raised().unwrap_or_else(|| UvatrainError::new_err("it was stopped")))
    }
}
