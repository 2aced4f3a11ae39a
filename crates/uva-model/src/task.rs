//! The prediction task for a node, and its metric.

use uva_options::named;

use crate::options_error::OptionsError;

named! {
    /// By what answers are judged: what early stopping and the best model go by.
    ///
    /// [`RocAuc`](Self::RocAuc): how likely a node that has a label scores higher than one that has not, ties counting a
    /// half. Of several labels a node the mean over those that some nodes have and some have not, as OGB's evaluator of
    /// `ogbn-proteins` takes it.
    pub enum Metric = Accuracy {
        /// Share of the nodes, or of their labels, told right.
        Accuracy = "accuracy",
        /// Area under the receiver operating characteristic.
        RocAuc = "roc-auc",
    }
}

/// The prediction task for a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Task {
    /// Classes, and so columns of the logits.
    pub classes: usize,
    /// Whether a node may have several of them, or none. If so, the loss is binary cross-entropy, the mean over all
    /// nodes and classes, and single labels are counted. Otherwise it is cross-entropy, and nodes are counted.
    pub multi_label: bool,
    /// How the answers are judged.
    pub metric: Metric,
}

/// One of the given number of classes per node, judged by accuracy.
impl From<usize> for Task {
    fn from(classes: usize) -> Self {
        Self { classes, multi_label: false, metric: Metric::Accuracy }
    }
}

impl Task {
    /// The default metric of such labels.
    pub fn usual_metric(multi_label: bool) -> Metric {
        if multi_label { Metric::RocAuc } else { Metric::Accuracy }
    }

    /// Refuses a metric that is not defined for these labels.
    ///
    /// # Errors
    /// [`OptionsError::Option`].
    pub fn check(&self) -> Result<(), OptionsError> {
        if self.metric == Metric::RocAuc && !self.multi_label && self.classes != 2 {
            return Err(OptionsError::Option {
                option: "--metric",
                problem: format!(
                    "roc-auc is for two classes or for several labels a node, and this dataset has {} classes; give \
                     --metric accuracy",
                    self.classes
                ),
            });
        }
        Ok(())
    }
}
