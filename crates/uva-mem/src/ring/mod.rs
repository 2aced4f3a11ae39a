//! The lock-free slot ring: batches pass through shared memory from writers to one reader, in order, without a copy.
//!
//! A ring has `S` slots. Sequence `q` (batch `q` of a run, from 0) always goes through slot `q mod S`, in generation `q
//! / S`. Any number of writers divide the sequences; exactly one of them writes each sequence. (With `W` samplers,
//! sampler `b mod W` writes sequence `b`.) One reader takes all sequences in order. There is no other coordination, so
//! no batch starves and none is reordered. [`protocol`] has the protocol of a slot. This module lays out slots in a
//! [`SharedRegion`] and wraps them in types that cannot be misused.
//!
//! The layout of a ring in memory, little-endian:
//!
//! - one line of five 64-bit words: magic, version, slots, payload bytes, checksum
//! - slot `i`'s header of 32 bytes ([`protocol::SlotHeader`]) at byte `128 * (i + 1)`
//! - the payloads from the next multiple of 4096 on, each at a multiple of 4096
//!
//! Several rings of one shape may [share a region](Ring::create_set). They are placed one after another.
//!
//! Threads and processes use the same code. Clone a [`Ring`] for a thread; for a process, send [`Ring::fd`] and call
//! [`Ring::open`] there.

mod error;
mod liveness;
pub mod protocol;
mod word;

use std::marker::PhantomData;
use std::mem::size_of;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

pub use error::RingError;
pub use liveness::{AlwaysAlive, Liveness, PeerGone};
pub use word::{SharedWord, Word};

use crate::memory::region::{PageKind, Pages, RegionError, SharedRegion};
use crate::mix;
use protocol::{Fault, Patience, SlotHeader, SlotState, StateWord, position};

/// The longest time between two liveness checks of a wait.
pub const LIVENESS_INTERVAL: Duration = Duration::from_millis(100);

/// Polls before the first sleep: enough for a hand-over within a microsecond or two. On a machine with few cores, a
/// longer spin would take the core from the awaited peer.
const SPINS: u32 = 128;

const MAGIC: u64 = u64::from_le_bytes(*b"uva-ring");
/// The version of a ring's layout in memory; stored in its first line.
pub const VERSION: u64 = 1;
/// Region header words: magic, version, slots, payload bytes, checksum.
const REGION_WORDS: usize = 5;
/// Headers are two cache lines apart: adjacent-line prefetch would otherwise tie neighbouring slots together.
const HEADER_STRIDE: usize = 128;
const PAGE: usize = 4096;

/// The shape of a ring: the number of slots, and the payload bytes of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingShape {
    /// The number of slots, at least 1.
    pub slots: u32,
    /// The maximum size of a batch in bytes, at least 1.
    pub payload_bytes: usize,
}

impl RingShape {
    fn payload_start(self) -> Option<usize> {
        HEADER_STRIDE.checked_mul(self.slots as usize)?.checked_add(PAGE)?.checked_next_multiple_of(PAGE)
    }

    fn payload_stride(self) -> Option<usize> {
        self.payload_bytes.checked_next_multiple_of(PAGE)
    }

    /// Bytes of shared memory for a ring of this shape, or `None` if that overflows or is not a valid size.
    pub fn region_bytes(self) -> Option<usize> {
        if self.slots == 0 || self.payload_bytes == 0 {
            return None;
        }
        let bytes =
            self.payload_stride()?.checked_mul(self.slots as usize)?.checked_add(self.payload_start()?)?;
        (bytes <= isize::MAX as usize).then_some(bytes)
    }

    fn checksum(self) -> u64 {
        mix(mix(mix(MAGIC ^ VERSION) ^ u64::from(self.slots)) ^ self.payload_bytes as u64)
    }
}

