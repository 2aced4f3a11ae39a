//! The jobs of a trained model, prediction and evaluation. The program with libtorch runs them in one process.

use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::Value;
use uva_files::quote;
use uva_graph::npy::NpyRows;
use uva_graph::{Dataset, Labels, TypedDataset, Verify};
use uva_model::checkpoint::StoredModel;
use uva_model::checkpoint::{self, Checkpoint, Keep};
use uva_model::{Answer, ClassScore, Metric, TaskKind};
use uva_options::Options;

use super::aggregate::{AggregateInUse, AggregateVerdict};
use super::arithmetic::arithmetic;
use super::data::{ModelData, feature_columns, model_data};
use super::job::EvaluateBy;
use super::relation_training::on_cpu;
use super::state::{TrainingState, checkpoint_error};
use crate::launcher::without_mps;
use crate::mps;
use uva_runtime::backend::{self, Backend, BackendOptions, Probe};
use uva_runtime::tune::measurement::{self, TargetRun};
use uva_runtime::{LoaderOptions, RuntimeError};

/// A trained model, and the options of its use.
#[derive(Debug)]
pub struct TrainedModel {
    /// The folder of its checkpoint, as given.
    pub directory: PathBuf,
    /// The checkpoint, which belongs to the dataset.
    pub checkpoint: Checkpoint,
    /// The metric that chose its best epoch.
    pub metric: Metric,
    /// The meaning of its answers.
    pub task: TaskKind,
    /// The epoch of its parameters, from 0; `None` if the checkpoint does not record it.
    pub epoch: Option<u32>,
    /// Evaluation with whole or with sampled neighbourhoods.
    pub by: EvaluateBy,
    /// The sampling options of neighbourhoods.
    pub loader: LoaderOptions,
    /// Where the first layer is aggregated, if neighbourhoods are sampled.
    pub aggregate: Option<AggregateVerdict>,
    /// The backend of sampled batches.
    pub backend: Backend,
    /// Threads of the arithmetic on the CPU.
    pub threads: Option<usize>,
    /// The differences from the training's dataset, for people, if this is another dataset with labels.
    pub other_dataset: Option<String>,
}

/// Settings that differ from those of the training.
#[derive(Clone, Debug)]
pub struct InferenceOverrides {
    /// Evaluation with whole or with sampled neighbourhoods.
    pub by: EvaluateBy,
    /// Seeds per batch.
    pub batch_size: Option<usize>,
    /// Maximum bytes of a batch's ids and blocks, and again of its feature rows.
    pub slot_bytes: Option<u64>,
    /// Number of samplers.
    pub samplers: usize,
    /// Number of threads that gather.
    pub gather_threads: usize,
    /// Where the first layer is aggregated, if neighbourhoods are sampled.
    pub aggregate: AggregateInUse,
    /// The backend of sampled batches.
    pub backend: BackendOptions,
    /// Threads of the arithmetic on the CPU.
    pub threads: Option<usize>,
    /// Whether a dataset other than that of the training is accepted if the model fits it, such as a graph that has
    /// grown.
    pub other_dataset: bool,
}

/// Bytes up to which glibc serves allocations from its heap. A chunk's tensors stay there, so that the next chunk needs
/// no fresh pages. Tables of all nodes are returned to the kernel when their layer is done.
const KEPT_ALLOCATION: usize = 128 << 20;
const KEPT_MEMORY: usize = 256 << 20;

impl InferenceOverrides {
    /// Environment variables that the process with libtorch needs before it loads libtorch.
    pub fn environment(&self) -> Vec<(String, String)> {
        let mut environment = arithmetic(self.threads, KEPT_ALLOCATION, KEPT_MEMORY);
        if self.by == EvaluateBy::Sampled {
            // A daemon at the default place would otherwise make the process its client.
            environment.extend(mps::environment_without());
        }
        environment
    }
}

