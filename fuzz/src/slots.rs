//! A ring that another process has written to, as a writer or a reader finds it.

use std::cell::Cell;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rustix::fs::{MemfdFlags, SealFlags};

use uva_mem::ring::protocol::{Patience, SlotHeader, SlotState, StateWord, checksum};
use uva_mem::ring::{PeerGone, Ring, RingShape, SharedWord, Word};

/// A wait checks at once, and finds that no peer is there.
const PATIENCE: Patience = Patience { spins: 0, interval: Duration::from_nanos(1) };

fn nobody() -> Result<(), PeerGone> {
    Err(PeerGone::new("no peer"))
}

const GENERATION: u32 = 5;
const SEQUENCE: u64 = 11;
const CAPACITY: u64 = 4096;

/// The header's words in their order in memory: state, generation, sequence, length, checksum.
fn header(input: &[u8]) -> SlotHeader<SharedWord> {
    let words = input.chunks(4).map(|chunk| {
        let mut bytes = [0; 4];
        bytes[..chunk.len()].copy_from_slice(chunk);
        u32::from_le_bytes(bytes)
    });
    let words: Vec<u32> = words.chain(std::iter::repeat(0)).take(8).collect();
    let next = Cell::new(0);
    SlotHeader::new(0, |_| {
        let at = next.replace(next.get() + 1);
        let word = SharedWord::default();
        word.store(words[at], Ordering::Relaxed);
        word
    })
}

pub fn slot(input: &[u8]) -> bool {
    // As the slot's reader finds it.
    let read = header(input);
    let claimed = read.claim_for_reading(SEQUENCE, GENERATION, CAPACITY, PATIENCE, &nobody);
    if let Ok(length) = claimed {
        assert!(length <= CAPACITY, "{length} bytes of {CAPACITY}");
        read.release(GENERATION).expect("it was claimed");
    }
    // As the slot's writer finds it.
    let written = header(input);
    let free = written.claim_for_writing(GENERATION, PATIENCE, &nobody).is_ok();
    if free {
        assert_eq!(written.peek(), StateWord::new(GENERATION, SlotState::Filling));
        written.publish(SEQUENCE, GENERATION, CAPACITY).expect("it was claimed");
        let length = written.claim_for_reading(SEQUENCE, GENERATION, CAPACITY, PATIENCE, &nobody);
        assert_eq!(length, Ok(CAPACITY));
    }
    // As a process that moves on without a check.
    let moved = header(input);
    let filled = moved.publish(SEQUENCE, GENERATION, CAPACITY).is_ok();
    moved.give_up(GENERATION);
    let was_read = header(input).release(GENERATION).is_ok();
    // A slot has exactly one owner.
    assert!([claimed.is_ok(), free, filled, was_read].into_iter().filter(|yes| *yes).count() <= 1);
    claimed.is_ok() || free || filled || was_read
}

pub fn slot_seeds() -> Vec<Vec<u8>> {
    let published = |state| {
        let mut seed = StateWord::new(GENERATION, state).0.to_le_bytes().to_vec();
        seed.extend(GENERATION.to_le_bytes());
        seed.extend(SEQUENCE.to_le_bytes());
        seed.extend(100_u64.to_le_bytes());
        seed.extend(checksum(SEQUENCE, GENERATION, 100).to_le_bytes());
        seed
    };
    [SlotState::Free, SlotState::Filling, SlotState::Ready, SlotState::Reading].map(published).into()
}

const SHAPE: RingShape = RingShape { slots: 2, payload_bytes: 64 };

/// Memory of a ring's size, sealed as a ring's is, with these bytes at its front.
fn memory(front: &[u8]) -> OwnedFd {
    let bytes = SHAPE.region_bytes().expect("a small ring");
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let fd = rustix::fs::memfd_create("uva-fuzz", flags).expect("a memfd");
    rustix::fs::ftruncate(&fd, bytes as u64).expect("its size");
    rustix::io::pwrite(&fd, &front[..front.len().min(bytes)], 0).expect("its content");
    rustix::fs::fcntl_add_seals(&fd, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)
        .expect("its seals");
    fd
}

pub fn ring(input: &[u8]) -> bool {
    let Ok(ring) = Ring::open("fuzz", memory(input), SHAPE) else { return false };
    assert_eq!(ring.shape(), SHAPE);
    for slot in 0..SHAPE.slots {
        let _ = ring.state(slot).to_string();
    }
    true
}

pub fn ring_seeds() -> Vec<Vec<u8>> {
    let ring = Ring::create("seed", SHAPE).expect("a small ring");
    let mut front = vec![0; 40];
    rustix::io::pread(ring.fd().expect("a memfd"), &mut front, 0).expect("its content");
    vec![front]
}
