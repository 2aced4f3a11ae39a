//! The janitor: a small process in a session of its own that holds the launcher's pidfd. When the launcher is killed
//! it does what the launcher would have done: ends the roles and removes a half-written checkpoint.

use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use uva_mem::handover::Channel;
use uva_mem::{PidFd, Signal};

use super::fleet::NOTHING_LEFT_TO_DO;
use super::messages::JanitorSetup;
use crate::RuntimeError;
use crate::checkpoint_files;

/// How long a role may take to die of its parent-death signal before it is killed again by name.
const GRACE: Duration = Duration::from_secs(2);

/// The janitor's whole life.
pub(crate) fn run(channel: Channel) -> Result<(), RuntimeError> {
    let failed = |error: &dyn std::fmt::Display| RuntimeError::Failed(format!("janitor: {error}"));
    // A launcher that died before its first message has started no role yet that a parent-death signal would miss.
    let Ok(first) = channel.recv() else { return Ok(()) };
    let setup: JanitorSetup = match serde_json::from_slice(&first.payload) {
        Ok(setup) => setup,
        Err(_) if first.payload == NOTHING_LEFT_TO_DO => return Ok(()),
        Err(error) => return Err(failed(&error)),
    };
    let mut fds = first.fds.into_iter();
    let pidfd = |fd: OwnedFd, pid: u32| PidFd::from_fd(fd, pid).map_err(|error| failed(&error));
    let launcher = fds.next().ok_or_else(|| failed(&"no pidfd of the launcher came"))?;
    let launcher = pidfd(launcher, setup.launcher)?;
    let roles = fds.zip(setup.roles).map(|(fd, pid)| pidfd(fd, pid)).collect::<Result<Vec<_>, _>>()?;

    if wait_for_end(&channel, &launcher).map_err(|error| failed(&error))? {
        return Ok(());
    }
    // The kernel has sent the roles their parent-death signal. A role it missed (one that was being started, say) is
    // killed here.
    let deadline = Instant::now() + GRACE;
    let mut all_ended = true;
    for role in &roles {
        let ends_by = |deadline: Instant| {
            role.wait_for_end(deadline.saturating_duration_since(Instant::now()))
                .map_err(|error| failed(&error))
        };
        if !ends_by(deadline)? {
            // Gone meanwhile is what is wanted.
            let _ = role.send_signal(Signal::KILL);
            all_ended &= ends_by(Instant::now() + GRACE)?;
        }
    }
    // Only behind the last role's end: what a living consumer is writing is no leftover.
    if let Some(directory) = setup.checkpoint.filter(|_| all_ended) {
        checkpoint_files::remove_leftovers(&directory);
    }
    Ok(())
}

/// Waits for the launcher's word or its death. True: it said that there is nothing left to do.
fn wait_for_end(channel: &Channel, launcher: &PidFd) -> rustix::io::Result<bool> {
    let mut listening = true;
    loop {
        let mut fds = vec![PollFd::new(launcher, PollFlags::IN)];
        if listening {
            fds.push(PollFd::from_borrowed_fd(channel.as_fd(), PollFlags::IN));
        }
        match poll(&mut fds, None) {
            Err(rustix::io::Errno::INTR) => continue,
            other => other?,
        };
        let launcher_ended = !fds[0].revents().is_empty();
        if listening && fds.get(1).is_some_and(|fd| !fd.revents().is_empty()) {
            match channel.recv() {
                Ok(message) if message.payload == NOTHING_LEFT_TO_DO => return Ok(true),
                // Closed: the launcher is being torn down, and its pidfd will say so in a moment.
                _ => listening = false,
            }
        } else if launcher_ended {
            return Ok(false);
        }
    }
}
