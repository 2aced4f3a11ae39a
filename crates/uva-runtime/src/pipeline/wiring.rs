//! Connection of the stages of one process. All arrangements of threads use this one function, including those in a
//! process that a launcher started.

use std::sync::Arc;
use std::time::Instant;

use uva_cuda::memory::JoinedMemory;
use uva_graph::Dataset;
use uva_mem::handover::Channel;
use uva_mem::ring::Ring;
use uva_mem::{FrozenBytes, PidFd};

use crate::RuntimeError;
use crate::backend::{Backend, CudaBackend};
use crate::control::Control;
use crate::control::peer::Peer;
use crate::feed::device::{
    DeviceBatches, DeviceSetup, DeviceSlots, SlotLink, consumer_side, one_process, open_device,
    producer_side, stays_on_gpu,
};
use crate::feed::ranks::RankExchanges;
use crate::options::Prepare;
use crate::pipeline::roles::{
    BatchReceiver, ProducerRole, RoleThreads, RoleWork, SamplerEnd, SamplerRole, ThreadName, WorkerContext,
    WorkerRole,
};
use crate::plan::topology::{Resource, Role, RunStage};
use crate::plan::{RingName, RunPlan};
use crate::sampler::cache::CacheContents;
use crate::sampler::lane::{Lane, lanes, sampler_lane};

/// A receiver of lines for people.
pub type Note = Arc<dyn Fn(&str) + Send + Sync>;

/// The connections of a process's stages, made in this process or received from a launcher.
pub struct Connections {
    /// The dataset.
    pub dataset: Arc<Dataset>,
    /// The plan of the run.
    pub plan: Arc<RunPlan>,
    /// The control page that all roles share.
    pub control: Arc<Control>,
    /// The batch ring; absent if workers prepare whole batches.
    pub batches: Option<Ring>,
    /// The feature ring.
    pub features: Option<Ring>,
    /// The processes of stages outside this process.
    pub processes: Vec<(RunStage, Arc<PidFd>)>,
    /// The channel over which producer and consumer share feature slots on a GPU, if they are two processes.
    pub slot_channel: Option<Channel>,
    /// The graph in the samplers' order.
    pub reordered: Option<Arc<FrozenBytes>>,
    /// The ids of the cached rows.
    pub cached_rows: Option<Arc<FrozenBytes>>,
    /// The cached rows, if several GPUs already hold them.
    pub joined_rows: Option<Arc<JoinedMemory>>,
    /// The other ranks, if the feature table is divided among them.
    pub ranks: Option<Arc<RankExchanges>>,
    /// The connections of the other ranks that the sampler of this process serves.
    pub other_ranks: Vec<Connections>,
    /// Receives lines for people.
    pub note: Note,
}

impl Connections {
    /// New connections, for a run whose stages are all in this process.
    ///
    /// # Errors
    /// [`RuntimeError::Failed`] if memory cannot be allocated.
    pub fn create(
        dataset: Arc<Dataset>,
        plan: Arc<RunPlan>,
        contents: &CacheContents,
    ) -> Result<Self, RuntimeError> {
        Ok(Self {
            control: Arc::new(Control::create(&plan.options)?),
            batches: match plan.options.prepare {
                Prepare::Roles => Some(plan.ring_for_threads(RingName::Batch)?),
                Prepare::Whole => None,
            },
            features: Some(plan.ring_for_threads(RingName::Feature)?),
            processes: Vec::new(),
            slot_channel: None,
            reordered: contents.graph().cloned(),
            cached_rows: contents.rows().cloned(),
            joined_rows: contents.joined().cloned(),
            ranks: None,
            other_ranks: Vec::new(),
            note: Arc::new(|line| tracing::info!("{line}")),
            dataset,
            plan,
        })
    }

