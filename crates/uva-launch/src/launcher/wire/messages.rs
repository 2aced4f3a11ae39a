//! Messages between launcher and roles over their channel: JSON payloads of one hand-over message each.
//!
//! A role's process first receives its [`Setup`]. The set-up names each descriptor that comes with it ([`Resource`]),
//! in the same order; the run's [topology](uva_runtime::plan::topology) determines the resources of a process. Two
//! helper processes are not roles. The planner receives a task; its result comes with memory that holds the ids of the
//! lists and rows. The janitor receives [`JanitorWord`]s.
//!
//! A user's command receives no messages before a request. It inherits a socket, or the name of one, and a process of
//! the command requests a consumer's place by a [knock](Knock) there. Several processes share that socket, so the knock
//! carries a private channel, over which the launcher answers. If a command's process is a peer, the process that was
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
    /// Number of ranks that its stages serve. The process receives a set-up for each, one after the other.
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
    /// The resource that it refers to.
    pub what: Resource,
    /// The process number, if it refers to a process.
    pub pid: Option<u32>,
}

/// A process's request for the consumer's place. The message carries the process's pidfd and the launcher's end of a
/// channel.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Knock {
    /// The version of this crate in the process.
    pub version: String,
    /// Its [protocol](super::protocol::protocol).
    pub protocol: u32,
    /// Its process number in its own namespace. If the kernel reports the sender, the launcher relies on that instead.
    pub pid: u32,
    /// Its rank, and the number of ranks.
    pub part: Part,
    /// The proof that the launcher has started it, if the socket does not provide one.
    pub secret: Option<u64>,
}

/// The answer over that channel.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum AttachReply {
    /// The process has the place. The message carries the consumer's descriptors.
    Welcome {
        setup: Box<Setup>,
        /// The proof that the launcher answers, if the socket does not provide one.
        secret: Option<u64>,
    },
    /// The process does not have the place, for this reason.
    Refused(String),
}

/// The work of an attached process in addition to using batches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AttachedJob {
    /// Whether to report each batch.
    pub events: bool,
}

/// The launcher's messages to its janitor, each sent as soon as there is something to clean up.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum JanitorWord {
    /// The first message: the process to watch. The message carries its pidfd.
    Launcher {
        /// Its process number, for messages.
        pid: u32,
        /// The directory in which a killed consumer may have left a half-written checkpoint; the message carries the
        /// claim on it.
        checkpoint: Option<PathBuf>,
    },
    /// An MPS daemon of this run's own, about to be started.
    Daemon(mps::Leftover),
    /// Further roles. The message carries their pidfds.
    Roles {
        /// Their process numbers.
        pids: Vec<u32>,
        /// The roles with work on a GPU.
        on_gpu: Vec<u32>,
    },
    /// A process that took the consumer's place. The message carries its pidfd.
    Attached {
        /// Its process number.
        pid: u32,
        /// Whether it has work on a GPU.
        on_gpu: bool,
    },
    /// No cleanup is left.
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
        /// The error.
        error: RuntimeError,
        /// The time of the failure ([`since_boot`](uva_runtime::machine::clock::since_boot)).
        at: Duration,
    },
}
