//! The planner: a process that determines what to cache, where to sample and how fast gathers are, before the others
//! start. Unlike the launcher it may use the GPU, and it can be stopped.

use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use uva_graph::Dataset;
use uva_mem::FrozenBytes;
use uva_mem::handover::{Channel, HandoverError};
use uva_mem::out_of_memory::OUT_OF_MEMORY;

use crate::launcher::process::child::{ChildProcess, Orphaned, Spawn, hand_over};
use crate::launcher::process::environments::Environments;
use crate::launcher::process::signals;
use crate::launcher::supervision::lifecycle::Launcher;
use crate::launcher::wire::messages::{Helper, JanitorWord, Report};
use crate::launcher::wire::reports;
use uva_runtime::backend::Backend;
use uva_runtime::control::Control;
use uva_runtime::machine::own_program;
use uva_runtime::options::seed_order::MadeOrder;
use uva_runtime::sampler::cache::{CacheContents, CachePlan};
use uva_runtime::signal_name;
use uva_runtime::telemetry::metrics::Observer;
use uva_runtime::tune::planning::{FoundParts, Search, SearchResult};
use uva_runtime::{LoaderOptions, RuntimeError, machine};

/// Interval at which the launcher checks for signals while the planner works.
const ASK: Duration = Duration::from_millis(100);

/// The planner's task.
#[derive(Serialize, Deserialize)]
struct Task {
    dataset: PathBuf,
    loader: LoaderOptions,
    backend: Backend,
    search: Search,
}

/// Maximum time for a planner to end after its result.
const ENDING: Duration = Duration::from_secs(10);

impl Launcher {
    /// [`CacheContents::of_plan`], interruptible by signals: reordering a large graph takes time.
    ///
    /// # Errors
    /// See [`CacheContents::of_plan`]; [`RuntimeError::Interrupted`] after a signal. The worker thread then ends with
    /// the process.
    pub fn fill_caches(
        &mut self,
        dataset: &Arc<Dataset>,
        plan: &CachePlan,
    ) -> Result<CacheContents, RuntimeError> {
        let (sender, receiver) = mpsc::channel();
        let (dataset, plan) = (Arc::clone(dataset), plan.clone());
        let fill = move || {
            // After an interrupt there is no receiver.
            let _ = sender.send(CacheContents::of_plan(&dataset, &plan));
        };
        std::thread::Builder::new()
            .name("caches".to_owned())
            .spawn(fill)
            .map_err(|error| machine::not_started("the thread that fills the caches", &error))?;
        loop {
            match receiver.recv_timeout(ASK) {
                Ok(contents) => return contents,
                Err(mpsc::RecvTimeoutError::Timeout) => {
                    if let Some(signal) = self.signals.take().first() {
                        return Err(RuntimeError::Interrupted(*signal));
                    }
                }
                Err(mpsc::RecvTimeoutError::Disconnected) => {
                    return Err(RuntimeError::failed("filling the caches panicked"));
                }
            }
        }
    }

    /// Runs a planner for `search`.
    ///
    /// # Errors
    /// The planner's error; [`RuntimeError::Interrupted`] after a signal.
    pub fn find_caches(
        &mut self,
        dataset: &Path,
        loader: &LoaderOptions,
        backend: &Backend,
        search: &Search,
        observer: &mut dyn Observer,
    ) -> Result<SearchResult, RuntimeError> {
        // NVRTC may be in the directory of the libtorch that trains.
        let environments = Environments { producer: self.libtorch.clone(), ..Environments::default() };
        let environments = environments.divided(self.mps.as_deref(), backend);
        let on_gpu = backend.cuda().is_some();
        let mut planner = Spawn {
            program: &own_program(),
            name: Helper::Planner.name(),
            index: None,
            dataset,
            // It measures the work of samplers and producers.
            variables: &environments.producer,
            cores: None,
            orphaned: if on_gpu { Orphaned::Asked } else { Orphaned::Killed },
        }
        .start()?;
        let pid = planner.pidfd.pid();
        let word =
            JanitorWord::Roles { pids: vec![pid], on_gpu: if on_gpu { vec![pid] } else { Vec::new() } };
        self.janitor.tell(&word, &[planner.pidfd.as_fd()])?;
        let task = Task {
            dataset: dataset.to_owned(),
            loader: loader.clone(),
            backend: backend.clone(),
            search: search.clone(),
        };
        if let Some(channel) = &planner.channel {
            // It counts the run's own batches, in the order of its seeds.
            let sequences: Vec<_> = loader.made_order.iter().filter_map(MadeOrder::fd).collect();
            match hand_over(channel, &task, &sequences) {
                // The cause is found below.
                Ok(()) | Err(HandoverError::Closed) => {}
                Err(error) => {
                    return Err(RuntimeError::failed(format!(
                        "cannot send the task to the planner: {error}"
                    )));
                }
            }
        }
        let found = self.hear_planner(&mut planner, observer);
        // The planner has no work left. If the driver does not finish, do not wait for it.
        let ended = found.is_ok() && planner.pidfd.wait_for_end(ENDING).unwrap_or(false);
        if ended {
            planner.wait();
        } else {
            if on_gpu && let Some(mps) = &self.mps {
                // As with the roles, a client of MPS must not be killed during its work. A process that has ended is
                // not a client.
                let _ = mps.terminate_client(pid);
            }
            planner.end_now();
        }
        found
    }

