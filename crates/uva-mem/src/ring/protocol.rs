//! The protocol of one slot: which side may access its payload, and how that right is transferred.
//!
//! A slot is used once per generation. Sequence `q` of a ring of `S` slots belongs to slot `q mod S` in generation `q /
//! S mod 2^30`. The state word holds the generation (30 bits) above the state (2 bits), so one 32-bit
//! compare-and-exchange moves both. So a late side can never mistake an old turn for its own.
//!
//! | state word, generation g | payload and header belong to | next | made by | ordering |
//! |---|---|---|---|---|
//! | free(g)    | no side     | filling(g) | the writer of the sequence, [`claim_for_writing`](SlotHeader::claim_for_writing) | acquire, with S4 |
//! | filling(g) | that writer | ready(g)   | the writer, [`publish`](SlotHeader::publish), after the header is written | release, S2 |
//! | filling(g) | that writer | free(g)    | the writer, [`give_up`](SlotHeader::give_up) | release, S2' |
//! | ready(g)   | no side     | reading(g) | the reader, [`claim_for_reading`](SlotHeader::claim_for_reading) or [`claim_if_ready`](SlotHeader::claim_if_ready) | acquire, with S2 |
//! | reading(g) | the reader  | free(g+1)  | the reader, [`release`](SlotHeader::release) | release, S4 |
//!
//! Every move is a compare-and-exchange from the one state it may start at. A side whose move fails detects a state
//! that the protocol does not allow; it then reports an error, and never delivers a wrong batch:
//!
//! * The reader waits through free(g) and filling(g) only. It reads in order, so it has itself made the slot free(g):
//!   any other generation is corrupt, and so is reading(g).
//! * A writer waits only through states of earlier generations (other writers' turns).
//! * If a ready(g) were turned back into free(g), both sides would wait indefinitely. So a reader that has waited
//!   checks whether its sequence was published according to the header.
//!
//! A checksum covers the header, and the reader compares it with what it expects before it trusts a length. A side that
//! dies keeps the slots it held: only published batches of a dead peer are used.

use std::fmt;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::mix;

use super::liveness::{Liveness, PeerGone};
use super::word::Word;

/// Generations wrap here: 30 bits of the state word.
pub const GENERATIONS: u32 = 1 << 30;

/// The state of a slot. The discriminants are the two low bits of the state word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum SlotState {
    /// Free to be written, in the generation of the word.
    Free = 0,
    /// A writer holds the slot.
    Filling = 1,
    /// Published, not yet claimed.
    Ready = 2,
    /// The reader holds the slot.
    Reading = 3,
}

/// A state word: generation and state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateWord(pub u32);

impl StateWord {
    /// Packs both; the generation is taken modulo 2^30.
    pub const fn new(generation: u32, state: SlotState) -> Self {
        Self((generation % GENERATIONS) << 2 | state as u32)
    }

    /// The 30-bit generation.
    pub const fn generation(self) -> u32 {
        self.0 >> 2
    }

    /// The state.
    pub const fn state(self) -> SlotState {
        match self.0 & 3 {
            0 => SlotState::Free,
            1 => SlotState::Filling,
            2 => SlotState::Ready,
            _ => SlotState::Reading,
        }
    }
}

impl fmt::Display for StateWord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self.state() {
            SlotState::Free => "free",
            SlotState::Filling => "filling",
            SlotState::Ready => "ready",
            SlotState::Reading => "reading",
        };
        write!(f, "{name} in generation {}", self.generation())
    }
}

/// Slot and generation of a sequence in a ring of `slots` slots.
///
/// # Panics
/// If `slots` is 0.
pub const fn position(sequence: u64, slots: u32) -> (u32, u32) {
    let slots = slots as u64;
    ((sequence % slots) as u32, (sequence / slots % GENERATIONS as u64) as u32)
}

/// Spinning and sleeping between liveness checks.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// Polls of the word before the first sleep.
    pub spins: u32,
    /// The longest sleep between two liveness checks.
    pub interval: Duration,
}

/// Why a state change failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The awaited event has not happened, and never will.
    Gone(PeerGone),
    /// The protocol does not allow the slot's state or header. The text names the field, its value and the expected
    /// value.
    Corrupt(String),
}

/// The header of a slot. In shared memory it consists of these eight words, little-endian, at the start of its own
/// cache line.
///
/// The writer writes all words except the state while it holds the slot; the reader reads them.
#[repr(C)]
#[derive(Debug, Default)]
pub struct SlotHeader<W> {
    state: W,
    generation: W,
    sequence: [W; 2],
    length: [W; 2],
    checksum: [W; 2],
}

impl<W: Word> SlotHeader<W> {
    /// A header whose slot is free in `generation`, of words made by `word`.
    pub fn new(generation: u32, word: impl Fn(u32) -> W) -> Self {
        let zeros = || [word(0), word(0)];
        Self {
            state: word(StateWord::new(generation, SlotState::Free).0),
            generation: word(0),
            sequence: zeros(),
            length: zeros(),
            checksum: zeros(),
        }
    }

