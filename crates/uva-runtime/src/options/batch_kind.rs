//! The kinds of batches: their data, the rows that they read, and what the options of a run mean for each.

use std::path::{Path, PathBuf};

use uva_graph::{Dataset, NodeType, SeedTimes, Split, TypedDataset, names};
use uva_options::{OptionError, Options as _};
use uva_sample::{TimeLimit, Trees, TypedView};

use super::hop_files::{OpenHopFiles, stored_side_by_side};
use super::hop_options::HopBatches;
use super::hop_run::HopRun;
use super::reader::{DiskReader, Features, row_file};
use super::{LoaderOptions, Pad};
use crate::RuntimeError;
use crate::backend::{Backend, BackendOptions, GatherChoice, SamplerChoice};

/// What the batches of a run are made of.
#[derive(Clone, Copy, Debug)]
pub(crate) enum RunData<'a> {
    /// Neighbourhoods in the graph of this dataset, and rows of its feature table.
    Graph(&'a Dataset),
    /// Neighbourhoods in the typed graph of this dataset, and rows of the tables of its node types.
    Types(&'a Dataset),
    /// Rows of a hop set.
    Hops(HopRun<'a>),
}

impl<'a> RunData<'a> {
    /// The data of a run with these options over this dataset.
    pub fn of(dataset: &'a Dataset, options: &'a LoaderOptions) -> Self {
        match HopRun::of(dataset, options) {
            Some(run) => Self::Hops(run),
            None if dataset.is_homogeneous() => Self::Graph(dataset),
            None => Self::Types(dataset),
        }
    }

    /// The files of rows that the run reads.
    pub fn row_files(self) -> RowFiles<'a> {
        match self {
            Self::Graph(dataset) | Self::Types(dataset) => tables_of(dataset),
            Self::Hops(run) => tables_of_hops(run),
        }
    }

    /// Checks that a run on this backend supports such data.
    ///
    /// # Errors
    /// [`RuntimeError::Option`] naming the option.
    pub fn check_backend(self, backend: &Backend, features: Features) -> Result<(), RuntimeError> {
        let Self::Types(_) = self else { return Ok(()) };
        if backend.gpu_sampler().is_some() {
            let reason = "not supported for typed graphs yet; give `sampler=cpu`";
            return Err(OptionError::new("sampler", SamplerChoice::Gpu, reason).into());
        }
        if backend.device_slots().is_some_and(|cuda| cuda.gather == GatherChoice::Split) {
            let reason = "not supported for typed graphs: give `gather=zero-copy` or `gather=dma`";
            return Err(OptionError::new("gather", GatherChoice::Split, reason).into());
        }
        if features == Features::Disk && self.row_files().paths.is_empty() {
            let reason = "DATA has no feature rows that could be read: no node type has a feat.npy; omit it";
            return Err(OptionError::new("features", features, reason).into());
        }
        Ok(())
    }

    /// Opens the files of rows with this reader, as a trial: the readers that work, how they read, and those that do
    /// not work.
    ///
    /// # Errors
    /// See [`row_file`]; [`RuntimeError::Failed`] if there are no rows.
    pub fn open_rows(self, reader: DiskReader) -> Result<OpenedRows, RuntimeError> {
        let mut opened = OpenedRows::default();
        match self {
            Self::Graph(dataset) | Self::Types(dataset) => {
                // Each file may be on another file system, and so have another reader.
                for node_type in types_with_rows(dataset) {
                    let file = row_file(dataset, node_type, reader)?;
                    opened.add(file.reader().name(), file.how(), file.passed_over());
                }
            }
            Self::Hops(run) => {
                let tables = OpenHopFiles::open(run.hops, &run.batches.tables, reader)?;
                let files = tables.files();
                opened.add(files.reader().name(), files.how(), files.passed_over());
            }
        }
        match opened.readers.is_empty() {
            true => Err(RuntimeError::failed("the dataset has no feature table to read from disk")),
            false => Ok(opened),
        }
    }

    /// The file of each table, if cuFile could read their rows; otherwise the reason.
    pub fn files_for_cufile(self) -> Result<Vec<PathBuf>, &'static str> {
        let Self::Hops(HopRun { hops, batches }) = self else {
            return Err("only valid with a hop set, whose runs of rows it copies to a GPU: omit it");
        };
        if stored_side_by_side(hops, &batches.tables) {
            return Err(
                "not supported for hop sets made with `propagate --layout rows`, whose files interleave the rows of \
                 several hops: omit it, or propagate with `layout=hops`",
            );
        }
        Ok(batches.tables.iter().map(|table| hops.file(hops.place(*table).array).0.to_owned()).collect())
    }
}