    /// The rings of this process, in the order in which a batch passes through them.
    pub fn rings(&self) -> Vec<(RingName, Ring)> {
        let of = |name, ring: &Option<Ring>| ring.clone().map(|ring| (name, ring));
        [of(RingName::Batch, &self.batches), of(RingName::Feature, &self.features)]
            .into_iter()
            .flatten()
            .collect()
    }

    fn ring(&self, name: RingName) -> Result<&Ring, RuntimeError> {
        let ring = match name {
            RingName::Batch => &self.batches,
            RingName::Feature => &self.features,
        };
        ring.as_ref().ok_or_else(|| missing(Resource::Ring(name)))
    }

    /// A sampler's end at the batch ring, with this producer at the other.
    fn sampler_end(&self, producer: Peer) -> Result<SamplerEnd, RuntimeError> {
        let (plan, control) = (Arc::clone(&self.plan), Arc::clone(&self.control));
        Ok(SamplerEnd { plan, control, batches: self.ring(RingName::Batch)?.writer(), producer })
    }

    fn process(&self, stage: RunStage) -> Result<Peer, RuntimeError> {
        let (_, pidfd) = self
            .processes
            .iter()
            .find(|(other, _)| *other == stage)
            .ok_or_else(|| missing(Resource::Process(stage)))?;
        let name = stage.title(self.plan.options.samplers);
        Ok(Peer::Process { name, pidfd: Arc::clone(pidfd) })
    }
}

/// The error for a resource that a stage needs and this process has not received.
pub fn missing(what: Resource) -> RuntimeError {
    RuntimeError::failed(format!("the launcher handed over no {what}"))
}

/// Checks that a process that samples has the sequences of the seeds' order, if there are any.
fn check_sequences(plan: &RunPlan) -> Result<(), RuntimeError> {
    match &plan.options.made_order {
        Some(made) if made.lacks_sequences() => Err(missing(Resource::SeedSequences)),
        _ => Ok(()),
    }
}

/// The connected stages of a process.
pub struct ConnectedStages {
    /// The receiving end for the calling thread, if the consumer is one of the stages.
    pub receiver: Option<BatchReceiver>,
    /// The last stage for the calling thread, if it is not the consumer.
    pub last: Option<RoleWork>,
    /// All other stages. Dropping the value ends them.
    pub threads: RoleThreads,
    /// The backend in force, if a fallback changed the plan's.
    pub in_force: Option<Backend>,
}

impl ConnectedStages {
    /// Runs the last stage on this thread, and waits for the others. For a process without the consumer.
    ///
    /// # Errors
    /// The earliest error of the stages.
    pub fn work(self) -> Result<(), RuntimeError> {
        let Self { last, mut threads, .. } = self;
        let ended = last.map_or(Ok(()), |last| last());
        let at = Instant::now();
        match (ended, threads.join()) {
            (Ok(()) | Err(RuntimeError::PeerGone(_)), Some((_, cause))) => Err(cause),
            (Err(_), Some((earlier, cause))) if earlier < at => Err(cause),
            (ended, _) => ended,
        }
    }
}

