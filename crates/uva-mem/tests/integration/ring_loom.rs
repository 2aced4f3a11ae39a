//! The slot protocol under loom: every interleaving, and every value that a weakly ordered load may return, within the
//! bounds of each model.
//!
//! The code under test is the code for shared memory; only its word is replaced:
//!
//! * [`SleepingWord`] sleeps as a futex does and has *no* timeout, so a lost wake-up is a deadlock, which loom reports;
//! * [`TimingOutWord`] never sleeps: each wait times out at once, so that every interleaving of liveness checks,
//!   deaths and late batches is met. It can also die: its owner's operations have no effect from the n-th on,
//!   as if SIGKILL had come between two instructions, for every n there is.
//!
//! Payloads are `loom::cell::UnsafeCell`s: an access of one side that is not ordered after the other's is reported,
//! whatever was read. Bounds: 1 to 4 slots, 2 to 6 sequences, at most 3 threads, and the number of preemptions per
//! execution given at each model (1 to 4; switches at waits are not counted). The last tests break the word and must
//! see the models fail.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicBool, AtomicU32};
use loom::sync::{Condvar, Mutex};
use loom::thread;
use uva_mem::ring::protocol::{Fault, GENERATIONS, Patience, SlotHeader, SlotState, StateWord, position};
use uva_mem::ring::{AlwaysAlive, Liveness, PeerGone, Word};

const PATIENCE: Patience = Patience { spins: 0, interval: Duration::ZERO };
/// Larger than any length used here.
const CAPACITY: u64 = u64::MAX;

/// A flaw of a word, which the models must detect.
#[derive(Clone, Copy, PartialEq)]
enum Flaw {
    None,
    WakesNobody,
    AllRelaxed,
}

/// A word with a futex made of a lock and a condition variable.
struct SleepingWord {
    value: AtomicU32,
    sleepers: Mutex<()>,
    bell: Condvar,
    flaw: Flaw,
}

impl SleepingWord {
    fn new(value: u32, flaw: Flaw) -> Self {
        Self { value: AtomicU32::new(value), sleepers: Mutex::new(()), bell: Condvar::new(), flaw }
    }

    fn order(&self, order: Ordering) -> Ordering {
        if self.flaw == Flaw::AllRelaxed { Ordering::Relaxed } else { order }
    }
}

impl Word for SleepingWord {
    fn load(&self, order: Ordering) -> u32 {
        self.value.load(self.order(order))
    }

    fn store(&self, value: u32, order: Ordering) {
        self.value.store(value, self.order(order));
    }

    fn compare_exchange(
        &self,
        current: u32,
        new: u32,
        success: Ordering,
        failure: Ordering,
    ) -> Result<u32, u32> {
        self.value.compare_exchange(current, new, self.order(success), self.order(failure))
    }

    /// As in the kernel: compares under the lock that a waker also takes.
    fn wait(&self, expected: u32, _timeout: Duration) {
        let guard = self.sleepers.lock().unwrap();
        if self.value.load(Ordering::Relaxed) == expected {
            drop(self.bell.wait(guard).unwrap());
        }
    }

    fn wake_all(&self) {
        if self.flaw != Flaw::WakesNobody {
            let _guard = self.sleepers.lock().unwrap();
            self.bell.notify_all();
        }
    }
}

/// A payload: two words that belong together, and contain the sequence that they were written for.
struct Payload(UnsafeCell<[u64; 2]>);

// SAFETY: loom's cell checks at run time what `Sync` promises: that no two threads' accesses are unordered.
unsafe impl Sync for Payload {}
// SAFETY: plain numbers.
unsafe impl Send for Payload {}

impl Payload {
    fn write(&self, index: usize, value: u64) {
        // SAFETY: loom fails the test if any other access is not ordered with this one.
        self.0.with_mut(|words| unsafe { (*words)[index] = value });
    }

    fn check(&self, sequence: u64) {
        // SAFETY: as above.
        let found = self.0.with(|words| unsafe { *words });
        assert_eq!(
            found,
            [sequence, !sequence],
            "a torn or stale batch was given out for sequence {sequence}"
        );
    }
}

/// The remaining operations of a side that have an effect. Only its own thread uses it, so it is not part of the model.
struct Life(std::sync::atomic::AtomicU32);

