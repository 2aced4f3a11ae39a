//! What a trained model can be asked about a node.

use serde::{Deserialize, Serialize};

/// One kind of answer about a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Answer {
    /// The class with the largest logit; with several labels per node, whether each logit is positive; for regression,
    /// the numbers predicted.
    Classes,
    /// The softmax of the logits; with several labels per node, the sigmoid of each. Regression
    /// has none.
    Probabilities,
    /// The rows behind a layer, as the next layer gets them.
    Hidden,
}
