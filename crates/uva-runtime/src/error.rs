//! What can go wrong in a run, told apart by what its user can do about it.

use uva_batch::LayoutError;
use uva_graph::GraphError;
use uva_mem::ring::RingError;
use uva_sample::SampleError;

/// Why a run could not be made, or ended.
#[derive(Debug, thiserror::Error)]
pub enum RuntimeError {
    /// An option or its value is wrong; the message names it and what it may be. Exit code 2.
    #[error("{0}")]
    Usage(String),
    /// The dataset or a checkpoint cannot be used as asked; the message names the file. Exit code 2.
    #[error("{0}")]
    Input(String),
    /// The machine lacks what was asked for; the message names the command that mends it. Exit code 3.
    #[error("{0}")]
    Missing(String),
    /// An earlier batch is still held, in the slot where the next one is to come. Exit code 1.
    #[error("{0}")]
    SlotHeld(String),
    /// This process cannot take up the consumer's place in a run; the message says why, and how it is done. Exit code
    /// 2.
    #[error("uvatrain.attach(): {0}")]
    Unattached(String),
    /// A peer of this role is gone: the other role's end is the cause, this one only follows. Exit code 1.
    #[error("{0}")]
    PeerGone(String),
    /// The run failed; the message names the role and the batch. Exit code 1.
    #[error("{0}")]
    Failed(String),
    /// SIGINT or SIGTERM ended the run; the number is the signal's. Exit code 128 + signal.
    #[error("interrupted by {}", signal_name(*.0))]
    Interrupted(i32),
}

impl RuntimeError {
    /// The program's exit code for this error (docs/commands.md).
    pub fn exit_code(&self) -> i32 {
        match self {
            Self::Usage(_) | Self::Input(_) | Self::Unattached(_) => 2,
            Self::Missing(_) => 3,
            Self::SlotHeld(_) | Self::PeerGone(_) | Self::Failed(_) => 1,
            Self::Interrupted(signal) => 128 + signal,
        }
    }

    /// The error an exit code and a message from another process stand for.
    pub(crate) fn from_exit_code(code: i32, message: String) -> Self {
        match code {
            2 => Self::Input(message),
            3 => Self::Missing(message),
            _ => Self::Failed(message),
        }
    }
}

pub(crate) fn signal_name(signal: i32) -> String {
    const NAMES: [(i32, &str); 14] = [
        (1, "SIGHUP"),
        (2, "SIGINT"),
        (3, "SIGQUIT"),
        (4, "SIGILL"),
        (6, "SIGABRT"),
        (7, "SIGBUS"),
        (8, "SIGFPE"),
        (9, "SIGKILL"),
        (11, "SIGSEGV"),
        (13, "SIGPIPE"),
        (15, "SIGTERM"),
        (24, "SIGXCPU"),
        (25, "SIGXFSZ"),
        (31, "SIGSYS"),
    ];
    NAMES
        .iter()
        .find(|(number, _)| *number == signal)
        .map_or_else(|| format!("signal {signal}"), |(_, name)| (*name).to_owned())
}

impl From<GraphError> for RuntimeError {
    fn from(error: GraphError) -> Self {
        // The system refusing a file is no fault of the input's.
        if error.is_bad_input() { Self::Input(error.to_string()) } else { Self::Failed(error.to_string()) }
    }
}

impl From<LayoutError> for RuntimeError {
    fn from(error: LayoutError) -> Self {
        Self::Usage(error.to_string())
    }
}

impl From<SampleError> for RuntimeError {
    fn from(error: SampleError) -> Self {
        Self::Usage(error.to_string())
    }
}

impl From<RingError> for RuntimeError {
    fn from(error: RingError) -> Self {
        match error {
            RingError::PeerDied { .. } => Self::PeerGone(error.to_string()),
            RingError::StillHeld { .. } => Self::SlotHeld(error.to_string()),
            other => Self::Failed(other.to_string()),
        }
    }
}
