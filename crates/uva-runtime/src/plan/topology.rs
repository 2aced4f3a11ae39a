//! A run as data: its stages, the rings between them, the process of each stage, and the resources of each process.
//!
//! The plan determines the topology once. `wiring` connects the stages of one process; the launcher starts and connects
//! the processes. Both depend only on the topology, and not on a named arrangement.

use std::fmt;

use serde::{Deserialize, Serialize};
use uva_mem::ring::RingShape;

use crate::backend::Backend;
use crate::control::{CONSUMER, FIRST_SAMPLER, PRODUCER};
use crate::options::Prepare;
use crate::options::seed_order::MadeOrder;
use crate::plan::{RingName, RunPlan};

/// The work of a stage on a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Picks seeds and neighbours.
    Sampler,
    /// Gathers feature rows.
    Producer,
    /// Samples and gathers, in place of samplers and a producer.
    Worker,
    /// Trains.
    Consumer,
}

impl Role {
    /// All roles, in the order in which a batch passes through them.
    pub const ALL: [Self; 4] = [Self::Sampler, Self::Producer, Self::Worker, Self::Consumer];

    /// The role's name, which is also the argument that starts a process of it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Sampler => "sampler",
            Self::Producer => "producer",
            Self::Worker => "worker",
            Self::Consumer => "consumer",
        }
    }

    /// The ring that the role takes batches from.
    #[must_use]
    pub fn reads(self) -> Option<RingName> {
        match self {
            Self::Sampler | Self::Worker => None,
            Self::Producer => Some(RingName::Batch),
            Self::Consumer => Some(RingName::Feature),
        }
    }

    /// The ring that the role writes batches to.
    #[must_use]
    pub fn writes(self) -> Option<RingName> {
        match self {
            Self::Sampler => Some(RingName::Batch),
            Self::Producer | Self::Worker => Some(RingName::Feature),
            Self::Consumer => None,
        }
    }

    /// Whether the role works on the GPU of this backend.
    #[must_use]
    pub fn is_on_gpu(self, backend: &Backend) -> bool {
        match self {
            Self::Sampler => backend.gpu_sampler().is_some(),
            Self::Producer | Self::Consumer => backend.cuda().is_some(),
            Self::Worker => false,
        }
    }
}

/// One stage of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RunStage {
    /// Its role.
    pub role: Role,
    /// Its number among the stages of the same role.
    pub index: usize,
}

impl RunStage {
    /// The producer.
    pub const PRODUCER: Self = Self { role: Role::Producer, index: 0 };
    /// The consumer.
    pub const CONSUMER: Self = Self { role: Role::Consumer, index: 0 };

    /// The sampler with this number.
    #[must_use]
    pub fn sampler(index: usize) -> Self {
        Self { role: Role::Sampler, index }
    }

    /// The worker with this number.
    #[must_use]
    pub fn worker(index: usize) -> Self {
        Self { role: Role::Worker, index }
    }

    /// Whether there may be several stages of its role.
    fn is_numbered(self) -> bool {
        matches!(self.role, Role::Sampler | Role::Worker)
    }

    /// The index of its counters on the control page.
    #[must_use]
    pub fn counters(self) -> usize {
        match self.role {
            Role::Sampler | Role::Worker => FIRST_SAMPLER + self.index,
            Role::Producer => PRODUCER,
            Role::Consumer => CONSUMER,
        }
    }

    /// Its name in messages about a run with this many samplers or workers: they are numbered if there are several.
    #[must_use]
    pub fn title(self, samplers: usize) -> String {
        if samplers == 1 { self.role.name().to_owned() } else { self.to_string() }
    }
}

impl fmt::Display for RunStage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.role.name())?;
        if self.is_numbered() { write!(f, " {}", self.index) } else { Ok(()) }
    }
}

/// A resource that a process receives for its stages. Each has a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Resource {
    /// The control page.
    ControlPage,
    /// A ring.
    Ring(RingName),
    /// The process (its pidfd) that a stage runs in.
    Process(RunStage),
    /// A channel between producer and consumer, over which they share feature slots on a GPU.
    FeatureSlotChannel,
    /// The graph in the order of the list cache.
    ReorderedGraph,
    /// The ids of the rows in the feature cache.
    CachedRows,
    /// The sequences that the order of the training seeds follows.
    SeedSequences,
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ControlPage => f.write_str("control page"),
            Self::Ring(name) => write!(f, "{name} ring"),
            Self::Process(stage) => write!(f, "pidfd of the {stage}"),
            Self::FeatureSlotChannel => f.write_str("channel between producer and consumer"),
            Self::ReorderedGraph => f.write_str("reordered graph"),
            Self::CachedRows => f.write_str("ids of the cached rows"),
            Self::SeedSequences => f.write_str("sequences of the seed order"),
        }
    }
}

