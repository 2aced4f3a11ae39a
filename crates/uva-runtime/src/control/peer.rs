//! The liveness of the role at the other end of a ring.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use uva_mem::PidFd;
use uva_mem::ring::{Liveness, PeerGone};

use crate::control::{Control, Stop};

/// The role at the other end of a ring.
#[derive(Debug)]
pub(crate) enum Peer {
    /// Another process. A stopped process counts as alive, a zombie does not.
    Process { name: String, pidfd: Arc<PidFd> },
    /// Another thread of this process.
    Thread { name: String, alive: Arc<AtomicBool> },
}

impl Peer {
    /// The liveness check for a wait on this peer. `patience` is the level of stop that ends the wait.
    pub fn watched<'a>(&'a self, control: &'a Control, patience: Stop) -> impl Liveness + 'a {
        move || {
            if control.stop() >= patience {
                return Err(PeerGone::new("the run is being stopped"));
            }
            let (name, alive) = match self {
                // A pidfd that cannot be polled does not prove that the process has ended.
                Self::Process { name, pidfd } => (name, pidfd.is_alive().unwrap_or(true)),
                // Acquire; partner: the release store in `ExitMark::drop`.
                Self::Thread { name, alive } => (name, alive.load(Ordering::Acquire)),
            };
            if alive { Ok(()) } else { Err(PeerGone::new(format!("the {name} has ended"))) }
        }
    }
}

/// Marks a thread as ended on any exit: at its end, by an error or by a panic.
#[derive(Debug)]
pub(crate) struct ExitMark(pub Arc<AtomicBool>);

impl Drop for ExitMark {
    fn drop(&mut self) {
        // Release; partner: the acquire load in `Peer::watched`. All writes of the thread are visible before its end.
        self.0.store(false, Ordering::Release);
    }
}
