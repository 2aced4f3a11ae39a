//! One child process of a launcher: spawned by exec of a program, and owned until it is reaped.

use std::ffi::OsString;
use std::os::fd::BorrowedFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};

use uva_mem::handover::{Channel, HandoverError};
use uva_mem::spawn::Inherit;
use uva_mem::{PidFd, Signal};

use uva_runtime::{RuntimeError, machine};

/// A child process.
pub(crate) struct ChildProcess {
    /// Present until the process has closed its end.
    pub channel: Option<Channel>,
    pub pidfd: PidFd,
    child: Child,
    /// Set once it has been reaped.
    pub ended: Option<ExitStatus>,
}

impl ChildProcess {
    /// Wraps a child that was just spawned. The child is killed if it cannot be watched. `what` names it in the
    /// message.
    pub fn new(what: &str, mut child: Child, channel: Option<Channel>) -> Result<Self, RuntimeError> {
        match PidFd::open(child.id()) {
            Ok(pidfd) => Ok(Self { channel, pidfd, child, ended: None }),
            Err(error) => {
                // No other code has a handle to it yet.
                let _ = child.kill().and_then(|()| child.wait());
                Err(cannot_start(what, error))
            }
        }
    }

    /// Reaps it if it has ended.
    pub fn reap(&mut self) -> Option<ExitStatus> {
        if self.ended.is_none() {
            // Only ECHILD could make it fail, and no other code reaps these children.
            self.ended = self.child.try_wait().unwrap_or_else(|_| Some(ExitStatus::from_raw(0)));
        }
        self.ended
    }

    /// Reaps it when it ends.
    pub fn wait(&mut self) {
        let _ = self.child.wait().map(|status| self.ended = Some(status));
    }

    pub fn end_now(&mut self) {
        if self.reap().is_none() {
            // An error means that it has already ended.
            let _ = self.child.kill();
            self.wait();
        }
    }
}

/// A process of this program, to be spawned.
pub(crate) struct Spawn<'a> {
    pub program: &'a Path,
    /// The subcommand for its start.
    pub name: &'static str,
    /// Its number, if there are several.
    pub index: Option<usize>,
    /// The run's dataset.
    pub dataset: &'a Path,
    pub variables: &'a [(String, Option<String>)],
    /// The CPU cores that it may run on; `None` for those of the launcher.
    pub cores: Option<&'a [usize]>,
    /// The effect of the launcher's death on it.
    pub orphaned: Orphaned,
}

/// The effect of a launcher's death on a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Orphaned {
    /// The child is killed at once, since it has no work to finish.
    Killed,
    /// The child is requested to end, since it has work on a GPU: MPS does not survive a client that is killed during
    /// its work.
    Asked,
    /// The child continues in its own session, which a terminal's signals do not reach.
    Survives,
}

impl Spawn<'_> {
    /// Spawns the process, with a channel to this one.
    ///
    /// # Errors
    /// [`RuntimeError`] if no process or descriptor can be created, or the program does not exist.
    pub fn start(self) -> Result<ChildProcess, RuntimeError> {
        let Self { program, name, index, dataset, variables, cores, orphaned } = self;
        let (ours, theirs) = Channel::pair().map_err(|error| cannot_start(name, error))?;
        let mut command = Command::new(program);
        command.arg0("uvatrain").arg(name);
        if let Some(index) = index {
            command.arg(format!("--index={index}"));
        }
        // Names the run in the output of `ps`. It is one word, since a path may begin like an option.
        let mut named = OsString::from("--dataset=");
        named.push(dataset);
        command.arg(format!("--of={}", std::process::id())).arg(named);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        set_variables(&mut command, variables);
        let inherit = Inherit {
            channel: Some(theirs),
            death_signal: match orphaned {
                Orphaned::Killed => Some(Signal::KILL),
                Orphaned::Asked => Some(Signal::TERM),
                Orphaned::Survives => None,
            },
            new_session: orphaned == Orphaned::Survives,
            cores: cores.map(machine::core_set),
        };
        if let Some(number) = inherit.apply(&mut command) {
            command.arg(format!("--channel={number}"));
        }
        let child = command.spawn().map_err(|error| machine::not_started(&format!("the {name}"), &error))?;
        // The command holds the child's end of the channel. The channel closes with the end of the child only after
        // this drop.
        drop(command);
        tracing::info!(started = name, index, pid = child.id(), ?orphaned, "a process is started");
        ChildProcess::new(name, child, Some(ours))
    }
}

/// Sets a command's environment variables; a variable without a value is removed.
pub(crate) fn set_variables(command: &mut Command, variables: &[(String, Option<String>)]) {
    for (name, value) in variables {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
}

pub(crate) fn hand_over(
    channel: &Channel,
    message: &impl serde::Serialize,
    fds: &[BorrowedFd<'_>],
) -> Result<(), HandoverError> {
    let payload = serde_json::to_vec(message)
        .map_err(|error| HandoverError::System { doing: "writing the set-up", source: error.into() })?;
    channel.send(&payload, fds)
}

pub(crate) fn cannot_start(what: &str, error: impl std::fmt::Display) -> RuntimeError {
    RuntimeError::failed(format!("cannot start the {what}: {error}"))
}
