//! How sampler, producer and consumer spent their time, stretch by stretch, computed from the begin and duration of
//! each batch.
//!
//! Between two batches of an epoch a role waits; the hand-over determines for what (docs/internals/architecture.md). A
//! sampler waits for a free slot. The producer waits for the batch to be sampled, and from then on for a slot. The
//! consumer waits for the batch to be gathered; all other time between two of its batches counts as work, as in the run
//! itself. Between two epochs the consumer works on validation batches or waits, and the file does not record which.
//! That time is not attributed, nor is the time before a role's first batch and after its last.

use uva_runtime::telemetry::metrics::BatchEvent;

use super::stretches::{Stretches, Sum};
use crate::ui::format;

/// The roles in pipeline order.
pub const ROLES: [&str; 3] = ["sampler", "producer", "consumer"];
/// A role's known activities.
pub const DOINGS: [&str; 3] = ["working", "waiting for input", "waiting for output"];

const SAMPLER: usize = 0;
const PRODUCER: usize = 1;
const CONSUMER: usize = 2;
const WORKING: usize = 0;
const WAITING_INPUT: usize = 1;
const WAITING_OUTPUT: usize = 2;

/// Stretches kept; at least half as many, once the run is longer than this many microseconds.
const MOST: usize = 1024;

/// The activity in a stretch of the run's time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Window {
    /// Microseconds of each role in each of [`DOINGS`]; for samplers the mean.
    pub spent: [[f64; 3]; 3],
    /// Training batches, each spread over the time that the consumer spent on it.
    pub batches: f64,
    /// Cache lookups of these batches: list reads, list hits, rows, row hits.
    pub cache: [f64; 4],
}

impl Sum for Window {
    fn add(&mut self, other: &Self) {
        self.spent.add(&other.spent);
        self.batches.add(&other.batches);
        self.cache.add(&other.cache);
    }
}

/// A stretch from one moment of the run's time to another, in microseconds.
#[derive(Clone, Copy, Debug)]
pub struct Stretch {
    pub from: f64,
    pub to: f64,
    pub window: Window,
}

impl Stretch {
    /// Shares of a role's time in each of [`DOINGS`]. The remainder to 1 is unknown.
    pub fn shares(&self, role: usize) -> [f64; 3] {
        self.window.spent[role].map(|spent| (spent / (self.to - self.from)).clamp(0.0, 1.0))
    }

    /// Batches per second while training; `None` if the time in training is too short.
    pub fn speed(&self) -> Option<f64> {
        let training = self.window.spent[CONSUMER].iter().sum::<f64>();
        (training > 0.2 * (self.to - self.from)).then(|| 1e6 * self.window.batches / training)
    }

    /// The bounds as text, `12.0 s to 14.0 s`.
    pub fn time(&self) -> String {
        format!("{} to {}", format::seconds(self.from / 1e6), format::seconds(self.to / 1e6))
    }
}

/// A role's last batch: its epoch, and when it was done.
type Last = Option<(u32, u64)>;

/// The run's time axis, from the beginning of the first batch. The sittings of a resumed run follow one another.
#[derive(Clone, Debug)]
pub struct Timeline {
    windows: Stretches<Window>,
    /// The last batch of each sampler, the producer and the consumer.
    last: Vec<Last>,
    /// The clock at the beginning of this sitting; `None` before its first batch.
    origin: Option<u64>,
    /// The position on the axis where this sitting begins.
    begin: u64,
    /// The position where the last batch ended.
    end: u64,
    /// The positions where later sittings began.
    resumed: Vec<u64>,
}

impl Timeline {
    /// An empty timeline for a run with `samplers` samplers.
    pub fn new(samplers: usize) -> Self {
        Self {
            windows: Stretches::new(MOST),
            last: vec![None; samplers + 2],
            origin: None,
            begin: 0,
            end: 0,
            resumed: Vec::new(),
        }
    }

    /// Starts another sitting, with this number of samplers and another origin of its clock.
    pub fn resume(&mut self, samplers: usize) {
        // The marks of thousands of sittings would cover the picture.
        if self.end > 0 && self.resumed.len() < 100 {
            self.resumed.push(self.end);
        }
        (self.begin, self.origin) = (self.end, None);
        self.last = vec![None; samplers + 2];
    }

