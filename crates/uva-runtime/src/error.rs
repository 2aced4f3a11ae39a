//! What can go wrong in a run, sorted by what the user can do about it.

use std::fmt;
use std::path::Path;

use serde::{Deserialize, Serialize};
use uva_batch::LayoutError;
use uva_exchange::{Cause, ExchangeError};
use uva_graph::GraphError;
use uva_mem::ring::RingError;
use uva_sample::SampleError;

use uva_options::{OptionError, Spelling};

/// Why a run could not be started, or ended. The variant decides the exit code; the [`ErrorContext`] says what is wrong,
/// where, and what to do about it.
#[derive(Clone, Debug, thiserror::Error, Serialize, Deserialize)]
#[non_exhaustive]
pub enum RuntimeError {
    /// An option has an unusable value. Exit code 2.
    #[error(transparent)]
    Option(#[from] OptionError),
    /// A request other than an option's value is wrong. Exit code 2.
    #[error("{}", .0.spelled(Spelling::Keyword))]
    Usage(Box<ErrorContext>),
    /// The dataset, a checkpoint or another file is unusable for this run. Exit code 2.
    #[error("{}", .0.spelled(Spelling::Keyword))]
    Input(Box<ErrorContext>),
    /// The machine lacks something that was requested. Exit code 3.
    #[error("{}", .0.spelled(Spelling::Keyword))]
    Missing(Box<ErrorContext>),
    /// An earlier batch still holds the slot of the next one. Exit code 1.
    #[error("{}", .0.spelled(Spelling::Keyword))]
    SlotHeld(Box<ErrorContext>),
    /// This process cannot take the consumer's place in a run. Exit code 2.
    #[error("uvatrain.attach(): {}", .0.spelled(Spelling::Keyword))]
    Unattached(Box<ErrorContext>),
    /// A peer of this role has exited. The other role's end is the cause, and this error only follows. Exit code 1.
    #[error("{}", .0.spelled(Spelling::Keyword))]
    PeerGone(Box<ErrorContext>),
    /// The run failed. Exit code 1.
    #[error("{}", .0.spelled(Spelling::Keyword))]
    Failed(Box<ErrorContext>),
    /// SIGINT or SIGTERM ended the run; the number is the signal's. Exit code 128 + signal.
    #[error("interrupted by {}", signal_name(*.0))]
    Interrupted(i32),
}

/// The facts of a [`RuntimeError`]: what a program matches on, and what a message is made of. Other options appear in
/// `problem` and `remedy` as `` `slot_bytes` `` or `` `slot_bytes=64MiB` ``; a front end writes them in its own way.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ErrorContext {
    /// The role that failed and its batch, such as `the sampler failed at batch 3 of epoch 0`. `None` in the
    /// process where the error occurred.
    pub role: Option<String>,
    /// The option concerned, by its name with underscores: `batch_size`.
    pub option: Option<String>,
    /// That option's value, as text.
    pub value: Option<String>,
    /// The file or directory concerned, as text. An option's value may be the same file.
    pub path: Option<String>,
    /// The number of the slot concerned.
    pub slot: Option<u32>,
    /// The position of the batch concerned, in the order in which the run makes batches.
    pub batch: Option<u64>,
    /// What is wrong.
    pub problem: String,
    /// What to do instead, where there is something.
    pub remedy: Option<String>,
}

impl ErrorContext {
    /// The whole message in a front end's words: role, option or file, problem, remedy.
    #[must_use]
    pub fn spelled(&self, spelling: Spelling) -> String {
        self.written(|option, value| spelling.option(option, value), |text| spelling.sentence(text))
    }

    fn written(
        &self,
        option: impl Fn(&str, Option<&str>) -> String,
        sentence: impl Fn(&str) -> String,
    ) -> String {
        let option = self.option.as_ref().map(|name| option(name, self.value.as_deref()));
        let subject = option.or_else(|| self.path.clone());
        let parts = [self.role.clone(), subject, Some(sentence(&self.problem))];
        let message = parts.into_iter().flatten().collect::<Vec<_>>().join(": ");
        match &self.remedy {
            Some(remedy) => format!("{message}; {}", sentence(remedy)),
            None => message,
        }
    }

    fn of(problem: impl Into<String>) -> Box<Self> {
        Box::new(Self { problem: problem.into(), ..Self::default() })
    }
}

/// With options between backticks, so that the text can be part of another message.
impl fmt::Display for ErrorContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let marked = |name: &str, value: Option<&str>| format!("`{}`", Spelling::Keyword.option(name, value));
        f.write_str(&self.written(marked, str::to_owned))
    }
}

