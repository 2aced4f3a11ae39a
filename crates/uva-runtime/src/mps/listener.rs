//! Who listens at a daemon's socket, as the kernel tells it. A pid file says only what its writer wants.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with, sockopt};

/// The socket that clients and the control program connect to.
pub(super) const SOCKET: &str = "control";
/// NVIDIA's daemon listens for packets; the stand-in of the tests for a stream.
const KINDS: [SocketType; 2] = [SocketType::SEQPACKET, SocketType::STREAM];

/// The process that listens at a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Listener {
    /// Its user.
    pub uid: u32,
    /// Its number when it began to listen; `None` where its queue is full. It may have forked since.
    pub pid: Option<u32>,
}

impl Listener {
    /// The listener in this pipe directory; `None` where a socket is left that nobody listens at, or none is there.
    ///
    /// It connects, and closes again without a word.
    ///
    /// # Errors
    /// What the system said, where it cannot be asked.
    pub fn of(pipe_directory: &Path) -> io::Result<Option<Self>> {
        let path = pipe_directory.join(SOCKET);
        let owner = match fs::metadata(&path) {
            Ok(meta) => meta.uid(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let address = SocketAddrUnix::new(&path)?;
        for kind in KINDS {
            match connected(&address, kind) {
                Ok(socket) => {
                    // A listener outside of this process's PID namespace has no number here. Its pid file has been
                    // compared with the processes of this one before.
                    let peer = sockopt::socket_peercred(socket)?;
                    let pid = u32::try_from(peer.pid.as_raw_nonzero().get()).ok();
                    return Ok(Some(Self { uid: peer.uid.as_raw(), pid }));
                }
                Err(Errno::PROTOTYPE) => {}
                Err(Errno::CONNREFUSED | Errno::NOENT) => return Ok(None),
                // A daemon that hangs, and has callers waiting. Who may put a socket there was asked of the directory,
                // so the file's owner is who made it.
                Err(Errno::AGAIN) => return Ok(Some(Self { uid: owner, pid: None })),
                Err(error) => return Err(error.into()),
            }
        }
        // A socket of a kind that no daemon has.
        Ok(None)
    }
}

/// A connection, which is not waited for.
fn connected(address: &SocketAddrUnix, kind: SocketType) -> rustix::io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, kind, flags, None)?;
    connect(&socket, address)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use rustix::net::{bind, listen};

    use super::*;

    #[test]
    fn a_listener_for_packets_and_one_for_a_stream_are_told_and_an_abandoned_socket_is_not() {
        for kind in KINDS {
            let folder = tempfile::tempdir().unwrap();
            assert_eq!(Listener::of(folder.path()).unwrap(), None);
            let socket = socket_with(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None).unwrap();
            bind(&socket, &SocketAddrUnix::new(folder.path().join(SOCKET)).unwrap()).unwrap();
            assert_eq!(Listener::of(folder.path()).unwrap(), None);
            listen(&socket, 0).unwrap();
            let us = Listener { uid: rustix::process::geteuid().as_raw(), pid: Some(std::process::id()) };
            assert_eq!(Listener::of(folder.path()).unwrap(), Some(us));
            // That caller still waits there, and there is room for no other.
            let waiting = Listener { pid: None, ..us };
            assert_eq!(Listener::of(folder.path()).unwrap(), Some(waiting));
            drop(socket);
            assert_eq!(Listener::of(folder.path()).unwrap(), None);
        }
    }

    #[test]
    fn a_file_that_is_no_socket_has_no_listener() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(SOCKET), "").unwrap();
        assert_eq!(Listener::of(folder.path()).unwrap(), None);
    }
}
