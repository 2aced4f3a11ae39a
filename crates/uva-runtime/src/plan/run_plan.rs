//! The plan of a run over its dataset: schedule, layout and rings. It depends only on dataset and options, so every
//! role computes the same plan.

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use uva_batch::{Aggregation, BatchHeader, BatchLayout, SlotRoom};
use uva_graph::{Dataset, Split};
use uva_mem::ring::{Ring, RingShape};
use uva_rows::cache::eviction::Eviction;

use crate::backend::{Backend, CufileReport, GatherChoice, GpuSlots};
use crate::control::{CONSUMER, Control};
use crate::machine;
use crate::options::Prepare;
use crate::options::batch_kind::RunData;
use crate::options::checked_files::CheckedFiles;
use crate::options::hop_options::HopRowsPlace;
use crate::options::look_ahead::LookAhead;
use crate::options::part::Part;
use crate::options::reader::{DiskReader, Features};
use crate::options::schedule::{Schedule, ScheduleItem, Turn};
use crate::plan::feature_choice::FeatureChoice;
use crate::plan::page_choice::PageChoice;
use crate::sampler::cache::Caches;
use crate::sampler::presample::{SAMPLES, with_nodes};
use crate::{LoaderOptions, Passes, RuntimeError};
use uva_options::ByteSize;
use uva_options::OptionError;

/// Default number of batch slots for small batches, unless more are needed.
const SLOTS_OF_SMALL_BATCHES: usize = 8;

/// A batch is small if the largest one has at most this many bytes: all slots together are then smaller than a usual
/// feature slot.
const SMALL_BATCH_BYTES: usize = 1 << 20;

/// The rings of a run, in the order in which a batch passes through them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RingName {
    /// From the samplers to the producer: node ids and blocks.
    Batch,
    /// From the producer to the consumer: whole batches.
    Feature,
}

impl RingName {
    /// All rings.
    pub const ALL: [Self; 2] = [Self::Batch, Self::Feature];

    /// Its name in messages.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Batch => "batch",
            Self::Feature => "feature",
        }
    }
}

impl std::fmt::Display for RingName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// Options made concrete.
#[derive(Clone, Debug, PartialEq)]
pub struct RunPlan {
    /// The options it was made from.
    pub options: LoaderOptions,
    /// The numbers of batches.
    pub schedule: Schedule,
    /// The layout of batches in slots.
    pub layout: Arc<BatchLayout>,
    /// The place of gathering and training.
    pub backend: Backend,
    /// The caches.
    pub caches: Caches,
    /// Rows of the feature table, for messages.
    pub table_rows: usize,
    /// Nodes of each type, for messages.
    pub type_rows: Vec<usize>,
    /// Whether the feature table is divided among ranks.
    pub divided: bool,
    /// The place from which rows are read, in the process that chose it.
    pub features: Option<FeatureChoice>,
    /// The pages of rows in memory, in the process that chose them.
    pub pages: Option<PageChoice>,
    /// Whether the run writes checkpoints. The message about a failure then explains how to resume.
    pub checkpointed: bool,
}

