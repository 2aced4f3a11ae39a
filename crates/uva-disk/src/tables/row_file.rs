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

/// What reads of rows took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskReads {
    /// Bytes of the rows that were asked for, of each as often as it was.
    pub bytes_asked: u64,
    /// Bytes that were read for them: whole blocks, each once.
    pub bytes_read: u64,
    /// Reads that brought these.
    pub reads: u64,
}

impl AddAssign for DiskReads {
    fn add_assign(&mut self, more: Self) {
        self.bytes_asked += more.bytes_asked;
        self.bytes_read += more.bytes_read;
        self.reads += more.reads;
    }
}

/// Reads rows of a table from its file.
pub struct RowFile {
    shape: TableShape,
    length: u64,
    reader: Box<dyn RangeReader>,
    guard: Guard,
    planner: Planner,
    passed_over: Vec<String>,
}

impl RowFile {
    /// Opens the file at `path`. `wanted` names the reader; without it the first that works is taken.
    ///
    /// # Errors
    /// A file that cannot be opened or is too short; a reader that does not work here.
    ///
    /// # Panics
    /// With rows of no bytes.
    pub fn open(path: &Path, shape: TableShape, wanted: Option<ReaderKind>) -> Result<Self, DiskError> {
        Self::through(path, shape, wanted, Seam::default())
    }

    /// As [`open`](Self::open), with the system's answers passed through this seam.
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

    /// The same, of the file as it was in this earlier state: when somebody checked it.
    ///
    /// # Errors
    /// [`DiskError::Changed`] if it has changed since.
    pub fn since(mut self, state: FileState) -> Result<Self, DiskError> {
        self.guard.expect(state)?;
        Ok(self)
    }

    /// Where the table lies.
    pub fn shape(&self) -> TableShape {
        self.shape
    }

    /// The reader that was taken.
    pub fn reader(&self) -> ReaderKind {
        self.reader.kind()
    }

    /// How it reads, for people.
    pub fn how(&self) -> String {
        self.reader.how()
    }

    /// Why the readers before it were not taken, a line each.
    pub fn passed_over(&self) -> &[String] {
        &self.passed_over
    }

    /// Reads rows, each given with the place that it is for, in any order and possibly more than once. Hands each to
    /// `deliver` with its place, in the order in which the reads end. What was delivered counts only once this returns
    /// without an error.
    ///
    /// # Errors
    /// A read that failed; a file that is no longer the one that was opened.
    ///
    /// # Panics
    /// For a row that the table lacks.
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
        // A change explains a failed read better than what the read says.
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
