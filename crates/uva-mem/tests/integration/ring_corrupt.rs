//! Damaged headers: every byte of a header in the ring's memory, flipped once. Each gives an error, never another
//! batch.

use std::cell::Cell;
use std::fs::File;
use std::os::unix::fs::FileExt;

use uva_mem::ring::protocol::{SlotState, StateWord};
use uva_mem::ring::{AlwaysAlive, PeerGone, Reader, Ring, RingError, RingShape};

const HEADER_BYTES: u64 = 32;
const STATE_BYTES: u64 = 4;
const FLIPS: [u8; 9] = [1, 2, 4, 8, 16, 32, 64, 128, 255];

/// A ring, and its memory as a file.
struct Damaged {
    ring: Ring,
    memory: File,
}

impl Damaged {
    fn new(slots: u32) -> Self {
        let ring = Ring::create("damaged", RingShape { slots, payload_bytes: 100 }).unwrap();
        let memory = File::from(ring.fd().unwrap().try_clone_to_owned().unwrap());
        Self { ring, memory }
    }

    fn flip(&self, position: u64, mask: u8) {
        let mut byte = [0];
        self.memory.read_exact_at(&mut byte, position).unwrap();
        self.memory.write_all_at(&[byte[0] ^ mask], position).unwrap();
    }

    fn flip_slot(&self, slot: u32, byte: u64, mask: u8) {
        self.flip(128 * (u64::from(slot) + 1) + byte, mask);
    }

    /// Writes and reads sequences `0..count`.
    fn pass(&self, count: u64) {
        let (mut writer, mut reader) = (self.ring.writer(), self.ring.reader());
        for sequence in 0..count {
            writer.acquire(sequence, &AlwaysAlive).unwrap().publish(10).unwrap();
            reader.acquire(sequence, &AlwaysAlive).unwrap().release().unwrap();
        }
    }
}

/// Alive for three checks: a side that checks more often has not noticed the damage and would wait forever.
fn patient() -> impl Fn() -> Result<(), PeerGone> {
    let questions = Cell::new(0);
    move || {
        questions.set(questions.get() + 1);
        if questions.get() > 3 { Err(PeerGone::new("still waiting")) } else { Ok(()) }
    }
}

fn is_corrupt<T>(result: Result<T, RingError>, slot: u32, case: &str) -> String {
    match result {
        Err(RingError::Corrupt { ring, slot: found, what, .. }) => {
            assert_eq!((ring.as_str(), found), ("damaged", slot), "{case}");
            what
        }
        Err(other) => panic!("{case}: {other}"),
        Ok(_) => panic!("{case}: not noticed"),
    }
}

#[test]
fn every_flipped_byte_of_a_published_header_is_noticed_by_its_reader() {
    std::thread::scope(|scope| {
        // Flips that turn ready into free are noticed after a wait: all bytes at once, not one after the other.
        for byte in 0..HEADER_BYTES {
            scope.spawn(move || {
                for mask in FLIPS {
                    let damaged = Damaged::new(2);
                    damaged.pass(3);
                    damaged.ring.writer().acquire(3, &AlwaysAlive).unwrap().publish(10).unwrap();
                    damaged.flip_slot(1, byte, mask);
                    let case = format!("byte {byte} xor {mask:#x}");
                    let what = is_corrupt(damaged.ring.reader().acquire(3, &patient()), 1, &case);
                    let field = match byte {
                        0..4 => "state",
                        4..8 => "generation",
                        8..16 => "sequence",
                        // A wrong length is found by the checksum before it is used.
                        _ => "checksum",
                    };
                    assert!(what.contains(field), "{case}: {what}");
                }
            });
        }
    });
}