/// Connects these stages, given in the order in which a batch passes through them, and starts all but the last.
///
/// # Errors
/// Errors of opening the GPU or sharing its slots; [`RuntimeError::Failed`] if threads cannot be started. Stages that
/// were already running have then ended.
pub fn wire(connections: Connections, stages: &[RunStage]) -> Result<ConnectedStages, RuntimeError> {
    let samplers = connections.plan.options.samplers;
    let names: Vec<_> = stages.iter().map(|stage| (*stage, ThreadName::new(stage.title(samplers)))).collect();
    let here = |stage: RunStage| names.iter().find(|(other, _)| *other == stage).map(|(_, name)| name);
    let peer =
        |stage: RunStage| here(stage).map_or_else(|| connections.process(stage), |name| Ok(name.peer()));
    let OnGpu { mut setup, slots, mut sampler, in_force } = on_gpu(&connections, stages, &peer)?;
    let batches_on_gpu = batches_on_gpu(&connections.plan, setup.as_mut())?;
    if let Some(setup) = &mut setup {
        setup.joined_rows = connections.joined_rows.clone();
    }
    let threads = RoleThreads::new(Arc::clone(&connections.control));
    let mut wired = ConnectedStages { receiver: None, last: None, threads, in_force };
    let (dataset, plan, control) =
        (&with_copied_lists(&connections, stages), &connections.plan, &connections.control);
    if here(RunStage::CONSUMER).is_some() {
        let features = connections.ring(RingName::Feature)?.reader();
        let (plan, control) = (Arc::clone(plan), Arc::clone(control));
        let writers = match plan.options.prepare {
            Prepare::Roles => vec![peer(RunStage::PRODUCER)?],
            Prepare::Whole => {
                (0..samplers).map(|index| peer(RunStage::worker(index))).collect::<Result<_, _>>()?
            }
        };
        let ranks = connections.ranks.clone();
        wired.receiver = Some(BatchReceiver::new(plan, control, features, slots, writers, ranks));
    }
    let mut crew = None;
    for (position, (stage, name)) in names.iter().enumerate() {
        let (dataset, plan, control) = (Arc::clone(dataset), Arc::clone(plan), Arc::clone(control));
        let work: RoleWork = match stage.role {
            Role::Sampler => {
                check_sequences(&plan)?;
                let (index, reordered) = (stage.index, connections.reordered.clone());
                if plan.caches.reordered && reordered.is_none() {
                    return Err(missing(Resource::ReorderedGraph));
                }
                let mut ends = vec![connections.sampler_end(peer(RunStage::PRODUCER)?)?];
                for other in &connections.other_ranks {
                    ends.push(other.sampler_end(other.process(RunStage::PRODUCER)?)?);
                }
                let (gpu, on_device) = (sampler.take(), batches_on_gpu.clone());
                let ranks = connections.ranks.clone();
                Box::new(move || {
                    let (dataset, ranks) = (&dataset, ranks.as_deref());
                    SamplerRole { index, dataset, ends, ranks, reordered, gpu, on_device }.run()
                })
            }
            Role::Producer => {
                let batches = connections.ring(RingName::Batch)?.reader();
                let features = connections.ring(RingName::Feature)?.writer();
                let samplers =
                    (0..samplers).map(|index| peer(RunStage::sampler(index))).collect::<Result<_, _>>()?;
                let consumer = peer(RunStage::CONSUMER)?;
                let (device, cached_rows) = (setup.take(), connections.cached_rows.clone());
                if plan.caches.holds_chosen_rows() && cached_rows.is_none() {
                    return Err(missing(Resource::CachedRows));
                }
                let (note, ranks) = (Arc::clone(&connections.note), connections.ranks.clone());
                Box::new(move || {
                    let (dataset, plan, control) = (&dataset, &plan, &control);
                    let (cached_rows, note, ranks) = (cached_rows.as_deref(), &*note, ranks.as_deref());
                    ProducerRole {
                        ranks,
                        dataset,
                        plan,
                        control,
                        cached_rows,
                        batches,
                        features,
                        device,
                        samplers,
                        consumer,
                        note,
                    }
                    .run()
                })
            }
            Role::Worker => {
                check_sequences(&plan)?;
                let (index, reordered) = (stage.index, connections.reordered.clone());
                if plan.caches.reordered && reordered.is_none() {
                    return Err(missing(Resource::ReorderedGraph));
                }
                let cached_rows = connections.cached_rows.as_deref();
                if plan.caches.holds_chosen_rows() && cached_rows.is_none() {
                    return Err(missing(Resource::CachedRows));
                }
                let crew = match &crew {
                    Some(crew) => Arc::clone(crew),
                    None => {
                        Arc::clone(crew.insert(Arc::new(WorkerContext::new(&dataset, &plan, cached_rows)?)))
                    }
                };
                let features = connections.ring(RingName::Feature)?.clone();
                let (consumer, note) = (peer(RunStage::CONSUMER)?, Arc::clone(&connections.note));
                Box::new(move || {
                    let (dataset, plan, control) = (&dataset, &plan, &control);
                    let (reordered, crew, note) = (reordered.as_deref(), &*crew, &*note);
                    WorkerRole { index, dataset, plan, control, reordered, crew, features, consumer, note }
                        .run()
                })
            }
            // Its end is the receiver.
            Role::Consumer => continue,
        };
        if position + 1 < names.len() {
            wired.threads.start(name, work)?;
        } else {
            wired.last = Some(name.marked(work));
        }
    }
    Ok(wired)
}

