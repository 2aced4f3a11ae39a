//! The launcher's state for a user's command.

use std::time::{Duration, Instant};

use uva_mem::Signal;

use super::fleet::Fleet;

/// Time without an attached process after which a note is given.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

/// The watch's state of the command.
pub(super) struct CommandState {
    /// The time for a note that no process has attached yet.
    pub note_at: Option<Instant>,
    /// The time of the next signal to end it, and that signal.
    pub end_at: Option<(Instant, Signal)>,
    /// Whether it was requested to end, so that its exit code is not meaningful.
    pub told: bool,
    /// The first of several ranks that stopped taking batches, with process and batch, for messages.
    pub first_out: Option<String>,
}

impl CommandState {
    pub fn begin() -> Self {
        Self { note_at: Some(Instant::now() + PATIENCE), end_at: None, told: false, first_out: None }
    }

    /// The time at which the watch has to act on the command.
    pub fn next_deadline(&self, fleet: &Fleet) -> Option<Instant> {
        let waits = fleet.door.as_ref().is_some_and(|door| door.vacant().is_some());
        let note = self.note_at.filter(|_| waits);
        note.into_iter().chain(self.end_at.map(|(at, _)| at)).min()
    }

    /// Whether the note is due; returns true once.
    pub fn note_is_due(&mut self, now: Instant) -> bool {
        let due = self.note_at.is_some_and(|at| now >= at);
        if due {
            self.note_at = None;
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_does_not_attach_for_a_while_is_named_once() {
        let mut watch = CommandState::begin();
        let now = Instant::now();
        assert!(!watch.note_is_due(now));
        assert!(watch.note_is_due(now + PATIENCE));
        assert!(!watch.note_is_due(now + 2 * PATIENCE));
    }
}
