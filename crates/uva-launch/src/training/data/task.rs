//! The task of a model, from a dataset's labels.

use uva_graph::{Dataset, ElementType, KindWords, Labels, Split};
use uva_model::{ClassWeights, Metric, RegressionLoss, Task, TaskKind};

use uva_runtime::RuntimeError;

/// The task of a model for a node, judged by `metric`. The default metric is accuracy for one class per node, the area
/// under the ROC curve for several labels, and the loss for regression. `loss` is for regression; its default is the
/// mean squared error.
///
/// # Errors
/// [`RuntimeError::Input`] for a dataset without labels or without enough classes, [`RuntimeError::Usage`] for a metric
/// or a loss that does not apply to its labels.
pub fn task(
    dataset: &Dataset,
    metric: Option<Metric>,
    loss: Option<RegressionLoss>,
) -> Result<Task, RuntimeError> {
    let (name, classes) = (dataset.path().display(), dataset.classes());
    let too_few = |needed| {
        RuntimeError::input(format!(
            "{name}: label.npy has {classes} class; training requires at least {needed}"
        ))
    };
    let KindWords { dataset: kind, node, labels: remedy, .. } = dataset.words();
    let kind = match dataset.labels() {
        Labels::Absent => {
            return Err(RuntimeError::input(format!(
                "{name}: the {kind} has no labels, which training and evaluation require: {remedy}"
            )));
        }
        Labels::Single(labels) if labels.iter().all(|&label| label < 0) => {
            return Err(RuntimeError::input(format!(
                "{name}: no {node} has a label, which training requires: {remedy}"
            )));
        }
        Labels::Single(_) if classes < 2 => return Err(too_few(2)),
        Labels::Multi { .. } if classes < 1 => return Err(too_few(1)),
        Labels::Single(_) => TaskKind::SingleLabel,
        Labels::Multi { .. } => TaskKind::MultiLabel,
        Labels::Regression { .. } => TaskKind::Regression(loss.unwrap_or_default()),
    };
    if let Some(loss) = loss.filter(|_| kind.regression().is_none()) {
        let problem =
            format!("only valid for float32 targets, but {name} has classes, whose loss is cross-entropy");
        return Err(RuntimeError::usage(problem).with_option("loss", loss));
    }
    let task = Task { outputs: outputs(dataset), kind, metric: metric.unwrap_or(kind.usual_metric()) };
    task.check().map_err(|error| RuntimeError::usage(error.to_string()))?;
    Ok(task)
}

/// The weight of each class in the loss of training on this dataset; `None` if all classes have the same weight.
///
/// # Errors
/// [`RuntimeError::Usage`] for labels other than one class per node, and for different numbers of weights and classes.
pub fn class_weights(
    dataset: &Dataset,
    weights: Option<&ClassWeights>,
) -> Result<Option<Vec<f64>>, RuntimeError> {
    let Some(weights) = weights else { return Ok(None) };
    let name = dataset.path().display();
    let refuse = |problem: String| Err(RuntimeError::usage(problem).with_option("class_weights", weights));
    let labels = match dataset.labels() {
        Labels::Single(labels) => labels,
        Labels::Regression { .. } => {
            return refuse(format!("not supported with regression, but {name} has float32 targets"));
        }
        _ => {
            return refuse(format!(
                "not supported with several labels per node, but {name} has multi-label data"
            ));
        }
    };
    let classes = outputs(dataset);
    if let ClassWeights::Given(given) = weights
        && given.len() != classes
    {
        let given = given.len();
        return refuse(format!(
            "{given} weights, but {name} has {classes} classes: give one weight per class"
        ));
    }
    let mut training = dataset.label_rows(Split::Train).map(|row| labels[row]);
    Ok(Some(weights.of_labels(classes, &mut training)))
}

/// Columns of the output of a model of this dataset: classes, or numbers to predict.
pub(crate) fn outputs(dataset: &Dataset) -> usize {
    dataset.labels().regression_columns().unwrap_or(dataset.classes())
}

/// Feature columns of the seeds; 0 if they have no features.
pub fn feature_columns(dataset: &Dataset) -> usize {
    match dataset.is_homogeneous() {
        true => dataset.table().dim,
        false => dataset.table_of(dataset.seed_type()).map_or(0, |table| table.dim),
    }
}

/// The element type of the feature rows that decides whether the loader widens them: of several tables integers, which
/// it cannot widen, before narrow floats, which it widens, before others.
pub fn feature_element(dataset: &Dataset) -> ElementType {
    if dataset.is_homogeneous() {
        return dataset.table().element;
    }
    let tables = dataset.metagraph().types().filter_map(|of| dataset.table_of(of));
    let elements: Vec<ElementType> = tables.map(|table| table.element).collect();
    let rank = |element: &ElementType| match element {
        ElementType::U8 | ElementType::I8 => 0,
        ElementType::F16 | ElementType::Bf16 | ElementType::E4m3 => 1,
        ElementType::F32 => 2,
    };
    elements.into_iter().min_by_key(rank).unwrap_or(ElementType::F32)
}
