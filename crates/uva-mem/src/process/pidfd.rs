//! Pidfds: process descriptors, which never refer to a later process with the same number.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Pid, PidfdFlags, Signal};

use crate::ring::{Liveness, PeerGone};

/// A process descriptor.
#[derive(Debug)]
pub struct PidFd {
    fd: OwnedFd,
    pid: u32,
}

impl PidFd {
    /// Opens the process `pid`. This is only guaranteed to be the intended process for an unreaped child or for the
    /// calling process.
    ///
    /// # Errors
    /// The error of `pidfd_open`: `ESRCH` if there is not such a process.
    pub fn open(pid: u32) -> io::Result<Self> {
        let number = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or(rustix::io::Errno::SRCH)?;
        Ok(Self { fd: rustix::process::pidfd_open(number, PidfdFlags::empty())?, pid })
    }

    /// Wraps a received pidfd; `pid` is for messages only.
    ///
    /// # Errors
    /// `InvalidInput` if the descriptor is not a pidfd.
    pub fn from_fd(fd: OwnedFd, pid: u32) -> io::Result<Self> {
        let link = std::fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd()))?;
        // "anon_inode:[pidfd]", or since Linux 6.9 "pidfd:[inode]".
        if !link.to_string_lossy().contains("pidfd") {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("the descriptor handed over for process {pid} is not a pidfd but {}", link.display()),
            ));
        }
        Ok(Self { fd, pid })
    }

    /// The number of the process in the PID namespace that `/proc` was mounted in. `None` after it was reaped, and if
    /// that namespace does not contain it. For a received descriptor, whose [`PidFd::pid`] is only a claim of the
    /// sender.
    ///
    /// # Errors
    /// If `/proc` cannot be read.
    pub fn number(&self) -> io::Result<Option<u32>> {
        let info = crate::files::read_kernel_text(format!("/proc/self/fdinfo/{}", self.fd.as_raw_fd()))?;
        let number = info.lines().find_map(|line| line.strip_prefix("Pid:")?.trim().parse::<i64>().ok());
        Ok(number.and_then(|number| u32::try_from(number).ok()).filter(|number| *number != 0))
    }

    /// The number of the process.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Whether the process still runs. A stopped process runs, a zombie does not.
    ///
    /// # Errors
    /// The error of `poll`.
    pub fn is_alive(&self) -> io::Result<bool> {
        self.wait_for_end(Duration::ZERO).map(|ended| !ended)
    }

    /// Waits until the process has ended or `timeout` has elapsed; returns whether it has ended. Does not reap.
    ///
    /// # Errors
    /// The error of `poll`. A signal handler that runs meanwhile ends the wait early, with `false`.
    pub fn wait_for_end(&self, timeout: Duration) -> io::Result<bool> {
        let timeout = Timespec {
            tv_sec: timeout.as_secs().try_into().unwrap_or(i64::MAX),
            tv_nsec: timeout.subsec_nanos().into(),
        };
        // A pidfd becomes readable when its process has ended, even before it is reaped.
        match rustix::event::poll(&mut [PollFd::new(&self.fd, PollFlags::IN)], Some(&timeout)) {
            Ok(ready) => Ok(ready > 0),
            Err(rustix::io::Errno::INTR) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Sends a signal.
    ///
    /// # Errors
    /// `ESRCH` if the process has been reaped already.
    pub fn send_signal(&self, signal: Signal) -> io::Result<()> {
        Ok(rustix::process::pidfd_send_signal(&self.fd, signal)?)
    }

    /// A second descriptor of the same process.
    ///
    /// # Errors
    /// The error of duplicating (`EMFILE`).
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(Self { fd: self.fd.try_clone()?, pid: self.pid })
    }
}

impl AsFd for PidFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Liveness for PidFd {
    /// [`PeerGone`] if the process has ended. If the system call fails, it counts as alive: the launcher sees its end
    /// too.
    fn check(&self) -> Result<(), PeerGone> {
        match self.is_alive() {
            Ok(false) => Err(PeerGone::new(format!("process {} has ended", self.pid))),
            _ => Ok(()),
        }
    }
}
