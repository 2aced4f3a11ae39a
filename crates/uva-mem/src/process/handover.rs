//! Hands file descriptors to another process, all in one message.
//!
//! A [`Channel`] is one end of a `SOCK_SEQPACKET` socket pair. Messages keep their bounds, and the end of the peer is
//! visible. A message is a header, a payload that the caller defines, and any number of descriptors. All descriptors
//! travel in one `SCM_RIGHTS`, since descriptors spread over messages can get lost.
//!
//! Where the two processes share no descriptor, one end can be [named](Channel::named): a `SOCK_DGRAM` socket with an
//! abstract name, which is freed with its last descriptor. Any process on the machine may send to it.
//!
//! | bytes | field |
//! |---|---|
//! | 0..8   | magic, `uva-hand` |
//! | 8..12  | version, little-endian |
//! | 12..16 | how many descriptors come along |
//! | 16..24 | how many bytes of payload follow |
//!
//! All four are checked against the received message.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
};

/// The version of the message format. Both ends are the same program, so only the same version is accepted.
pub const VERSION: u32 = 1;
/// The maximum payload of one message, in bytes.
pub const MAX_PAYLOAD: usize = 128 << 10;
/// The maximum number of descriptors in one message. The kernel's own limit is 253.
pub const MAX_FDS: usize = 128;

const MAGIC: [u8; 8] = *b"uva-hand";
const HEADER: usize = 24;

/// Why a message was not sent or not accepted.
#[derive(Debug, thiserror::Error)]
pub enum HandoverError {
    /// The other end is closed: its process has ended or dropped it.
    #[error("the other end of the hand-over channel is closed")]
    Closed,
    /// No message arrived within this time.
    #[error("no hand-over message within {} ms", .0.as_millis())]
    TimedOut(Duration),
    /// A message has the wrong format, is truncated, or does not match its header.
    #[error("a hand-over message was refused: {0}")]
    Refused(String),
    /// A message exceeds what one message can hold.
    #[error(
        "a hand-over message of {bytes} bytes and {fds} descriptors is beyond {MAX_PAYLOAD} and {MAX_FDS}"
    )]
    TooLarge {
        /// The size of the payload in bytes.
        bytes: usize,
        /// The number of descriptors.
        fds: usize,
    },
    /// A system call failed.
    #[error("hand-over channel: {doing} failed: {source}")]
    System {
        /// The failed call.
        doing: &'static str,
        /// The system's error.
        source: io::Error,
    },
}

impl HandoverError {
    fn system(doing: &'static str) -> impl Fn(Errno) -> Self {
        move |errno| Self::System { doing, source: errno.into() }
    }
}

/// A received message. The descriptors are close-on-exec.
#[derive(Debug)]
pub struct ReceivedMessage {
    /// The payload.
    pub payload: Vec<u8>,
    /// The descriptors, in the order they were sent.
    pub fds: Vec<OwnedFd>,
    /// The sending process's number, as the kernel reports it; only after [`Channel::refuse_other_users`].
    pub sender: Option<u32>,
}

/// One end of a hand-over socket.
#[derive(Debug)]
pub struct Channel(OwnedFd);

impl Channel {
    /// Creates two connected ends, both close-on-exec. [`Inherit`](crate::spawn::Inherit) gives one to a child.
    ///
    /// # Errors
    /// [`HandoverError::System`] if the system has no free socket.
    pub fn pair() -> Result<(Self, Self), HandoverError> {
        let (a, b) =
            rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
                .map_err(HandoverError::system("socketpair"))?;
        Ok((Self(a), Self(b)))
    }

    /// Creates an end that receives messages sent [to that name](Channel::to_named) by any process of this network
    /// namespace. The end of the senders is not visible.
    ///
    /// # Errors
    /// [`HandoverError::System`], for example if the name is taken.
    pub fn named(name: &str) -> Result<Self, HandoverError> {
        let (socket, address) = Self::datagrams(name)?;
        rustix::net::bind(&socket, &address).map_err(HandoverError::system("bind"))?;
        Ok(Self(socket))
    }

    /// Creates an end that sends to the [named](Channel::named) one.
    ///
    /// # Errors
    /// [`HandoverError::Closed`] if the name does not exist in this network namespace. [`HandoverError::System`] if a
    /// system call fails.
    pub fn to_named(name: &str) -> Result<Self, HandoverError> {
        let (socket, address) = Self::datagrams(name)?;
        match rustix::net::connect(&socket, &address) {
            Ok(()) => Ok(Self(socket)),
            Err(Errno::CONNREFUSED) => Err(HandoverError::Closed),
            Err(errno) => Err(HandoverError::system("connect")(errno)),
        }
    }