#[derive(Debug)]
struct Inner {
    name: String,
    shape: RingShape,
    region: Arc<SharedRegion>,
    /// The first byte of this ring in the region: a multiple of 4096.
    start: usize,
    payload_start: usize,
    payload_stride: usize,
    patience: Patience,
}

/// A ring in memory shared by processes, or by the threads of one. A clone refers to the same ring.
#[derive(Clone, Debug)]
pub struct Ring {
    inner: Arc<Inner>,
}

impl Ring {
    /// Creates a ring whose slots are all free, for sequences 0 … slots − 1. `name` is for messages.
    ///
    /// # Errors
    /// [`RingError::Shape`] or [`RingError::Region`].
    pub fn create(name: &str, shape: RingShape) -> Result<Self, RingError> {
        Self::create_with(name, shape, Pages::Normal)
    }

    /// Like [`Ring::create`], on the requested pages.
    ///
    /// # Errors
    /// As [`Ring::create`].
    pub fn create_with(name: &str, shape: RingShape, pages: Pages) -> Result<Self, RingError> {
        Self::fresh(name, shape, |region, bytes| SharedRegion::create_with(region, bytes, pages))
    }

    /// Creates `count` rings of one shape (at least one) in one region, so that one descriptor is enough for all of
    /// them. They are otherwise independent. [`Ring::populate`] and [`Ring::pages`] of each apply to the whole region.
    ///
    /// # Errors
    /// As [`Ring::create`]; [`RingError::Shape`] also if `count` is 0.
    pub fn create_set(name: &str, shape: RingShape, count: usize) -> Result<Vec<Self>, RingError> {
        Self::fresh_set(name, shape, count, SharedRegion::create)
    }

    /// Like [`Ring::create`], for threads of this process. The ring cannot be sent to another process.
    ///
    /// # Errors
    /// As [`Ring::create`].
    pub fn for_threads(name: &str, shape: RingShape) -> Result<Self, RingError> {
        Self::fresh(name, shape, SharedRegion::for_threads)
    }

    fn fresh(
        name: &str,
        shape: RingShape,
        region: impl FnOnce(&str, usize) -> Result<SharedRegion, RegionError>,
    ) -> Result<Self, RingError> {
        // The set has the one requested ring.
        Ok(Self::fresh_set(name, shape, 1, region)?.swap_remove(0))
    }

    fn fresh_set(
        name: &str,
        shape: RingShape,
        count: usize,
        region: impl FnOnce(&str, usize) -> Result<SharedRegion, RegionError>,
    ) -> Result<Vec<Self>, RingError> {
        let bytes = Self::bytes(name, shape, count)?;
        let region = region(&format!("uva-ring-{name}"), bytes)
            .map_err(|source| RingError::Region { ring: name.to_owned(), source })?;
        let rings = Self::over(name, shape, count, region);
        for ring in &rings {
            // The region is not shared yet. The hand-over of its descriptor, or of the ring to a thread, orders these
            // stores before any reader of them.
            for (word, value) in ring.region_words().iter().zip(Self::expected_words(shape)) {
                word.store(value, Ordering::Release);
            }
        }
        Ok(rings)
    }

    /// Opens a ring that another process created with the same shape.
    ///
    /// # Errors
    /// [`RingError::Mismatch`] if the region has another shape or is not a ring, [`RingError::Region`] if the
    /// descriptor is not a sealed region of the right size.
    pub fn open(name: &str, fd: OwnedFd, shape: RingShape) -> Result<Self, RingError> {
        Ok(Self::open_set(name, fd, shape, 1)?.swap_remove(0))
    }

