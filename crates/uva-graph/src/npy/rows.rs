//! An array of a known shape whose rows are written in any order, for results that may be interrupted and taken up again.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use uva_mem::files::open_own;

use super::header::NpyType;
use super::writer::{HEADER_BYTES, header};
use crate::GraphError;

/// A `.npy` file of this process's own, being filled. All its bytes are there from the beginning, as zeros, so only its
/// writer knows which rows are.
#[derive(Debug)]
pub struct NpyRows {
    path: PathBuf,
    file: File,
    row_bytes: u64,
    rows: u64,
}

impl NpyRows {
    /// Creates the file at `path`, which must not exist.
    ///
    /// # Errors
    /// If the file exists or cannot be created.
    pub fn create(path: &Path, kind: NpyType, shape: &[usize]) -> Result<NpyRows, GraphError> {
        let (header, row_bytes, rows) = described(path, kind, shape)?;
        let file = File::create_new(path).map_err(GraphError::io(path, "create"))?;
        let length = HEADER_BYTES as u64 + row_bytes * rows;
        let filled = file.write_all_at(&header, 0).and_then(|()| file.set_len(length));
        filled.map_err(GraphError::io(path, "write"))?;
        Ok(NpyRows { path: path.to_owned(), file, row_bytes, rows })
    }

    /// Opens a file that an earlier process created with the same type and shape; `None` if it is no such file.
    pub fn reopen(path: &Path, kind: NpyType, shape: &[usize]) -> Option<NpyRows> {
        let (header, row_bytes, rows) = described(path, kind, shape).ok()?;
        let file = open_own(path).ok()?;
        let mut found = [0; HEADER_BYTES];
        let is_it = file.metadata().ok()?.len() == HEADER_BYTES as u64 + row_bytes * rows
            && file.read_exact_at(&mut found, 0).is_ok()
            && found == header[..];
        is_it.then(|| NpyRows { path: path.to_owned(), file, row_bytes, rows })
    }

    /// Writes whole rows from row `first` on.
    ///
    /// # Errors
    /// If the system refuses, or there are no such rows.
    pub fn write(&self, first: u64, bytes: &[u8]) -> Result<(), GraphError> {
        let fits = bytes.len() as u64 <= self.rows.saturating_sub(first).saturating_mul(self.row_bytes);
        let written = if fits {
            self.file.write_all_at(bytes, HEADER_BYTES as u64 + first * self.row_bytes)
        } else {
            Err(io::Error::new(io::ErrorKind::InvalidInput, format!("there is no row {first}")))
        };
        written.map_err(GraphError::io(&self.path, "write"))
    }

    /// Bytes of a row.
    pub fn row_bytes(&self) -> usize {
        self.row_bytes as usize
    }

    /// Waits until what was written is on the disk.
    ///
    /// # Errors
    /// The system's answer.
    pub fn sync(&self) -> Result<(), GraphError> {
        self.file.sync_all().map_err(GraphError::io(&self.path, "flush"))
    }
}

/// The header, the bytes of a row, and the rows.
fn described(path: &Path, kind: NpyType, shape: &[usize]) -> Result<(Vec<u8>, u64, u64), GraphError> {
    let axes: Vec<u64> = shape.iter().map(|&axis| axis as u64).collect();
    let (rows, row) = axes.split_first().map_or((1, &[][..]), |(rows, row)| (*rows, row));
    let row_bytes = row.iter().try_fold(kind.bytes() as u64, |bytes, axis| bytes.checked_mul(*axis));
    let row_bytes = row_bytes.filter(|bytes| bytes.checked_mul(rows.max(1)).is_some());
    header(kind, &axes, HEADER_BYTES)
        .zip(row_bytes)
        .map(|(header, row_bytes)| (header, row_bytes, rows))
        .ok_or_else(|| {
            let problem = io::Error::new(io::ErrorKind::InvalidInput, format!("a shape of {shape:?}"));
            GraphError::io(path, "create")(problem)
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::npy::NpyArray;

    #[test]
    fn rows_written_in_any_order_and_by_two_processes_make_one_array() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("a.npy");
        let rows = NpyRows::create(&path, NpyType::I64, &[4]).unwrap();
        assert!(NpyRows::create(&path, NpyType::I64, &[4]).is_err(), "it is there already");
        rows.write(2, &[3i64, 4].map(i64::to_le_bytes).concat()).unwrap();
        drop(rows);
        for (kind, shape) in [(NpyType::I64, &[5][..]), (NpyType::F64, &[4]), (NpyType::I64, &[4, 1])] {
            assert!(NpyRows::reopen(&path, kind, shape).is_none(), "{kind} {shape:?}");
        }
        let rows = NpyRows::reopen(&path, NpyType::I64, &[4]).unwrap();
        rows.write(0, &[1i64, 2].map(i64::to_le_bytes).concat()).unwrap();
        assert!(rows.write(3, &[0; 16]).is_err(), "there is one row left");
        rows.sync().unwrap();
        assert_eq!(NpyArray::open(&path).unwrap().elements::<i64>(NpyType::I64).unwrap(), [1, 2, 3, 4]);
    }
}