impl RunPlan {
    /// Plans a run.
    ///
    /// # Errors
    /// [`RuntimeError::Usage`] for invalid options, [`RuntimeError::Input`] for a dataset without training nodes, or
    /// without weights if edges are picked by weight.
    pub fn new(dataset: &Dataset, options: &LoaderOptions, passes: Passes) -> Result<Self, RuntimeError> {
        options.check()?;
        // A batch with more seeds than any split is the whole split, so memory is sized by the longest split. The size
        // is one more than that, so that --drop-last distinguishes it from a whole batch.
        let longest = Split::ALL.into_iter().map(|split| dataset.seed_count(split)).max().unwrap_or(0);
        let batch_size = options.batch_size.min(longest + 1);
        let gather_threads = match options.prepare {
            Prepare::Roles => options.gather_threads,
            // A worker is one thread.
            Prepare::Whole => 1,
        };
        let given_batch_size = options.batch_size;
        let options = &LoaderOptions { batch_size, gather_threads, ..options.clone() };
        if passes.epochs > 0 && dataset.seed_count(Split::Train) == 0 {
            let problem = format!("{}: there is nothing to train on", dataset.words().no_training);
            return Err(RuntimeError::input(problem).in_file(dataset.path()));
        }
        options.check_dataset(dataset)?;
        let options = match passes.epochs > 0 || passes.steered {
            true => &options.with_order(dataset)?,
            false => options,
        };
        let options = &options.with_shapes(dataset, Split::Train)?;
        let batches = |split| batches(options, split, dataset.seed_count(split));
        let (train, valid, test) = (batches(Split::Train), batches(Split::Valid), batches(Split::Test));
        if passes.epochs > 0 && train == 0 {
            return Err(OptionError::of(
                "drop_last",
                format!(
                    "with `batch_size={given_batch_size}` it leaves no training batch: there are only {} training nodes",
                    dataset.seed_count(Split::Train)
                ),
            )
            .into());
        }
        let layout = Arc::new(BatchLayout::new(dataset, &options.batch_spec(dataset)?)?);
        let batch_slots = batch_slots(options, &layout);
        if let LookAhead::Batches(batches) = options.look_ahead
            && batches > 0
            && batches >= batch_slots
        {
            let reason = format!(
                "there are {batch_slots} batch slots, of which the current batch uses one: give {} or less, or `batch_slots={}`",
                batch_slots.saturating_sub(1),
                batches + 1
            );
            return Err(OptionError::new("look_ahead", batches, reason).into());
        }
        let schedule =
            Schedule::new(passes, options.part, [train, valid, test]).with_standby(options.standby);
        let schedule = match dataset.own_rows() {
            Some(_) => schedule.in_step(),
            None => schedule,
        };
        Ok(Self {
            options: options.clone(),
            schedule,
            layout,
            backend: Backend::Cpu,
            caches: Caches::default(),
            table_rows: dataset.nodes(),
            type_rows: dataset.metagraph().types().map(|of| dataset.nodes_of(of)).collect(),
            divided: dataset.own_rows().is_some(),
            features: None,
            pages: None,
            checkpointed: false,
        })
    }

    /// The plan of another of the processes that divide its epochs.
    #[must_use]
    pub fn of_rank(&self, dataset: &Dataset, index: u32) -> Self {
        let part = Part { index, ..self.options.part };
        let options = LoaderOptions { part, ..self.options.clone() };
        let batches = Split::ALL.map(|split| batches(&options, split, dataset.seed_count(split)));
        let schedule = Schedule::new(self.schedule.passes(), part, batches).with_standby(options.standby);
        Self { options, schedule, ..self.clone() }
    }

    /// Checks that workers can prepare whole batches on this backend, with a feature cache of this eviction, if there
    /// is one, and on the requested cores. For the process that starts the run.
    ///
    /// # Errors
    /// [`RuntimeError::Option`] with an alternative.
    pub fn check_prepare(
        &self,
        backend: &Backend,
        eviction: Option<&'static Eviction>,
    ) -> Result<(), RuntimeError> {
        let prepare = self.options.prepare;
        if prepare != Prepare::Whole {
            return Ok(());
        }
        let refused = |reason: String| Err(OptionError::new("prepare", prepare, reason).into());
        if let Some(cuda) = backend.cuda() {
            return refused(format!(
                "workers sample and gather for a model on the CPU, but this run is on GPU {}: omit `prepare`, or \
                 give `device=cpu`",
                cuda.ordinal
            ));
        }
        if let Some(eviction) = eviction {
            return refused(format!(
                "not supported with `cache_policy={}`: such a cache follows the batches in order, but workers make several \
                 at once. Choose a policy that keeps the same rows, or omit `prepare`",
                eviction.name
            ));
        }
        match &self.options.pin_cores {
            None => Ok(()),
            // Workers that cannot be pinned report this, and continue unpinned.
            Some(pin) => machine::allowed_cores().map_or(Ok(()), |allowed| pin.check(&allowed)),
        }
    }

