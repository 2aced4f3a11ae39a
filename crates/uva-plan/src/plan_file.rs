//! The file form of a plan: JSON, and the node ids of both caches in `.npy` files of the same directory.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};
use uva_graph::npy::{NpyArray, NpyType, NpyWriter};
use uva_graph::reorder::NodeOrder;
use uva_graph::{Csc, Dataset, mix};
use uva_mem::files::{Replacement, read_regular};
use uva_sample::{Fanouts, SamplerOptions, Sequenced};

use crate::access::curve::hit_rate_at;
use crate::access::rank::{HOME_BYTES, WEIGHT_BYTES};
use crate::{CacheError, CachePolicy, CostModel, CurvePoint, Prediction, Sizes, TimedBy, TimedFit, Workload};

/// The version of the format; other versions are refused.
pub const PLAN_VERSION: u32 = 1;

/// Maximum size of a plan's JSON.
const MOST_JSON: u64 = 16 << 20;

/// The lists and rows to cache, and the predictions for them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CachePlan {
    /// [`PLAN_VERSION`].
    pub version: u32,
    /// The dataset that its node ids refer to.
    pub dataset: PlanDataset,
    /// The options of the batches that it was made for.
    pub options: PlanOptions,
    /// The policy that computed the hotness.
    pub policy: CachePolicy,
    /// Maximum bytes of both caches, maps included.
    pub budget_bytes: u64,
    /// The list cache.
    pub lists: PlanShare,
    /// The row cache.
    pub rows: PlanShare,
    /// The savings of hits.
    pub model: CostModel,
    /// The contents of the caches in timed runs.
    pub timed_by: TimedBy,
    /// Timed runs of sampling: (hit rate, milliseconds a batch).
    pub timed_sampling: Vec<(f64, f64)>,
    /// Timed runs of gathering: (hit rate, milliseconds a batch).
    pub timed_gathering: Vec<(f64, f64)>,
    /// How well lines fit timed runs: the runs above first, then runs timed for comparison. Empty if nothing was timed.
    pub fits: Vec<TimedFit>,
    /// The predictions for a batch.
    pub predictions: PlanPredictions,
    /// Hit rate against bytes.
    pub curves: PlanCurves,
    /// The counts of the plan.
    pub profile: PlanProfile,
    /// Notes for people: fallbacks, a budget that is too small, …
    pub notes: Vec<String>,
    /// Nodes whose lists are cached, hottest byte first.
    #[serde(skip)]
    pub list_ids: Vec<i64>,
    /// Nodes whose rows are cached, hottest first; empty for a cache that fills itself.
    #[serde(skip)]
    pub row_ids: Vec<i64>,
}

/// The dataset that a plan is for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlanDataset {
    /// Its name.
    pub name: String,
    /// [`Dataset::fingerprint`].
    pub fingerprint: String,
    /// Its nodes.
    pub nodes: u64,
    /// Its edges.
    pub edges: u64,
    /// Bytes of a feature row.
    pub row_bytes: u64,
    /// Bytes of a neighbour id in the list cache.
    pub index_bytes: u64,
    /// Bytes of a neighbour's weight in the list cache: 4, or 0 where weights are not cached.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub weight_bytes: u64,
    /// Bytes of a cached list's place in the dataset, which leads to its edge ids: 8, or 0 where it is not cached.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub home_bytes: u64,
}

fn is_zero(bytes: &u64) -> bool {
    *bytes == 0
}

impl PlanDataset {
    pub(crate) fn of(dataset: &Dataset, sizes: &Sizes<'_>) -> Self {
        Self {
            name: dataset.name().to_owned(),
            fingerprint: dataset.fingerprint(),
            nodes: dataset.nodes() as u64,
            edges: dataset.edges() as u64,
            row_bytes: dataset.table().row_bytes() as u64,
            index_bytes: sizes.index_bytes,
            weight_bytes: sizes.weight_bytes,
            home_bytes: sizes.home_bytes,
        }
    }

    /// The sizes in the plan, for the lists of its dataset.
    fn sizes<'g>(&self, csc: &Csc<'g>) -> Sizes<'g> {
        let mut sizes = Sizes::new(csc, self.row_bytes as usize);
        sizes.index_bytes = self.index_bytes;
        sizes.weight_bytes = self.weight_bytes;
        sizes.home_bytes = self.home_bytes;
        sizes
    }
}