/// One error of each kind, from its problem. [`with_option`](Self::with_option), [`in_file`](Self::in_file) and the others add
/// to it.
impl RuntimeError {
    /// The error for an option: its field, the value in force, and the reason.
    pub fn option(field: &str, value: impl fmt::Display, reason: impl Into<String>) -> Self {
        OptionError::new(field, value, reason).into()
    }

    /// A wrong request.
    pub fn usage(problem: impl Into<String>) -> Self {
        Self::Usage(ErrorContext::of(problem))
    }

    /// An unusable file or dataset.
    pub fn input(problem: impl Into<String>) -> Self {
        Self::Input(ErrorContext::of(problem))
    }

    /// Something that the machine lacks.
    pub fn missing(problem: impl Into<String>) -> Self {
        Self::Missing(ErrorContext::of(problem))
    }

    /// A slot that an earlier batch holds.
    pub fn slot_held(problem: impl Into<String>) -> Self {
        Self::SlotHeld(ErrorContext::of(problem))
    }

    /// A process that cannot be the consumer of a run.
    pub fn unattached(problem: impl Into<String>) -> Self {
        Self::Unattached(ErrorContext::of(problem))
    }

    /// A peer that has exited.
    pub fn peer_gone(problem: impl Into<String>) -> Self {
        Self::PeerGone(ErrorContext::of(problem))
    }

    /// A failure.
    pub fn failed(problem: impl Into<String>) -> Self {
        Self::Failed(ErrorContext::of(problem))
    }

    /// With the option concerned, and its value.
    #[must_use]
    pub fn with_option(self, option: &str, value: impl fmt::Display) -> Self {
        self.with(|context| {
            context.option = Some(option.to_owned());
            context.value = Some(value.to_string());
        })
    }

    /// With the option concerned, whatever its value.
    #[must_use]
    pub fn with_option_of(self, option: &str) -> Self {
        self.with(|context| context.option = Some(option.to_owned()))
    }

    /// With the file or directory concerned.
    #[must_use]
    pub fn in_file(self, path: &Path) -> Self {
        self.with(|context| context.path = Some(path.display().to_string()))
    }

    /// With the option concerned, whose value is the file or directory concerned.
    #[must_use]
    pub fn with_path_option(self, option: &str, path: &Path) -> Self {
        self.with_option(option, path.display()).in_file(path)
    }

    /// With the slot concerned, and the position of its batch.
    #[must_use]
    pub fn in_slot(self, slot: u32, batch: Option<u64>) -> Self {
        self.with(|context| (context.slot, context.batch) = (Some(slot), batch))
    }

    /// With what to do instead.
    #[must_use]
    pub fn with_remedy(self, remedy: impl Into<String>) -> Self {
        self.with(|context| context.remedy = Some(remedy.into()))
    }

    /// The same error, prefixed with where it happened in a role.
    #[must_use]
    pub fn of_role(self, whereabouts: &str) -> Self {
        match self {
            Self::Option(error) => {
                Self::Option(OptionError { reason: format!("{whereabouts}: {}", error.reason), ..error })
            }
            // The launcher itself was not interrupted, and it did not attach.
            Self::Unattached(_) | Self::Interrupted(_) => Self::failed(self.to_string()).of_role(whereabouts),
            other => other.with(|context| {
                context.role = Some(match context.role.take() {
                    Some(inner) => format!("{whereabouts}: {inner}"),
                    None => whereabouts.to_owned(),
                });
            }),
        }
    }

    /// Changes the context of an error that has one.
    fn with(mut self, change: impl FnOnce(&mut ErrorContext)) -> Self {
        match &mut self {
            Self::Usage(context)
            | Self::Input(context)
            | Self::Missing(context)
            | Self::SlotHeld(context)
            | Self::Unattached(context)
            | Self::PeerGone(context)
            | Self::Failed(context) => change(context),
            Self::Option(_) | Self::Interrupted(_) => {}
        }
        self
    }
}

impl RuntimeError {
    /// The facts of this error; `None` for an [`OptionError`], which has its own, and for a signal.
    #[must_use]
    pub fn context(&self) -> Option<&ErrorContext> {
        match self {
            Self::Usage(context)
            | Self::Input(context)
            | Self::Missing(context)
            | Self::SlotHeld(context)
            | Self::Unattached(context)
            | Self::PeerGone(context)
            | Self::Failed(context) => Some(context),
            Self::Option(_) | Self::Interrupted(_) => None,
        }
    }

