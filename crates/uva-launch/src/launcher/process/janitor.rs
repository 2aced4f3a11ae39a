//! The janitor: a small process in its own session that holds the launcher's pidfd. When the launcher is killed, the
//! janitor takes over its cleanup: it ends the roles, stops the run's own MPS daemon, and removes a half-written
//! checkpoint. It does not use CUDA.

use std::iter;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use uva_mem::handover::{Channel, ReceivedMessage};
use uva_mem::{PidFd, Signal};

use super::child::{ChildProcess, Orphaned, Spawn, hand_over};
use crate::checkpoint_files::CheckpointDirectory;
use crate::launcher::wire::messages::{Helper, JanitorWord};
use crate::mps;
use uva_runtime::RuntimeError;
use uva_runtime::machine::memory::Resident;
use uva_runtime::machine::own_program;

/// Maximum time for a role to die of its parent-death signal before it is killed explicitly.
const GRACE: Duration = Duration::from_secs(2);

/// The launcher's handle to its janitor. Dropping it notifies the janitor that no cleanup is left.
pub(crate) struct Janitor {
    process: ChildProcess,
}

impl Janitor {
    /// Starts the janitor, and identifies this process to it.
    pub fn start(dataset: &Path, checkpoint: Option<&CheckpointDirectory>) -> Result<Self, RuntimeError> {
        let own = PidFd::open(std::process::id())
            .map_err(|error| RuntimeError::failed(format!("cannot start the janitor: {error}")))?;
        let janitor = Self {
            process: Spawn {
                program: &own_program(),
                name: Helper::Janitor.name(),
                index: None,
                dataset,
                variables: &[],
                cores: None,
                orphaned: Orphaned::Survives,
            }
            .start()?,
        };
        let word = JanitorWord::Launcher {
            pid: std::process::id(),
            checkpoint: checkpoint.map(|directory| directory.path().to_owned()),
        };
        let fds: Vec<_> = iter::once(own.as_fd()).chain(checkpoint.map(CheckpointDirectory::fd)).collect();
        janitor.tell(&word, &fds)?;
        Ok(janitor)
    }

    /// Its current memory; `None` if it was killed.
    pub fn resident(&self) -> Option<Resident> {
        Resident::of(self.process.pidfd.pid())
    }

