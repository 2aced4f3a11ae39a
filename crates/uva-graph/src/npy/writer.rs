//! Streamed writing, so that arrays can be larger than memory.

use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use bytemuck::NoUninit;

use super::header::NpyType;
use crate::GraphError;

/// Bytes reserved for the header: a multiple of 64, as numpy aligns, with room for two axes of 20 digits each.
pub(crate) const HEADER_BYTES: usize = 128;

/// Bytes of a header before its literal: magic, version, length.
const PREFIX_BYTES: usize = 10;

/// Size and alignment of each write. A file system with large folios then keeps each piece in one page of this size,
/// which mappings of the file use as well. Such pages make random reads of a large array faster: sampling 15,10,5 from
/// 124 M edges took 21.5 ms a batch on 4 KiB pages and 19.3 ms on these (ext4, Linux 6.18, page cache).
const PIECE_BYTES: usize = 2 << 20;

/// Misuse of a writer. This is a bug of the caller, reported as an error so that a partly written array is removed.
#[derive(Debug, thiserror::Error)]
enum WriterProblem {
    #[error("elements of {found} bytes were written to an array of {kind}")]
    ElementSize { found: usize, kind: NpyType },
    #[error("{written} bytes were written to an array of rows of {row} bytes")]
    HalfRow { written: u64, row: u64 },
    #[error("the header of shape {shape:?} does not fit {bytes} bytes")]
    HeaderSpace { shape: Vec<u64>, bytes: usize },
}

/// Writes one `.npy` file, version 1, row after row. The number of rows need not be known in advance: the header is
/// written last, into reserved space. Without [`finish`](Self::finish) the file is not a valid array.
#[derive(Debug)]
pub struct NpyWriter {
    path: PathBuf,
    file: File,
    /// Written data that does not fill a piece yet: less than [`PIECE_BYTES`]. The file ends at a multiple of that.
    rest: Vec<u8>,
    kind: NpyType,
    row_shape: Vec<usize>,
    header_bytes: usize,
    written: u64,
}

impl NpyWriter {
    /// Creates the file at `path`, which must not exist, for rows of shape `row_shape` (`[]`: each row is one element).
    ///
    /// # Errors
    /// If the file exists or cannot be created.
    pub fn create(path: &Path, kind: NpyType, row_shape: &[usize]) -> Result<NpyWriter, GraphError> {
        let file = File::create_new(path).map_err(GraphError::io(path, "create"))?;
        Ok(NpyWriter::onto(file, path, kind, row_shape))
    }

    /// Like [`create`](Self::create), for an empty file that is open for writing. Errors name it `path`.
    pub fn onto(file: File, path: &Path, kind: NpyType, row_shape: &[usize]) -> NpyWriter {
        NpyWriter {
            path: path.to_owned(),
            file,
            rest: vec![0; HEADER_BYTES],
            kind,
            row_shape: row_shape.to_vec(),
            header_bytes: HEADER_BYTES,
            written: 0,
        }
    }

    /// Makes the elements begin at byte `offset`: the header is padded with spaces, as the format allows. Direct reads
    /// require elements aligned to the blocks of the file system.
    ///
    /// # Panics
    /// If elements have been written already, or `offset` is not a multiple of 64 between 128 and 65,472.
    #[must_use]
    pub fn with_data_at(mut self, offset: usize) -> NpyWriter {
        assert_eq!(self.written, 0, "before the first element");
        let fits = offset.is_multiple_of(64) && (HEADER_BYTES..1 << 16).contains(&offset);
        assert!(fits, "a header of {offset} bytes");
        self.rest.resize(offset, 0);
        self.header_bytes = offset;
        self
    }

    /// Appends elements. Their number is arbitrary and need not fill rows.
    ///
    /// # Errors
    /// If the system refuses to write them, or their size is not that of the array's elements.
    pub fn write<T: NoUninit>(&mut self, elements: &[T]) -> Result<(), GraphError> {
        let found = size_of::<T>();
        if found != self.kind.bytes() {
            let problem = WriterProblem::ElementSize { found, kind: self.kind };
            return Err(GraphError::invalid(&self.path, problem));
        }
        self.write_bytes(bytemuck::cast_slice(elements))
    }

    /// Appends elements as bytes, little-endian.
    ///
    /// # Errors
    /// If the system refuses to write them.
    pub fn write_bytes(&mut self, bytes: &[u8]) -> Result<(), GraphError> {
        self.write_pieces(bytes).map_err(GraphError::io(&self.path, "write"))?;
        self.written += bytes.len() as u64;
        Ok(())
    }

