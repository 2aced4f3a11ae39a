//! A `.npy` file as an array that Python may write to without changing the file.

use std::path::Path;
use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use uva_graph::npy::NpyArray;
use uva_mem::PrivateFile;

use crate::arrays::array::Array;
use crate::arrays::dlpack::{DlpackDevice, DlpackType};
use crate::errors::{UvatrainError, of_graph, of_io};

/// An array of a file, mapped again for Python, which cannot be prevented from writing to it.
pub struct PrivateTable {
    file: Arc<PrivateFile>,
    offset: usize,
    rows: usize,
    columns: Option<usize>,
    element: DlpackType,
}

impl PrivateTable {
    /// The array of the file at `path`: `rows` elements, or rows of `columns` elements.
    pub fn map(path: &Path, rows: usize, columns: Option<usize>, element: DlpackType) -> PyResult<Self> {
        let array = NpyArray::open(path).map_err(of_graph)?;
        let file =
            PrivateFile::open(path).map_err(|error| of_io(&error, "map", &path.display().to_string()))?;
        let offset = array.header().data_offset;
        // Further dimensions are combined into columns.
        let in_row = array.shape().get(1..).filter(|row| !row.is_empty()).map(|row| row.iter().product());
        let as_before = array.shape().first() == Some(&rows) && in_row == columns;
        let bytes = rows * columns.unwrap_or(1) * element.bytes();
        if !as_before || array.bytes().len() != bytes || file.len() != offset + bytes {
            let message = format!("{}: the file was changed while it was being opened", path.display());
            return Err(UvatrainError::new_err(message));
        }
        if !offset.is_multiple_of(element.bytes()) {
            return Err(PyValueError::new_err(format!(
                "{}: the elements start at offset {offset}, which is not a multiple of {}: save the array again with numpy",
                path.display(),
                element.bytes()
            )));
        }
        Ok(Self { file: Arc::new(file), offset, rows, columns, element })
    }

    /// The array without a copy.
    pub fn lent(&self) -> Array {
        let pointer = self.file.as_ptr().wrapping_add(self.offset);
        let owner = Arc::clone(&self.file);
        // SAFETY: the elements end where the file does (`PrivateTable::map`), whose mapping the owner keeps, in C
        // order. Who writes to them writes to pages of the mapping's own, which nothing in Rust reads. Every bit
        // pattern is an element.
        unsafe { Array::new(pointer, self.rows, self.columns, self.element, DlpackDevice::HOST, owner) }
    }
}
