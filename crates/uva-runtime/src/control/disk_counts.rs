//! What reads of rows from disk took.

use serde::{Deserialize, Serialize};
use uva_batch::BatchReads;
use uva_rows::{DiskReads, RowOrigin, RowsRead};

/// Feature rows of one or of many batches, and what they took from disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskCounts {
    /// Bytes of the rows that were asked from disk, also ahead: those of rows in memory are not among them.
    pub bytes_asked: u64,
    /// Bytes that were read for them: whole blocks, each once for all rows that were asked together.
    pub bytes_read: u64,
    /// Reads that brought these.
    pub reads: u64,
    /// Rows that a cache had: the planned rows of `host_cache`, or any of `gpu_cache`.
    pub cached_rows: u64,
    /// Rows that lay in memory since an earlier batch of the same process.
    pub kept_rows: u64,
    /// Rows that were read ahead of the batch that needed them first.
    pub ahead_rows: u64,
    /// Rows that a batch had to read itself.
    pub demanded_rows: u64,
}

impl DiskCounts {
    /// Of a fill from disk.
    pub(crate) fn of(read: &RowsRead) -> Self {
        let disk = read.disk();
        Self {
            bytes_asked: disk.bytes_asked,
            bytes_read: disk.bytes_read,
            reads: disk.reads,
            cached_rows: read.hits(),
            kept_rows: read.rows(RowOrigin::Kept),
            ahead_rows: read.rows(RowOrigin::ReadAhead),
            demanded_rows: read.rows(RowOrigin::Disk),
        }
    }

    /// Of a batch of so many rows that lie side by side in files: no cache has such rows, and none are kept.
    pub(crate) fn of_runs(DiskReads { bytes_asked, bytes_read, reads }: DiskReads, rows: usize) -> Self {
        let demanded_rows = if bytes_asked > 0 { rows as u64 } else { 0 };
        Self { bytes_asked, bytes_read, reads, demanded_rows, ..Self::default() }
    }

    /// What came since these.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        let (now, before) = (self.to_words(), before.to_words());
        Self::from_words(std::array::from_fn(|at| now[at] - before[at]))
    }

    /// As many words as it has numbers.
    pub(crate) const WORDS: usize = 7;

    pub(crate) fn to_words(self) -> [u64; Self::WORDS] {
        let Self { bytes_asked, bytes_read, reads, cached_rows, kept_rows, ahead_rows, demanded_rows } = self;
        [bytes_asked, bytes_read, reads, cached_rows, kept_rows, ahead_rows, demanded_rows]
    }

    pub(crate) fn from_words(words: [u64; Self::WORDS]) -> Self {
        let [bytes_asked, bytes_read, reads, cached_rows, kept_rows, ahead_rows, demanded_rows] = words;
        Self { bytes_asked, bytes_read, reads, cached_rows, kept_rows, ahead_rows, demanded_rows }
    }
}

impl From<BatchReads> for DiskCounts {
    fn from(reads: BatchReads) -> Self {
        let BatchReads { bytes_asked, bytes_read, reads, cached_rows, kept_rows, ahead_rows, demanded_rows } =
            reads;
        Self { bytes_asked, bytes_read, reads, cached_rows, kept_rows, ahead_rows, demanded_rows }
    }
}

impl From<DiskCounts> for BatchReads {
    fn from(counts: DiskCounts) -> Self {
        let DiskCounts { bytes_asked, bytes_read, reads, cached_rows, kept_rows, ahead_rows, demanded_rows } =
            counts;
        Self { bytes_asked, bytes_read, reads, cached_rows, kept_rows, ahead_rows, demanded_rows }
    }
}

/// What the rows of a run took from disk.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct DiskTotals {
    /// Over all its batches: also those of validation and test.
    #[serde(flatten)]
    pub counts: DiskCounts,
    /// Reads a second, from the start of the roles to the end of the last; absent in files of earlier versions.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub iops: Option<f64>,
}

impl DiskTotals {
    /// Of a run that took so long.
    #[must_use]
    pub fn new(counts: DiskCounts, seconds: f64) -> Self {
        Self { counts, iops: (seconds > 0.0).then(|| counts.reads as f64 / seconds) }
    }
}
