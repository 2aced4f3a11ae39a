//! What launcher and roles say to each other over their channel: JSON payloads of one hand-over message each.
//!
//! | role | descriptors that come with its [`Setup`], in this order |
//! |---|---|
//! | sampler | control page, batch ring, the producer's pidfd |
//! | producer | control page, batch ring, feature ring, the consumer's pidfd, every sampler's pidfd |
//! | consumer | control page, feature ring, the producer's pidfd |
//! | janitor | the launcher's pidfd, then every role's pidfd |

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::metrics::{Event, Progress};
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
    /// Cleans up behind a launcher that was killed.
    Janitor,
}

impl Role {
    /// The role's name, which is also the argument its process is started with.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sampler => "sampler",
            Self::Producer => "producer",
            Self::Consumer => "consumer",
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
    /// What the consumer does with the batches, in its own terms.
    pub job: Value,
}

/// The first message to the janitor.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct JanitorSetup {
    /// The launcher's process number, for messages.
    pub launcher: u32,
    /// The roles' process numbers, for messages.
    pub roles: Vec<u32>,
    /// Where a consumer that was killed may have left a half-written checkpoint.
    pub checkpoint: Option<PathBuf>,
}

/// What a role tells its launcher.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Report {
    /// A line of the metrics.
    Event(Event),
    /// The run came this far.
    Progress(Progress),
    /// A line for the person who watches.
    Note(String),
    /// The role is through; the consumer says with what.
    Done(Value),
    /// The role cannot go on.
    Failed {
        /// The exit code that fits.
        code: i32,
        message: String,
        /// Whether another role's end is the cause.
        follows: bool,
    },
}
