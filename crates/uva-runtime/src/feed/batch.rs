//! A batch in the hands of its consumer: a view of its columns, and the slot that is returned when it is dropped.

use std::ops::{Deref, Range};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use uva_batch::{BatchColumns, BatchHeader, BatchLayout, BatchView, SlotMemory};
use uva_cuda::DeviceSlice;
use uva_mem::ring::ReadSlot;

use crate::RuntimeError;
use crate::control::aggregate_counts::SumsMade;
use crate::control::disk_counts::DiskCounts;
use crate::feed::device::{Loan, Receipt};
use crate::feed::rows::Counting;

/// A batch with its features, in the producer's slot. It owns the slot: dropping it, on any thread, returns the slot,
/// and no borrow outlives it. Several may be held at once, as long as the next batch has a free slot
/// ([`RuntimeError::SlotHeld`]).
///
/// Its columns, counts and times are those of [`BatchView`]. If the slot is on a GPU
/// ([`is_on_device`](BatchView::is_on_device)), the methods that return host slices panic.
#[derive(Debug)]
pub struct Batch {
    view: BatchView<Slot>,
    counting: Counting,
    /// Records the time at which the batch is dropped.
    used: Option<Arc<UsedBatch>>,
}

/// A feature slot being read, in the ring's memory or on a GPU.
#[derive(Debug)]
pub struct Slot {
    loan: Option<Loan>,
    /// Present until the batch is dropped.
    slot: Option<ReadSlot>,
}

impl SlotMemory for Slot {
    fn host(&self, range: Range<usize>) -> Option<&[u8]> {
        // A column without rows may begin after the bytes that the batch uses.
        let range = if range.is_empty() { 0..0 } else { range };
        match &self.loan {
            None => self.slot.as_ref().map(|slot| &slot.payload()[range]),
            Some(loan) => loan.host_bytes(range),
        }
    }

    fn device(&self, range: Range<usize>) -> Option<(DeviceSlice<'_>, usize)> {
        // Under the stand-in driver, device memory is host memory, once the host has waited for it.
        let loan = self.loan.as_ref().filter(|loan| loan.host_bytes(0..0).is_none())?;
        Some((loan.slice(range), loan.ordinal()))
    }

    fn is_packed(&self) -> bool {
        self.loan.is_some()
    }

    fn first_byte(&self) -> Option<*mut u8> {
        match &self.loan {
            None => self.slot.as_ref().map(ReadSlot::payload_address),
            Some(_) => None,
        }
    }
}

/// The record of a batch when it is returned.
#[derive(Clone, Copy, Debug)]
pub struct BatchUse {
    /// The time at which it was returned.
    pub at: Instant,
    /// The duration of its gather. On a GPU it is available once the work on the batch has been waited for.
    pub gather_time: Duration,
    /// The number of its rows from the feature cache.
    pub rows_cached: u64,
}

/// The place for a batch's record of its return.
#[derive(Debug, Default)]
pub struct UsedBatch(Mutex<Option<BatchUse>>);

