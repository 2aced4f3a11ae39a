//! Reports of a run's process to its launcher.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use uva_mem::handover::Channel;

use super::messages::Report;
use uva_runtime::RuntimeError;
use uva_runtime::machine::clock::since_boot;
use uva_runtime::pipeline::wiring::Note;
use uva_runtime::telemetry::metrics::{Event, Observer, RunProgress};

impl Report {
    /// The report that a role cannot continue because of this error.
    pub(crate) fn failed(error: &RuntimeError) -> Self {
        Self::Failed { error: error.clone(), at: since_boot() }
    }
}

/// Interval of a pass's progress reports. More messages would not be visible.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(50);

/// Forwards what the consumer observes to the launcher.
#[derive(Debug)]
pub(crate) struct ChannelObserver {
    channel: Arc<Channel>,
    /// The last forwarded progress, and its time.
    progress: Option<(RunProgress, Instant)>,
}

impl ChannelObserver {
    pub fn new(channel: Arc<Channel>) -> Self {
        Self { channel, progress: None }
    }
}

impl Observer for ChannelObserver {
    fn event(&mut self, event: &Event) -> Result<(), RuntimeError> {
        say(&self.channel, &Report::Event(Box::new(event.clone())))
    }

    fn progress(&mut self, progress: &RunProgress, _busiest: &str) {
        // A pass's first and last batch always count: its speed is measured between them.
        let now = Instant::now();
        let dispensable = progress.batch < progress.batches
            && self.progress.is_some_and(|(last, at)| {
                (last.split, last.epoch) == (progress.split, progress.epoch)
                    && now.duration_since(at) < PROGRESS_INTERVAL
            });
        if !dispensable {
            self.progress = Some((*progress, now));
            // If the launcher has ended, the next event detects it.
            let _ = say(&self.channel, &Report::Progress(*progress));
        }
    }

    fn note(&mut self, line: &str) {
        let _ = say(&self.channel, &Report::Note(line.to_owned()));
    }
}

/// Sends lines for people to the launcher.
pub(crate) fn note_over(channel: &Arc<Channel>) -> Note {
    let channel = Arc::clone(channel);
    Arc::new(move |line| note(&channel, line))
}

/// Sends a line for people.
pub(crate) fn note(channel: &Channel, line: &str) {
    // Other checks detect that the launcher has ended.
    let _ = say(channel, &Report::Note(line.to_owned()));
}

pub(crate) fn say(channel: &Channel, report: &Report) -> Result<(), RuntimeError> {
    say_with(channel, report, &[])
}

pub(crate) fn say_with(channel: &Channel, report: &Report, fds: &[OwnedFd]) -> Result<(), RuntimeError> {
    let payload = serde_json::to_vec(report).map_err(|error| RuntimeError::failed(error.to_string()))?;
    let fds: Vec<_> = fds.iter().map(AsFd::as_fd).collect();
    channel.send(&payload, &fds).map_err(|error| {
        RuntimeError::peer_gone(format!("the launcher no longer receives messages: {error}"))
    })
}
