//! Reports of an attached process on the batches that it uses: events on request, progress, and sums in the control
//! page, which outlive the process.

use std::sync::Arc;
use std::time::Instant;

use uva_graph::Split;
use uva_mem::handover::Channel;

use super::reports::ChannelObserver;
use uva_runtime::control::{ConsumerTally, Control};
use uva_runtime::feed::batch::{Batch, BatchUse, UsedBatch};
use uva_runtime::machine::clock::since_boot;
use uva_runtime::options::schedule::Schedule;
use uva_runtime::plan::RunPlan;
use uva_runtime::telemetry::metrics::{BatchEvent, CacheTotals, Event, Observer, RunProgress};
use uva_runtime::{BatchKey, RuntimeError};

/// Accounts for the batches that a process uses.
#[derive(Debug)]
pub(crate) struct Usage {
    observer: ChannelObserver,
    control: Arc<Control>,
    schedule: Schedule,
    /// Whether to report each training batch.
    events: bool,
    cached: bool,
    /// Number of the first epochs that determined the caches.
    counted_epochs: u32,
    /// The batch in use.
    in_use: Option<InUse>,
    /// The time at which the next batch was requested.
    asked: Instant,
}

/// A batch that was handed out.
#[derive(Debug)]
struct InUse {
    split: Split,
    /// Its event, as far as it is known.
    event: BatchEvent,
    /// The times at which it was requested and handed out.
    asked: Instant,
    since: Instant,
    /// The record of the time at which the batch was returned.
    used: Arc<UsedBatch>,
}

impl Usage {
    pub fn begin(channel: Arc<Channel>, control: Arc<Control>, plan: &RunPlan, events: bool) -> Self {
        Self {
            observer: ChannelObserver::new(channel),
            control,
            schedule: plan.schedule,
            events,
            cached: plan.caches.are_there(),
            counted_epochs: plan.caches.counted_epochs,
            in_use: None,
            asked: Instant::now(),
        }
    }

    /// Records that the next batch, or the end, is requested: the batch in use, if any, has been used.
    ///
    /// # Errors
    /// [`RuntimeError::PeerGone`] if the launcher no longer receives it.
    pub fn asked(&mut self) -> Result<(), RuntimeError> {
        let now = Instant::now();
        self.asked = now;
        let Some(InUse { split, mut event, asked, since, used }) = self.in_use.take() else { return Ok(()) };
        if split != Split::Train {
            return Ok(());
        }
        let mut until = now;
        // Otherwise a tensor may still hold the batch, and no more is known.
        if let Some(BatchUse { at, gather_time, rows_cached }) = used.get() {
            until = at;
            event.gather_us = gather_time.as_micros() as u64;
            event.set_row_hits(rows_cached);
        }
        event.train_us = until.duration_since(since).as_micros() as u64;
        let mut cache = CacheTotals::default();
        cache.add(event.cache.unwrap_or_default(), event.epoch, self.counted_epochs);
        let key = BatchKey { split, epoch: event.epoch, batch: event.batch };
        let last = self.schedule.in_epoch(key) + 1 == self.schedule.train_batches();
        self.control.add_to_tally(&ConsumerTally {
            batches: 1,
            epochs: u64::from(last),
            nanoseconds: until.duration_since(asked).as_nanos() as u64,
            cache,
            unpadded: u64::from(event.padded == Some(false)),
            oversized: u64::from(event.oversized),
            aggregate: event.aggregate.as_ref().map(|counts| counts.amounts).unwrap_or_default(),
        });
        if self.events { self.observer.event(&Event::Batch(Box::new(event))) } else { Ok(()) }
    }

    /// Records that this batch is in use from now on.
    pub fn taken(&mut self, batch: &mut Batch) {
        let train_at_us = since_boot().as_micros() as u64;
        let event = BatchEvent { train_at_us, ..BatchEvent::of(batch, self.cached) };
        let progress = RunProgress {
            split: batch.split(),
            epoch: batch.epoch(),
            epochs: 0,
            batch: u64::from(batch.index()) + 1,
            batches: self.schedule.batches(batch.split()),
            loss: 0.0,
            accuracy: 0.0,
            regression_loss: None,
        };
        self.observer.progress(&progress, "");
        let used = Arc::new(UsedBatch::default());
        batch.tell(Arc::clone(&used));
        let (split, asked, since) = (batch.split(), self.asked, Instant::now());
        self.in_use = Some(InUse { split, event, asked, since, used });
    }
}
