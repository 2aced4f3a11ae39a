//! The rows of a table in a file.

use std::ops::AddAssign;
use std::path::Path;

use uva_mem::FileState;

use crate::error::DiskError;
use crate::files::guard::Guard;
use crate::files::seam::Seam;
use crate::kind::ReaderKind;
use crate::readers::probe::{ProbeResult, probe};
use crate::readers::reader::RangeReader;
use crate::shape::TableShape;
use crate::tables::plan::Planner;

/// Statistics of row reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskReads {
    /// Bytes of the requested rows, including repeats.
    pub bytes_asked: u64,
    /// Bytes read for these rows: whole blocks, each once.
    pub bytes_read: u64,
    /// The number of reads.
    pub reads: u64,
}

impl AddAssign for DiskReads {
    fn add_assign(&mut self, more: Self) {
        self.bytes_asked += more.bytes_asked;
        self.bytes_read += more.bytes_read;
        self.reads += more.reads;
    }
}

/// A reader for rows of a table in a file.
pub struct RowFile {
    shape: TableShape,
    length: u64,
    reader: Box<dyn RangeReader>,
    guard: Guard,
    planner: Planner,
    passed_over: Vec<String>,
}

impl RowFile {
    /// Opens the file at `path`. `wanted` selects the reader; the default is the first that works.
    ///
    /// # Errors
    /// If the file cannot be opened or is too short, or the reader does not work on this system.
    ///
    /// # Panics
    /// If rows have no bytes.
    pub fn open(path: &Path, shape: TableShape, wanted: Option<ReaderKind>) -> Result<Self, DiskError> {
        Self::through(path, shape, wanted, Seam::default())
    }

    /// As [`open`](Self::open), with the system's results passed through this seam.
    pub(crate) fn through(
        path: &Path,
        shape: TableShape,
        wanted: Option<ReaderKind>,
        seam: Seam,
    ) -> Result<Self, DiskError> {
        assert!(shape.row_bytes > 0, "rows have at least one byte");
        let longest = |alignment| Planner::longest(&shape, alignment);
        let ProbeResult { reader, files, passed_over } = probe(&[(path, shape)], longest, wanted, seam)?;
        let planner = Planner::new(shape, reader.alignment());
        let guard = Guard::new(&files[0])?;
        Ok(Self { shape, length: files[0].length, reader, guard, planner, passed_over })
    }

    /// Sets the expected state of the file: that when it was checked.
    ///
    /// # Errors
    /// [`DiskError::Changed`] if it has changed since.
    pub fn since(mut self, state: FileState) -> Result<Self, DiskError> {
        self.guard.expect(state)?;
        Ok(self)
    }

    /// The location of the table.
    pub fn shape(&self) -> TableShape {
        self.shape
    }

    /// The selected reader.
    pub fn reader(&self) -> ReaderKind {
        self.reader.kind()
    }

    /// A description of the reader.
    pub fn how(&self) -> String {
        self.reader.how()
    }

    /// A line for each earlier reader with the reason why it was not selected.
    pub fn passed_over(&self) -> &[String] {
        &self.passed_over
    }

    /// Reads rows, each with its destination place, in any order and with possible repeats. Passes each row to
    /// `deliver` with its place, in the order of completion. Delivered rows are only valid if this returns without an
    /// error.
    ///
    /// # Errors
    /// If a read failed, or the file has changed since it was opened.
    ///
    /// # Panics
    /// If a row is out of range.
    pub fn read(
        &mut self,
        rows: impl Iterator<Item = (usize, u64)>,
        mut deliver: impl FnMut(usize, &[u8]),
    ) -> Result<DiskReads, DiskError> {
        let Self { shape, length, reader, guard, planner, .. } = self;
        planner.plan(rows.inspect(|&(_, row)| {
            assert!(row < shape.rows as u64, "row {row} of {} rows", shape.rows);
        }));
        let read = reader.read(planner.extents(), &mut |extent, bytes| {
            for (place, at) in planner.rows_in(extent) {
                deliver(place, &bytes[at..at + shape.row_bytes]);
            }
        });
        // A change explains a failed read better than the read's own error.
        guard.check()?;
        read?;
        let of = |extent: &crate::Extent| (extent.length as u64).min(*length - extent.offset);
        Ok(DiskReads {
            bytes_asked: (planner.picks() * shape.row_bytes) as u64,
            bytes_read: planner.extents().iter().map(of).sum(),
            reads: planner.extents().len() as u64,
        })
    }
}