    /// Checks that a look-ahead is useful with a feature cache of this eviction, if there is such a cache.
    ///
    /// # Errors
    /// [`RuntimeError::Option`] with an alternative.
    pub fn check_look_ahead(&self, eviction: Option<&'static Eviction>) -> Result<(), RuntimeError> {
        match (self.options.look_ahead, eviction) {
            (LookAhead::Batches(batches @ 1..), Some(eviction)) => {
                let reason = format!(
                    "not supported with `cache_policy={}`: such a cache evicts by past reads, not by known future reads. \
                     Give `host_cache` instead of `gpu_cache`",
                    eviction.name
                );
                Err(OptionError::new("look_ahead", batches, reason).into())
            }
            _ => Ok(()),
        }
    }

    /// Checks that the run's sums are supported with a feature cache of this eviction on this backend, if there is one.
    ///
    /// # Errors
    /// [`RuntimeError::Option`] with an alternative.
    pub fn check_eviction(
        &self,
        backend: &Backend,
        eviction: Option<&'static Eviction>,
    ) -> Result<(), RuntimeError> {
        match eviction {
            Some(eviction) if backend.device_slots().is_some_and(|cuda| cuda.gather == GatherChoice::Dma) => {
                let reason = "not supported with `gather=dma`: the CPU skips the rows that are cached on the GPU, but an \
                              evicting cache may drop them before the kernel reads them. Choose a policy that keeps the same \
                              rows, such as `cache_policy=presample`, or give `gather=zero-copy`";
                Err(OptionError::new("cache_policy", eviction.name, reason).into())
            }
            _ => Ok(()),
        }
    }

    /// Maximum number of seeds of a batch in any pass over this dataset's splits.
    pub fn largest_batch(&self, dataset: &Dataset) -> usize {
        let longest = Split::ALL.into_iter().map(|split| dataset.seed_count(split)).max().unwrap_or(0);
        self.options.batch_size.min(longest)
    }

    /// Sizes feature slots on a GPU for batches as they are sampled, if the options of this backend leave the size
    /// open. `main` is the split whose batches are sampled; a run that evaluates sampled batches of other splits
    /// samples those too. For the process that plans a run, which passes the result to the others.
    ///
    /// # Errors
    /// Errors of sampling 20 batches of each of these splits.
    pub fn sized(mut self, dataset: &Dataset, backend: &Backend, main: Split) -> Result<Self, RuntimeError> {
        let asked = backend.device_slots().is_some_and(|cuda| cuda.gpu_slots == GpuSlots::Sampled);
        let asked = asked && self.layout.sizes_vary();
        if !asked || self.options.slot_bytes.is_some() || self.options.slot_room.is_some() {
            return Ok(self);
        }
        let passes = self.schedule.passes();
        let mut splits = vec![with_nodes(dataset, main)];
        for (split, is_used) in [(Split::Valid, passes.validate), (Split::Test, passes.test)] {
            if is_used && !splits.contains(&split) {
                splits.push(split);
            }
        }
        let room = self.options.likely_room(dataset, &self.layout, &splits)?;
        let largest = SlotRoom::largest(&self.layout);
        let beside = self.options.gathers_before_sums;
        let saves = |room: &SlotRoom| room.bytes < largest.bytes || beside && room.nodes < largest.nodes;
        self.options.slot_room = room.filter(saves);
        Ok(self)
    }

    /// The capacity of a feature slot on a GPU.
    pub fn slot_room(&self) -> SlotRoom {
        self.options.slot_room.unwrap_or_else(|| SlotRoom::largest(&self.layout))
    }