    /// Sets a header in zeroed memory to free in `generation`, before the memory is shared.
    pub fn start_at(&self, generation: u32) {
        self.state.store(StateWord::new(generation, SlotState::Free).0, Ordering::Release);
    }

    /// The current state word, for messages only: no other conclusion may be drawn from it.
    pub fn peek(&self) -> StateWord {
        StateWord(self.state.load(Ordering::Relaxed))
    }

    /// Wakes both sides so that they check their liveness now.
    pub fn wake_all(&self) {
        self.state.wake_all();
    }

    /// Waits until the slot is free in `generation`, and claims it.
    ///
    /// # Errors
    /// [`Fault::Gone`] from `liveness`; [`Fault::Corrupt`] if the slot is beyond that state already.
    pub fn claim_for_writing(
        &self,
        generation: u32,
        patience: Patience,
        liveness: &dyn Liveness,
    ) -> Result<(), Fault> {
        let free = StateWord::new(generation, SlotState::Free);
        let filling = StateWord::new(generation, SlotState::Filling);
        self.wait_until(patience, liveness, |word, _| {
            if word == free {
                // S1, acquire: partner S4 in `release` (or S2' in `give_up`). The reader's reads of the earlier batch
                // happen before our writes.
                return Ok(self.exchange(free, filling, Ordering::Acquire).is_ok());
            }
            // The slot lags by 1 ..= 2^29 - 1 turns modulo 2^30: an earlier turn of another writer.
            let behind = generation.wrapping_sub(word.generation()) % GENERATIONS;
            if (1..GENERATIONS / 2).contains(&behind) {
                return Ok(false);
            }
            Err(format!("the state is {word}, but its writer expected {free}"))
        })
    }

    /// Publishes a slot that is being filled.
    ///
    /// # Errors
    /// [`Fault::Corrupt`] if the slot is not being filled in `generation`.
    pub fn publish(&self, sequence: u64, generation: u32, length: u64) -> Result<(), Fault> {
        // Release; partner: the acquire loads in `looks_published`. A reader that sees one of these values sees that
        // the slot has left `free`. The reader in `claim_for_reading` has them by S2.
        let generation = generation % GENERATIONS;
        self.generation.store(generation, Ordering::Release);
        store_u64(&self.sequence, sequence);
        store_u64(&self.length, length);
        store_u64(&self.checksum, checksum(sequence, generation, length));
        let filling = StateWord::new(generation, SlotState::Filling);
        // S2, release: partner S3 in `claim_for_reading`. Payload and header are written before it.
        self.exchange(filling, StateWord::new(generation, SlotState::Ready), Ordering::Release)
            .map_err(|found| Fault::Corrupt(format!("the state became {found} while it was {filling}")))?;
        self.state.wake_all();
        Ok(())
    }

    /// Cancels a claim for writing: the slot is free in the same generation. Any other state is unchanged.
    pub fn give_up(&self, generation: u32) {
        // S2', release: partner S1.
        let filling = StateWord::new(generation, SlotState::Filling);
        let _ = self.exchange(filling, StateWord::new(generation, SlotState::Free), Ordering::Release);
        self.state.wake_all();
    }

    /// Waits until `sequence` is published, claims it, and returns the length of its payload.
    ///
    /// # Errors
    /// [`Fault::Gone`] from `liveness`, unless the batch was published before; [`Fault::Corrupt`] if the protocol does
    /// not allow the state or the header, or the length exceeds `capacity`. The slot is then unchanged.
    pub fn claim_for_reading(
        &self,
        sequence: u64,
        generation: u32,
        capacity: u64,
        patience: Patience,
        liveness: &dyn Liveness,
    ) -> Result<u64, Fault> {
        let ready = StateWord::new(generation, SlotState::Ready);
        let reading = StateWord::new(generation, SlotState::Reading);
        self.wait_until(patience, liveness, |word, waited| {
            if word == ready {
                // S3, acquire: partner S2 in `publish`. Header and payload are as the writer wrote them before it.
                return Ok(self.exchange(ready, reading, Ordering::Acquire).is_ok());
            }
            if word.generation() != generation || word.state() == SlotState::Reading {
                return Err(format!(
                    "the state is {word}, but its reader expected {ready} or on the way to it"
                ));
            }
            if waited && word.state() == SlotState::Free && self.looks_published(sequence, generation) {
                let still = self.state.load(Ordering::Acquire);
                if still == word.0 {
                    return Err(format!(
                        "the state is {word}, but the header says that it was published in it"
                    ));
                }
            }
            Ok(false)
        })?;
        self.checked_length(sequence, generation, capacity)
    }

