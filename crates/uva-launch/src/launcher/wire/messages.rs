//! Messages between launcher and roles over their channel: JSON payloads of one hand-over message each.
//!
//! A role's process first receives its [`Setup`]. The set-up names each descriptor that comes with it ([`Resource`]),
//! in the same order; the run's [topology](uva_runtime::plan::topology) determines which ones a process needs. Two helper processes
//! are not roles. The planner receives a task; its result comes with memory that holds the ids of the lists and rows.
//! The janitor receives [`JanitorWord`]s.
//!
//! A command of the user's receives nothing unasked. It inherits a socket, or the name of one, and a process of it
//! that wants a consumer's place [knocks](Knock) there. Several processes know that socket, so the knock brings a
//! channel of its own, over which the launcher answers. Where a command's process is a peer, the process that was
//! started represents the one that attaches.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::mps;
use uva_runtime::RuntimeError;
use uva_runtime::backend::Backend;
use uva_runtime::options::part::Part;
use uva_runtime::options::{LoaderOptions, Passes};
use uva_runtime::plan::topology::{Resource, RunStage};
use uva_runtime::sampler::cache::Caches;
use uva_runtime::telemetry::metrics::{Event, RunProgress};

/// A process that helps a launcher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Helper {
    /// Determines what to cache, before the roles start.
    Planner,
    /// Cleans up after a launcher that was killed.
    Janitor,
}

impl Helper {
    /// The name, which is also the argument its process is started with.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Planner => "planner",
            Self::Janitor => "janitor",
        }
    }
}

/// The first message to a role.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Setup {
    /// The stages that the process runs, in the order in which a batch passes through them.
    pub stages: Vec<RunStage>,
    /// How many ranks its stages serve. It gets a set-up for each, one after the other.
    pub serves: usize,
    /// The descriptors that come with the message.
    pub handed: Vec<DescriptorName>,
    pub dataset: PathBuf,
    pub loader: LoaderOptions,
    pub passes: Passes,
    pub backend: Backend,
    pub caches: Caches,
    /// The consumer's job, in its own format; an [`AttachedJob`] where it is a command.
    pub job: Value,
}

/// The name of a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DescriptorName {
    /// What it refers to.
    pub what: Resource,
    /// The process number, where it refers to a process.
    pub pid: Option<u32>,
}

/// The request of a process for the consumer's place. Its own pidfd and its end of a channel come with it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Knock {
    /// The version of this crate in the process.
    pub version: String,
    /// Its [protocol](super::protocol::protocol).
    pub protocol: u32,
    /// Its process number, as it sees it. Where the kernel names the sender, the launcher relies on that instead.
    pub pid: u32,
    /// Which rank it is, of how many.
    pub part: Part,
    /// What shows that the launcher has started it, where the socket does not.
    pub secret: Option<u64>,
}

/// The answer over that channel.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum AttachReply {
    /// It has the place. The consumer's descriptors come with the message.
    Welcome {
        setup: Box<Setup>,
        /// What shows that the launcher answers, where the socket does not.
        secret: Option<u64>,
    },
    /// It does not have the place, and why.
    Refused(String),
}

/// What an attached process does besides using batches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AttachedJob {
    /// Whether to report each batch.
    pub events: bool,
}

/// What the launcher tells its janitor, each as soon as there is something to clean up.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum JanitorWord {
    /// The first message: the process whose death to wait for. Its pidfd comes with it.
    Launcher {
        /// Its process number, for messages.
        pid: u32,
        /// Where a killed consumer may have left a half-written checkpoint; the claim on the directory comes with the
        /// message.
        checkpoint: Option<PathBuf>,
    },
    /// An MPS daemon of this run's own, about to be started.
    Daemon(mps::Leftover),
    /// More roles. Their pidfds come with the message.
    Roles {
        /// Their process numbers.
        pids: Vec<u32>,
        /// Which of them have work on a GPU.
        on_gpu: Vec<u32>,
    },
    /// A process that took the consumer's place. Its pidfd comes with the message.
    Attached {
        /// Its process number.
        pid: u32,
        /// Whether it has work on a GPU.
        on_gpu: bool,
    },
    /// Nothing is left to do.
    Done,
}

/// A role's report to its launcher.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Report {
    /// A line of the metrics.
    Event(Box<Event>),
    /// The run's progress.
    Progress(RunProgress),
    /// A line for people.
    Note(String),
    /// The role has finished; the consumer adds its result.
    Done(Value),
    /// The role cannot continue.
    Failed {
        /// Why.
        error: RuntimeError,
        /// When it failed ([`since_boot`](uva_runtime::machine::clock::since_boot)).
        at: Duration,
    },
}
