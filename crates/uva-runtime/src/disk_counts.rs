//! What reads of rows from disk took.

use serde::{Deserialize, Serialize};

/// Reads of feature rows from disk, over all batches of a run: also those of validation and test.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskCounts {
    /// Bytes of the rows that batches needed from disk: those of cached rows are not among them.
    pub bytes_asked: u64,
    /// Bytes that were read for them: whole blocks, each once a batch.
    pub bytes_read: u64,
    /// Reads that brought these.
    pub reads: u64,
}

impl DiskCounts {
    /// What came since these.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        Self {
            bytes_asked: self.bytes_asked - before.bytes_asked,
            bytes_read: self.bytes_read - before.bytes_read,
            reads: self.reads - before.reads,
        }
    }
}