/// The place of the stages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// All stages in this process, each as a thread.
    Threads,
    /// Each stage in a separate process, with three exceptions: a sampler on the GPU shares the producer's process, all
    /// stages on an undivided GPU share one process, and so do all workers.
    Processes,
}

/// A stage and the process it runs in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlacedStage {
    /// The stage.
    pub stage: RunStage,
    /// The number of its process, from 0.
    pub process: usize,
}

/// A ring, and its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlacedRing {
    /// The ring.
    pub name: RingName,
    /// Its slots.
    pub shape: RingShape,
}

/// The stages, rings and processes of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    /// Every stage, in the order in which a batch passes through them.
    pub stages: Vec<PlacedStage>,
    /// The rings, in the same order.
    pub rings: Vec<PlacedRing>,
    /// Number of processes.
    pub processes: usize,
    reordered_graph: bool,
    cached_rows: bool,
    seed_sequences: bool,
    slots_on_gpu: bool,
}

impl Topology {
    /// The topology of a run with this plan.
    #[must_use]
    pub fn new(plan: &RunPlan, placement: Placement) -> Self {
        let several = 0..plan.options.samplers;
        let in_order: Vec<RunStage> = match plan.options.prepare {
            Prepare::Roles => {
                several.map(RunStage::sampler).chain([RunStage::PRODUCER, RunStage::CONSUMER]).collect()
            }
            Prepare::Whole => several.map(RunStage::worker).chain([RunStage::CONSUMER]).collect(),
        };
        // Process 0 has the consumer. Two processes alternate on an undivided GPU, so one process does all the work on
        // it. On a divided GPU a sampler shares the producer's process, since their batches pass between them in device
        // memory. Workers share data that they only read, such as a cache of rows.
        let with_consumer = |stage: RunStage| match placement {
            Placement::Threads => true,
            Placement::Processes => {
                stage == RunStage::CONSUMER
                    || plan.backend.in_one_process() && stage.role.is_on_gpu(&plan.backend)
            }
        };
        let with_the_next = |stage: RunStage| match stage.role {
            Role::Sampler => stage.role.is_on_gpu(&plan.backend),
            Role::Worker => stage.index + 1 < plan.options.samplers,
            Role::Producer | Role::Consumer => false,
        };
        let mut processes = 1;
        let mut place = |stage| {
            let process = if with_consumer(stage) { 0 } else { processes };
            processes += usize::from(process > 0 && !with_the_next(stage));
            PlacedStage { stage, process }
        };
        let uses = |ring: RingName| in_order.iter().any(|stage| stage.role.writes() == Some(ring));
        let rings = RingName::ALL.into_iter().filter(|ring| uses(*ring));
        Self {
            stages: in_order.iter().copied().map(&mut place).collect(),
            rings: rings.map(|name| PlacedRing { name, shape: plan.ring_shape(name) }).collect(),
            processes,
            reordered_graph: plan.caches.reordered,
            cached_rows: plan.caches.holds_chosen_rows(),
            seed_sequences: plan.options.made_order.as_ref().is_some_and(MadeOrder::has_sequences),
            slots_on_gpu: plan.backend.device_slots().is_some(),
        }
    }

    /// The stages of a process, in the order in which a batch passes through them.
    pub fn stages_of(&self, process: usize) -> impl Iterator<Item = RunStage> {
        self.stages.iter().filter(move |placed| placed.process == process).map(|placed| placed.stage)
    }

    /// The process that a stage runs in.
    ///
    /// # Panics
    /// If the run has no such stage.
    #[must_use]
    pub fn process_of(&self, stage: RunStage) -> usize {
        let placed = self.stages.iter().find(|placed| placed.stage == stage);
        placed.unwrap_or_else(|| panic!("the run has no {stage}")).process
    }

