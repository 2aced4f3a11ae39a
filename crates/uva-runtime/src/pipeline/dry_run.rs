//! The processes and memory of a run, for `--dry-run`.

use serde::Serialize;
use uva_graph::reorder::ReorderedLayout;
use uva_graph::{Dataset, Split};
use uva_mem::ring::RingShape;
use uva_plan::CachePlan;

use crate::backend::SamplerChoice;
use crate::feed::device::{bytes_on_gpu, stays_on_gpu};
use crate::feed::rows::RowTree;
use crate::machine::memory::{MemoryHolder, MemoryKind, MemoryLine, program};
use crate::options::part::Standby;
use crate::options::reader::Features;
use crate::pipeline::makers::maker_of;
use crate::plan::topology::{PlacedRing, Placement, Topology};
use crate::plan::{RingName, RunPlan, SlotsInForce};
use crate::sampler::cache::Caches;
use crate::tune::planning::{Budget, CacheRequest};

/// The processes and memory that a run would use. They are neither started nor allocated.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DryRun {
    /// Number of ranks that divide the epochs; the rings are those of each rank. Absent without ranks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ranks: Option<usize>,
    /// The stages, in the order in which a batch passes through them.
    pub stages: Vec<StageLine>,
    /// The rings, in the same order.
    pub rings: Vec<RingLine>,
    /// The capacity of feature slots on a GPU; absent if they are in host memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpu_slots: Option<SlotsInForce>,
    /// The path of the batches' feature rows, from the place of reading to the slot.
    pub rows: String,
    /// An estimate of the run's memory, item by item: the programs, the mapped files, rings of the largest batches.
    pub memory: Vec<MemoryLine>,
    /// Choices that are made only when the run starts.
    pub decided_at_start: Vec<String>,
}

/// A stage.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StageLine {
    /// Its name.
    pub stage: String,
    /// Whether it is a thread of the process above it, or a separate process: `process 1`, `thread`.
    pub runs: String,
    /// The device it works on: `cpu`, `cuda:0`.
    pub device: String,
    /// The ring it takes batches from.
    pub reads: Option<&'static str>,
    /// The ring it writes batches to.
    pub writes: Option<&'static str>,
}

/// A ring.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RingLine {
    /// Its name.
    pub ring: &'static str,
    /// Slots.
    pub slots: u32,
    /// Bytes of a slot's payload, in host memory.
    pub slot_bytes: u64,
    /// Bytes of a slot on the GPU, if the batches' arrays are on it.
    pub device_slot_bytes: u64,
}

/// Ranks that divide the epochs of a run, and their devices.
#[derive(Clone, Copy, Debug)]
pub struct PlacedRanks<'a> {
    /// Number of ranks.
    pub count: usize,
    /// Whether they share the samplers.
    pub share_samplers: bool,
    /// The standby ranks, which train only from a batch of each epoch on. They are the last ranks.
    pub standby: Standby,
    /// The GPU of each rank; empty for the CPU.
    pub devices: &'a [usize],
    /// The GPU of each shared sampler; empty for the CPU.
    pub sampler_devices: &'a [usize],
}

/// The caches of a run that has not started.
pub enum PlannedCaches<'a> {
    /// No caches.
    None,
    /// Caches of a plan from a file.
    Plan(&'a CachePlan),
    /// Caches that are chosen at the start.
    Find(&'a CacheRequest),
}

impl PlannedCaches<'_> {
    /// The caches of the run, with a single row if rows are cached.
    fn expected(&self, features: Features) -> Caches {
        let (rows, dynamic, kept_bytes) = match self {
            Self::None => (0, None, None),
            Self::Plan(cached) => (cached.row_ids.len().min(1), None, None),
            Self::Find(CacheRequest::Planned(_)) => (1, None, None),
            Self::Find(CacheRequest::Find { policy, .. }) => (1, policy.eviction(), None),
            Self::Find(CacheRequest::BeforeDisk { .. }) if features == Features::Disk => (1, None, Some(0)),
            Self::Find(CacheRequest::BeforeDisk { .. }) => (0, None, None),
        };
        Caches { rows, dynamic, kept_bytes, ..Caches::default() }
    }
}