/// The dataset, with copies of its neighbour lists if the plan says so and one of these stages samples on the CPU.
/// Without memory for them, lists are read from the mapped files, and a warning says so.
fn with_copied_lists(connections: &Connections, stages: &[RunStage]) -> Arc<Dataset> {
    let Connections { dataset, plan, .. } = connections;
    let copied = plan.options.copied_files;
    let samples = |stage: &RunStage| {
        matches!(stage.role, Role::Sampler | Role::Worker) && !stage.role.is_on_gpu(&plan.backend)
    };
    if !(copied.indptr || copied.indices) || !stages.iter().any(samples) {
        return Arc::clone(dataset);
    }
    match Dataset::clone(dataset).with_copied_lists(copied.indptr, copied.indices) {
        Ok(copied) => Arc::new(copied),
        Err(error) => {
            tracing::warn!(%error, "neighbour lists are read from the mapped files");
            Arc::clone(dataset)
        }
    }
}

/// The resources of a process's stages on its GPU before they start.
#[derive(Default)]
struct OnGpu {
    /// The producer's end of feature slots on a GPU; `None` if the slots are in host memory.
    setup: Option<DeviceSetup>,
    /// The consumer's end of feature slots on a GPU; `None` if the slots are in host memory.
    slots: Option<DeviceSlots>,
    /// The lane of a sampler on the GPU, which shares its process with the producer or has a GPU alone.
    sampler: Option<Lane>,
    /// See [`ConnectedStages`].
    in_force: Option<Backend>,
}

fn on_gpu(
    connections: &Connections,
    stages: &[RunStage],
    peer: &dyn Fn(RunStage) -> Result<Peer, RuntimeError>,
) -> Result<OnGpu, RuntimeError> {
    let Connections { plan, control, slot_channel, note, .. } = connections;
    let Some(cuda) = plan.backend.device_slots() else { return Ok(OnGpu::default()) };
    let note = &**note;
    let channel = || slot_channel.as_ref().ok_or_else(|| missing(Resource::FeatureSlotChannel));
    let (producer, consumer) = (stages.contains(&RunStage::PRODUCER), stages.contains(&RunStage::CONSUMER));
    if !producer {
        // This sampler has a separate GPU. A sampler that shares a GPU with a producer shares the process too.
        if stages.iter().any(|stage| stage.role == Role::Sampler) && plan.backend.gpu_sampler().is_some() {
            let lane = sampler_lane(&open_device(cuda, Role::Sampler)?, cuda, Role::Sampler.name())?;
            return Ok(OnGpu { sampler: Some(lane), ..OnGpu::default() });
        }
        let slots = if consumer {
            let context = open_device(cuda, Role::Consumer)?;
            let peer = &peer(RunStage::PRODUCER)?;
            let link = SlotLink { role: Role::Consumer, channel: channel()?, peer, control, note };
            Some(consumer_side(&context, cuda, plan, &link)?)
        } else {
            None
        };
        return Ok(OnGpu { slots, ..OnGpu::default() });
    }
    let process = if consumer { Role::Consumer } else { Role::Producer };
    let mut wanted = vec![cuda.partition.gather_multiprocessors()];
    if plan.backend.gpu_sampler().is_some() {
        wanted.push(cuda.partition.sampler_multiprocessors());
    }
    let context = open_device(cuda, process)?;
    let mut lanes = lanes(&context, cuda, &wanted, process.name(), note)?.into_iter();
    let lane = lanes.next().ok_or_else(|| RuntimeError::failed("a producer without a lane"))?;
    let sampler = lanes.next();
    let in_force = lane
        .in_place_of(cuda.partition)
        .map(|partition| Backend::Cuda(CudaBackend { partition, ..cuda.clone() }));
    Ok(if consumer {
        let (setup, slots) = one_process(lane, cuda, plan)?;
        OnGpu { setup: Some(setup), slots: Some(slots), sampler, in_force }
    } else {
        let peer = &peer(RunStage::CONSUMER)?;
        let link = SlotLink { role: Role::Producer, channel: channel()?, peer, control, note };
        OnGpu { setup: Some(producer_side(lane, cuda, plan, &link)?), slots: None, sampler, in_force }
    })
}