#[test]
fn a_length_beyond_the_slot_is_refused_even_with_a_good_checksum() {
    let damaged = Damaged::new(1);
    damaged.ring.writer().acquire(0, &AlwaysAlive).unwrap().publish(10).unwrap();
    for length in [101u64, u64::MAX, 1 << 63] {
        let at = |offset: u64| 128 + offset;
        damaged.memory.write_all_at(&length.to_le_bytes(), at(16)).unwrap();
        let checksum = uva_mem::ring::protocol::checksum(0, 0, length);
        damaged.memory.write_all_at(&checksum.to_le_bytes(), at(24)).unwrap();
        damaged.memory.write_all_at(&StateWord::new(0, SlotState::Ready).0.to_le_bytes(), at(0)).unwrap();
        let what = is_corrupt(damaged.ring.reader().acquire(0, &patient()), 0, "a hostile length");
        assert!(what.contains(&format!("length is {length}, beyond the 100 bytes")), "{what}");
    }
}

#[test]
fn every_flipped_byte_of_a_free_slots_state_is_noticed() {
    std::thread::scope(|scope| {
        for byte in 0..STATE_BYTES {
            for mask in FLIPS {
                scope.spawn(move || {
                    let damaged = Damaged::new(1);
                    damaged.pass(5);
                    damaged.flip_slot(0, byte, mask);
                    let case = format!("byte {byte} xor {mask:#x}");
                    let mut writer = damaged.ring.writer();
                    match writer.acquire(5, &patient()) {
                        Err(RingError::Corrupt { .. }) => {}
                        // To the writer it looks like an earlier turn of another writer; its reader recognises the
                        // damage.
                        Err(RingError::PeerDied { .. }) => {
                            is_corrupt(damaged.ring.reader().acquire(5, &patient()), 0, &case);
                        }
                        other => panic!("{case}: {other:?}"),
                    }
                });
            }
        }
    });
}

#[test]
fn a_state_changed_while_its_slot_is_in_use_is_noticed_at_the_end() {
    for byte in 0..STATE_BYTES {
        for mask in FLIPS {
            let case = format!("byte {byte} xor {mask:#x}");
            let damaged = Damaged::new(1);
            let mut writer = damaged.ring.writer();
            let slot = writer.acquire(0, &AlwaysAlive).unwrap();
            damaged.flip_slot(0, byte, mask);
            is_corrupt(slot.publish(1), 0, &case);

            // At a release, and after a drop at the next acquire, although of another slot.
            for explicit in [true, false] {
                let damaged = Damaged::new(2);
                damaged.ring.writer().acquire(0, &AlwaysAlive).unwrap().publish(1).unwrap();
                let mut reader: Reader = damaged.ring.reader();
                let slot = reader.acquire(0, &AlwaysAlive).unwrap();
                damaged.flip_slot(0, byte, mask);
                if explicit {
                    is_corrupt(slot.release(), 0, &case);
                } else {
                    drop(slot);
                    is_corrupt(reader.acquire(1, &patient()), 0, &case);
                }
            }
        }
    }
}

#[test]
fn every_flipped_byte_of_the_regions_own_header_is_refused_at_open() {
    for byte in 0..40 {
        for mask in FLIPS {
            let damaged = Damaged::new(2);
            damaged.flip(byte, mask);
            let fd = damaged.ring.fd().unwrap().try_clone_to_owned().unwrap();
            let error = Ring::open("damaged", fd, damaged.ring.shape()).map(drop).unwrap_err();
            assert!(matches!(error, RingError::Mismatch { .. }), "byte {byte} xor {mask:#x}: {error}");
        }
    }
}

#[test]
fn a_header_left_by_another_generation_is_never_taken_for_this_one() {
    // The state is ready, and the header is that of the turn before.
    let damaged = Damaged::new(1);
    damaged.pass(1);
    damaged.memory.write_all_at(&StateWord::new(1, SlotState::Ready).0.to_le_bytes(), 128).unwrap();
    let what = is_corrupt(damaged.ring.reader().acquire(1, &patient()), 0, "a stale header");
    assert!(what.contains("generation is 0 instead of 1"), "{what}");
}