/// The options that determine the sampled batches.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlanOptions {
    /// `--fanouts`.
    pub fanouts: Fanouts,
    /// `--batch-size`.
    pub batch_size: u64,
    /// `--drop-last`.
    pub drop_last: bool,
    /// `--replace`.
    pub replace: bool,
    /// `--seed`.
    pub seed: u64,
    /// `--batch-dependency`.
    pub batch_dependency: u32,
    /// `--sampler-kind`, by its name.
    pub sampler_kind: String,
    /// `--walks`, `--walk-length` and `--walk-stop`, for kinds that walk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub walks: Option<[u32; 3]>,
    /// The order of the seeds and a hash of the sequences that it follows; `None` if the seeds are shuffled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed_order: Option<String>,
}

/// The identity of a seed order: how sequences are followed, and a hash of them.
fn order_of(Sequenced { sequences, follow }: &Sequenced) -> String {
    format!("{follow}, {:016x}", sequences.hash())
}

impl PlanOptions {
    pub(crate) fn of(workload: &Workload<'_>) -> Self {
        // The choice of expanded nodes changes how often lists are read, not which lists. A plan serves either choice.
        let SamplerOptions {
            kind,
            fanouts,
            replace,
            seed,
            batch_dependency,
            walks: _,
            expand: _,
            edge_ids: _,
            // Neither are trees planned for.
            trees: _,
            // Graphs with several relations have no plan.
            fanout_per: _,
        } = workload.options.clone();
        let (sampler_kind, walks) = (kind.name().to_owned(), workload.options.walks_in_force());
        let (batch_size, drop_last) = (workload.batch_size as u64, workload.drop_last);
        let seed_order = workload.sequenced.as_ref().map(order_of);
        Self {
            fanouts,
            batch_size,
            drop_last,
            replace,
            seed,
            batch_dependency,
            sampler_kind,
            walks,
            seed_order,
        }
    }
}

/// One of the two caches.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PlanShare {
    /// Lists or rows in it.
    pub count: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Bytes of its map.
    pub map_bytes: u64,
    /// Expected hit rate.
    pub hit_rate: f64,
    /// The file of its node ids, if the plan was read from files; `None` for a cache that fills itself.
    pub ids: Option<IdFile>,
}

/// A file of node ids.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct IdFile {
    /// Its name, in the plan's directory.
    pub file: String,
    /// A checksum of its ids and their places, 16 hex digits.
    pub checksum: String,
}

/// Predictions for a batch with different caches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PlanPredictions {
    /// Without caches.
    pub none: Prediction,
    /// With the plan's caches.
    pub chosen: Prediction,
    /// With the whole budget for lists.
    pub all_lists: Prediction,
    /// With the whole budget for rows.
    pub all_rows: Prediction,
}

/// Hit rate against bytes, for lists and for rows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PlanCurves {
    /// Of list reads.
    pub lists: Vec<CurvePoint>,
    /// Of rows.
    pub rows: Vec<CurvePoint>,
}

/// The measurements that determine a plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PlanProfile {
    /// Batches over which hotness was counted; 0 if it was not counted.
    pub counted_batches: u64,
    /// Other batches, in which hit rates were observed.
    pub observed_batches: u64,
    /// Reads of lists in these.
    pub observed_list_reads: u64,
    /// Rows that these gather.
    pub observed_row_reads: u64,
    /// Lists with reads, according to the hotness.
    pub ranked_lists: u64,
    /// Rows with reads, according to the hotness.
    pub ranked_rows: u64,
    /// Seconds that the timed runs took.
    pub timing_seconds: f64,
    /// Seconds in total.
    pub seconds: f64,
}

/// A difference between a plan and a run that makes the plan less suitable, but not wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanWarning {
    /// The option's name, with underscores; several are between backticks.
    pub option: &'static str,
    /// Its value in the plan.
    pub planned: String,
    /// Its value in the run.
    pub found: String,
}

impl fmt::Display for PlanWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { option, planned, found } = self;
        let made_for = match option.contains('`') {
            true => format!("{option} {planned}"),
            false => format!("`{option}={planned}`"),
        };
        write!(
            f,
            "the plan was made for {made_for}, but this run has {found}: caches will be hit less than planned"
        )
    }
}

