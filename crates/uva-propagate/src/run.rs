//! A run that makes a hop set from the start, or resumes an interrupted run.

use std::io::{ErrorKind, Write};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use rayon::ThreadPool;
use uva_files::disk_space::{self, BytesOnDisk};
use uva_files::staging;
use uva_graph::npy::{NpyType, NpyWriter};
use uva_graph::{Dataset, GraphError, Labels, Split, hash, names};
use uva_mem::files::open_directory;
use uva_sample::philox::RandomPurpose;

use crate::estimate::{self, Estimate, Room};
use crate::hop_set;
use crate::hop_sets::description::{
    AppliedOperator, FEATURES, FILE_NAME, FORMAT, FileFacts, HopSet, LABELS, NODE_IDS, ROWS, SourceDataset,
    TrainingOrder,
};
use crate::operator::Operator;
use crate::options::{Decisive, HopType, Layout, PropagateOptions};
use crate::panel::{self, OperatorTask, PanelProgress};
use crate::product::features::FloatFeatures;
use crate::product::speed;
use crate::product::sums::{Matrix, OperatorGraph};
use crate::resumption::assemble;
use crate::resumption::folder::SET;
use crate::resumption::journal::{FinishedFile, Journal};
use crate::resumption::lock::{FolderLock, folder_of};
use crate::resumption::part::{self, DATA_OFFSET, FinishedPart};
use crate::resumption::remaining_work::RemainingWork;
use crate::resumption::transpose::TransposedLists;
use crate::row_nodes::RowNodes;

/// The progress of the work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PropagateProgress<'a> {
    /// The operator, or the name of another step.
    pub what: &'a str,
    /// The hop, from 1, and the number of hops.
    pub hop: (u32, u32),
    /// The panel, from 1, and the number of panels of this operator in this run.
    pub panel: (usize, usize),
    /// Rows summed, in all these panels and their hops. Each operator starts again from 0.
    pub done: u64,
    /// Rows to sum in total.
    pub total: u64,
}

/// Receives the estimate and the progress of the work, and may stop it.
pub trait PropagateWatch {
    /// Receives the resources required, before anything is written, and the bytes that an earlier run has finished.
    fn begins(&mut self, estimate: &Estimate, finished: u64);