    fn datagrams(name: &str) -> Result<(OwnedFd, SocketAddrUnix), HandoverError> {
        let address = SocketAddrUnix::new_abstract_name(name.as_bytes())
            .map_err(HandoverError::system("naming a socket"))?;
        let socket =
            rustix::net::socket_with(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::CLOEXEC, None);
        Ok((socket.map_err(HandoverError::system("socket"))?, address))
    }

    /// Takes a descriptor that is such a socket.
    ///
    /// # Errors
    /// [`HandoverError::Refused`] if it is not a UNIX socket of the `SEQPACKET` kind.
    pub fn from_fd(fd: OwnedFd) -> Result<Self, HandoverError> {
        let kind = rustix::net::sockopt::socket_type(&fd)
            .map_err(|e| HandoverError::Refused(format!("the descriptor is not a socket ({e})")))?;
        let domain = rustix::net::sockopt::socket_domain(&fd).map_err(HandoverError::system("SO_DOMAIN"))?;
        if kind != SocketType::SEQPACKET || domain != AddressFamily::UNIX {
            return Err(HandoverError::Refused(format!(
                "the descriptor is a socket of domain {domain:?} and type {kind:?}, not UNIX and SEQPACKET"
            )));
        }
        Ok(Self(fd))
    }

    /// Rejects messages of other users from now on: the kernel reports the sender of each message
    /// ([`ReceivedMessage::sender`]). For an end whose peer other programs may obtain. Not for a peer that may be
    /// outside this process's PID namespace, where the kernel has no number for it.
    ///
    /// # Errors
    /// [`HandoverError::System`] if the system call fails.
    pub fn refuse_other_users(&self) -> Result<(), HandoverError> {
        rustix::net::sockopt::set_socket_passcred(&self.0, true).map_err(HandoverError::system("SO_PASSCRED"))
    }

