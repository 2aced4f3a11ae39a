//! A run in processes as it is to be started: dataset, plan, consumer, environments.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::environments::Environments;
use super::messages::AttachedJob;
use super::user_command::UserCommand;
use crate::RuntimeError;
use crate::cache::CacheContents;
use crate::plan::RunPlan;

/// A run in processes, as it is started.
#[derive(Clone, Debug)]
pub struct Launch<'a> {
    /// The dataset's directory.
    pub dataset: &'a Path,
    /// Schedule and slots.
    pub plan: &'a RunPlan,
    /// What the plan's caches hold.
    pub caches: &'a CacheContents,
    /// Who uses the batches.
    pub consumer: Consumer,
    /// What the roles find in their environment besides what this process has.
    pub environments: Environments,
}

/// Who uses a run's batches.
#[derive(Clone, Debug)]
pub enum Consumer {
    /// A program that is a role here ([`run_role`](super::run_role)), in a process of its own.
    Program {
        /// Its file.
        program: PathBuf,
        /// What it does with the batches, in its own terms ([`Consume`](super::Consume)).
        job: Value,
    },
    /// A command of the user's, which takes up the place by [`attach`](super::attach).
    Command {
        /// The command.
        command: UserCommand,
        /// Whether the observer is to hear of each training batch.
        events: bool,
    },
}

impl Consumer {
    /// What the consumer's set-up holds of it.
    pub(super) fn job(&self) -> Result<Value, RuntimeError> {
        match self {
            Self::Program { job, .. } => Ok(job.clone()),
            Self::Command { events, .. } => serde_json::to_value(AttachedJob { events: *events })
                .map_err(|error| RuntimeError::Failed(error.to_string())),
        }
    }
}