    /// Receives the progress.
    fn progress(&mut self, progress: PropagateProgress<'_>);

    /// Whether to stop.
    fn stops(&mut self) -> bool;

    /// Announces that all is computed: the result is about to be renamed, which must not be interrupted.
    fn finishes(&mut self) {}
}

/// The end of a run.
#[derive(Debug)]
pub enum PropagateOutcome {
    /// The hop set is finished.
    Made(Box<FinishedHopSet>),
    /// The run was stopped. Finished work stays in [`folder_of`](crate::folder_of) the result.
    Stopped,
}

/// A finished hop set.
#[derive(Debug)]
pub struct FinishedHopSet {
    /// Its description.
    pub set: HopSet,
    /// The resources that it required.
    pub estimate: Estimate,
    /// Bytes that an earlier run had finished.
    pub resumed: u64,
    /// Whether an earlier run had finished it.
    pub was_there: bool,
}

/// Makes the hop set `out` of a dataset. With `resume`, continues the work of an earlier run.
///
/// # Errors
/// [`GraphError::Usage`] for options that do not fit together, an `out` that exists, or one that another process makes.
/// [`GraphError::Lacking`] if memory or disk are too small, before anything is written. [`GraphError::Io`] if the
/// system refuses; finished work then stays.
pub fn propagate(
    dataset: &Dataset,
    out: &Path,
    options: &PropagateOptions,
    resume: bool,
    watch: &mut dyn PropagateWatch,
) -> Result<PropagateOutcome, GraphError> {
    let started = Instant::now();
    options.check()?;
    if out.file_name().is_none() {
        return Err(GraphError::usage("OUT", format!("{} names no directory to create", out.display())));
    }
    if dataset.part().is_some() {
        let path = dataset.path().display();
        let message = format!(
            "{path} is a part of a dataset, whose lists are cut at its border, so sums there would not be those of the \
             whole graph: use the dataset that it was cut from"
        );
        return Err(GraphError::usage("DATA", message));
    }
    let pool = pool(options.threads, out)?;
    let graph = graph(dataset, options)?;
    let decisive = Decisive::of(options, dataset.fingerprint());
    if resume && HopSet::is_at(out) {
        return finished_before(dataset, out, options, &decisive);
    }
    staging::refuse_existing(out)?;
    let kept = pool.install(|| RowNodes::of(dataset, options))?;
    let mut estimate = pool.install(|| estimate::of(dataset, options, kept.nodes.len(), out))?;
    if folder_of(out).symlink_metadata().is_err() {
        check_disk(out, &estimate.room(0, true))?;
    }
    let lock = FolderLock::take(out, resume)?;
    if out.symlink_metadata().is_ok() {
        // Another process has finished since the first check, and released the lock.
        lock.remove_if_new()?;
        if resume && HopSet::is_at(out) {
            return finished_before(dataset, out, options, &decisive);
        }
        return Err(GraphError::usage("OUT", format!("another process has created {}", out.display())));
    }
    let (rows, dim) = (kept.nodes.len(), dataset.table().dim);
    let mut journal = pool.install(|| Journal::open(lock, decisive, (rows, dim)))?;
    let remaining = pool.install(|| RemainingWork::of(&mut journal, options, dim))?;
    let finished = journal.bytes();
    check_disk(out, &estimate.room(finished, remaining.turns))?;
    let speed = speed::multiply_adds_a_second(dataset.nodes(), &pool);
    estimate.seconds = estimate.multiply_adds as f64 / speed;
    watch.begins(&estimate, finished);
    let width = estimate.columns as usize;
    let mut work = Work { dataset, options, kept: &kept, pool: &pool, journal, remaining, watch, width };
    if !work.arrays()? || !work.features()? || !work.operators(graph)? || !work.files()? {
        return Ok(PropagateOutcome::Stopped);
    }
    let set = work.describe(started.elapsed().as_secs_f64())?;
    work.commit(out)?;
    Ok(PropagateOutcome::Made(Box::new(FinishedHopSet {
        set,
        estimate,
        resumed: finished,
        was_there: false,
    })))
}

/// The result of an earlier run that finished, and may have been interrupted during cleanup.
fn finished_before(
    dataset: &Dataset,
    out: &Path,
    options: &PropagateOptions,
    decisive: &Decisive,
) -> Result<PropagateOutcome, GraphError> {
    let set = HopSet::open(out)?;
    decisive.check_same(&set.decisive(), &out.display().to_string())?;
    if let Some(lock) = FolderLock::of_left(out)? {
        lock.remove()?;
    }
    // Nothing is computed, so memory and disk are not checked.
    let estimate = estimate::of_finished(dataset, options, set.rows);
    let resumed = set.bytes();
    Ok(PropagateOutcome::Made(Box::new(FinishedHopSet { set, estimate, resumed, was_there: true })))
}

fn pool(threads: usize, out: &Path) -> Result<ThreadPool, GraphError> {
    rayon::ThreadPoolBuilder::new().num_threads(threads).build().map_err(|error| GraphError::Lacking {
        path: out.to_owned(),
        message: format!(
            "cannot start {threads} threads ({error}): lower `threads`, or raise the limit on processes and \
             threads (ulimit -u, or a container's pids limit)"
        ),
    })
}

/// The lists, with weights if these count.
fn graph<'d>(dataset: &'d Dataset, options: &PropagateOptions) -> Result<OperatorGraph<'d>, GraphError> {
    let csc = dataset.csc();
    let weights = match (options.weighted, dataset.weights()) {
        (false, _) => None,
        (true, Some(weights)) => Some(weights),
        (true, None) => {
            let file = dataset.path().join(names::WEIGHTS);
            let message = format!(
                "{} does not exist: omit `weighted`, or add edge weights to the dataset",
                file.display()
            );
            return Err(GraphError::usage("weighted", message));
        }
    };
    if let Some(place) = weights.and_then(|weights| weights.iter().position(|&weight| weight < 0.0)) {
        let file = dataset.path().join(names::WEIGHTS);
        let message = format!(
            "{}: the weight of edge {place} is {}: weights must be 0 or more",
            file.display(),
            weights.map_or(0.0, |weights| weights[place])
        );
        return Err(GraphError::usage("weighted", message));
    }
    Ok(OperatorGraph { offsets: csc.indptr, indices: csc.indices, weights })
}

