//! What can go wrong in a run, sorted by what the user can do about it.

use std::fmt;

use serde::{Deserialize, Serialize};
use uva_batch::LayoutError;
use uva_exchange::{Cause, ExchangeError};
use uva_graph::GraphError;
use uva_mem::ring::RingError;
use uva_sample::SampleError;

use uva_options::{OptionError, Spelling};

/// Why a run could not be started, or ended.
#[derive(Clone, Debug, thiserror::Error, Serialize, Deserialize)]
pub enum RuntimeError {
    /// An option has an unusable value. Exit code 2.
    #[error(transparent)]
    Option(#[from] OptionError),
    /// A request other than an option is wrong; the message names it and its valid values. Exit code 2.
    #[error("{}", Spelling::Keyword.sentence(.0))]
    Usage(String),
    /// The dataset or a checkpoint is unusable for this run; the message names the file. Exit code 2.
    #[error("{}", Spelling::Keyword.sentence(.0))]
    Input(String),
    /// The machine lacks something that was requested; the message names the command that fixes it. Exit code 3.
    #[error("{}", Spelling::Keyword.sentence(.0))]
    Missing(String),
    /// An earlier batch still holds the slot of the next one. Exit code 1.
    #[error("{}", Spelling::Keyword.sentence(.0))]
    SlotHeld(String),
    /// This process cannot take the consumer's place in a run; the message says why, and how to do it. Exit code 2.
    #[error("uvatrain.attach(): {0}")]
    Unattached(String),
    /// A peer of this role is gone. The other role's end is the cause, and this error only follows. Exit code 1.
    #[error("{}", Spelling::Keyword.sentence(.0))]
    PeerGone(String),
    /// The run failed; the message names the role and the batch. Exit code 1.
    #[error("{}", Spelling::Keyword.sentence(.0))]
    Failed(String),
    /// SIGINT or SIGTERM ended the run; the number is the signal's. Exit code 128 + signal.
    #[error("interrupted by {}", signal_name(*.0))]
    Interrupted(i32),
}

impl RuntimeError {
    /// The message as a front end writes it: options of the command line, or keywords.
    #[must_use]
    pub fn spelled(&self, spelling: Spelling) -> String {
        match self {
            Self::Option(error) => error.spelled(spelling),
            Self::Usage(text)
            | Self::Input(text)
            | Self::Missing(text)
            | Self::SlotHeld(text)
            | Self::PeerGone(text)
            | Self::Failed(text) => spelling.sentence(text),
            Self::Unattached(_) | Self::Interrupted(_) => self.to_string(),
        }
    }

    /// Refuses an option and its value.
    /// The error for an option: its field, the value in force, and the reason.
    pub fn option(field: &str, value: impl fmt::Display, reason: impl Into<String>) -> Self {
        OptionError::new(field, value, reason).into()
    }

    /// The same error, prefixed with where it happened in a role.
    pub fn of_role(self, whereabouts: &str) -> Self {
        let told = |message: String| format!("{whereabouts}: {message}");
        match self {
            Self::Option(error) => Self::Option(OptionError { reason: told(error.reason), ..error }),
            Self::Usage(message) => Self::Usage(told(message)),
            Self::Input(message) => Self::Input(told(message)),
            Self::Missing(message) => Self::Missing(told(message)),
            Self::SlotHeld(message) => Self::SlotHeld(told(message)),
            Self::PeerGone(message) => Self::PeerGone(told(message)),
            Self::Failed(message) => Self::Failed(told(message)),
            // The launcher itself was not interrupted, and it did not attach.
            Self::Unattached(_) | Self::Interrupted(_) => Self::Failed(told(self.to_string())),
        }
    }

    /// The option to change, by its name with underscores.
    #[must_use]
    pub fn field(&self) -> Option<&str> {
        match self {
            Self::Option(error) => Some(&error.field),
            _ => None,
        }
    }

    /// The program's exit code for this error (docs/reference/commands.md).
    pub fn exit_code(&self) -> i32 {
        match self {
            Self::Option(_) | Self::Usage(_) | Self::Input(_) | Self::Unattached(_) => 2,
            Self::Missing(_) => 3,
            Self::SlotHeld(_) | Self::PeerGone(_) | Self::Failed(_) => 1,
            Self::Interrupted(signal) => 128 + signal,
        }
    }
}

/// The name of a signal: `SIGKILL`.
#[must_use]
pub fn signal_name(signal: i32) -> String {
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
        if let GraphError::Usage { option, message } = &error
            && option.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
        {
            return OptionError::of(option, message).into();
        }
        // If the system refuses a file, the input is not at fault.
        if error.is_bad_input() { Self::Input(error.to_string()) } else { Self::Failed(error.to_string()) }
    }
}

impl From<LayoutError> for RuntimeError {
    fn from(error: LayoutError) -> Self {
        of_field(error.field(), error.to_string())
    }
}

impl From<SampleError> for RuntimeError {
    fn from(error: SampleError) -> Self {
        match error {
            SampleError::Exchange(error) => error.into(),
            error => of_field(error.field(), error.to_string()),
        }
    }
}

/// A rank that leaves has done its part; all else is a failure.
impl From<ExchangeError> for RuntimeError {
    fn from(error: ExchangeError) -> Self {
        match error.cause() {
            Some(Cause::Left) => Self::PeerGone(error.to_string()),
            _ => Self::Failed(error.to_string()),
        }
    }
}

/// The error of a lower-level library, which may name the option to change.
fn of_field(field: Option<&str>, message: String) -> RuntimeError {
    match field {
        Some(field) => OptionError::in_front_of(&message, field).into(),
        None => RuntimeError::Usage(message),
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
