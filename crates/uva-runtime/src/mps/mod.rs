//! CUDA MPS: the daemon through which several processes share one GPU at the same time, each with its share of the
//! multiprocessors. Nothing here loads CUDA: all is said to NVIDIA's `nvidia-cuda-mps-control` over its stdin.
//!
//! | module | what it holds |
//! |---|---|
//! | `environment` ([`Environment`]) | the variables that decide where a daemon is looked for and made |
//! | `control` | the control program: found in PATH, asked with a time-out |
//! | `replies` | what it answers, as types |
//! | `listener` | who listens at a daemon's socket, as the kernel tells it |
//! | `running` ([`Running`]) | a daemon that is there: found, told apart from dead, stale and other people's |
//! | `daemon` ([`Prepared`], [`Daemon`]) | a daemon of our own, private to one run |
//! | `permanent` ([`start`], [`stop`]) | a daemon of this user's that stays: `uvatrain mps` |
//! | `leftover` ([`Leftover`]) | what has to be ended and removed, in a form that a janitor can be told |
//! | `process` | processes by number and start time |
//!
//! What holds:
//! - Directories are made with mode 0700, by a call that fails where something is there already.
//! - A conversation that outlasts its time-out ends the control program that was started for it, never the daemon.
//! - A daemon of ours that is dropped is ended, and its directories are removed, also when its start failed half-way.
//! - A daemon that we did not start is never ended, and nothing of it is removed.
//! - Clients are started with [`UNSET_IN_CLIENTS`] removed: the daemon renumbers the devices that its own
//!   `CUDA_VISIBLE_DEVICES` lists, so that the same value would name other devices, or none, in a client.
//!
//! CUDA runs on without MPS, silently, when it cannot connect. So a client has to ask its driver whether MPS is in
//! force, and how many multiprocessors it was given: what is set here is a request.

mod control;
mod daemon;
mod environment;
mod error;
mod leftover;
mod listener;
mod permanent;
mod process;
mod replies;
mod running;

use std::path::PathBuf;

use rustix::process::{Resource, getrlimit};

pub use daemon::{Daemon, Prepared};
pub use environment::{Device, Environment};
pub use error::{MpsError, NotRunning};
pub use leftover::Leftover;
pub use permanent::{Stopped, start, stop};
pub use process::{Owner, ProcessId};
pub use replies::Client;
pub use running::{Running, Server, Status};

/// Variables that a client must not inherit.
pub const UNSET_IN_CLIENTS: [&str; 1] = ["CUDA_VISIBLE_DEVICES"];

/// Files that NVIDIA asks for, per process, so that a server can serve its clients.
const FILES_ADVISED: u64 = 16384;

/// Where `nvidia-cuda-mps-control` lies.
///
/// # Errors
/// [`MpsError::NoControlProgram`], with what brings it.
pub fn control_program(environment: &Environment) -> Result<PathBuf, MpsError> {
    control::Control::find(environment).map(|control| control.program)
}

/// What a run can have.
#[derive(Debug)]
pub enum Found {
    /// A daemon of this user's runs already. It is used and left alone.
    Running(Running),
    /// None runs; one can be started.
    Prepared(Box<Prepared>),
}

/// Looks for a daemon to use, and prepares one of our own where there is none.
///
/// A pipe directory that `CUDA_MPS_PIPE_DIRECTORY` names is what the user wants used: what is wrong with it is an
/// error. Without that variable the remains of an earlier daemon stand in nobody's way, but a living daemon of
/// another user's at the default place does.
///
/// # Errors
/// Why MPS cannot be had; see [`MpsError`].
pub fn look(environment: &Environment) -> Result<Found, MpsError> {
    match Running::find(environment) {
        Ok(running) => Ok(Found::Running(running)),
        Err(MpsError::NotRunning(reason)) if environment.may_start_after(&reason) => {
            Ok(Found::Prepared(Box::new(Prepared::new(environment)?)))
        }
        Err(error) => Err(error),
    }
}

/// MPS as a run has it: with a daemon of its own, which ends with the run, or with one that was there.
#[derive(Debug)]
pub enum Session {
    /// Ours: it is ended by [`Session::end`], or when this is dropped.
    Own(Daemon),
    /// Somebody's who started it before: left as it is.
    Shared(Running),
}

impl Session {
    /// The daemon behind it.
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
    /// As there.
    pub fn terminate_client(&self, pid: u32) -> Result<bool, MpsError> {
        self.running().terminate_client(pid)
    }

    /// What is left to remove when this process is killed; `None` where the daemon is not ours.
    pub fn leftover(&self) -> Option<Leftover> {
        match self {
            Self::Own(daemon) => Some(daemon.leftover().clone()),
            Self::Shared(_) => None,
        }
    }

    /// Ends what is ours. Only once no client runs any more.
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
/// program that never asked for MPS, so a run without MPS has to say so.
pub fn environment_without() -> Vec<(String, String)> {
    vec![("CUDA_MPS_PIPE_DIRECTORY".to_owned(), "/dev/null".to_owned())]
}

/// The shares of producer and consumer, in per cent of the multiprocessors: the producer's, and what it leaves.
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

/// What to say about the limit on open files, where it is lower than NVIDIA advises for MPS.
pub fn file_limit_advice() -> Option<String> {
    let limit = getrlimit(Resource::Nofile).current.filter(|limit| *limit < FILES_ADVISED)?;
    Some(format!(
        "at most {limit} open files a process, NVIDIA advises {FILES_ADVISED} for MPS: ulimit -n {FILES_ADVISED}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_add_up_to_a_hundred_and_both_get_something() {
        assert_eq!(shares(10).unwrap(), (10, 90));
        assert_eq!(shares(99).unwrap(), (99, 1));
        for wrong in [0, 100, 4_000_000_000] {
            assert!(matches!(shares(wrong), Err(MpsError::Percentage(given)) if given == wrong));
        }
    }
}