    /// Whether the batch of this header fits a feature slot on a GPU. Otherwise it passes through the ring's memory on
    /// the host. The result is the same in each role.
    pub fn fits_slot(&self, header: &BatchHeader) -> bool {
        self.slot_room().holds(&self.layout, header)
    }

    /// The capacity of feature slots on a GPU, with its reason; `None` if they are in host memory.
    pub fn gpu_slots(&self) -> Option<SlotsInForce> {
        let cuda = self.backend.device_slots()?;
        let reason = match (self.options.slot_room, self.options.slot_bytes, cuda.gpu_slots) {
            (Some(_), ..) if self.layout.shapes().is_some() => {
                "batches are padded to static shapes; a larger batch is copied through host memory".to_owned()
            }
            (Some(_), ..) => format!(
                "mean plus five standard deviations of {SAMPLES} sampled batches; a larger batch is copied through host memory"
            ),
            (None, Some(bytes), _) => {
                format!("no batch is larger, with `slot_bytes={}`", ByteSize::from_bytes(bytes).value())
            }
            (None, None, _) if !self.layout.sizes_vary() => "batches of a hop set have one size".to_owned(),
            (None, None, GpuSlots::Largest) => "requested".to_owned(),
            (None, None, GpuSlots::Sampled) => {
                "sampled batches are nearly as large as the largest possible batch".to_owned()
            }
        };
        Some(SlotsInForce {
            bytes: self.slot_room().bytes as u64,
            largest_bytes: self.layout.device_slot_bytes() as u64,
            reason,
        })
    }

    /// Sets the backend.
    pub fn on(mut self, backend: Backend) -> Self {
        self.backend = backend;
        self
    }

    /// Determines the place from which rows are read on this backend, unless it is already determined.
    ///
    /// # Errors
    /// See [`FeatureChoice::new`].
    pub(crate) fn with_features(
        mut self,
        dataset: &Dataset,
        backend: &Backend,
    ) -> Result<Self, RuntimeError> {
        if self.features.is_none() {
            let kernels_sum =
                self.layout.aggregation() != Aggregation::None && self.options.gathers_before_sums;
            let choice = FeatureChoice::new(&self.options, dataset, (backend, kernels_sum))?;
            self.options.features = choice.features;
            if choice.features == Features::Disk {
                self.options.checked_files = Some(CheckedFiles::of(dataset));
            }
            self.features = Some(choice);
        }
        Ok(self)
    }

    /// The GPU and the files of a run whose rows cuFile may read from the files of its hop set; `None` if rows come
    /// another way.
    pub fn cufile_might_read(&self, dataset: &Dataset) -> Option<(usize, Vec<PathBuf>)> {
        let cuda = self.backend.device_slots()?;
        let is_left = matches!(self.options.reader, DiskReader::Auto | DiskReader::Cufile);
        let from_disk = self.features.as_ref()?.place() == HopRowsPlace::Disk;
        if !is_left || !from_disk {
            return None;
        }
        let files = RunData::of(dataset, &self.options).files_for_cufile().ok()?;
        Some((cuda.ordinal, files))
    }

    /// Determines whether cuFile reads the rows, by the result of a trial.
    ///
    /// # Errors
    /// [`RuntimeError::Missing`] if it was requested and does not work.
    pub fn by_cufile(mut self, found: CufileReport) -> Result<Self, RuntimeError> {
        let is_asked = self.options.reader == DiskReader::Cufile;
        let refused = match (found.refused, &found.compatibility) {
            // Other readers work in the same way, without a copy in the library's memory.
            (None, Some(why)) if !is_asked => {
                Some(format!("it would pass through host memory, in compatibility mode: {why}"))
            }
            (refused, _) => refused,
        };
        self.features = match refused {
            None => {
                self.options.reader = DiskReader::Cufile;
                self.features.map(|choice| choice.with_cufile(found.compatibility.as_deref()))
            }
            Some(why) if is_asked => {
                return Err(RuntimeError::missing(why)
                    .with_option("reader", DiskReader::Cufile)
                    .with_remedy(
                        "`reader=auto` uses the first reader that works, and `place=host` reads the mapped files",
                    ));
            }
            Some(why) => self.features.map(|choice| choice.without_cufile(&why)),
        };
        Ok(self)
    }

