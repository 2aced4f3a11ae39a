//! Arrays for tests: a given number of zero elements of a type, and a counter of the arrays in memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::arrays::array::Array;
use crate::arrays::dlpack::{DlpackDevice, DlpackType};

static ALIVE: AtomicUsize = AtomicUsize::new(0);

struct Counted(#[expect(dead_code, reason = "it keeps the memory")] Box<[u64]>);

impl Drop for Counted {
    fn drop(&mut self) {
        ALIVE.fetch_sub(1, Ordering::Relaxed);
    }
}

/// An array of zeros in new memory.
#[pyfunction]
#[pyo3(signature = (dtype, rows, columns=None, *, read_only=false))]
pub fn _zeros(dtype: &str, rows: usize, columns: Option<usize>, read_only: bool) -> PyResult<Array> {
    let element = [
        DlpackType::F32,
        DlpackType::F16,
        DlpackType::BF16,
        DlpackType::E4M3,
        DlpackType::U16,
        DlpackType::U8,
        DlpackType::I8,
        DlpackType::I32,
        DlpackType::I64,
    ]
    .into_iter()
    .find(|element| element.name() == dtype)
    .ok_or_else(|| PyValueError::new_err(format!("dtype {dtype:?}: there is no such element")))?;
    let too_much = || PyValueError::new_err(format!("{rows} x {columns:?}: too much"));
    let bytes = rows
        .checked_mul(columns.unwrap_or(1))
        .and_then(|elements| elements.checked_mul(element.bytes()))
        .ok_or_else(too_much)?;
    let mut memory = Vec::new();
    memory.try_reserve_exact(bytes.div_ceil(8)).map_err(|_| too_much())?;
    memory.resize(bytes.div_ceil(8), 0_u64);
    let mut memory = memory.into_boxed_slice();
    let pointer = memory.as_mut_ptr().cast();
    ALIVE.fetch_add(1, Ordering::Relaxed);
    let owner = Arc::new(Counted(memory));
    // SAFETY: the memory is the owner's, as long as computed, and all zeros are a value of every element.
    let array = unsafe { Array::new(pointer, rows, columns, element, DlpackDevice::HOST, owner) };
    Ok(if read_only { array.read_only() } else { array })
}

/// The number of arrays of `_zeros` in memory, including lent arrays.
#[pyfunction]
pub fn _zeros_alive() -> usize {
    ALIVE.load(Ordering::Relaxed)
}
