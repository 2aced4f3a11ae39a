//! Whether this process is a client of the stand-in MPS daemon, and what becomes of the server with its clients.
//!
//! A client sees of MPS what it can see of itself. With `CUDA_SIM_STRICT=mps` each client also says in the pipe
//! directory how much work it has in flight. One that was killed with some has poisoned the server, as NVIDIA warns: no
//! process becomes a client of that daemon any more. One that the daemon was told to terminate first has not.

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
    /// The daemon that this process is to be a client of, where there is one.
    fn find() -> Option<Self> {
        let folder = PathBuf::from(std::env::var_os("CUDA_MPS_PIPE_DIRECTORY")?);
        if !folder.join("control").exists() {
            return None;
        }
        let pid = fs::read_to_string(folder.join("nvidia-cuda-mps-control.pid")).ok()?.trim().parse().ok()?;
        // If it does not live, the driver does as this does: silently no client.
        lives(pid).then_some(Self { folder, pid })
    }

    /// What the files of its clients begin with. Those of an earlier daemon tell nothing of this one.
    fn prefix(&self) -> String {
        format!("cuda-sim-client-{}-", self.pid)
    }
}

/// The percentage of the multiprocessors that this process may use, where it is a client; else none.
pub fn percentage() -> Option<u32> {
    Daemon::find()?;
    let asked = std::env::var("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE").ok();
    // The driver takes "12.5" too, and what is no number from 1 to 100 as no limit.
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

/// This client's operations in flight, mapped from its file: read by others once this process has died.
static IN_FLIGHT: OnceLock<(&'static AtomicI64, PathBuf)> = OnceLock::new();

unsafe extern "C" {
    /// Of the C library: `hook` runs when the process ends by itself, and not where it is killed.
    safe fn atexit(hook: extern "C" fn()) -> i32;
}

/// The driver drains its queues at a process's own end: nothing was in flight.
extern "C" fn ends_by_itself() {
    if let Some((_, path)) = IN_FLIGHT.get() {
        let _ = fs::remove_file(path);
    }
}

/// Becomes a client whose work in flight others can see; nothing where this process is no client.
///
/// # Errors
/// `CUDA_ERROR_MPS_RPC_FAILURE` where a client has poisoned the server; `CUDA_ERROR_OPERATING_SYSTEM`.
pub fn enter() -> Outcome {
    let Some(daemon) = Daemon::find() else { return Ok(()) };
    if IN_FLIGHT.get().is_some() {
        return Ok(());
    }
    for entry in fs::read_dir(&daemon.folder).map_err(|_| Code::OPERATING_SYSTEM)?.flatten() {
        if let Some(pid) = poisoner(&daemon, &entry.path()) {
            eprintln!(
                "cuda-sim: the MPS server is lost: its client {pid} was killed with work in flight, and nobody had told \
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

/// The client whose file this is, where it has died with work in flight.
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
    // SAFETY: a fresh mapping at an address of the kernel's choice, of a file that is as long and is never cut short.
    let place =
        unsafe { rustix::mm::mmap(std::ptr::null_mut(), size_of::<i64>(), access, kind, file.as_fd(), 0) };
    // SAFETY: mapped at a page's start, for the rest of the process's life; others only read the file.
    place.ok().map(|place| unsafe { AtomicI64::from_ptr(place.cast()) })
}

/// An operation of a stream was enqueued.
pub fn enqueued() {
    if let Some((count, _)) = IN_FLIGHT.get() {
        count.fetch_add(1, Ordering::AcqRel);
    }
}

/// An operation of a stream is over.
pub fn finished() {
    if let Some((count, _)) = IN_FLIGHT.get() {
        count.fetch_sub(1, Ordering::AcqRel);
    }
}
