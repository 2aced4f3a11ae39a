//! What launcher and roles say to each other over their channel: JSON payloads of one hand-over message each.
//!
//! | role | descriptors that come with its [`Setup`], in this order |
//! |---|---|
//! | sampler | control page, batch ring, the producer's pidfd, the reordered graph |
//! | producer | control page, batch ring, feature ring, the consumer's pidfd, every sampler's pidfd, the channel, the cached rows' ids |
//! | consumer | control page, feature ring, the producer's pidfd, the channel |
//! | consumer with the producer in it | control page, batch ring, every sampler's pidfd, the cached rows' ids |
//! | consumer with producer and sampler in it | control page, batch ring, the cached rows' ids, the reordered graph |
//!
//! The planner hears a task instead, and its result comes with the memory that holds the lists' and the rows' ids.
//!
//! The channel is one between producer and consumer, for feature slots that are on a GPU; without them it is not there.
//! Reordered graph and cached rows' ids are there where the plan's caches need them. The janitor hears [`JanitorWord`]s
//! instead. Where the producer is a thread of the consumer's process, that process's pidfd stands for it.
//!
//! A command of the user's hears nothing by itself. It inherits a socket, and a process of it that wants to take up the
//! consumer's place [knocks](Knock) there; what it is told comes over a channel of its own, which it sent along, since
//! several processes hold the socket. Where a command's process is a peer, the one that was started stands for
//! whichever attaches.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::RuntimeError;
use crate::backend::Backend;
use crate::cache::Caches;
use crate::metrics::{Event, Progress};
use crate::mps;
use crate::options::{LoaderOptions, Passes};

/// The processes of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Picks seeds and neighbours.
    Sampler,
    /// Gathers feature rows.
    Producer,
    /// Trains.
    Consumer,
    /// Finds out what to cache, before the others start.
    Planner,
    /// Cleans up behind a launcher that was killed.
    Janitor,
}

impl Role {
    /// Whether the role's process works on the GPU of this backend.
    pub(crate) fn is_on_gpu(self, backend: &Backend) -> bool {
        match self {
            Self::Sampler => backend.gpu_sampler().is_some(),
            Self::Producer | Self::Consumer | Self::Planner => backend.cuda().is_some(),
            Self::Janitor => false,
        }
    }

    /// The role's name, which is also the argument its process is started with.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sampler => "sampler",
            Self::Producer => "producer",
            Self::Consumer => "consumer",
            Self::Planner => "planner",
            Self::Janitor => "janitor",
        }
    }
}

/// The first message to a role.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Setup {
    /// Which sampler; 0 for the other roles.
    pub index: usize,
    /// Process numbers of the peers whose pidfds come with it, for messages.
    pub peers: Vec<u32>,
    pub dataset: PathBuf,
    pub loader: LoaderOptions,
    pub passes: Passes,
    pub backend: Backend,
    pub caches: Caches,
    /// What the consumer does with the batches, in its own terms; an [`AttachedJob`] where it is a command.
    pub job: Value,
}

/// What a process says that wants to take up the consumer's place. Its own pidfd and its end of a channel come with it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Knock {
    /// The version of this crate in it.
    pub version: String,
    /// Its [`PROTOCOL`](super::protocol::PROTOCOL); builds from before there was one say none.
    #[serde(default)]
    pub protocol: Option<u32>,
    /// Its process number, as it sees it itself. The launcher goes by what the kernel says.
    pub pid: u32,
}

/// What it is answered over that channel.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Answer {
    /// It has the place. The consumer's descriptors come with it.
    Welcome(Box<Setup>),
    /// It has not, and why.
    Refused(String),
}

/// What an attached process does besides using batches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AttachedJob {
    /// Whether somebody wants to hear of each batch.
    pub events: bool,
}

/// What the launcher tells its janitor, each as soon as there is something to do about it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum JanitorWord {
    /// First of all: whose death to wait for. Its pidfd comes with it.
    Launcher {
        /// Its process number, for messages.
        pid: u32,
        /// Where a consumer that was killed may have left a half-written checkpoint; the claim on it comes along.
        checkpoint: Option<PathBuf>,
    },
    /// An MPS daemon of this run's own, about to be started.
    Daemon(mps::Leftover),
    /// The roles. Their pidfds come with it.
    Roles {
        /// Their process numbers.
        pids: Vec<u32>,
        /// Which of them have work on a GPU.
        on_gpu: Vec<u32>,
    },
    /// A process that took up the consumer's place. Its pidfd comes with it.
    Attached {
        /// Its process number.
        pid: u32,
        /// Whether it has work on a GPU.
        on_gpu: bool,
    },
    /// Nothing is left to do.
    Done,
}

/// What a role tells its launcher.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Report {
    /// A line of the metrics.
    Event(Box<Event>),
    /// The run came this far.
    Progress(Progress),
    /// A line for the person who watches.
    Note(String),
    /// The role is through; the consumer says with what.
    Done(Value),
    /// The role cannot go on.
    Failed {
        /// Why.
        error: RuntimeError,
        /// When it failed ([`since_boot`](crate::clock::since_boot)).
        at: Duration,
    },
}
