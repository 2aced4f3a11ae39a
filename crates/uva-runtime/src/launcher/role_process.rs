//! The life of a role's process: take up the channel, hear what to do, do it, say how it ended.

use std::io::Write;
use std::os::fd::{AsFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;
use uva_cuda::Context;
use uva_graph::{Dataset, Verify};
use uva_mem::handover::Channel;
use uva_mem::{FrozenBytes, PidFd};

use super::messages::{Report, Role, Setup, since_boot};
use super::signals;
use super::{janitor, planner};
use crate::backend::{CudaBackend, Partition};
use crate::control::{CONSUMER, Control, FIRST_SAMPLER, PRODUCER, Stop};
use crate::metrics::{Event, Observer, Progress};
use crate::plan::RunPlan;
use crate::roles::{BatchReceiver, Peer, ProducerRole, SamplerRole, ThreadName, first_error};
use crate::{RuntimeError, cache, device};

/// What the consumer's process does with its batches: its job as the launcher's caller wrote it, and what comes of it.
pub type Consume = fn(&mut BatchReceiver, &Dataset, Value, &mut dyn Observer) -> Result<Value, RuntimeError>;

/// Runs a role in this process, which a launcher started for it, and returns its exit code. What it has to say it
/// says to the launcher.
pub fn run(role: Role, channel: RawFd, consume: Consume) -> i32 {
    let channel = match Channel::from_inherited(channel) {
        Ok(channel) => Arc::new(channel),
        Err(error) => {
            // Where stderr is closed too, the exit code has to do.
            let _ = writeln!(
                std::io::stderr(),
                "uvatrain {}: started by `uvatrain train`, not by hand ({error})",
                role.name()
            );
            return 2;
        }
    };
    let mut fds = Vec::new();
    let ended = match role {
        Role::Janitor => return i32::from(janitor::run(&channel).is_err()),
        Role::Planner => planner::run(&channel).map_err(Ended::Failed).map(|(found, regions)| {
            fds = regions;
            found
        }),
        _ => take_part(role, &channel, consume),
    };
    let report = match ended {
        Ok(done) => Report::Done(done),
        Err(Ended::Stopped) => return 0,
        Err(Ended::Failed(error)) => Report::Failed {
            code: error.exit_code(),
            message: error.to_string(),
            follows: matches!(error, RuntimeError::PeerGone(_)),
            at: since_boot(),
        },
    };
    let code = match &report {
        Report::Failed { code, .. } => *code,
        _ => 0,
    };
    // A launcher that cannot hear it is gone, and its janitor sees to the rest.
    if matches!(role, Role::Consumer | Role::Planner) || code != 0 {
        let _ = say_with(&channel, &report, &fds);
    }
    code
}

enum Ended {
    /// The launcher asked for it.
    Stopped,
    Failed(RuntimeError),
}

impl From<RuntimeError> for Ended {
    fn from(error: RuntimeError) -> Self {
        Self::Failed(error)
    }
}

fn take_part(role: Role, channel: &Arc<Channel>, consume: Consume) -> Result<Value, Ended> {
    let failed = |error: &dyn std::fmt::Display| RuntimeError::Failed(error.to_string());
    let launcher = rustix::process::getppid();
    signals::leave_to_launcher().map_err(|error| failed(&error))?;
    let first = channel
        .recv()
        .map_err(|error| RuntimeError::PeerGone(format!("no word from the launcher: {error}")))?;
    let setup: Setup = serde_json::from_slice(&first.payload).map_err(|error| failed(&error))?;
    let mut handed = Handed { fds: first.fds.into_iter(), peers: setup.peers.into_iter() };
    // The launcher has verified the dataset; its roles only map it.
    let dataset = Dataset::open_verified(&setup.dataset, Verify::HeadersOnly).map_err(RuntimeError::from)?;
    let dataset = Arc::new(dataset);
    let plan = RunPlan::new(&dataset, &setup.loader, setup.passes)?;
    let plan = Arc::new(plan.on(setup.backend).with_caches(setup.caches));
    let control = Arc::new(Control::open(handed.next("control page")?, plan.options.samplers)?);
    let place = match role {
        Role::Sampler => FIRST_SAMPLER + setup.index,
        Role::Producer => PRODUCER,
        Role::Consumer | Role::Planner | Role::Janitor => CONSUMER,
    };
    if role.is_on_gpu(&plan.backend) {
        signals::stop_with_launcher(launcher, Arc::clone(&control)).map_err(|error| failed(&error))?;
    }
    let mut observer = ChannelObserver { channel, progress: None };
    let ended = match role {
        Role::Sampler => sample(setup.index, &dataset, &plan, &control, &mut handed).map(|()| Value::Null),
        Role::Producer => {
            produce(&dataset, &plan, &control, &mut handed, &|line| note(channel, line)).map(|()| Value::Null)
        }
        _ if plan.backend.in_one_process() => {
            consume_with_producer(&dataset, &plan, &control, &mut handed, channel, |receiver| {
                consume(receiver, &dataset, setup.job, &mut observer)
            })
        }
        Role::Consumer | Role::Planner | Role::Janitor => receiver(&plan, &control, &mut handed)
            .and_then(|mut receiver| consume(&mut receiver, &dataset, setup.job, &mut observer)),
    };
    control.note_peak_rss(place);
    match ended {
        Err(RuntimeError::PeerGone(_)) if control.stop() == Stop::Now => Err(Ended::Stopped),
        other => Ok(other?),
    }
}

/// A sampler.
fn sample(
    index: usize,
    dataset: &Arc<Dataset>,
    plan: &RunPlan,
    control: &Arc<Control>,
    handed: &mut Handed,
) -> Result<(), RuntimeError> {
    let batches = plan.open_batch_ring(handed.next("batch ring")?)?.writer();
    let producer = handed.peer("producer")?;
    let reordered = handed.reordered_graph(dataset, plan)?;
    let gpu = match plan.backend.gpu_sampler() {
        Some(cuda) => Some(open_device(cuda, Role::Sampler)?),
        None => None,
    };
    SamplerRole { index, dataset, plan, control, reordered, gpu, batches, producer }.run()
}

/// The producer as a process of its own.
fn produce(
    dataset: &Arc<Dataset>,
    plan: &RunPlan,
    control: &Arc<Control>,
    handed: &mut Handed,
    note: &dyn Fn(&str),
) -> Result<(), RuntimeError> {
    let batches = plan.open_batch_ring(handed.next("batch ring")?)?.reader();
    let features = plan.open_feature_ring(handed.next("feature ring")?)?.writer();
    let consumer = handed.peer("consumer")?;
    let samplers = handed.samplers(plan.options.samplers)?;
    let device = match plan.backend.device_slots() {
        None => None,
        Some(cuda) => {
            let context = open_device(cuda, Role::Producer)?;
            let link = handed.link()?;
            Some(device::producer_side(&context, cuda, plan, control, (&link, &consumer))?)
        }
    };
    let cached_rows = handed.cached_rows(plan)?;
    let cached_rows = cached_rows.as_ref();
    ProducerRole { dataset, plan, control, cached_rows, batches, features, device, samplers, consumer, note }
        .run()
}

/// The consumer's receiving end, with the producer in a process of its own.
fn receiver(
    plan: &Arc<RunPlan>,
    control: &Arc<Control>,
    handed: &mut Handed,
) -> Result<BatchReceiver, RuntimeError> {
    let features = plan.open_feature_ring(handed.next("feature ring")?)?.reader();
    let producer = handed.peer("producer")?;
    let slots = match plan.backend.device_slots() {
        None => None,
        Some(cuda) => {
            let context = open_device(cuda, Role::Consumer)?;
            let link = handed.link()?;
            Some(device::consumer_side(&context, plan, control, (&link, &producer))?)
        }
    };
    Ok(BatchReceiver::new(Arc::clone(plan), Arc::clone(control), features, slots, producer))
}

/// The consumer with the producer as a thread beside it.
fn consume_with_producer(
    dataset: &Arc<Dataset>,
    plan: &Arc<RunPlan>,
    control: &Arc<Control>,
    handed: &mut Handed,
    channel: &Arc<Channel>,
    consume: impl FnOnce(&mut BatchReceiver) -> Result<Value, RuntimeError>,
) -> Result<Value, RuntimeError> {
    let batches = plan.open_batch_ring(handed.next("batch ring")?)?;
    let ring = plan.create_feature_ring()?;
    let (setup, slots) = device::in_this_process(plan)?.unzip();
    let cached_rows;
    let (producer, consumer) = (ThreadName::new("producer"), ThreadName::new("consumer").peer());
    let mut threads = Vec::new();
    let samplers = if plan.backend.samples_in_one_process() {
        cached_rows = handed.cached_rows(plan)?;
        let reordered = handed.reordered_graph(dataset, plan)?;
        let sampler = ThreadName::new("sampler");
        let peer = sampler.peer();
        let (dataset, plan, control) = (Arc::clone(dataset), Arc::clone(plan), Arc::clone(control));
        let (batches, producer) = (batches.writer(), producer.peer());
        threads.push(sampler.start(move || {
            let (dataset, plan, control) = (&dataset, &plan, &control);
            let gpu = device::sampler_context(plan)?;
            SamplerRole { index: 0, dataset, plan, control, reordered, gpu, batches, producer }.run()
        })?);
        vec![peer]
    } else {
        let samplers = handed.samplers(plan.options.samplers)?;
        cached_rows = handed.cached_rows(plan)?;
        samplers
    };
    let batches = batches.reader();
    let mut receiver =
        BatchReceiver::new(Arc::clone(plan), Arc::clone(control), ring.reader(), slots, producer.peer());
    let features = ring.writer();
    threads.push({
        let (dataset, plan, control) = (Arc::clone(dataset), Arc::clone(plan), Arc::clone(control));
        let line_channel = Arc::clone(channel);
        producer.start(move || {
            ProducerRole {
                dataset: &dataset,
                plan: &plan,
                control: &control,
                cached_rows: cached_rows.as_ref(),
                batches,
                features,
                device: setup,
                samplers,
                consumer,
                note: &|line| note(&line_channel, line),
            }
            .run()
        })?
    });
    let consumed = consume(&mut receiver);
    let at = Instant::now();
    // Unless it has seen the end, nobody will take another batch, and the producer need not wait for that.
    if consumed.is_err() || control.stop() >= Stop::Soon {
        control.set_stop(Stop::Now);
    }
    match (consumed, first_error(threads)) {
        (Err(RuntimeError::PeerGone(_)), Some((_, cause))) => Err(cause),
        // A fault on the device fails both; whoever met it first can name the call.
        (Err(_), Some((earlier, cause))) if earlier < at => Err(cause),
        (consumed, _) => consumed,
    }
}

/// The context of this process's GPU, which has to be the part of it that the plan says.
fn open_device(cuda: &CudaBackend, role: Role) -> Result<Arc<Context>, RuntimeError> {
    let context = Context::primary(cuda.ordinal)?;
    let Partition::Mps { producer_multiprocessors, consumer_multiprocessors, sampler, .. } = cuda.partition
    else {
        return Ok(context);
    };
    let expected = match role {
        Role::Producer => producer_multiprocessors,
        Role::Sampler => sampler.map_or(producer_multiprocessors, |share| share.multiprocessors),
        Role::Consumer | Role::Planner | Role::Janitor => consumer_multiprocessors,
    };
    let device = context.device();
    // CUDA goes on without MPS, and without a word, when it cannot reach the daemon.
    if !device.mps_enabled() {
        return Err(RuntimeError::Missing(
            "MPS was to divide the GPU, but the driver did not connect to its daemon; `uvatrain mps status` tells \
             more, and --partition green or grid does without"
                .into(),
        ));
    }
    if device.multiprocessors() != expected {
        return Err(RuntimeError::Failed(format!(
            "MPS gave this process {} multiprocessors instead of {expected}",
            device.multiprocessors()
        )));
    }
    Ok(context)
}

/// The descriptors that came with the set-up, in the order that `messages` lists.
struct Handed {
    fds: std::vec::IntoIter<OwnedFd>,
    peers: std::vec::IntoIter<u32>,
}

impl Handed {
    fn next(&mut self, what: &str) -> Result<OwnedFd, RuntimeError> {
        self.fds.next().ok_or_else(|| RuntimeError::Failed(format!("the launcher handed over no {what}")))
    }

    fn samplers(&mut self, samplers: usize) -> Result<Vec<Peer>, RuntimeError> {
        let name = |index| if samplers > 1 { format!("sampler {index}") } else { "sampler".to_owned() };
        (0..samplers).map(|index| self.peer(&name(index))).collect()
    }

    /// The graph in the order of the list cache, where the plan has one.
    fn reordered_graph(
        &mut self,
        dataset: &Dataset,
        plan: &RunPlan,
    ) -> Result<Option<Arc<FrozenBytes>>, RuntimeError> {
        if !plan.caches.reordered {
            return Ok(None);
        }
        cache::open_graph(self.next("reordered graph")?, dataset).map(|graph| Some(Arc::new(graph)))
    }

    /// The ids of the rows that the feature cache holds, where it holds the same ones throughout.
    fn cached_rows(&mut self, plan: &RunPlan) -> Result<Option<FrozenBytes>, RuntimeError> {
        if !plan.caches.holds_chosen_rows() {
            return Ok(None);
        }
        cache::open_rows(self.next("cached rows' ids")?, &plan.caches).map(Some)
    }

    /// The channel between producer and consumer.
    fn link(&mut self) -> Result<Channel, RuntimeError> {
        let fd = self.next("channel between producer and consumer")?;
        Channel::from_fd(fd).map_err(|error| RuntimeError::Failed(error.to_string()))
    }

    fn peer(&mut self, name: &str) -> Result<Peer, RuntimeError> {
        let pidfd =
            PidFd::from_fd(self.next(&format!("pidfd of the {name}"))?, self.peers.next().unwrap_or(0))
                .map_err(|error| RuntimeError::Failed(format!("pidfd of the {name}: {error}")))?;
        Ok(Peer::Process { name: name.to_owned(), pidfd })
    }
}

/// How often the launcher hears of progress within a pass: more than a person sees costs messages for nothing.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(50);

/// Passes on to the launcher what the consumer observes.
struct ChannelObserver<'a> {
    channel: &'a Channel,
    /// What was passed on last, and when.
    progress: Option<(Progress, Instant)>,
}

