//! The rows of a hop set's tables: copied from the mapped files, or read from disk.

use std::ops::Range;

use uva_disk::{RunFiles, TableShape};
use uva_graph::Hops;
use uva_rows::{DiskReads, GatherError};

use crate::RuntimeError;
use crate::rows_from::{Reader, RowsFrom, disk_error};

/// Brings the rows of a batch in the tables that batches have.
pub(crate) struct HopSource<'a> {
    hops: Hops<'a>,
    tables: &'a [usize],
    disk: Option<HopFiles>,
}

impl<'a> HopSource<'a> {
    /// Of these tables of a hop set.
    pub fn new(hops: Hops<'a>, tables: &'a [usize], from: RowsFrom) -> Result<Self, RuntimeError> {
        let disk = match from {
            RowsFrom::Memory => None,
            RowsFrom::Disk(reader) | RowsFrom::DiskAhead(reader, _) => {
                let disk = HopFiles::open(hops, tables, reader)?;
                let (reader, how) = (disk.files.reader(), disk.files.how());
                tracing::info!(%reader, how, "rows of hops are read from disk");
                Some(disk)
            }
        };
        Ok(Self { hops, tables, disk })
    }

    /// Brings the rows of these runs: of each table into the slice of its place, which is as long as they are.
    pub fn gather(&mut self, runs: &[Range<usize>], out: &mut [&mut [u8]]) -> Result<DiskReads, GatherError> {
        if let Some(disk) = &mut self.disk {
            return disk.read(runs, self.hops.row_bytes(), out);
        }
        for (table, out) in self.tables.iter().zip(out) {
            let table = self.hops.table(*table);
            let mut rest = &mut **out;
            for run in runs {
                if table.is_dense() {
                    put(&mut rest, table.rows(run.clone()));
                } else {
                    run.clone().for_each(|row| put(&mut rest, table.row(row)));
                }
            }
        }
        Ok(DiskReads::default())
    }
}

/// Copies `from` to the front of `to`, which then begins behind it.
fn put(to: &mut &mut [u8], from: &[u8]) {
    let (front, rest) = std::mem::take(to).split_at_mut(from.len());
    front.copy_from_slice(from);
    *to = rest;
}

/// The files of some tables, open to be read.
pub(crate) struct HopFiles {
    files: RunFiles,
    held: Vec<Held>,
}

/// The tables that a file has rows of.
struct Held {
    /// Bytes from a row to the next.
    stride: usize,
    /// Of each: its place among the tables that batches have, and where its row begins in the file's.
    tables: Vec<(usize, usize)>,
}

impl HopFiles {
    /// Opens the files of these tables.
    ///
    /// # Errors
    /// As [`row_file`](crate::rows_from::row_file).
    pub fn open(hops: Hops<'_>, tables: &[usize], reader: Reader) -> Result<Self, RuntimeError> {
        let mut arrays: Vec<usize> = Vec::new();
        let mut held: Vec<Held> = Vec::new();
        for (place, table) in tables.iter().enumerate() {
            let of = hops.place(*table);
            let file = arrays.iter().position(|array| *array == of.array).unwrap_or_else(|| {
                arrays.push(of.array);
                held.push(Held { stride: of.stride, tables: Vec::new() });
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
        let files = RunFiles::open(&shapes, reader.kind()).map_err(|error| disk_error(error, reader))?;
        Ok(Self { files, held })
    }

    /// How they are read.
    pub fn files(&self) -> &RunFiles {
        &self.files
    }

    fn read(
        &mut self,
        runs: &[Range<usize>],
        row_bytes: usize,
        out: &mut [&mut [u8]],
    ) -> Result<DiskReads, GatherError> {
        let Self { files, held } = self;
        let read = files.read(runs, |file, at, bytes| held[file].put(row_bytes, (at, bytes), out))?;
        // A file of several tables also brings the rows of those that batches do not have.
        Ok(DiskReads { bytes_asked: out.iter().map(|out| out.len() as u64).sum(), ..read })
    }
}

impl Held {
    /// Puts bytes of the file's rows, from byte `at` of those that were asked for, where their tables' rows belong.
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
    fn pieces_of_rows_side_by_side_reach_their_tables_wherever_they_are_cut() {
        // Rows of three tables of 4 bytes, of which the last and the first are wanted.
        let held = Held { stride: 12, tables: vec![(0, 8), (1, 0)] };
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