    /// Places the training rows of a hop set in the memory of its GPU, for this reason.
    pub fn on_device(mut self, reason: String) -> Self {
        if let Backend::Cuda(cuda) = &mut self.backend {
            cuda.gather = GatherChoice::Device;
        }
        self.features = self.features.map(|choice| choice.on_gpu(reason));
        self
    }

    /// Keeps the training rows of a hop set out of the GPU's memory, because of this obstacle.
    pub fn beside_device(mut self, obstacle: &str) -> Self {
        self.features = self.features.map(|choice| choice.beside_gpu(obstacle));
        self
    }

    /// Sets the caches.
    pub fn with_caches(mut self, caches: Caches) -> Self {
        self.caches = caches;
        self
    }

    /// Sets whether the run writes checkpoints.
    pub fn checkpointed(mut self, checkpointed: bool) -> Self {
        self.checkpointed = checkpointed;
        self
    }

    /// Batch slots between samplers and producer: as requested, otherwise the minimum, or `SLOTS_OF_SMALL_BATCHES` for
    /// small batches. 0 if workers prepare whole batches.
    pub fn batch_slots(&self) -> usize {
        batch_slots(&self.options, &self.layout)
    }

    /// Batches that the producer looks ahead. 0 if rows are not read from disk, or a cache evicts, and for hop sets,
    /// whose rows come in runs.
    pub fn look_ahead(&self) -> usize {
        let table_on_disk = self.options.features == Features::Disk && self.layout.reads_rows_by_id();
        if !table_on_disk || self.options.prepare == Prepare::Whole {
            return 0;
        }
        match self.options.look_ahead {
            LookAhead::Auto if self.caches.dynamic.is_some() => 0,
            LookAhead::Auto => LookAhead::AUTO.min(self.batch_slots().saturating_sub(1)),
            LookAhead::Batches(batches) => batches,
        }
    }

    /// Bytes of a feature slot, in host memory or on a GPU.
    pub fn feature_slot_bytes(&self) -> usize {
        match self.backend.device_slots() {
            None => self.layout.feature_slot_bytes(),
            Some(_) => self.slot_room().bytes,
        }
    }

    /// Bytes of all feature slots on a GPU.
    pub fn device_bytes(&self) -> usize {
        self.slot_room().bytes.saturating_mul(self.options.feature_slots)
    }

    /// Maximum bytes of one upload to a slot on a GPU, with or without a sampler that makes its columns on the GPU.
    pub fn upload_bytes(&self, sampled_on_gpu: bool) -> usize {
        self.layout.upload_bytes(sampled_on_gpu).min(self.slot_room().bytes)
    }

    /// The number of slots of a ring, and the payload of each.
    pub fn ring_shape(&self, name: RingName) -> RingShape {
        match name {
            RingName::Batch => {
                RingShape { slots: self.batch_slots() as u32, payload_bytes: self.layout.batch_bytes() }
            }
            RingName::Feature => RingShape {
                slots: self.options.all_feature_slots() as u32,
                // With the rows on a GPU, the ring has only headers, followed by batches that do not fit on the GPU.
                // Its pages are allocated only for such a batch.
                payload_bytes: match (self.backend.device_slots(), self.options.slot_room) {
                    (None, _) => self.layout.feature_slot_bytes(),
                    (Some(_), None) => self.layout.header_bytes(),
                    (Some(_), Some(_)) => self.layout.header_bytes() + self.layout.device_slot_bytes(),
                },
            },
        }
    }

    /// Creates a ring that can be passed to other processes.
    ///
    /// # Errors
    /// [`RuntimeError::Failed`] if memory cannot be allocated.
    pub fn create_ring(&self, name: RingName) -> Result<Ring, RuntimeError> {
        Ok(Ring::create(name.name(), self.ring_shape(name))?)
    }

