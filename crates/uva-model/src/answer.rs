//! The kinds of answer about a node that a trained model gives.

use serde::{Deserialize, Serialize};

use crate::task::TaskKind;

/// One kind of answer about a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Answer {
    /// The class with the largest logit; with several labels per node, whether each logit is positive; for regression,
    /// the predicted numbers.
    Classes,
    /// The softmax of the logits; with several labels per node, the sigmoid of each. Regression
    /// has none.
    Probabilities,
    /// Classes and probabilities in one row of bytes ([`TableRow`]), for tables.
    Table,
    /// The output rows of a layer, as the next layer receives them.
    Hidden,
}

/// A row of [`Answer::Table`]: the row of [`Answer::Classes`], then that of [`Answer::Probabilities`] as float32,
/// little-endian. For regression it has only the predicted numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableRow {
    /// The kind of the model's task.
    pub kind: TaskKind,
    /// Columns of the model's output.
    pub outputs: usize,
}

impl TableRow {
    /// Bytes of the classes at the start of a row: an int64, or with several labels per node a byte for each class.
    #[must_use]
    pub fn class_bytes(self) -> usize {
        match self.kind {
            TaskKind::SingleLabel => 8,
            TaskKind::MultiLabel => self.outputs,
            TaskKind::Regression(_) => 0,
        }
    }

    /// Bytes of a row.
    #[must_use]
    pub fn bytes(self) -> usize {
        self.class_bytes() + 4 * self.outputs
    }

    /// Joins the rows of classes and of numbers.
    #[must_use]
    pub fn join(self, classes: &[u8], numbers: &[u8]) -> Vec<u8> {
        let of_class = self.class_bytes();
        let mut rows = Vec::with_capacity(classes.len() + numbers.len());
        for (row, numbers) in numbers.chunks_exact(4 * self.outputs).enumerate() {
            rows.extend(&classes[row * of_class..][..of_class]);
            rows.extend(numbers);
        }
        rows
    }
}
