//! `uvatrain predict`: predictions of a trained model, as arrays or a table.

mod ids;
mod rows;
mod source_names;
mod table;
mod written;

use std::path::{Path, PathBuf};
use std::time::Instant;

use serde_json::json;
use uva_graph::npy::NpyRows;
use uva_graph::{Dataset, GraphError, Progress, Split};
use uva_io::table::TableFormat;
use uva_launch::training::{
    AggregateVerdict, InferenceNodes, PredictionFile, PredictionJob, PredictionWatch, checkpoint_error,
};
use uva_mem::files::is_about_the_name;
use uva_model::{Answer, TableRow};
use uva_runtime::RuntimeError;

use ids::UserIds;
use table::PredictionTable;
use written::WrittenFile;

use crate::exit;
use crate::flags::training::PredictFlags;
use crate::models::Models;
use crate::runs::data_kinds::{DataKind, kind_at};
use crate::runs::pipeline::{check_outputs, check_paths};
use crate::runs::trained_model;
use crate::signals::interrupt::Interrupt;
use crate::ui::work::Work;
use crate::ui::{format, out};

/// The file if no array is requested.
const PREDICTIONS: &str = "predictions.npy";

/// Predicts, and prints the written files.
pub fn run(flags: &PredictFlags, models: Option<Models>) -> anyhow::Result<()> {
    let model_flags = &flags.model;
    let kind = kind_at(&model_flags.data);
    kind.check_model(model_flags)?;
    flags.check_files()?;
    let files = files(flags);
    let mut paths = vec![
        ("DATA", Some(model_flags.data.as_path())),
        ("--checkpoint", Some(model_flags.checkpoint.as_path())),
    ];
    paths.extend(files.iter().map(|file| (option_of(file.answer), Some(file.path.as_path()))));
    check_paths(&paths)?;
    let mut outputs = paths.split_off(2);
    outputs.push(("--ids", flags.ids.as_deref()));
    check_outputs(&outputs, &[Some(&model_flags.data), Some(&model_flags.checkpoint), Some(&flags.nodes)])?;
    let models = trained_model::models(model_flags, models)?;
    let start = Instant::now();
    let interrupt = Interrupt::listen()?;
    let (dataset, model) = trained_model::open(model_flags)?;
    if let (Some(path), Some(_)) = (&flags.probabilities, model.task.regression()) {
        let problem = "not supported with a regression model; --output writes the predicted values";
        return Err(exit::usage(format!("--probabilities {}: {problem}", path.display())).into());
    }
    let nodes = nodes(&flags.nodes, &dataset, kind)?;
    let job = PredictionJob {
        nodes,
        files,
        layer: flags.layer.map(|layer| layer as usize),
        overwrite: flags.overwrite,
    };
    let ids =
        flags.ids.as_deref().map(|path| UserIds::of(&dataset, path)?.written(&job.nodes, flags.overwrite));
    let ids = ids.transpose()?;
    let table = flags.output.as_deref().and_then(|path| Some((path, TableFormat::of(path)?)));
    let table = table.map(|named| {
        let outputs = model.checkpoint.model().map_err(checkpoint_error)?.outputs;
        PredictionTable::of(
            named,
            TableRow { kind: model.task, outputs },
            (&dataset, &job.nodes),
            flags.overwrite,
        )
    });
    let table = table.transpose()?;
    let work = Work::with_remaining_time();
    let mut watch = Watch { work, interrupt: interrupt.clone(), ids, table, written: None };
    let predicted = (models.predict)(dataset, &model, &job, &mut watch)?;
    drop(watch);
    if predicted.stopped {
        out::say("finished work is kept next to the outputs: the same command continues from it");
        return Err(exit::signalled(interrupt.signal()).into());
    }
    if model_flags.json {
        let mut result = json!({
            "checkpoint": model_flags.checkpoint,
            "kept": model.checkpoint.trainer().kept(),
            "epoch": model.epoch,
            "eval": model.by,
            "aggregate": model.aggregate.as_ref().map(AggregateVerdict::of_prediction),
            "rows": predicted.rows,
            "resumed": predicted.resumed,
            "layer": predicted.layer,
            "seconds": start.elapsed().as_secs_f64(),
        });
        for file in &job.files {
            result[field_of(file.answer)] = json!(file.path);
        }
        return out::json(&result);
    }
    let names: Vec<String> = job.files.iter().map(|file| file.path.display().to_string()).collect();
    out::say(&format!(
        "{}: {} rows by {}, in {}",
        names.join(", "),
        format::count(predicted.rows as u64),
        trained_model::described(&model),
        format::seconds(start.elapsed().as_secs_f64())
    ));
    Ok(())
}

