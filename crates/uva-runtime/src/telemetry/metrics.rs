//! Reports of a run: the lines of `--metrics`, which every front end reads.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use uva_batch::{Aggregation, BatchLayout};
use uva_graph::Split;
use uva_mem::files::{ExistingContent, open_output, open_regular};
use uva_options::Spelling;
use uva_sample::BatchKey;

use crate::RuntimeError;
use crate::backend::Backend;
use crate::control::aggregate_counts::{AggregateCounts, AggregateTotals};
use crate::control::disk_counts::{DiskCounts, DiskTotals};
use crate::feed::batch::Batch;
use crate::machine::memory::ProcessMemory;
use crate::telemetry::gauges::Gauges;
use crate::tune::sums_chooser::SumsChoice;

pub use crate::control::cache_counts::{CacheCounts, CacheOutcome, CacheTotals, CountedBeforehand};
pub use crate::control::role_times::{RoleTimes, Roles};

/// One line of the metrics file. Field names and units are a contract (docs/reference/json.md).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "lowercase")]
pub enum Event {
    /// The run begins: its dataset, its options and the values in force.
    Start(Start),
    /// A fallback, or a choice made in the run, changed values in force since the run's start.
    #[serde(rename = "in_force")]
    InForce(InForce),
    /// A training batch was used.
    Batch(Box<BatchEvent>),
    /// An epoch ended.
    Epoch(EpochEvent),
    /// The run ended successfully.
    End(Box<End>),
}

/// The first line of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Start {
    /// The program's version.
    pub version: String,
    /// Dataset: name, path, nodes, edges, feature width and type, classes, sizes of the splits, verification.
    pub dataset: Value,
    /// Every option, including defaults.
    pub options: Value,
    /// The values of options on this machine: processes or threads, slots and their bytes, batches per epoch.
    pub in_force: Value,
}

/// Values in force from now on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InForce {
    /// An object: each of its fields replaces the one of that name in [`Start::in_force`].
    pub in_force: Value,
}

impl InForce {
    /// The fields that describe a backend.
    #[must_use]
    pub fn of(backend: &Backend) -> Self {
        let partition = backend.cuda().map(|cuda| cuda.partition.name());
        Self { in_force: json!({ "backend": backend, "partition": partition }) }
    }

    /// The field for the place of sums, with its reason, in a run whose slots have this layout.
    #[must_use]
    pub fn of_sums(choice: &SumsChoice, layout: &BatchLayout) -> Self {
        let aggregation = layout.aggregation();
        let SumsChoice { share, reason, batches_per_second, batches, from } = choice;
        let (way, sums) = match share {
            share if share.is_none() => ("off", Aggregation::None),
            share if share.is_all() => ("host", aggregation),
            _ => ("mixed", aggregation),
        };
        let mut aggregate = json!({
            "way": way,
            "share": share.value(),
            "sums": sums.name(),
            "reason": Spelling::CommandLine.sentence(reason),
            "measured_batches": batches,
        });
        for (share, speed) in batches_per_second.iter().flatten() {
            aggregate["batches_per_second"][share.name()] = json!(speed);
        }
        if let Some(BatchKey { epoch, batch, .. }) = from {
            aggregate["from"] = json!({ "epoch": epoch, "batch": batch });
        }
        Self { in_force: json!({ "aggregate": aggregate }) }
    }

    /// Replaces the fields of the same names.
    pub fn replace_in(&self, in_force: &mut Value) {
        for (name, value) in self.in_force.as_object().into_iter().flatten() {
            in_force[name] = value.clone();
        }
    }
}

