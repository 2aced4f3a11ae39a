//! A role's time by activity, counted in the control page, which the launcher can read even after a crash.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::control::role_times::RoleTimes;
use crate::control::{Control, Counter};

/// The activity of a role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activity {
    /// Work.
    Working,
    /// A wait for input.
    WaitingInput,
    /// A wait for a slot for its output.
    WaitingOutput,
}

impl Activity {
    fn counter(self) -> Counter {
        match self {
            Self::Working => Counter::Working,
            Self::WaitingInput => Counter::WaitingInput,
            Self::WaitingOutput => Counter::WaitingOutput,
        }
    }
}

/// Splits a role's time into working and waiting. Every change of activity adds the time since the last, so the three
/// sums are the role's whole time.
#[derive(Debug)]
pub struct StageClock {
    control: Arc<Control>,
    role: usize,
    doing: Activity,
    since: Instant,
    /// Nanoseconds that the host attributed to another activity, not yet subtracted from it.
    really: (Activity, u64),
}

impl StageClock {
    /// Starts the clock of the role at this index of the control page.
    pub fn start(control: Arc<Control>, role: usize) -> Self {
        let doing = Activity::Working;
        Self { control, role, doing, since: Instant::now(), really: (doing, 0) }
    }

    /// Corrects for time that the host counted as another activity but was `doing`: a GPU at work, or waiting. It is
    /// subtracted from the times counted next, so the sum remains the role's whole time. A role may correct only one
    /// activity.
    pub fn really(&mut self, doing: Activity, time: Duration) {
        self.really = (doing, self.really.1 + time.as_nanos() as u64);
    }

    /// Traces the role's time totals after the end of its work.
    pub fn log_end(&mut self) {
        self.now(Activity::Working);
        let RoleTimes { working_s, waiting_input_s, waiting_output_s, .. } = self.control.times(self.role);
        let position = self.control.position(self.role);
        tracing::info!(position, working_s, waiting_input_s, waiting_output_s, "its work has ended");
    }

    /// Changes the role's activity, and returns the nanoseconds of the previous one.
    pub fn now(&mut self, doing: Activity) -> u64 {
        let now = Instant::now();
        let nanoseconds = (now - self.since).as_nanos() as u64;
        let (other, owed) = self.really;
        let moved = if other == self.doing { 0 } else { owed.min(nanoseconds) };
        self.really.1 -= moved;
        self.control.count(self.role, other.counter(), moved);
        self.control.count(self.role, self.doing.counter(), nanoseconds - moved);
        self.doing = doing;
        self.since = now;
        nanoseconds
    }
}

impl Drop for StageClock {
    fn drop(&mut self) {
        self.now(Activity::Working);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LoaderOptions;
    use crate::control::PRODUCER;

    #[test]
    fn what_a_gpu_did_is_taken_out_of_what_the_host_counted_and_the_sum_stays() {
        let control = Arc::new(Control::create(&LoaderOptions::default()).unwrap());
        let mut clock = StageClock::start(Arc::clone(&control), PRODUCER);
        let worked = clock.now(Activity::WaitingInput);
        clock.really(Activity::Working, Duration::from_secs(3600));
        let waited = clock.now(Activity::WaitingOutput);
        let times = control.roles().producer;
        // An hour exceeds the recorded wait: only the wait counts as work.
        assert_eq!(times.waiting_input_s, 0.0);
        assert_eq!(times.working_s, (worked + waited) as f64 * 1e-9);
    }
}
