//! Signals while Rust waits: Python's own handlers run, and what they raise ends the wait.

use std::sync::{Mutex, PoisonError};

use pyo3::prelude::*;

/// Looks for signals while the interpreter's lock is let go of.
#[derive(Default)]
pub struct SignalCheck(Mutex<Option<PyErr>>);

impl SignalCheck {
    /// Runs the handlers of pending signals, as Python does between two of its instructions. It does so only in the
    /// main thread, since Python runs no handlers in others. Whether the wait is to end.
    pub fn end_the_wait(&self) -> bool {
        match Python::try_attach(|py| py.check_signals()) {
            Some(Ok(())) => false,
            Some(Err(raised)) => {
                *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(raised);
                true
            }
            // Without an interpreter there is no waiting caller.
            None => true,
        }
    }

    /// The exception that a handler has raised.
    pub fn raised(self) -> Option<PyErr> {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}
