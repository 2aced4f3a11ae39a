//! An existing daemon: found, distinguished from lookalikes, and queried.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::Serialize;
use uva_mem::files::read_regular_text;

use super::control::ControlProgram;
use super::environment::{DaemonDirectories, Environment};
use super::error::{MpsError, NotRunning};
use super::leftover::Leftover;
use super::listener::{ListeningProcess, SOCKET};
use super::process::{PID_FILE, ProcessId, ProcessOwner};
use super::replies::{self, Client};

/// More than the length of a number and its line end.
const LONGEST_PID_FILE: u64 = 64;
const NO_NUMBER: &str = "its pid file does not contain a number";
/// The mode bits of a directory that the group or all users may write.
const OTHERS_WRITE: u32 = 0o022;
/// A query that every daemon answers, whether or not it has a server.
const ARE_YOU_THERE: &str = "get_default_active_thread_percentage";

/// A daemon of this user that runs and answers.
#[derive(Clone, Debug)]
pub struct Running {
    pub(super) control: ControlProgram,
    pub(super) place: DaemonDirectories,
    pub(super) process: ProcessId,
}

/// The state of a daemon.
#[derive(Clone, Debug, Serialize)]
pub struct DaemonStatus {
    /// Its process.
    pub pid: u32,
    /// Its owner.
    pub owner: Option<ProcessOwner>,
    /// Whether `uvatrain mps start` started it.
    pub started_by_uvatrain: bool,
    /// The directory in which clients find it.
    pub pipe_directory: PathBuf,
    /// The directory of its logs.
    pub log_directory: PathBuf,
    /// The devices it serves, as its `CUDA_VISIBLE_DEVICES` lists them; `None` for all.
    pub visible_devices: Option<String>,
    /// The maximum share of the multiprocessors, in per cent, for a client that requests nothing lower.
    pub default_percentage: Option<f64>,
    /// Its servers: at most one serves, since all clients belong to one user.
    pub servers: Vec<Server>,
}

/// A server of a daemon: the process that has the GPU.
#[derive(Clone, Debug, Serialize)]
pub struct Server {
    /// Its process.
    pub pid: u32,
    /// `ACTIVE`, or `FAULT` after a fatal fault until every client has ended; `None` where the driver does not report
    /// it.
    pub state: Option<String>,
    /// The maximum share, in per cent, for a client of this server.
    pub percentage: Option<f64>,
    /// The processes that use it.
    pub clients: Vec<Client>,
}

impl Running {
    /// The daemon that `CUDA_MPS_PIPE_DIRECTORY` names. Without that variable, this user's permanent one, or the one at
    /// CUDA's default place.
    ///
    /// # Errors
    /// [`MpsError::NotRunning`] with the finding; if several places were examined, with the most important one.
    /// [`MpsError::NoControlProgram`] if there is a daemon but no program to query it. [`MpsError::Silent`] and
    /// [`MpsError::Refused`] if it does not answer.
    pub fn find(environment: &Environment) -> Result<Self, MpsError> {
        let mut reason = None;
        for directory in environment.candidates() {
            match Self::at(environment, &directory) {
                Err(MpsError::NotRunning(NotRunning::Nothing { directory })) => {
                    reason.get_or_insert(NotRunning::Nothing { directory });
                }
                // Leftovers matter less than a living daemon of another user at the next place.
                Err(MpsError::NotRunning(why @ (NotRunning::Stale { .. } | NotRunning::Dead { .. }))) => {
                    reason = Some(why);
                }
                other => return other,
            }
        }
        // There is at least one candidate.
        let directory = environment.pipe_directory.clone().unwrap_or_default();
        Err(reason.unwrap_or(NotRunning::Nothing { directory }).into())
    }

    /// The daemon in this pipe directory.
    pub(super) fn at(environment: &Environment, directory: &Path) -> Result<Self, MpsError> {
        let process = living(directory)?;
        let control = ControlProgram::find(environment)?;
        let log = process.variable("CUDA_MPS_LOG_DIRECTORY");
        let log = log.unwrap_or_else(|| environment.log_directory_or_default());
        let place = DaemonDirectories { pipe: directory.to_owned(), log };
        control.ask(&place, ARE_YOU_THERE)?;
        Ok(Self { control, place, process })
    }

