//! The process that listens at a daemon's socket, as the kernel reports it. A pid file may contain anything.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with, sockopt};

/// The socket that clients and the control program connect to.
pub(super) const SOCKET: &str = "control";
/// NVIDIA's daemon listens on a packet socket; the tests' stand-in on a stream socket.
const KINDS: [SocketType; 2] = [SocketType::SEQPACKET, SocketType::STREAM];

/// The process that listens at a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ListeningProcess {
    /// Its user.
    pub uid: u32,
    /// Its number when it began to listen; `None` if its queue is full. It may have forked since.
    pub pid: Option<u32>,
}

impl ListeningProcess {
    /// The listener in this pipe directory; `None` if no process listens at the socket, or there is no socket.
    ///
    /// It connects, and closes again without sending anything.
    ///
    /// # Errors
    /// The system's error, if the query fails.
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
                    // A listener outside this process's PID namespace has no number here. Its pid file has been
                    // compared with the processes of this namespace before.
                    let peer = sockopt::socket_peercred(socket)?;
                    let pid = u32::try_from(peer.pid.as_raw_nonzero().get()).ok();
                    return Ok(Some(Self { uid: peer.uid.as_raw(), pid }));
                }
                Err(Errno::PROTOTYPE) => {}
                Err(Errno::CONNREFUSED | Errno::NOENT) => return Ok(None),
                // A daemon that hangs, with callers waiting. The directory determines who may put a socket there, which
                // was checked, so the file's owner made it.
                Err(Errno::AGAIN) => return Ok(Some(Self { uid: owner, pid: None })),
                Err(error) => return Err(error.into()),
            }
        }
        // A kind of socket that daemons do not use.
        Ok(None)
    }
}

/// A connection, without blocking.
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
    fn packet_and_stream_listeners_are_found_and_an_abandoned_socket_is_not() {
        for kind in KINDS {
            let folder = tempfile::tempdir().unwrap();
            assert_eq!(ListeningProcess::of(folder.path()).unwrap(), None);
            let socket = socket_with(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None).unwrap();
            bind(&socket, &SocketAddrUnix::new(folder.path().join(SOCKET)).unwrap()).unwrap();
            assert_eq!(ListeningProcess::of(folder.path()).unwrap(), None);
            listen(&socket, 0).unwrap();
            let us =
                ListeningProcess { uid: rustix::process::geteuid().as_raw(), pid: Some(std::process::id()) };
            assert_eq!(ListeningProcess::of(folder.path()).unwrap(), Some(us));
            // That caller still waits, and the queue has no space for another.
            let waiting = ListeningProcess { pid: None, ..us };
            assert_eq!(ListeningProcess::of(folder.path()).unwrap(), Some(waiting));
            drop(socket);
            assert_eq!(ListeningProcess::of(folder.path()).unwrap(), None);
        }
    }

    #[test]
    fn a_file_that_is_not_a_socket_has_no_listener() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(SOCKET), "").unwrap();
        assert_eq!(ListeningProcess::of(folder.path()).unwrap(), None);
    }
}
