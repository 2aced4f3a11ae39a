//! The reading side of slots on a GPU: the consumer's use of slots filled by a [`crate::cuda::SlotFiller`].

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
    /// The reader's own stream; the host waits for it before a slot is returned. For consumers on the CPU, or on an
    /// unknown stream.
    Waited(CudaStream),
    /// The consumer's own stream: its work is enqueued after the fill, and the host does not wait.
    Ordered(Arc<CudaStream>),
}

/// A taken slot, identified by the entry of its report. The entry stays in use until [`SlotReader::done`], even after
/// the slot has been given back, since a consumer that runs ahead of the device reads the report later.
#[derive(Debug)]
pub struct SlotLease {
    /// The entry of the report and of the events around the wait.
    entry: usize,
    /// Whether the host has waited for the fill.
    waited: bool,
    /// The report, if it was available from the start and is not copied.
    report: Option<GatherReport>,
}

/// A reader that takes filled slots and gives them back.
///
/// Callers keep the order of the slot ring. They call [`SlotReader::take`] once the filler has announced that it
/// recorded `ready`. They call [`SlotReader::give_back`] after the last work on the slot is enqueued, and only then
/// notify the filler.
#[derive(Debug)]
pub struct SlotReader {
    /// The stream for slots taken from now on.
    stream: Mutex<Arc<UseStream>>,
    /// The stream on which each slot was last taken: its work is enqueued there, and the slot is given back after it,
    /// even if other slots have been taken on another stream since.
    taken_on: Vec<Mutex<Arc<UseStream>>>,
    /// Reports of taken slots, copied here by the device.
    reports: PinnedBuffer,
    /// Timing events around each wait for `ready`.
    around: Vec<(CudaEvent, CudaEvent)>,
    /// The free entries of `reports` and `around`, in the order in which they were returned.
    entries: Mutex<VecDeque<usize>>,
    buffer: Arc<SharedBuffer>,
    shape: SlotShape,
}

impl SlotReader {
    /// The maximum number of outstanding reports in addition to those of taken slots.
    pub const LATE: usize = 8;

    /// Creates a reader of the slots in `buffer` that waits on the host, until [`SlotReader::use_stream`] is called.
    ///
    /// # Errors
    /// [`FillError::Layout`] if the slots exceed the buffer; [`FillError::Cuda`] if the driver cannot provide a stream,
    /// event or memory.
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

    /// Sets the stream for slots taken from now on. Slots are then returned before they are filled; work enqueued on
    /// the stream runs after the fill.
    pub fn use_stream(&self, stream: impl Into<Arc<CudaStream>>) {
        *lock(&self.stream) = Arc::new(UseStream::Ordered(stream.into()));
    }

    /// The stream on which a slot was taken.
    fn taken_on(&self, slot: usize) -> Arc<UseStream> {
        Arc::clone(&lock(&self.taken_on[slot]))
    }

    /// Makes the stream wait for `ready`, and then copies the slot's report to the host.
    ///
    /// # Errors
    /// [`CudaError`], including a fault of the device if the host waits. [`CudaError::Refused`] if [`SlotReader::LATE`]
    /// reports of slots given back have not been read.
    ///
    /// # Panics
    /// If there is not such a slot.
    pub fn take(&self, slot: usize, ready: &dyn Signal) -> Result<SlotLease, CudaError> {
        self.begin(slot, None, |stream| ready.wait(stream))
    }

