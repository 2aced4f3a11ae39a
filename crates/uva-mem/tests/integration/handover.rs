//! The hand-over channel with invalid messages.

use std::io::{IoSlice, Read, Seek, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags};
use uva_mem::handover::{Channel, HandoverError, MAX_FDS, MAX_PAYLOAD};
use uva_mem::{ControlPage, SharedRegion};

const HEADER: usize = 24;

/// A message's bytes as `Channel::send` makes them, written here a second time from the documented layout.
fn message(fds: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = b"uva-hand".to_vec();
    bytes.extend(1u32.to_le_bytes());
    bytes.extend(fds.to_le_bytes());
    bytes.extend((payload.len() as u64).to_le_bytes());
    bytes.extend(payload);
    bytes
}

fn send_raw(channel: &Channel, bytes: &[u8], fds: &[BorrowedFd<'_>]) {
    let mut space = vec![MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(253))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() {
        assert!(control.push(SendAncillaryMessage::ScmRights(fds)));
    }
    rustix::net::sendmsg(channel, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL).unwrap();
}

/// The receiver's error for these bytes and descriptors.
fn refusal(bytes: &[u8], fds: &[BorrowedFd<'_>]) -> String {
    let (here, there) = Channel::pair().unwrap();
    send_raw(&here, bytes, fds);
    match there.recv() {
        Err(HandoverError::Refused(what)) => what,
        other => panic!("not refused: {other:?}"),
    }
}

fn open_fds() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

#[test]
fn payload_and_descriptors_arrive_in_order_and_close_on_exec() {
    let (here, there) = Channel::pair().unwrap();
    let files: Vec<std::fs::File> = (0..3)
        .map(|i| {
            let mut file = tempfile::tempfile().unwrap();
            write!(file, "file {i}").unwrap();
            file
        })
        .collect();
    let fds: Vec<_> = files.iter().map(AsFd::as_fd).collect();
    here.send(b"the payload", &fds).unwrap();
    here.send(b"", &[]).unwrap();
    let received = there.recv().unwrap();
    assert_eq!(received.payload, b"the payload");
    assert_eq!(received.fds.len(), 3);
    for (i, fd) in received.fds.into_iter().enumerate() {
        assert!(rustix::io::fcntl_getfd(&fd).unwrap().contains(rustix::io::FdFlags::CLOEXEC));
        let mut file = std::fs::File::from(fd);
        let mut text = String::new();
        file.rewind().unwrap();
        file.read_to_string(&mut text).unwrap();
        assert_eq!(text, format!("file {i}"));
    }
    let empty = there.recv().unwrap();
    assert!(empty.payload.is_empty() && empty.fds.is_empty());
}

#[test]
fn the_largest_message_passes_and_a_larger_one_is_not_sent() {
    let (here, there) = Channel::pair().unwrap();
    let payload = vec![7; MAX_PAYLOAD];
    let fds = vec![here.as_fd(); MAX_FDS];
    here.send(&payload, &fds).unwrap();
    let received = there.recv().unwrap();
    assert_eq!((received.payload.len(), received.fds.len()), (MAX_PAYLOAD, MAX_FDS));
    let too_long = here.send(&vec![7; MAX_PAYLOAD + 1], &[]);
    assert!(matches!(too_long, Err(HandoverError::TooLarge { bytes, fds: 0 }) if bytes == MAX_PAYLOAD + 1));
    let too_many = here.send(b"", &vec![here.as_fd(); MAX_FDS + 1]);
    assert!(matches!(too_many, Err(HandoverError::TooLarge { fds, .. }) if fds == MAX_FDS + 1));
}

#[test]
fn the_layout_is_the_documented_one() {
    let (here, there) = Channel::pair().unwrap();
    send_raw(&here, &message(1, b"abc"), &[here.as_fd()]);
    let received = there.recv().unwrap();
    assert_eq!((received.payload.as_slice(), received.fds.len()), (&b"abc"[..], 1));
}

#[test]
fn every_byte_of_the_header_counts() {
    let good = message(1, b"abc");
    let (file, _keep) = Channel::pair().unwrap();
    for byte in 0..HEADER {
        for flip in [1, 0x80, 0xff] {
            let mut bytes = good.clone();
            bytes[byte] ^= flip;
            let what = refusal(&bytes, &[file.as_fd()]);
            let field = match byte {
                0..8 => "magic",
                8..12 => "version",
                12..16 => "descriptors",
                _ => "bytes of payload",
            };
            assert!(what.contains(field), "byte {byte} xor {flip:#x}: {what}");
        }
    }
}

#[test]
fn a_truncated_message_is_refused_with_its_length() {
    let good = message(0, b"abc");
    for length in 1..good.len() {
        let what = refusal(&good[..length], &[]);
        let expected = if length < HEADER {
            format!("it has {length} bytes, fewer than the 24 of a header")
        } else {
            format!("says 3 bytes of payload, but {} arrived", length - HEADER)
        };
        assert!(what.contains(&expected), "{what}");
    }
    let mut long = good;
    long.push(b'd');
    assert!(refusal(&long, &[]).contains("says 3 bytes of payload, but 4 arrived"));
}

#[test]
fn a_message_longer_than_the_buffer_is_refused() {
    let what = refusal(&message(0, &vec![0; MAX_PAYLOAD + 1]), &[]);
    assert!(what.contains("longer than"), "{what}");
}

#[test]
fn hostile_lengths_and_counts_are_refused() {
    for length in [0, 2, 4, u64::from(u32::MAX), u64::MAX, u64::MAX - 23, 1 << 63] {
        let mut bytes = message(0, b"abc");
        bytes[16..24].copy_from_slice(&length.to_le_bytes());
        assert!(refusal(&bytes, &[]).contains(&format!("says {length} bytes of payload, but 3 arrived")));
    }
    for count in [1, 253, u32::MAX] {
        assert!(
            refusal(&message(count, b""), &[]).contains(&format!("says {count} descriptors, but 0 arrived"))
        );
    }
}

#[test]
fn missing_and_surplus_descriptors_are_refused() {
    let (file, _keep) = Channel::pair().unwrap();
    assert!(refusal(&message(2, b"x"), &[file.as_fd()]).contains("says 2 descriptors, but 1 arrived"));
    assert!(refusal(&message(0, b"x"), &[file.as_fd()]).contains("says 0 descriptors, but 1 arrived"));
    // More than the control buffer holds: the kernel drops some and says so.
    assert!(refusal(&message(250, b"x"), &[file.as_fd(); 250]).contains("descriptors were lost"));
}

#[test]
fn descriptors_of_refused_messages_are_closed() {
    // Alone in a separate process: other tests of this file open descriptors meanwhile.
    if std::env::var_os("UVA_MEM_ALONE").is_none() {
        let status = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "handover::descriptors_of_refused_messages_are_closed", "--test-threads=1"])
            .env("UVA_MEM_ALONE", "1")
            .status()
            .unwrap();
        assert!(status.success());
        return;
    }
    let (file, _keep) = Channel::pair().unwrap();
    let before = open_fds();
    for _ in 0..50 {
        refusal(&message(3, b"x"), &[file.as_fd(); 20]);
        refusal(&message(250, b"x"), &[file.as_fd(); 250]);
        refusal(b"short", &[file.as_fd()]);
    }
    assert_eq!(open_fds(), before);
}