/// A plan in the form of its files.
struct Written {
    text: String,
    plan: CachePlan,
}

/// Maximum number of attempts to write a plan until all of its files are from one process.
const WRITING_ATTEMPTS: usize = 5;

impl CachePlan {
    /// Writes the plan to `path`, and the ids to the same directory: `plan.json`, `plan.lists.npy`, `plan.rows.npy`.
    /// Replaces existing files.
    ///
    /// # Errors
    /// If a system call fails, or other processes keep writing the same files.
    pub fn write(&self, path: &Path) -> Result<(), CacheError> {
        for _ in 0..WRITING_ATTEMPTS {
            let written = self.write_once(path)?;
            // Each file is replaced atomically, but not all files together: another process may have written some of
            // them.
            if self.is_stored_as(&written, path) {
                return Ok(());
            }
        }
        Err(invalid(path, "another process is writing it: use another file"))
    }

    /// Whether the files at `path` are those of `written`, a copy of this plan with the names of its files of ids.
    fn is_stored_as(&self, written: &Written, path: &Path) -> bool {
        let same_ids = |share: &PlanShare, ids: &[i64]| {
            share.ids.as_ref().is_none_or(|stored| {
                NpyArray::open(&path.with_file_name(&stored.file))
                    .is_ok_and(|array| array.elements(NpyType::I64).is_ok_and(|found: &[i64]| found == ids))
            })
        };
        read_regular(path, MOST_JSON).is_ok_and(|text| text == written.text.as_bytes())
            && same_ids(&written.plan.lists, &self.list_ids)
            && same_ids(&written.plan.rows, &self.row_ids)
    }

    fn write_once(&self, path: &Path) -> Result<Written, CacheError> {
        let mut plan = self.clone();
        let Some(stem) = path.file_stem().and_then(|stem| stem.to_str()) else {
            return Err(invalid(path, "the name of a plan's file must be UTF-8"));
        };
        for (kind, ids, share) in
            [("lists", &self.list_ids, &mut plan.lists), ("rows", &self.row_ids, &mut plan.rows)]
        {
            if kind == "rows" && self.policy.is_dynamic() {
                share.ids = None;
                continue;
            }
            let file = format!("{stem}.{kind}.npy");
            let ids_path = path.with_file_name(&file);
            replace(&ids_path, |partial| {
                let partial = partial.try_clone().map_err(io_error(&ids_path, "write"))?;
                let mut writer = NpyWriter::onto(partial, &ids_path, NpyType::I64, &[]);
                writer.write(ids)?;
                writer.finish()?;
                Ok(())
            })?;
            share.ids = Some(IdFile { file, checksum: checksum(ids) });
        }
        // The plan itself comes last, so that a plan that exists has its ids.
        let mut text = serde_json::to_string_pretty(&plan).map_err(|error| invalid(path, error))?;
        text.push('\n');
        replace(path, |partial| partial.write_all(text.as_bytes()).map_err(io_error(path, "write")))?;
        Ok(Written { text, plan })
    }

    /// Reads a plan and its ids.
    ///
    /// # Errors
    /// If a file is missing, of another version, or has invalid content. No content of the files causes anything worse.
    pub fn read(path: &Path) -> Result<Self, CacheError> {
        let text = read_regular(path, MOST_JSON).map_err(io_error(path, "read"))?;
        let value: serde_json::Value = serde_json::from_slice(&text).map_err(|error| invalid(path, error))?;
        match value.get("version").and_then(serde_json::Value::as_u64) {
            None => return Err(invalid(path, "no \"version\": this is not a plan")),
            Some(version) if version != u64::from(PLAN_VERSION) => {
                let problem =
                    format!("version {version}, but this program reads {PLAN_VERSION}: make the plan again");
                return Err(invalid(path, problem));
            }
            Some(_) => {}
        }
        let mut plan: Self = serde_json::from_value(value).map_err(|error| invalid(path, error))?;
        plan.list_ids = plan.read_ids(path, "lists", &plan.lists)?;
        plan.row_ids = plan.read_ids(path, "rows", &plan.rows)?;
        Ok(plan)
    }

