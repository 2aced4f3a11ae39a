//! The leftovers of a daemon of this program that was not ended, in a form that a janitor can receive and remove.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde::{Deserialize, Serialize};
use uva_mem::files::{EntryKind, OwnDirectory, read_regular, replace};

use super::control::{ControlProgram, ends_by};
use super::environment::{DaemonDirectories, TIMEOUT};
use super::error::MpsError;
use super::process::{PID_FILE, ProcessId, ProcessOwner};
use uva_runtime::signal_name;

/// The file in a pipe directory that marks its daemon as started by `uvatrain mps start`: this type, as JSON.
const MARKER: &str = "uvatrain.json";
/// More than five paths and a number.
const MOST_MARKER: u64 = 64 << 10;
/// The files of this program and of the daemon in a pipe directory that this program did not create.
const OURS: [&str; 6] = ["control", "control_lock", "control_privileged", "log", PID_FILE, MARKER];
/// Maximum time for processes to end after the request, and again after SIGTERM and SIGKILL.
const GRACE: Duration = Duration::from_secs(5);

/// A daemon of this program and its directories, as far as they exist.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leftover {
    /// The control program that started it and that queries it.
    pub program: PathBuf,
    /// The directory of its sockets.
    pub pipe_directory: PathBuf,
    /// The directory of its logs.
    pub log_directory: PathBuf,
    /// The directories that this program created: the two above, or a parent of both. They are removed with the
    /// daemon's files in them.
    pub created: Vec<PathBuf>,
    /// The daemon, once it is known.
    pub control: Option<ProcessId>,
}

impl Leftover {
    /// Ends the daemon and its servers (by `quit`, then by SIGTERM, then by SIGKILL), and removes the directories. Call
    /// it only when no client runs any longer. Parts that no longer exist are not an error: a second call does nothing,
    /// nor does a call after [`Daemon::quit`](super::Daemon::quit).
    ///
    /// # Errors
    /// [`MpsError::System`] if a directory cannot be removed.
    pub fn remove(&self) -> Result<(), MpsError> {
        self.remove_within(TIMEOUT)
    }

    /// Removes like [`remove`](Self::remove), with another time-out for the conversation.
    pub(super) fn remove_within(&self, timeout: Duration) -> Result<(), MpsError> {
        let processes = self.processes();
        if !processes.is_empty() {
            match self.control(timeout).ask(&self.place(), "quit") {
                Ok(_) => end(&processes, None),
                // A daemon that does not answer is ended anyway.
                Err(error) => {
                    let directory = self.pipe_directory.display();
                    tracing::warn!("cannot send quit to the MPS daemon in {directory}: {error}");
                }
            }
        }
        // Searched again: a server may have been started meanwhile, or have outlived its daemon.
        for signal in [Signal::TERM, Signal::KILL] {
            end(&self.processes(), Some(signal));
        }
        self.remove_directories()
    }

    /// Ends a client's work like [`Running::terminate_client`](super::Running::terminate_client), for a janitor.
    ///
    /// # Errors
    /// See [`Running::terminate_client`](super::Running::terminate_client).
    pub fn terminate_client(&self, pid: u32) -> Result<bool, MpsError> {
        if self.processes().is_empty() {
            return Ok(false);
        }
        self.control(TIMEOUT).terminate_client(&self.place(), pid)
    }

    /// The record of `uvatrain mps start` about this daemon; `None` if another program started it.
    pub(super) fn of_permanent(pipe_directory: &Path, process: ProcessId) -> Option<Self> {
        Self::read(pipe_directory).filter(|leftover| leftover.control == Some(process))
    }

    /// The record in this pipe directory, which may be outdated. Only a record that this user wrote counts, since it
    /// determines what will be removed.
    pub(super) fn read(pipe_directory: &Path) -> Option<Self> {
        let file = pipe_directory.join(MARKER);
        let meta = fs::symlink_metadata(&file).ok()?;
        if !meta.is_file() || !ProcessOwner::of(meta.uid()).is_us() {
            return None;
        }
        let leftover: Self = serde_json::from_slice(&read_regular(&file, MOST_MARKER).ok()?).ok()?;
        (leftover.pipe_directory == pipe_directory).then_some(leftover)
    }

    /// Writes the record into its pipe directory.
    pub(super) fn write(&self) -> Result<(), MpsError> {
        let file = self.pipe_directory.join(MARKER);
        let doing = file.display().to_string();
        let text = serde_json::to_vec(self)
            .map_err(|error| MpsError::System { doing: doing.clone(), source: io::Error::other(error) })?;
        replace(&file, 0o644, &text).map_err(MpsError::system(doing))
    }

    pub(super) fn place(&self) -> DaemonDirectories {
        DaemonDirectories { pipe: self.pipe_directory.clone(), log: self.log_directory.clone() }
    }

    fn control(&self, timeout: Duration) -> ControlProgram {
        ControlProgram { program: self.program.clone(), timeout }
    }

    /// The daemon and the servers that run, including those of an interrupted start.
    fn processes(&self) -> Vec<ProcessId> {
        let mut processes = ProcessId::all_of(&self.pipe_directory);
        processes.extend(self.control.filter(|known| known.is_alive() && !processes.contains(known)));
        processes
    }

    fn remove_directories(&self) -> Result<(), MpsError> {
        if self.pipe_directory.exists()
            && !self.created.iter().any(|made| self.pipe_directory.starts_with(made))
        {
            for name in OURS {
                let _ = fs::remove_file(self.pipe_directory.join(name));
            }
        }
        let is_made = |directory: &Path| self.created.iter().any(|made| directory.starts_with(made));
        for directory in [&self.pipe_directory, &self.log_directory] {
            if is_made(directory) {
                removed(directory, remove_files(directory))?;
                removed(directory, fs::remove_dir(directory))?;
            }
        }
        // A directory that holds other files by now stays.
        for made in self.created.iter().rev() {
            removed(made, fs::remove_dir(made))?;
        }
        Ok(())
    }
}

/// Removes the sockets, pipes and logs in a directory of the daemon's. The daemon creates no directories in it.
fn remove_files(directory: &Path) -> io::Result<()> {
    let directory = OwnDirectory::open(directory)?;
    for (name, kind) in directory.entries()? {
        if kind != EntryKind::Directory {
            directory.remove_file(&name)?;
        }
    }
    Ok(())
}

fn removed(path: &Path, result: io::Result<()>) -> Result<(), MpsError> {
    match result {
        Err(source)
            if !matches!(source.kind(), io::ErrorKind::NotFound | io::ErrorKind::DirectoryNotEmpty) =>
        {
            Err(MpsError::System { doing: format!("cannot remove {}", path.display()), source })
        }
        _ => Ok(()),
    }
}

/// Sends the processes a signal, if one is given, and waits until they have ended or the grace period is over.
fn end(processes: &[ProcessId], signal: Option<Signal>) {
    let handles: Vec<_> = processes.iter().filter_map(|process| process.open()).collect();
    for handle in &handles {
        if let Some(signal) = signal {
            tracing::warn!(
                "MPS process {} has not ended in time: sent {}",
                handle.pid(),
                signal_name(signal.as_raw())
            );
            // An error means that it has already ended.
            let _ = handle.send_signal(signal);
        }
    }
    let deadline = Instant::now() + GRACE;
    for handle in &handles {
        let _ = ends_by(handle, deadline);
    }
}
