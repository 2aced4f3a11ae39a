//! The part of `python -m uvatrain doctor` that needs native code: the GPU as uvatrain's own core sees it.

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use uva_runtime::backend::Probe;

/// CUDA's report on this machine, as the JSON text that `uvatrain probe` prints: the driver, its devices or why there
/// are none, and NVRTC if there is a device to compile for.
///
/// It loads CUDA into the calling process, which may hang or fail with a broken driver: the doctor calls it in a separate
/// process. Python checks PyTorch itself.
#[pyfunction]
pub fn probe(py: Python<'_>) -> PyResult<String> {
    // Detached, so that other Python threads continue while the driver works.
    let probe = py.detach(|| Probe::here(|| Ok(())));
    serde_json::to_string(&probe).map_err(|error| PyRuntimeError::new_err(error.to_string()))
}