    /// Whether producer and consumer share feature slots on a GPU between two processes.
    #[must_use]
    pub fn shares_slots_between_processes(&self) -> bool {
        let has_producer = self.stages.iter().any(|placed| placed.stage == RunStage::PRODUCER);
        self.slots_on_gpu
            && has_producer
            && self.process_of(RunStage::PRODUCER) != self.process_of(RunStage::CONSUMER)
    }

    /// The resources of a process's stages, each once.
    #[must_use]
    pub fn resources_of(&self, process: usize) -> Vec<Resource> {
        let mut found = vec![Resource::ControlPage];
        for stage in self.stages_of(process) {
            let role = stage.role;
            let rings = role.reads().into_iter().chain(role.writes());
            found.extend(rings.map(Resource::Ring));
            found.extend(self.neighbours(stage).map(|placed| Resource::Process(placed.stage)));
            let (samples, gathers) = match role {
                Role::Sampler => (true, false),
                Role::Producer => (false, true),
                Role::Worker => (true, true),
                Role::Consumer => (false, false),
            };
            if samples && self.reordered_graph {
                found.push(Resource::ReorderedGraph);
            }
            if samples && self.seed_sequences {
                found.push(Resource::SeedSequences);
            }
            if gathers && self.cached_rows {
                found.push(Resource::CachedRows);
            }
            if role != Role::Sampler && self.shares_slots_between_processes() {
                found.push(Resource::FeatureSlotChannel);
            }
        }
        found.sort_unstable();
        found.dedup();
        found
    }

    /// The stages in other processes at the far ends of a stage's rings.
    fn neighbours(&self, stage: RunStage) -> impl Iterator<Item = &PlacedStage> {
        let own = self.process_of(stage);
        let shares_a_ring = move |other: Role| {
            let meets = |ring: Option<RingName>, end| ring.is_some() && ring == end;
            meets(stage.role.reads(), other.writes()) || meets(stage.role.writes(), other.reads())
        };
        self.stages.iter().filter(move |placed| placed.process != own && shares_a_ring(placed.stage.role))
    }
}

#[cfg(test)]
mod tests {
    use uva_cuda::kernels::gather::Kernel;
    use uva_cuda::memory::{IpcKind, PinPages, PreflightPolicy};
    use uva_graph::Dataset;
    use uva_io::generate::{self, Common, PowerLaw};
    use uva_mem::handover::MAX_FDS;

    use super::*;
    use crate::backend::{CudaBackend, GatherChoice, GpuSlots, Partition, SamplerChoice, SignalKind};
    use crate::options::MAX_SAMPLERS;
    use crate::{LoaderOptions, Passes};

    fn topology(processes: &[&[RunStage]], slots_on_gpu: bool) -> Topology {
        let placed = processes.iter().enumerate().flat_map(|(process, stages)| {
            stages.iter().map(move |stage| PlacedStage { stage: *stage, process })
        });
        Topology {
            stages: placed.collect(),
            rings: Vec::new(),
            processes: processes.len(),
            reordered_graph: true,
            cached_rows: true,
            seed_sequences: true,
            slots_on_gpu,
        }
    }

    #[test]
    fn each_process_is_handed_what_its_stages_share_with_others() {
        use Resource::{
            CachedRows, ControlPage, FeatureSlotChannel, Process, ReorderedGraph, Ring, SeedSequences,
        };
        use RingName::{Batch, Feature};
        const CONSUMER: RunStage = RunStage::CONSUMER;
        const PRODUCER: RunStage = RunStage::PRODUCER;
        let (first, second) = (RunStage::sampler(0), RunStage::sampler(1));
        let apart = topology(&[&[CONSUMER], &[PRODUCER], &[first], &[second]], true);
        assert_eq!(
            apart.resources_of(0),
            [ControlPage, Ring(Feature), Process(PRODUCER), FeatureSlotChannel]
        );
        assert_eq!(
            apart.resources_of(1),
            [
                ControlPage,
                Ring(Batch),
                Ring(Feature),
                Process(first),
                Process(second),
                Process(CONSUMER),
                FeatureSlotChannel,
                CachedRows
            ]
        );
        assert_eq!(
            apart.resources_of(3),
            [ControlPage, Ring(Batch), Process(PRODUCER), ReorderedGraph, SeedSequences]
        );
        // The producer on an undivided GPU: a thread of the consumer's process.
        let beside = topology(&[&[PRODUCER, CONSUMER], &[first], &[second]], true);
        assert_eq!(
            beside.resources_of(0),
            [ControlPage, Ring(Batch), Ring(Feature), Process(first), Process(second), CachedRows]
        );
        assert_eq!(
            beside.resources_of(1),
            [ControlPage, Ring(Batch), Process(PRODUCER), ReorderedGraph, SeedSequences]
        );
        // Workers in one process, which need the resources of samplers and a producer, and no ring of batches.
        let (one, two) = (RunStage::worker(0), RunStage::worker(1));
        let workers = topology(&[&[CONSUMER], &[one, two]], false);
        assert_eq!(workers.resources_of(0), [ControlPage, Ring(Feature), Process(one), Process(two)]);
        let of_workers =
            [ControlPage, Ring(Feature), Process(CONSUMER), ReorderedGraph, CachedRows, SeedSequences];
        assert_eq!(workers.resources_of(1), of_workers);
        // The sampler is in the same process too: no other process shares resources on the GPU.
        let alone = topology(&[&[first, PRODUCER, CONSUMER]], true);
        assert_eq!(
            alone.resources_of(0),
            [ControlPage, Ring(Batch), Ring(Feature), ReorderedGraph, CachedRows, SeedSequences]
        );
    }