#[test]
fn a_closed_end_is_distinguished_from_every_other_error() {
    let (here, there) = Channel::pair().unwrap();
    here.send(b"last words", &[]).unwrap();
    drop(here);
    assert_eq!(there.recv().unwrap().payload, b"last words");
    assert!(matches!(there.recv(), Err(HandoverError::Closed)));
    assert!(matches!(there.recv_within(Duration::from_secs(60)), Err(HandoverError::Closed)));
    assert!(matches!(there.send(b"anybody?", &[]), Err(HandoverError::Closed)));
}

#[test]
fn a_named_end_receives_by_name_and_its_name_is_removed_with_it() {
    let name = format!("uva-mem-test-{}", std::process::id());
    assert!(matches!(Channel::to_named(&name), Err(HandoverError::Closed)));
    let named = Channel::named(&name).unwrap();
    assert!(matches!(Channel::named(&name), Err(HandoverError::System { doing: "bind", .. })));
    let senders = [(); 2].map(|()| Channel::to_named(&name).unwrap());
    let file = tempfile::tempfile().unwrap();
    for (sender, payload) in senders.iter().zip([b"one", b"two"]) {
        sender.send(payload, &[file.as_fd()]).unwrap();
    }
    for payload in [b"one", b"two"] {
        let received = named.recv().unwrap();
        assert_eq!((&received.payload[..], received.fds.len()), (&payload[..], 1));
    }
    assert!(matches!(named.recv_within(Duration::ZERO), Err(HandoverError::TimedOut(_))));
    drop(named);
    assert!(matches!(senders[0].send(b"three", &[]), Err(HandoverError::Closed)));
    assert!(matches!(Channel::to_named(&name), Err(HandoverError::Closed)));
}

