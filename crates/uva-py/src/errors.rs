//! The runtime's errors as Python exceptions.
//!
//! The exceptions of this package are classes in `uvatrain/errors.py`.

use std::io;

use pyo3::exceptions::{PyKeyboardInterrupt, PyOSError, PyValueError};
use pyo3::prelude::*;
use uva_files::escape;
use uva_graph::GraphError;
use uva_runtime::RuntimeError;
use uva_runtime::spec::Spelling;

mod classes {
    use pyo3::import_exception;

    import_exception!(uvatrain.errors, UvatrainError);
    import_exception!(uvatrain.errors, Unavailable);
    import_exception!(uvatrain.errors, PeerDied);
    import_exception!(uvatrain.errors, SlotInUse);
    import_exception!(uvatrain.errors, BatchGone);
}

pub use classes::*;

/// A result whose error Python can raise.
pub trait OrRaise<T> {
    /// Converts the error to the Python exception.
    fn or_raise(self) -> PyResult<T>;
}

impl<T> OrRaise<T> for Result<T, RuntimeError> {
    fn or_raise(self) -> PyResult<T> {
        self.map_err(of_runtime)
    }
}

impl<T> OrRaise<T> for Result<T, GraphError> {
    fn or_raise(self) -> PyResult<T> {
        self.map_err(of_graph)
    }
}

/// The exception for an error of a request in Python: options have Python's names.
pub fn of_runtime(error: RuntimeError) -> PyErr {
    exception(&error, &error.to_string())
}

/// The exception for an error of a command line: options have the command line's names.
pub fn of_launched(error: RuntimeError) -> PyErr {
    exception(&error, &error.spelled(Spelling::CommandLine))
}

fn exception(error: &RuntimeError, message: &str) -> PyErr {
    // Python prints the message unchanged.
    let message = escape::word(message).into_owned();
    let raised = match error {
        RuntimeError::Option(_) | RuntimeError::Usage(_) | RuntimeError::Input(_) => {
            PyValueError::new_err(message)
        }
        RuntimeError::Missing(_) => Unavailable::new_err(message),
        RuntimeError::PeerGone(_) => PeerDied::new_err(message),
        RuntimeError::SlotHeld(_) => SlotInUse::new_err(message),
        RuntimeError::Interrupted(_) => PyKeyboardInterrupt::new_err(message),
        _ => UvatrainError::new_err(message),
    };
    with(with(raised, "field", error.field()), "path", error.path())
}

/// The exception with an attribute for programs, if it has a value.
pub fn with(raised: PyErr, name: &str, value: Option<&str>) -> PyErr {
    if let Some(value) = value {
        // Every exception takes attributes.
        Python::attach(|py| drop(raised.value(py).setattr(name, value)));
    }
    raised
}

/// The exception for a dataset that cannot be read or written. A system error becomes an `OSError` with its number and
/// file, of Python's matching subclass (`FileNotFoundError`, `PermissionError`, …).
pub fn of_graph(error: GraphError) -> PyErr {
    match error {
        GraphError::Io { path, action, source } => of_io(&source, action, &path.display().to_string()),
        other => {
            let message = Spelling::Keyword.sentence(&other.to_string());
            let raised = PyValueError::new_err(escape::word(&message).into_owned());
            let path = other.path().map(|path| path.display().to_string());
            with(with(raised, "path", path.as_deref()), "field", other.field().as_deref())
        }
    }
}

/// The `OSError` for an operation that the system refused.
pub fn of_io(error: &io::Error, action: &str, path: &str) -> PyErr {
    let said = error.to_string();
    // An error without a system call has a kind, but no number.
    let number = error.raw_os_error().or(match error.kind() {
        io::ErrorKind::NotFound => Some(ENOENT),
        io::ErrorKind::NotADirectory => Some(ENOTDIR),
        _ => None,
    });
    match number {
        // Python chooses the class by the number, and adds the number and the file to the message.
        Some(number) => {
            let said = said.strip_suffix(&format!(" (os error {number})")).unwrap_or(&said).to_owned();
            PyOSError::new_err((number, format!("cannot {action}: {said}"), path.to_owned()))
        }
        None => PyOSError::new_err(escape::word(&format!("{path}: cannot {action}: {said}")).into_owned()),
    }
}

/// Error numbers of Linux.
const ENOENT: i32 = 2;
const ENOTDIR: i32 = 20;
