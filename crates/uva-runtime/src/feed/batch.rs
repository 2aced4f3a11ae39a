//! A batch as its consumer holds it: a view of its columns, and the slot that is given back when it is dropped.

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

/// A batch with its features, in the slot where the producer put them. It owns the slot: dropping it, on any thread,
/// gives the slot back, and nothing borrowed from it outlives it. Several may be held at once, as long as the next
/// batch has a free slot ([`RuntimeError::SlotHeld`]).
///
/// Its columns, counts and times are those of [`BatchView`]. If the slot is on a GPU
/// ([`is_on_device`](BatchView::is_on_device)), the methods that lend host slices panic.
#[derive(Debug)]
pub struct Batch {
    view: BatchView<Slot>,
    counting: Counting,
    /// Notified when the batch is dropped.
    used: Option<Arc<UsedBatch>>,
}

/// A feature slot being read: in the ring's memory, or lent on a GPU.
#[derive(Debug)]
pub struct Slot {
    loan: Option<Loan>,
    /// Present until the batch is dropped.
    slot: Option<ReadSlot>,
}

impl SlotMemory for Slot {
    fn host(&self, range: Range<usize>) -> Option<&[u8]> {
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

/// What is known of a batch when it is given back.
#[derive(Clone, Copy, Debug)]
pub struct BatchUse {
    /// When it was given back.
    pub at: Instant,
    /// How long its gather took. On a GPU this is known once the work on the batch has been waited for.
    pub gather_time: Duration,
    /// How many of its rows came from the feature cache.
    pub rows_cached: u64,
}

/// Where a batch records that it was given back.
#[derive(Debug, Default)]
pub struct UsedBatch(Mutex<Option<BatchUse>>);

impl UsedBatch {
    /// `None` while the batch is still in use.
    pub fn get(&self) -> Option<BatchUse> {
        // Nothing panics while holding this lock.
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
    /// `header` is the slot's own, already checked against the plan's layout.
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

    /// Makes it record when it is given back.
    pub fn tell(&mut self, used: Arc<UsedBatch>) {
        self.used = Some(used);
    }

    fn loan(&self) -> Option<&Loan> {
        self.view.memory().loan.as_ref()
    }

    /// Whether its slot is on a GPU, also where a stand-in for one lends it as host memory.
    pub fn is_in_slot_on_gpu(&self) -> bool {
        self.loan().is_some()
    }

    /// Whether it had no room in its slot on a GPU, and came through host memory.
    pub fn is_oversized(&self) -> bool {
        self.loan().is_some_and(Loan::is_aside)
    }

    /// Whether the batch was whole when it was used. Ask after waiting for the work on it, and before its result
    /// counts: the producer of a batch on a GPU may have died while filling it. In host memory a batch is always whole.
    ///
    /// # Errors
    /// [`RuntimeError::PeerGone`] when its producer had not finished it; [`RuntimeError::Failed`] when one of its ids
    /// is no row of the table.
    pub fn confirm(&self) -> Result<(), RuntimeError> {
        self.loan().map_or(Ok(()), |loan| loan.receipt().confirm())
    }

    /// The means to confirm it after it has been dropped: a consumer that has enqueued its work on the batch gives the
    /// slot back at once, and asks later. `None` in host memory, where a batch is always whole.
    pub fn receipt(&self) -> Option<Arc<Receipt>> {
        self.loan().map(|loan| Arc::clone(loan.receipt()))
    }

    /// Its arrays by key. On a GPU they come with what shows there that the batch is whole.
    pub fn columns(&self) -> BatchColumns<'_> {
        BatchColumns { proof: self.loan().map(Loan::proof), ..self.view.columns() }
    }

    /// How many of its rows came from the feature cache. On a GPU this is known once the batch is confirmed, and 0
    /// before.
    pub fn rows_cached(&self) -> u64 {
        self.loan().map_or_else(|| self.header().rows_cached(), |loan| loan.receipt().rows_cached())
    }

    /// What its rows took from disk; `None` where rows are read from memory.
    pub fn disk_reads(&self) -> Option<DiskCounts> {
        self.counting.from_disk.then(|| self.header().disk().into())
    }

    /// Where its producer sums; `None` where it does not.
    pub fn sums(&self) -> Option<SumsMade> {
        self.counting.sums
    }

    /// How many rows crossed the link to a GPU: those of its nodes that no cache there had. Known when
    /// [`rows_cached`](Self::rows_cached) is.
    pub fn rows_over_link(&self) -> u64 {
        let cached_on_gpu = if self.counting.hits_cross_link { 0 } else { self.rows_cached() };
        match self.counting.crosses_link && self.loan().is_some() {
            true => (self.node_count() as u64).saturating_sub(cached_on_gpu),
            false => 0,
        }
    }

    /// How long the producer worked on it, on the CPU and on a GPU. The GPU's part is known once the batch is confirmed.
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
        // Work that is enqueued on a device is recorded before the ring gives the slot away. If that fails the slot
        // stays taken, and the request for the next batch reports why.
        let given_back = loan.take().is_none_or(Loan::give_back);
        match slot.take() {
            Some(slot) if !given_back => slot.abandon(),
            slot => drop(slot),
        }
    }
}