#[test]
fn silence_ends_with_a_time_out() {
    let (_here, there) = Channel::pair().unwrap();
    assert!(matches!(there.recv_within(Duration::from_millis(1)), Err(HandoverError::TimedOut(_))));
}

#[test]
fn only_packet_sockets_of_this_machine_are_channels() {
    let refused = |fd: OwnedFd| match Channel::from_fd(fd) {
        Err(HandoverError::Refused(what)) => what,
        other => panic!("not refused: {other:?}"),
    };
    assert!(refused(tempfile::tempfile().unwrap().into()).contains("not a socket"));
    let (stream, _peer) = std::os::unix::net::UnixStream::pair().unwrap();
    assert!(refused(stream.into()).contains("not UNIX and SEQPACKET"));
    let udp = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    assert!(refused(udp.into()).contains("not UNIX and SEQPACKET"));
}

#[test]
fn only_inherited_descriptors_are_adopted() {
    let refused = |number| match Channel::from_inherited(number) {
        Err(HandoverError::Refused(what)) => what,
        other => panic!("not refused: {other:?}"),
    };
    let (here, _there) = Channel::pair().unwrap();
    assert!(refused(here.as_fd().as_raw_fd()).contains("close-on-exec"));
    for number in [-1, i32::MIN, 0, 1, 2] {
        assert!(refused(number).contains("standard streams"));
    }
    assert!(refused(1_000_000_000).contains("not open"));
}

#[test]
fn a_descriptor_that_reused_the_channels_number_is_not_adopted() {
    let (ours, _theirs) = Channel::pair().unwrap();
    let (others, other_end) = Channel::pair().unwrap();
    // As left by a program between the two: another socket, open beyond exec.
    rustix::io::fcntl_setfd(&others, rustix::io::FdFlags::empty()).unwrap();
    let number = others.as_fd().as_raw_fd();
    match Channel::from_inherited_as(number, ours.identity().unwrap()) {
        Err(HandoverError::Refused(what)) => assert!(what.contains("refers to another file"), "{what}"),
        other => panic!("not refused: {other:?}"),
    }
    // The socket still belongs to its owner.
    others.send(b"mine", &[]).unwrap();
    assert_eq!(other_end.recv().unwrap().payload, b"mine");
    assert!(rustix::io::fcntl_getfd(&others).unwrap().is_empty());
}

#[test]
fn a_region_is_refused_unless_it_is_a_sealed_memfd_of_the_size_agreed() {
    let region = SharedRegion::create("test", 5000).unwrap();
    let fd = || region.fd().unwrap().try_clone_to_owned().unwrap();
    assert_eq!(SharedRegion::from_fd("test", fd(), 5000).unwrap().len(), 5000);
    let what = SharedRegion::from_fd("test", fd(), 9000).map(drop).unwrap_err().to_string();
    assert!(what.contains("it has 8192 bytes where 9000 were agreed"), "{what}");
    assert!(SharedRegion::from_fd("test", fd(), 0).is_err());

    let unsealed = rustix::fs::memfd_create("unsealed", rustix::fs::MemfdFlags::ALLOW_SEALING).unwrap();
    rustix::fs::ftruncate(&unsealed, 8192).unwrap();
    let what = SharedRegion::from_fd("test", unsealed, 8192).map(drop).unwrap_err().to_string();
    assert!(what.contains("not sealed"), "{what}");
    let (socket, _peer) = std::os::unix::net::UnixStream::pair().unwrap();
    let what = SharedRegion::from_fd("test", socket.into(), 8192).map(drop).unwrap_err().to_string();
    assert!(what.contains("not a memfd"), "{what}");
}