fn check_disk(out: &Path, room: &Room) -> Result<(), GraphError> {
    let needs = room.set + room.meanwhile;
    let what = format!(
        "it takes {} more: {} for the hop set and {} for temporary files. Use a directory on another disk, or make a \
         smaller hop set",
        BytesOnDisk(needs),
        BytesOnDisk(room.set),
        BytesOnDisk(room.meanwhile),
    );
    Ok(disk_space::check(out, needs, what)?)
}

/// The work of one run.
struct Work<'w> {
    dataset: &'w Dataset,
    options: &'w PropagateOptions,
    kept: &'w RowNodes,
    pool: &'w ThreadPool,
    journal: Journal,
    remaining: RemainingWork,
    watch: &'w mut dyn PropagateWatch,
    /// Columns per panel.
    width: usize,
}

/// The progress of one operator's panels.
struct Followed<'f> {
    journal: &'f mut Journal,
    watch: &'f mut dyn PropagateWatch,
    name: String,
    hops: u32,
    panel: (usize, usize),
    done: u64,
    total: u64,
}

impl PanelProgress for Followed<'_> {
    fn rows(&mut self, hop: u32, rows: usize) -> bool {
        self.done += rows as u64;
        self.watch.progress(PropagateProgress {
            what: &self.name,
            hop: (hop, self.hops),
            panel: self.panel,
            done: self.done,
            total: self.total.max(self.done),
        });
        self.watch.stops()
    }

    fn part(&mut self, part: FinishedPart) -> Result<(), GraphError> {
        self.journal.add_part(part)
    }
}