    /// The message as a front end writes it: options of the command line, or keywords.
    #[must_use]
    pub fn spelled(&self, spelling: Spelling) -> String {
        match self {
            Self::Option(error) => error.spelled(spelling),
            // Python is where a process attaches.
            Self::Unattached(_) | Self::Interrupted(_) => self.to_string(),
            Self::Usage(context)
            | Self::Input(context)
            | Self::Missing(context)
            | Self::SlotHeld(context)
            | Self::PeerGone(context)
            | Self::Failed(context) => context.spelled(spelling),
        }
    }

    /// The option to change, by its name with underscores.
    #[must_use]
    pub fn field(&self) -> Option<&str> {
        match self {
            Self::Option(error) => Some(&error.field),
            _ => self.context()?.option.as_deref(),
        }
    }

    /// The file or directory concerned, as text.
    #[must_use]
    pub fn path(&self) -> Option<&str> {
        self.context()?.path.as_deref()
    }

    /// The program's exit code for this error (docs/reference/commands.md).
    #[must_use]
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
        let (at_fault, path) = (error.is_bad_input(), error.path().map(|path| path.display().to_string()));
        let message = error.to_string();
        // The message begins with the file, which is shown once.
        let front = path.as_ref().and_then(|path| message.strip_prefix(path.as_str())?.strip_prefix(": "));
        let problem = front.unwrap_or(&message).to_owned();
        let context = Box::new(ErrorContext {
            path: path.filter(|_| front.is_some()),
            problem,
            ..ErrorContext::default()
        });
        // If the system refuses a file, the input is not at fault.
        if at_fault { Self::Input(context) } else { Self::Failed(context) }
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
            Some(Cause::Left) => Self::peer_gone(error.to_string()),
            _ => Self::failed(error.to_string()),
        }
    }
}

/// The error of a lower-level library, which may name the option to change.
fn of_field(field: Option<&str>, message: String) -> RuntimeError {
    match field {
        Some(field) => OptionError::in_front_of(&message, field).into(),
        None => RuntimeError::usage(message),
    }
}

impl From<RingError> for RuntimeError {
    fn from(error: RingError) -> Self {
        let message = error.to_string();
        match error {
            RingError::PeerDied { slot, sequence, .. } => {
                Self::peer_gone(message).in_slot(slot, Some(sequence))
            }
            RingError::StillHeld { slot, sequence, .. } => {
                Self::slot_held(message).in_slot(slot, Some(sequence))
            }
            RingError::Corrupt { slot, sequence, .. } => Self::failed(message).in_slot(slot, Some(sequence)),
            _ => Self::failed(message),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lacking() -> RuntimeError {
        RuntimeError::missing("the system refuses it")
            .with_option("reader", "uring")
            .with_remedy("`reader=auto` uses the first reader that works")
    }

    #[test]
    fn a_front_end_writes_the_options_of_a_context_its_own_way() {
        assert_eq!(
            lacking().spelled(Spelling::CommandLine),
            "--reader uring: the system refuses it; --reader auto uses the first reader that works"
        );
        assert_eq!(
            lacking().to_string(),
            "reader=uring: the system refuses it; reader=auto uses the first reader that works"
        );
        assert_eq!((lacking().field(), lacking().exit_code()), (Some("reader"), 3));
    }

    #[test]
    fn a_message_begins_with_the_file_unless_an_option_names_it() {
        let path = Path::new("runs/a`b`");
        assert_eq!(RuntimeError::input("it is empty").in_file(path).to_string(), "runs/a`b`: it is empty");
        let named = RuntimeError::input("it is empty").with_path_option("checkpoint", path);
        assert_eq!(named.spelled(Spelling::CommandLine), "--checkpoint runs/a`b`: it is empty");
        assert_eq!((named.path(), named.field()), (Some("runs/a`b`"), Some("checkpoint")));
    }

    #[test]
    fn a_message_begins_with_the_role_and_keeps_the_fields() {
        let error = lacking().of_role("the producer failed").of_role("rank 1");
        assert!(
            error.to_string().starts_with("rank 1: the producer failed: reader=uring: the system"),
            "{error}"
        );
        assert_eq!((error.field(), error.exit_code()), (Some("reader"), 3));
        let interrupted = RuntimeError::Interrupted(2).of_role("the sampler failed");
        assert_eq!(
            (interrupted.exit_code(), interrupted.to_string().as_str()),
            (1, "the sampler failed: interrupted by SIGINT")
        );
    }

    #[test]
    fn a_refused_file_is_a_field_and_is_shown_once() {
        let error = GraphError::Io {
            path: "data/feat.npy".into(),
            action: "open",
            source: std::io::Error::from(std::io::ErrorKind::NotFound),
        };
        let message = error.to_string();
        let error = RuntimeError::from(error);
        assert_eq!((error.to_string(), error.path()), (message, Some("data/feat.npy")));
    }
}
