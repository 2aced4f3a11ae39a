//! The life of a role's process: take up the channel, hear what to do, do it, say how it ended.

use std::io::Write;
use std::os::fd::RawFd;
use std::sync::Arc;

use serde_json::Value;
use uva_graph::Dataset;
use uva_mem::handover::Channel;

use super::handed::{Place, open_device};
use super::messages::{Report, Role, Setup};
use super::reports::{ChannelObserver, note, say_with};
use super::{janitor, planner, signals};
use crate::control::{CONSUMER, FIRST_SAMPLER, PRODUCER, Stop};
use crate::metrics::Observer;
use crate::roles::{BatchReceiver, ProducerRole, SamplerRole};
use crate::{Runtime, RuntimeError, device, machine};

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
        Role::Planner => machine::start_threads()
            .and_then(|()| planner::run(&channel))
            .map_err(Ended::Failed)
            .map(|(found, regions)| {
                fds = regions;
                found
            }),
        _ => take_part(role, &channel, consume),
    };
    let report = match ended {
        Ok(done) => Report::Done(done),
        Err(Ended::Stopped) => {
            tracing::debug!("stopped by the launcher");
            return 0;
        }
        Err(Ended::Failed(error)) => Report::failed(&error),
    };
    let code = match &report {
        Report::Failed { error, .. } => {
            let code = error.exit_code();
            tracing::debug!(code, message = error.to_string(), "it cannot go on");
            code
        }
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
    let (index, job) = (setup.index, setup.job.clone());
    tracing::info!(
        dataset = %setup.dataset.display(),
        samplers = setup.loader.samplers,
        batch_size = setup.loader.batch_size,
        seed = setup.loader.seed,
        descriptors = first.fds.len(),
        "the launcher has handed over"
    );
    let mut place = Place::of_setup(setup, first.fds)?;
    let control = Arc::clone(&place.control);
    if role.is_on_gpu(&place.plan.backend) {
        signals::stop_with_launcher(launcher, Arc::clone(&control)).map_err(|error| failed(&error))?;
    }
    let (ended, counters) = match role {
        Role::Sampler => (sample(index, &mut place).map(|()| Value::Null), FIRST_SAMPLER + index),
        Role::Producer => {
            let note = |line: &str| note(channel, line);
            (produce(&mut place, &note).map(|()| Value::Null), PRODUCER)
        }
        Role::Consumer | Role::Planner | Role::Janitor => {
            let consumed = Runtime::take_up(&mut place, channel).and_then(|mut runtime| {
                let mut observer = ChannelObserver::new(Arc::clone(channel));
                let (receiver, dataset, _) = runtime.parts();
                let consumed = consume(receiver, dataset, job, &mut observer);
                runtime.finish(consumed)
            });
            (consumed, CONSUMER)
        }
    };
    // One that did all its work has noted it while it still had what it worked with.
    if control.memory(counters).is_none() {
        control.note_memory(counters);
    }
    control.note_peak_rss(counters);
    tracing::debug!(
        position = control.position(counters),
        failed = ended.is_err(),
        "the role's work has ended"
    );
    match ended {
        Err(RuntimeError::PeerGone(_)) if control.stop() == Stop::Now => Err(Ended::Stopped),
        other => Ok(other?),
    }
}

/// A sampler.
fn sample(index: usize, place: &mut Place) -> Result<(), RuntimeError> {
    let Place { dataset, plan, control, handed } = place;
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
fn produce(place: &mut Place, note: &dyn Fn(&str)) -> Result<(), RuntimeError> {
    let Place { dataset, plan, control, handed } = place;
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