    /// Sends the janitor a resource to clean up. The run continues if the janitor was killed.
    pub fn tell(&self, word: &JanitorWord, fds: &[std::os::fd::BorrowedFd<'_>]) -> Result<(), RuntimeError> {
        use uva_mem::handover::HandoverError;
        let Some(channel) = &self.process.channel else { return Ok(()) };
        match hand_over(channel, word, fds) {
            Ok(()) | Err(HandoverError::Closed) => Ok(()),
            Err(error) => Err(RuntimeError::failed(format!("cannot send a message to the janitor: {error}"))),
        }
    }
}

impl Drop for Janitor {
    fn drop(&mut self) {
        // A message is sent, since a killed launcher closes its channels too, before its pidfd becomes readable.
        let _ = self.tell(&JanitorWord::Done, &[]);
        self.process.channel = None;
        self.process.wait();
    }
}

/// The resources to clean up, as far as the launcher has reported them.
#[derive(Default)]
struct Known {
    launcher: Option<PidFd>,
    checkpoint: Option<CheckpointDirectory>,
    daemon: Option<mps::Leftover>,
    roles: Vec<PidFd>,
    on_gpu: Vec<u32>,
}

/// The main function of the janitor.
pub(crate) fn run(channel: &Channel) -> Result<(), RuntimeError> {
    let mut known = Known::default();
    // A launcher that died before its first message has started no process that a parent-death signal would miss.
    let Ok(first) = channel.recv() else { return Ok(()) };
    let mut done = known.hear(first)?;
    tracing::debug!(launcher = known.launcher.as_ref().map(PidFd::pid), "waits for the launcher's end");
    let mut listening = true;
    while !done {
        let Some(launcher) = &known.launcher else { return Ok(()) };
        let mut fds = vec![PollFd::new(launcher, PollFlags::IN)];
        if listening {
            fds.push(PollFd::from_borrowed_fd(channel.as_fd(), PollFlags::IN));
        }
        match poll(&mut fds, None) {
            Err(rustix::io::Errno::INTR) => continue,
            other => other.map_err(|error| failed(&error))?,
        };
        let launcher_ended = !fds[0].revents().is_empty();
        if listening && fds.get(1).is_some_and(|fd| !fd.revents().is_empty()) {
            match channel.recv() {
                Ok(word) => done = known.hear(word)?,
                // Closed: the launcher is ending, and its pidfd will become readable.
                Err(_) => listening = false,
            }
        } else if launcher_ended {
            return known.clean_up();
        }
    }
    Ok(())
}

impl Known {
    /// Processes a message. Returns true if no cleanup is left.
    fn hear(&mut self, word: ReceivedMessage) -> Result<bool, RuntimeError> {
        let parsed = serde_json::from_slice(&word.payload).map_err(|error| failed(&error))?;
        let mut fds = word.fds.into_iter();
        let pidfd = |fd: OwnedFd, pid: u32| PidFd::from_fd(fd, pid).map_err(|error| failed(&error));
        match parsed {
            JanitorWord::Launcher { pid, checkpoint } => {
                let fd = fds.next().ok_or_else(|| failed(&"received no pidfd of the launcher"))?;
                self.launcher = Some(pidfd(fd, pid)?);
                self.checkpoint = match checkpoint {
                    Some(path) => {
                        let lock =
                            fds.next().ok_or_else(|| failed(&"received no claim on the checkpoints"))?;
                        Some(CheckpointDirectory::handed(path, lock))
                    }
                    None => None,
                };
            }
            JanitorWord::Daemon(leftover) => self.daemon = Some(leftover),
            JanitorWord::Roles { pids, on_gpu } => {
                for (fd, pid) in fds.zip(pids) {
                    self.roles.push(pidfd(fd, pid)?);
                }
                self.on_gpu.extend(on_gpu);
            }
            JanitorWord::Attached { pid, on_gpu } => {
                let fd = fds.next().ok_or_else(|| failed(&"received no pidfd of the attached process"))?;
                self.roles.push(pidfd(fd, pid)?);
                self.on_gpu.extend(on_gpu.then_some(pid));
            }
            JanitorWord::Done => return Ok(true),
        }
        Ok(false)
    }

    fn clean_up(self) -> Result<(), RuntimeError> {
        tracing::info!(
            roles = self.roles.len(),
            "the launcher has ended without a message: cleaning up after it"
        );
        // The kernel has sent the roles their parent-death signal. A role that it missed, for example one just being
        // spawned, is killed here.
        let deadline = Instant::now() + GRACE;
        let mut all_ended = true;
        for role in &self.roles {
            let ends_by = |deadline: Instant| {
                role.wait_for_end(deadline.saturating_duration_since(Instant::now()))
                    .map_err(|error| failed(&error))
            };
            if !ends_by(deadline)? {
                if let Some(daemon) = self.daemon.as_ref().filter(|_| self.on_gpu.contains(&role.pid())) {
                    // A client that is killed during its work may take the server with it; the run's own daemon ends
                    // anyway.
                    let _ = daemon.terminate_client(role.pid());
                }
                // An error means that it has already ended.
                let _ = role.send_signal(Signal::KILL);
                all_ended &= ends_by(Instant::now() + GRACE)?;
            }
        }
        // Only after the last role has ended: files that a living consumer writes are not leftovers.
        if let Some(directory) = self.checkpoint.filter(|_| all_ended) {
            directory.remove_leftovers();
        }
        if let Some(daemon) = self.daemon {
            daemon.remove().map_err(|error| failed(&error))?;
        }
        Ok(())
    }
}

fn failed(error: &dyn std::fmt::Display) -> RuntimeError {
    RuntimeError::failed(format!("janitor: {error}"))
}
