//! What a model learns from a dataset's labels.

use uva_graph::{Dataset, Labels};
use uva_model::{Metric, Task};

use uva_runtime::RuntimeError;

/// What a model predicts for a node, judged by `metric`. The default metric is accuracy for one class a node, and the
/// area under the ROC curve for several labels.
///
/// # Errors
/// [`RuntimeError::Input`] for a dataset without enough classes, [`RuntimeError::Usage`] for a metric that does not
/// apply to its labels.
pub fn task(dataset: &Dataset, metric: Option<Metric>) -> Result<Task, RuntimeError> {
    let (name, classes) = (dataset.path().display(), dataset.classes());
    let multi_label = matches!(dataset.labels(), Labels::Multi { .. });
    if let Labels::Single(labels) = dataset.labels()
        && labels.iter().all(|&label| label < 0)
    {
        return Err(RuntimeError::Input(format!(
            "{name}: no node has a label, so there is nothing to train on: import it again with labels, or write label.npy \
             (the class of each node, -1 for none); all but `uvatrain train` does without"
        )));
    }
    let needed = if multi_label { 1 } else { 2 };
    if classes < needed {
        return Err(RuntimeError::Input(format!(
            "{name}: label.npy names {classes} class; to train it takes at least {needed}"
        )));
    }
    let metric = metric.unwrap_or(Task::usual_metric(multi_label));
    let task = Task { classes, multi_label, metric };
    task.check().map_err(|error| RuntimeError::Usage(error.to_string()))?;
    Ok(task)
}