/// A training batch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BatchEvent {
    /// Epoch, from 0.
    pub epoch: u32,
    /// Batch within the epoch, from 0.
    pub batch: u32,
    /// The batch's hash, 16 hex digits (docs/spec/reproducible-batches.md).
    pub hash: String,
    /// Seeds in the batch.
    pub seeds: usize,
    /// Nodes of all types, without those of padding.
    pub input_nodes: usize,
    /// Edges of each layer, the hop at the seeds first.
    pub edges: Vec<usize>,
    /// Input nodes of each node type, by name; absent unless the graph is typed, as the next two.
    #[serde(skip_serializing_if = "serde_json::Map::is_empty", default)]
    pub nodes_by_type: serde_json::Map<String, Value>,
    /// Feature rows of each node type with features.
    #[serde(skip_serializing_if = "serde_json::Map::is_empty", default)]
    pub rows_by_type: serde_json::Map<String, Value>,
    /// Edges of each relation, layer by layer.
    #[serde(skip_serializing_if = "serde_json::Map::is_empty", default)]
    pub edges_by_relation: serde_json::Map<String, Value>,
    /// Mean loss over the labelled seeds; absent if the consumer is a user's command, which does not report it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub loss: Option<f32>,
    /// Index of the sampler that made it, from 0.
    #[serde(default)]
    pub sampler: u32,
    /// Time at which the sampler started it, in microseconds of the machine's monotonic clock.
    #[serde(default)]
    pub sample_at_us: u64,
    /// Microseconds of the sampler's work on it.
    pub sample_us: u64,
    /// Time at which the producer started it, by the same clock.
    #[serde(default)]
    pub gather_at_us: u64,
    /// Microseconds of the producer's work on it.
    pub gather_us: u64,
    /// Time at which the consumer started it, by the same clock.
    #[serde(default)]
    pub train_at_us: u64,
    /// Microseconds of the consumer's work on it.
    pub train_us: u64,
    /// Batches that waited for the consumer when the producer began this one: the measure for back-pressure.
    #[serde(default)]
    pub queue: u32,
    /// Number of the producer's threads that gathered it; 0 if a GPU gathered.
    #[serde(default)]
    pub pace: u32,
    /// Whether it is padded to the run's static shapes; absent in a run that does not pad. Counts of seeds, nodes and
    /// edges exclude padding.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub padded: Option<bool>,
    /// Whether it did not fit its feature slot on a GPU; absent if it did.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub oversized: bool,
    /// Its cache counts; absent in a run without caches.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cache: Option<CacheCounts>,
    /// Disk reads for its rows; absent if rows are read from memory.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub disk: Option<DiskCounts>,
    /// The producer's sums; absent in a run in which it gathers all rows.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub aggregate: Option<AggregateCounts>,
}

impl BatchEvent {
    /// The producer's part of the event, without the consumer's. On a GPU, times and hits are available once the batch
    /// is confirmed. `cached` states whether the run has caches.
    pub fn of(batch: &Batch, cached: bool) -> Self {
        let lists = batch.list_reads();
        let [sampled, gathered] = batch.began().map(|began| began.as_micros() as u64);
        let CountsByName { nodes, rows, edges } = CountsByName::of(batch);
        Self {
            epoch: batch.epoch(),
            batch: batch.index(),
            hash: format!("{:016x}", batch.hash()),
            seeds: batch.real_seed_count(),
            input_nodes: batch.real_node_count(),
            edges: (0..batch.layers()).map(|layer| batch.real_edges(layer)).collect(),
            nodes_by_type: nodes,
            rows_by_type: rows,
            edges_by_relation: edges,
            loss: None,
            sampler: batch.sampler(),
            sample_at_us: sampled,
            sample_us: batch.sample_time().as_micros() as u64,
            gather_at_us: gathered,
            gather_us: batch.gather_time().as_micros() as u64,
            train_at_us: 0,
            train_us: 0,
            queue: batch.queue(),
            pace: batch.pace(),
            padded: batch.layout().shapes().map(|_| batch.is_padded()),
            oversized: batch.is_oversized(),
            cache: cached.then(|| CacheCounts {
                list_reads: lists.all,
                list_hits: lists.cached,
                rows: batch.node_count() as u64,
                row_hits: batch.rows_cached(),
            }),
            disk: batch.disk_reads(),
            aggregate: {
                AggregateCounts::of(batch.layout(), batch.header(), batch.sums(), batch.rows_over_link())
            },
        }
    }
}

impl BatchEvent {
    /// Sets the number of rows from the cache, once it is available. These rows have not crossed the link.
    pub fn set_row_hits(&mut self, hits: u64) {
        let Some(cache) = &mut self.cache else { return };
        cache.row_hits = hits;
        if let Some(sums) = &mut self.aggregate {
            sums.set_row_hits(hits, cache.rows);
        }
    }
}

/// Bytes of the counts by name in a line. Lines of a run of processes are messages, whose size is limited.
const MOST_NAMED_BYTES: usize = 64 << 10;

/// Counts of a batch of a typed graph, without padding, in the order of the node types and relations. Empty for other
/// graphs; those of relations, and then of types, are left empty if they take too many bytes.
#[derive(Default)]
struct CountsByName {
    nodes: serde_json::Map<String, Value>,
    rows: serde_json::Map<String, Value>,
    edges: serde_json::Map<String, Value>,
}

