//! The life of a role's process: take up the channel, hear what to do, do it, say how it ended.

use std::io::Write;
use std::os::fd::{OwnedFd, RawFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;
use uva_graph::{Dataset, Verify};
use uva_mem::PidFd;
use uva_mem::handover::Channel;

use super::janitor;
use super::messages::{Report, Role, Setup};
use super::signals;
use crate::RuntimeError;
use crate::control::{CONSUMER, Control, FIRST_SAMPLER, PRODUCER, Stop};
use crate::metrics::{Event, Observer, Progress};
use crate::plan::RunPlan;
use crate::roles::{BatchReceiver, Peer, ProducerRole, SamplerRole};

/// What the consumer's process does with its batches: its job as the launcher's caller wrote it, and what comes of it.
pub type Consume = fn(&mut BatchReceiver, &Dataset, Value, &mut dyn Observer) -> Result<Value, RuntimeError>;

/// Runs a role in this process, which a launcher started for it, and returns its exit code. What it has to say it
/// says to the launcher.
pub fn run(role: Role, channel: RawFd, consume: Consume) -> i32 {
    let channel = match Channel::from_inherited(channel) {
        Ok(channel) => channel,
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
    let ended = match role {
        Role::Janitor => return i32::from(janitor::run(channel).is_err()),
        _ => take_part(role, &channel, consume),
    };
    let report = match ended {
        Ok(done) => Report::Done(done),
        Err(Ended::Stopped) => return 0,
        Err(Ended::Failed(error)) => Report::Failed {
            code: error.exit_code(),
            message: error.to_string(),
            follows: matches!(error, RuntimeError::PeerGone(_)),
        },
    };
    let code = match &report {
        Report::Failed { code, .. } => *code,
        _ => 0,
    };
    // A launcher that cannot hear it is gone, and its janitor sees to the rest.
    if role == Role::Consumer || code != 0 {
        let _ = say(&channel, &report);
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

fn take_part(role: Role, channel: &Channel, consume: Consume) -> Result<Value, Ended> {
    let failed = |error: &dyn std::fmt::Display| RuntimeError::Failed(error.to_string());
    signals::leave_to_launcher().map_err(|error| failed(&error))?;
    let first = channel
        .recv()
        .map_err(|error| RuntimeError::PeerGone(format!("no word from the launcher: {error}")))?;
    let setup: Setup = serde_json::from_slice(&first.payload).map_err(|error| failed(&error))?;
    let mut handed = Handed { fds: first.fds.into_iter(), peers: setup.peers.into_iter() };
    // The launcher has verified the dataset; its roles only map it.
    let dataset = Dataset::open_verified(&setup.dataset, Verify::HeadersOnly).map_err(RuntimeError::from)?;
    let plan = Arc::new(RunPlan::new(&dataset, &setup.loader, setup.passes)?);
    let samplers = plan.options.samplers;
    let control = Arc::new(Control::open(handed.next("control page")?, samplers)?);
    let place = match role {
        Role::Sampler => FIRST_SAMPLER + setup.index,
        Role::Producer => PRODUCER,
        Role::Consumer | Role::Janitor => CONSUMER,
    };
    let ended = match role {
        Role::Sampler => SamplerRole {
            index: setup.index,
            dataset: &dataset,
            plan: &plan,
            control: &control,
            batches: plan.open_batch_ring(handed.next("batch ring")?)?.writer(),
            producer: handed.peer("producer")?,
        }
        .run()
        .map(|()| Value::Null),
        Role::Producer => ProducerRole {
            dataset: &dataset,
            plan: &plan,
            control: &control,
            batches: plan.open_batch_ring(handed.next("batch ring")?)?.reader(),
            features: plan.open_feature_ring(handed.next("feature ring")?)?.writer(),
            consumer: handed.peer("consumer")?,
            samplers: (0..samplers)
                .map(|index| {
                    handed.peer(&if samplers > 1 { format!("sampler {index}") } else { "sampler".into() })
                })
                .collect::<Result<_, _>>()?,
        }
        .run()
        .map(|()| Value::Null),
        Role::Consumer | Role::Janitor => {
            let features = plan.open_feature_ring(handed.next("feature ring")?)?.reader();
            let producer = handed.peer("producer")?;
            let mut receiver =
                BatchReceiver::new(Arc::clone(&plan), Arc::clone(&control), features, producer);
            consume(&mut receiver, &dataset, setup.job, &mut ChannelObserver { channel, progress: None })
        }
    };
    control.note_peak_rss(place);
    match ended {
        Err(RuntimeError::PeerGone(_)) if control.stop() == Stop::Now => Err(Ended::Stopped),
        other => Ok(other?),
    }
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
        say(self.channel, &Report::Event(event.clone()))
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

fn say(channel: &Channel, report: &Report) -> Result<(), RuntimeError> {
    let payload = serde_json::to_vec(report).map_err(|error| RuntimeError::Failed(error.to_string()))?;
    channel
        .send(&payload, &[])
        .map_err(|error| RuntimeError::PeerGone(format!("the launcher does not listen any more: {error}")))
}
