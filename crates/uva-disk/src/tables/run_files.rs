//! Runs of rows of several tables, each in a file of its own.

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

/// Reads runs of consecutive rows, the same of every table. One reader has reads of all files under way at the same time.
pub struct RunFiles {
    lengths: Vec<u64>,
    rows: usize,
    reader: Box<dyn RangeReader>,
    guards: Vec<Guard>,
    planner: RunPlanner,
    passed_over: Vec<String>,
}

impl RunFiles {
    /// Opens these files, at least one. `wanted` names the reader; without it the first that works for all of them is
    /// taken.
    ///
    /// # Errors
    /// A file that cannot be opened or is too short; a reader that does not work here.
    ///
    /// # Panics
    /// Without a table, and with rows of no bytes.
    pub fn open(tables: &[(&Path, TableShape)], wanted: Option<ReaderKind>) -> Result<Self, DiskError> {
        Self::through(tables, wanted, Seam::default())
    }

    /// As [`open`](Self::open), with the system's answers passed through this seam.
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

    /// The same, of the files as they were in these earlier states, in the order of the tables: when somebody checked them.
    ///
    /// # Errors
    /// [`DiskError::Changed`] for one that has changed since.
    pub fn since(mut self, states: &[FileState]) -> Result<Self, DiskError> {
        self.guards.iter_mut().zip(states).try_for_each(|(guard, state)| guard.expect(*state))?;
        Ok(self)
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

    /// Reads the rows of these runs of every table. No row is in two runs. Hands bytes to `deliver` with the table's
    /// number and where they begin among the table's rows of the runs, which lie in the order of the runs without gaps:
    /// each byte once, pieces in the order in which the reads end. What was delivered counts only once this returns
    /// without an error.
    ///
    /// # Errors
    /// A read that failed; a file that is no longer the one that was opened.
    ///
    /// # Panics
    /// For a row that a table lacks.
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
        // A change explains a failed read better than what the read says.
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
