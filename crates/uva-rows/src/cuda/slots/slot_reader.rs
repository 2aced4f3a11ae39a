//! The reading side of slots on a GPU: how a consumer uses a slot that a [`crate::cuda::SlotFiller`] has filled.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use uva_cuda::kernels::gather::GatherReport;
use uva_cuda::memory::{PinnedBuffer, SharedBuffer, device_to_host};
use uva_cuda::{Context, CudaError, CudaEvent, CudaStream, DeviceSlice, Signal};

use super::oversized_batch::OversizedMemory;
use super::slot::{REPORT, SlotShape};
use crate::cuda::error::FillError;

const REPORT_BYTES: usize = GatherReport::BYTES;

/// The stream on which slots are used.
#[derive(Debug)]
enum UseStream {
    /// A stream of our own; the host waits for it before a slot is handed out. For consumers on the CPU, or on an
    /// unknown stream.
    Waited(CudaStream),
    /// The consumer's own stream: its work is enqueued behind the fill, and the host waits for nothing.
    Ordered(Arc<CudaStream>),
}

/// A slot that was taken, by the place where its report arrives. The place stays taken until [`SlotReader::done`], also
/// when the slot has been given back: a consumer that runs ahead of the device reads the report later.
#[derive(Debug)]
pub struct SlotLease {
    /// The place of its report and of the events around its wait.
    entry: usize,
    /// Whether the host has waited for the fill.
    waited: bool,
    /// The report, where it was there from the beginning and none arrives.
    report: Option<GatherReport>,
}

/// Takes filled slots, and gives them back.
///
/// Callers keep the order of the slot ring. They call [`SlotReader::take`] once the filler has announced that it
/// recorded `ready`. They call [`SlotReader::give_back`] after the last work on the slot is enqueued, and only then
/// notify the filler.
#[derive(Debug)]
pub struct SlotReader {
    /// Where slots are taken from now on.
    stream: Mutex<Arc<UseStream>>,
    /// The stream on which each slot was last taken: its work is enqueued there, and the slot is given back behind it,
    /// even if other slots have been taken on another stream since.
    taken_on: Vec<Mutex<Arc<UseStream>>>,
    /// Reports of taken slots, copied here by the device.
    reports: PinnedBuffer,
    /// Timing events around each taking's wait for `ready`.
    around: Vec<(CudaEvent, CudaEvent)>,
    /// The entries of the two that no [`SlotLease`] has; the one that was given back first is first.
    entries: Mutex<VecDeque<usize>>,
    buffer: Arc<SharedBuffer>,
    shape: SlotShape,
}

impl SlotReader {
    /// How many reports may be outstanding beside those of slots that are still taken.
    pub const LATE: usize = 8;

    /// A reader of the slots in `buffer` that waits on the host, until [`SlotReader::use_stream`] says otherwise.
    ///
    /// # Errors
    /// [`FillError::Layout`] when the slots don't lie in the buffer; [`FillError::Cuda`] when the driver cannot provide
    /// a stream, event or memory.
    pub fn new(
        context: &Arc<Context>,
        buffer: Arc<SharedBuffer>,
        shape: SlotShape,
    ) -> Result<Self, FillError> {
        shape.check(buffer.bytes())?;
        let entries = shape.slots + Self::LATE;
        let around = (0..entries)
            .map(|_| Ok((CudaEvent::timing(context)?, CudaEvent::timing(context)?)))
            .collect::<Result<_, CudaError>>()?;
        let stream = Arc::new(UseStream::Waited(CudaStream::new(context)?));
        Ok(Self {
            taken_on: (0..shape.slots).map(|_| Mutex::new(Arc::clone(&stream))).collect(),
            stream: Mutex::new(stream),
            reports: PinnedBuffer::new(context, entries * REPORT_BYTES, "reports of feature slots")?,
            around,
            entries: Mutex::new((0..entries).collect()),
            buffer,
            shape,
        })
    }

    /// The context of the slots' GPU.
    pub fn context(&self) -> &Arc<Context> {
        self.buffer.context()
    }

    /// Slots taken from now on are used on this stream. They are handed out before they are filled; work that is
    /// enqueued on the stream runs after the fill.
    pub fn use_stream(&self, stream: impl Into<Arc<CudaStream>>) {
        *lock(&self.stream) = Arc::new(UseStream::Ordered(stream.into()));
    }

    /// The stream that a slot was taken on.
    fn taken_on(&self, slot: usize) -> Arc<UseStream> {
        Arc::clone(&lock(&self.taken_on[slot]))
    }

    /// Makes the stream wait for `ready`, and behind it copies the slot's report to the host.
    ///
    /// # Errors
    /// [`CudaError`], a fault of the device's among them, where the host waits. [`CudaError::Refused`] when
    /// [`SlotReader::LATE`] reports of slots given back have not been read.
    ///
    /// # Panics
    /// When there is no such slot.
    pub fn take(&self, slot: usize, ready: &dyn Signal) -> Result<SlotLease, CudaError> {
        self.begin(slot, None, |stream| ready.wait(stream))
    }

