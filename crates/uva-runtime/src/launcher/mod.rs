//! Starts the roles as processes, watches them and ends them. Never touches CUDA or libtorch itself.
//!
//! | what happens | what the launcher does | exit code |
//! |---|---|---|
//! | every role ends well | reaps them, writes the `end` line | 0 |
//! | a role dies or fails | stops the others, names the role, the cause and the batch | 1, or the role's own 2 or 3 |
//! | SIGINT or SIGTERM, once | asks the consumer to finish its batch and write a checkpoint, then stops the others | 130, 143 |
//! | the same again | kills every role at once | 130, 143 |
//! | the launcher itself is killed | the kernel kills the roles; the janitor makes sure and cleans up | – |
//! | the observer fails (a full disk, say) | stops every role | its own |
//!
//! After any of them no process of the run is left. There is nothing else to leave behind: every region is a memfd
//! and every socket a nameless pair, which go with the last process that has them. A checkpoint that was being
//! written is the one exception, and is removed by name.

mod fleet;
mod janitor;
mod messages;
mod role_process;
mod signals;
mod watch;

use std::path::{Path, PathBuf};
use std::time::Instant;

use serde_json::Value;

use crate::RuntimeError;
use crate::control::Control;
use crate::metrics::{Observer, Roles};
use crate::plan::RunPlan;

pub use messages::Role;
pub use role_process::{Consume, run as run_role};

/// A run in processes.
#[derive(Clone, Debug)]
pub struct Launch<'a> {
    /// The dataset's directory.
    pub dataset: &'a Path,
    /// Schedule and slots.
    pub plan: &'a RunPlan,
    /// What the consumer does with the batches, in its own terms.
    pub job: Value,
    /// Environment variables for the consumer alone.
    pub consumer_environment: Vec<(String, String)>,
    /// Where the consumer writes checkpoints, if it does.
    pub checkpoint: Option<PathBuf>,
}

/// What came of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// What the consumer ended with.
    pub done: Value,
    /// What each role did with its time.
    pub roles: Roles,
    /// Seconds from the first process's start to the last one's end.
    pub seconds: f64,
}

impl Launch<'_> {
    /// Runs it to its end, whatever that is.
    ///
    /// # Errors
    /// As the table above says. No process of the run is left in any case.
    pub fn run(&self, observer: &mut dyn Observer) -> Result<Outcome, RuntimeError> {
        let started = Instant::now();
        // Before the first child, so that no signal can end the launcher without its knowledge.
        let signals = signals::Signals::listen().map_err(|error| {
            RuntimeError::Failed(format!("cannot listen for SIGINT and SIGTERM: {error}"))
        })?;
        let control = Control::create(self.plan.options.samplers)?;
        let fleet = fleet::Fleet::start(self, &control)?;
        let ended = watch::watch(fleet, &control, signals, self.plan, observer);
        // A role killed while it wrote a checkpoint leaves its temporary file.
        if let (Err(_), Some(directory)) = (&ended, &self.checkpoint) {
            crate::checkpoint_files::remove_leftovers(directory);
        }
        let done = ended?;
        Ok(Outcome { done, roles: control.roles(), seconds: started.elapsed().as_secs_f64() })
    }
}
