//! The main interpreter of a process, the only one that may import the module.

use pyo3::exceptions::PyImportError;
use pyo3::prelude::*;

/// Refuses a subinterpreter. The module's exception classes and types are kept once a process, and would be those of
/// another interpreter there.
///
/// # Errors
/// `ImportError` in any interpreter but the main one.
pub fn check(_py: Python<'_>) -> PyResult<()> {
    // SAFETY: `_py` shows that this thread is attached to an interpreter, so there is a current one.
    let number = unsafe { pyo3::ffi::PyInterpreterState_GetID(pyo3::ffi::PyInterpreterState_Get()) };
    // CPython numbers interpreters in the order in which they begin, the main one first.
    if number == 0 {
        return Ok(());
    }
    Err(PyImportError::new_err(format!(
        "uvatrain is not supported in subinterpreters, and this is interpreter {number}: import it in the main \
         interpreter, or in a separate process (multiprocessing)"
    )))
}