    /// Adds a batch, in the order of training.
    pub fn take(&mut self, batch: &BatchEvent) {
        let stages = [
            (batch.sample_at_us, batch.sample_us),
            (batch.gather_at_us, batch.gather_us),
            (batch.train_at_us, batch.train_us),
        ];
        let origin = *self.origin.get_or_insert(stages[SAMPLER].0);
        // On the axis, time never goes backwards, even if the clock does.
        let place = |at: u64| self.begin.saturating_add(at.saturating_sub(origin));
        let stages = stages.map(|(at, took)| (place(at), place(at.saturating_add(took))));
        let samplers = self.samplers();
        let sampler = batch.sampler as usize;
        // A sampler number that the run does not have has no last batch.
        let places = [if sampler < samplers { sampler } else { usize::MAX }, samplers, samplers + 1];
        let ready = [u64::MIN, stages[SAMPLER].1, stages[PRODUCER].1];
        let share = [1.0 / samplers.max(1) as f64, 1.0, 1.0];
        let took = [SAMPLER, PRODUCER, CONSUMER]
            .map(|role| self.work(role, places[role], batch.epoch, stages[role], ready[role], share[role]));
        let took = took[CONSUMER];

        let cache = batch.cache.unwrap_or_default();
        let counts =
            [cache.list_reads, cache.list_hits, cache.rows, cache.row_hits].map(|count| count as f64);
        self.windows.spread(took.0, took.1, |window, share| {
            window.batches += share;
            window.cache.iter_mut().zip(counts).for_each(|(sum, count)| *sum += share * count);
        });
    }

    /// Records that a role worked from one moment to another, on a batch that was ready for it at `ready`. The role
    /// waited from its last batch of the epoch until then. Returns the time from that batch on.
    fn work(
        &mut self,
        role: usize,
        place: usize,
        epoch: u32,
        (from, to): (u64, u64),
        ready: u64,
        share: f64,
    ) -> (u64, u64) {
        let before = self.last.get(place).copied().flatten();
        // GPU work is reported in device time, where two batches may overlap slightly.
        let from = before.map_or(from, |(_, end)| from.max(end));
        let to = to.max(from);
        let since = before.filter(|(of, _)| *of == epoch).map_or(from, |(_, end)| end);
        let ready = ready.clamp(since, from);
        self.put(role, WAITING_INPUT, since, ready, share);
        // The consumer has no output that it could wait for.
        let then = if role == CONSUMER { WORKING } else { WAITING_OUTPUT };
        self.put(role, then, ready, from, share);
        self.put(role, WORKING, from, to, share);
        if let Some(last) = self.last.get_mut(place) {
            *last = Some((epoch, to));
        }
        self.end = self.end.max(to);
        (since, to)
    }

    fn put(&mut self, role: usize, doing: usize, from: u64, to: u64, weight: f64) {
        if to > from {
            let whole = weight * (to - from) as f64;
            self.windows.spread(from, to, |window, share| window.spent[role][doing] += share * whole);
        }
    }

    /// The number of samplers in the last sitting.
    pub fn samplers(&self) -> usize {
        self.last.len() - 2
    }

    /// Microseconds from the first batch's beginning to the end of the last.
    pub fn length(&self) -> u64 {
        self.end
    }

    /// The positions where sittings after the first began.
    pub fn resumed(&self) -> &[u64] {
        &self.resumed
    }

    /// At most `wanted` stretches of equal width; the last ends with the run.
    pub fn stretches(&self, wanted: usize) -> Vec<Stretch> {
        let (width, windows) = self.windows.at_most(wanted);
        let stretch = |(index, window)| {
            let from = (index as u64).saturating_mul(width);
            let to = from.saturating_add(width).min(self.end).max(from.saturating_add(1));
            Stretch { from: from as f64, to: to as f64, window }
        };
        windows.into_iter().enumerate().map(stretch).collect()
    }

    /// The whole axis as one stretch; `None` before the first batch.
    pub fn whole(&self) -> Option<Stretch> {
        self.stretches(1).pop()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A batch by when its three stages begin and how long they take.
    fn batch(epoch: u32, sampler: u32, stages: [(u64, u64); 3]) -> BatchEvent {
        let [(sample_at_us, sample_us), (gather_at_us, gather_us), (train_at_us, train_us)] = stages;
        let text = r#"{"epoch":0,"batch":0,"hash":"","seeds":1,"input_nodes":100,"edges":[1],"sample_us":0,
            "gather_us":0,"train_us":0}"#;
        let event: BatchEvent = serde_json::from_str(text).unwrap();
        BatchEvent {
            epoch,
            sampler,
            sample_at_us,
            sample_us,
            gather_at_us,
            gather_us,
            train_at_us,
            train_us,
            ..event
        }
    }

    /// Sums of shares are as exact as floats are.
    fn rounded<const N: usize>(values: [f64; N]) -> [f64; N] {
        values.map(|value| (1e6 * value).round() / 1e6)
    }

