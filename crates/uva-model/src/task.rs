//! The prediction task for a node, and its metric.

use uva_options::named;

use crate::options_error::OptionsError;

named! {
    /// The metric of evaluation, which controls early stopping and selects the best model.
    ///
    /// [`RocAuc`](Self::RocAuc): the probability that a node with a label scores higher than one without it; ties count
    /// a half. With several labels per node, the mean over the labels that some nodes have and others do not, like OGB's
    /// evaluator of `ogbn-proteins`.
    pub enum Metric = Accuracy {
        /// Share of correct predictions, over nodes or over their labels.
        Accuracy = "accuracy",
        /// Area under the receiver operating characteristic.
        RocAuc = "roc-auc",
        /// Regression: mean squared error over all nodes and columns; lower is better.
        Mse = "mse",
        /// Regression: mean absolute error over all nodes and columns; lower is better.
        Mae = "mae",
    }
}

impl Metric {
    /// Whether `value` is better than `best`. NaN never is.
    pub fn is_better(self, value: f64, best: f64) -> bool {
        match self {
            Self::Accuracy | Self::RocAuc => value > best,
            Self::Mse | Self::Mae => value < best,
        }
    }
}

named! {
    /// The loss of regression, the mean over all nodes and columns.
    pub enum RegressionLoss = Mse {
        /// Mean squared error.
        Mse = "mse",
        /// Mean absolute error.
        Mae = "mae",
    }
}

/// What the target of a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskKind {
    /// One class. The loss is cross-entropy, and nodes are counted.
    SingleLabel,
    /// Any number of classes. The loss is binary cross-entropy, the mean over all nodes and classes, and single labels
    /// are counted.
    MultiLabel,
    /// One or several numbers.
    Regression(RegressionLoss),
}

impl TaskKind {
    /// The default metric.
    pub fn usual_metric(self) -> Metric {
        match self {
            Self::SingleLabel => Metric::Accuracy,
            Self::MultiLabel => Metric::RocAuc,
            Self::Regression(RegressionLoss::Mse) => Metric::Mse,
            Self::Regression(RegressionLoss::Mae) => Metric::Mae,
        }
    }

    /// What regression minimises; `None` for classes.
    pub fn regression(self) -> Option<RegressionLoss> {
        match self {
            Self::Regression(loss) => Some(loss),
            Self::SingleLabel | Self::MultiLabel => None,
        }
    }
}

/// The prediction task for a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Task {
    /// Columns of the model's output: classes, or numbers to predict.
    pub outputs: usize,
    /// What they mean, and so the loss.
    pub kind: TaskKind,
    /// How the answers are judged.
    pub metric: Metric,
}

/// One of the given number of classes per node, judged by accuracy.
impl From<usize> for Task {
    fn from(classes: usize) -> Self {
        Self { outputs: classes, kind: TaskKind::SingleLabel, metric: Metric::Accuracy }
    }
}

impl Task {
    /// Refuses a metric that is not defined for these targets.
    ///
    /// # Errors
    /// [`OptionsError::Option`].
    pub fn check(&self) -> Result<(), OptionsError> {
        let refuse = |problem: String| Err(OptionsError::Option { option: "metric", problem });
        let errors = matches!(self.metric, Metric::Mse | Metric::Mae);
        match self.kind {
            TaskKind::Regression(_) if !errors => refuse(format!(
                "{} requires classes, but this dataset has float32 targets: use `metric=mse` or `metric=mae`",
                self.metric
            )),
            TaskKind::SingleLabel | TaskKind::MultiLabel if errors => refuse(format!(
                "{} requires float32 targets, but this dataset has classes: use `metric=accuracy` or `metric=roc-auc`",
                self.metric
            )),
            TaskKind::SingleLabel if self.metric == Metric::RocAuc && self.outputs != 2 => refuse(format!(
                "roc-auc requires two classes or multi-label data, but this dataset has {} classes: use \
                 `metric=accuracy`",
                self.outputs
            )),
            _ => Ok(()),
        }
    }
}