impl Work<'_> {
    /// Writes node ids and labels of the rows.
    fn arrays(&mut self) -> Result<bool, GraphError> {
        let nodes = &self.kept.nodes;
        if self.journal.file(NODE_IDS).is_none() {
            self.array(NODE_IDS, NpyType::I64, &[], &mut |file| file.write(nodes))?;
        }
        let labels = self.dataset.labels();
        let (kind, row) = match labels {
            Labels::Absent => return Ok(true),
            Labels::Single(_) => (NpyType::I64, vec![]),
            Labels::Multi { classes, .. } => (NpyType::U8, vec![classes]),
            Labels::Regression { columns, .. } => (NpyType::F32, columns.into_iter().collect()),
        };
        if self.journal.file(LABELS).is_none() {
            let size = labels.row_bytes();
            self.array(LABELS, kind, &row, &mut |file| {
                nodes
                    .iter()
                    .try_for_each(|&node| file.write_bytes(&labels.bytes()[node as usize * size..][..size]))
            })?;
        }
        Ok(true)
    }

    fn array(
        &mut self,
        name: &str,
        kind: NpyType,
        row: &[usize],
        fill: &mut dyn FnMut(&mut NpyWriter) -> Result<(), GraphError>,
    ) -> Result<(), GraphError> {
        let set = self.journal.set();
        let mut file = part::create(set, name, kind, row)?;
        fill(&mut file)?;
        file.finish()?;
        let bytes = part::sync(set, name)?;
        let array = uva_graph::npy::NpyArray::open(&set.path().join(name))?;
        let hash = format!("{:016x}", self.pool.install(|| hash::of_array(0, array.bytes())));
        self.journal.add_file(FinishedFile { name: name.to_owned(), tag: 0, bytes, hash }, &[])
    }

    /// Writes hop 0, the features themselves. Returns false if it was stopped.
    fn features(&mut self) -> Result<bool, GraphError> {
        let table = self.dataset.features();
        let columns = 0..table.dim;
        if self.journal.file(FEATURES).is_some()
            || self.journal.file(ROWS).is_some()
            || !self.journal.parts(None, 0).is_empty()
        {
            return Ok(true);
        }
        let features = self.pool.install(|| FloatFeatures::new(table, self.options.feature_norm));
        let (folder, watch) = (self.journal.parts_folder(), &mut *self.watch);
        let mut done = 0;
        let mut stops = |rows: usize| {
            done += rows as u64;
            let total = self.kept.nodes.len() as u64;
            watch.progress(PropagateProgress { what: "features", hop: (0, 0), panel: (0, 0), done, total });
            watch.stops()
        };
        let mut rows = |nodes: &[i64], out: &mut [f32]| {
            features.write(nodes, &columns, out);
            Ok(())
        };
        let what = (self.options.element, &self.kept.nodes[..]);
        let written = part::write(folder, (None, 0, &columns), what, self.pool, &mut rows, &mut stops)?;
        let Some(part) = written else { return Ok(false) };
        self.journal.add_part(part)?;
        Ok(true)
    }

    /// Computes all hops of all operators. Returns false if it was stopped.
    fn operators(&mut self, graph: OperatorGraph<'_>) -> Result<bool, GraphError> {
        let (mut features, table) = (None, self.dataset.features());
        for (place, &operator) in self.options.operators.iter().enumerate() {
            let panels: Vec<Range<usize>> = self.remaining.columns[place]
                .iter()
                .flat_map(|columns| estimate::panels(columns, self.width))
                .collect();
            if panels.is_empty() {
                continue;
            }
            let turned = match operator {
                Operator::Col => {
                    let watch = &mut *self.watch;
                    let mut stops = |done: u64| {
                        let total = table.rows as u64;
                        watch.progress(PropagateProgress {
                            what: "edges",
                            hop: (0, 0),
                            panel: (0, 0),
                            done,
                            total,
                        });
                        watch.stops()
                    };
                    let (folder, memory) = (self.journal.folder(), self.options.memory);
                    match TransposedLists::of(graph, folder, memory, &mut stops)? {
                        None => return Ok(false),
                        turned => turned,
                    }
                }
                _ => None,
            };
            let (graph, lists) = match &turned {
                Some(turned) => (turned.graph()?, turned.path()),
                None => (graph, self.dataset.path().join(names::INDICES)),
            };
            let features = features.get_or_insert_with(|| {
                self.pool.install(|| FloatFeatures::new(table, self.options.feature_norm))
            });
            let task = OperatorTask {
                place,
                operator,
                matrix: self.pool.install(|| Matrix::of(operator, graph)),
                hops: self.options.hops,
                features,
                nodes: table.rows,
                kept: self.kept,
                element: self.options.element,
                lists: &lists,
            };
            // The last sum is made only for the kept rows.
            let sums = u64::from(operator.sums() * self.options.hops) - 1;
            let total = panels.len() as u64 * (sums * table.rows as u64 + self.kept.nodes.len() as u64);
            let folder = Arc::clone(self.journal.parts_folder());
            let mut followed = Followed {
                journal: &mut self.journal,
                watch: &mut *self.watch,
                name: operator.to_string(),
                hops: self.options.hops,
                panel: (0, panels.len()),
                done: 0,
                total,
            };
            for (number, columns) in (1..).zip(&panels) {
                followed.panel.0 = number;
                if !panel::run(&task, columns, &folder, self.pool, &mut followed)? {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Assembles the parts. Returns false if it was stopped.
    fn files(&mut self) -> Result<bool, GraphError> {
        let dim = self.dataset.table().dim;
        let hops = self.hops();
        let files: Vec<(String, Vec<usize>, u32, Vec<FinishedPart>)> = match self.options.layout {
            Layout::Rows => {
                let parts = hops.iter().flat_map(|&(operator, hop)| self.journal.parts(operator, hop));
                vec![(ROWS.to_owned(), vec![hops.len(), dim], 0, parts.collect())]
            }
            Layout::Hops => hops
                .iter()
                .map(|&(operator, hop)| {
                    let name = match operator {
                        None => FEATURES.to_owned(),
                        Some(place) => format!("{}.{hop}.npy", self.options.operators[place].file_stem()),
                    };
                    (name, vec![dim], hop, self.journal.parts(operator, hop))
                })
                .collect(),
        };
        for (name, row, tag, parts) in files {
            if self.journal.file(&name).is_some() {
                self.pool.install(|| self.journal.forget(&parts))?;
                continue;
            }
            let folders = (&**self.journal.parts_folder(), self.journal.set());
            let shape = (self.options.element, self.kept.nodes.len());
            let watch = &mut *self.watch;
            let file = assemble::file(folders, (&name, &row, tag), shape, &parts, &mut || watch.stops())?;
            let Some(file) = file else { return Ok(false) };
            self.pool.install(|| self.journal.add_file(file, &parts))?;
        }
        Ok(true)
    }

    /// Every hop: its operator and number.
    fn hops(&self) -> Vec<(Option<usize>, u32)> {
        let of_operators = (0..self.options.operators.len())
            .flat_map(|place| (1..=self.options.hops).map(move |hop| (Some(place), hop)));
        std::iter::once((None, 0)).chain(of_operators).collect()
    }

    /// Writes `hops.json`.
    fn describe(&mut self, seconds: f64) -> Result<HopSet, GraphError> {
        let applied = |operator: &Operator| AppliedOperator {
            name: operator.to_string(),
            file: operator.file_stem(),
            self_loops: operator.has_self_loops(),
            weighted: self.options.weighted,
            hops: self.options.hops,
        };
        let facts = |file: &FinishedFile| {
            (file.name.clone(), FileFacts { bytes: file.bytes, hash: file.hash.clone() })
        };
        let decisive = Decisive::of(self.options, self.dataset.fingerprint());
        let set = HopSet {
            format: FORMAT,
            dataset: SourceDataset { name: self.dataset.name().to_owned(), fingerprint: decisive.data },
            dim: self.dataset.table().dim,
            dtype: self.options.element,
            rows: self.kept.nodes.len(),
            classes: self.dataset.classes(),
            operators: self.options.operators.iter().map(applied).collect(),
            layout: self.options.layout,
            data_offset: DATA_OFFSET,
            splits: Split::ALL
                .into_iter()
                .map(|split| {
                    let rows = &self.kept.splits[split as usize];
                    (split.name().to_owned(), [rows.start, rows.end])
                })
                .collect(),
            order: TrainingOrder {
                kind: self.options.row_order,
                seed: decisive.seed,
                purpose: RandomPurpose::HopRows as u32,
            },
            nodes: self.options.nodes,
            feature_norm: self.options.feature_norm,
            scratch: HopType::F32,
            files: self.journal.files().iter().map(facts).collect(),
            made_by: format!("uvatrain {}", env!("CARGO_PKG_VERSION")),
            seconds,
        };
        let directory = self.journal.set();
        let path = hop_set::description(directory.path());
        part::remove(directory, FILE_NAME)?;
        let mut text = serde_json::to_vec_pretty(&set).map_err(|error| GraphError::invalid(&path, error))?;
        text.push(b'\n');
        let written = directory.create_file(FILE_NAME).and_then(|mut file| file.write_all(&text));
        written.map_err(GraphError::io(&path, "write"))?;
        part::sync(directory, FILE_NAME)?;
        Ok(set)
    }

    /// Renames the set to its final name, and removes the folder.
    fn commit(self, out: &Path) -> Result<(), GraphError> {
        self.journal.check_lock()?;
        staging::flush(self.journal.set().path())?;
        // The remaining steps are short and must not be interrupted, which would leave the folder next to the set.
        self.watch.finishes();
        match self.journal.folder().rename_to(SET, out) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => staging::refuse_existing(out)?,
            renamed => renamed.map_err(GraphError::io(out, "create"))?,
        }
        let parent = out.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        open_directory(parent)
            .and_then(|parent| parent.sync_all())
            .map_err(GraphError::io(parent, "flush"))?;
        // The folder is removed last, so that a run that is killed here is recognised as finished.
        self.journal.remove()
    }
}
