//! The name of a batch.

use std::fmt;

use uva_graph::Split;

/// The identity of one batch of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BatchKey {
    /// The split of the seeds.
    pub split: Split,
    /// The epoch, from 0, at most [`MAX_EPOCH`](crate::MAX_EPOCH).
    pub epoch: u32,
    /// The batch within the epoch, from 0.
    pub batch: u32,
}

/// Text for people, with epochs and batches counted from 1.
impl fmt::Display for BatchKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [batch, epoch] = [self.batch, self.epoch].map(|number| u64::from(number) + 1);
        write!(f, "{} batch {batch} of epoch {epoch}", self.split)
    }
}