    /// Takes a batch that the slot has no room for, and whose filler left the slot alone. `image` is what the slot
    /// would hold, the report first. It is copied to memory of its own, and has arrived when this returns. Its owner
    /// hands that to [`SlotReader::put_away`] when the slot is given back.
    ///
    /// # Errors
    /// As [`SlotReader::take`]; also where neither device nor host have the memory.
    ///
    /// # Panics
    /// When there is no such slot, or the image has no report.
    pub fn take_aside(&self, slot: usize, image: &[u8]) -> Result<(SlotLease, OversizedMemory), CudaError> {
        let mut report = [0; REPORT_BYTES];
        report.copy_from_slice(&image[REPORT]);
        // No fill orders this batch's stream behind that of the slot's last one, as `ready` does elsewhere. Work on two
        // streams would then signal `free` in any order.
        let (before, now) = (self.taken_on(slot), Arc::clone(&lock(&self.stream)));
        if !Arc::ptr_eq(&before, &now) {
            before.stream().synchronize()?;
        }
        let aside = OversizedMemory::new(self.context(), image)?;
        match self.begin(slot, Some(GatherReport::from_bytes(&report)), |stream| aside.bring(stream, image)) {
            Ok(taking) => Ok((taking, aside)),
            Err(error) => {
                // The copy may be under way. What this says, the error has said.
                let _ = self.put_away(slot, aside);
                Err(error)
            }
        }
    }

    /// Takes a slot. `arrives` enqueues what its work waits for. `report` is there beforehand where the device brings
    /// none.
    fn begin(
        &self,
        slot: usize,
        report: Option<GatherReport>,
        arrives: impl FnOnce(&CudaStream) -> Result<(), CudaError>,
    ) -> Result<SlotLease, CudaError> {
        let Some(entry) = lock(&self.entries).pop_front() else {
            return Err(CudaError::Refused(format!("{} reports of slots are unread", self.around.len())));
        };
        let taken_on = Arc::clone(&lock(&self.stream));
        *lock(&self.taken_on[slot]) = Arc::clone(&taken_on);
        let waited = matches!(*taken_on, UseStream::Waited(_));
        let taking = SlotLease { entry, waited, report };
        match self.enqueue_take(slot, &taking, &taken_on, arrives) {
            Ok(()) => Ok(taking),
            Err(error) => {
                self.done(taking);
                Err(error)
            }
        }
    }

    fn enqueue_take(
        &self,
        slot: usize,
        taking: &SlotLease,
        taken_on: &UseStream,
        arrives: impl FnOnce(&CudaStream) -> Result<(), CudaError>,
    ) -> Result<(), CudaError> {
        let (stream, (before, behind)) = (taken_on.stream(), &self.around[taking.entry]);
        before.record(stream)?;
        arrives(stream)?;
        behind.record(stream)?;
        if taking.report.is_none() {
            let from = self.report_slice(slot)?.address();
            let to = self.report_words(taking.entry).cast::<u8>();
            // SAFETY: `to` is this entry's 64 bytes of a buffer that lives until the stream has been waited for
            // (`drop`). The reference ends with the call; the copy continues with the address. Until it has run, the
            // bytes are read by volatile loads only (`report`). These cannot mislead: a report without the right stamp
            // is ignored. `from` is the slot's report, written before `ready`.
            unsafe { device_to_host(stream, from, std::slice::from_raw_parts_mut(to, REPORT_BYTES)) }?;
        }
        match taken_on {
            UseStream::Waited(stream) => stream.synchronize(),
            // A consumer that stands in for a device reads the slot at once.
            UseStream::Ordered(stream) => stream.follow(),
        }
    }

    /// Gives a taking's place to later ones. Its report is not read any more.
    pub fn done(&self, taking: SlotLease) {
        lock(&self.entries).push_back(taking.entry);
    }