impl DryRun {
    /// The dry run of this plan with its stages placed like this. `more` is memory that the plan does not include.
    pub fn new(
        dataset: &Dataset,
        plan: &RunPlan,
        placement: Placement,
        caches: &PlannedCaches<'_>,
        more: Vec<MemoryLine>,
    ) -> Self {
        let topology = Topology::new(plan, placement);
        let backend = &plan.backend;
        // Numbered in the order in which a batch passes through them.
        let mut processes = Vec::new();
        let mut number = |process| {
            processes.iter().position(|known| *known == process).unwrap_or_else(|| {
                processes.push(process);
                processes.len() - 1
            }) + 1
        };
        let stages = topology.stages.iter().map(|placed| {
            let role = placed.stage.role;
            StageLine {
                stage: placed.stage.title(plan.options.samplers),
                runs: match placement {
                    Placement::Threads => "thread".to_owned(),
                    Placement::Processes => format!("process {}", number(placed.process)),
                },
                device: if role.is_on_gpu(backend) { backend.device_name() } else { "cpu".to_owned() },
                reads: role.reads().map(|ring| ring.name()),
                writes: role.writes().map(|ring| ring.name()),
            }
        });
        let stages: Vec<StageLine> = stages.collect();
        // The launcher and the janitor, and one program per process of the stages, without the consumer, which is
        // another program.
        let programs = match placement {
            Placement::Threads => 1,
            Placement::Processes => 1 + processes.len() as u64,
        };
        let gpu_slots = plan.gpu_slots();
        let device_slot_bytes = gpu_slots.as_ref().map_or(0, |slots| slots.bytes);
        // Pages for batches that do not fit on the GPU are allocated only for such a batch.
        let in_memory = |ring: &PlacedRing| match (ring.name, &gpu_slots) {
            (RingName::Feature, Some(_)) => {
                RingShape { payload_bytes: plan.layout.header_bytes(), ..ring.shape }
            }
            _ => ring.shape,
        };
        let rings = topology.rings.iter().map(|ring| RingLine {
            ring: ring.name.name(),
            slots: ring.shape.slots,
            slot_bytes: in_memory(ring).payload_bytes as u64,
            device_slot_bytes: if ring.name == RingName::Feature { device_slot_bytes } else { 0 },
        });
        let mut dry = Self {
            ranks: None,
            stages,
            rings: rings.collect(),
            gpu_slots: gpu_slots.clone(),
            rows: String::new(),
            memory: Vec::new(),
            decided_at_start: Vec::new(),
        };
        for ring in &topology.rings {
            let bytes = in_memory(ring).region_bytes().unwrap_or(usize::MAX) as u64;
            dry.takes(&format!("{} ring", ring.name), MemoryKind::Host, bytes);
        }
        // Only the existence of a cache is known, not yet its rows.
        let plan = &plan.clone().with_caches(caches.expected(plan.options.features));
        let rows = RowTree::of(plan);
        dry.takes("programs", MemoryKind::Host, programs * program::OWN);
        dry.memory.push(MemoryLine::once("programs", MemoryKind::Mapped, program::CODE));
        dry.memory.extend(maker_of(dataset, plan).memory());
        dry.add_device(plan);
        dry.memory.extend(rows.memory(dataset, plan));
        dry.add_sampler(dataset, plan);
        dry.add_caches(dataset, plan, caches);
        dry.rows = rows.to_string();
        if plan.options.sums_chosen_for.is_some() {
            dry.decided_at_start.push(
                "sums of the first layer: the run's first training batches try both ways, and slots have room for either"
                    .to_owned(),
            );
        }
        if let Some(made) = plan.options.made_order.as_ref().filter(|made| made.has_sequences()) {
            dry.memory.push(MemoryLine::once("sequences of the seed order", MemoryKind::Host, made.bytes()));
            // Each sampler has the order of its epoch: a position per seed, and a mark.
            let seeds = dataset.split(Split::Train).len() as u64;
            let of_sampler = 4 * seeds + seeds.div_ceil(8);
            let bytes = of_sampler * plan.options.samplers as u64;
            let epochs = MemoryLine::new("epochs of the seed order", MemoryKind::Host, bytes);
            dry.memory.push(MemoryLine { held: MemoryHolder::BySamplers, ..epochs });
        }
        dry.memory.extend(more);
        dry
    }

    /// Extends the dry run to all of these ranks, of which this is one: a consumer, stages and rings for each, in
    /// processes.
    #[must_use]
    pub fn of_ranks(mut self, ranks: &PlacedRanks<'_>) -> Self {
        let is_sampler = |line: &StageLine| line.writes == Some(RingName::Batch.name());
        let (shared, of_one): (Vec<_>, Vec<_>) = std::mem::take(&mut self.stages)
            .into_iter()
            .partition(|line| ranks.share_samplers && is_sampler(line));
        let mut processes = 0;
        for (index, line) in shared.into_iter().enumerate() {
            processes += 1;
            let gpu = ranks.sampler_devices.get(index).map(|gpu| format!("cuda:{gpu}"));
            self.stages.push(StageLine {
                stage: format!("{} of all ranks", line.stage),
                runs: format!("process {processes}"),
                device: gpu.unwrap_or_else(|| line.device.clone()),
                ..line
            });
        }
        let mut numbers: Vec<&str> = of_one.iter().map(|line| line.runs.as_str()).collect();
        numbers.dedup();
        let trainers = ranks.count - ranks.standby.ranks as usize;
        for rank in 0..ranks.count {
            let from = match rank < trainers {
                true => String::new(),
                false => format!(", from batch {} on", ranks.standby.from),
            };
            for line in &of_one {
                let number = numbers.iter().position(|known| *known == line.runs).unwrap_or(0);
                let gpu = ranks.devices.get(rank).filter(|_| line.device != "cpu");
                self.stages.push(StageLine {
                    stage: format!("{} of rank {rank}{from}", line.stage),
                    runs: format!("process {}", processes + rank * numbers.len() + number + 1),
                    device: gpu.map_or_else(|| line.device.clone(), |gpu| format!("cuda:{gpu}")),
                    ..line.clone()
                });
            }
        }
        // A GPU that samples may also belong to a rank.
        let train_only = ranks.devices.iter().filter(|gpu| !ranks.sampler_devices.contains(gpu)).count();
        let (count, gpus) = (ranks.count, train_only + ranks.sampler_devices.len());
        for line in &mut self.memory {
            let (times, of) = match line.held {
                MemoryHolder::Once => continue,
                MemoryHolder::BySamplers if ranks.share_samplers => (count.min(2), "of all ranks".to_owned()),
                MemoryHolder::ByGpu if gpus > 0 => (gpus, format!("of {gpus} GPUs")),
                MemoryHolder::ByRank | MemoryHolder::BySamplers | MemoryHolder::ByGpu => {
                    (count, format!("of {count} ranks"))
                }
            };
            line.item = format!("{}, {of}", line.item);
            line.bytes = line.bytes.saturating_mul(times as u64);
        }
        self.ranks = Some(count);
        self
    }

