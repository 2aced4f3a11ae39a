//! The ring between real processes: this test binary starts itself again as the peer, kills it, stops it, and checks
//! the other side. Every wait has a watchdog, which fails the test; no other time is asserted.

use std::cell::Cell;
use std::os::fd::AsFd;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use uva_mem::handover::{Channel, HandoverError, ReceivedMessage};
use uva_mem::ring::protocol::SlotState;
use uva_mem::ring::{AlwaysAlive, Liveness, PeerGone, Ring, RingError, RingShape};
use uva_mem::spawn::Inherit;
use uva_mem::{PidFd, Signal};

const CHANNEL: &str = "UVA_MEM_TEST_CHANNEL";
const ROLE: &str = "UVA_MEM_TEST_ROLE";
const WATCHDOG: Duration = Duration::from_secs(60);
const SHAPE: RingShape = RingShape { slots: 4, payload_bytes: 10_000 };

fn pattern(sequence: u64) -> Vec<u8> {
    (0..sequence * 997 % 10_001).map(|i| (sequence * 131 + i * 7) as u8).collect()
}

/// A process of this test, ended with the test in every case.
struct Peer {
    child: Child,
    pidfd: PidFd,
    channel: Channel,
}

impl Peer {
    /// Starts this binary as `role`, and passes it the ring.
    fn start(role: &str, ring: &Ring) -> Self {
        let (channel, theirs) = Channel::pair().unwrap();
        let mut command = Command::new(std::env::current_exe().unwrap());
        let inherit =
            Inherit { channel: Some(theirs), death_signal: Some(Signal::KILL), ..Inherit::default() };
        let number = inherit.apply(&mut command).unwrap();
        let child = command
            .args(["--exact", "ring_processes::the_peer_process", "--nocapture", "--test-threads=1"])
            .env(CHANNEL, number.to_string())
            .env(ROLE, role)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        drop(command);
        let pidfd = PidFd::open(child.id()).unwrap();
        let peer = Self { child, pidfd, channel };
        peer.channel.send(role.as_bytes(), &[ring.fd().unwrap()]).unwrap();
        peer
    }

    fn says(&self, expected: &str) -> ReceivedMessage {
        let received = self.channel.recv_within(WATCHDOG).unwrap();
        assert_eq!(String::from_utf8_lossy(&received.payload), expected);
        received
    }

