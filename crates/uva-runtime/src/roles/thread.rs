//! A role as a thread: its start, and how its end is told.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread::JoinHandle;
use std::time::Instant;

use crate::peer::{Leaving, Peer};
use crate::{RuntimeError, machine};

/// Who a role that runs, or is about to run, as a thread is to its peers.
#[derive(Clone, Debug)]
pub(crate) struct ThreadName {
    name: String,
    alive: Arc<AtomicBool>,
}

impl ThreadName {
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), alive: Arc::new(AtomicBool::new(true)) }
    }

    /// The role as its peers see it.
    pub fn peer(&self) -> Peer {
        Peer::Thread { name: self.name.clone(), alive: Arc::clone(&self.alive) }
    }

    /// Starts the role.
    pub fn start(
        &self,
        role: impl FnOnce() -> Result<(), RuntimeError> + Send + 'static,
    ) -> Result<RoleThread, RuntimeError> {
        let leaving = Leaving(Arc::clone(&self.alive));
        let name = self.name.clone();
        let handle = std::thread::Builder::new()
            // Shown by `top -H`, and 15 bytes long at most.
            .name(format!("uva-{name}"))
            .spawn(move || {
                let _leaving = leaving;
                let ended = role();
                (Instant::now(), ended)
            })
            .map_err(|error| machine::not_started(&format!("the thread of the {name}"), &error))?;
        Ok(RoleThread { name, handle })
    }
}

/// A role that runs as a thread.
#[derive(Debug)]
pub(crate) struct RoleThread {
    name: String,
    handle: JoinHandle<(Instant, Result<(), RuntimeError>)>,
}

impl RoleThread {
    pub fn is_finished(&self) -> bool {
        self.handle.is_finished()
    }
}

/// Waits for these threads, and returns the error nearest to the cause, with its time: the first of all, and not that
/// of a role that only noticed another's end.
pub(crate) fn first_error(threads: impl IntoIterator<Item = RoleThread>) -> Option<(Instant, RuntimeError)> {
    let mut first: Option<(Instant, RuntimeError)> = None;
    for RoleThread { name, handle } in threads {
        let (at, ended) = handle
            .join()
            .unwrap_or_else(|_| (Instant::now(), Err(RuntimeError::Failed(format!("the {name} panicked")))));
        match ended {
            Ok(()) | Err(RuntimeError::PeerGone(_)) => {}
            Err(error) if first.as_ref().is_none_or(|(known, _)| at < *known) => first = Some((at, error)),
            Err(_) => {}
        }
    }
    first
}

/// As [`first_error`], where the time doesn't matter.
pub(crate) fn join_all(threads: impl IntoIterator<Item = RoleThread>) -> Result<(), RuntimeError> {
    first_error(threads).map_or(Ok(()), |(_, error)| Err(error))
}
