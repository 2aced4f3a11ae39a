//! SIGINT and SIGTERM as bytes on a socket, so that one poll() watches signals together with pidfds and channels.

use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Pid, Signal, getpid, getppid, kill_process};
use signal_hook::SigId;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::low_level;

use uva_runtime::control::{Control, Stop};

/// The signals that end a run, as they arrive. Dropping it stops listening. The signals do not regain their default
/// meaning, so a process that continues ignores them from then on.
#[derive(Debug)]
pub(crate) struct EndSignals {
    streams: [(i32, UnixStream); 2],
    registered: Vec<SigId>,
}

impl EndSignals {
    /// Begins to listen.
    pub fn listen() -> io::Result<Self> {
        let mut registered = Vec::new();
        let mut stream = |signal| -> io::Result<(i32, UnixStream)> {
            let (read, write) = UnixStream::pair()?;
            read.set_nonblocking(true)?;
            registered.push(low_level::pipe::register(signal, write)?);
            Ok((signal, read))
        };
        let streams = [stream(SIGINT)?, stream(SIGTERM)?];
        Ok(Self { streams, registered })
    }

    /// Descriptors that become readable when a signal has arrived.
    pub fn fds(&self) -> [BorrowedFd<'_>; 2] {
        [self.streams[0].1.as_fd(), self.streams[1].1.as_fd()]
    }

    /// Returns the signals since the last call. Two of one kind may count as one if the system merged them.
    pub fn take(&mut self) -> Vec<i32> {
        let mut arrived = Vec::new();
        for (signal, stream) in &mut self.streams {
            let mut bytes = [0; 16];
            while let Ok(count @ 1..) = stream.read(&mut bytes) {
                arrived.extend(std::iter::repeat_n(*signal, count));
            }
        }
        arrived
    }
}

impl Drop for EndSignals {
    fn drop(&mut self) {
        for id in self.registered.drain(..) {
            low_level::unregister(id);
        }
    }
}

/// Makes a role leave SIGINT and SIGTERM to its launcher. A terminal sends Ctrl-C to every process of the run, but the
/// launcher alone decides what it means.
pub(crate) fn leave_to_launcher() -> io::Result<()> {
    for signal in [SIGINT, SIGTERM] {
        let unused = Arc::new(std::sync::atomic::AtomicBool::new(false));
        signal_hook::flag::register(signal, unused)?;
    }
    Ok(())
}

/// Maximum time for a role to end after its launcher has ended, longer than the janitor waits.
const GRACE: Duration = Duration::from_secs(10);

/// Makes a role with work on a GPU end in an orderly way when its launcher has ended. SIGTERM, its parent-death signal,
/// then requests the end that the launcher would have requested. While the launcher lives, SIGTERM is ignored.
///
/// `launcher` is the parent that this process started with, `controls` the pages of the ranks that it serves.
pub(crate) fn stop_with_launcher(launcher: Option<Pid>, controls: Vec<Arc<Control>>) -> io::Result<()> {
    let mut signals = signal_hook::iterator::Signals::new([SIGTERM])?;
    std::thread::Builder::new().name("launcher".to_owned()).spawn(move || {
        // Once before the first signal, which may have arrived before the listener existed.
        for _ in std::iter::once(SIGTERM).chain(signals.forever()) {
            if getppid() != launcher {
                controls.iter().for_each(|control| control.set_stop(Stop::Now));
                // A role that waits for the GPU does not check the stop word. The janitor would kill it; if the janitor
                // was killed too, no other process does.
                std::thread::sleep(GRACE);
                let _ = kill_process(getpid(), Signal::KILL);
            }
        }
    })?;
    Ok(())
}