    /// The directory in which clients find it.
    pub fn pipe_directory(&self) -> &Path {
        &self.place.pipe
    }

    /// Its process.
    pub fn process(&self) -> ProcessId {
        self.process
    }

    /// The variables that make a process a client with this share of the multiprocessors (clamped to 1 to 100 per
    /// cent). [`UNSET_IN_CLIENTS`](super::UNSET_IN_CLIENTS) must be removed from its environment as well.
    ///
    /// The share is rounded down to multiprocessors, reserves nothing, and cannot exceed what the daemon allows.
    pub fn client_environment(&self, percentage: u32) -> Vec<(String, String)> {
        let text = |path: &Path| path.to_string_lossy().into_owned();
        vec![
            ("CUDA_MPS_PIPE_DIRECTORY".to_owned(), text(&self.place.pipe)),
            ("CUDA_MPS_LOG_DIRECTORY".to_owned(), text(&self.place.log)),
            ("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE".to_owned(), percentage.clamp(1, 100).to_string()),
        ]
    }

    /// The devices it serves, as its `CUDA_VISIBLE_DEVICES` lists them; `None` for all.
    pub fn visible_devices(&self) -> Option<String> {
        let list = self.process.variable("CUDA_VISIBLE_DEVICES")?.to_string_lossy().into_owned();
        (!list.is_empty()).then_some(list)
    }

    /// The number under which a client sees the device with number `asked` on the machine: a daemon counts only those
    /// it serves.
    ///
    /// # Errors
    /// [`MpsError::DeviceNotServed`]. A daemon that lists its devices by UUID is assumed to list them in order.
    pub fn client_ordinal(&self, asked: u32) -> Result<u32, MpsError> {
        let Some(visible) = self.visible_devices() else { return Ok(asked) };
        let names: Vec<&str> = visible.split(',').map(str::trim).collect();
        let numbered = names.iter().all(|name| name.parse::<u32>().is_ok());
        let place = if numbered {
            names.iter().position(|name| name.parse() == Ok(asked))
        } else {
            Some(asked as usize).filter(|asked| *asked < names.len())
        };
        match place {
            Some(place) => Ok(place as u32),
            None => Err(MpsError::DeviceNotServed { asked, visible }),
        }
    }

    /// Ends a client's work on the GPU, so that it can be killed: NVIDIA does not support killing a client with work in
    /// flight. Returns false if this process is not a client.
    ///
    /// From then on every CUDA call of the client fails with `CUDA_ERROR_MPS_CLIENT_TERMINATED`.
    ///
    /// # Errors
    /// [`MpsError::Refused`] if the daemon could not, [`MpsError::Silent`] if it does not answer. Kill the client
    /// anyway.
    pub fn terminate_client(&self, pid: u32) -> Result<bool, MpsError> {
        self.control.terminate_client(&self.place, pid)
    }

    /// Queries the complete state.
    ///
    /// # Errors
    /// The errors of the control program: [`MpsError::Silent`], [`MpsError::Refused`].
    pub fn status(&self) -> Result<DaemonStatus, MpsError> {
        let ask = |command: &str| self.control.ask(&self.place, command);
        let default_percentage = replies::percentage(&ask(ARE_YOU_THERE)?);
        let clients = replies::clients(&ask("ps")?);
        let servers = replies::pids(&ask("get_server_list")?)
            .into_iter()
            .map(|pid| {
                let state = ask(&format!("get_server_status {pid}"))?.trim().to_owned();
                Ok(Server {
                    pid,
                    state: Some(state).filter(|state| !state.is_empty() && !state.contains(' ')),
                    percentage: replies::percentage(&ask(&format!("get_active_thread_percentage {pid}"))?),
                    clients: clients.iter().filter(|client| client.server == pid).cloned().collect(),
                })
            })
            .collect::<Result<_, MpsError>>()?;
        Ok(DaemonStatus {
            pid: self.process.pid,
            owner: self.process.owner(),
            started_by_uvatrain: Leftover::of_permanent(&self.place.pipe, self.process).is_some(),
            pipe_directory: self.place.pipe.clone(),
            log_directory: self.place.log.clone(),
            visible_devices: self.visible_devices(),
            default_percentage,
            servers,
        })
    }
}

