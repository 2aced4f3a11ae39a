//! The variables that determine where to search for a daemon, and where to create one.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::error::{MpsError, NotRunning};

/// CUDA's default pipe directory.
const DEFAULT_PIPE_DIRECTORY: &str = "/tmp/nvidia-mps";
/// A daemon's default log directory.
const DEFAULT_LOG_DIRECTORY: &str = "/var/log/nvidia-mps";
/// Bytes of a UNIX socket's path, without its terminator.
const SOCKET_PATH: usize = 107;
/// The longest name of a socket in a pipe directory.
const LONGEST_SOCKET: &str = "/control_privileged";
/// Time-out of one conversation. A healthy daemon answers within milliseconds, a loaded machine within a second;
/// `terminate_client` waits until the GPU has finished the client's work in flight.
pub(super) const TIMEOUT: Duration = Duration::from_secs(10);

/// The relevant variables, read once.
#[derive(Clone, Debug)]
pub struct Environment {
    /// `PATH`, in which programs are found.
    pub path: OsString,
    /// `CUDA_MPS_PIPE_DIRECTORY`: the daemon that the user wants to use.
    pub pipe_directory: Option<PathBuf>,
    /// `CUDA_MPS_LOG_DIRECTORY`.
    pub log_directory: Option<PathBuf>,
    /// `XDG_RUNTIME_DIR`, this user's own directory.
    pub runtime_directory: Option<PathBuf>,
    /// `TMPDIR`, or /tmp, which all users share.
    pub temporary_directory: PathBuf,
    /// `CUDA_VISIBLE_DEVICES`: the devices that this program may use, in the order of their ordinals.
    pub visible_devices: Option<String>,
    /// Time-out of one conversation with the control program, and of the start of the daemon.
    pub timeout: Duration,
}

impl Environment {
    /// The variables of the calling process.
    pub fn of_process() -> Self {
        Self::from_variables(|name| std::env::var_os(name))
    }

    /// From the variables that `variable` returns. An empty variable counts as not set.
    pub fn from_variables(variable: impl Fn(&str) -> Option<OsString>) -> Self {
        let set = |name: &str| variable(name).filter(|value| !value.is_empty());
        let path = |name: &str| set(name).map(PathBuf::from);
        Self {
            path: set("PATH").unwrap_or_default(),
            pipe_directory: path("CUDA_MPS_PIPE_DIRECTORY"),
            log_directory: path("CUDA_MPS_LOG_DIRECTORY"),
            runtime_directory: path("XDG_RUNTIME_DIR"),
            temporary_directory: path("TMPDIR").unwrap_or_else(|| "/tmp".into()),
            visible_devices: set("CUDA_VISIBLE_DEVICES").map(|list| list.to_string_lossy().into_owned()),
            timeout: TIMEOUT,
        }
    }

    /// The pipe directories in which to look for a daemon, the most specific first.
    pub(super) fn candidates(&self) -> Vec<PathBuf> {
        match &self.pipe_directory {
            Some(named) => vec![named.clone()],
            None => vec![self.permanent().pipe, DEFAULT_PIPE_DIRECTORY.into()],
        }
    }

    /// Whether a private daemon may be started after a search that ended with `reason`.
    pub(super) fn may_start_after(&self, reason: &NotRunning) -> bool {
        match reason {
            NotRunning::Foreign { .. } => false,
            _ => self.pipe_directory.is_none(),
        }
    }

    /// The directories of this user's permanent daemon, existing or not.
    pub(super) fn permanent(&self) -> DaemonDirectories {
        if let Some(pipe) = &self.pipe_directory {
            let log = self.log_directory.clone().unwrap_or_else(|| pipe.join("uvatrain-log"));
            return DaemonDirectories { pipe: pipe.clone(), log };
        }
        let name = if self.has_own_runtime_directory() {
            "uvatrain-mps".to_owned()
        } else {
            // In a world-writable directory with those of other users: distinguished by name, checked by owner.
            format!("uvatrain-mps-{}", rustix::process::getuid().as_raw())
        };
        DaemonDirectories::within(&self.scratch().join(name))
    }

    /// The directory in which to create private directories: the user's own if it is suitable.
    pub(super) fn scratch(&self) -> &Path {
        match &self.runtime_directory {
            Some(directory) if self.has_own_runtime_directory() => directory,
            _ if has_room(&self.temporary_directory) => &self.temporary_directory,
            _ => Path::new("/tmp"),
        }
    }

    fn has_own_runtime_directory(&self) -> bool {
        // It may be set and not exist, for example after `su`.
        self.runtime_directory.as_ref().is_some_and(|directory| directory.is_dir() && has_room(directory))
    }

