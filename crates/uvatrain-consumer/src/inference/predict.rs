//! Predictions for any nodes, written as they are computed.

use std::cell::Cell;
use std::ops::ControlFlow;
use std::path::PathBuf;

use serde_json::json;
use uva_files::disk_space::{self, BytesOnDisk};
use uva_graph::part::first_cut;
use uva_graph::{Dataset, GraphError, Hops, Split};
use uva_launch::training::{
    InferenceNodes, Predicted, PredictionJob, PredictionWatch, TrainedModel, checkpoint_error,
};
use uva_model::Answer;
use uva_model::checkpoint::checksum;
use uva_runtime::RuntimeError;
use uva_runtime::options::cut_around;
use uva_train::{Answered, Questions, Tables, TrainDevice, TrainError, Trainer, Wanted, checkpoint};

use super::inference_rows::InferenceRows;
use super::output::PredictionOutput;
use super::sampled::SampledInference;
use super::stored_rows::StoredRows;
use crate::session::{train_error, train_or_batch_error};
use crate::whole_rows::whole_rows;

/// Predicts, and writes the files of the job. Files of the same job from an interrupted process are completed.
///
/// # Errors
/// A node or layer that does not exist, an output that exists; a checkpoint whose tensors do not fit; a full disk; the
/// error that made a role end.
pub fn predict(
    dataset: Dataset,
    model: &TrainedModel,
    job: &PredictionJob,
    watch: &mut dyn PredictionWatch,
) -> Result<Predicted, RuntimeError> {
    let nodes = dataset.nodes_of(dataset.seed_type());
    let wanted = match &job.nodes {
        InferenceNodes::All => Wanted::all(nodes),
        InferenceNodes::These(ids) => Wanted::new(ids, nodes).map_err(train_error)?,
    };
    if wanted.is_empty() {
        return Err(RuntimeError::usage("there is no node to predict for").with_option_of("nodes"));
    }
    check_part(&dataset, model, job)?;
    match InferenceRows::of(&dataset, model.by) {
        InferenceRows::Stored(hops) => of_rows((&dataset, hops), model, job, &wanted, watch),
        InferenceRows::Whole => full(&dataset, model, job, &wanted, watch),
        InferenceRows::Sampled => sampled(dataset, model, job, &wanted, watch),
    }
}

/// Refuses nodes of a dataset's part whose predictions would differ from those on the whole dataset.
fn check_part(dataset: &Dataset, model: &TrainedModel, job: &PredictionJob) -> Result<(), RuntimeError> {
    let all: Vec<i64>;
    let ids = match &job.nodes {
        InferenceNodes::These(ids) => ids,
        InferenceNodes::All => {
            all = (0..dataset.nodes() as i64).filter(|_| dataset.part().is_some()).collect();
            &all
        }
    };
    let hops = model.loader.fanouts.hops();
    match first_cut(dataset, ids, hops) {
        None => Ok(()),
        Some(place) => Err(RuntimeError::usage(cut_around(ids[place], hops)).with_option_of("nodes")),
    }
}

/// The answers that the job's files contain.
fn questions(job: &PredictionJob, trainer: &Trainer) -> Result<(Questions, usize), RuntimeError> {
    let has = |answer| job.files.iter().any(|file| file.answer == answer);
    let layer = job.layer.unwrap_or_else(|| trainer.last_hidden_layer());
    let layers = trainer.options().layers;
    if layer == 0 || layer > layers {
        return Err(
            RuntimeError::usage(format!("the model has layers 1 to {layers}")).with_option("layer", layer)
        );
    }
    let questions = Questions {
        classes: has(Answer::Classes),
        probabilities: has(Answer::Probabilities),
        table: has(Answer::Table),
        hidden: has(Answer::Hidden).then_some(layer),
    };
    Ok((questions, layer))
}

