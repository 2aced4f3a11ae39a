//! The main function of a role's process: open the channel, receive the set-up, do the work, report the end.

use std::io::Write;
use std::os::fd::{OwnedFd, RawFd};
use std::sync::Arc;

use serde_json::Value;
use uva_graph::Dataset;
use uva_mem::handover::{Channel, ReceivedMessage};

use crate::launcher::process::signals;
use crate::launcher::wire::connections;
use crate::launcher::wire::messages::{Report, Setup};
use crate::launcher::wire::reports::{ChannelObserver, note_over, say_with};
use uva_runtime::control::{CONSUMER, Stop};
use uva_runtime::pipeline::roles::BatchReceiver;
use uva_runtime::pipeline::wiring::{ConnectedStages, wire};
use uva_runtime::plan::topology::{Role, RunStage};
use uva_runtime::telemetry::metrics::Observer;
use uva_runtime::{Runtime, RuntimeError};

/// The work of the consumer's process. It receives the job of the launcher's caller and returns the result.
pub type Consume = fn(&mut BatchReceiver, &Dataset, Value, &mut dyn Observer) -> Result<Value, RuntimeError>;

/// Runs a role in this process, which a launcher started for it, and returns its exit code. All messages go to the
/// launcher.
pub fn run(role: Role, channel: RawFd, consume: Consume) -> i32 {
    let channel = match inherited(role.name(), channel) {
        Ok(channel) => channel,
        Err(code) => return code,
    };
    match take_part(&channel, consume) {
        Ok(done) if role == Role::Consumer => report(&channel, &Report::Done(done), &[]),
        Ok(_) => 0,
        Err(Ended::Stopped) => {
            tracing::debug!("stopped by the launcher");
            0
        }
        Err(Ended::Failed(error)) => report(&channel, &Report::failed(&error), &[]),
    }
}

/// The channel to the launcher, which this process inherited under that number.
///
/// # Errors
/// The exit code for a process that was not started by a launcher.
pub(crate) fn inherited(name: &str, channel: RawFd) -> Result<Arc<Channel>, i32> {
    Channel::from_inherited(channel).map(Arc::new).map_err(|error| {
        // If stderr is closed too, the exit code has to suffice.
        let _ = writeln!(
            std::io::stderr(),
            "uvatrain {name}: this command is started by `uvatrain train`, not by hand ({error})"
        );
        2
    })
}

/// Reports to the launcher how this process ended. Returns the matching exit code.
pub(crate) fn report(channel: &Channel, report: &Report, fds: &[OwnedFd]) -> i32 {
    let code = match report {
        Report::Failed { error, .. } => {
            let code = error.exit_code();
            tracing::debug!(code, message = error.to_string(), "the role failed");
            code
        }
        _ => 0,
    };
    // A launcher that cannot receive it has ended, and its janitor handles the rest.
    let _ = say_with(channel, report, fds);
    code
}

enum Ended {
    /// The launcher requested the end.
    Stopped,
    Failed(RuntimeError),
}

impl From<RuntimeError> for Ended {
    fn from(error: RuntimeError) -> Self {
        Self::Failed(error)
    }
}

fn take_part(channel: &Arc<Channel>, consume: Consume) -> Result<Value, Ended> {
    let failed = |error: &dyn std::fmt::Display| RuntimeError::failed(error.to_string());
    let launcher = rustix::process::getppid();
    signals::leave_to_launcher().map_err(|error| failed(&error))?;
    let handed_over = || {
        let received = channel.recv();
        let ReceivedMessage { payload, fds, .. } = received
            .map_err(|error| RuntimeError::peer_gone(format!("no message from the launcher: {error}")))?;
        let setup: Setup = serde_json::from_slice(&payload).map_err(|error| failed(&error))?;
        Ok::<_, RuntimeError>((setup, fds))
    };
    let (setup, fds) = handed_over()?;
    tracing::info!(
        dataset = %setup.dataset.display(),
        samplers = setup.loader.samplers,
        batch_size = setup.loader.batch_size,
        seed = setup.loader.seed,
        descriptors = fds.len(),
        ranks = setup.serves,
        "the launcher has handed over"
    );
    let mut connections = connections::open(&setup, fds, note_over(channel))?;
    for _ in 1..setup.serves {
        let (setup, fds) = handed_over()?;
        connections.other_ranks.push(connections::open(&setup, fds, note_over(channel))?);
    }
    let others = connections.other_ranks.iter().map(|other| Arc::clone(&other.control));
    let controls: Vec<_> = std::iter::once(Arc::clone(&connections.control)).chain(others).collect();
    let control = Arc::clone(&connections.control);
    let backend = &connections.plan.backend;
    if setup.stages.iter().any(|stage| stage.role.is_on_gpu(backend)) {
        signals::stop_with_launcher(launcher, controls.clone()).map_err(|error| failed(&error))?;
    }
    let ended = if setup.stages.contains(&RunStage::CONSUMER) {
        Runtime::wired(connections, &setup.stages).and_then(|mut runtime| {
            let mut observer = ChannelObserver::new(Arc::clone(channel));
            runtime.fall_back().map_or(Ok(()), |event| observer.event(&event))?;
            let (receiver, dataset, _) = runtime.parts();
            let consumed = consume(receiver, dataset, setup.job.clone(), &mut observer);
            runtime.finish(consumed)
        })
    } else {
        wire(connections, &setup.stages).and_then(ConnectedStages::work).map(|()| Value::Null)
    };
    let counters = setup.stages.last().map_or(CONSUMER, |stage| stage.counters());
    for control in &controls {
        // A role that finished its work has recorded its memory earlier, while it still held its data.
        if control.memory(counters).is_none() {
            control.note_memory(counters);
        }
        control.note_peak_rss(counters);
    }
    tracing::debug!(
        position = control.position(counters),
        failed = ended.is_err(),
        "the role's work has ended"
    );
    match ended {
        Err(RuntimeError::PeerGone(_)) if controls.iter().any(|control| control.stop() == Stop::Now) => {
            Err(Ended::Stopped)
        }
        other => Ok(other?),
    }
}
