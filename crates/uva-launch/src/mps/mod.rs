//! CUDA MPS: the daemon through which several processes share one GPU at the same time, each with its share of the
//! multiprocessors. This module does not load CUDA: NVIDIA's `nvidia-cuda-mps-control` takes all commands on its stdin.
//!
//! | module | holds |
//! |---|---|
//! | `environment` ([`Environment`]) | the variables that determine the directories of existing and new daemons |
//! | `control` | the control program: found in PATH, queried with a time-out |
//! | `replies` | its answers, as types |
//! | `listener` | the process that listens at a daemon's socket, as the kernel reports it |
//! | `running_daemon` ([`Running`]) | an existing daemon, distinguished from dead, stale and other users' ones |
//! | `daemon` ([`DaemonPlace`], [`Daemon`]) | a daemon that is private to one run |
//! | `permanent` ([`start`], [`stop`]) | a daemon of this user that stays: `uvatrain mps` |
//! | `leftover` ([`Leftover`]) | the processes and files to clean up, in a form that can be sent to a janitor |
//! | `process` | processes by number and start time |
//!
//! Invariants:
//! - Directories are made with mode 0700, by a call that fails if the name is taken.
//! - A conversation that exceeds its time-out ends the control program that was started for it, never the daemon.
//! - Dropping a private daemon ends it and removes its directories, even if its start failed half-way.
//! - A daemon that this program did not start is never ended, and its files are never removed.
//! - Clients are started with [`UNSET_IN_CLIENTS`] removed: the daemon renumbers the devices that its own
//!   `CUDA_VISIBLE_DEVICES` lists, so the same value would name other devices, or none, in a client.
//!
//! CUDA silently runs without MPS when it cannot connect. A client therefore has to query its driver whether MPS is in
//! force, and for its number of multiprocessors: the settings in this module are only requests.

mod control;
mod daemon;
mod environment;
mod error;
mod leftover;
mod listener;
mod permanent;
mod process;
mod replies;
mod running_daemon;

use std::path::PathBuf;

use rustix::process::{Resource, getrlimit};

pub use daemon::{Daemon, DaemonPlace};
pub use environment::{DaemonDevice, Environment};
pub use error::{MpsError, NotRunning};
pub use leftover::Leftover;
pub use permanent::{StopResult, start, stop};
pub use process::{ProcessId, ProcessOwner};
pub use replies::Client;
pub use running_daemon::{DaemonStatus, Running, Server};

/// Variables that a client must not inherit.
pub const UNSET_IN_CLIENTS: [&str; 1] = ["CUDA_VISIBLE_DEVICES"];

/// The number of open files per process that NVIDIA recommends, so that a server can serve its clients.
const FILES_ADVISED: u64 = 16384;

/// The path of `nvidia-cuda-mps-control`.
///
/// # Errors
/// [`MpsError::NoControlProgram`], with the package that provides it.
pub fn control_program(environment: &Environment) -> Result<PathBuf, MpsError> {
    control::ControlProgram::find(environment).map(|control| control.program)
}

/// The MPS daemon that is available to a run.
#[derive(Debug)]
pub enum AvailableMps {
    /// A daemon of this user is already running. It is used and not changed.
    Running(Running),
    /// No daemon runs; one can be started.
    Prepared(Box<DaemonPlace>),
}

/// Searches for a daemon to use, and prepares a private one if there is none.
///
/// A pipe directory in `CUDA_MPS_PIPE_DIRECTORY` is the user's choice, so any defect of it is an error. Without that
/// variable the leftovers of an earlier daemon do no harm, but another user's living daemon at the default place does.
///
/// # Errors
/// The reason why MPS is not available; see [`MpsError`].
pub fn look(environment: &Environment) -> Result<AvailableMps, MpsError> {
    match Running::find(environment) {
        Ok(running) => Ok(AvailableMps::Running(running)),
        Err(MpsError::NotRunning(reason)) if environment.may_start_after(&reason) => {
            Ok(AvailableMps::Prepared(Box::new(DaemonPlace::new(environment)?)))
        }
        Err(error) => Err(error),
    }
}

/// MPS in a run, with a private daemon, which ends with the run, or with an existing one.
#[derive(Debug)]
pub enum MpsSession {
    /// A private daemon, which [`MpsSession::end`] or a drop ends.
    Own(Daemon),
    /// An existing daemon, which is not changed.
    Shared(Running),
}

impl MpsSession {
    /// The daemon of the session.
    pub fn running(&self) -> &Running {
        match self {
            Self::Own(daemon) => daemon.running(),
            Self::Shared(running) => running,
        }
    }

    /// See [`Running::client_environment`].
    pub fn client_environment(&self, percentage: u32) -> Vec<(String, String)> {
        self.running().client_environment(percentage)
    }

    /// See [`Running::terminate_client`].
    ///
    /// # Errors
    /// See [`Running::terminate_client`].
    pub fn terminate_client(&self, pid: u32) -> Result<bool, MpsError> {
        self.running().terminate_client(pid)
    }

    /// The resources to remove if this process is killed; `None` if the daemon is not private.
    pub fn leftover(&self) -> Option<Leftover> {
        match self {
            Self::Own(daemon) => Some(daemon.leftover().clone()),
            Self::Shared(_) => None,
        }
    }

    /// Ends the daemon if it is private. Call it only when no client runs any longer.
    ///
    /// # Errors
    /// See [`Daemon::quit`].
    pub fn end(self) -> Result<(), MpsError> {
        match self {
            Self::Own(daemon) => daemon.quit(),
            Self::Shared(_) => Ok(()),
        }
    }
}

/// The variables that keep a process away from every MPS daemon. CUDA tries the default pipe directory even in a
/// program that never requested MPS, so a run without MPS has to prevent that.
pub fn environment_without() -> Vec<(String, String)> {
    vec![("CUDA_MPS_PIPE_DIRECTORY".to_owned(), "/dev/null".to_owned())]
}

/// The shares of producer and consumer, in per cent of the multiprocessors: the producer's, and the rest.
///
/// # Errors
/// [`MpsError::Percentage`] unless both get at least one.
pub fn shares(producer: u32) -> Result<(u32, u32), MpsError> {
    if (1..=99).contains(&producer) {
        Ok((producer, 100 - producer))
    } else {
        Err(MpsError::Percentage(producer))
    }
}

/// A hint about the limit on open files, if it is lower than NVIDIA recommends for MPS.
pub fn file_limit_advice() -> Option<String> {
    let limit = getrlimit(Resource::Nofile).current.filter(|limit| *limit < FILES_ADVISED)?;
    Some(format!(
        "at most {limit} open files per process, NVIDIA recommends {FILES_ADVISED} for MPS: ulimit -n {FILES_ADVISED}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_add_up_to_a_hundred_and_both_are_positive() {
        assert_eq!(shares(10).unwrap(), (10, 90));
        assert_eq!(shares(99).unwrap(), (99, 1));
        for wrong in [0, 100, 4_000_000_000] {
            assert!(matches!(shares(wrong), Err(MpsError::Percentage(given)) if given == wrong));
        }
    }
}
