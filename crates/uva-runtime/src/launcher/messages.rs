//! What launcher and roles say to each other over their channel: JSON payloads of one hand-over message each.
//!
//! A role's process is told its [`Setup`] first. The set-up names each descriptor that comes with it
//! ([`Resource`]), in the same order; the run's [topology](crate::topology) says which ones a process needs. Two
//! processes help without being roles. The planner hears a task, and its result comes with the memory that holds the
//! ids of the lists and rows. The janitor hears [`JanitorWord`]s.
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
use crate::topology::{Resource, Stage};

/// A process that helps a launcher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Helper {
    /// Finds out what to cache, before the roles start.
    Planner,
    /// Cleans up behind a launcher that was killed.
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
    pub stages: Vec<Stage>,
    /// The descriptors that come with it.
    pub handed: Vec<Handed>,
    pub dataset: PathBuf,
    pub loader: LoaderOptions,
    pub passes: Passes,
    pub backend: Backend,
    pub caches: Caches,
    /// What the consumer does with the batches, in its own terms; an [`AttachedJob`] where it is a command.
    pub job: Value,
}

/// The name of a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Handed {
    /// What it is.
    pub what: Resource,
    /// The number of the process, where it is one.
    pub pid: Option<u32>,
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
