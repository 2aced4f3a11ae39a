//! The processes of a run: started by exec'ing this program, owned until they are reaped.

use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};

use uva_mem::handover::{Channel, HandoverError};
use uva_mem::ring::Ring;
use uva_mem::spawn::Inherit;
use uva_mem::{PidFd, Signal};

use super::Launch;
use super::messages::{JanitorSetup, Role, Setup};
use crate::RuntimeError;
use crate::control::{CONSUMER, Control, FIRST_SAMPLER, PRODUCER};

/// What the launcher tells its janitor at the end of a run.
pub(super) const NOTHING_LEFT_TO_DO: &[u8] = b"\"done\"";

/// One process of a run.
pub(crate) struct Member {
    pub role: Role,
    pub index: usize,
    /// Open until the process has closed its end.
    pub channel: Option<Channel>,
    pub pidfd: PidFd,
    child: Child,
    /// It has told what it failed of, so its exit code adds nothing.
    pub said_why: bool,
    /// Set when it has been reaped.
    pub ended: Option<ExitStatus>,
}

impl Member {
    /// How a message names it.
    pub fn name(&self, samplers: usize) -> String {
        match self.role {
            Role::Sampler if samplers > 1 => format!("sampler {}", self.index),
            role => role.name().to_owned(),
        }
    }