    /// The daemon's log directory when the daemon itself does not reveal it.
    pub(super) fn log_directory_or_default(&self) -> PathBuf {
        self.log_directory.clone().unwrap_or_else(|| DEFAULT_LOG_DIRECTORY.into())
    }

    /// The value of the daemon's `CUDA_VISIBLE_DEVICES` with which it serves `device` alone. Without a device, this
    /// process's own value.
    pub(super) fn visible_to_daemon(&self, device: Option<&DaemonDevice>) -> Option<String> {
        match device {
            None => self.visible_devices.clone(),
            Some(DaemonDevice::Uuid(uuid)) => Some(uuid.clone()),
            // An ordinal counts the devices that this program may use.
            Some(DaemonDevice::Ordinal(ordinal)) => {
                let listed =
                    self.visible_devices.as_ref().and_then(|list| list.split(',').nth(*ordinal as usize));
                Some(listed.map_or_else(|| ordinal.to_string(), |name| name.trim().to_owned()))
            }
        }
    }
}

/// A device, in a form that the daemon accepts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DaemonDevice {
    /// By its number among the devices that this program may use.
    Ordinal(u32),
    /// By its UUID, `GPU-…`, which means the same everywhere.
    Uuid(String),
}

/// A daemon's two directories.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DaemonDirectories {
    pub pipe: PathBuf,
    pub log: PathBuf,
}

impl DaemonDirectories {
    /// Both in one directory.
    pub fn within(directory: &Path) -> Self {
        Self { pipe: directory.join("pipe"), log: directory.join("log") }
    }

    /// Rejects a pipe directory whose sockets would have too long names. The daemon itself would end without a message.
    pub fn check_length(&self) -> Result<(), MpsError> {
        let limit = SOCKET_PATH - LONGEST_SOCKET.len();
        if self.pipe.as_os_str().as_bytes().len() <= limit {
            Ok(())
        } else {
            Err(MpsError::PathTooLong { path: self.pipe.clone(), limit })
        }
    }
}

/// Whether the sockets of a private directory in `directory` have short enough names.
fn has_room(directory: &Path) -> bool {
    // The longest name that `daemon` makes.
    DaemonDirectories::within(&directory.join("uvatrain-mps-4194304-0123456789abcdef")).check_length().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(variables: &[(&str, &str)]) -> Environment {
        Environment::from_variables(|name| {
            variables.iter().find(|(set, _)| *set == name).map(|(_, value)| value.into())
        })
    }

    #[test]
    fn a_pipe_directory_that_is_named_is_the_only_one_looked_at() {
        let named = environment(&[("CUDA_MPS_PIPE_DIRECTORY", "/x/pipe")]);
        assert_eq!(named.candidates(), [PathBuf::from("/x/pipe")]);
        let unnamed = environment(&[("CUDA_MPS_PIPE_DIRECTORY", "")]);
        assert_eq!(unnamed.candidates().last(), Some(&PathBuf::from(DEFAULT_PIPE_DIRECTORY)));
        assert_eq!(unnamed.candidates().len(), 2);
    }

    #[test]
    fn an_ordinal_counts_the_devices_that_this_program_may_use() {
        let all = environment(&[]);
        assert_eq!(all.visible_to_daemon(Some(&DaemonDevice::Ordinal(1))).as_deref(), Some("1"));
        assert_eq!(all.visible_to_daemon(None), None);
        let some = environment(&[("CUDA_VISIBLE_DEVICES", "GPU-a, 3")]);
        assert_eq!(some.visible_to_daemon(Some(&DaemonDevice::Ordinal(1))).as_deref(), Some("3"));
        assert_eq!(some.visible_to_daemon(None).as_deref(), Some("GPU-a, 3"));
        assert_eq!(
            some.visible_to_daemon(Some(&DaemonDevice::Uuid("GPU-b".into()))).as_deref(),
            Some("GPU-b")
        );
    }

    #[test]
    fn a_runtime_directory_that_is_missing_or_too_long_is_skipped() {
        let gone = environment(&[("XDG_RUNTIME_DIR", "/nowhere/at/all"), ("TMPDIR", "/var/tmp")]);
        assert_eq!(gone.scratch(), Path::new("/var/tmp"));
        let long = "/tmp/".to_owned() + &"x".repeat(80);
        let too_long = environment(&[("TMPDIR", &long)]);
        assert_eq!(too_long.scratch(), Path::new("/tmp"));
    }

    #[test]
    fn a_pipe_directory_too_long_for_its_sockets_is_refused() {
        let place = |bytes: usize| DaemonDirectories { pipe: "x".repeat(bytes).into(), log: "log".into() };
        assert!(place(88).check_length().is_ok());
        assert!(matches!(place(89).check_length(), Err(MpsError::PathTooLong { limit: 88, .. })));
    }
}