impl CountsByName {
    fn of(batch: &Batch) -> Self {
        let (layout, header, metagraph) = (batch.layout(), batch.header(), batch.metagraph());
        if layout.is_homogeneous() {
            return Self::default();
        }
        // Upper bounds: a count has at most ten digits, and marks around it.
        let of_types: usize = metagraph.types().map(|of| 2 * (metagraph.type_name(of).len() + 15)).sum();
        let of_relation = |of| metagraph.full_name(of).len() + 6 + 11 * layout.layers();
        let of_all = of_types + metagraph.relations().map(of_relation).sum::<usize>();
        let types = metagraph.types().filter(|_| of_types <= MOST_NAMED_BYTES);
        let relations = metagraph.relations().filter(|_| of_all <= MOST_NAMED_BYTES);
        let nodes = |of| (metagraph.type_name(of).to_owned(), header.real_of_type(of).nodes.into());
        let edges = |of| {
            let of_layers = (0..layout.layers()).map(|layer| header.real_block(layer, of).edges);
            (metagraph.full_name(of).to_owned(), of_layers.collect())
        };
        Self {
            nodes: types.clone().map(nodes).collect(),
            rows: types.filter(|of| layout.rows_of(*of).is_some()).map(nodes).collect(),
            edges: relations.map(edges).collect(),
        }
    }
}

/// An epoch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EpochEvent {
    /// Epoch, from 0.
    pub epoch: u32,
    /// Mean loss over the epoch's labelled seeds; with several labels per seed, over the labels.
    pub train_loss: f64,
    /// Share of the epoch's labelled seeds classified right in training; with several labels per node, of the labels.
    /// Absent for regression.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub train_accuracy: Option<f64>,
    /// Share of the labelled validation nodes classified correctly; absent without such nodes.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub valid_accuracy: Option<f64>,
    /// Area under the ROC curve of the validation nodes, if it is the run's metric and defined.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub valid_roc_auc: Option<f64>,
    /// Whether the targets are numbers, which have no accuracies.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub regression: bool,
    /// Mean squared error of the validation nodes, over all columns; only for regression.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub valid_mse: Option<f64>,
    /// Mean absolute error of the validation nodes, over all columns; only for regression.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub valid_mae: Option<f64>,
    /// Seconds from the epoch's first batch to the end of its validation. After a resume inside an epoch, only the part
    /// after the resume.
    pub seconds: f64,
}

/// The last line of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct End {
    /// Share of the labelled test nodes classified correctly, by the best model if early stopping kept one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub test_accuracy: Option<f64>,
    /// Area under the ROC curve of the test nodes, if it is the run's metric and defined.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub test_roc_auc: Option<f64>,
    /// Mean squared error of the test nodes, over all columns; only for regression.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub test_mse: Option<f64>,
    /// Mean absolute error of the test nodes, over all columns; only for regression.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub test_mae: Option<f64>,
    /// The least mean squared error of the validation nodes, if it is the run's metric.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub best_valid_mse: Option<f64>,
    /// The least mean absolute error of the validation nodes, if it is the run's metric.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub best_valid_mae: Option<f64>,
    /// The best validation accuracy, if it is the run's metric.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub best_valid_accuracy: Option<f64>,
    /// The largest area under the ROC curve of the validation nodes, if it is the run's metric.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub best_valid_roc_auc: Option<f64>,
    /// The epoch, from 0, whose model was tested: the last one, or the best if early stopping kept one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub test_epoch: Option<u32>,
    /// The epoch, from 0, of the best validation.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub best_valid_epoch: Option<u32>,
    /// Whether early stopping ended training before its last epoch.
    pub stopped_early: bool,
    /// The role with the largest share of working time; `None` if no batch was trained.
    #[serde(default)]
    pub bottleneck: Option<String>,
    /// Epochs finished, earlier runs of a resumed training included.
    pub epochs: u32,
    /// Seconds from the start of the roles to the end of the last.
    pub seconds: f64,
    /// Training batches of this run.
    pub batches: u64,
    /// Seconds during which training batches were used or awaited: without start, validation, test and end.
    #[serde(default)]
    pub training_seconds: f64,
    /// Training batches per second, over those seconds; `None` if none was trained.
    #[serde(default)]
    pub batches_per_second: Option<f64>,
    /// Training batches that did not fit the static shapes and kept their size; absent in a run that does not pad.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub unpadded: Option<u64>,
    /// Training batches that did not fit their feature slots on a GPU; absent in a run whose slots fit all batches.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub oversized: Option<u64>,
    /// Time totals of each role.
    pub roles: Roles,
    /// Each process's memory at the end of its work; without processes that never finished, such as a command that was
    /// killed.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub memory: Vec<ProcessMemory>,
    /// Cache counts of this run's training batches, and the expectations; absent in a run without caches.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cache: Option<CacheOutcome>,
    /// Reads of feature rows from disk, over all batches; absent if rows are read from memory.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub disk: Option<DiskTotals>,
    /// The producer's sums in this run's training batches; absent if it gathers all rows.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub aggregate: Option<AggregateTotals>,
}