/// The requested arrays.
fn files(flags: &PredictFlags) -> Vec<PredictionFile> {
    let is_table = flags.output.as_deref().and_then(TableFormat::of).is_some();
    let asked = [
        (if is_table { Answer::Table } else { Answer::Classes }, &flags.output),
        (Answer::Probabilities, &flags.probabilities),
        (Answer::Hidden, &flags.embeddings),
    ];
    let file =
        |(answer, path): (Answer, &Option<PathBuf>)| path.clone().map(|path| PredictionFile { answer, path });
    let files: Vec<PredictionFile> = asked.into_iter().filter_map(file).collect();
    if files.is_empty() {
        return vec![PredictionFile { answer: Answer::Classes, path: PREDICTIONS.into() }];
    }
    files
}

fn option_of(answer: Answer) -> &'static str {
    match answer {
        Answer::Classes | Answer::Table => "--output",
        Answer::Probabilities => "--probabilities",
        Answer::Hidden => "--embeddings",
    }
}

fn field_of(answer: Answer) -> &'static str {
    &option_of(answer)[2..]
}

/// The nodes that `--nodes` names; for a hop set, their rows.
fn nodes(asked: &Path, dataset: &Dataset, kind: &dyn DataKind) -> anyhow::Result<InferenceNodes> {
    let text = asked.to_str().unwrap_or_default();
    if text == "all" {
        return Ok(InferenceNodes::All);
    }
    let split = Split::ALL.into_iter().find(|split| split.name() == text);
    let explained = |error| match error {
        GraphError::Io { source, .. } if is_about_the_name(&source) => {
            let remedy = "expected all, train, valid, test, or a file of node ids";
            anyhow::Error::from(exit::usage(format!("--nodes: {}: {source}; {remedy}", asked.display())))
        }
        other => other.into(),
    };
    let ids = match split {
        Some(split) => dataset.label_rows(split).map(|row| row as i64).collect(),
        None => kind.rows_of_file(dataset, asked, &explained)?,
    };
    if ids.is_empty() {
        return Err(exit::usage(format!("--nodes: {text}: there is no node in it")).into());
    }
    Ok(InferenceNodes::These(ids))
}

/// The bar on the terminal, and the signals.
struct Watch {
    work: Work,
    interrupt: Interrupt,
    ids: Option<WrittenFile>,
    /// The table: requested at first, and later written.
    table: Option<PredictionTable>,
    written: Option<WrittenFile>,
}

impl PredictionWatch for Watch {
    fn progress(&mut self, done: u64, total: u64) {
        self.work.show(Progress { stage: "predicting", done, total });
    }

    fn stops(&self) -> bool {
        self.interrupt.has_arrived()
    }

    fn note(&mut self, line: &str) {
        self.work.beside(|| out::say(line));
    }

    fn finishes(&mut self) -> Result<(), RuntimeError> {
        self.interrupt.hold();
        let files = [self.ids.take(), self.written.take()];
        files.into_iter().flatten().try_for_each(WrittenFile::commit).map_err(of_call)
    }

    fn table(&mut self, rows: &NpyRows) -> Result<bool, RuntimeError> {
        let Some(table) = &self.table else { return Ok(true) };
        let mut progress = |done, total| {
            self.work.show(Progress { stage: "writing the table", done, total });
            !self.interrupt.has_arrived()
        };
        self.written = table.written(rows, &mut progress).map_err(of_call)?;
        Ok(self.written.is_some())
    }
}

/// An error of this command, returned through the library that called it.
fn of_call(error: anyhow::Error) -> RuntimeError {
    match error.downcast_ref::<exit::CommandError>() {
        Some(problem) => RuntimeError::usage(problem.to_string()),
        None => RuntimeError::failed(error.to_string()),
    }
}
