//! What a child does between fork and exec, and how it takes up what it inherited.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::Mutex;

use rustix::io::{Errno, FdFlags};
use rustix::process::Signal;
use rustix::thread::CpuSet;

use crate::process::handover::{Channel, HandoverError};

/// What a child inherits, its death signal and its session.
#[derive(Debug, Default)]
pub struct Inherit {
    /// One end of a channel, for the child alone. It moves into the [`Command`]: drop that after the spawn. Otherwise
    /// this process keeps the child's end open and never sees it close.
    pub channel: Option<Channel>,
    /// The signal that the child gets when the *thread* that spawned it ends (Linux counts by thread). Spawn from a
    /// thread that lives as long as the run.
    pub death_signal: Option<Signal>,
    /// Whether the child leads a session of its own, so that signals from the terminal do not reach it.
    pub new_session: bool,
    /// The CPU cores that the child may run on; `None` for those of the thread that spawns it.
    pub cores: Option<CpuSet>,
}

impl Inherit {
    /// Applies this to `command`. Returns the number under which the child finds the channel (for
    /// [`Channel::from_inherited`]); put it into the child's arguments.
    ///
    /// A parent may end before the child has asked for its death signal. The child notices that too, and its spawn
    /// fails.
    pub fn apply(self, command: &mut Command) -> Option<RawFd> {
        let Self { channel, death_signal, new_session, cores } = self;
        let channel = channel.map(Channel::into_fd);
        let number = channel.as_ref().map(AsRawFd::as_raw_fd);
        let parent = rustix::process::getpid();
        let in_child = move || -> io::Result<()> {
            if new_session {
                rustix::process::setsid()?;
            }
            if let Some(fd) = &channel {
                rustix::io::fcntl_setfd(fd, FdFlags::empty())?;
            }
            if let Some(cores) = &cores {
                rustix::thread::sched_setaffinity(None, cores)?;
            }
            if let Some(signal) = death_signal {
                rustix::process::set_parent_process_death_signal(Some(signal))?;
                // The parent may have ended before that call; then the signal never comes. Comparing with 1 would be
                // wrong: orphans go to the nearest subreaper.
                if rustix::process::getppid() != Some(parent) {
                    return Err(Errno::SRCH.into());
                }
            }
            Ok(())
        };
        // SAFETY: between fork and exec only async-signal-safe code may run. The closure makes plain system calls
        // (rustix makes them itself, with no libc state), allocates nothing and takes no lock. Its errors are bare
        // errno numbers. The descriptor it uses is owned by the closure, so by `command`, and is open at the fork.
        unsafe { command.pre_exec(in_child) };
        number
    }
}

impl Channel {
    /// Takes up, in the child, the channel that [`Inherit`] left open under this number.
    ///
    /// # Errors
    /// [`HandoverError::Refused`] when the number is a standard stream, is not open, was not inherited, was taken up
    /// before, or is no hand-over socket.
    pub fn from_inherited(number: RawFd) -> Result<Self, HandoverError> {
        Self::take_inherited(number, None)
    }

    /// The same where other programs may have run between the two. They may have closed the descriptor and opened
    /// something else under its number, so only the end with this [identity](Channel::identity) is taken.
    ///
    /// # Errors
    /// As [`Channel::from_inherited`], and [`HandoverError::Refused`] for any other descriptor, which is left as it is.
    pub fn from_inherited_as(number: RawFd, identity: u64) -> Result<Self, HandoverError> {
        Self::take_inherited(number, Some(identity))
    }

    fn take_inherited(number: RawFd, identity: Option<u64>) -> Result<Self, HandoverError> {
        // Two calls with one number must not both find it free to take.
        static TAKING: Mutex<()> = Mutex::new(());
        let _guard = TAKING.lock().unwrap_or_else(std::sync::PoisonError::into_inner);

        let refused = |why: &str| Err(HandoverError::Refused(format!("descriptor {number} {why}")));
        if number <= 2 {
            return refused("is no inherited channel: 0, 1 and 2 are the standard streams");
        }
        // SAFETY: borrowed for this one query, which is harmless for any number: it fails where none is open.
        let borrowed = unsafe { std::os::fd::BorrowedFd::borrow_raw(number) };
        match rustix::io::fcntl_getfd(borrowed) {
            Err(_) => return refused("is not open"),
            // Sockets have inodes of a file system of their own, and only a socket is accepted below.
            Ok(_)
                if identity
                    .is_some_and(|id| rustix::fs::fstat(borrowed).map(|stat| stat.st_ino) != Ok(id)) =>
            {
                return refused("is something else by now");
            }
            Ok(flags) if flags.contains(FdFlags::CLOEXEC) => {
                return refused("was not inherited, or was taken up already (it is close-on-exec)");
            }
            Ok(_) => {}
        }
        // From now on a second call refuses it.
        rustix::io::fcntl_setfd(borrowed, FdFlags::CLOEXEC)
            .map_err(|e| HandoverError::System { doing: "fcntl(F_SETFD)", source: e.into() })?;
        // SAFETY: the descriptor is open (just checked), and nobody in this process owns it. It was not close-on-exec,
        // so it was open before our exec: everything that std or this crate opens or duplicates is close-on-exec from
        // the start. The flag just set lets this point be passed only once per inherited descriptor.
        let fd = unsafe { OwnedFd::from_raw_fd(number) };
        Self::from_fd(fd)
    }
}