/// The directory of the job's first file.
fn beside(job: &PredictionJob) -> PathBuf {
    let parent = job.files.first().and_then(|file| file.path.parent());
    match parent {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}

/// Opens the job's files.
fn open(
    dataset: &Dataset,
    model: &TrainedModel,
    job: &PredictionJob,
    wanted: &Wanted,
    (trainer, layer): (&Trainer, usize),
) -> Result<PredictionOutput, RuntimeError> {
    let nodes = match &job.nodes {
        InferenceNodes::All => "all".to_owned(),
        InferenceNodes::These(ids) => {
            format!("{:016x}", checksum(&ids.iter().flat_map(|id| id.to_le_bytes()).collect::<Vec<_>>()))
        }
    };
    // Progress is counted in batches, whose size is part of this.
    let by_batches = InferenceRows::of(dataset, model.by).are_in_batches();
    let sampling = by_batches.then(|| model.loader.fingerprint());
    let job_is = json!({
        "dataset": dataset.fingerprint(),
        "tensors": model.checkpoint.checksum(),
        "kept": model.checkpoint.trainer().kept(),
        "eval": model.by,
        "sampling": sampling,
        // The place of aggregation can change last digits if the model's first layer multiplies first.
        "aggregate": model.aggregate.as_ref().map(|verdict| verdict.of_prediction()["way"].clone()),
        "nodes": nodes,
        "layer": layer,
    });
    PredictionOutput::open(job, wanted.len(), &|answer| trainer.row_of(answer, layer), job_is)
}

fn on_cpu(model: &TrainedModel) -> Result<Trainer, RuntimeError> {
    checkpoint::load_model(&model.checkpoint, model.metric, TrainDevice::Cpu, model.threads)
        .map_err(checkpoint_error)
}

fn full(
    dataset: &Dataset,
    model: &TrainedModel,
    job: &PredictionJob,
    wanted: &Wanted,
    watch: &mut dyn PredictionWatch,
) -> Result<Predicted, RuntimeError> {
    let trainer = on_cpu(model)?;
    let (questions, layer) = questions(job, &trainer)?;
    let beside = beside(job);
    let needed = trainer.bytes_of_tables(&dataset.schema().nodes).map_err(train_error)?;
    disk_space::check(
        &beside,
        needed,
        format_args!("the tables between the layers take up to {}", BytesOnDisk(needed)),
    )
    .map_err(GraphError::from)?;
    let mut output = open(dataset, model, job, wanted, (&trainer, layer))?;
    let begin = output.done();
    if output.is_complete() {
        return end(output, wanted, (begin, questions.hidden), false, watch);
    }
    if begin > 0 {
        let nodes = dataset.nodes_of(dataset.seed_type());
        watch.note(&format!("resuming after node {begin} of {nodes} in the last layer"));
    }
    // The last answer to a chunk completes it.
    let last = match questions {
        Questions { table: true, .. } => Answer::Table,
        Questions { probabilities: true, .. } => Answer::Probabilities,
        Questions { classes: true, .. } => Answer::Classes,
        _ => Answer::Hidden,
    };
    let stop = Cell::new(false);
    let mut failed = None;
    let mut take = |answered: Answered<'_>| {
        let written = output.write(answered.answer, answered.places, answered.rows).and_then(|()| {
            if answered.answer == last { output.note_done(answered.behind as u64) } else { Ok(()) }
        });
        match written {
            Ok(()) if !stop.get() => ControlFlow::Continue(()),
            written => {
                failed = written.err();
                ControlFlow::Break(())
            }
        }
    };
    let mut progress = |done, total| {
        watch.progress(done, total);
        stop.set(watch.stops());
        if stop.get() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let begin_at = (wanted, begin as usize);
    let passed = trainer.predict_full(
        whole_rows(dataset, &model.loader)?,
        Tables::Files(&beside),
        begin_at,
        questions,
        &mut take,
        &mut progress,
    );
    if let Some(error) = failed {
        return Err(error);
    }
    let stopped = match passed {
        Err(TrainError::Stopped) => true,
        other => other.map(|()| false).map_err(train_error)?,
    };
    end(output, wanted, (begin, questions.hidden), stopped, watch)
}

fn sampled(
    dataset: Dataset,
    model: &TrainedModel,
    job: &PredictionJob,
    wanted: &Wanted,
    watch: &mut dyn PredictionWatch,
) -> Result<Predicted, RuntimeError> {
    let dataset = {
        let seeds = seeds(&dataset, job);
        dataset.with_nodes(Split::Test, seeds, "nodes")?
    };
    let mut sampled = SampledInference::start(dataset, model, Split::Test)?;
    let (questions, layer) = questions(job, &sampled.trainer)?;
    let dataset = sampled.batches.dataset().clone();
    let mut output = open(&dataset, model, job, wanted, (&sampled.trainer, layer))?;
    let (begin, total) = (output.done(), sampled.batches.batches(Split::Test));
    if output.is_complete() {
        sampled.batches.close()?;
        return end(output, wanted, (begin, questions.hidden), false, watch);
    }
    if begin > 0 {
        watch.note(&format!("resuming after batch {begin} of {total}"));
    }
    let (mut done, mut stopped) = (begin, false);
    sampled.go_to(Split::Test, 0, begin);
    let size = sampled.batches.batch_size();
    let seeds = dataset.split(Split::Test);
    while done < total {
        if watch.stops() {
            stopped = true;
            break;
        }
        let batch = match sampled.next(&|| watch.stops()) {
            Err(RuntimeError::Interrupted(_)) | Ok(None) => {
                stopped = true;
                break;
            }
            other => other?,
        };
        let Some(batch) = batch else { break };
        let first = done as usize * size;
        let of_batch = &seeds[first..seeds.len().min(first + size)];
        let places = Places::of(wanted, of_batch);
        let local: Vec<i64> = (0..of_batch.len() as i64).collect();
        let columns = batch.columns();
        let mut failed = None;
        let mut take = |answered: Answered<'_>| places.write(&output, answered, &mut failed);
        let mut confirm = || batch.confirm().map_err(|error| error.to_string());
        let predicted = sampled.trainer.predict_batch(&columns, &local, questions, &mut confirm, &mut take);
        if let Some(error) = failed {
            return Err(error);
        }
        predicted.map_err(|error| train_or_batch_error(error, &batch))?;
        done += 1;
        output.note_done(done)?;
        watch.progress(done, total);
    }
    sampled.batches.close()?;
    end(output, wanted, (begin, questions.hidden), stopped, watch)
}

/// Predicts rows of a hop set, batch by batch.
fn of_rows(
    (dataset, hops): (&Dataset, Hops<'_>),
    model: &TrainedModel,
    job: &PredictionJob,
    wanted: &Wanted,
    watch: &mut dyn PredictionWatch,
) -> Result<Predicted, RuntimeError> {
    if job.files.iter().any(|file| file.answer == Answer::Hidden) {
        let problem = "not supported with hop sets, whose models have no rows of a layer";
        return Err(RuntimeError::usage(problem).with_option_of("embeddings"));
    }
    let trainer = on_cpu(model)?;
    let (questions, layer) = questions(job, &trainer)?;
    let mut batches = StoredRows::new((dataset, hops), model, &trainer)?;
    let mut output = open(dataset, model, job, wanted, (&trainer, layer))?;
    let rows = seeds(dataset, job);
    let size = batches.batch_size();
    let (begin, total) = (output.done(), rows.len().div_ceil(size) as u64);
    if output.is_complete() {
        return end(output, wanted, (begin, None), false, watch);
    }
    if begin > 0 {
        watch.note(&format!("resuming after batch {begin} of {total}"));
    }
    let mut stopped = false;
    for (of_batch, done) in rows.chunks(size).zip(1..).skip(begin as usize) {
        stopped = watch.stops();
        if stopped {
            break;
        }
        let places = Places::of(wanted, of_batch);
        let mut failed = None;
        let predicted = batches.predict(&trainer, of_batch, questions, &mut |answered| {
            places.write(&output, answered, &mut failed)
        });
        if let Some(error) = failed {
            return Err(error);
        }
        predicted.map_err(|error| {
            let nodes: Vec<i64> = of_batch.iter().map(|&row| hops.nodes()[row as usize]).collect();
            train_error(error.of_seeds(&nodes))
        })?;
        output.note_done(done)?;
        watch.progress(done, total);
    }
    end(output, wanted, (begin, None), stopped, watch)
}

/// The requested nodes, each once, in the order of ids.
fn seeds(dataset: &Dataset, job: &PredictionJob) -> Vec<i64> {
    match &job.nodes {
        InferenceNodes::All => (0..dataset.nodes_of(dataset.seed_type()) as i64).collect(),
        InferenceNodes::These(ids) => {
            let mut seeds = ids.clone();
            seeds.sort_unstable();
            seeds.dedup();
            seeds
        }
    }
}

/// The output positions of the predictions for a batch.
struct Places {
    nodes: usize,
    /// For each row of the output, its node in the batch, and the row's position.
    rows: Vec<usize>,
    places: Vec<i64>,
}

impl Places {
    fn of(wanted: &Wanted, nodes: &[i64]) -> Self {
        let (rows, places) = wanted.rows_of(nodes);
        Self { nodes: nodes.len(), rows, places }
    }

    /// Writes predictions for all nodes of the batch. An error stops the pass and is stored in `failed`.
    fn write(
        &self,
        output: &PredictionOutput,
        answered: Answered<'_>,
        failed: &mut Option<RuntimeError>,
    ) -> ControlFlow<()> {
        let bytes = answered.rows;
        let row = bytes.len() / self.nodes.max(1);
        let repeated: Vec<u8>;
        let in_order = self.places.len() == self.nodes;
        let bytes = if in_order {
            bytes
        } else {
            repeated = self.rows.iter().flat_map(|&local| &bytes[local * row..][..row]).copied().collect();
            &repeated
        };
        match output.write(answered.answer, &self.places, bytes) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                *failed = Some(error);
                ControlFlow::Break(())
            }
        }
    }
}

fn end(
    mut output: PredictionOutput,
    wanted: &Wanted,
    (resumed, layer): (u64, Option<usize>),
    mut stopped: bool,
    watch: &mut dyn PredictionWatch,
) -> Result<Predicted, RuntimeError> {
    if !stopped {
        output.complete()?;
        if let Some(rows) = output.table() {
            stopped = !watch.table(rows)?;
        }
    }
    if stopped {
        output.suspend()?;
    } else {
        watch.finishes()?;
        output.commit()?;
    }
    Ok(Predicted { rows: wanted.len(), resumed, layer, stopped })
}
