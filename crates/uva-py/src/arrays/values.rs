//! Vectors of this module as arrays.

use std::sync::Arc;

use pyo3::exceptions::PyMemoryError;
use pyo3::prelude::*;

use crate::arrays::array::Array;
use crate::arrays::dlpack::{DlpackDevice, DlpackType};

/// This many zeros, or the exception that memory is insufficient.
pub fn zeros<T: Copy + Default>(length: usize) -> PyResult<Vec<T>> {
    let mut values = Vec::new();
    values.try_reserve_exact(length).map_err(|_| {
        PyMemoryError::new_err(format!("no memory for {length} values of {} bytes", size_of::<T>()))
    })?;
    values.resize(length, T::default());
    Ok(values)
}

/// A vector as an array that keeps it.
pub fn exported<T: Send + Sync + 'static>(values: Vec<T>, element: DlpackType) -> Array {
    let mut values = values;
    let (pointer, length) = (values.as_mut_ptr().cast(), values.len());
    debug_assert_eq!(size_of::<T>(), element.bytes());
    // SAFETY: the vector is moved into the owner, which moves none of its elements, and has the given length; no other
    // code has its address. An empty one's pointer is aligned, and never read.
    unsafe { Array::new(pointer, length, None, element, DlpackDevice::HOST, Arc::new(values)) }
}
