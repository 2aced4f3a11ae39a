//! Runs of rows of several tables, each in its own file.

use std::ops::Range;
use std::path::Path;

use uva_mem::FileState;

use crate::error::DiskError;
use crate::files::guard::Guard;
use crate::files::seam::Seam;
use crate::kind::ReaderKind;
use crate::readers::probe::{ProbeResult, probe};
use crate::readers::reader::RangeReader;
use crate::shape::TableShape;
use crate::tables::row_file::DiskReads;
use crate::tables::run_plan::RunPlanner;

/// A reader for runs of consecutive rows, the same runs of every table. One reader has reads of all files in flight at
/// the same time.
pub struct RunFiles {
    lengths: Vec<u64>,
    rows: usize,
    reader: Box<dyn RangeReader>,
    guards: Vec<Guard>,
    planner: RunPlanner,
    passed_over: Vec<String>,
}

impl RunFiles {
    /// Opens these files, at least one. `wanted` selects the reader; the default is the first that works for all files.
    ///
    /// # Errors
    /// If a file cannot be opened or is too short, or the reader does not work on this system.
    ///
    /// # Panics
    /// If there is no table, or rows have no bytes.
    pub fn open(tables: &[(&Path, TableShape)], wanted: Option<ReaderKind>) -> Result<Self, DiskError> {
        Self::through(tables, wanted, Seam::default())
    }

    /// As [`open`](Self::open), with the system's results passed through this seam.
    pub(crate) fn through(
        tables: &[(&Path, TableShape)],
        wanted: Option<ReaderKind>,
        seam: Seam,
    ) -> Result<Self, DiskError> {
        assert!(tables.iter().all(|(_, shape)| shape.row_bytes > 0), "rows have at least one byte");
        let rows = tables.iter().map(|(_, shape)| shape.rows).min().expect("at least one table");
        let longest = |alignment| RunPlanner::longest(tables.iter().map(|(_, shape)| shape), alignment);
        let ProbeResult { reader, files, passed_over } = probe(tables, longest, wanted, seam)?;
        let planner = RunPlanner::new(tables.iter().map(|(_, shape)| *shape).collect(), reader.alignment());
        let guards = files.iter().map(Guard::new).collect::<Result<_, _>>()?;
        let lengths = files.iter().map(|file| file.length).collect();
        Ok(Self { lengths, rows, reader, guards, planner, passed_over })
    }

    /// Sets the expected states of the files, in the order of the tables: those when the files were checked.
    ///
    /// # Errors
    /// [`DiskError::Changed`] if a file has changed since.
    pub fn since(mut self, states: &[FileState]) -> Result<Self, DiskError> {
        self.guards.iter_mut().zip(states).try_for_each(|(guard, state)| guard.expect(*state))?;
        Ok(self)
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

    /// Reads the rows of these runs from every table. No row may be in two runs. Passes bytes to `deliver` with the
    /// table's index and their offset among the table's rows of the runs, which are contiguous in the order of the
    /// runs. Each byte is passed once, in pieces in the order of completion. Delivered bytes are only valid if this
    /// returns without an error.
    ///
    /// # Errors
    /// If a read failed, or a file has changed since it was opened.
    ///
    /// # Panics
    /// If a row is out of range.
    pub fn read(
        &mut self,
        runs: &[Range<usize>],
        mut deliver: impl FnMut(usize, usize, &[u8]),
    ) -> Result<DiskReads, DiskError> {
        let Self { lengths, rows, reader, guards, planner, .. } = self;
        for run in runs {
            assert!(run.end <= *rows, "rows {run:?} of {rows} rows");
        }
        planner.plan(runs);
        let read = reader.read(planner.extents(), &mut |extent, bytes| {
            let file = planner.extents()[extent].file;
            for part in planner.parts_in(extent) {
                deliver(file, part.to, &bytes[part.from..][..part.bytes]);
            }
        });
        // A change explains a failed read better than the read's own error.
        guards.iter().try_for_each(Guard::check)?;
        read?;
        let of = |extent: &crate::Extent| (extent.length as u64).min(lengths[extent.file] - extent.offset);
        Ok(DiskReads {
            bytes_asked: planner.asked(),
            bytes_read: planner.extents().iter().map(of).sum(),
            reads: planner.extents().len() as u64,
        })
    }
}