    /// Bytes of a kind of memory.
    #[must_use]
    pub fn bytes(&self, kind: MemoryKind) -> u64 {
        let of_kind = self.memory.iter().filter(|line| line.kind == kind);
        of_kind.fold(0, |sum, line| sum.saturating_add(line.bytes))
    }

    fn takes(&mut self, item: &str, kind: MemoryKind, bytes: u64) {
        self.memory.push(MemoryLine::new(item, kind, bytes));
    }

    fn add_device(&mut self, plan: &RunPlan) {
        if plan.backend.device_slots().is_none() {
            return;
        }
        let batches_on_gpu = stays_on_gpu(plan);
        self.takes("feature slots", MemoryKind::Device, plan.device_bytes() as u64);
        let staging = plan.upload_bytes(batches_on_gpu) as u64;
        let staging = staging.saturating_mul(plan.options.feature_slots as u64);
        self.takes("staging of ids and blocks", MemoryKind::Pinned, staging);
        if batches_on_gpu {
            self.takes("batches of the GPU sampler", MemoryKind::Device, bytes_on_gpu(plan) as u64);
        }
    }

    fn add_sampler(&mut self, dataset: &Dataset, plan: &RunPlan) {
        let Some(cuda) = plan.backend.cuda() else { return };
        match cuda.sampler {
            SamplerChoice::Gpu => {
                let graph = ReorderedLayout::new(dataset).bytes() as u64;
                self.memory.push(MemoryLine::once("graph", MemoryKind::Pinned, graph));
                if plan.options.sampler_kind.needs_weights() {
                    let weights = size_of_val(dataset.weights().unwrap_or_default()) as u64;
                    self.memory.push(MemoryLine::once("weights of the edges", MemoryKind::Pinned, weights));
                }
            }
            SamplerChoice::Auto => self.decided_at_start.push(
                "sampler: CPU and GPU are timed, and the faster one samples; a GPU sampler pins the graph"
                    .to_owned(),
            ),
            SamplerChoice::Cpu => {}
        }
    }

    fn add_caches(&mut self, dataset: &Dataset, plan: &RunPlan, caches: &PlannedCaches<'_>) {
        let on_gpu = plan.backend.device_slots().is_some();
        let kind = if on_gpu { MemoryKind::Device } else { MemoryKind::Host };
        match caches {
            PlannedCaches::None => {}
            PlannedCaches::Plan(cached) => {
                self.takes("caches of the plan", kind, cached.bytes());
                if !cached.list_ids.is_empty() {
                    let graph = ReorderedLayout::new(dataset).bytes() as u64;
                    let item = "graph in the order of the list cache";
                    self.memory.push(MemoryLine::once(item, MemoryKind::Host, graph));
                }
            }
            PlannedCaches::Find(CacheRequest::Find { budget: Budget::Bytes(bytes), .. }) => {
                let caches = MemoryLine::new("caches, at most", kind, *bytes);
                self.memory.push(MemoryLine { held: MemoryHolder::ByGpu, ..caches });
                self.decided_at_start.push("caches: the lists and rows that they hold".to_owned());
            }
            PlannedCaches::Find(CacheRequest::BeforeDisk { .. }) if plan.options.features != Features::Disk => {}
            PlannedCaches::Find(CacheRequest::BeforeDisk { budget: Budget::Bytes(bytes) }) => {
                self.takes("rows cached from disk, at most", MemoryKind::Host, *bytes);
                self.decided_at_start.push("host cache: the rows that it holds throughout".to_owned());
            }
            PlannedCaches::Find(CacheRequest::BeforeDisk { budget: Budget::Auto }) => self.decided_at_start.push(
                "host cache: its size, which is a quarter of the memory available, and the rows that it holds throughout"
                    .to_owned(),
            ),
            PlannedCaches::Find(_) => self.decided_at_start.push(
                "caches: their size, which is what one training batch leaves free, and what they hold"
                    .to_owned(),
            ),
        }
    }
}