    fn kill(&self) {
        self.pidfd.send_signal(Signal::KILL).unwrap();
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The peer's liveness, with the watchdog: a wait that does not end fails with a message.
fn watched(pidfd: &PidFd) -> impl Fn() -> Result<(), PeerGone> {
    let start = Instant::now();
    move || {
        if start.elapsed() > WATCHDOG {
            return Err(PeerGone::new("the watchdog of the test"));
        }
        pidfd.check()
    }
}

fn tells_of_the_death<T>(result: Result<T, RingError>, peer: &Peer) {
    match result {
        Err(RingError::PeerDied { reason, .. }) => {
            assert_eq!(reason, format!("process {} has ended", peer.child.id()));
        }
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("received a slot that was not sent"),
    }
}

/// The code of the started process. In a normal test run it does nothing.
#[test]
fn the_peer_process() {
    let Ok(number) = std::env::var(CHANNEL) else { return };
    let role = std::env::var(ROLE).unwrap();
    let channel = Channel::from_inherited(number.parse().unwrap()).unwrap();
    assert!(matches!(Channel::from_inherited(number.parse().unwrap()), Err(HandoverError::Refused(_))));
    let mut handed = channel.recv_within(WATCHDOG).unwrap();
    assert_eq!(handed.payload, role.as_bytes());
    let fd = handed.fds.remove(0);
    // Blocks until the test kills this process, or its end of the channel is closed.
    let wait_for_the_end = || drop(channel.recv());
    let say = |what: &str| channel.send(what.as_bytes(), &[]).unwrap();
    if role == "parent" {
        // The next peer is a child of this process, and must die with it.
        let ring = Ring::open("test", fd, SHAPE).unwrap();
        let grandchild = Peer::start("deaf", &ring);
        grandchild.says("deaf");
        channel.send(b"has a child", &[grandchild.pidfd.as_fd()]).unwrap();
        wait_for_the_end();
        return;
    }
    let ring = Ring::open("test", fd, SHAPE).unwrap();
    let (mut writer, mut reader) = (ring.writer(), ring.reader());
    match role.as_str() {
        "idle" => say("idle"),
        "deaf" => {
            // Ignores that the channel closes: a signal ends it, or the watchdog of a failed test.
            say("deaf");
            std::thread::sleep(2 * WATCHDOG);
        }
        "killed while filling" => {
            let mut slot = writer.acquire(0, &AlwaysAlive).unwrap();
            slot.payload_mut().fill(0xee);
            say("filling");
            wait_for_the_end();
            slot.abandon();
        }
        "killed after publishing" => {
            let mut slot = writer.acquire(0, &AlwaysAlive).unwrap();
            let bytes = pattern(10);
            slot.payload_mut()[..bytes.len()].copy_from_slice(&bytes);
            slot.publish(bytes.len() as u64).unwrap();
            say("published");
        }
        "killed while reading" => {
            let slot = reader.acquire(0, &AlwaysAlive).unwrap();
            assert_eq!(slot.payload(), pattern(10));
            say("reading");
            wait_for_the_end();
            slot.abandon();
        }
        "stopped while filling" => {
            let mut slot = writer.acquire(0, &AlwaysAlive).unwrap();
            say("filling");
            channel.recv().unwrap();
            let bytes = pattern(10);
            slot.payload_mut()[..bytes.len()].copy_from_slice(&bytes);
            slot.publish(bytes.len() as u64).unwrap();
        }
        "session leader" => {
            // The leader of a session cannot begin another. The session's own number means nothing if this test runs in
            // a PID namespace that its session does not belong to: it reads 0 there.
            match rustix::process::setsid() {
                Err(rustix::io::Errno::PERM) => say("leads a session"),
                Ok(_) => say("leads none"),
                Err(other) => panic!("setsid: {other}"),
            }
        }
        "even writer" | "odd writer" => {
            let first = u64::from(role == "odd writer");
            for sequence in (first..FLOW).step_by(2) {
                let mut slot = writer.acquire(sequence, &AlwaysAlive).unwrap();
                let bytes = pattern(sequence);
                slot.payload_mut()[..bytes.len()].copy_from_slice(&bytes);
                slot.publish(bytes.len() as u64).unwrap();
            }
        }
        other => panic!("no role is called {other}"),
    }
    wait_for_the_end();
}

const FLOW: u64 = 3000;
const KILLS: u32 = 10;

#[test]
fn batches_of_two_processes_arrive_whole_and_in_order() {
    let ring = Ring::create("test", SHAPE).unwrap();
    let writers = [Peer::start("even writer", &ring), Peer::start("odd writer", &ring)];
    let mut reader = ring.reader();
    for sequence in 0..FLOW {
        let peer = &writers[sequence as usize % 2];
        let slot = reader.acquire(sequence, &watched(&peer.pidfd)).unwrap();
        assert!(slot.payload() == pattern(sequence), "sequence {sequence}");
    }
}

#[test]
fn a_reader_learns_that_its_writer_was_killed_in_any_state() {
    for _ in 0..KILLS {
        for (role, said) in [("idle", "idle"), ("killed while filling", "filling")] {
            let ring = Ring::create("test", SHAPE).unwrap();
            let peer = Peer::start(role, &ring);
            peer.says(said);
            let expected = if role == "idle" { SlotState::Free } else { SlotState::Filling };
            assert_eq!(ring.state(0).state(), expected);
            // Killed when the reader already waits, at its first liveness check.
            let killed = Cell::new(false);
            let alive = watched(&peer.pidfd);
            let kill_then_ask = || {
                if !killed.replace(true) {
                    peer.kill();
                }
                alive()
            };
            tells_of_the_death(ring.reader().acquire(0, &kill_then_ask).map(drop), &peer);
        }
    }
}

#[test]
fn what_a_killed_writer_published_is_read_before_its_death_is_reported() {
    for _ in 0..KILLS {
        let ring = Ring::create("test", SHAPE).unwrap();
        let peer = Peer::start("killed after publishing", &ring);
        peer.says("published");
        peer.kill();
        assert!(peer.pidfd.wait_for_end(WATCHDOG).unwrap());
        let mut reader = ring.reader();
        assert_eq!(reader.acquire(0, &watched(&peer.pidfd)).unwrap().payload(), pattern(10));
        tells_of_the_death(reader.acquire(1, &watched(&peer.pidfd)).map(drop), &peer);
    }
}

#[test]
fn a_writer_learns_that_its_reader_was_killed_while_reading() {
    for _ in 0..KILLS {
        let ring = Ring::create("test", SHAPE).unwrap();
        let peer = Peer::start("killed while reading", &ring);
        let mut writer = ring.writer();
        for sequence in 0..4 {
            let mut slot = writer.acquire(sequence, &watched(&peer.pidfd)).unwrap();
            let bytes = pattern(10);
            slot.payload_mut()[..bytes.len()].copy_from_slice(&bytes);
            slot.publish(bytes.len() as u64).unwrap();
        }
        peer.says("reading");
        assert_eq!(ring.state(0).state(), SlotState::Reading);
        let killed = Cell::new(false);
        let alive = watched(&peer.pidfd);
        let kill_then_ask = || {
            if !killed.replace(true) {
                peer.kill();
            }
            alive()
        };
        // The slot being read, and the slots that were ready: none of them is returned.
        for sequence in 4..8 {
            tells_of_the_death(writer.acquire(sequence, &kill_then_ask).map(drop), &peer);
        }
        assert_eq!(ring.state(0).state(), SlotState::Reading);
    }
}

#[test]
fn a_stopped_peer_is_waited_for_and_its_batch_is_complete() {
    let ring = Ring::create("test", SHAPE).unwrap();
    let peer = Peer::start("stopped while filling", &ring);
    peer.says("filling");
    peer.pidfd.send_signal(Signal::STOP).unwrap();
    // The parent is notified once all threads of the process are stopped.
    let options = rustix::process::WaitIdOptions::STOPPED;
    let stopped =
        rustix::process::waitid(rustix::process::WaitId::PidFd(peer.pidfd.as_fd()), options).unwrap();
    assert!(stopped.is_some_and(|status| status.stopped()));
    peer.channel.send(b"go", &[]).unwrap();
    let questions = Cell::new(0);
    let alive = watched(&peer.pidfd);
    let ask = || {
        questions.set(questions.get() + 1);
        if questions.get() == 3 {
            peer.pidfd.send_signal(Signal::CONT).unwrap();
        }
        alive()
    };
    let mut reader = ring.reader();
    assert_eq!(reader.acquire(0, &ask).unwrap().payload(), pattern(10));
    assert!(questions.get() >= 3, "the batch came while its writer was stopped");
}

#[test]
fn a_child_dies_with_the_process_that_started_it() {
    let ring = Ring::create("test", SHAPE).unwrap();
    let parent = Peer::start("parent", &ring);
    let mut received = parent.says("has a child");
    let grandchild = PidFd::from_fd(received.fds.remove(0), 0).unwrap();
    assert!(grandchild.is_alive().unwrap());
    parent.kill();
    assert!(grandchild.wait_for_end(WATCHDOG).unwrap(), "the grandchild outlived its parent");
}

#[test]
fn a_child_leads_a_session_of_its_own_only_when_asked_to() {
    for (new_session, expected) in [(true, "leads a session"), (false, "leads none")] {
        let ring = Ring::create("test", SHAPE).unwrap();
        let (channel, theirs) = Channel::pair().unwrap();
        let mut command = Command::new(std::env::current_exe().unwrap());
        let number =
            Inherit { channel: Some(theirs), new_session, ..Inherit::default() }.apply(&mut command).unwrap();
        let child = command
            .args(["--exact", "ring_processes::the_peer_process", "--nocapture", "--test-threads=1"])
            .env(CHANNEL, number.to_string())
            .env(ROLE, "session leader")
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        drop(command);
        let peer = Peer { pidfd: PidFd::open(child.id()).unwrap(), child, channel };
        peer.channel.send(b"session leader", &[ring.fd().unwrap()]).unwrap();
        peer.says(expected);
    }
}

#[test]
fn a_child_that_ends_closes_its_channel_here() {
    let ring = Ring::create("test", SHAPE).unwrap();
    let peer = Peer::start("idle", &ring);
    peer.says("idle");
    peer.kill();
    assert!(matches!(peer.channel.recv_within(WATCHDOG), Err(HandoverError::Closed)));
    assert!(peer.pidfd.wait_for_end(WATCHDOG).unwrap());
    // Not waited for yet: a zombie counts as ended.
    assert!(!peer.pidfd.is_alive().unwrap());
    assert!(peer.pidfd.check().is_err());
}

#[test]
fn a_descriptor_that_is_not_a_pidfd_is_refused() {
    let error = PidFd::from_fd(tempfile::tempfile().unwrap().into(), 4711).unwrap_err().to_string();
    assert!(error.contains("process 4711 is not a pidfd"), "{error}");
    let own = PidFd::open(std::process::id()).unwrap();
    let again = PidFd::from_fd(own.as_fd().try_clone_to_owned().unwrap(), std::process::id()).unwrap();
    assert!(again.is_alive().unwrap());
    let misnamed = PidFd::from_fd(own.as_fd().try_clone_to_owned().unwrap(), 4711).unwrap();
    assert_eq!(misnamed.number().unwrap(), Some(std::process::id()));
    assert!(PidFd::open(0).is_err() && PidFd::open(u32::MAX).is_err());
}