/// The files of rows that a run reads.
#[derive(Default)]
pub(crate) struct RowFiles<'a> {
    /// A divided table has no file.
    pub paths: Vec<&'a Path>,
    pub bytes: u64,
    /// Consecutive rows that stay together, if the CPU brings rows to a GPU in such runs; `None` if a gather does.
    pub chunk: Option<usize>,
    /// The noun for the rows, in sentences.
    pub name: &'static str,
    /// The same with their size.
    pub sized: String,
}

/// The readers of some files, each once.
#[derive(Default)]
pub(crate) struct OpenedRows {
    pub readers: Vec<String>,
    pub how: Vec<String>,
    pub passed_over: Vec<String>,
}

impl OpenedRows {
    fn add(&mut self, reader: &str, how: String, passed_over: &[String]) {
        add_new(&mut self.readers, reader.to_owned());
        add_new(&mut self.how, how);
        passed_over.iter().for_each(|line| add_new(&mut self.passed_over, line.clone()));
    }
}

/// Adds a line that is not there yet.
fn add_new(lines: &mut Vec<String>, line: String) {
    if !lines.contains(&line) {
        lines.push(line);
    }
}

fn types_with_rows(dataset: &Dataset) -> impl Iterator<Item = NodeType> {
    dataset.metagraph().types().filter(|of| dataset.rows_file(*of).is_some() && dataset.rows(*of).is_some())
}

fn tables_of(dataset: &Dataset) -> RowFiles<'_> {
    let types: Vec<_> = types_with_rows(dataset).collect();
    let bytes = types.iter().filter_map(|of| Some(dataset.rows(*of)?.bytes.len() as u64)).sum();
    let (name, sized) = match types.len() {
        0 | 1 => ("the table", format!("the table of {}", gib(bytes))),
        several => ("the tables", format!("the sum of {several} tables, {},", gib(bytes))),
    };
    let paths = types.iter().filter_map(|of| Some(dataset.rows_file(*of)?.0)).collect();
    RowFiles { paths, bytes, chunk: None, name, sized }
}

fn tables_of_hops(run: HopRun<'_>) -> RowFiles<'_> {
    let (mut paths, mut bytes) = (Vec::new(), 0);
    let set = run.hops;
    for table in &run.batches.tables {
        let place = set.place(*table);
        let path = set.file(place.array).0;
        if !paths.contains(&path) {
            paths.push(path);
            bytes += (place.stride * set.nodes().len()) as u64;
        }
    }
    let sized = format!("the hop set, of which {} are read,", gib(bytes));
    RowFiles { paths, bytes, chunk: Some(run.batches.chunk), name: "the hop set", sized }
}

/// The spelling of a number of bytes in sentences about rows and memory.
pub(crate) fn gib(bytes: u64) -> String {
    format!("{:.2} GiB", bytes as f64 / (1_u64 << 30) as f64)
}

/// A kind of batches.
trait BatchKind {
    /// Checks the options that such batches depend on, apart from their ranges.
    fn check(&self, options: &LoaderOptions) -> Result<(), RuntimeError>;

    /// Checks that such batches can be made of the dataset.
    fn check_dataset(&self, options: &LoaderOptions, dataset: &Dataset) -> Result<(), RuntimeError>;

    /// The options of every checkpoint that such batches do not depend on.
    fn unused(&self) -> &'static [&'static str];

    /// The properties on which such batches depend, if no option has them.
    fn identity(&self) -> Vec<(&'static str, usize)>;
}

/// Batches that are sampled in a graph.
struct GraphBatches;

impl BatchKind for GraphBatches {
    fn check(&self, options: &LoaderOptions) -> Result<(), RuntimeError> {
        options.check_sampling()
    }

    fn check_dataset(&self, options: &LoaderOptions, dataset: &Dataset) -> Result<(), RuntimeError> {
        match RunData::of(dataset, options) {
            RunData::Types(dataset) => check_types(options, dataset),
            _ => options.check_graph(dataset),
        }
    }

    fn unused(&self) -> &'static [&'static str] {
        &[]
    }

    fn identity(&self) -> Vec<(&'static str, usize)> {
        Vec::new()
    }
}