    /// Takes a batch that exceeds the slot, and that the filler did not write to it. `image` is the content of a slot,
    /// starting with the report. It is copied to separate memory before this returns. Pass that memory to
    /// [`SlotReader::put_away`] when the slot is given back.
    ///
    /// # Errors
    /// As [`SlotReader::take`]; also if neither device nor host have enough memory.
    ///
    /// # Panics
    /// If there is not such a slot, or the image has no report.
    pub fn take_aside(&self, slot: usize, image: &[u8]) -> Result<(SlotLease, OversizedMemory), CudaError> {
        let mut report = [0; REPORT_BYTES];
        report.copy_from_slice(&image[REPORT]);
        // This batch's stream is not ordered after that of the slot's last one, as `ready` does otherwise. Work on two
        // streams would then signal `free` in any order.
        let (before, now) = (self.taken_on(slot), Arc::clone(&lock(&self.stream)));
        if !Arc::ptr_eq(&before, &now) {
            before.stream().synchronize()?;
        }
        let aside = OversizedMemory::new(self.context(), image)?;
        match self.begin(slot, Some(GatherReport::from_bytes(&report)), |stream| aside.bring(stream, image)) {
            Ok(taking) => Ok((taking, aside)),
            Err(error) => {
                // The copy may be in flight. Its error repeats the first one.
                let _ = self.put_away(slot, aside);
                Err(error)
            }
        }
    }

    /// Takes a slot. `arrives` enqueues the wait of its work. `report` is given if the device does not copy one.
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
            // A consumer that simulates a device reads the slot immediately.
            UseStream::Ordered(stream) => stream.follow(),
        }
    }

    /// Releases the entry of a lease, whose report is no longer read.
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

    /// The report of a taken slot, as far as it has arrived. Its stamp shows whether it belongs to the requested fill,
    /// which is certain after a wait for the stream.
    pub fn report(&self, taking: &SlotLease) -> GatherReport {
        if let Some(report) = taking.report {
            return report;
        }
        let words = self.report_words(taking.entry);
        // SAFETY: the entry's words, initialised when the buffer was made. The device may be writing them: reads are
        // volatile, and any value of a word is valid.
        let read = |word: usize| unsafe { words.add(word).read_volatile() };
        let mut bytes = [0; REPORT_BYTES];
        for (word, to) in bytes.chunks_exact_mut(8).enumerate() {
            to.copy_from_slice(&read(word).to_ne_bytes());
        }
        GatherReport::from_bytes(&bytes)
    }

    /// The time that the stream waited for a slot; zero if the host waited. Call this after waiting for the work on the
    /// slot.
    ///
    /// # Errors
    /// [`CudaError`], including not ready.
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
    /// [`CudaError::Refused`] if they are out of range.
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

    /// The bytes themselves, if device memory is host memory (in the simulator) and the host has waited for them.
    ///
    /// # Errors
    /// As [`SlotReader::slice`].
    pub fn host_bytes(&self, slot: usize, range: Range<usize>) -> Result<Option<&[u8]>, CudaError> {
        Ok(self.lent(slot, self.slice(slot, range)?))
    }

    /// Like [`SlotReader::host_bytes`], for the oversized batch that was taken last with this slot.
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
            // SAFETY: `take` has waited for the fill, and the filler touches the slot again only when it has been given
            // back. The owner of the slots' order gives it back only after these bytes are no longer borrowed. Writes
            // by a process outside the protocol are its launcher's fault, as with the slots of a ring. An oversized
            // batch is not written after it has arrived.
            UseStream::Waited(_) => unsafe { slice.as_host() },
        }
    }

    /// Records `free` after all work so far on the stream on which the slot was taken.
    ///
    /// # Errors
    /// [`CudaError`].
    ///
    /// # Panics
    /// If there is not such a slot.
    pub fn give_back(&self, slot: usize, free: &dyn Signal) -> Result<(), CudaError> {
        free.record(self.taken_on(slot).stream())
    }

    /// Waits for all work so far on the stream on which the slot was taken, and frees the oversized batch that was
    /// taken with it.
    ///
    /// # Errors
    /// [`CudaError`]. The memory is then not freed, since the device may still use it.
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
    // No code panics while a lock is held, and the content is always consistent.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for SlotReader {
    fn drop(&mut self) {
        // The device may still be writing a report. If waiting fails, the context is destroyed, and with it that copy.
        for slot in 0..self.shape.slots {
            let _ = self.taken_on(slot).stream().synchronize();
        }
    }
}
