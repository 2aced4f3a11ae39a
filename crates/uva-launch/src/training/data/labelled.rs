//! Checks that the nodes of a split have the labels that training, validation and early stopping require.

use uva_graph::{Dataset, Labels, Split};
use uva_model::Metric;
use uva_runtime::RuntimeError;

/// Rejects a training split without labelled nodes: every step would be empty, with a loss of 0.
///
/// # Errors
/// [`RuntimeError::Input`] with the split, or the file that replaces it.
pub(crate) fn check_training(dataset: &Dataset) -> Result<(), RuntimeError> {
    let nodes = dataset.split(Split::Train).len();
    if nodes == 0 || has_label(dataset, Split::Train) {
        return Ok(());
    }
    let name = dataset.path().display();
    let (what, remedy) = match dataset.chosen() {
        Some((Split::Train, _)) => ("nodes of `input_nodes`", "list nodes that have one"),
        _ => (
            "training nodes",
            "put nodes with labels into train_idx.npy, or correct label.npy (-1: unlabelled)",
        ),
    };
    Err(RuntimeError::input(format!("{name}: the {nodes} {what} have no labels: {remedy}")))
}

/// Rejects early stopping without a validation that could stop training. Returns a note if the metric of the best model
/// cannot be computed on the validation nodes.
///
/// # Errors
/// [`RuntimeError::Usage`] with the option.
pub(crate) fn check_validation(
    dataset: &Dataset,
    metric: Metric,
    metric_is_given: bool,
    patience: Option<u32>,
) -> Result<Option<String>, RuntimeError> {
    let lacks = if dataset.split(Split::Valid).is_empty() {
        "the dataset has no validation nodes"
    } else if !has_label(dataset, Split::Valid) {
        "no validation node has a label"
    } else if metric == Metric::RocAuc && !has_both_answers(dataset, Split::Valid) {
        "the labels of the validation nodes are all positive, or all negative, in every column"
    } else {
        return Ok(None);
    };
    if let Some(patience) = patience {
        let problem = format!(
            "early stopping requires validation, but {lacks}: train without `patience`, or add nodes to valid_idx.npy"
        );
        return Err(RuntimeError::usage(problem).with_option("patience", patience));
    }
    let note = || {
        format!("`metric={}`: {lacks}, so no epoch is the best one and the last model is kept", metric.name())
    };
    Ok(metric_is_given.then(note))
}

fn has_label(dataset: &Dataset, split: Split) -> bool {
    match dataset.labels() {
        Labels::Absent => false,
        Labels::Single(classes) => dataset.label_rows(split).any(|row| classes[row] >= 0),
        Labels::Multi { .. } | Labels::Regression { .. } => dataset.label_rows(split).next().is_some(),
    }
}

/// Whether an area under the ROC curve is defined: a column exists with both positive and negative nodes.
fn has_both_answers(dataset: &Dataset, split: Split) -> bool {
    let columns = match dataset.labels() {
        Labels::Multi { classes, .. } => classes,
        Labels::Single(_) => 1,
        Labels::Absent | Labels::Regression { .. } => 0,
    };
    let mut seen = vec![[false; 2]; columns];
    for row in dataset.label_rows(split) {
        match dataset.labels() {
            Labels::Single(classes) if classes[row] >= 0 => seen[0][usize::from(classes[row] == 1)] = true,
            Labels::Multi { classes, values } => {
                let row = &values[row * classes..][..classes];
                row.iter().zip(&mut seen).for_each(|(&value, seen)| seen[usize::from(value != 0)] = true);
            }
            _ => {}
        }
    }
    seen.contains(&[true; 2])
}
