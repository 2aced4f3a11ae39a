//! Tables of trained rows over arrays that Python lends: what `uvatrain.Embedding` computes on the CPU.
//!
//! A table and its moments are float32 [rows, width], ids int64. The interpreter's lock is released while a loop runs.

use std::sync::Arc;

use pyo3::exceptions::{PyMemoryError, PyValueError};
use pyo3::prelude::*;
use uva_mem::ZeroedPages;
use uva_rows::{InitialRows, InitialValues, TrainedError, read_rows};

use crate::arrays::array::Array;
use crate::arrays::dlpack::{DlpackDevice, DlpackType};
use crate::arrays::input::{ElementKind, Input};
use crate::lists::given::{pool, read, table, write};

fn refused(error: TrainedError) -> PyErr {
    let argument = match error {
        TrainedError::Id { .. } => "ids",
        TrainedError::Length { .. } => "rows",
    };
    PyValueError::new_err(format!("{argument}: {error}"))
}

/// A table of zeros, float32 [rows, width], on 2 MiB pages if the system has them. Rows that are not written use no
/// memory.
#[pyfunction]
pub fn zero_table(rows: usize, width: usize) -> PyResult<Array> {
    let no_memory = |reason: &dyn std::fmt::Display| {
        PyMemoryError::new_err(format!("a table of {rows} rows of {width} values: {reason}"))
    };
    let bytes = rows.checked_mul(width).and_then(|elements| elements.checked_mul(4));
    let bytes = bytes.ok_or_else(|| no_memory(&"larger than all memory"))?;
    let mut pages = ZeroedPages::new(bytes).map_err(|error| no_memory(&error))?;
    let pointer = pages.bytes_mut().as_mut_ptr();
    // SAFETY: the pages are moved into the owner, which does not move their memory, as long as computed; no other code
    // has its address. Zeros are values of float32.
    Ok(unsafe {
        Array::new(pointer, rows, Some(width), DlpackType::F32, DlpackDevice::HOST, Arc::new(pages))
    })
}

/// Writes the first values of a table: uniform in ±√(6 / (rows + width)), drawn from the seed, the table's number, and
/// the id of each row: its entry in `original`, int64 [rows], or its position.
#[pyfunction]
#[pyo3(signature = (out, seed, number, original=None, threads=1))]
pub fn write_initial_rows(
    py: Python<'_>,
    out: &Bound<'_, PyAny>,
    seed: u64,
    number: u16,
    original: Option<&Bound<'_, PyAny>>,
    threads: usize,
) -> PyResult<()> {
    let mut out = Input::new("out", out)?;
    let original = original.map(|original| Input::new("original", original)).transpose()?;
    py.detach(|| {
        let width = table(&out)?.1;
        let original =
            original.as_ref().map(|original| read::<i64>(original, ElementKind::I64)).transpose()?;
        let initial = InitialRows { values: InitialValues::Xavier, seed, table: number, original };
        initial
            .write(write(&mut out, ElementKind::F32, &[])?, width, pool(threads).as_deref())
            .map_err(refused)
    })
}

/// Copies the rows of a table with these ids: `out` is [ids, width].
#[pyfunction]
#[pyo3(signature = (rows, ids, out, threads=1))]
pub fn table_rows(
    py: Python<'_>,
    rows: &Bound<'_, PyAny>,
    ids: &Bound<'_, PyAny>,
    out: &Bound<'_, PyAny>,
    threads: usize,
) -> PyResult<()> {
    let (rows, ids) = (Input::new("rows", rows)?, Input::new("ids", ids)?);
    let mut out = Input::new("out", out)?;
    py.detach(|| {
        let width = table(&rows)?.1;
        let out = write(&mut out, ElementKind::F32, &[&rows, &ids])?;
        let (rows, ids) = (read(&rows, ElementKind::F32)?, read(&ids, ElementKind::I64)?);
        read_rows(rows, width, ids, out, pool(threads).as_deref()).map_err(refused)
    })
}