impl End {
    /// Speed and bottleneck for this many training batches; both `None` without batches.
    #[must_use]
    pub fn speed(batches: u64, seconds: f64, roles: &Roles) -> (Option<f64>, Option<String>) {
        let speed = (batches > 0 && seconds > 0.0).then(|| batches as f64 / seconds);
        (speed, (batches > 0).then(|| roles.bottleneck().to_owned()))
    }
}

/// Running totals of one pass over one split.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PassSums {
    /// Sum of the labelled seeds' losses.
    pub loss: f64,
    /// Seeds classified correctly; 0 for regression.
    pub correct: u64,
    /// Seeds that have a label; for regression, numbers.
    pub labelled: u64,
}

impl PassSums {
    /// Mean loss; 0, not NaN, without labels.
    pub fn mean_loss(&self) -> f64 {
        if self.labelled > 0 { self.loss / self.labelled as f64 } else { 0.0 }
    }

    /// Share classified correctly; `None` without labels.
    pub fn accuracy(&self) -> Option<f64> {
        (self.labelled > 0).then(|| self.correct as f64 / self.labelled as f64)
    }
}

/// The progress of a run, for a progress bar.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunProgress {
    /// The current split.
    pub split: Split,
    /// The current epoch, from 0.
    pub epoch: u32,
    /// Total number of epochs; 0 if only the consumer has this number.
    pub epochs: u32,
    /// Finished batches of this pass.
    pub batch: u64,
    /// All batches of this pass.
    pub batches: u64,
    /// Mean loss of this epoch so far.
    pub loss: f64,
    /// Accuracy of this pass so far; 0 for regression.
    pub accuracy: f64,
    /// Mean loss of this pass so far, which replaces the accuracy for regression.
    #[serde(default)]
    pub regression_loss: Option<f64>,
}

/// A receiver of a run's events and progress. If an observer returns an error, the run ends with it.
pub trait Observer {
    /// Receives a line of the metrics.
    ///
    /// # Errors
    /// If it cannot be recorded.
    fn event(&mut self, event: &Event) -> Result<(), RuntimeError>;

    /// Receives a line of one rank, in a run whose ranks divide the epochs: each rank has separate lines.
    ///
    /// # Errors
    /// See [`event`](Self::event).
    fn event_of(&mut self, _rank: usize, event: &Event) -> Result<(), RuntimeError> {
        self.event(event)
    }

    /// Receives the run's progress. Called after each batch; from another process, about twenty times a second and at
    /// the first and last batch of a pass. `busiest` is the bottleneck so far.
    fn progress(&mut self, progress: &RunProgress, busiest: &str);

    /// Receives a line for people.
    fn note(&mut self, line: &str);

    /// Called once the roles exist. They can be observed until the run's end. A run with a trial begins more than once.
    fn begun(&mut self, _gauges: &Gauges) {}
}

/// The metrics file: one JSON object per line, each line complete on disk or absent.
#[derive(Debug)]
pub struct MetricsFile {
    path: PathBuf,
    file: File,
    /// Bytes of complete lines; `None` if the file has no length, such as a pipe.
    length: Option<u64>,
}