/// Options that typed graphs do not support, with the reason.
const NOT_TYPED: [(&str, &str); 4] = [
    ("seed_order", "nearness over several node types is not defined"),
    ("order", "nearness over several node types is not defined"),
    ("aggregate", "each relation would have its own sums"),
    ("edge_type", "relations have one type of edges each"),
];

/// Checks that batches of a typed graph support these options. Every refusal of an option for typed graphs is here, but
/// those of the backend and of caches, which the loader's options do not have.
fn check_types(options: &LoaderOptions, dataset: &Dataset) -> Result<(), RuntimeError> {
    let refused = |name: &str, value: String, reason: &str| {
        OptionError::new(name, value, format!("not supported for typed graphs: {reason}")).into()
    };
    let default = LoaderOptions::default();
    for (name, reason) in NOT_TYPED {
        let field = LoaderOptions::field(name);
        if let Some(field) = field.filter(|field| options.text(field) != default.text(field)) {
            return Err(refused(name, options.text(field), reason));
        }
    }
    let sampling = options.sampling_in(dataset.metagraph())?;
    if sampling.trees.is_some() && options.pad != Pad::Off {
        let reason = "not supported with disjoint trees and times yet; omit it".to_owned();
        return Err(OptionError::new("pad", options.pad, reason).into());
    }
    if sampling.trees.is_some_and(|trees| trees.time.is_some()) {
        check_orders(dataset)?;
    }
    TypedView::of(dataset).check(&sampling)?;
    for split in Split::ALL {
        for (of, _) in dataset.seeds(split) {
            options.seed_times_of(dataset, of, split)?;
        }
    }
    Ok(())
}

/// Checks that the lists of relations with times are sorted by them.
fn check_orders(dataset: &Dataset) -> Result<(), RuntimeError> {
    for relation in dataset.metagraph().relations() {
        if dataset.entry_times(relation).is_some() && !dataset.is_ordered_by_time(relation) {
            let name = dataset.metagraph().full_name(relation);
            let reason = format!(
                "the lists of {name} are not known to be sorted by time: sort them, and set \"order\": \"time\" for it in \
                 meta.json"
            );
            return Err(OptionError::of("time_rule", reason).into());
        }
    }
    Ok(())
}

/// Their rows are all that they need, and `HopOptions` has checked the order of these.
impl BatchKind for HopBatches {
    fn check(&self, _: &LoaderOptions) -> Result<(), RuntimeError> {
        Ok(())
    }

    fn check_dataset(&self, _: &LoaderOptions, _: &Dataset) -> Result<(), RuntimeError> {
        Ok(())
    }

    fn unused(&self) -> &'static [&'static str] {
        // No neighbours are picked.
        &["fanouts", "replace"]
    }

    fn identity(&self) -> Vec<(&'static str, usize)> {
        vec![("chunk", self.chunk)]
    }
}

impl LoaderOptions {
    /// Whether each seed has a tree of its own, and what it sees.
    pub(super) fn trees(&self) -> Option<Trees> {
        // The option's range ends at the largest int64.
        let window = self.time_window.map(|window| i64::try_from(window).unwrap_or(i64::MAX));
        let pick = self.time_pick;
        let time = self.time_rule.map(|rule| TimeLimit { rule, window, pick });
        (self.disjoint || time.is_some()).then_some(Trees { time })
    }

    /// The times of the seeds of a type; `None` if no rule reads them.
    ///
    /// # Errors
    /// If they have none.
    pub fn seed_times_of<'d>(
        &self,
        dataset: &'d TypedDataset,
        node_type: NodeType,
        split: Split,
    ) -> Result<Option<SeedTimes<'d>>, OptionError> {
        if self.time_rule.is_none() || dataset.split_of(node_type, split).is_empty() {
            return Ok(None);
        }
        let missing = || {
            let (name, file) = (dataset.metagraph().type_name(node_type), names::split_times(split));
            OptionError::of(
                "time_rule",
                format!("seeds of {name} have no time: {file}, time.npy or `seed_time`"),
            )
        };
        dataset.seed_times_of(node_type, split, self.seed_time).map(Some).ok_or_else(missing)
    }
}

