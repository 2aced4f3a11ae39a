//! A role as a thread: its start, and its report at the end.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread::JoinHandle;
use std::time::Instant;

use crate::control::peer::{ExitMark, Peer};
use crate::control::{Control, Stop};
use crate::{RuntimeError, machine};

/// All work of a stage.
pub type RoleWork = Box<dyn FnOnce() -> Result<(), RuntimeError> + Send>;

/// The identity, for its peers, of a role that runs or will run as a thread.
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

    /// The role's work, for the calling thread. Its peers detect its end too.
    pub fn marked(&self, role: RoleWork) -> RoleWork {
        let leaving = ExitMark(Arc::clone(&self.alive));
        Box::new(move || {
            let _leaving = leaving;
            role()
        })
    }

    /// Starts the role.
    fn start(
        &self,
        role: impl FnOnce() -> Result<(), RuntimeError> + Send + 'static,
    ) -> Result<RoleThread, RuntimeError> {
        let leaving = ExitMark(Arc::clone(&self.alive));
        let name = self.name.clone();
        let handle = std::thread::Builder::new()
            // Displayed by `top -H`, and at most 15 bytes long.
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
struct RoleThread {
    name: String,
    handle: JoinHandle<(Instant, Result<(), RuntimeError>)>,
}

fn first_error(threads: Vec<RoleThread>) -> Option<(Instant, RuntimeError)> {
    let mut first: Option<(Instant, RuntimeError)> = None;
    for RoleThread { name, handle } in threads {
        let (at, ended) = handle
            .join()
            .unwrap_or_else(|_| (Instant::now(), Err(RuntimeError::failed(format!("the {name} panicked")))));
        match ended {
            Ok(()) | Err(RuntimeError::PeerGone(_)) => {}
            Err(error) if first.as_ref().is_none_or(|(known, _)| at < *known) => first = Some((at, error)),
            Err(_) => {}
        }
    }
    first
}

/// The roles that run as threads of this process. Dropping the value ends them.
#[derive(Debug)]
pub struct RoleThreads {
    control: Arc<Control>,
    threads: Vec<RoleThread>,
}

impl RoleThreads {
    /// Creates the set without threads, for the run with this control page.
    pub fn new(control: Arc<Control>) -> Self {
        Self { control, threads: Vec::new() }
    }

    /// Whether no role was started.
    pub fn is_empty(&self) -> bool {
        self.threads.is_empty()
    }

    /// Starts another role.
    pub(crate) fn start(
        &mut self,
        name: &ThreadName,
        role: impl FnOnce() -> Result<(), RuntimeError> + Send + 'static,
    ) -> Result<(), RuntimeError> {
        self.threads.push(name.start(role)?);
        Ok(())
    }

    /// Joins the threads that have ended.
    ///
    /// # Errors
    /// The error of any of them.
    pub fn join_finished(&mut self) -> Result<(), RuntimeError> {
        let (finished, running) =
            std::mem::take(&mut self.threads).into_iter().partition(|thread| thread.handle.is_finished());
        self.threads = running;
        first_error(finished).map_or(Ok(()), |(_, error)| Err(error))
    }

    /// Waits for all of them, and returns the error nearest to the cause, with its time. That is the earliest error,
    /// but not that of a role that only noticed another's end.
    pub fn join(&mut self) -> Option<(Instant, RuntimeError)> {
        first_error(std::mem::take(&mut self.threads))
    }

    /// Requests the run to stop, and waits for all threads.
    ///
    /// # Errors
    /// See [`RoleThreads::join`].
    pub fn stop(&mut self) -> Result<(), RuntimeError> {
        // The launcher stops roles that are processes.
        if !self.threads.is_empty() {
            self.control.set_stop(Stop::Now);
        }
        self.join().map_or(Ok(()), |(_, error)| Err(error))
    }
}

impl Drop for RoleThreads {
    fn drop(&mut self) {
        // Callers that want the errors have called `stop` or `join` before.
        let _ = self.stop();
    }
}
