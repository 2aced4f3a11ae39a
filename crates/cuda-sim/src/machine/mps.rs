//! Clients of the stand-in MPS daemon, and the server's fate with its clients.
//!
//! MPS is simulated as far as a client can observe it. With `CUDA_SIM_STRICT=mps` each client also records its work in
//! flight in the pipe directory. A client killed with work in flight has poisoned the server, as NVIDIA warns: no
//! process can become a client of that daemon any more. A client that was first terminated through the daemon has not.

use std::fs::{self, File};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI64, Ordering};

use rustix::mm::{MapFlags, ProtFlags};

use crate::machine::codes::{Code, Outcome};

/// A living daemon.
struct Daemon {
    folder: PathBuf,
    pid: u32,
}

impl Daemon {
    /// The daemon for this process, if there is one.
    fn find() -> Option<Self> {
        let folder = PathBuf::from(std::env::var_os("CUDA_MPS_PIPE_DIRECTORY")?);
        if !folder.join("control").exists() {
            return None;
        }
        let pid = fs::read_to_string(folder.join("nvidia-cuda-mps-control.pid")).ok()?.trim().parse().ok()?;
        // Without a living daemon, the process is silently not a client, as with the driver.
        lives(pid).then_some(Self { folder, pid })
    }

    /// The prefix of its clients' files, distinct from that of earlier daemons.
    fn prefix(&self) -> String {
        format!("cuda-sim-client-{}-", self.pid)
    }
}

/// The percentage of the multiprocessors that this process may use, if it is a client.
pub fn percentage() -> Option<u32> {
    Daemon::find()?;
    let asked = std::env::var("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE").ok();
    // The driver also accepts "12.5", and takes other values than 1 to 100 as no limit.
    let percentage =
        asked.and_then(|text| text.trim().parse::<f64>().ok()).filter(|p| (1.0..=100.0).contains(p));
    Some(percentage.map_or(100, |p| p as u32))
}

fn lives(pid: u32) -> bool {
    let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else { return false };
    // A zombie has ended. The state follows the name, which may hold any character and ends with the last closing
    // bracket.
    stat.rsplit(')').next().is_some_and(|rest| !rest.trim_start().starts_with(['Z', 'X']))
}

/// This client's operations in flight, mapped from its file: read by others after this process has died.
static IN_FLIGHT: OnceLock<(&'static AtomicI64, PathBuf)> = OnceLock::new();

unsafe extern "C" {
    /// A function of the C library: `hook` runs at a normal exit, but not if the process is killed.
    safe fn atexit(hook: extern "C" fn()) -> i32;
}

/// The driver drains its queues at a normal exit, so no work is in flight.
extern "C" fn ends_by_itself() {
    if let Some((_, path)) = IN_FLIGHT.get() {
        let _ = fs::remove_file(path);
    }
}

/// Becomes a client whose work in flight others can see; no effect if this process is not a client.
///
/// # Errors
/// `CUDA_ERROR_MPS_RPC_FAILURE` if a client has poisoned the server; `CUDA_ERROR_OPERATING_SYSTEM`.
pub fn enter() -> Outcome {
    let Some(daemon) = Daemon::find() else { return Ok(()) };
    if IN_FLIGHT.get().is_some() {
        return Ok(());
    }
    for entry in fs::read_dir(&daemon.folder).map_err(|_| Code::OPERATING_SYSTEM)?.flatten() {
        if let Some(pid) = poisoner(&daemon, &entry.path()) {
            eprintln!(
                "cuda-sim: the MPS server is lost: its client {pid} was killed with work in flight, without a request to \
                 the daemon to terminate it"
            );
            return Err(Code::MPS_RPC_FAILURE);
        }
    }
    let path = daemon.folder.join(format!("{}{}", daemon.prefix(), std::process::id()));
    let count = map(&path).ok_or(Code::OPERATING_SYSTEM)?;
    if IN_FLIGHT.set((count, path)).is_ok() {
        atexit(ends_by_itself);
    }
    Ok(())
}

/// The client of this file, if it has died with work in flight.
fn poisoner(daemon: &Daemon, path: &Path) -> Option<u32> {
    let pid = path.file_name()?.to_str()?.strip_prefix(&daemon.prefix())?.parse().ok()?;
    let count = fs::read(path).ok()?.try_into().ok().map(i64::from_ne_bytes)?;
    let released = daemon.folder.join(format!("terminated-{pid}")).exists();
    (count != 0 && !released && !lives(pid)).then_some(pid)
}

fn map(path: &Path) -> Option<&'static AtomicI64> {
    let file = File::options().read(true).write(true).create(true).truncate(true).open(path).ok()?;
    file.set_len(size_of::<i64>() as u64).ok()?;
    let (kind, access) = (MapFlags::SHARED, ProtFlags::READ | ProtFlags::WRITE);
    // SAFETY: a fresh mapping at an address of the kernel's choice, of a file that is as long and is never truncated.
    let place =
        unsafe { rustix::mm::mmap(std::ptr::null_mut(), size_of::<i64>(), access, kind, file.as_fd(), 0) };
    // SAFETY: mapped at a page's start, for the rest of the process's life; others only read the file.
    place.ok().map(|place| unsafe { AtomicI64::from_ptr(place.cast()) })
}

/// Records that an operation of a stream was enqueued.
pub fn enqueued() {
    if let Some((count, _)) = IN_FLIGHT.get() {
        count.fetch_add(1, Ordering::AcqRel);
    }
}

/// Records that an operation of a stream has finished.
pub fn finished() {
    if let Some((count, _)) = IN_FLIGHT.get() {
        count.fetch_sub(1, Ordering::AcqRel);
    }
}
