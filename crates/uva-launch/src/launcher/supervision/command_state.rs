//! The launcher's state about a command of the user's.

use std::time::{Duration, Instant};

use uva_mem::Signal;

use super::fleet::Fleet;

/// After this long without an attached process a line says so.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

/// What the watch knows of the command.
pub(super) struct CommandState {
    /// When to note that no process has attached yet.
    pub note_at: Option<Instant>,
    /// When to tell it to end next, and how.
    pub end_at: Option<(Instant, Signal)>,
    /// It was asked to end, so its exit says nothing.
    pub told: bool,
    /// Of several ranks those that were the first to take no more batches, with process and batch, for messages.
    pub first_out: Option<String>,
}

impl CommandState {
    pub fn begin() -> Self {
        Self { note_at: Some(Instant::now() + PATIENCE), end_at: None, told: false, first_out: None }
    }

    /// When the watch has to act on it.
    pub fn next_deadline(&self, fleet: &Fleet) -> Option<Instant> {
        let waits = fleet.door.as_ref().is_some_and(|door| door.vacant().is_some());
        let note = self.note_at.filter(|_| waits);
        note.into_iter().chain(self.end_at.map(|(at, _)| at)).min()
    }

    /// Whether the note is due; it is given once.
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
