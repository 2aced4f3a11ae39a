//! Messages of a peer over an inherited or connected socket.

use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, socketpair};
use uva_mem::handover::Channel;

fn pair() -> (OwnedFd, Channel) {
    let (peer, own) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
        .expect("a pair of sockets");
    (peer, Channel::from_fd(own).expect("of the right kind"))
}

pub fn handover(input: &[u8]) -> bool {
    let (peer, channel) = pair();
    let mut accepted = false;
    // Messages of at most 64 KiB: a larger one is refused by the socket.
    for message in input.chunks(1 << 16).take(2) {
        rustix::net::send(&peer, message, SendFlags::empty()).expect("room in the socket");
        if let Ok(received) = channel.recv_within(Duration::ZERO) {
            accepted = true;
            assert!(received.payload.len() < message.len() && received.fds.is_empty());
        }
    }
    drop(peer);
    assert!(channel.recv().is_err(), "a message after the peer has closed");
    accepted
}

pub fn seeds() -> Vec<Vec<u8>> {
    let message = |payload: &[u8]| {
        let (peer, channel) = pair();
        channel.send(payload, &[]).expect("room in the socket");
        let mut bytes = vec![0; 1 << 16];
        let (length, _) =
            rustix::net::recv(&peer, &mut bytes[..], rustix::net::RecvFlags::empty()).expect("a message");
        bytes.truncate(length);
        bytes
    };
    vec![message(b""), message(br#"{"Done":null}"#)]
}
