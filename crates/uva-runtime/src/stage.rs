//! Where a role's time goes, counted in the control page so that the launcher, and after a crash a person, can see it.

use std::sync::Arc;
use std::time::Instant;

use crate::control::{Control, Counter};

/// What a role is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doing {
    /// Its own work.
    Working,
    /// Waiting for something to work on.
    WaitingInput,
    /// Waiting for a place to put the result.
    WaitingOutput,
}

/// Splits a role's time into working and waiting. Time is added up at every change of what the role does, so the
/// three sums are its whole time.
#[derive(Debug)]
pub struct StageClock {
    control: Arc<Control>,
    role: usize,
    doing: Doing,
    since: Instant,
}

impl StageClock {
    /// Starts the clock of the role with this place in the control page.
    pub fn start(control: Arc<Control>, role: usize) -> Self {
        Self { control, role, doing: Doing::Working, since: Instant::now() }
    }

    /// The role does something else from now on. Returns the nanoseconds it did the former.
    pub fn now(&mut self, doing: Doing) -> u64 {
        let now = Instant::now();
        let nanoseconds = (now - self.since).as_nanos() as u64;
        let counter = match self.doing {
            Doing::Working => Counter::Working,
            Doing::WaitingInput => Counter::WaitingInput,
            Doing::WaitingOutput => Counter::WaitingOutput,
        };
        self.control.count(self.role, counter, nanoseconds);
        self.doing = doing;
        self.since = now;
        nanoseconds
    }
}

impl Drop for StageClock {
    fn drop(&mut self) {
        self.now(Doing::Working);
    }
}