    /// Its place in the control page.
    pub fn place(&self) -> usize {
        match self.role {
            Role::Sampler => FIRST_SAMPLER + self.index,
            Role::Producer => PRODUCER,
            Role::Consumer | Role::Janitor => CONSUMER,
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

    fn end_now(&mut self) {
        if self.reap().is_none() {
            // An error means that it ended meanwhile, which is what is wanted.
            let _ = self.child.kill();
            let _ = self.child.wait().map(|status| self.ended = Some(status));
        }
    }
}

/// All processes of a run. Dropping it kills and reaps what is left of them.
pub(crate) struct Fleet {
    pub members: Vec<Member>,
    janitor: Option<Member>,
}

impl Fleet {
    /// Starts the janitor and the roles, and hands them what they share.
    pub fn start(launch: &Launch<'_>, control: &Control) -> Result<Self, RuntimeError> {
        let plan = launch.plan;
        let samplers = plan.options.samplers;
        let batch_ring = plan.create_batch_ring()?;
        let feature_ring = plan.create_feature_ring()?;
        let mut fleet = Self { members: Vec::new(), janitor: None };

        // The janitor first, told last: until it knows the roles, their parent-death signal alone sees to them.
        let own = PidFd::open(std::process::id()).map_err(|error| cannot_start("janitor", error))?;
        fleet.janitor = Some(start(Role::Janitor, 0, launch)?);

        // In the order of their places in the control page.
        fleet.members.push(start(Role::Consumer, 0, launch)?);
        fleet.members.push(start(Role::Producer, 0, launch)?);
        for index in 0..samplers {
            fleet.members.push(start(Role::Sampler, index, launch)?);
        }

        if let Some(Member { channel: Some(channel), .. }) = &fleet.janitor {
            let roles = fleet.members.iter().map(|member| member.pidfd.pid()).collect();
            let checkpoint = launch.checkpoint.clone();
            let setup = JanitorSetup { launcher: std::process::id(), roles, checkpoint };
            let mut fds = vec![own.as_fd()];
            fds.extend(fleet.members.iter().map(|member| member.pidfd.as_fd()));
            hand_over(channel, &setup, &fds).map_err(|error| cannot_start("janitor", error))?;
        }
        for member in &fleet.members {
            let peers: Vec<&PidFd> = match member.role {
                Role::Sampler | Role::Consumer | Role::Janitor => vec![&fleet.members[PRODUCER].pidfd],
                Role::Producer => {
                    let samplers = &fleet.members[FIRST_SAMPLER..];
                    std::iter::once(&fleet.members[CONSUMER])
                        .chain(samplers)
                        .map(|peer| &peer.pidfd)
                        .collect()
                }
            };
            let rings: &[&Ring] = match member.role {
                Role::Sampler => &[&batch_ring],
                Role::Producer => &[&batch_ring, &feature_ring],
                Role::Consumer | Role::Janitor => &[&feature_ring],
            };
            let setup = Setup {
                index: member.index,
                peers: peers.iter().map(|peer| peer.pid()).collect(),
                dataset: launch.dataset.to_owned(),
                loader: plan.options.clone(),
                passes: plan.schedule.passes(),
                job: if member.role == Role::Consumer { launch.job.clone() } else { serde_json::Value::Null },
            };
            let mut fds = vec![control.fd()];
            fds.extend(rings.iter().map(|ring| ring.fd()));
            fds.extend(peers.iter().map(|peer| peer.as_fd()));
            if let Some(channel) = &member.channel {
                match hand_over(channel, &setup, &fds) {
                    // A role that died before it could be told is found by the watch, which names its cause.
                    Ok(()) | Err(HandoverError::Closed) => {}
                    Err(error) => return Err(cannot_start(member.role.name(), error)),
                }
            }
        }
        Ok(fleet)
    }

    /// Whether every role has been reaped.
    pub fn all_ended(&self) -> bool {
        self.members.iter().all(|member| member.ended.is_some())
    }

    /// Kills every role that still runs, and reaps it.
    pub fn end_now(&mut self) {
        for member in &mut self.members {
            member.end_now();
        }
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        self.end_now();
        if let Some(mut janitor) = self.janitor.take() {
            // Said, not only closed: a launcher that is killed closes its channels too, and before its pidfd tells.
            if let Some(channel) = janitor.channel.take() {
                let _ = channel.send(NOTHING_LEFT_TO_DO, &[]);
            }
            let _ = janitor.child.wait();
        }
    }
}

fn start(role: Role, index: usize, launch: &Launch<'_>) -> Result<Member, RuntimeError> {
    let (ours, theirs) = Channel::pair().map_err(|error| cannot_start(role.name(), error))?;
    let mut command = Command::new(own_program());
    command.arg0("uvatrain").arg(role.name());
    if role == Role::Sampler {
        command.arg(format!("--index={index}"));
    }
    // For the reader of `ps`: which run a role belongs to.
    command.arg(format!("--of={}", std::process::id())).arg("--dataset").arg(launch.dataset);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    if role == Role::Consumer {
        command.envs(launch.consumer_environment.iter().map(|(name, value)| (name, value)));
    }
    // A role dies with its launcher at once: it is CUDA-free, so nothing needs to be finished first. The janitor
    // outlives it, in a session of its own, where a terminal's signals do not reach it.
    let inherit = Inherit {
        channel: Some(theirs),
        death_signal: (role != Role::Janitor).then_some(Signal::KILL),
        new_session: role == Role::Janitor,
    };
    if let Some(number) = inherit.apply(&mut command) {
        command.arg(format!("--channel={number}"));
    }
    let mut child = command.spawn().map_err(|error| cannot_start(role.name(), error))?;
    // The command holds the role's end of the channel; only without it does the role's end mean that it closes.
    drop(command);
    match PidFd::open(child.id()) {
        Ok(pidfd) => {
            Ok(Member { role, index, channel: Some(ours), pidfd, child, said_why: false, ended: None })
        }
        Err(error) => {
            // Nobody else knows of it yet.
            let _ = child.kill().and_then(|()| child.wait());
            Err(cannot_start(role.name(), error))
        }
    }
}

/// This program, as it was started. Once the file has been replaced, by a build say, its old path is gone and the
/// running image is what must be started again.
fn own_program() -> PathBuf {
    match std::env::current_exe() {
        Ok(path) if path.exists() => path,
        _ => PathBuf::from("/proc/self/exe"),
    }
}

fn hand_over(
    channel: &Channel,
    message: &impl serde::Serialize,
    fds: &[BorrowedFd<'_>],
) -> Result<(), HandoverError> {
    let payload = serde_json::to_vec(message)
        .map_err(|error| HandoverError::System { doing: "writing the set-up", source: error.into() })?;
    channel.send(&payload, fds)
}

fn cannot_start(what: &str, error: impl std::fmt::Display) -> RuntimeError {
    RuntimeError::Failed(format!("cannot start the {what}: {error}"))
}
