//! A daemon of this user that runs until it is stopped: the work of `uvatrain mps`.

use super::daemon::DaemonPlace;
use super::environment::{DaemonDevice, Environment};
use super::error::{MpsError, NotRunning};
use super::leftover::Leftover;
use super::running_daemon::{self, Running};

/// The result of [`stop`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopResult {
    /// The daemon has ended.
    Daemon,
    /// It was already dead; its leftovers have been removed.
    Remains,
    /// There was no daemon to stop.
    Nothing,
}

/// Starts a permanent daemon, in the pipe directory that `CUDA_MPS_PIPE_DIRECTORY` names or in one of this user's own;
/// or finds a running one. Returns true if a daemon was started.
///
/// # Errors
/// As [`DaemonPlace::start`]; [`MpsError::NotRunning`] if another user's daemon blocks the start.
pub fn start(environment: &Environment, device: Option<&DaemonDevice>) -> Result<(Running, bool), MpsError> {
    match Running::find(environment) {
        Ok(running) => return Ok((running, false)),
        Err(MpsError::NotRunning(NotRunning::Foreign { directory, owner })) => {
            return Err(NotRunning::Foreign { directory, owner }.into());
        }
        Err(MpsError::NotRunning(_)) => {}
        Err(error) => return Err(error),
    }
    // Leftovers of this program, from a daemon that was killed. Leftovers of another daemon in directories of this user
    // are taken over unchanged: a daemon can use them.
    if let Some(remains) = Leftover::read(&environment.permanent().pipe) {
        remains.remove()?;
    }
    let daemon = DaemonPlace::permanent(environment)?.start(device)?;
    Ok((daemon.keep()?, true))
}

/// Stops the daemon that [`start`] started, and removes its leftovers. Any other daemon is not changed.
///
/// # Errors
/// [`MpsError::NotOurs`] if a running daemon of this user was started by another program, [`MpsError::NotRunning`] if
/// another user's daemon runs.
pub fn stop(environment: &Environment) -> Result<StopResult, MpsError> {
    let mut found = StopResult::Nothing;
    for directory in environment.candidates() {
        match running_daemon::living(&directory) {
            // Without a check whether it answers: a daemon that hangs must be stopped too.
            Ok(process) => match Leftover::read(&directory).filter(|ours| ours.control == Some(process)) {
                Some(ours) => return ours.remove().map(|()| StopResult::Daemon),
                None => {
                    let directory = directory.display().to_string();
                    return Err(MpsError::NotOurs { directory, pid: process.pid });
                }
            },
            Err(MpsError::NotRunning(reason)) => match (Leftover::read(&directory), reason) {
                (_, reason @ NotRunning::Foreign { .. }) => return Err(reason.into()),
                (Some(remains), _) => {
                    remains.remove()?;
                    found = StopResult::Remains;
                }
                (None, _) => {}
            },
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}