impl Observer for ChannelObserver<'_> {
    fn event(&mut self, event: &Event) -> Result<(), RuntimeError> {
        say(self.channel, &Report::Event(Box::new(event.clone())))
    }

    fn progress(&mut self, progress: &Progress, _busiest: &str) {
        // A pass's first and last batch always count: its speed is taken between them.
        let now = Instant::now();
        let dispensable = progress.batch < progress.batches
            && self.progress.is_some_and(|(last, at)| {
                (last.split, last.epoch) == (progress.split, progress.epoch)
                    && now.duration_since(at) < PROGRESS_INTERVAL
            });
        if !dispensable {
            self.progress = Some((*progress, now));
            // A launcher that is gone is noticed by the next event.
            let _ = say(self.channel, &Report::Progress(*progress));
        }
    }

    fn note(&mut self, line: &str) {
        let _ = say(self.channel, &Report::Note(line.to_owned()));
    }
}

pub(super) fn note(channel: &Channel, line: &str) {
    // A launcher that is gone is noticed elsewhere.
    let _ = say(channel, &Report::Note(line.to_owned()));
}

fn say(channel: &Channel, report: &Report) -> Result<(), RuntimeError> {
    say_with(channel, report, &[])
}

fn say_with(channel: &Channel, report: &Report, fds: &[OwnedFd]) -> Result<(), RuntimeError> {
    let payload = serde_json::to_vec(report).map_err(|error| RuntimeError::Failed(error.to_string()))?;
    let fds: Vec<_> = fds.iter().map(AsFd::as_fd).collect();
    channel
        .send(&payload, &fds)
        .map_err(|error| RuntimeError::PeerGone(format!("the launcher does not listen any more: {error}")))
}