impl TrainedModel {
    /// Reads the checkpoint in `directory`, and rejects one for another dataset. A dataset without labels accepts any
    /// model with its number of feature columns; so does a hop set without labels that has the model's hops.
    ///
    /// # Errors
    /// [`RuntimeError::Input`] if there is no checkpoint, or it cannot be used with this dataset.
    /// [`RuntimeError::Usage`] for an evaluation that its sampler does not support, [`RuntimeError::Option`] for sums
    /// that the model does not support. [`RuntimeError::Missing`] for a GPU that was requested and is not available, or
    /// too little memory.
    pub fn open(
        dataset: &Dataset,
        directory: &Path,
        asked: &InferenceOverrides,
    ) -> Result<Self, RuntimeError> {
        let shown = directory.display();
        let refuse = |problem: String| RuntimeError::input(problem).with_path_option("checkpoint", directory);
        let checkpoint = checkpoint::read(directory).map_err(checkpoint_error)?.ok_or_else(|| {
            refuse(
                "no checkpoint (no checkpoint.json); `uvatrain train DATA --checkpoint` writes one"
                    .to_owned(),
            )
        })?;
        let fingerprint = checkpoint.fingerprint();
        let of = fingerprint.get("dataset").and_then(Value::as_str).unwrap_or("unknown");
        let here = dataset.fingerprint();
        let stored = checkpoint.model().map_err(checkpoint_error)?;
        if stored.options.first_layer_given && asked.by == EvaluateBy::Sampled {
            return Err(RuntimeError::usage(format!(
                "the model of {shown} was trained with `first_layer`, which aggregates all neighbours: use `eval=full`"
            ))
            .with_option("eval", "sampled"));
        }
        let rows = model_data(dataset);
        let blocks = rows.blocks(&stored.options);
        let stored = stored.over_neighbours();
        if !rows.fits(stored.options.model.row()) {
            let (model, data) = (stored.options.model.name(), dataset.path().display());
            let [is_of, is, wanted] = rows.another();
            return Err(refuse(format!(
                "its model requires {is_of} (`model={model}`), but {data} is {is}: use {wanted} that it was trained on"
            )));
        }
        rows.check_evaluation(asked.by)?;
        // A model cannot be trained on a dataset without labels, so it is from another dataset.
        let labelled = dataset.labels().are_there();
        let is_other = labelled && of != here;
        let data = dataset.path().display();
        let differs =
            format!("trained on another dataset, with fingerprint {of}; the fingerprint of {data} is {here}");
        if is_other && !asked.other_dataset {
            return Err(refuse(format!(
                "its model was {differs}. Use the dataset that it was trained on, or give `allow_other_dataset` for one \
                 with the same columns"
            )));
        }
        if let Some(problem) = misfit(dataset, &*rows, &stored).filter(|_| is_other || !labelled) {
            return Err(refuse(problem));
        }
        let other_dataset = is_other.then(|| format!("the model was {differs}"));
        let metric = match fingerprint.get("metric") {
            // Accuracy is the default.
            None => Metric::default(),
            Some(named) => named.as_str().and_then(Metric::from_name).ok_or_else(|| {
                let metrics: Vec<&str> = Metric::ALL.into_iter().map(Metric::name).collect();
                let (named, metrics) = (quote::shown(named.to_string()), metrics.join(", "));
                refuse(format!("checkpoint.json: fingerprint.metric is {named}, not one of {metrics}"))
            })?,
        };
        let loader = LoaderOptions::of_fingerprint(fingerprint)
            .map_err(|problem| refuse(format!("its sampling options cannot be read: {problem}")))?;
        check_sampling(&loader, blocks)
            .map_err(|problem| refuse(format!("checkpoint.json: fingerprint: {problem}")))?;
        if asked.by == EvaluateBy::Full && !loader.sampler_kind.picks_in_lists() {
            return Err(RuntimeError::usage(format!(
                "evaluation on all neighbours is not supported for the model of {shown}: it was trained with `sampler_kind={}`, \
                 where a node's neighbours are the nodes found around it. Use `eval=sampled`",
                loader.sampler_kind
            ))
            .with_option("eval", "full"));
        }
        let backend = match asked.by {
            EvaluateBy::Full => {
                rows.check_memory(&stored.options)?;
                Backend::Cpu
            }
            EvaluateBy::Sampled => {
                let probe = || Probe::in_child(&without_mps(), false);
                let without_gpu = on_cpu(stored.options.model, &asked.backend)?;
                let decision = backend::decide(without_gpu.as_ref().unwrap_or(&asked.backend), true, probe)?;
                let wanted = TargetRun::of(dataset, asked.gather_threads, false);
                measurement::settle(decision, &wanted, None, &mut |_| {})?.backend
            }
        };
        let mut loader = LoaderOptions {
            batch_size: asked.batch_size.unwrap_or(loader.batch_size),
            slot_bytes: asked.slot_bytes,
            samplers: asked.samplers,
            gather_threads: asked.gather_threads,
            degrees: stored.options.model.row().needs_degrees(),
            edge_attr: stored.options.edge_dim > 0,
            drop_last: false,
            ..loader
        };
        let aggregate = match asked.by {
            EvaluateBy::Full => None,
            EvaluateBy::Sampled => {
                let verdict = AggregateVerdict::in_use(asked.aggregate, &stored, dataset, &backend, &loader)?;
                (loader.aggregation, loader.sums_chosen_for) = (verdict.aggregation, verdict.chosen_for);
                loader.sums_by_counts = true;
                Some(verdict)
            }
        };
        let state = checkpoint.state::<TrainingState>().ok();
        if let Some(state) = &state {
            let checked = state.check(checkpoint.trainer(), metric);
            checked.map_err(|problem| checkpoint_error(checkpoint.damaged(problem)))?;
        }
        let epoch = state.and_then(|state| match checkpoint.trainer().kept() {
            Keep::Best => state.best.map(|best| best.epoch),
            Keep::Last if state.cursor.batch > 0 => Some(state.cursor.epoch),
            Keep::Last => state.cursor.epoch.checked_sub(1),
        });
        let (directory, by, threads) = (directory.to_owned(), asked.by, asked.threads);
        let task = stored.kind;
        Ok(Self {
            directory,
            checkpoint,
            metric,
            task,
            epoch,
            by,
            loader,
            aggregate,
            backend,
            threads,
            other_dataset,
        })
    }
}