    #[test]
    fn a_role_waits_for_what_was_not_there_when_its_last_batch_was_done() {
        let mut timeline = Timeline::new(1);
        timeline.take(&batch(0, 0, [(1000, 10), (1010, 20), (1030, 40)]));
        // The sampler has a slot at 1040. The producer, done at 1030, has the batch at 1060, a slot at 1065.
        // Gathered at 1075, when the consumer has been done for 5; it turns to it at 1080.
        timeline.take(&batch(0, 0, [(1040, 20), (1065, 10), (1080, 20)]));
        let whole = timeline.whole().unwrap();
        assert_eq!(timeline.length(), 100);
        assert_eq!(rounded(whole.window.spent[SAMPLER]), [30.0, 0.0, 30.0]);
        assert_eq!(rounded(whole.window.spent[PRODUCER]), [30.0, 30.0, 5.0]);
        assert_eq!(rounded(whole.window.spent[CONSUMER]), [65.0, 5.0, 0.0]);
        assert_eq!(rounded([whole.window.batches]), [2.0]);
        assert_eq!(rounded(whole.shares(PRODUCER)), [0.3, 0.3, 0.05]);
        // Two batches in 70 microseconds of training.
        assert!((whole.speed().unwrap() - 2e6 / 70.0).abs() < 1e-6);
        assert_eq!(Stretch { window: Window::default(), ..whole }.speed(), None);
        assert!(Timeline::new(1).whole().is_none());
    }

    #[test]
    fn windows_divide_spans_that_cross_them() {
        let mut timeline = Timeline::new(1);
        timeline.take(&batch(0, 0, [(0, 512), (512, 256), (768, 1280)]));
        let stretches = timeline.stretches(4);
        let ends: Vec<f64> = stretches.iter().map(|stretch| stretch.to).collect();
        assert_eq!(ends, [512.0, 1024.0, 1536.0, 2048.0]);
        assert_eq!(Stretch { from: 2e6, to: 4.5e6, ..stretches[0] }.time(), "2.00 s to 4.50 s");
        let windows: Vec<Window> = stretches.iter().map(|stretch| stretch.window).collect();
        let working =
            |role: usize| rounded([0, 1, 2, 3].map(|place: usize| windows[place].spent[role][WORKING]));
        assert_eq!(working(SAMPLER), [512.0, 0.0, 0.0, 0.0]);
        assert_eq!(working(PRODUCER), [0.0, 256.0, 0.0, 0.0]);
        assert_eq!(working(CONSUMER), [0.0, 256.0, 512.0, 512.0]);
        let batches = [0, 1, 2, 3].map(|place: usize| windows[place].batches);
        assert_eq!(rounded(batches), [0.0, 0.2, 0.4, 0.4]);
    }

    #[test]
    fn the_mean_of_several_samplers_is_shown() {
        let mut timeline = Timeline::new(2);
        timeline.take(&batch(0, 0, [(0, 40), (40, 1), (41, 1)]));
        timeline.take(&batch(0, 1, [(0, 60), (60, 1), (61, 1)]));
        timeline.take(&batch(0, 0, [(50, 50), (100, 1), (101, 1)]));
        assert_eq!(rounded(timeline.whole().unwrap().window.spent[SAMPLER]), [75.0, 0.0, 5.0]);
    }

    #[test]
    fn between_two_epochs_nothing_is_known() {
        let mut timeline = Timeline::new(1);
        timeline.take(&batch(0, 0, [(0, 10), (10, 10), (20, 10)]));
        timeline.take(&batch(1, 0, [(50, 10), (60, 10), (70, 10)]));
        assert_eq!(timeline.whole().unwrap().window.spent.map(rounded), [[20.0, 0.0, 0.0]; 3]);
        assert_eq!(timeline.length(), 80);
    }

    #[test]
    fn a_session_after_a_resume_follows_the_last_whatever_its_clock() {
        let mut timeline = Timeline::new(1);
        timeline.take(&batch(0, 0, [(9000, 10), (9010, 10), (9020, 10)]));
        timeline.resume(1);
        timeline.take(&batch(0, 0, [(7, 10), (17, 10), (27, 10)]));
        assert_eq!((timeline.length(), timeline.resumed()), (60, &[30][..]));
        assert_eq!(timeline.whole().unwrap().window.spent.map(rounded), [[20.0, 0.0, 0.0]; 3]);
    }

    #[test]
    fn clocks_that_make_no_sense_end_nothing() {
        let mut timeline = Timeline::new(1);
        for at in [5, u64::MAX, 0, 17] {
            timeline.take(&batch(0, 3, [(at, u64::MAX), (at, 7), (at / 2, u64::MAX)]));
        }
        assert!(timeline.stretches(50).len() <= 50);
    }
}
