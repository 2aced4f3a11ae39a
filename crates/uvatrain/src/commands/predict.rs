//! `uvatrain predict`: what a trained model says about nodes, as arrays.

use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use serde_json::json;
use uva_graph::npy::{NpyArray, NpyType, NpyWriter};
use uva_graph::{Dataset, GraphError, Hops, Progress, Split, names, node_file};
use uva_launch::training::{AggregateVerdict, Nodes, PredictionFile, PredictionJob, PredictionWatch};
use uva_mem::files::{Replacement, is_about_the_name, open_regular, read_regular_text};
use uva_model::Answer;
use uva_runtime::RuntimeError;

use super::interrupt::Interrupt;
use super::pipeline::{check_outputs, check_paths};
use super::trained_model;
use crate::exit;
use crate::flags::PredictFlags;
use crate::models::Models;
use crate::ui::work::Work;
use crate::ui::{format, out};

/// The file where no array is asked for.
const PREDICTIONS: &str = "predictions.npy";

/// Predicts, and says what was written.
pub fn run(flags: &PredictFlags, models: Option<Models>) -> anyhow::Result<()> {
    let model_flags = &flags.model;
    trained_model::check(model_flags)?;
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
        let problem = "the model is of regression and has none: --output writes what it predicts";
        return Err(exit::usage(format!("--probabilities {}: {problem}", path.display())).into());
    }
    let nodes = nodes(&flags.nodes, &dataset)?;
    let job = PredictionJob {
        nodes,
        files,
        layer: flags.layer.map(|layer| layer as usize),
        overwrite: flags.overwrite,
    };
    let ids = flags.ids.as_deref().map(|path| Ids::of(&dataset, path)?.written(&job.nodes, flags.overwrite));
    let ids = ids.transpose()?;
    let mut watch = Watch { work: Work::with_remaining_time(), interrupt: interrupt.clone(), ids };
    let predicted = (models.predict)(dataset, &model, &job, &mut watch)?;
    drop(watch);
    if predicted.stopped {
        out::say("what is done is kept beside the outputs: the same command goes on from there");
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

/// The arrays that are asked for.
fn files(flags: &PredictFlags) -> Vec<PredictionFile> {
    let asked = [
        (Answer::Classes, &flags.output),
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
        Answer::Classes => "--output",
        Answer::Probabilities => "--probabilities",
        Answer::Hidden => "--embeddings",
    }
}

fn field_of(answer: Answer) -> &'static str {
    &option_of(answer)[2..]
}

/// The nodes that `--nodes` names; of a hop set their rows.
fn nodes(asked: &Path, dataset: &Dataset) -> anyhow::Result<Nodes> {
    let text = asked.to_str().unwrap_or_default();
    if text == "all" {
        return Ok(Nodes::All);
    }
    let split = Split::ALL.into_iter().find(|split| split.name() == text);
    let explained = |error| match error {
        GraphError::Io { source, .. } if is_about_the_name(&source) => {
            let remedy = "give all, train, valid, test, or a file of node ids";
            anyhow::Error::from(exit::usage(format!("--nodes: {}: {source}; {remedy}", asked.display())))
        }
        other => other.into(),
    };
    let ids = match (dataset.hops(), split) {
        (None, Some(split)) => dataset.split(split).to_vec(),
        (None, None) => node_file::read(asked, dataset.nodes(), "--nodes").map_err(explained)?,
        (Some(hops), Some(split)) => hops.rows_of(split).map(|row| row as i64).collect(),
        (Some(hops), None) => {
            let ids = node_file::read_unbounded(asked, "--nodes").map_err(explained)?;
            rows_of(hops, &ids).map_err(|id| {
                let remedy = "`uvatrain propagate --nodes all` makes one that has a row for each node";
                exit::usage(format!(
                    "--nodes: {}: the hop set has no row of node {id}; {remedy}",
                    asked.display()
                ))
            })?
        }
    };
    if ids.is_empty() {
        return Err(exit::usage(format!("--nodes: {text}: there is no node in it")).into());
    }
    Ok(Nodes::These(ids))
}

/// The first row of each of these nodes, in a hop set.
///
/// # Errors
/// A node that has none.
fn rows_of(hops: Hops<'_>, ids: &[i64]) -> Result<Vec<i64>, i64> {
    let mut rows: Vec<(i64, i64)> = hops.nodes().iter().copied().zip(0..).collect();
    rows.sort_unstable();
    ids.iter()
        .map(|&id| match rows.get(rows.partition_point(|(node, _)| *node < id)) {
            Some(&(node, row)) if node == id => Ok(row),
            _ => Err(id),
        })
        .collect()
}

/// What the users call the nodes, and the file to write that to.
struct Ids<'p> {
    path: &'p Path,
    /// Nodes of the dataset.
    nodes: usize,
    known: Known,
}

/// Names of nodes, by id.
enum Known {
    /// They have no other.
    Ids,
    Numbers(Vec<i64>),
    Names(Vec<String>),
}

