//! Code of a child between fork and exec, and inherited descriptors.

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
    /// One end of a channel, for the child only. It is moved into the [`Command`]; drop that after the spawn. Otherwise
    /// this process keeps the child's end open and never sees it close.
    pub channel: Option<Channel>,
    /// The signal sent to the child when the *thread* that spawned it ends (Linux counts by thread). Spawn from a
    /// thread that lives as long as the run.
    pub death_signal: Option<Signal>,
    /// Whether the child leads its own session, so that signals from the terminal do not reach it.
    pub new_session: bool,
    /// The CPU cores that the child may run on; `None` for those of the thread that spawns it.
    pub cores: Option<CpuSet>,
}

impl Inherit {
    /// Applies these settings to `command`. Returns the descriptor number of the channel in the child, for
    /// [`Channel::from_inherited`]; pass it in the child's arguments.
    ///
    /// If the parent ends before the child has requested its death signal, the child detects that and its spawn fails.
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
                // wrong, since orphans are adopted by the nearest subreaper.
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
    /// Opens, in the child, the channel that [`Inherit`] left open under this number.
    ///
    /// # Errors
    /// [`HandoverError::Refused`] if the number is a standard stream, is not open, was not inherited, was opened
    /// before, or is not a hand-over socket.
    pub fn from_inherited(number: RawFd) -> Result<Self, HandoverError> {
        Self::take_inherited(number, None)
    }

    /// Like [`Channel::from_inherited`], if other programs may have run in between. These may have closed the
    /// descriptor and reused its number, so only the end with this [identity](Channel::identity) is accepted.
    ///
    /// # Errors
    /// As [`Channel::from_inherited`], and [`HandoverError::Refused`] for any other descriptor, which stays open.
    pub fn from_inherited_as(number: RawFd, identity: u64) -> Result<Self, HandoverError> {
        Self::take_inherited(number, Some(identity))
    }

    fn take_inherited(number: RawFd, identity: Option<u64>) -> Result<Self, HandoverError> {
        // Two calls with the same number must not both succeed.
        static TAKING: Mutex<()> = Mutex::new(());
        let _guard = TAKING.lock().unwrap_or_else(std::sync::PoisonError::into_inner);

        let refused = |why: &str| Err(HandoverError::Refused(format!("descriptor {number} {why}")));
        if number <= 2 {
            return refused("is not an inherited channel: 0, 1 and 2 are the standard streams");
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
                return refused("now refers to another file");
            }
            Ok(flags) if flags.contains(FdFlags::CLOEXEC) => {
                return refused("was not inherited, or is already in use (it is close-on-exec)");
            }
            Ok(_) => {}
        }
        // A second call with this number fails from now on.
        rustix::io::fcntl_setfd(borrowed, FdFlags::CLOEXEC)
            .map_err(|e| HandoverError::System { doing: "fcntl(F_SETFD)", source: e.into() })?;
        // SAFETY: the descriptor is open (just checked), and no value in this process owns it. It was not
        // close-on-exec, so it was open before our exec: everything that std or this crate opens or duplicates is
        // close-on-exec from the start. The flag just set lets this point be passed only once per inherited descriptor.
        let fd = unsafe { OwnedFd::from_raw_fd(number) };
        Self::from_fd(fd)
    }
}
