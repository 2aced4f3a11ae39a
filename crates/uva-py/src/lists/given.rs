//! The arrays that Python lends to a loop, checked, and the threads that run it.

use std::sync::{Arc, Mutex, PoisonError};

use bytemuck::Pod;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use rayon::ThreadPool;

use crate::arrays::input::{ElementKind, Input};

/// The pool of the last call with its process: threads do not survive a fork.
static POOL: Mutex<Option<(u32, Arc<ThreadPool>)>> = Mutex::new(None);

/// A pool of this many threads. `None` for one thread, or if no thread can be spawned: then the caller does all the
/// work, with the same result.
pub fn pool(threads: usize) -> Option<Arc<ThreadPool>> {
    if threads < 2 {
        return None;
    }
    let here = std::process::id();
    let mut pool = POOL.lock().unwrap_or_else(PoisonError::into_inner);
    if pool.as_ref().is_none_or(|(process, pool)| *process != here || pool.current_num_threads() != threads) {
        let made = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .thread_name(|index| format!("lists-{index}"))
            .build()
            .ok()?;
        // A fork must not wait for the threads of its parent, so it does not drop their pool.
        if let Some(old) = pool.replace((here, Arc::new(made)))
            && old.0 != here
        {
            std::mem::forget(old);
        }
    }
    pool.as_ref().map(|(_, pool)| Arc::clone(pool))
}

/// An array that a loop reads.
pub fn read<T: Pod>(input: &Input, kind: ElementKind) -> PyResult<&[T]> {
    if input.kind != kind {
        let message = format!("{} is {}, but {} is required", input.name, input.describe(), kind.name());
        return Err(PyValueError::new_err(message));
    }
    // `Input` has found it aligned.
    bytemuck::try_cast_slice(input.bytes())
        .map_err(|error| PyValueError::new_err(format!("{} is {}: {error}", input.name, input.describe())))
}

/// An array that a loop writes, which must not overlap the arrays that are read.
pub fn write<'o, T: Pod>(out: &'o mut Input, kind: ElementKind, others: &[&Input]) -> PyResult<&'o mut [T]> {
    if out.kind != kind {
        let message = format!("{} is {}, but {} is required", out.name, out.describe(), kind.name());
        return Err(PyValueError::new_err(message));
    }
    let own = out.bytes().as_ptr_range();
    for other in others {
        let range = other.bytes().as_ptr_range();
        if own.start < range.end && range.start < own.end {
            return Err(PyValueError::new_err(format!("{} shares memory with {}", out.name, other.name)));
        }
    }
    if out.elements() == 0 {
        return Ok(&mut []);
    }
    let name = out.name.clone();
    // SAFETY: our own Python allocates `out` for the call and does not share it before it returns (nn/functional.py), or
    // has it written and read by one thread at a time (nn/embedding.py). It overlaps none of the arrays that are read, as
    // was just found.
    match unsafe { out.bytes_mut() } {
        Some(bytes) => bytemuck::try_cast_slice_mut(bytes)
            .map_err(|error| PyValueError::new_err(format!("{name}: {error}"))),
        None => Err(PyValueError::new_err(format!("{name} is read-only"))),
    }
}

/// The length of an array of one dimension, or the lengths of one of two.
pub fn table(input: &Input) -> PyResult<(usize, usize)> {
    match input.shape[..] {
        [rows] => Ok((rows, 1)),
        [rows, columns] => Ok((rows, columns)),
        _ => Err(PyValueError::new_err(format!(
            "{} is {}, but one or two dimensions are required",
            input.name,
            input.describe()
        ))),
    }
}

/// Refuses a table of another shape.
pub fn check(input: &Input, rows: usize, columns: usize) -> PyResult<()> {
    if table(input)? == (rows, columns) {
        return Ok(());
    }
    Err(PyValueError::new_err(format!(
        "{} is {}, but [{rows}, {columns}] is required",
        input.name,
        input.describe()
    )))
}