impl<'p> Ids<'p> {
    fn of(dataset: &Dataset, path: &'p Path) -> anyhow::Result<Self> {
        let (numbers, texts) = (dataset.path().join(names::NODE_IDS), dataset.path().join(names::NODE_NAMES));
        let known = if let Some(hops) = dataset.hops() {
            Known::Numbers(hops.nodes().to_vec())
        } else if numbers.exists() {
            Known::Numbers(node_file::integers(&NpyArray::open(&numbers)?)?)
        } else if texts.exists() {
            let text = read_regular_text(&texts, u64::MAX)
                .map_err(|error| exit::usage(format!("{}: {error}", texts.display())))?;
            Known::Names(text.lines().map(str::to_owned).collect())
        } else if let Some(ids) = dataset.original_ids() {
            Known::Numbers(ids.to_vec())
        } else {
            Known::Ids
        };
        let entries = match &known {
            Known::Ids => dataset.nodes(),
            Known::Numbers(numbers) => numbers.len(),
            Known::Names(names) => names.len(),
        };
        if entries != dataset.nodes() {
            let file = if matches!(known, Known::Names(_)) { texts } else { numbers };
            let problem = format!("{}: {entries} ids for {} nodes", file.display(), dataset.nodes());
            return Err(exit::usage(problem).into());
        }
        Ok(Self { path, nodes: dataset.nodes(), known })
    }

    /// Writes them into a file that does not have its name yet.
    fn written(&self, nodes: &Nodes, overwrite: bool) -> anyhow::Result<WrittenIds> {
        let failed = |error: std::io::Error| exit::of_output("--ids", self.path, error);
        let mut file = Replacement::of(self.path, 0o666).map_err(failed)?;
        let all: Vec<i64>;
        let rows: &[i64] = match nodes {
            Nodes::All => {
                all = (0..self.nodes as i64).collect();
                &all
            }
            Nodes::These(ids) => ids,
        };
        match &self.known {
            Known::Names(names) => {
                let mut text = std::io::BufWriter::new(file.file());
                for &id in rows {
                    writeln!(text, "{}", names[id as usize]).map_err(failed)?;
                }
                text.flush().map_err(failed)?;
            }
            known => {
                let onto = file.file().try_clone().map_err(failed)?;
                let mut array = NpyWriter::onto(onto, self.path, NpyType::I64, &[]);
                match known {
                    Known::Numbers(numbers) => {
                        for rows in rows.chunks(1 << 16) {
                            let ids: Vec<i64> = rows.iter().map(|&id| numbers[id as usize]).collect();
                            array.write(&ids)?;
                        }
                    }
                    _ => array.write(rows)?,
                }
                array.finish()?;
            }
        }
        let ids = WrittenIds { file, overwrite };
        if !overwrite && ids.target().symlink_metadata().is_ok() && !ids.is_there()? {
            return Err(ids.taken().into());
        }
        Ok(ids)
    }
}

/// Ids that get their name before the arrays that they are for: a process that is killed in between leaves both, and the
/// same command then finds its own ids.
struct WrittenIds {
    file: Replacement,
    overwrite: bool,
}

impl WrittenIds {
    fn target(&self) -> &Path {
        self.file.target()
    }

    /// Whether a file with these very ids has the name.
    fn is_there(&self) -> anyhow::Result<bool> {
        let failed = |error: std::io::Error| exit::of_output("--ids", self.target(), error);
        let Ok(found) = open_regular(self.target()) else { return Ok(false) };
        let (ours, mut at) = (self.file.written().map_err(failed)?, 0);
        let length = ours.metadata().map_err(failed)?.len();
        if found.metadata().map_err(failed)?.len() != length {
            return Ok(false);
        }
        let mut pieces = [vec![0; 1 << 20], vec![0; 1 << 20]];
        while at < length {
            let bytes = usize::try_from(length - at).unwrap_or(usize::MAX).min(1 << 20);
            let [first, second] = &mut pieces;
            let read = ours.read_exact_at(&mut first[..bytes], at);
            read.and_then(|()| found.read_exact_at(&mut second[..bytes], at)).map_err(failed)?;
            if first[..bytes] != second[..bytes] {
                return Ok(false);
            }
            at += bytes as u64;
        }
        Ok(true)
    }

    fn commit(mut self) -> anyhow::Result<()> {
        if self.overwrite {
            return self.file.commit().map_err(|error| exit::of_output("--ids", self.target(), error));
        }
        match self.file.commit_new() {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
                if self.is_there()? {
                    Ok(())
                } else {
                    Err(self.taken().into())
                }
            }
            result => result.map_err(|error| exit::of_output("--ids", self.target(), error)),
        }
    }

    fn taken(&self) -> exit::Problem {
        exit::usage(format!(
            "--ids {}: it is there already: name another file, or replace it with --overwrite",
            self.target().display()
        ))
    }
}

/// The bar on the terminal, and the signals.
struct Watch {
    work: Work,
    interrupt: Interrupt,
    ids: Option<WrittenIds>,
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
        let committed = self.ids.take().map_or(Ok(()), WrittenIds::commit);
        committed.map_err(|error| match error.downcast_ref::<exit::Problem>() {
            Some(problem) => RuntimeError::Usage(problem.to_string()),
            None => RuntimeError::Failed(error.to_string()),
        })
    }
}