/// Opens a dataset for the model of the checkpoint in `directory`: the nodes of a typed graph that it answers for are of
/// the type of the seeds of its training.
///
/// # Errors
/// The dataset or the checkpoint is damaged, or the dataset does not have that type.
pub fn open_dataset(data: &Path, directory: &Path) -> Result<Dataset, RuntimeError> {
    let dataset = TypedDataset::open_verified(data, Verify::Stamp)?;
    let stored = match dataset.is_homogeneous() {
        true => None,
        false => checkpoint::read(directory).map_err(checkpoint_error)?,
    };
    let stored = stored.map(|stored| stored.model().map_err(checkpoint_error)).transpose()?;
    let Some(graph) = stored.and_then(|model| model.options.graph) else {
        return Ok(dataset.single_type()?);
    };
    let target = dataset.metagraph().find_type(&graph.target);
    let target = target.map_err(|unknown| {
        RuntimeError::input(format!("its model is for other types than {}: {unknown}", data.display()))
            .with_path_option("checkpoint", directory)
    })?;
    Ok(dataset.for_batches(target)?)
}

/// Rejects sampling options that are out of range, or whose batches do not have the model's number of `blocks`, if it
/// uses blocks.
fn check_sampling(loader: &LoaderOptions, blocks: Option<usize>) -> Result<(), String> {
    loader.check_ranges().map_err(|error| error.to_string())?;
    match (loader.fanouts.hops(), blocks) {
        (fanouts, Some(blocks)) if fanouts != blocks => {
            Err(format!("fanouts has {fanouts} numbers, but the model has {blocks} layers over neighbours"))
        }
        _ => Ok(()),
    }
}

/// The reason why a model cannot be used with a dataset, such as tables that a hop set lacks; `None` if it can.
fn misfit(dataset: &Dataset, rows: &dyn ModelData, model: &StoredModel) -> Option<String> {
    let name = dataset.path().display();
    let (columns, wanted) = (feature_columns(dataset), model.input_dim);
    if columns != wanted {
        return Some(format!("its model requires {wanted} feature columns, but {name} has {columns}"));
    }
    if let Some(problem) = rows.lacks(&model.options) {
        return Some(problem);
    }
    let of_edges = dataset.edge_features().map_or(0, |table| table.dim);
    let wanted = model.options.edge_dim;
    if wanted > 0 && of_edges != wanted {
        return Some(format!("its model requires {wanted} features per edge, but {name} has {of_edges}"));
    }
    let (kind, outputs) = (model.kind, model.outputs);
    let (fits, found) = match dataset.labels() {
        Labels::Absent => return None,
        // The grown graph may lack a class.
        Labels::Single(_) => (kind == TaskKind::SingleLabel && dataset.classes() <= outputs, "classes"),
        Labels::Multi { classes, .. } => {
            (kind == TaskKind::MultiLabel && classes == outputs, "labels per node")
        }
        Labels::Regression { columns, .. } => {
            (kind.regression().is_some() && columns.unwrap_or(1) == outputs, "numbers per node to predict")
        }
    };
    let has = dataset.labels().regression_columns().unwrap_or(dataset.classes());
    let answers = match kind {
        TaskKind::SingleLabel => "classes",
        TaskKind::MultiLabel => "labels per node",
        TaskKind::Regression(_) => "numbers per node",
    };
    (!fits).then(|| format!("its model predicts {outputs} {answers}, but {name} has {has} {found}"))
}