impl LoaderOptions {
    fn kind(&self) -> &dyn BatchKind {
        match &self.hops {
            None => &GraphBatches,
            Some(hops) => hops,
        }
    }

    /// Checks what can be checked without a dataset.
    ///
    /// # Errors
    /// [`RuntimeError::Option`] naming the option and its valid values.
    pub fn check(&self) -> Result<(), RuntimeError> {
        self.check_ranges()?;
        self.kind().check(self)
    }

    /// Checks that batches with these options can be made of the dataset. It must have the arrays that sampling needs,
    /// no list may need more picks than there are random words, a [part](Self::check_part) has to reach as far as batches
    /// do, and rows have to be such that they can be aggregated, if they shall.
    ///
    /// # Errors
    /// [`RuntimeError::Input`] naming the file, and the place in it; [`RuntimeError::Option`] naming the option and the
    /// node.
    pub fn check_dataset(&self, dataset: &Dataset) -> Result<(), RuntimeError> {
        self.kind().check_dataset(self, dataset)
    }

    /// Checks that such batches support a cache, which this option requests. Rows of files may be kept in host memory.
    ///
    /// # Errors
    /// [`RuntimeError::Option`] for a typed graph.
    pub fn check_cache(&self, dataset: &Dataset, option: &'static str) -> Result<(), RuntimeError> {
        match option {
            "host_cache" => Ok(()),
            _ => self.check_one_type(dataset, option, "not supported for typed graphs yet; omit it"),
        }
    }

    /// Checks that such batches support samplers for all ranks, which this option requests.
    ///
    /// # Errors
    /// [`RuntimeError::Option`] for a typed graph.
    pub fn check_shared_samplers(&self, dataset: &Dataset, option: &'static str) -> Result<(), RuntimeError> {
        let reason = "not supported for typed graphs: each rank samples its own batches; give `ranks=N`";
        self.check_one_type(dataset, option, reason)
    }

    /// The options of the backend for such batches, and a line for people if `sampler=auto` is the CPU: the GPU samples
    /// one type of nodes.
    ///
    /// # Errors
    /// [`RuntimeError::Option`] for `sampler=gpu` and a typed graph.
    pub fn backend_of(
        &self,
        dataset: &Dataset,
        backend: &BackendOptions,
    ) -> Result<(BackendOptions, Option<String>), RuntimeError> {
        let note = match (RunData::of(dataset, self), backend.sampler) {
            (RunData::Types(_), SamplerChoice::Gpu) => {
                let reason = "not supported for typed graphs yet; give `sampler=cpu`";
                return Err(OptionError::new("sampler", backend.sampler, reason).into());
            }
            (RunData::Types(_), SamplerChoice::Auto) => {
                "`sampler=auto`: the CPU samples, since the GPU does not sample typed graphs yet".to_owned()
            }
            _ => return Ok((backend.clone(), None)),
        };
        Ok((BackendOptions { sampler: SamplerChoice::Cpu, ..backend.clone() }, Some(note)))
    }

    fn check_one_type(
        &self,
        dataset: &Dataset,
        option: &'static str,
        reason: &str,
    ) -> Result<(), RuntimeError> {
        match RunData::of(dataset, self) {
            RunData::Types(_) => Err(OptionError::of(option, reason).into()),
            _ => Ok(()),
        }
    }

    /// The properties on which batches depend, if no option has them, by name.
    #[must_use]
    pub fn kind_identity(&self) -> Vec<(&'static str, usize)> {
        self.kind().identity()
    }

    /// The fingerprint of a checkpoint: options that another run must share to continue with the same batches.
    #[must_use]
    pub fn fingerprint(&self) -> serde_json::Map<String, serde_json::Value> {
        let kind = self.kind();
        let mut found = self.options_of_batches();
        found.retain(|name, _| !kind.unused().contains(&name.as_str()));
        found.extend(kind.identity().into_iter().map(|(name, value)| (name.to_owned(), value.into())));
        self.with_content(found)
    }
}
