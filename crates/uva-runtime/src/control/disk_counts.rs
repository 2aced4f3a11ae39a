//! Counts of disk reads for rows.

use serde::{Deserialize, Serialize};
use uva_batch::BatchReads;
use uva_rows::{DiskReads, RowOrigin, RowsRead};

/// Feature rows of one or of several batches, with their disk reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskCounts {
    /// Bytes of the rows requested from disk, including requests ahead, without rows in memory.
    pub bytes_asked: u64,
    /// Bytes that were read for these requests: whole blocks, each once for all rows that were requested together.
    pub bytes_read: u64,
    /// Number of reads for these bytes.
    pub reads: u64,
    /// Rows from a cache: the planned rows of `host_cache`, or any rows of `gpu_cache`.
    pub cached_rows: u64,
    /// Rows that were in memory since an earlier batch of the same process.
    pub kept_rows: u64,
    /// Rows that were read ahead of the first batch that needed them.
    pub ahead_rows: u64,
    /// Rows that a batch had to read itself.
    pub demanded_rows: u64,
}

impl DiskCounts {
    /// The counts of a fill from disk.
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

    /// The counts of a batch of `rows` rows that are adjacent in files. Such rows are not cached and not kept.
    pub(crate) fn of_runs(DiskReads { bytes_asked, bytes_read, reads }: DiskReads, rows: usize) -> Self {
        let demanded_rows = if bytes_asked > 0 { rows as u64 } else { 0 };
        Self { bytes_asked, bytes_read, reads, demanded_rows, ..Self::default() }
    }

    /// The difference from earlier counts.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        let (now, before) = (self.to_words(), before.to_words());
        Self::from_words(std::array::from_fn(|at| now[at] - before[at]))
    }

    /// Number of fields.
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

/// The disk reads for the rows of a run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct DiskTotals {
    /// The counts of all batches, including those of validation and test.
    #[serde(flatten)]
    pub counts: DiskCounts,
    /// Reads per second, from the start of the roles to the end of the last; absent in files of earlier versions.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub iops: Option<f64>,
}

impl DiskTotals {
    /// The totals of a run of this duration.
    #[must_use]
    pub fn new(counts: DiskCounts, seconds: f64) -> Self {
        Self { counts, iops: (seconds > 0.0).then(|| counts.reads as f64 / seconds) }
    }
}