    #[test]
    fn a_sampler_on_the_gpu_always_shares_its_process_with_the_producer() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("graph");
        let common =
            Common { nodes: 200, average_degree: 4.0, feature_dim: 3, classes: 2, ..Common::default() };
        generate::write(&path, &PowerLaw::of(common), &|_| {}).unwrap();
        let dataset = Dataset::open(&path).unwrap();
        let options = LoaderOptions { fanouts: [2].into(), ..LoaderOptions::default() };
        let plan = RunPlan::new(&dataset, &options, Passes::default()).unwrap();
        let processes = |partition, sampler| {
            let backend = Backend::Cuda(CudaBackend {
                ordinal: 0,
                gather: GatherChoice::ZeroCopy,
                kernel: Kernel::Wide,
                sampler,
                partition,
                ipc: IpcKind::Auto,
                ipc_signals: SignalKind::Auto,
                gpu_slots: GpuSlots::Largest,
                nvrtc: None,
                preflight: PreflightPolicy::Warn,
                table_pages: PinPages::InPlace,
                other_pages: true,
                split_share: None,
            });
            let topology = Topology::new(&RunPlan { backend, ..plan.clone() }, Placement::Processes);
            let of = |stage| topology.process_of(stage);
            let all = [RunStage::sampler(0), RunStage::PRODUCER, RunStage::CONSUMER].map(of);
            assert_eq!(topology.processes, all.iter().max().unwrap() + 1);
            all
        };
        let mps = Partition::Mps {
            producer_percentage: 10,
            consumer_percentage: 90,
            producer_multiprocessors: 13,
            consumer_multiprocessors: 118,
            sampler: None,
        };
        for apart in [Partition::None, mps] {
            assert_eq!(processes(apart, SamplerChoice::Cpu), [1, 2, 0]);
            assert_eq!(processes(apart, SamplerChoice::Gpu), [1, 1, 0]);
        }
        let together = Partition::Grid { multiprocessors: 2, sampler: None };
        assert_eq!(processes(together, SamplerChoice::Cpu), [1, 0, 0]);
        assert_eq!(processes(together, SamplerChoice::Gpu), [0, 0, 0]);
    }

    #[test]
    fn a_message_carries_the_descriptors_of_the_most_samplers() {
        let samplers: Vec<[RunStage; 1]> =
            (0..MAX_SAMPLERS).map(|index| [RunStage::sampler(index)]).collect();
        let mut processes: Vec<&[RunStage]> = vec![&[RunStage::CONSUMER], &[RunStage::PRODUCER]];
        processes.extend(samplers.iter().map(|stage| &stage[..]));
        let apart = topology(&processes, true);
        let workers: Vec<RunStage> = (0..MAX_SAMPLERS).map(RunStage::worker).collect();
        let whole = topology(&[&[RunStage::CONSUMER], &workers], false);
        for topology in [apart, whole] {
            let most = (0..topology.processes).map(|process| topology.resources_of(process).len()).max();
            assert!(most <= Some(MAX_FDS), "{most:?} of {MAX_FDS}");
        }
    }
}