    /// The report in the slot's own memory, for work on the stream on which the slot was taken.
    ///
    /// # Errors
    /// As [`SlotReader::slice`].
    pub fn report_slice(&self, slot: usize) -> Result<DeviceSlice<'_>, CudaError> {
        self.slice(slot, REPORT)
    }

    fn report_words(&self, entry: usize) -> *mut u64 {
        assert!(entry < self.around.len(), "report {entry} of {}", self.around.len());
        // SAFETY: in bounds: the buffer has REPORT_BYTES for each entry. Page-aligned, so aligned for words.
        unsafe { self.reports.as_ptr().add(entry * REPORT_BYTES).cast::<u64>().cast_mut() }
    }

    /// The report of a slot taken, as far as it has arrived. Its stamp shows whether it belongs to the requested fill.
    /// After a wait for the stream it does.
    pub fn report(&self, taking: &SlotLease) -> GatherReport {
        if let Some(report) = taking.report {
            return report;
        }
        let words = self.report_words(taking.entry);
        // SAFETY: the entry's words, initialised when the buffer was made. The device may be writing them: volatile, and
        // any value of a word is one.
        let read = |word: usize| unsafe { words.add(word).read_volatile() };
        let mut bytes = [0; REPORT_BYTES];
        for (word, to) in bytes.chunks_exact_mut(8).enumerate() {
            to.copy_from_slice(&read(word).to_ne_bytes());
        }
        GatherReport::from_bytes(&bytes)
    }

    /// How long the stream stood still for a slot; zero where the host waited. To be asked when the work on the slot
    /// has been waited for.
    ///
    /// # Errors
    /// [`CudaError`], not ready among them.
    pub fn waited(&self, taking: &SlotLease) -> Result<Duration, CudaError> {
        if taking.waited {
            return Ok(Duration::ZERO);
        }
        let (before, behind) = &self.around[taking.entry];
        let milliseconds = CudaEvent::elapsed_ms(before, behind)?;
        Ok(Duration::from_secs_f64(f64::from(milliseconds.max(0.0)) * 1e-3))
    }

    /// Bytes of a slot, for work on the stream.
    ///
    /// # Errors
    /// [`CudaError::Refused`] when they are not within it.
    pub fn slice(&self, slot: usize, range: Range<usize>) -> Result<DeviceSlice<'_>, CudaError> {
        if slot >= self.shape.slots || range.start > range.end || range.end > self.shape.stride {
            return Err(CudaError::Refused(format!(
                "bytes {}..{} of feature slot {slot}: there are {} slots of {} bytes",
                range.start, range.end, self.shape.slots, self.shape.stride
            )));
        }
        let base = slot * self.shape.stride;
        self.buffer.slice(base + range.start..base + range.end)
    }

    /// The bytes themselves, where device memory is host memory (under the simulator) and the host has waited for them.
    ///
    /// # Errors
    /// As [`SlotReader::slice`].
    pub fn host_bytes(&self, slot: usize, range: Range<usize>) -> Result<Option<&[u8]>, CudaError> {
        Ok(self.lent(slot, self.slice(slot, range)?))
    }

    /// As [`SlotReader::host_bytes`], of the batch aside that was taken last with this slot.
    ///
    /// # Errors
    /// As [`OversizedMemory::slice`].
    pub fn host_bytes_aside<'a>(
        &self,
        slot: usize,
        aside: &'a OversizedMemory,
        range: Range<usize>,
    ) -> Result<Option<&'a [u8]>, CudaError> {
        Ok(self.lent(slot, aside.slice(range)?))
    }

    fn lent<'a>(&self, slot: usize, slice: DeviceSlice<'a>) -> Option<&'a [u8]> {
        match &*self.taken_on(slot) {
            UseStream::Ordered(_) => None,
            // SAFETY: `take` has waited for the fill, and the filler touches the slot again only when it has been
            // given back. The keeper of the slots' order gives it back only after these bytes are no longer lent.
            // Writes by a process outside the protocol are its launcher's fault, as with the slots of a ring. Nobody
            // writes to a batch aside once it has arrived.
            UseStream::Waited(_) => unsafe { slice.as_host() },
        }
    }

    /// Records `free` behind all work so far on the stream on which the slot was taken.
    ///
    /// # Errors
    /// [`CudaError`].
    ///
    /// # Panics
    /// When there is no such slot.
    pub fn give_back(&self, slot: usize, free: &dyn Signal) -> Result<(), CudaError> {
        free.record(self.taken_on(slot).stream())
    }

    /// Waits for all work so far on the stream on which the slot was taken, and frees the batch aside that was taken
    /// with it.
    ///
    /// # Errors
    /// [`CudaError`]. The memory then stays, since the device may still use it.
    pub fn put_away(&self, slot: usize, aside: OversizedMemory) -> Result<(), CudaError> {
        let waited = self.taken_on(slot).stream().synchronize();
        match waited {
            Ok(()) => drop(aside),
            Err(_) => std::mem::forget(aside),
        }
        waited
    }
}

impl SlotLease {
    /// Whether the host has waited for the fill.
    pub fn waited_on_the_host(&self) -> bool {
        self.waited
    }
}

impl UseStream {
    fn stream(&self) -> &CudaStream {
        match self {
            Self::Waited(stream) => stream,
            Self::Ordered(stream) => stream,
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing panics while one is held, and its contents are always consistent.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for SlotReader {
    fn drop(&mut self) {
        // The device may still be writing a report. Where waiting fails the context is gone, and with it that copy.
        for slot in 0..self.shape.slots {
            let _ = self.taken_on(slot).stream().synchronize();
        }
    }
}
