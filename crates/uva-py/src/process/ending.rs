//! Parks threads that still iterate when the interpreter ends.
//!
//! By then all but daemon threads have been joined. Such a thread must not return to Python with an exception. Python
//! would print it while the interpreter tears down its streams. If both want stderr's lock, Python 3.11 to 3.13 abort
//! ("could not acquire lock for <_io.BufferedWriter>"). So the thread stays here, without the interpreter's lock, until
//! the process has ended.

use std::sync::OnceLock;
use std::thread::{self, ThreadId};

use pyo3::prelude::*;

/// The thread that ends the interpreter, from then on.
static ENDS: OnceLock<ThreadId> = OnceLock::new();

/// Called by `atexit`, in the thread that ends the interpreter, before anything is closed.
#[pyfunction]
pub fn _interpreter_ends() {
    // There is one end only.
    let _ = ENDS.set(thread::current().id());
}

/// Does not return to threads that the interpreter ends without. The caller holds nothing that others wait for.
pub fn stay_where_the_interpreter_ends(py: Python<'_>) {
    if ENDS.get().is_some_and(|ends| *ends != thread::current().id()) {
        py.detach(|| {
            loop {
                thread::park();
            }
        });
    }
}