    /// Opens the rings that another process created as a [set](Ring::create_set) of the same shape and number.
    ///
    /// # Errors
    /// As [`Ring::open`]; [`RingError::Shape`] if `count` is 0.
    pub fn open_set(name: &str, fd: OwnedFd, shape: RingShape, count: usize) -> Result<Vec<Self>, RingError> {
        let bytes = Self::bytes(name, shape, count)?;
        let region = SharedRegion::from_fd(&format!("uva-ring-{name}"), fd, bytes)
            .map_err(|source| RingError::Region { ring: name.to_owned(), source })?;
        let rings = Self::over(name, shape, count, region);
        let fields = ["magic", "version", "number of slots", "payload size", "checksum"];
        for ring in &rings {
            let words = ring.region_words().iter().zip(Self::expected_words(shape));
            for ((word, expected), field) in words.zip(fields) {
                let found = word.load(Ordering::Acquire);
                if found != expected {
                    let what = format!("its {field} is {found:#x} instead of {expected:#x}");
                    return Err(RingError::Mismatch { ring: ring.inner.name.clone(), what });
                }
            }
        }
        Ok(rings)
    }

    fn bytes(name: &str, shape: RingShape, count: usize) -> Result<usize, RingError> {
        let bytes = shape.region_bytes().and_then(|bytes| bytes.checked_mul(count));
        bytes.filter(|&bytes| bytes > 0 && isize::try_from(bytes).is_ok()).ok_or_else(|| RingError::Shape {
            ring: name.to_owned(),
            slots: shape.slots,
            payload_bytes: shape.payload_bytes,
        })
    }

    /// The rings of a region of [`Ring::bytes`] bytes. A single ring has the name itself, those of a set the name and a
    /// number.
    fn over(name: &str, shape: RingShape, count: usize, region: SharedRegion) -> Vec<Self> {
        // `Ring::bytes` did not overflow, so neither do these: they are part of it.
        let payload_start = shape.payload_start().unwrap_or(usize::MAX);
        let payload_stride = shape.payload_stride().unwrap_or(usize::MAX);
        let ring_bytes = shape.region_bytes().unwrap_or(usize::MAX);
        let patience = Patience { spins: SPINS, interval: LIVENESS_INTERVAL };
        let region = Arc::new(region);
        let ring = |index: usize| Self {
            inner: Arc::new(Inner {
                name: if count == 1 { name.to_owned() } else { format!("{name} {index}") },
                shape,
                region: Arc::clone(&region),
                start: index * ring_bytes,
                payload_start,
                payload_stride,
                patience,
            }),
        };
        (0..count).map(ring).collect()
    }

    fn expected_words(shape: RingShape) -> [u64; REGION_WORDS] {
        [MAGIC, VERSION, u64::from(shape.slots), shape.payload_bytes as u64, shape.checksum()]
    }

    fn region_words(&self) -> &[AtomicU64; REGION_WORDS] {
        // SAFETY: all access to the first page of a ring goes through these atomics and those of its slots' headers.
        unsafe { self.inner.region.at(self.inner.start) }
    }

    /// The ring's name, for messages.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// The ring's shape.
    pub fn shape(&self) -> RingShape {
        self.inner.shape
    }

    /// The ring's memfd, to hand over; `None` for a ring [for threads](Self::for_threads).
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.inner.region.fd()
    }

    /// The pages of the ring.
    pub fn pages(&self) -> PageKind {
        self.inner.region.pages()
    }

    /// Allocates all memory of the ring now; see [`SharedRegion::populate`].
    ///
    /// # Errors
    /// [`RingError::Region`] if the memory cannot be allocated.
    pub fn populate(&self) -> Result<(), RingError> {
        self.inner
            .region
            .populate()
            .map_err(|source| RingError::Region { ring: self.inner.name.clone(), source })
    }

    /// Creates a writer. Any number may exist, in any process, but no two may write the same sequence.
    pub fn writer(&self) -> Writer {
        Writer { inner: Arc::clone(&self.inner) }
    }

    /// Creates the reader. Only one may exist at a time: a second one would find slots that it did not release, and
    /// fail.
    pub fn reader(&self) -> Reader {
        Reader { inner: Arc::clone(&self.inner), failed: Arc::default() }
    }

    /// Wakes all waiters on this ring, in any process, so that they check [`Liveness`] now instead of at the end of the
    /// interval.
    pub fn wake_all(&self) {
        for slot in 0..self.inner.shape.slots {
            self.inner.header(slot).wake_all();
        }
    }

    /// The current state of a slot, for messages and tests.
    ///
    /// # Panics
    /// When there is not such a slot.
    pub fn state(&self, slot: u32) -> StateWord {
        self.inner.header(slot).peek()
    }
}