impl Life {
    fn endless() -> Arc<Self> {
        Arc::new(Self(u32::MAX.into()))
    }

    /// Spends one operation; returns false if none was left.
    fn spend(&self) -> bool {
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
    }

    /// Ends the waits of a side that is dead.
    fn check(&self) -> Result<(), PeerGone> {
        if self.0.load(Ordering::Relaxed) == 0 { Err(PeerGone::new("dead oneself")) } else { Ok(()) }
    }
}

/// One side's view of the ring.
struct Slots<W> {
    headers: Vec<SlotHeader<W>>,
    payloads: Vec<Arc<Payload>>,
    life: Arc<Life>,
}

/// The generation in which a slot is first used if the sequences begin with `first`.
fn first_generation(slot: u32, first: u64, slots: u32) -> u32 {
    let (first_slot, generation) = position(first, slots);
    if slot < first_slot { (generation + 1) % GENERATIONS } else { generation }
}

impl<W: Word> Slots<W> {
    fn new(slots: u32, first: u64, life: Arc<Life>, word: impl Fn(u32) -> W) -> Self {
        let headers =
            (0..slots).map(|slot| SlotHeader::new(first_generation(slot, first, slots), &word)).collect();
        let payloads = (0..slots).map(|_| Arc::new(Payload(UnsafeCell::new([0; 2])))).collect();
        Self { headers, payloads, life }
    }

    fn write(&self, sequence: u64, liveness: &dyn Liveness) -> Result<(), Fault> {
        let (slot, generation) = position(sequence, self.headers.len() as u32);
        let header = &self.headers[slot as usize];
        header.claim_for_writing(generation, PATIENCE, liveness)?;
        for (index, value) in [sequence, !sequence].into_iter().enumerate() {
            if self.life.spend() {
                self.payloads[slot as usize].write(index, value);
            }
        }
        header.publish(sequence, generation, sequence)
    }

    fn read(&self, sequence: u64, liveness: &dyn Liveness) -> Result<(), Fault> {
        let (slot, generation) = position(sequence, self.headers.len() as u32);
        let header = &self.headers[slot as usize];
        let length = header.claim_for_reading(sequence, generation, CAPACITY, PATIENCE, liveness)?;
        assert_eq!(length, sequence);
        self.payloads[slot as usize].check(sequence);
        header.release(generation)
    }

    /// Acquires the sequence if it is ready, and leaves the slot to the caller.
    fn take_if_ready(&self, sequence: u64) -> bool {
        let (slot, generation) = position(sequence, self.headers.len() as u32);
        let length = self.headers[slot as usize].claim_if_ready(sequence, generation, CAPACITY).unwrap();
        let Some(length) = length else { return false };
        assert_eq!(length, sequence);
        self.payloads[slot as usize].check(sequence);
        true
    }
}

fn model(preemptions: Option<usize>, body: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = preemptions;
    builder.max_branches = 10_000;
    builder.check(body);
}

/// `writers` writers and one reader pass `count` sequences from `first` on through `slots` slots.
fn all_pass(slots: u32, writers: u64, first: u64, count: u64, preemptions: Option<usize>, flaw: Flaw) {
    model(preemptions, move || {
        let ring =
            Arc::new(Slots::new(slots, first, Life::endless(), |value| SleepingWord::new(value, flaw)));
        let threads: Vec<_> = (0..writers)
            .map(|writer| {
                let ring = Arc::clone(&ring);
                thread::spawn(move || {
                    // Counted by offset, because the last sequence may be the maximum of the type.
                    for offset in (0..count).filter(|offset| offset % writers == writer) {
                        ring.write(first + offset, &AlwaysAlive).unwrap();
                    }
                })
            })
            .collect();
        for offset in 0..count {
            ring.read(first + offset, &AlwaysAlive).unwrap();
        }
        for thread in threads {
            thread.join().unwrap();
        }
        for slot in 0..slots {
            let next = first_generation(slot, first.wrapping_add(count), slots);
            assert_eq!(ring.headers[slot as usize].peek(), StateWord::new(next, SlotState::Free));
        }
    });
}