impl UsedBatch {
    /// `None` while the batch is still in use.
    pub fn get(&self) -> Option<BatchUse> {
        // No code panics while it holds this lock.
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Deref for Batch {
    type Target = BatchView<Slot>;

    fn deref(&self) -> &Self::Target {
        &self.view
    }
}

impl Batch {
    /// Creates the batch. `header` is the slot's own, already checked against the plan's layout.
    pub(crate) fn new(
        slot: ReadSlot,
        loan: Option<Loan>,
        layout: &Arc<BatchLayout>,
        counting: Counting,
        header: BatchHeader,
    ) -> Self {
        let in_header = counting.hits_in_header;
        let loan = loan.map(|loan| if in_header { loan.with_hits(header.rows_cached()) } else { loan });
        let memory = Slot { loan, slot: Some(slot) };
        let view = BatchView::new(memory, Arc::clone(layout), header);
        Self { view, counting, used: None }
    }

    /// Sets the place for the record of its return.
    pub fn tell(&mut self, used: Arc<UsedBatch>) {
        self.used = Some(used);
    }

    fn loan(&self) -> Option<&Loan> {
        self.view.memory().loan.as_ref()
    }

    /// Whether its slot is on a GPU, even if a stand-in driver lends it as host memory.
    pub fn is_in_slot_on_gpu(&self) -> bool {
        self.loan().is_some()
    }

    /// Whether it did not fit its slot on a GPU, and came through host memory.
    pub fn is_oversized(&self) -> bool {
        self.loan().is_some_and(Loan::is_aside)
    }

    /// Checks that the batch was complete when it was used. Call it after waiting for the work on the batch, and before
    /// using the result: the producer of a batch on a GPU may have died while filling it. In host memory a batch is
    /// always complete.
    ///
    /// # Errors
    /// [`RuntimeError::PeerGone`] if its producer had not finished it; [`RuntimeError::Failed`] if one of its ids is
    /// not a row of the table.
    pub fn confirm(&self) -> Result<(), RuntimeError> {
        self.loan().map_or(Ok(()), |loan| loan.receipt().confirm())
    }

    /// The means to confirm the batch after it has been dropped. A consumer that has enqueued its work on the batch
    /// returns the slot at once, and confirms later. `None` in host memory, where a batch is always complete.
    pub fn receipt(&self) -> Option<Arc<Receipt>> {
        self.loan().map(|loan| Arc::clone(loan.receipt()))
    }

    /// Its arrays by key. On a GPU they include the proof that the batch is complete.
    pub fn columns(&self) -> BatchColumns<'_> {
        BatchColumns { proof: self.loan().map(Loan::proof), ..self.view.columns() }
    }

    /// The number of its rows from the feature cache. On a GPU it is 0 until the batch is confirmed.
    pub fn rows_cached(&self) -> u64 {
        self.loan().map_or_else(|| self.header().rows_cached(), |loan| loan.receipt().rows_cached())
    }

    /// Disk reads for its rows; `None` if rows are read from memory.
    pub fn disk_reads(&self) -> Option<DiskCounts> {
        self.counting.from_disk.then(|| self.header().disk().into())
    }

    /// The place where its producer sums; `None` if it does not sum.
    pub fn sums(&self) -> Option<SumsMade> {
        self.counting.sums
    }

    /// The number of its feature rows: of its nodes, except those of types without features.
    fn row_count(&self) -> usize {
        let types = self.metagraph().types().filter(|of| self.layout().rows_of(*of).is_some());
        types.map(|of| self.header().of_type(of).nodes).sum()
    }

    /// The number of rows that crossed the link to a GPU, without those from a cache on it. It is available together
    /// with [`rows_cached`](Self::rows_cached).
    pub fn rows_over_link(&self) -> u64 {
        let cached_on_gpu = if self.counting.hits_cross_link { 0 } else { self.rows_cached() };
        match self.counting.crosses_link && self.loan().is_some() {
            true => (self.row_count() as u64).saturating_sub(cached_on_gpu),
            false => 0,
        }
    }

    /// The duration of the producer's work on it, on the CPU and on a GPU. The GPU's part is available once the batch
    /// is confirmed.
    pub fn gather_time(&self) -> Duration {
        let on_gpu = self.loan().map_or(Duration::ZERO, |loan| loan.receipt().gather_time());
        Duration::from_nanos(self.header().gather_ns()) + on_gpu
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        if let Some(used) = self.used.take() {
            let (gather_time, rows_cached) = (self.gather_time(), self.rows_cached());
            let now = BatchUse { at: Instant::now(), gather_time, rows_cached };
            *used.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(now);
        }
        let Slot { loan, slot } = self.view.memory_mut();
        // Work that is enqueued on a device is recorded before the ring releases the slot. If that fails, the slot
        // remains taken, and the request for the next batch reports the reason.
        let given_back = loan.take().is_none_or(Loan::give_back);
        match slot.take() {
            Some(slot) if !given_back => slot.abandon(),
            slot => drop(slot),
        }
    }
}