impl Inner {
    fn header(&self, slot: u32) -> &SlotHeader<SharedWord> {
        assert!(slot < self.shape.slots, "slot {slot} of ring {} with {}", self.name, self.shape.slots);
        // SAFETY: `SlotHeader<SharedWord>` is `repr(C)` and consists of atomics. Headers are 128 bytes apart from byte
        // 128 of the ring on and end before the payloads. All access goes through this type.
        unsafe { self.region.at(self.start + header_offset(slot)) }
    }

    /// The first byte of a slot's payload, `payload_bytes` long.
    fn payload(&self, slot: u32) -> *mut u8 {
        assert!(slot < self.shape.slots, "slot {slot} of ring {} with {}", self.name, self.shape.slots);
        // SAFETY: `payload_start + slots * payload_stride` is a ring's size (`RingShape::region_bytes`), and the region
        // has space for all its rings from their starts on (`Ring::bytes`). So the result is in bounds for every slot,
        // and `payload_bytes` from it are too, since `payload_bytes <= payload_stride`.
        unsafe {
            self.region.as_ptr().add(self.start + self.payload_start + slot as usize * self.payload_stride)
        }
    }

    fn error(&self, slot: u32, sequence: u64, fault: Fault) -> RingError {
        let ring = self.name.clone();
        match fault {
            Fault::Gone(PeerGone { reason }) => RingError::PeerDied { ring, slot, sequence, reason },
            Fault::Corrupt(what) => RingError::Corrupt { ring, slot, sequence, what },
        }
    }
}

/// Headers follow the region's own words, each at the start of a pair of cache lines.
fn header_offset(slot: u32) -> usize {
    const { assert!(REGION_WORDS * size_of::<u64>() <= HEADER_STRIDE) };
    const { assert!(size_of::<SlotHeader<SharedWord>>() == 32) };
    HEADER_STRIDE * (slot as usize + 1)
}

/// The writing side of a ring.
#[derive(Debug)]
pub struct Writer {
    inner: Arc<Inner>,
}

impl Writer {
    /// Waits until the slot of `sequence` is free in its generation, and claims it.
    ///
    /// # Errors
    /// [`RingError::PeerDied`] if `liveness` fails first; [`RingError::Corrupt`] if the slot is beyond that generation
    /// already, for example if a sequence has two writers.
    pub fn acquire(&mut self, sequence: u64, liveness: &dyn Liveness) -> Result<WriteSlot<'_>, RingError> {
        let (slot, generation) = position(sequence, self.inner.shape.slots);
        self.inner
            .header(slot)
            .claim_for_writing(generation, self.inner.patience, liveness)
            .map_err(|fault| self.inner.error(slot, sequence, fault))?;
        Ok(WriteSlot { inner: &self.inner, sequence, slot, generation, _exclusive: PhantomData })
    }
}

/// A slot being filled. Dropping it without [`publish`](WriteSlot::publish) frees it for the same sequence.
#[derive(Debug)]
pub struct WriteSlot<'w> {
    inner: &'w Inner,
    sequence: u64,
    slot: u32,
    generation: u32,
    _exclusive: PhantomData<&'w mut Writer>,
}