/// The daemon's process in this pipe directory. It may not answer.
///
/// Its pid file names the process. The file is trusted if a process of this user listens at the socket in that
/// directory. It is also trusted if only this user may write to the directory, so that no other user can have written
/// the file.
pub(super) fn living(directory: &Path) -> Result<ProcessId, MpsError> {
    let whole = || directory.to_owned();
    let nothing = || Err(NotRunning::Nothing { directory: whole() }.into());
    let meta = match fs::metadata(directory) {
        Ok(meta) if !meta.is_dir() => return nothing(),
        Ok(meta) => meta,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return nothing(),
        Err(source) => {
            return Err(MpsError::System {
                doing: format!("pipe directory {}", directory.display()),
                source,
            });
        }
    };
    // The directory's owner controls its sockets. Do not connect to another user's, no matter which process listens
    // there.
    let owner = ProcessOwner::of(meta.uid());
    if !owner.is_us() && !is_everybodys(meta.uid(), meta.mode()) {
        return Err(foreign(directory, owner));
    }
    let stale = |why| Err(NotRunning::Stale { directory: whole(), why }.into());
    let file = directory.join(PID_FILE);
    let text = match read_regular_text(&file, LONGEST_PID_FILE) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return if directory.join(SOCKET).exists() {
                stale("its socket exists, but its pid file does not")
            } else {
                nothing()
            };
        }
        // Not a regular file, or one with more than a number.
        Err(error) if error.raw_os_error().is_none() => return stale(NO_NUMBER),
        Err(source) => return Err(MpsError::System { doing: file.display().to_string(), source }),
    };
    let Ok(pid) = text.trim().parse() else { return stale(NO_NUMBER) };
    // Another program may have the number by now.
    let Some(process) = ProcessId::of(pid).filter(|process| process.is_of_mps()) else {
        return Err(NotRunning::Dead { directory: whole(), pid }.into());
    };
    if let Some(owner) = process.owner().filter(|owner| !owner.is_us()) {
        return Err(foreign(directory, owner));
    }
    let listener = match ListeningProcess::of(directory) {
        Ok(Some(listener)) => listener,
        // All files in this directory are from this user. The control program determines whether the daemon answers.
        _ if owner.is_us() && meta.mode() & OTHERS_WRITE == 0 => return Ok(process),
        Ok(None) => return stale("no process listens on its socket"),
        Err(source) => {
            let doing = format!("socket {}", directory.join(SOCKET).display());
            return Err(MpsError::System { doing, source });
        }
    };
    let owner = ProcessOwner::of(listener.uid);
    if !owner.is_us() {
        return Err(foreign(directory, owner));
    }
    // If that process has ended since, it passed the socket to a child.
    let other = listener.pid.filter(|listens| *listens != pid).and_then(ProcessId::of);
    if other.is_some_and(ProcessId::is_of_mps) {
        return stale("its pid file names another daemon than the one that listens on its socket");
    }
    Ok(process)
}

fn foreign(directory: &Path, owner: ProcessOwner) -> MpsError {
    NotRunning::Foreign { directory: directory.to_owned(), owner }.into()
}

/// Whether this is a directory like /tmp, in which all users may create files and may not replace another user's. Its
/// owner is then irrelevant. The owner of any other such directory may replace all files.
fn is_everybodys(owner: u32, mode: u32) -> bool {
    const EVERYBODY_WRITES: u32 = 0o002;
    const STICKY: u32 = 0o1000;
    owner == 0 && mode & (EVERYBODY_WRITES | STICKY) == EVERYBODY_WRITES | STICKY
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_sticky_directory_of_roots_is_everybodys() {
        for (owner, mode, everybodys) in [
            (0, 0o41777, true),
            (0, 0o40777, false),
            (0, 0o41775, false),
            (0, 0o40755, false),
            (65534, 0o41777, false),
            (65534, 0o40777, false),
        ] {
            assert_eq!(is_everybodys(owner, mode), everybodys, "{owner} {mode:o}");
        }
    }
}