/// Nodes to predict for. The rows of a hop set stand for nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InferenceNodes {
    /// Every node, by id.
    All,
    /// These, in this order. A node may occur several times.
    These(Vec<i64>),
}

/// A file to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PredictionFile {
    /// The content of its rows.
    pub answer: Answer,
    /// Its final name.
    pub path: PathBuf,
}

/// A prediction to make.
#[derive(Clone, Debug)]
pub struct PredictionJob {
    /// The nodes.
    pub nodes: InferenceNodes,
    /// The outputs: at least one file, each with a different answer. The rows of [`Answer::Table`] never get the name
    /// of their file: they are removed when the table is written.
    pub files: Vec<PredictionFile>,
    /// The layer of hidden rows, from 1; `None` for the last that does not make logits.
    pub layer: Option<usize>,
    /// Whether existing files may be replaced.
    pub overwrite: bool,
}

/// The observer of a predicting process, which also requests its stop.
pub trait PredictionWatch {
    /// Reports that `done` of `total` units of work are done: batches, or chunks of layers.
    fn progress(&mut self, done: u64, total: u64);

    /// Whether to stop. Called at least ten times a second while batches are awaited.
    fn stops(&self) -> bool;

    /// Reports a line for people.
    fn note(&mut self, line: &str);

    /// Called when all rows are written. Writes the table from the rows of [`Answer::Table`]; it gets its name in
    /// [`finishes`](Self::finishes). Returns false if it stopped before the end.
    ///
    /// # Errors
    /// The table cannot be written.
    fn table(&mut self, rows: &NpyRows) -> Result<bool, RuntimeError>;

    /// Called when all rows are written, before the files get their names.
    ///
    /// # Errors
    /// A failure of work that must be done first. The files then stay unfinished.
    fn finishes(&mut self) -> Result<(), RuntimeError> {
        Ok(())
    }
}

/// The result of a prediction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Predicted {
    /// Number of rows of each file.
    pub rows: usize,
    /// Units of work that an earlier, interrupted process had done: nodes of the last layer with full neighbourhoods,
    /// otherwise batches.
    pub resumed: u64,
    /// The layer of hidden rows.
    pub layer: Option<usize>,
    /// Whether it stopped early on request.
    #[serde(skip)]
    pub stopped: bool,
}

/// The result for the nodes of a split.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct SplitResult {
    /// Nodes of the split.
    pub nodes: usize,
    /// Nodes with a label; with several labels per node, labels; for regression, numbers.
    pub labelled: usize,
    /// See [`uva_runtime::telemetry::metrics::End::test_accuracy`].
    pub accuracy: Option<f64>,
    /// The mean F1 of the classes that occur among labels or predictions; `None` unless a node has one class.
    pub macro_f1: Option<f64>,
    /// See [`uva_runtime::telemetry::metrics::End::test_roc_auc`].
    pub roc_auc: Option<f64>,
    /// See [`uva_runtime::telemetry::metrics::End::test_mse`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mse: Option<f64>,
    /// See [`uva_runtime::telemetry::metrics::End::test_mae`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mae: Option<f64>,
    /// Mean loss.
    pub loss: Option<f64>,
    /// The quality of each class that occurs. Empty unless a node has one class.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<ClassScore>,
}

/// A function that predicts in a program with libtorch.
pub type Predict =
    fn(Dataset, &TrainedModel, &PredictionJob, &mut dyn PredictionWatch) -> Result<Predicted, RuntimeError>;

/// A function that evaluates each split in a program with libtorch: train, valid, test.
pub type Evaluate = fn(Dataset, &TrainedModel) -> Result<[SplitResult; 3], RuntimeError>;
