//! The files of a hop set's tables, read from disk.

use std::ops::Range;

use uva_disk::{DiskReads, RunFiles, TableShape};
use uva_graph::Hops;
use uva_rows::GatherError;

use crate::RuntimeError;
use crate::options::reader::{DiskReader, disk_error};

/// Whether a file has adjacent rows of several hops, so that runs of these tables are not contiguous.
pub(crate) fn stored_side_by_side(hops: Hops<'_>, tables: &[usize]) -> bool {
    tables.iter().any(|table| hops.place(*table).stride != hops.row_bytes())
}

/// The files of some tables, open for reading.
pub struct OpenHopFiles {
    files: RunFiles,
    held: Vec<FileTables>,
}

/// The tables with rows in a file.
struct FileTables {
    /// Bytes from a row to the next.
    stride: usize,
    /// For each table, its index among the tables of batches, and the offset of its row in the file's row.
    tables: Vec<(usize, usize)>,
}

impl OpenHopFiles {
    /// Opens the files of these tables.
    ///
    /// # Errors
    /// See [`row_file`](crate::options::reader::row_file).
    pub fn open(hops: Hops<'_>, tables: &[usize], reader: DiskReader) -> Result<Self, RuntimeError> {
        let mut arrays: Vec<usize> = Vec::new();
        let mut held: Vec<FileTables> = Vec::new();
        for (place, table) in tables.iter().enumerate() {
            let of = hops.place(*table);
            let file = arrays.iter().position(|array| *array == of.array).unwrap_or_else(|| {
                arrays.push(of.array);
                held.push(FileTables { stride: of.stride, tables: Vec::new() });
                held.len() - 1
            });
            held[file].tables.push((place, of.first));
        }
        let shapes: Vec<_> = arrays
            .iter()
            .zip(&held)
            .map(|(array, held)| {
                let (path, offset) = hops.file(*array);
                (path, TableShape { offset, rows: hops.nodes().len(), row_bytes: held.stride })
            })
            .collect();
        let states: Vec<_> = arrays.iter().map(|array| hops.state(*array)).collect();
        let files = RunFiles::open(&shapes, reader.kind())
            .and_then(|files| files.since(&states))
            .map_err(|error| disk_error(error, reader))?;
        Ok(Self { files, held })
    }

    /// The files, with the way in which they are read.
    pub fn files(&self) -> &RunFiles {
        &self.files
    }

    /// The files alone, for reading all of their content.
    #[must_use]
    pub fn into_files(self) -> RunFiles {
        self.files
    }

    /// Reads the rows of these runs, for each table into the slice with its index.
    pub(crate) fn read(
        &mut self,
        runs: &[Range<usize>],
        row_bytes: usize,
        out: &mut [&mut [u8]],
    ) -> Result<DiskReads, GatherError> {
        let Self { files, held } = self;
        let read = files.read(runs, |file, at, bytes| held[file].put(row_bytes, (at, bytes), out))?;
        // A file of several tables also returns the rows of tables that batches do not have.
        Ok(DiskReads { bytes_asked: out.iter().map(|out| out.len() as u64).sum(), ..read })
    }
}

impl FileTables {
    /// Copies bytes of the file's rows, from byte `at` of the requested ones, to the places of their tables' rows.
    fn put(&self, row_bytes: usize, (at, bytes): (usize, &[u8]), out: &mut [&mut [u8]]) {
        let Self { stride, tables } = self;
        if *stride == row_bytes {
            for (place, _) in tables {
                out[*place][at..at + bytes.len()].copy_from_slice(bytes);
            }
            return;
        }
        let end = at + bytes.len();
        for row in at / stride..end.div_ceil(*stride) {
            for (place, first) in tables {
                let begins = row * stride + first;
                let part = begins.max(at)..(begins + row_bytes).min(end);
                if !part.is_empty() {
                    let to = row * row_bytes + part.start - begins;
                    out[*place][to..to + part.len()].copy_from_slice(&bytes[part.start - at..part.end - at]);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_of_adjacent_rows_reach_their_tables_wherever_they_are_cut() {
        // Rows of three tables of 4 bytes, of which the last and the first are requested.
        let held = FileTables { stride: 12, tables: vec![(0, 8), (1, 0)] };
        let bytes: Vec<u8> = (0..48).collect();
        for cut in 0..=48 {
            let (mut last, mut first) = ([0; 16], [0; 16]);
            for piece in [0..cut, cut..48] {
                held.put(4, (piece.start, &bytes[piece]), &mut [&mut last, &mut first]);
            }
            let of = |from: usize| -> Vec<u8> {
                (0..4).flat_map(|row| bytes[row * 12 + from..][..4].to_vec()).collect()
            };
            assert_eq!((last.to_vec(), first.to_vec()), (of(8), of(0)), "cut at byte {cut}");
        }
    }
}
