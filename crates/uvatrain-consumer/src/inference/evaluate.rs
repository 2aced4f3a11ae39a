//! Evaluation of a trained model on each split.

use uva_graph::{Dataset, Split};
use uva_launch::training::{SplitResult, TrainedModel, checkpoint_error, task};
use uva_model::ClassScore;
use uva_runtime::RuntimeError;
use uva_train::{Evaluation, TrainDevice, checkpoint};

use super::inference_rows::InferenceRows;
use super::sampled::SampledInference;
use super::stored_rows::StoredRows;
use crate::session::{train_error, train_or_batch_error};
use crate::whole_rows::whole_rows;

/// Evaluates the model on train, valid and test nodes.
///
/// # Errors
/// A dataset without labels; a checkpoint whose tensors do not fit; the error that made a role end.
pub fn evaluate(dataset: Dataset, model: &TrainedModel) -> Result<[SplitResult; 3], RuntimeError> {
    task(&dataset, Some(model.metric), model.task.regression())?;
    let names = dataset.meta().class_names.clone().unwrap_or_default();
    let nodes = Split::ALL.map(|split| dataset.split(split).len());
    let on_cpu = || {
        checkpoint::load_model(&model.checkpoint, model.metric, TrainDevice::Cpu, model.threads)
            .map_err(checkpoint_error)
    };
    let evaluations = match InferenceRows::of(&dataset, model.by) {
        InferenceRows::Stored(hops) => {
            let trainer = on_cpu()?;
            let mut rows = StoredRows::new((&dataset, hops), model, &trainer)?;
            Split::ALL.into_iter().map(|split| rows.evaluate(&trainer, split)).collect::<Result<_, _>>()?
        }
        InferenceRows::Whole => {
            let trainer = on_cpu()?;
            let sets = Split::ALL.map(|split| dataset.split(split));
            let data = whole_rows(&dataset, &model.loader)?;
            trainer.evaluate_full_each(data, dataset.labels(), &sets).map_err(train_error)?
        }
        InferenceRows::Sampled => sampled(dataset, model)?,
    };
    let mut results =
        evaluations.into_iter().zip(nodes).map(|(evaluation, nodes): (Evaluation, usize)| SplitResult {
            nodes,
            labelled: evaluation.labelled,
            accuracy: evaluation.accuracy(),
            macro_f1: evaluation.macro_f1(),
            roc_auc: evaluation.roc_auc(),
            mse: evaluation.mse(),
            mae: evaluation.mae(),
            loss: evaluation.mean_loss(),
            classes: named(evaluation.of_classes(), &names),
        });
    Ok([(); 3].map(|()| results.next().unwrap_or_default()))
}

fn named(classes: Vec<ClassScore>, names: &[String]) -> Vec<ClassScore> {
    let name = |score: ClassScore| ClassScore { name: names.get(score.class).cloned(), ..score };
    classes.into_iter().map(name).collect()
}

fn sampled(dataset: Dataset, model: &TrainedModel) -> Result<Vec<Evaluation>, RuntimeError> {
    let mut sampled = SampledInference::start(dataset, model, Split::Train)?;
    let mut evaluations = Vec::new();
    for split in Split::ALL {
        // The batches that training validated and tested this model with.
        let epoch = if split == Split::Valid { model.epoch.unwrap_or(0) } else { 0 };
        sampled.go_to(split, epoch, 0);
        let mut sum = Evaluation::default();
        while let Some(batch) = sampled.next(&|| false)? {
            let columns = batch.columns();
            let mut confirm = || batch.confirm().map_err(|error| error.to_string());
            let evaluated = sampled.trainer.evaluate_batch(&columns, &mut confirm);
            sum += evaluated.map_err(|error| train_or_batch_error(error, &batch))?;
        }
        evaluations.push(sum);
    }
    sampled.batches.close()?;
    Ok(evaluations)
}