#[test]
fn the_size_of_a_region_cannot_be_changed() {
    let region = SharedRegion::create("test", 5000).unwrap();
    for size in [0, 4096, 1 << 20] {
        assert_eq!(rustix::fs::ftruncate(region.fd().unwrap(), size), Err(rustix::io::Errno::PERM));
    }
    assert!(SharedRegion::create("test", 0).is_err());
    assert!(SharedRegion::create("test", usize::MAX).is_err());
}

#[test]
fn a_region_requested_on_huge_pages_is_made_with_or_without_them() {
    let region = SharedRegion::create_with("test", 3 << 20, uva_mem::Pages::Hugetlb).unwrap();
    let again =
        SharedRegion::from_fd("test", region.fd().unwrap().try_clone_to_owned().unwrap(), 3 << 20).unwrap();
    assert_eq!(again.pages(), region.pages());
    region.populate().unwrap();
}

#[test]
fn control_words_are_shared_and_start_at_zero() {
    let page = ControlPage::create("control", 3).unwrap();
    let other = ControlPage::open("control", page.fd().try_clone_to_owned().unwrap(), 3).unwrap();
    assert_eq!([0, 1, 2].map(|word| other.load(word)), [0, 0, 0]);
    page.store(1, 77);
    assert_eq!([0, 1, 2].map(|word| other.load(word)), [0, 77, 0]);
    assert_eq!(other.fetch_add(1, 1), 77);
    assert_eq!(other.fetch_max(2, 5), 0);
    assert_eq!(other.fetch_min(2, 3), 5);
    assert_eq!(page.compare_exchange(2, 3, 9), Ok(3));
    assert_eq!(page.compare_exchange(2, 3, 1), Err(9));
    assert_eq!([0, 1, 2].map(|word| page.load(word)), [0, 78, 9]);
}

#[test]
#[should_panic(expected = "word 3 of a control page of 3")]
fn a_word_beyond_the_control_page_is_a_panic() {
    ControlPage::create("control", 3).unwrap().load(3);
}

proptest::proptest! {
    #[test]
    fn bytes_that_are_not_a_message_are_refused(mut bytes in proptest::collection::vec(0u8.., 1..200), like in 0usize..HEADER) {
        // Begins like a message up to some byte, but is not valid.
        let good = message(0, &vec![0; bytes.len().saturating_sub(HEADER)]);
        let like = like.min(bytes.len());
        bytes[..like].copy_from_slice(&good[..like]);
        if bytes.len() < HEADER || bytes[..HEADER] != good[..HEADER] {
            refusal(&bytes, &[]);
        }
    }
}

/// The error of the end that refuses other users, for a message from a separate process of this user.
fn refusal_of_user(user: u32) -> String {
    let (here, there) = Channel::pair().unwrap();
    here.refuse_other_users().unwrap();
    let theirs = there.as_fd().try_clone_to_owned().unwrap();
    let script = "import socket; socket.socket(fileno=0).send(b'hello')";
    let sent = Command::new("python3").args(["-c", script]).stdin(theirs).uid(user).status().unwrap();
    assert!(sent.success(), "{sent}");
    match here.recv() {
        Err(HandoverError::Refused(what)) => what,
        other => panic!("not refused: {other:?}"),
    }
}

#[test]
fn a_message_of_another_user_is_refused_by_the_end_that_requires_its_own() {
    let own = rustix::process::getuid();
    // A message of the same user is refused only for its content.
    assert!(refusal_of_user(own.as_raw()).contains("fewer than the 24 of a header"));
    if !own.is_root() {
        println!("skipped: only root can send as another user");
        return;
    }
    let refusal = refusal_of_user(65_534);
    assert!(refusal.contains("of user 65534, and this one is of user 0"), "{refusal}");
}

#[test]
fn messages_pass_an_end_that_refuses_other_users_with_their_descriptors() {
    let (here, there) = Channel::pair().unwrap();
    here.refuse_other_users().unwrap();
    there.send(b"payload", &[there.as_fd(), here.as_fd()]).unwrap();
    let received = here.recv().unwrap();
    assert_eq!((received.payload.as_slice(), received.fds.len()), (&b"payload"[..], 2));
    let most = vec![there.as_fd(); MAX_FDS];
    there.send(b"", &most).unwrap();
    assert_eq!(here.recv().unwrap().fds.len(), MAX_FDS);
}