    /// Creates a ring for the threads of this process.
    ///
    /// # Errors
    /// See [`RunPlan::create_ring`].
    pub fn ring_for_threads(&self, name: RingName) -> Result<Ring, RuntimeError> {
        Ok(Ring::for_threads(name.name(), self.ring_shape(name))?)
    }

    /// Opens a ring that another process has made.
    ///
    /// # Errors
    /// [`RuntimeError::Failed`] if it has another shape.
    pub fn open_ring(&self, name: RingName, fd: OwnedFd) -> Result<Ring, RuntimeError> {
        Ok(Ring::open(name.name(), fd, self.ring_shape(name))?)
    }

    /// The position of the role at this index of the control page, for messages.
    pub fn whereabouts(&self, control: &Control, place: usize) -> String {
        let evaluation = control.evaluation().filter(|_| place == CONSUMER);
        match evaluation.and_then(|(split, epoch)| evaluating(split, epoch)) {
            Some(evaluating) => evaluating,
            None => self.describe(control.position(place), control.turn()),
        }
    }

    /// The pass and batch of a sequence number, for messages.
    fn describe(&self, sequence: u64, turn: Option<Turn>) -> String {
        match self.schedule.item(sequence, turn) {
            ScheduleItem::Batch(key) => format!("at {key}"),
            ScheduleItem::Beside(key) => {
                format!("during the last {} batch of other ranks (sequence {sequence})", key.split)
            }
            ScheduleItem::Skipped | ScheduleItem::End => {
                format!("after the last batch (sequence {sequence})")
            }
        }
    }
}

/// The capacity of feature slots on a GPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SlotsInForce {
    /// Bytes of each slot.
    pub bytes: u64,
    /// Bytes of the largest possible batch.
    pub largest_bytes: u64,
    /// The reason for this capacity.
    pub reason: String,
}

/// See [`RunPlan::batch_slots`].
fn batch_slots(options: &LoaderOptions, layout: &BatchLayout) -> usize {
    if options.prepare == Prepare::Whole {
        return 0;
    }
    let fewest = options.fewest_batch_slots();
    let usual =
        if layout.batch_bytes() <= SMALL_BATCH_BYTES { fewest.max(SLOTS_OF_SMALL_BATCHES) } else { fewest };
    options.batch_slots.unwrap_or(usual)
}

/// The full evaluation that a consumer is in, for messages.
#[must_use]
pub fn evaluating(split: Split, epoch: u32) -> Option<String> {
    match split {
        Split::Train => None,
        Split::Valid => Some(format!(
            "in the full evaluation of the validation nodes after epoch {}",
            u64::from(epoch) + 1
        )),
        Split::Test => Some("in the full evaluation of the test nodes".to_owned()),
    }
}

/// Batches of a pass over a split of `length` nodes: those of its [`EpochOrder`](uva_sample::EpochOrder), without
/// allocating it.
pub(crate) fn batches(options: &LoaderOptions, split: Split, length: usize) -> usize {
    let drop_last = split == Split::Train && options.drop_last;
    if drop_last { length / options.batch_size } else { length.div_ceil(options.batch_size) }
}

#[cfg(test)]
mod tests {
    use uva_sample::SeedOrder;

    use super::*;

    #[test]
    fn the_plan_counts_the_batches_that_the_seed_order_has() {
        for length in [0, 1, 9, 10, 11, 20] {
            for (split, drop_last) in [(Split::Train, false), (Split::Train, true), (Split::Test, true)] {
                let options = LoaderOptions { batch_size: 10, drop_last, ..LoaderOptions::default() };
                let train = split == Split::Train;
                let order = SeedOrder::new(0, split, length, train, 10, train && drop_last).unwrap();
                assert_eq!(batches(&options, split, length), order.batches(), "{split} {length} {drop_last}");
            }
        }
    }
}