impl WriteSlot<'_> {
    /// The sequence it was acquired for.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// The number of the slot.
    pub fn slot(&self) -> u32 {
        self.slot
    }

    /// The whole payload, 4096-aligned. It still has the slot's earlier content, initially zeros.
    pub fn payload_mut(&mut self) -> &mut [u8] {
        // SAFETY: in bounds (see `Inner::payload`), and owned by this writer only. The state word said free(g) and we
        // moved it to filling(g), which no other side leaves or enters. The slot's previous owner gave it up by a
        // release that our acquire has seen (S4, S1). The slice borrows `self`, so it ends before `publish` or `drop`
        // gives the slot away. Any byte is a valid u8. Writes by a process outside the protocol are its launcher's
        // fault.
        unsafe {
            std::slice::from_raw_parts_mut(self.inner.payload(self.slot), self.inner.shape.payload_bytes)
        }
    }

    /// Publishes the first `length` bytes to the reader.
    ///
    /// # Errors
    /// [`RingError::TooLong`] if the payload has fewer bytes; [`RingError::Corrupt`] if another process changed the
    /// slot's state. In both cases the batch is not published.
    pub fn publish(self, length: u64) -> Result<(), RingError> {
        let capacity = self.inner.shape.payload_bytes as u64;
        if length > capacity {
            // Dropping `self` frees the slot.
            return Err(RingError::TooLong { ring: self.inner.name.clone(), length, capacity });
        }
        let result = self.inner.header(self.slot).publish(self.sequence, self.generation, length);
        let result = result.map_err(|fault| self.inner.error(self.slot, self.sequence, fault));
        std::mem::forget(self);
        result
    }

    /// Leaves the slot as a SIGKILL at this point would: being filled, indefinitely. For tests.
    pub fn abandon(self) {
        std::mem::forget(self);
    }
}

impl Drop for WriteSlot<'_> {
    fn drop(&mut self) {
        self.inner.header(self.slot).give_up(self.generation);
    }
}

/// The reading side of a ring.
#[derive(Debug)]
pub struct Reader {
    inner: Arc<Inner>,
    /// A failed release in `ReadSlot::drop`, which the next acquire reports.
    failed: Arc<Mutex<Option<RingError>>>,
}

impl Reader {
    /// Waits until `sequence` is published, and claims it. Request sequences in order; slots may be released in any
    /// order.
    ///
    /// A published batch is returned even if its writer has died since.
    ///
    /// # Errors
    /// [`RingError::StillHeld`] immediately if the slot is still held for an earlier sequence: the writer would wait
    /// for it indefinitely. [`RingError::PeerDied`] if `liveness` fails first. [`RingError::Corrupt`] if the protocol
    /// does not allow the slot's state or header, or if that was found when an earlier slot was dropped.
    pub fn acquire(&mut self, sequence: u64, liveness: &dyn Liveness) -> Result<ReadSlot, RingError> {
        self.check_drops()?;
        let (slot, generation) = position(sequence, self.inner.shape.slots);
        self.check_given_back(sequence)?;
        let capacity = self.inner.shape.payload_bytes as u64;
        let length = self
            .inner
            .header(slot)
            .claim_for_reading(sequence, generation, capacity, self.inner.patience, liveness)
            .map_err(|fault| self.inner.error(slot, sequence, fault))?;
        Ok(self.taken(sequence, length))
    }

    /// Claims `sequence` if it is published, without waiting; `None` if it is not. Request sequences in order, and each
    /// only once: a claimed sequence is no longer available.
    ///
    /// Claiming a slot early does not delay any writer, since the slot would be occupied anyway.
    ///
    /// # Errors
    /// [`RingError::Corrupt`] as [`acquire`](Self::acquire).
    pub fn acquire_if_ready(&mut self, sequence: u64) -> Result<Option<ReadSlot>, RingError> {
        self.check_drops()?;
        let (slot, generation) = position(sequence, self.inner.shape.slots);
        let capacity = self.inner.shape.payload_bytes as u64;
        let claimed = self.inner.header(slot).claim_if_ready(sequence, generation, capacity);
        let length = claimed.map_err(|fault| self.inner.error(slot, sequence, fault))?;
        Ok(length.map(|length| self.taken(sequence, length)))
    }