    fn read_ids(&self, path: &Path, kind: &str, share: &PlanShare) -> Result<Vec<i64>, CacheError> {
        let Some(IdFile { file, checksum: expected }) = &share.ids else {
            // A cache that fills itself has only a size, and no ids.
            return if share.count == 0 || (kind == "rows" && self.policy.is_dynamic()) {
                Ok(Vec::new())
            } else {
                Err(invalid(path, format!("{} {kind}, but no file with their ids", share.count)))
            };
        };
        // Must be a name, not a path: a plan must not lead to files in other directories.
        if Path::new(file).file_name() != Some(file.as_ref()) {
            return Err(invalid(
                path,
                format!("the file of its {kind} is {file:?}, which is not a file name"),
            ));
        }
        let path = &path.with_file_name(file);
        let array = NpyArray::open(path)?;
        let ids: &[i64] = array.elements(NpyType::I64)?;
        if array.shape() != [ids.len()] || ids.len() as u64 != share.count {
            let problem = format!("shape {:?}, but the plan has {} {kind}", array.shape(), share.count);
            return Err(invalid(path, problem));
        }
        let found = checksum(ids);
        if found != *expected {
            let problem = format!("the ids' checksum is {found}, but the plan has {expected}");
            return Err(invalid(path, problem));
        }
        let nodes = i64::try_from(self.dataset.nodes).unwrap_or(i64::MAX);
        if let Some(place) = ids.iter().position(|&id| id < 0 || id >= nodes) {
            let problem = format!("the id at {place} is {}, but there are {nodes} nodes", ids[place]);
            return Err(invalid(path, problem));
        }
        let mut sorted = ids.to_vec();
        sorted.sort_unstable();
        if let Some(pair) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(invalid(path, format!("node {} is in it twice", pair[0])));
        }
        Ok(ids.to_vec())
    }

    /// Checks that the plan is for `dataset`. Returns the differences between a run's options and those of the plan.
    /// Seeds may differ: hot nodes are hot under any seed.
    ///
    /// # Errors
    /// [`CacheError::OtherDataset`] if node ids would have another meaning, and [`CacheError::Plan`] if the plan
    /// contradicts itself.
    pub fn check(
        &self,
        dataset: &Dataset,
        options: &SamplerOptions,
        batch_size: usize,
        sequenced: Option<&Sequenced>,
    ) -> Result<Vec<PlanWarning>, CacheError> {
        let found = dataset.fingerprint();
        if found != self.dataset.fingerprint {
            return Err(CacheError::OtherDataset {
                planned_name: self.dataset.name.clone(),
                planned: self.dataset.fingerprint.clone(),
                found_name: dataset.name().to_owned(),
                found,
            });
        }
        self.check_sizes(dataset)?;
        let planned = &self.options;
        let mut warnings = Vec::new();
        let mut compare = |option, planned: String, found: String| {
            if planned != found {
                warnings.push(PlanWarning { option, planned, found });
            }
        };
        compare("fanouts", planned.fanouts.to_string(), options.fanouts.to_string());
        compare("batch_size", planned.batch_size.to_string(), batch_size.to_string());
        compare("sampler_kind", planned.sampler_kind.clone(), options.kind.name().to_owned());
        compare("replace", planned.replace.to_string(), options.replace.to_string());
        compare(
            "batch_dependency",
            planned.batch_dependency.to_string(),
            options.batch_dependency.to_string(),
        );
        let walks = |walks: Option<[u32; 3]>| {
            walks.map_or_else(
                || "none".to_owned(),
                |[count, length, stop]| format!("{count}, {length}, {stop}"),
            )
        };
        let order = |order: Option<String>| order.unwrap_or_else(|| "shuffle".to_owned());
        compare("seed_order", order(planned.seed_order.clone()), order(sequenced.map(order_of)));
        if options.kind.name() == planned.sampler_kind {
            let found = options.walks_in_force();
            compare("`walks`, `walk_length`, `walk_stop`", walks(planned.walks), walks(found));
        }
        Ok(warnings)
    }

    /// The number of a run's first epochs that the plan counted, for a run over `workload`. 0 if the plan was made for
    /// other batches, or by a policy that does not count.
    #[must_use]
    pub fn counted_epochs(&self, workload: &Workload<'_>) -> u32 {
        if self.options == PlanOptions::of(workload) { self.policy.counted_epochs() } else { 0 }
    }

    /// Checks that the plan's sizes match its lists and rows in `dataset`, and fit its budget.
    fn check_sizes(&self, dataset: &Dataset) -> Result<(), CacheError> {
        let refuse = |problem: String| Err(invalid(Path::new("plan"), problem));
        let (csc, row_bytes) = (dataset.csc(), dataset.table().row_bytes());
        let nodes = csc.nodes() as u64;
        if self.dataset.nodes != nodes || self.dataset.row_bytes != row_bytes as u64 {
            return refuse(format!(
                "{} nodes with rows of {} bytes, but the dataset of that fingerprint has {nodes} of {row_bytes}",
                self.dataset.nodes, self.dataset.row_bytes
            ));
        }
        let out_of_range = |ids: &[i64]| ids.iter().any(|&id| id < 0 || id as u64 >= nodes);
        if out_of_range(&self.list_ids) || out_of_range(&self.row_ids) {
            return refuse(format!("it names nodes outside of the dataset's {nodes} nodes"));
        }
        for (kind, share) in [("lists", &self.lists), ("rows", &self.rows)] {
            if !(0.0..=1.0).contains(&share.hit_rate) {
                return refuse(format!("a hit rate of {} for its {kind}", share.hit_rate));
            }
            if share.map_bytes != 0 && share.map_bytes != nodes * 4 {
                return refuse(format!(
                    "a map of {} bytes for its {kind}, where {nodes} nodes need {}",
                    share.map_bytes,
                    nodes * 4
                ));
            }
        }
        if self.policy.is_dynamic() && !(self.list_ids.is_empty() && self.row_ids.is_empty()) {
            return refuse(format!("ids to cache, but the {} policy chooses none", self.policy));
        }
        if !matches!(self.dataset.index_bytes, 4 | 8) {
            return refuse(format!("neighbour ids of {} bytes", self.dataset.index_bytes));
        }
        let PlanDataset { weight_bytes, home_bytes, .. } = self.dataset;
        if ![0, WEIGHT_BYTES].contains(&weight_bytes) || ![0, HOME_BYTES].contains(&home_bytes) {
            return refuse(format!(
                "cached weights of {weight_bytes} bytes and cached places of {home_bytes}, where there are such of \
                 {WEIGHT_BYTES} and {HOME_BYTES}, or none"
            ));
        }
        let sizes = self.dataset.sizes(&csc);
        let list_bytes: u64 = self.list_ids.iter().map(|&node| sizes.list_bytes(node as u32)).sum();
        let rows = if self.policy.is_dynamic() { self.rows.count } else { self.row_ids.len() as u64 };
        let row_bytes = rows.checked_mul(row_bytes as u64);
        if list_bytes != self.lists.bytes || row_bytes != Some(self.rows.bytes) || rows > nodes {
            return refuse(format!(
                "{} bytes of lists and {} of rows, but its {} lists take {list_bytes} and its {rows} rows {}",
                self.lists.bytes,
                self.rows.bytes,
                self.list_ids.len(),
                row_bytes.unwrap_or(u64::MAX)
            ));
        }
        let parts = [self.lists.bytes, self.lists.map_bytes, self.rows.bytes, self.rows.map_bytes];
        let total = parts.into_iter().try_fold(0_u64, u64::checked_add);
        if total.is_none_or(|total| total > self.budget_bytes) {
            return refuse(format!(
                "caches and maps of {} bytes exceed its budget of {}",
                total.unwrap_or(u64::MAX),
                self.budget_bytes
            ));
        }
        Ok(())
    }

    /// Translates the plan for `dataset`, which is the plan's dataset in `order`. Its lists are then those of the first
    /// nodes. If the files have wider ids than the plan assumed, the plan keeps as many lists as fit their former
    /// bytes.
    ///
    /// # Panics
    /// If the plan names nodes beyond `order`.
    #[must_use]
    pub fn reordered(&self, dataset: &Dataset, order: &NodeOrder) -> Self {
        let places = order.places();
        let moved = |ids: &[i64]| -> Vec<i64> { ids.iter().map(|&id| places.of(id) as i64).collect() };
        let csc = dataset.csc();
        let mut plan = self.clone();
        plan.row_ids = moved(&self.row_ids);
        plan.list_ids = moved(&self.list_ids);
        let mut sizes = self.dataset.sizes(&csc);
        sizes.index_bytes = csc.indices.id_bytes() as u64;
        // A position of the rewritten graph is its edge id.
        sizes.home_bytes = 0;
        plan.dataset = PlanDataset::of(dataset, &sizes);
        let mut bytes = 0;
        let fits = |node: &&i64| {
            let with = bytes + sizes.list_bytes(**node as u32);
            let fits = with <= self.lists.bytes;
            bytes = if fits { with } else { bytes };
            fits
        };
        plan.list_ids = plan.list_ids.iter().take_while(fits).copied().collect();
        (plan.lists.count, plan.lists.bytes) = (plan.list_ids.len() as u64, bytes);
        plan
    }

    /// Removes all lists, for a run that could not read them.
    pub fn leave_out_lists(&mut self) {
        self.list_ids = Vec::new();
        self.lists = PlanShare::default();
        self.predictions.chosen = self.model.predict(0.0, self.rows.hit_rate);
    }

    /// Removes all rows, for a run that could not read them.
    pub fn leave_out_rows(&mut self) {
        self.row_ids = Vec::new();
        self.rows = PlanShare::default();
        self.predictions.chosen = self.model.predict(self.lists.hit_rate, 0.0);
    }

    /// Keeps only as many of the rows, the hottest first, as fit into `bytes` with their map, for a GPU with less
    /// memory than the one that the plan was made for. The hit rate is taken from the curve.
    #[must_use]
    pub fn with_rows_within(mut self, bytes: u64) -> Self {
        let row = self.rows.bytes.checked_div(self.rows.count).unwrap_or(0).max(1);
        let count = (bytes.saturating_sub(self.rows.map_bytes) / row).min(self.rows.count);
        if count == 0 {
            self.leave_out_rows();
            return self;
        }
        self.row_ids.truncate(usize::try_from(count).unwrap_or(usize::MAX));
        let hit_rate = if count == self.rows.count {
            self.rows.hit_rate
        } else {
            hit_rate_at(&self.curves.rows, count * row)
        };
        self.rows = PlanShare { count, bytes: count * row, hit_rate, ids: None, ..self.rows };
        self.predictions.chosen = self.model.predict(self.lists.hit_rate, hit_rate);
        self
    }

    /// Takes the lists of another plan for the same batches, for a run with lists and rows on different GPUs. Each plan
    /// had the whole budget of its GPU.
    #[must_use]
    pub fn with_lists_of(mut self, other: Self) -> Self {
        self.curves.lists = other.curves.lists;
        self.profile.seconds += other.profile.seconds;
        Self {
            dataset: other.dataset,
            lists: other.lists,
            list_ids: other.list_ids,
            timed_sampling: other.timed_sampling,
            budget_bytes: self.budget_bytes.saturating_add(other.budget_bytes),
            ..self
        }
    }

    /// Bytes of both caches on the device, maps included.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let parts = [self.lists.bytes, self.lists.map_bytes, self.rows.bytes, self.rows.map_bytes];
        parts.into_iter().fold(0, u64::saturating_add)
    }
}