    /// Sends one message. Blocks while the socket is full of messages that the other end has not read.
    ///
    /// # Errors
    /// [`HandoverError::TooLarge`], [`HandoverError::Closed`] if the other end is closed, or [`HandoverError::System`].
    pub fn send(&self, payload: &[u8], fds: &[BorrowedFd<'_>]) -> Result<(), HandoverError> {
        if payload.len() > MAX_PAYLOAD || fds.len() > MAX_FDS {
            return Err(HandoverError::TooLarge { bytes: payload.len(), fds: fds.len() });
        }
        self.send_raw(&[&header(payload.len(), fds.len()), payload], fds)
    }

    fn send_raw(&self, parts: &[&[u8]], fds: &[BorrowedFd<'_>]) -> Result<(), HandoverError> {
        let parts: Vec<IoSlice<'_>> = parts.iter().map(|part| IoSlice::new(part)).collect();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
        loop {
            let mut control = SendAncillaryBuffer::new(&mut space);
            if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(fds)) {
                return Err(HandoverError::TooLarge {
                    bytes: parts.iter().map(|p| p.len()).sum(),
                    fds: fds.len(),
                });
            }
            // A packet socket sends a whole message or none.
            match rustix::net::sendmsg(&self.0, &parts, &mut control, SendFlags::NOSIGNAL) {
                Ok(_) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(Errno::PIPE | Errno::CONNRESET | Errno::CONNREFUSED) => {
                    return Err(HandoverError::Closed);
                }
                Err(errno) => return Err(HandoverError::system("sendmsg")(errno)),
            }
        }
    }

    /// Waits for one message.
    ///
    /// # Errors
    /// [`HandoverError::Closed`] if the other end was closed and no message is left. [`HandoverError::Refused`] for
    /// anything but a complete message of this format; its descriptors are then closed. Otherwise
    /// [`HandoverError::System`].
    pub fn recv(&self) -> Result<ReceivedMessage, HandoverError> {
        let mut buffer = vec![0; HEADER + MAX_PAYLOAD];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS), ScmCredentials(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let message = loop {
            let mut parts = [IoSliceMut::new(&mut buffer)];
            match rustix::net::recvmsg(&self.0, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC) {
                Ok(message) => break message,
                Err(Errno::INTR) => {}
                Err(Errno::CONNRESET) => return Err(HandoverError::Closed),
                Err(errno) => return Err(HandoverError::system("recvmsg")(errno)),
            }
        };
        // The descriptors are owned from here on, so that every error below closes them.
        let (mut fds, mut sender) = (Vec::new(), None);
        for item in control.drain() {
            match item {
                RecvAncillaryMessage::ScmRights(rights) => fds.extend(rights),
                RecvAncillaryMessage::ScmCredentials(credentials) => sender = Some(credentials),
                _ => {}
            }
        }
        if message.bytes == 0 && fds.is_empty() {
            return Err(HandoverError::Closed);
        }
        // The kernel reports the sender after `refuse_other_users`.
        let own = rustix::process::getuid();
        if let Some(sender) = sender.filter(|sender| sender.uid != own) {
            return Err(HandoverError::Refused(format!(
                "it is of process {} of user {}, and this one is of user {}",
                sender.pid.as_raw_nonzero(),
                sender.uid.as_raw(),
                own.as_raw()
            )));
        }
        if message.flags.contains(ReturnFlags::TRUNC) {
            return Err(HandoverError::Refused(format!("it is longer than {} bytes", HEADER + MAX_PAYLOAD)));
        }
        if message.flags.contains(ReturnFlags::CTRUNC) {
            let got = fds.len();
            return Err(HandoverError::Refused(format!("some of its descriptors were lost ({got} arrived)")));
        }
        check_header(&buffer[..message.bytes], fds.len()).map_err(HandoverError::Refused)?;
        buffer.truncate(message.bytes);
        buffer.drain(..HEADER);
        let sender = sender.and_then(|sender| sender.pid.as_raw_nonzero().get().try_into().ok());
        Ok(ReceivedMessage { payload: buffer, fds, sender })
    }

    /// As [`Channel::recv`], but waits at most `timeout`.
    ///
    /// # Errors
    /// [`HandoverError::TimedOut`] if no message arrived, otherwise as [`Channel::recv`].
    pub fn recv_within(&self, timeout: Duration) -> Result<ReceivedMessage, HandoverError> {
        let start = std::time::Instant::now();
        loop {
            let left = timeout.saturating_sub(start.elapsed());
            let spec = Timespec {
                tv_sec: left.as_secs().try_into().unwrap_or(i64::MAX),
                tv_nsec: left.subsec_nanos().into(),
            };
            match rustix::event::poll(&mut [PollFd::new(&self.0, PollFlags::IN)], Some(&spec)) {
                Ok(0) => return Err(HandoverError::TimedOut(timeout)),
                Ok(_) => return self.recv(),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(HandoverError::system("poll")(errno)),
            }
        }
    }

    /// The inode of this end, which distinguishes it from every other open socket of the machine.
    /// [`Channel::from_inherited_as`] requires it.
    ///
    /// # Errors
    /// [`HandoverError::System`] if the system call fails.
    pub fn identity(&self) -> Result<u64, HandoverError> {
        Ok(rustix::fs::fstat(&self.0).map_err(HandoverError::system("fstat"))?.st_ino)
    }

    pub(crate) fn into_fd(self) -> OwnedFd {
        self.0
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn header(payload: usize, fds: usize) -> [u8; HEADER] {
    let mut bytes = [0; HEADER];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
    bytes[12..16].copy_from_slice(&(fds as u32).to_le_bytes());
    bytes[16..].copy_from_slice(&(payload as u64).to_le_bytes());
    bytes
}

/// Checks a message's header against what arrived; the error names the difference.
fn check_header(message: &[u8], fds: usize) -> Result<(), String> {
    let Some((head, payload)) = message.split_first_chunk::<HEADER>() else {
        return Err(format!("it has {} bytes, fewer than the {HEADER} of a header", message.len()));
    };
    let expected = header(payload.len(), fds);
    if *head == expected {
        return Ok(());
    }
    let number = |range: std::ops::Range<usize>| {
        head[range].iter().rev().fold(0u64, |number, &byte| number << 8 | u64::from(byte))
    };
    Err(if head[..8] != MAGIC {
        format!("its magic is {:02x?} instead of {MAGIC:02x?}", &head[..8])
    } else if head[8..12] != expected[8..12] {
        format!("its version is {} instead of {VERSION}", number(8..12))
    } else if head[12..16] != expected[12..16] {
        format!("its header says {} descriptors, but {fds} arrived", number(12..16))
    } else {
        format!("its header says {} bytes of payload, but {} arrived", number(16..24), payload.len())
    })
}
