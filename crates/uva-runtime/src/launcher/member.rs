//! One process of a run: started by exec'ing this program, owned until it is reaped.

use std::ffi::OsString;
use std::os::fd::BorrowedFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};

use uva_mem::handover::{Channel, HandoverError};
use uva_mem::spawn::Inherit;
use uva_mem::{PidFd, Signal};

use super::environments::Environments;
use super::messages::Role;
use crate::control::{CONSUMER, FIRST_SAMPLER, PRODUCER};
use crate::{RuntimeError, machine};

/// One process of a run.
pub(crate) struct Member {
    pub role: Role,
    pub index: usize,
    /// Open until the process has closed its end.
    pub channel: Option<Channel>,
    pub pidfd: PidFd,
    child: Child,
    /// How a message names it, where that is not by its role.
    title: Option<String>,
    /// It has told what it failed of, so its exit code adds nothing.
    pub said_why: bool,
    /// It works on a GPU.
    pub is_on_gpu: bool,
    /// Set when it has been reaped.
    pub ended: Option<ExitStatus>,
}

impl Member {
    /// A child that was just started, which is killed where it cannot be watched.
    pub fn of_child(
        role: Role,
        index: usize,
        mut child: Child,
        channel: Option<Channel>,
        is_on_gpu: bool,
    ) -> Result<Self, RuntimeError> {
        match PidFd::open(child.id()) {
            Ok(pidfd) => {
                let (title, said_why, ended) = (None, false, None);
                Ok(Self { role, index, channel, pidfd, child, title, said_why, is_on_gpu, ended })
            }
            Err(error) => {
                // Nobody else knows of it yet.
                let _ = child.kill().and_then(|()| child.wait());
                Err(cannot_start(role.name(), error))
            }
        }
    }

    /// The same under another name than its role's.
    pub fn titled(mut self, title: String) -> Self {
        self.title = Some(title);
        self
    }

    /// How a message names it.
    pub fn name(&self, samplers: usize) -> String {
        match self.role {
            _ if self.title.is_some() => self.title.clone().unwrap_or_default(),
            Role::Sampler if samplers > 1 => format!("sampler {}", self.index),
            role => role.name().to_owned(),
        }
    }

    /// How tables name its process: each sampler by its number, a command by its role.
    pub fn process_name(&self) -> String {
        match self.role {
            Role::Sampler => format!("sampler {}", self.index),
            role => role.name().to_owned(),
        }
    }

    /// Its place in the control page.
    pub fn place(&self) -> usize {
        match self.role {
            Role::Sampler => FIRST_SAMPLER + self.index,
            Role::Producer => PRODUCER,
            Role::Consumer | Role::Planner | Role::Janitor => CONSUMER,
        }
    }

    /// Reaps it if it has ended.
    pub fn reap(&mut self) -> Option<ExitStatus> {
        if self.ended.is_none() {
            // Only ECHILD could fail it, and nobody else waits for our children.
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
            // An error means that it ended meanwhile, which is what is wanted.
            let _ = self.child.kill();
            self.wait();
        }
    }
}

/// Starts `program` as the process of a role. `on_gpu`: it works on one.
pub(super) fn start_process(
    program: &Path,
    role: Role,
    index: usize,
    dataset: &Path,
    environments: &Environments,
    on_gpu: bool,
) -> Result<Member, RuntimeError> {
    let (ours, theirs) = Channel::pair().map_err(|error| cannot_start(role.name(), error))?;
    let mut command = Command::new(program);
    command.arg0("uvatrain").arg(role.name());
    if role == Role::Sampler {
        command.arg(format!("--index={index}"));
    }
    // For the reader of `ps`: which run a role belongs to. In one word, since a path may begin like an option.
    let mut named = OsString::from("--dataset=");
    named.push(dataset);
    command.arg(format!("--of={}", std::process::id())).arg(named);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    for (name, value) in environments.of(role) {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    // A role dies with its launcher at once where nothing needs to be finished first. With work on a GPU it has to be:
    // MPS does not survive a client that is killed over it. The janitor outlives the launcher, in a session of its
    // own, where a terminal's signals do not reach it.
    let inherit = Inherit {
        channel: Some(theirs),
        death_signal: match role {
            Role::Janitor => None,
            _ if on_gpu => Some(Signal::TERM),
            _ => Some(Signal::KILL),
        },
        new_session: role == Role::Janitor,
    };
    if let Some(number) = inherit.apply(&mut command) {
        command.arg(format!("--channel={number}"));
    }
    let child =
        command.spawn().map_err(|error| machine::not_started(&format!("the {}", role.name()), &error))?;
    // The command holds the role's end of the channel; only without it does the role's end mean that it closes.
    drop(command);
    tracing::info!(started = role.name(), index, pid = child.id(), on_gpu, "a role's process is started");
    Member::of_child(role, index, child, Some(ours), on_gpu)
}

pub(super) fn hand_over(
    channel: &Channel,
    message: &impl serde::Serialize,
    fds: &[BorrowedFd<'_>],
) -> Result<(), HandoverError> {
    let payload = serde_json::to_vec(message)
        .map_err(|error| HandoverError::System { doing: "writing the set-up", source: error.into() })?;
    channel.send(&payload, fds)
}

pub(super) fn cannot_start(what: &str, error: impl std::fmt::Display) -> RuntimeError {
    RuntimeError::Failed(format!("cannot start the {what}: {error}"))
}
