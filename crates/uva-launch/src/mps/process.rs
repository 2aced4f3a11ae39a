//! Processes by number and start time, so that a reused number is not taken for its first owner.

use std::fmt;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use uva_mem::PidFd;

/// The file in which a daemon records its process. It vanishes when the daemon ends properly; its sockets do not.
pub(super) const PID_FILE: &str = "nvidia-cuda-mps-control.pid";

/// A process, distinguished from a later one with the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessId {
    /// Its number.
    pub pid: u32,
    /// When it started, in clock ticks since the machine booted.
    pub started: u64,
}

impl ProcessId {
    /// The process with this number now; `None` if there is none, or only its zombie.
    pub fn of(pid: u32) -> Option<Self> {
        let stat = uva_mem::files::read_kernel_text(format!("/proc/{pid}/stat")).ok()?;
        // The name, in parentheses, may contain anything; count the fields after its last parenthesis.
        let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
        let state = fields.next()?;
        let started = fields.nth(18)?.parse().ok()?;
        (!matches!(state, "Z" | "X")).then_some(Self { pid, started })
    }

    /// A handle to it; `None` once it has ended.
    pub(super) fn open(self) -> Option<PidFd> {
        let handle = PidFd::open(self.pid).ok()?;
        // Checked after opening: the handle refers to the process that has the number now.
        (Self::of(self.pid) == Some(self)).then_some(handle)
    }

    /// Whether it still runs.
    pub fn is_alive(self) -> bool {
        Self::of(self.pid) == Some(self)
    }

    /// The user it runs as.
    pub(super) fn owner(self) -> Option<ProcessOwner> {
        fs::metadata(format!("/proc/{}", self.pid)).ok().map(|meta| ProcessOwner::of(meta.uid()))
    }

    /// Whether it is an MPS daemon or server, by its name.
    pub(super) fn is_of_mps(self) -> bool {
        let read = |file: &str| {
            uva_mem::files::read_kernel(format!("/proc/{}/{file}", self.pid)).unwrap_or_default()
        };
        // The kernel keeps 15 bytes of a name. A program that an interpreter runs appears only in its arguments.
        read("comm").starts_with(b"nvidia-cuda-mps")
            || read("cmdline").split(|byte| *byte == 0).any(|argument| {
                argument
                    .rsplit(|byte| *byte == b'/')
                    .next()
                    .is_some_and(|name| name.starts_with(b"nvidia-cuda-mps-"))
            })
    }

    /// A variable of its initial environment; `None` if it is not set or not readable for this user.
    pub(super) fn variable(self, name: &str) -> Option<PathBuf> {
        let environment = uva_mem::files::read_kernel(format!("/proc/{}/environ", self.pid)).ok()?;
        environment
            .split(|byte| *byte == 0)
            .find_map(|entry| entry.strip_prefix(name.as_bytes())?.strip_prefix(b"="))
            .map(|value| PathBuf::from(std::ffi::OsStr::from_bytes(value)))
    }

    /// Every MPS daemon and server of this pipe directory that this user may inspect.
    pub(super) fn all_of(pipe_directory: &Path) -> Vec<Self> {
        let Ok(processes) = fs::read_dir("/proc") else { return Vec::new() };
        processes
            .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
            .filter_map(Self::of)
            .filter(|process| process.is_of_mps())
            .filter(|process| process.variable("CUDA_MPS_PIPE_DIRECTORY").as_deref() == Some(pipe_directory))
            .collect()
    }
}

/// More than the size of /etc/passwd on any machine.
const MOST_USERS: u64 = 64 << 20;

/// A user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ProcessOwner {
    /// The number.
    pub uid: u32,
    /// The name, if /etc/passwd has one.
    pub name: Option<String>,
}

impl ProcessOwner {
    pub(super) fn of(uid: u32) -> Self {
        let users =
            uva_mem::files::read_regular_text(Path::new("/etc/passwd"), MOST_USERS).unwrap_or_default();
        let name = users.lines().find_map(|line| {
            let mut fields = line.split(':');
            let name = fields.next()?;
            (fields.nth(1)?.parse() == Ok(uid)).then(|| name.to_owned())
        });
        Self { uid, name }
    }

    /// Whether it is the user of this process.
    pub fn is_us(&self) -> bool {
        self.uid == rustix::process::geteuid().as_raw()
    }
}

impl fmt::Display for ProcessOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            Some(name) => write!(f, "{name} (uid {})", self.uid),
            None => write!(f, "uid {}", self.uid),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_alive_and_one_that_started_at_another_time_is_not_it() {
        let this = ProcessId::of(std::process::id()).unwrap();
        assert!(this.is_alive() && this.open().is_some());
        let other = ProcessId { started: this.started + 1, ..this };
        assert!(!other.is_alive() && other.open().is_none());
        assert!(this.owner().unwrap().is_us());
    }

    #[test]
    fn a_process_that_has_ended_is_not_alive_before_it_is_reaped() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let handle = PidFd::open(child.id()).unwrap();
        while !handle.wait_for_end(std::time::Duration::from_secs(60)).unwrap() {}
        assert_eq!(ProcessId::of(child.id()), None);
        child.wait().unwrap();
    }
}
