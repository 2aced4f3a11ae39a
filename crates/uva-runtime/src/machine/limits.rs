//! Resources of the machine that are checked before a run: `/proc`, and threads.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, mpsc};
use std::thread;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::RuntimeError;

/// The maximum number of CPU cores in the system's calls.
pub const MOST_CORES: usize = CpuSet::MAX_CPU;

/// The remedy for too few threads and processes.
const MORE_THREADS: &str = "raise the limit on processes and threads (ulimit -u, or a container's pids limit) or on \
                            memory (ulimit -v)";

/// The number of threads started for the pool, or the reason why there are none.
static POOL: OnceLock<Result<usize, String>> = OnceLock::new();

/// Checks that `/proc` is mounted, where a launcher finds its own program and its processes.
///
/// # Errors
/// [`RuntimeError::Missing`] with the command to mount it.
pub fn check_proc() -> Result<(), RuntimeError> {
    if has_proc() {
        return Ok(());
    }
    Err(RuntimeError::missing(
        "/proc is not mounted, and processes are found there: mount -t proc proc /proc, or start the container or \
         sandbox with it",
    ))
}

/// Whether `/proc` is mounted.
pub fn has_proc() -> bool {
    Path::new("/proc/self/stat").exists()
}

/// This program, as it was started, for starting it again. If the file has been replaced, for example by a build, its
/// old path is gone, and the running image must be started again.
#[must_use]
pub fn own_program() -> PathBuf {
    match std::env::current_exe() {
        Ok(path) if path.exists() => path,
        _ => PathBuf::from("/proc/self/exe"),
    }
}

/// A share of the CPU cores, at least 1. By default, samplers and producer get a quarter each, and the model gets half.
#[must_use]
pub fn share_of_cores(parts: usize) -> usize {
    (thread::available_parallelism().map_or(1, usize::from) / parts).max(1)
}

/// Pins the calling thread to one CPU core: the one with this number among those available to the process, modulo their
/// count. Threads that it starts later are pinned too.
///
/// # Errors
/// [`RuntimeError::Option`] if the system call fails.
pub fn pin_to_core(number: usize) -> Result<(), RuntimeError> {
    let refused = |error| {
        RuntimeError::option("pin_samplers", "true", format!("the system does not allow it: {error}"))
    };
    let cores = allowed_cores().map_err(refused)?;
    // A thread runs on at least one core.
    keep_on_core(cores[number % cores.len()]).map_err(refused)
}

/// The CPU cores that the calling thread may run on, in ascending order.
///
/// # Errors
/// The system's.
pub fn allowed_cores() -> io::Result<Vec<usize>> {
    let allowed = sched_getaffinity(None)?;
    Ok((0..CpuSet::MAX_CPU).filter(|core| allowed.is_set(*core)).collect())
}

/// Lets the calling thread, and those that it starts later, run on this CPU core alone.
///
/// # Errors
/// The system's.
///
/// # Panics
/// If `core` is [`MOST_CORES`] or more.
pub fn keep_on_core(core: usize) -> io::Result<()> {
    keep_on_cores(&[core])
}

/// Lets the calling thread, and those that it starts later, run on these CPU cores alone.
///
/// # Errors
/// The system's.
///
/// # Panics
/// If a core is [`MOST_CORES`] or more.
pub fn keep_on_cores(cores: &[usize]) -> io::Result<()> {
    Ok(sched_setaffinity(None, &core_set(cores))?)
}

/// These CPU cores as the system's calls take them.
///
/// # Panics
/// If a core is [`MOST_CORES`] or more.
#[must_use]
pub fn core_set(cores: &[usize]) -> CpuSet {
    let mut set = CpuSet::new();
    cores.iter().for_each(|core| set.set(*core));
    set
}

/// Starts the threads of this process's parallel loops (rayon's global pool): one per core, or the number in
/// `RAYON_NUM_THREADS`, or fewer if the system limits them. A second call does nothing. Without this call the first
/// such loop starts the threads, and panics on failure.
///
/// # Errors
/// [`RuntimeError::Missing`] if no thread is available.
pub fn start_threads() -> Result<(), RuntimeError> {
    match POOL.get_or_init(start_pool) {
        Ok(_) => Ok(()),
        Err(reason) => Err(RuntimeError::missing(reason.clone())),
    }
}

fn start_pool() -> Result<usize, String> {
    let asked = std::env::var("RAYON_NUM_THREADS").ok().and_then(|text| text.parse::<usize>().ok());
    let wanted = asked
        .filter(|threads| *threads > 0)
        .unwrap_or_else(|| thread::available_parallelism().map_or(1, usize::from));
    // The pool is built from threads that are already running: one that failed to start would leave the process without
    // a pool permanently.
    let (sender, receiver) = mpsc::channel::<rayon::ThreadBuilder>();
    let receiver = Arc::new(Mutex::new(receiver));
    let mut started = 0;
    let mut refused = None;
    while started < wanted && refused.is_none() {
        let work = Arc::clone(&receiver);
        let worker = move || {
            let worker = work.lock().unwrap_or_else(PoisonError::into_inner).recv();
            // No worker arrives if a pool exists already.
            if let Ok(worker) = worker {
                worker.run();
            }
        };
        match thread::Builder::new().name(format!("pool-{started}")).spawn(worker) {
            Ok(_) => started += 1,
            Err(error) => refused = Some(error),
        }
    }
    if let Some(error) = refused {
        if started == 0 {
            return Err(no_thread("a thread", &error));
        }
        tracing::warn!("only {started} of {wanted} threads can be started: {error}; {MORE_THREADS}");
    }
    let built = rayon::ThreadPoolBuilder::new()
        .num_threads(started)
        .spawn_handler(|worker| sender.send(worker).map_err(|_| io::ErrorKind::BrokenPipe.into()))
        .build_global();
    if let Err(error) = built {
        // An existing pool, of a program that embeds this library, is used too.
        tracing::debug!("the pool of threads: {error}");
    }
    Ok(started)
}

fn no_thread(what: &str, error: &io::Error) -> String {
    format!("cannot start {what}: {error}; {MORE_THREADS}")
}

/// The error for a thread or process that could not be started: [`RuntimeError::Missing`] if the machine's limit is
/// reached, [`RuntimeError::Failed`] otherwise.
pub fn not_started(what: &str, error: &io::Error) -> RuntimeError {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::OutOfMemory => {
            RuntimeError::missing(no_thread(what, error))
        }
        _ => RuntimeError::failed(format!("cannot start {what}: {error}")),
    }
}