impl MetricsFile {
    /// Creates the file, or continues it if a run is resumed. Continuing removes a line that a killed run did not
    /// finish, so that the next line does not become a part of it.
    ///
    /// # Errors
    /// [`RuntimeError::Input`] naming the file.
    pub fn open(path: &Path, append: bool) -> Result<Self, RuntimeError> {
        let open = || -> io::Result<(File, Option<u64>)> {
            // Always appends, so that a line follows the last whole one even after a failed write.
            let file = open_output(path, 0o600, ExistingContent::Kept)?;
            if !file.metadata()?.is_file() {
                return Ok((file, None));
            }
            let length = if append { whole_lines(path)? } else { 0 };
            file.set_len(length)?;
            Ok((file, Some(length)))
        };
        let (file, length) = open()
            .map_err(|error| RuntimeError::input(error.to_string()).with_path_option("metrics", path))?;
        Ok(Self { path: path.to_owned(), file, length })
    }

    /// Writes one line and passes it to the system, so that a reader that follows the file reads complete lines. A line
    /// that cannot be written completely leaves no part of it.
    ///
    /// # Errors
    /// [`RuntimeError::Failed`] naming the file, for example if the disk is full.
    pub fn write(&mut self, event: &Event) -> Result<(), RuntimeError> {
        let failed = |error: std::io::Error| {
            RuntimeError::failed(format!("the metrics cannot be written: {error}")).in_file(&self.path)
        };
        let mut line = serde_json::to_vec(event).map_err(|error| failed(error.into()))?;
        line.push(b'\n');
        let written = self.file.write_all(&line);
        if let Some(length) = &mut self.length {
            match written {
                Ok(()) => *length += line.len() as u64,
                // Reports the error of the write, whether or not this succeeds.
                Err(_) => drop(self.file.set_len(*length)),
            }
        }
        written.map_err(failed)
    }
}

/// Bytes of the file's terminated lines.
fn whole_lines(path: &Path) -> io::Result<u64> {
    let mut file = open_regular(path)?;
    let mut end = file.metadata()?.len();
    let mut chunk = [0; 4096];
    while end > 0 {
        let begin = end.saturating_sub(chunk.len() as u64);
        let bytes = &mut chunk[..(end - begin) as usize];
        file.seek(SeekFrom::Start(begin))?;
        file.read_exact(bytes)?;
        if let Some(last) = bytes.iter().rposition(|byte| *byte == b'\n') {
            return Ok(begin + last as u64 + 1);
        }
        end = begin;
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn epoch(epoch: u32) -> Event {
        Event::Epoch(EpochEvent {
            epoch,
            train_loss: 0.1,
            train_accuracy: Some(0.5),
            valid_accuracy: None,
            valid_roc_auc: None,
            regression: false,
            valid_mse: None,
            valid_mae: None,
            seconds: 1.0,
        })
    }

    fn epochs(path: &Path) -> Vec<u32> {
        let text = std::fs::read_to_string(path).unwrap();
        assert!(text.is_empty() || text.ends_with('\n'));
        text.lines()
            .map(|line| match serde_json::from_str(line).unwrap() {
                Event::Epoch(epoch) => epoch.epoch,
                other => panic!("{other:?}"),
            })
            .collect()
    }

    #[test]
    fn a_line_left_unfinished_by_a_killed_run_is_removed_on_continuing() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("run.jsonl");
        for unfinished in [String::new(), r#"{"event":"ba"#.into(), "x".repeat(10_000)] {
            let mut file = MetricsFile::open(&path, false).unwrap();
            file.write(&epoch(0)).unwrap();
            drop(file);
            let whole = std::fs::read_to_string(&path).unwrap();
            std::fs::write(&path, whole + &unfinished).unwrap();
            MetricsFile::open(&path, true).unwrap().write(&epoch(1)).unwrap();
            assert_eq!(epochs(&path), [0, 1]);
        }
        std::fs::write(&path, "no line at all").unwrap();
        MetricsFile::open(&path, true).unwrap().write(&epoch(2)).unwrap();
        assert_eq!(epochs(&path), [2]);
    }

    #[test]
    fn a_full_device_is_reported_with_the_files_name() {
        let mut file = MetricsFile::open(Path::new("/dev/full"), false).unwrap();
        let error = file.write(&epoch(0)).unwrap_err();
        assert!(
            matches!(&error, RuntimeError::Failed(failed) if failed.path.as_deref() == Some("/dev/full")),
            "{error}"
        );
    }

    #[test]
    fn a_missing_folder_is_bad_input() {
        let error = MetricsFile::open(Path::new("/nowhere/run.jsonl"), false).unwrap_err();
        assert_eq!(error.exit_code(), 2);
        assert!(error.to_string().contains("metrics=/nowhere/run.jsonl"), "{error}");
    }
}