    fn write_pieces(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        if !self.rest.is_empty() {
            let (fills, behind) = bytes.split_at(bytes.len().min(PIECE_BYTES - self.rest.len()));
            self.rest.extend_from_slice(fills);
            if self.rest.len() < PIECE_BYTES {
                return Ok(());
            }
            self.file.write_all(&self.rest)?;
            self.rest.clear();
            bytes = behind;
        }
        let (pieces, rest) = bytes.split_at(bytes.len() / PIECE_BYTES * PIECE_BYTES);
        self.file.write_all(pieces)?;
        self.rest.extend_from_slice(rest);
        Ok(())
    }

    /// Writes the header and returns the number of rows. The bytes reach the disk when their directory is committed.
    ///
    /// # Errors
    /// If the system refuses to write, or the last row is incomplete.
    pub fn finish(self) -> Result<u64, GraphError> {
        self.write_header(None)
    }

    /// Like [`finish`](Self::finish), for rows that may have no bytes and so cannot be counted. `rows` is their number.
    ///
    /// # Errors
    /// As [`finish`](Self::finish), and if the number of rows written differs.
    pub fn finish_with_rows(self, rows: u64) -> Result<(), GraphError> {
        self.write_header(Some(rows)).map(drop)
    }

    fn write_header(self, said: Option<u64>) -> Result<u64, GraphError> {
        let row = self.row_shape.iter().product::<usize>() as u64 * self.kind.bytes() as u64;
        if !self.written.is_multiple_of(row) {
            return Err(GraphError::invalid(
                &self.path,
                WriterProblem::HalfRow { written: self.written, row },
            ));
        }
        // Rows of no bytes cannot be counted.
        let rows = self.written.checked_div(row).unwrap_or(said.unwrap_or(0));
        if said.is_some_and(|said| said != rows) {
            return Err(GraphError::invalid(
                &self.path,
                WriterProblem::HalfRow { written: self.written, row },
            ));
        }
        let shape: Vec<u64> =
            std::iter::once(rows).chain(self.row_shape.iter().map(|&axis| axis as u64)).collect();
        let bytes = self.header_bytes;
        let header = header(self.kind, &shape, bytes)
            .ok_or_else(|| GraphError::invalid(&self.path, WriterProblem::HeaderSpace { shape, bytes }))?;
        let path = &self.path;
        let write = |mut file: File| -> io::Result<()> {
            file.write_all(&self.rest)?;
            file.seek(SeekFrom::Start(0))?;
            file.write_all(&header)
        };
        write(self.file).map_err(GraphError::io(path, "write"))?;
        Ok(rows)
    }
}

/// Writes a whole array at once.
///
/// # Errors
/// If the file exists or cannot be written, or the elements are not a whole number of rows.
pub fn write_array<T: NoUninit>(
    path: &Path,
    kind: NpyType,
    row_shape: &[usize],
    elements: &[T],
) -> Result<(), GraphError> {
    let mut writer = NpyWriter::create(path, kind, row_shape)?;
    writer.write(elements)?;
    writer.finish().map(drop)
}

/// A whole header, a multiple of 64 bytes, for an array in C order; `None` if the shape does not fit it.
#[must_use]
pub fn array_header(kind: NpyType, shape: &[u64]) -> Option<Vec<u8>> {
    header(kind, shape, HEADER_BYTES)
}

/// A version 1 header of exactly `bytes` bytes, at least [`HEADER_BYTES`], if it fits them.
pub(super) fn header(kind: NpyType, shape: &[u64], bytes: usize) -> Option<Vec<u8>> {
    let axes: String = shape.iter().map(|axis| format!("{axis}, ")).collect();
    // A tuple of one element keeps its comma; longer ones lose theirs, as numpy writes them.
    let axes = if shape.len() == 1 { axes.trim_end() } else { axes.trim_end_matches(", ") };
    let literal = format!("{{'descr': '{}', 'fortran_order': False, 'shape': ({axes}), }}", kind.descr());
    let length = u16::try_from(bytes - PREFIX_BYTES).ok()?;
    let mut header = vec![b' '; bytes];
    header[..8].copy_from_slice(b"\x93NUMPY\x01\x00");
    header[8..PREFIX_BYTES].copy_from_slice(&length.to_le_bytes());
    header.get_mut(PREFIX_BYTES..bytes - 1)?.get_mut(..literal.len())?.copy_from_slice(literal.as_bytes());
    header[bytes - 1] = b'\n';
    Some(header)
}