    /// Claims `sequence` if it is published, without waiting, and returns the length of its payload; `None` if it is
    /// not published yet.
    ///
    /// # Errors
    /// [`Fault::Corrupt`] for a header that the protocol does not allow, or a length that exceeds `capacity`. An
    /// invalid state is not an error here: a wait for the sequence reports it.
    pub fn claim_if_ready(
        &self,
        sequence: u64,
        generation: u32,
        capacity: u64,
    ) -> Result<Option<u64>, Fault> {
        let ready = StateWord::new(generation, SlotState::Ready);
        // S3, acquire: partner S2 in `publish`, as in `claim_for_reading`. A failed exchange concludes nothing.
        if self.exchange(ready, StateWord::new(generation, SlotState::Reading), Ordering::Acquire).is_err() {
            return Ok(None);
        }
        self.checked_length(sequence, generation, capacity).map(Some)
    }

    /// Releases a slot to the writers after reading, for the next generation.
    ///
    /// # Errors
    /// [`Fault::Corrupt`] if the slot is not being read in `generation`.
    pub fn release(&self, generation: u32) -> Result<(), Fault> {
        let reading = StateWord::new(generation, SlotState::Reading);
        let free = StateWord::new(generation + 1, SlotState::Free);
        // S4, release: partner S1 in `claim_for_writing`. All reads of the payload happen before it.
        self.exchange(reading, free, Ordering::Release)
            .map_err(|found| Fault::Corrupt(format!("the state became {found} while it was {reading}")))?;
        self.state.wake_all();
        Ok(())
    }

    /// Polls, spins, sleeps and checks liveness until `claim` is true. Its arguments are the state word and whether a
    /// sleep came before.
    ///
    /// The poll is an acquire load, so conclusions that a claim draws from the word are ordered too, even without an
    /// exchange.
    fn wait_until(
        &self,
        patience: Patience,
        liveness: &dyn Liveness,
        claim: impl Fn(StateWord, bool) -> Result<bool, String>,
    ) -> Result<(), Fault> {
        let mut spins = patience.spins;
        let mut waited = false;
        let mut gone = None;
        loop {
            let word = self.state.load(Ordering::Acquire);
            if claim(StateWord(word), waited).map_err(Fault::Corrupt)? {
                return Ok(());
            }
            if let Some(gone) = gone {
                return Err(Fault::Gone(gone));
            }
            if spins > 0 {
                spins -= 1;
                self.state.spin();
                continue;
            }
            if waited && let Err(found) = liveness.check() {
                // Everything the peer did before its end is visible now. Poll again, to claim a batch that it published
                // just before.
                gone = Some(found);
                continue;
            }
            self.state.wait(word, patience.interval);
            waited = true;
        }
    }

    fn exchange(&self, from: StateWord, to: StateWord, success: Ordering) -> Result<(), StateWord> {
        match self.state.compare_exchange(from.0, to.0, success, Ordering::Relaxed) {
            Ok(_) => Ok(()),
            Err(found) => Err(StateWord(found)),
        }
    }

    /// Whether the header is complete, valid and for this sequence.
    fn looks_published(&self, sequence: u64, generation: u32) -> bool {
        let length = load_u64(&self.length);
        self.generation.load(Ordering::Acquire) == generation
            && load_u64(&self.sequence) == sequence
            && load_u64(&self.checksum) == checksum(sequence, generation, length)
    }

    fn checked_length(&self, sequence: u64, generation: u32, capacity: u64) -> Result<u64, Fault> {
        let corrupt = |what: String| Err(Fault::Corrupt(what));
        let found = self.generation.load(Ordering::Acquire);
        if found != generation {
            return corrupt(format!("the header's generation is {found} instead of {generation}"));
        }
        let found = load_u64(&self.sequence);
        if found != sequence {
            return corrupt(format!("the header's sequence is {found} instead of {sequence}"));
        }
        let length = load_u64(&self.length);
        let (found, computed) = (load_u64(&self.checksum), checksum(sequence, generation, length));
        if found != computed {
            return corrupt(format!(
                "the header's checksum is {found:016x}, but that of its fields (length {length}) is {computed:016x}"
            ));
        }
        if length > capacity {
            return corrupt(format!(
                "the header's length is {length}, beyond the {capacity} bytes of a slot"
            ));
        }
        Ok(length)
    }
}

fn store_u64<W: Word>(words: &[W; 2], value: u64) {
    words[0].store(value as u32, Ordering::Release);
    words[1].store((value >> 32) as u32, Ordering::Release);
}

fn load_u64<W: Word>(words: &[W; 2]) -> u64 {
    u64::from(words[0].load(Ordering::Acquire)) | u64::from(words[1].load(Ordering::Acquire)) << 32
}

/// The checksum of a header: of its sequence, generation and length.
///
/// Each step is a bijection of its input xor a field, so a change of any single field is always detected.
pub fn checksum(sequence: u64, generation: u32, length: u64) -> u64 {
    mix(mix(mix(sequence ^ 0x7576_612d_736c_6f74) ^ u64::from(generation)) ^ length)
}