    /// The error of a slot that was dropped, once.
    fn check_drops(&self) -> Result<(), RingError> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner).take().map_or(Ok(()), Err)
    }

    /// The slot of a claimed sequence with `length` bytes.
    fn taken(&self, sequence: u64, length: u64) -> ReadSlot {
        let (slot, generation) = position(sequence, self.inner.shape.slots);
        let (inner, failed) = (Arc::clone(&self.inner), Arc::clone(&self.failed));
        // Cannot truncate: it is at most a slot's capacity, a usize.
        ReadSlot { inner, failed, sequence, slot, generation, length: length as usize, released: false }
    }

    /// Checks that the slot of `sequence` has been released since it was last read.
    ///
    /// # Errors
    /// [`RingError::StillHeld`] if it has not.
    pub fn check_given_back(&self, sequence: u64) -> Result<(), RingError> {
        let slots = self.inner.shape.slots;
        let Some(earlier) = sequence.checked_sub(u64::from(slots)) else { return Ok(()) };
        let (slot, generation) = position(earlier, slots);
        // Only a reader sets this state, and this is the only one. A thread that releases the slot in the meantime no
        // longer holds it.
        if self.inner.header(slot).peek() == StateWord::new(generation, SlotState::Reading) {
            return Err(RingError::StillHeld { ring: self.inner.name.clone(), slot, sequence: earlier });
        }
        Ok(())
    }
}

/// A batch being read. Dropping it, on any thread, releases the slot to the writers.
#[derive(Debug)]
pub struct ReadSlot {
    inner: Arc<Inner>,
    failed: Arc<Mutex<Option<RingError>>>,
    sequence: u64,
    slot: u32,
    generation: u32,
    length: usize,
    /// Whether the slot has been released.
    released: bool,
}

impl ReadSlot {
    /// The sequence it was acquired for.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// The number of the slot.
    pub fn slot(&self) -> u32 {
        self.slot
    }

    /// The published payload, 4096-aligned.
    pub fn payload(&self) -> &[u8] {
        // SAFETY: in bounds: `length` was checked against `payload_bytes` (`claim_for_reading`; see `Inner::payload`).
        // No process writes it: we moved the state from ready(g) to reading(g), which no writer leaves. The writer's
        // last write came before its release, which our acquire has seen (S2, S3). The slice borrows `self`, so it ends
        // before the slot is released.
        unsafe { std::slice::from_raw_parts(self.inner.payload(self.slot), self.length) }
    }

    /// The address of the published payload, for code that borrows the batch by address. The reader may also write the
    /// slot's bytes, but must then ensure that no reference to [`ReadSlot::payload`] exists.
    pub fn payload_address(&self) -> *mut u8 {
        self.inner.payload(self.slot)
    }

    /// Releases the slot, and reports a failure.
    ///
    /// # Errors
    /// [`RingError::Corrupt`] if another process changed the slot's state in the meantime.
    pub fn release(mut self) -> Result<(), RingError> {
        let result = self.give_back();
        self.forget();
        result
    }

    /// Drops the value without a release, except for the state shared with the reader.
    fn forget(&mut self) {
        self.released = true;
    }

    fn give_back(&self) -> Result<(), RingError> {
        self.inner
            .header(self.slot)
            .release(self.generation)
            .map_err(|fault| self.inner.error(self.slot, self.sequence, fault))
    }

    /// Leaves the slot as a SIGKILL at this point would: being read, indefinitely. For tests, and for a slot that other
    /// code may still read without a way to wait for its end.
    pub fn abandon(mut self) {
        self.forget();
    }
}

impl Drop for ReadSlot {
    fn drop(&mut self) {
        if self.released {
            return;
        }
        if let Err(error) = self.give_back() {
            *self.failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
        }
    }
}
