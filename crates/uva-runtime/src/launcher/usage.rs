//! What a process that attached tells of the batches it uses: events where somebody wants them, progress, and sums in the
//! control page, which outlive it.

use std::sync::Arc;
use std::time::Instant;

use uva_graph::Split;
use uva_mem::handover::Channel;

use super::reports::ChannelObserver;
use crate::RuntimeError;
use crate::batch::Batch;
use crate::control::{Control, Tally};
use crate::metrics::{BatchEvent, CacheCounts, Event, Observer, Progress};
use crate::plan::RunPlan;
use crate::schedule::Schedule;

/// Keeps account of the batches that a process uses.
pub(crate) struct Usage {
    observer: ChannelObserver,
    control: Arc<Control>,
    schedule: Schedule,
    /// Whether each training batch is told.
    events: bool,
    cached: bool,
    /// The batch in use: what is told of it, and since when it is used.
    in_use: Option<(Split, BatchEvent, Instant)>,
    /// When the next batch was asked for.
    asked: Instant,
}

impl Usage {
    pub fn begin(channel: Arc<Channel>, control: Arc<Control>, plan: &RunPlan, events: bool) -> Self {
        Self {
            observer: ChannelObserver::new(channel),
            control,
            schedule: plan.schedule,
            events,
            cached: plan.caches.are_there(),
            in_use: None,
            asked: Instant::now(),
        }
    }

    /// The batch in use has been used, if there is one: it was given back, or the next is asked for.
    ///
    /// # Errors
    /// [`RuntimeError::PeerGone`] when the launcher hears it no more.
    pub fn given_back(&mut self) -> Result<(), RuntimeError> {
        let now = Instant::now();
        let asked = std::mem::replace(&mut self.asked, now);
        let Some((split, mut event, since)) = self.in_use.take() else { return Ok(()) };
        if split != Split::Train {
            return Ok(());
        }
        event.train_us = now.duration_since(since).as_micros() as u64;
        let last = u64::from(event.batch) + 1 == self.schedule.train_batches();
        self.control.add_to_tally(&Tally {
            batches: 1,
            epochs: u64::from(last),
            nanoseconds: now.duration_since(asked).as_nanos() as u64,
            cache: event.cache.unwrap_or_default(),
        });
        if self.events { self.observer.event(&Event::Batch(event)) } else { Ok(()) }
    }

    /// This batch is in use from now on.
    pub fn taken(&mut self, batch: &Batch<'_>) {
        let lists = batch.list_reads();
        let cache = self.cached.then(|| CacheCounts {
            list_reads: lists.all,
            list_hits: lists.cached,
            rows: batch.node_count() as u64,
            row_hits: batch.rows_cached(),
        });
        let event = BatchEvent {
            epoch: batch.epoch(),
            batch: batch.index(),
            hash: format!("{:016x}", batch.hash()),
            seeds: batch.seed_count(),
            input_nodes: batch.node_count(),
            edges: (0..batch.layers()).map(|layer| batch.counts(layer).edges).collect(),
            loss: None,
            sample_us: batch.sample_time().as_micros() as u64,
            gather_us: batch.gather_time().as_micros() as u64,
            train_us: 0,
            queue: batch.queue(),
            pace: batch.pace(),
            cache,
        };
        let batches = match batch.split() {
            Split::Train => self.schedule.train_batches(),
            Split::Valid => self.schedule.valid_batches(),
            Split::Test => self.schedule.test_batches(),
        };
        let progress = Progress {
            split: batch.split(),
            epoch: batch.epoch(),
            epochs: 0,
            batch: u64::from(batch.index()) + 1,
            batches,
            loss: 0.0,
            accuracy: 0.0,
        };
        self.observer.progress(&progress, "");
        self.in_use = Some((batch.split(), event, Instant::now()));
    }
}