/// A checksum of ids and their places, which detects a change of either.
fn checksum(ids: &[i64]) -> String {
    let term = |(place, &id): (usize, &i64)| mix(mix(place as u64 + 1) ^ id as u64);
    let sum = ids.iter().enumerate().map(term).fold(0, u64::wrapping_add);
    format!("{sum:016x}")
}

/// Writes a new file, which gets the name `path` once it is complete and on the disk.
fn replace(path: &Path, write: impl FnOnce(&mut File) -> Result<(), CacheError>) -> Result<(), CacheError> {
    // Otherwise a file would replace a device or a pipe at the user's path.
    if fs::metadata(path).is_ok_and(|metadata| !metadata.is_file()) {
        return Err(invalid(path, "it is not a regular file: use another path for the plan"));
    }
    let mut replacement = Replacement::of(path, 0o666).map_err(io_error(path, "create"))?;
    write(replacement.file())?;
    replacement.file().sync_all().map_err(io_error(path, "flush"))?;
    replacement.commit().map_err(io_error(path, "create"))
}

fn invalid(path: &Path, problem: impl fmt::Display) -> CacheError {
    CacheError::Plan { path: path.to_owned(), problem: problem.to_string() }
}

fn io_error(path: &Path, action: &'static str) -> impl FnOnce(io::Error) -> CacheError + use<> {
    let path = path.to_owned();
    move |source| CacheError::Io { path, action, source }
}