    fn hear_planner(
        &mut self,
        planner: &mut ChildProcess,
        observer: &mut dyn Observer,
    ) -> Result<SearchResult, RuntimeError> {
        let Some(channel) = planner.channel.take() else { return Err(ended_how(planner)) };
        loop {
            let received = match channel.recv_within(ASK) {
                Err(HandoverError::TimedOut(_)) => {
                    if let Some(signal) = self.signals.take().first() {
                        return Err(RuntimeError::Interrupted(*signal));
                    }
                    continue;
                }
                Err(HandoverError::Closed) => return Err(ended_how(planner)),
                other => other.map_err(|error| RuntimeError::failed(format!("the planner: {error}")))?,
            };
            let report = serde_json::from_slice(&received.payload)
                .map_err(|error| RuntimeError::failed(format!("a report of the planner: {error}")))?;
            match report {
                Report::Note(line) => observer.note(&line),
                Report::Done(value) => {
                    let parts: FoundParts = serde_json::from_value(value)
                        .map_err(|error| RuntimeError::failed(format!("the planner's result: {error}")))?;
                    return parts.joined(received.fds);
                }
                Report::Failed { error, .. } => return Err(error.of_role("the planner failed")),
                Report::Event(_) | Report::Progress(_) => {}
            }
        }
    }
}

/// The error for a planner that ended without a report, with the cause.
fn ended_how(planner: &mut ChildProcess) -> RuntimeError {
    planner.wait();
    let how = match planner.ended.map(|status| (status.signal(), status.code())) {
        Some((Some(signal), _)) => format!("was killed by {}", signal_name(signal)),
        Some((None, Some(code))) if code == i32::from(OUT_OF_MEMORY) => "ran out of memory".to_owned(),
        Some((None, Some(code))) => format!("ended with exit code {code}"),
        _ => "ended".to_owned(),
    };
    RuntimeError::failed(format!("the planner {how} without a result"))
}

/// The main function of the planner: receives its task, and returns the result with its descriptors.
pub(super) fn run(channel: &Arc<Channel>) -> Result<(serde_json::Value, Vec<OwnedFd>), RuntimeError> {
    let failed = |error: &dyn std::fmt::Display| RuntimeError::failed(error.to_string());
    let launcher = rustix::process::getppid();
    signals::leave_to_launcher().map_err(|error| failed(&error))?;
    let first = channel
        .recv()
        .map_err(|error| RuntimeError::peer_gone(format!("no message from the launcher: {error}")))?;
    let mut task: Task = serde_json::from_slice(&first.payload).map_err(|error| failed(&error))?;
    if let (Some(made), Some(fd)) = (&mut task.loader.made_order, first.fds.into_iter().next()) {
        made.take(fd)?;
    }
    if task.backend.cuda().is_some() {
        // The page is private to this process. When the launcher ends, the work on the GPU is awaited, and then the
        // planner ends.
        let control = Arc::new(Control::create(&LoaderOptions::default())?);
        signals::stop_with_launcher(launcher, vec![control]).map_err(|error| failed(&error))?;
    }
    let dataset = Arc::new(task.loader.open_again(&task.dataset)?);
    let note = |line: &str| reports::note(channel, line);
    let found = task.search.run(&dataset, &task.loader, &task.backend, &note)?;
    let (parts, regions) = found.parted()?;
    let value = serde_json::to_value(parts).map_err(|error| failed(&error))?;
    let fd = |region: FrozenBytes| region.fd().try_clone_to_owned().map_err(|error| failed(&error));
    Ok((value, regions.into_iter().map(fd).collect::<Result<_, _>>()?))
}