#[test]
fn one_slot_passes_batches_without_a_lost_wake_up() {
    all_pass(1, 1, 0, 2, Some(4), Flaw::None);
    all_pass(1, 1, 0, 3, Some(3), Flaw::None);
}

#[test]
fn two_slots_pass_batches_without_a_lost_wake_up() {
    all_pass(2, 1, 0, 3, Some(3), Flaw::None);
    all_pass(2, 1, 0, 5, Some(2), Flaw::None);
}

/// A reader that also acquires the next sequences, as far as they are ready, before it releases the first.
fn looks_ahead(slots: u32, count: u64, preemptions: Option<usize>, flaw: Flaw) {
    model(preemptions, move || {
        let ring = Arc::new(Slots::new(slots, 0, Life::endless(), |value| SleepingWord::new(value, flaw)));
        let writer = Arc::clone(&ring);
        let writer = thread::spawn(move || {
            (0..count).for_each(|sequence| writer.write(sequence, &AlwaysAlive).unwrap());
        });
        let mut taken = 0;
        for sequence in 0..count {
            while taken < (sequence + u64::from(slots)).min(count) && ring.take_if_ready(taken) {
                taken += 1;
            }
            if taken > sequence {
                let (slot, generation) = position(sequence, slots);
                ring.headers[slot as usize].release(generation).unwrap();
            } else {
                ring.read(sequence, &AlwaysAlive).unwrap();
                taken += 1;
            }
        }
        writer.join().unwrap();
    });
}

#[test]
fn a_reader_gets_whole_batches_and_no_wake_up_is_lost() {
    looks_ahead(1, 2, Some(3), Flaw::None);
    looks_ahead(2, 3, Some(2), Flaw::None);
}

#[test]
#[should_panic]
fn the_model_sees_a_missing_release_before_a_batch_that_is_taken_early() {
    looks_ahead(2, 3, Some(2), Flaw::AllRelaxed);
}

#[test]
fn the_generation_wraps() {
    // Slot 0 goes from generation 2^30 - 1 to 0, and on.
    all_pass(1, 1, u64::from(GENERATIONS) - 1, 3, Some(3), Flaw::None);
    all_pass(2, 1, 2 * (u64::from(GENERATIONS) - 1), 4, Some(2), Flaw::None);
}

#[test]
fn the_sequence_crosses_32_bits_and_reaches_the_last_number() {
    // Low and high word of the sequence change together.
    all_pass(1, 1, u64::from(u32::MAX) - 1, 3, Some(3), Flaw::None);
    all_pass(2, 1, u64::from(u32::MAX), 3, Some(2), Flaw::None);
    // 2^64 - 3, - 2 and - 1: the generation is at its wrap too.
    all_pass(1, 1, u64::MAX - 2, 3, Some(3), Flaw::None);
}

#[test]
fn two_writers_and_a_reader_keep_the_order() {
    all_pass(2, 2, 0, 4, Some(2), Flaw::None);
    // The minimum number of slots in the runtime: writers + 2, and each slot's second turn is another writer's.
    all_pass(3, 2, 0, 5, Some(2), Flaw::None);
    all_pass(4, 2, 0, 6, Some(1), Flaw::None);
    all_pass(2, 2, 2 * u64::from(GENERATIONS) - 2, 4, Some(1), Flaw::None);
}

/// One side's view of a word whose waits time out at once: the other side has a view of the same value.
struct TimingOutWord {
    value: Arc<AtomicU32>,
    life: Arc<Life>,
}

impl Word for TimingOutWord {
    fn load(&self, order: Ordering) -> u32 {
        self.value.load(order)
    }

    fn store(&self, value: u32, order: Ordering) {
        if self.life.spend() {
            self.value.store(value, order);
        }
    }

    fn compare_exchange(
        &self,
        current: u32,
        new: u32,
        success: Ordering,
        failure: Ordering,
    ) -> Result<u32, u32> {
        // The result for a dead side does not matter: its operations have no effect.
        if self.life.spend() {
            self.value.compare_exchange(current, new, success, failure)
        } else {
            Err(!current)
        }
    }

    fn wait(&self, _expected: u32, _timeout: Duration) {
        thread::yield_now();
    }

    fn wake_all(&self) {}
}