/// Device memory through which batches pass from a sampler on the GPU to the producer.
fn batches_on_gpu(
    plan: &RunPlan,
    setup: Option<&mut DeviceSetup>,
) -> Result<Option<Arc<DeviceBatches>>, RuntimeError> {
    let Some(setup) = setup.filter(|_| stays_on_gpu(plan)) else { return Ok(None) };
    let batches = Arc::new(DeviceBatches::new(setup.lane.context(), &setup.cuda, plan)?);
    setup.batches = Some(Arc::clone(&batches));
    Ok(Some(batches))
}

#[cfg(test)]
mod tests {
    use uva_io::generate::{self, Common, PowerLaw};

    use super::*;
    use crate::options::seed_order::MadeOrder;
    use crate::{LoaderOptions, Passes};
    use uva_options::OptionValue;

    #[test]
    fn a_stage_that_was_not_handed_what_it_needs_says_what_is_missing() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("graph");
        let common =
            Common { nodes: 200, average_degree: 4.0, feature_dim: 3, classes: 2, ..Common::default() };
        generate::write(&path, &PowerLaw::of(common), &|_| {}).unwrap();
        let dataset = Arc::new(Dataset::open(&path).unwrap());
        let options = LoaderOptions { fanouts: [2].into(), ..LoaderOptions::default() };
        let plan = RunPlan::new(&dataset, &options, Passes::default()).unwrap();
        let refused = |change: fn(&mut RunPlan), take: fn(&mut Connections), stages: &[RunStage]| {
            let mut plan = plan.clone();
            change(&mut plan);
            let contents = CacheContents::default();
            let mut connections =
                Connections::create(Arc::clone(&dataset), Arc::new(plan), &contents).unwrap();
            take(&mut connections);
            wire(connections, stages).map(|_| ()).unwrap_err().to_string()
        };
        let all = [RunStage::sampler(0), RunStage::PRODUCER, RunStage::CONSUMER];
        let ordered = |plan: &mut RunPlan| {
            let told = serde_json::json!({
                "way": { "in_turns": 2 }, "sequences": 2, "seeds": 100, "file": null, "errors": null, "seconds": 0.0,
            });
            plan.options.made_order = MadeOrder::of_json(&told);
        };
        let cases: [(String, &str); 6] = [
            (refused(|_| {}, |c| c.batches = None, &all), "batch ring"),
            (refused(|_| {}, |c| c.features = None, &all), "feature ring"),
            (refused(|plan| plan.caches.reordered = true, |_| {}, &all), "reordered graph"),
            (refused(|plan| plan.caches.rows = 3, |_| {}, &all), "ids of the cached rows"),
            (refused(ordered, |_| {}, &all), "sequences of the seed order"),
            (refused(|_| {}, |_| {}, &[RunStage::sampler(0)]), "pidfd of the producer"),
        ];
        for (said, part) in cases {
            assert!(said.contains(part), "{part} in {said}");
        }
    }
}
