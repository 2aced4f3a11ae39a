//! The three sets of nodes of a dataset.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A set of nodes with one purpose. The numbers are part of the random keys, so they never change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[repr(u8)]
pub enum Split {
    /// Nodes that the model trains on.
    Train = 0,
    /// Nodes that select the best epoch.
    Valid = 1,
    /// Nodes that are only evaluated.
    Test = 2,
}

impl Split {
    /// All splits, in the order of their numbers.
    pub const ALL: [Split; 3] = [Split::Train, Split::Valid, Split::Test];

    /// The name in messages and metrics: `train`, `valid` or `test`.
    pub fn name(self) -> &'static str {
        match self {
            Split::Train => "train",
            Split::Valid => "valid",
            Split::Test => "test",
        }
    }

    /// The file of a dataset that holds this split's node ids.
    pub fn file_name(self) -> &'static str {
        match self {
            Split::Train => "train_idx.npy",
            Split::Valid => "valid_idx.npy",
            Split::Test => "test_idx.npy",
        }
    }
}

impl fmt::Display for Split {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