/// Two views of the same slots: one for a side that dies after `operations`, and one for a side that does not.
fn two_views(slots: u32, first: u64, operations: u32) -> (Slots<TimingOutWord>, Slots<TimingOutWord>) {
    let values = std::cell::RefCell::new(std::collections::VecDeque::new());
    let mortal = Arc::new(Life(operations.into()));
    let one = Slots::new(slots, first, Arc::clone(&mortal), |value| {
        let value = Arc::new(AtomicU32::new(value));
        values.borrow_mut().push_back(Arc::clone(&value));
        TimingOutWord { value, life: Arc::clone(&mortal) }
    });
    // The same words in the same order, and the same payloads.
    let life = Life::endless();
    let word = |_| TimingOutWord { value: values.borrow_mut().pop_front().unwrap(), life: Arc::clone(&life) };
    let mut other = Slots::new(slots, first, Arc::clone(&life), word);
    other.payloads = one.payloads.clone();
    (one, other)
}

/// One side processes `count` sequences and dies after `operations`; the other continues until it is notified. Returns
/// the numbers that the mortal and the survivor completed: the latter ends with all sequences, or with `PeerGone`.
fn one_dies(
    slots: u32,
    first: u64,
    count: u64,
    operations: u32,
    mortal: impl Fn(&Slots<TimingOutWord>, u64, &dyn Liveness) -> Result<(), Fault> + Send + 'static,
    survivor: impl Fn(&Slots<TimingOutWord>, u64, &dyn Liveness) -> Result<(), Fault>,
) -> (u64, u64) {
    let (dying, living) = two_views(slots, first, operations);
    let alive = Arc::new(AtomicBool::new(true));
    let peer = Arc::clone(&alive);
    let thread = thread::spawn(move || {
        let completed = (0..count)
            .take_while(|offset| mortal(&dying, first + offset, &|| dying.life.check()).is_ok())
            .count();
        // The kernel's part: a pidfd reports the end only after everything that the process did.
        peer.store(false, Ordering::Release);
        completed as u64
    });
    let told = || if alive.load(Ordering::Acquire) { Ok(()) } else { Err(PeerGone::new("the peer died")) };
    let mut survived = 0;
    while survived < count {
        match survivor(&living, first + survived, &told) {
            Ok(()) => survived += 1,
            Err(Fault::Gone(_)) => break,
            Err(Fault::Corrupt(what)) => panic!("a death was taken for corruption: {what}"),
        }
    }
    (thread.join().unwrap(), survived)
}

/// A writer's operations on one batch: claim, two words of payload, seven of the header, publish.
const WRITE_OPERATIONS: u32 = 11;
/// A reader's operations: claim and release.
const READ_OPERATIONS: u32 = 2;

#[test]
fn a_writer_that_dies_anywhere_leaves_exactly_what_it_published() {
    for (slots, first, count) in [(1, 0, 2), (2, 2 * u64::from(GENERATIONS) - 2, 2)] {
        for operations in 0..=WRITE_OPERATIONS * count as u32 {
            model(Some(2), move || {
                let (published, read) = one_dies(slots, first, count, operations, Slots::write, Slots::read);
                assert_eq!(read, published, "dead after {operations} operations");
                assert_eq!(published, u64::from(operations / WRITE_OPERATIONS));
            });
        }
    }
}

#[test]
fn a_reader_that_dies_at_any_instruction_is_never_written_over() {
    for (slots, first, count) in [(1, 0, 3), (2, 2 * u64::from(GENERATIONS) - 2, 4)] {
        for operations in 0..=READ_OPERATIONS * count as u32 {
            model(Some(2), move || {
                let (read, published) = one_dies(slots, first, count, operations, Slots::read, Slots::write);
                assert_eq!(read, u64::from(operations / READ_OPERATIONS));
                assert_eq!(
                    published,
                    count.min(read + u64::from(slots)),
                    "dead after {operations} operations"
                );
            });
        }
    }
}

#[test]
#[should_panic(expected = "deadlock")]
fn the_model_sees_a_forgotten_wake_up() {
    all_pass(1, 1, 0, 2, Some(2), Flaw::WakesNobody);
}

#[test]
#[should_panic]
fn the_model_sees_a_missing_release() {
    all_pass(1, 1, 0, 2, Some(2), Flaw::AllRelaxed);
}
