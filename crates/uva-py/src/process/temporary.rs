//! Directories for files that are only needed while this process runs.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use pyo3::prelude::*;
use uva_files::staging;

use crate::errors::of_io;

/// A private directory, removed with its content by `close`, by garbage collection, or, where the process was killed, by the
/// next process that makes one of the same parent and name.
#[pyclass(frozen, name = "TemporaryDirectory", module = "uvatrain._core")]
pub struct PyTemporaryDirectory {
    path: PathBuf,
    /// `None` once it is closed.
    directory: Mutex<Option<staging::TemporaryDirectory>>,
}

#[pymethods]
impl PyTemporaryDirectory {
    /// Creates it in the directory `parent`.
    #[new]
    fn new(py: Python<'_>, parent: PathBuf, name: &str) -> PyResult<Self> {
        let directory = py
            .detach(|| staging::TemporaryDirectory::create(&parent, name))
            .map_err(|error| of_io(&error, "create a directory", &parent.display().to_string()))?;
        Ok(Self { path: directory.path().to_owned(), directory: Mutex::new(Some(directory)) })
    }

    /// Where it is.
    #[getter]
    fn path(&self) -> PathBuf {
        self.path.clone()
    }

    /// Removes it. A fork of the process that made it does not.
    fn close(&self, py: Python<'_>) {
        let directory = self.directory.lock().unwrap_or_else(PoisonError::into_inner).take();
        py.detach(|| drop(directory));
    }
}
