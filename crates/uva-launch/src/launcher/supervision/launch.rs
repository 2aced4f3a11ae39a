//! A run in processes, ready to start: dataset, plan, consumer, environments.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::launcher::command::user_command::UserCommand;
use crate::launcher::process::environments::Environments;
use crate::launcher::wire::messages::AttachedJob;
use uva_runtime::RuntimeError;
use uva_runtime::backend::Backend;
use uva_runtime::plan::RunPlan;
use uva_runtime::plan::topology::{Role, RunStage};
use uva_runtime::sampler::cache::CacheContents;

/// A run in processes, ready to start.
#[derive(Clone, Debug)]
pub struct Launch<'a> {
    /// The dataset's directory.
    pub dataset: &'a Path,
    /// Schedule, layout and slots: one plan for each rank if ranks divide the epochs, otherwise one plan.
    pub plans: &'a [RunPlan],
    /// The backend of each sampler that all ranks share; empty if the plan determines it.
    pub sampler_backends: &'a [Backend],
    /// The contents of each plan's caches.
    pub caches: &'a [CacheContents],
    /// The consumer of the batches.
    pub consumer: Consumer,
    /// Changes to the roles' environments, relative to this process's.
    pub environments: Environments,
}

/// The consumer of a run's batches.
#[derive(Clone, Debug)]
pub enum Consumer {
    /// A program that runs as a role ([`run_role`](crate::launcher::run_role)), in its own process.
    Program {
        /// Its file.
        program: PathBuf,
        /// Its job, in its own format ([`Consume`](crate::launcher::Consume)).
        job: Value,
    },
    /// A user's command, which attaches by [`attach`](crate::launcher::attach).
    Command {
        /// The command.
        command: UserCommand,
        /// Whether to report each training batch to the observer.
        events: bool,
        /// Whether each of its processes that attaches is a rank with its own plan.
        ranked: bool,
    },
}

impl Launch<'_> {
    /// The backend of a plan's process with these stages.
    pub(crate) fn backend_of<'b>(&'b self, plan: &'b RunPlan, stages: &[RunStage]) -> &'b Backend {
        let shared = match stages {
            [RunStage { role: Role::Sampler, index }] => self.sampler_backends.get(*index),
            _ => None,
        };
        shared.unwrap_or(&plan.backend)
    }

    /// Whether ranks divide the epochs.
    pub(crate) fn is_ranked(&self) -> bool {
        matches!(self.consumer, Consumer::Command { ranked: true, .. })
    }
}

impl Consumer {
    /// The job for the consumer's set-up.
    pub(crate) fn job(&self) -> Result<Value, RuntimeError> {
        match self {
            Self::Program { job, .. } => Ok(job.clone()),
            Self::Command { events, .. } => serde_json::to_value(AttachedJob { events: *events })
                .map_err(|error| RuntimeError::failed(error.to_string())),
        }
    }
}
