//! The trial, in the run itself, of the place where the first layer is aggregated.
//!
//! A training batch has the same effect in both ways. A run with a choice therefore tries both in its first training
//! batches, and continues with the faster one. The stages run concurrently, and the slowest determines the speed, so
//! batches per second are compared, and not the work of each way.
//!
//! The run's training batches are numbered from 0, through all epochs. After a warm-up there are up to three *rounds*
//! of four *windows*: rows, sums, sums, rows. A steady drift affects both ways equally. A batch's number determines its
//! way, so each role computes it ([`Windows`]).
//!
//! The consumer times the windows ([`SumsTrial`]). Each counted batch follows as many batches of its window and of its
//! epoch as there are slots. A counted batch can therefore be delayed only by batches of that window, and not by an
//! evaluation. If epochs are too short for that, they are timed as a whole, with the work between them, which is the
//! same for both ways. When a round ends, the consumer chooses if the ways differ by more than the windows of one way.
//! After the last round it chooses in any case. A search among the shares between both ways follows (`sums_chooser`).

use std::time::Duration;

use crate::options::schedule::Schedule;
use crate::plan::RunPlan;
use crate::tune::sums_climb::ROUND;

/// Number of rounds after which the choice is made in any case. An additional round costs little if the ways are that
/// close.
const MOST_ROUNDS: u64 = 3;

/// Minimum number of counted batches of a window.
const LEAST_COUNTED: u64 = 16;

/// Minimum share of a window's batches that must be timed. Pauses at the end of an epoch may exclude the others.
const LEAST_TIMED: f64 = 0.25;

/// Minimum number of batches of a run, in rounds. The slower way takes half of a round; if it takes one and a half
/// times as long, a round costs a twentieth of five rounds' time.
const ROUNDS_THAT_PAY: u64 = 5;

/// Minimum saving by the producer's sums, as a share of a batch's time: a run may be slower than the best way by a
/// twentieth, and windows of equal ways differ by as much.
const LEAST_GAIN: f64 = 0.05;

/// The assignment of a run's training batches to the ways of the trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Windows {
    /// Batches that may be in flight when the way changes: the slots of all rings.
    settling: u64,
    /// Batches of a window after the settling ones.
    counted: u64,
    /// Whether windows are whole epochs, and pauses between epochs are timed.
    whole_epochs: bool,
}

impl Windows {
    /// The windows of a run with this plan.
    #[must_use]
    pub fn of(plan: &RunPlan) -> Self {
        let slots = plan.options.all_feature_slots() + plan.batch_slots();
        Self::with(slots as u64, plan.schedule.train_batches())
    }

    /// The windows of a run with `slots` slots in total and `epoch` training batches per epoch.
    pub(crate) fn with(slots: u64, epoch: u64) -> Self {
        let counted = (2 * slots).max(LEAST_COUNTED);
        if epoch == 0 || epoch > 2 * slots {
            return Self { settling: slots, counted, whole_epochs: false };
        }
        Self {
            settling: slots.next_multiple_of(epoch),
            counted: counted.next_multiple_of(epoch),
            whole_epochs: true,
        }
    }

    /// Whether windows are whole epochs, and pauses between epochs are timed.
    pub(crate) fn whole_epochs(self) -> bool {
        self.whole_epochs
    }

    /// Batches that may be in flight when the way changes.
    pub(crate) fn settling(self) -> u64 {
        self.settling
    }

    /// Batches of a window after the settling ones.
    pub(crate) fn counted(self) -> u64 {
        self.counted
    }

    /// The number of windows in this many batches.
    pub(crate) fn windows_in(self, batches: u64) -> f64 {
        batches as f64 / self.window() as f64
    }

    fn window(self) -> u64 {
        self.settling + self.counted
    }

    fn round(self) -> u64 {
        self.window() * ROUND.len() as u64
    }

    /// The window of a training batch, counted through all rounds, and its place in the window. `None` in the warm-up,
    /// which is as long as a window, and after the last round.
    fn place(self, number: u64) -> Option<(u64, u64)> {
        let tried = number.checked_sub(self.window())?;
        (tried < MOST_ROUNDS * self.round()).then(|| (tried / self.window(), tried % self.window()))
    }

    /// Number of whole rounds before a training batch.
    fn rounds_before(self, number: u64) -> u64 {
        number.saturating_sub(self.window()) / self.round()
    }

    /// Whether this training batch is to be tried with sums.
    pub(crate) fn tries_sums(self, number: u64) -> bool {
        self.place(number).is_some_and(|(window, _)| ROUND[window as usize % ROUND.len()])
    }

    /// The reason why a run with this schedule does not try, if it should not.
    #[must_use]
    pub fn obstacle(self, schedule: &Schedule) -> Option<String> {
        let batches = schedule.training_left();
        let enough = self.window() + ROUNDS_THAT_PAY * self.round();
        (batches < enough).then(|| {
            format!(
                "the run has {batches} training batches, and from {enough} on it pays to try whether the producer should \
                 sum; `aggregate=host` lets it"
            )
        })
    }
}

/// The result of a trial.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TrialResult {
    /// Whether the producer sums from now on.
    pub sums: bool,
    /// The reason, with both speeds.
    pub reason: String,
    /// Batches per second without sums of the producer, and with them: medians of the windows. `None` if no batch was
    /// timed.
    pub batches_per_second: Option<[f64; 2]>,
    /// Number of timed batches.
    pub batches: u64,
}

/// The consumer's timings.
#[derive(Debug)]
pub(crate) struct SumsTrial {
    windows: Windows,
    /// Seconds and timed batches of each window.
    timed: Vec<(f64, u64)>,
    /// Number of judged rounds.
    judged: u64,
    /// Number of batches to be tried with sums, and of those among them that were summed.
    tried: u64,
    summed: u64,
    last: Option<TrialBatch>,
}

/// A training batch that the consumer took.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TrialBatch {
    /// Its sequence number.
    pub sequence: u64,
    /// Its number among the run's training batches.
    pub number: u64,
    /// Its number in its epoch.
    pub in_epoch: u64,
    /// Whether the producer summed it.
    pub summed: bool,
    /// The time at which it was taken, by any clock.
    pub at: Duration,
}

impl SumsTrial {
    pub fn new(windows: Windows) -> Self {
        let windows_in_all = MOST_ROUNDS as usize * ROUND.len();
        Self { windows, timed: vec![(0.0, 0); windows_in_all], judged: 0, tried: 0, summed: 0, last: None }
    }

    /// Notes that the consumer takes this batch now. Returns the result when the trial ends.
    pub fn taken(&mut self, batch: TrialBatch) -> Option<TrialResult> {
        if let Some(before) = self.last.replace(batch) {
            self.time(before, batch);
        }
        if self.windows.tries_sums(batch.number) {
            self.tried += 1;
            self.summed += u64::from(batch.summed);
        }
        let rounds = self.windows.rounds_before(batch.number);
        if rounds <= self.judged {
            return None;
        }
        self.judged = rounds;
        self.choose(rounds >= MOST_ROUNDS)
    }

    /// Adds the time of a batch, up to the next one of its window, if enough batches of the window come before it, and,
    /// unless whole epochs are timed, enough of its epoch.
    fn time(&mut self, batch: TrialBatch, next: TrialBatch) {
        let places = [batch, next].map(|batch| self.windows.place(batch.number));
        let [Some((window, at)), Some((next_window, _))] = places else { return };
        let Windows { settling, whole_epochs, .. } = self.windows;
        // The transition into whole epochs counts, and that out of them does not, so there are as many pauses as
        // epochs.
        let settled = if whole_epochs { at + 1 >= settling } else { at.min(batch.in_epoch) >= settling };
        let follows =
            next.number == batch.number + 1 && (whole_epochs || next.in_epoch == batch.in_epoch + 1);
        if settled && follows && window == next_window {
            let (seconds, batches) = &mut self.timed[window as usize];
            *seconds += next.at.saturating_sub(batch.at).as_secs_f64();
            *batches += 1;
        }
    }

    /// The choice by the timings so far; `None` if further rounds must decide.
    fn choose(&self, last: bool) -> Option<TrialResult> {
        let batches = self.timed.iter().map(|(_, batches)| batches).sum();
        let choice = |sums, reason: String, batches_per_second| {
            Some(TrialResult { sums, reason, batches_per_second, batches })
        };
        if self.summed == 0 && self.tried > 0 {
            let reason = "the trainer multiplies rows by the weights before it sums: summing first would cost more, and \
                          change losses in their last digits";
            return choice(false, reason.to_owned(), None);
        }
        let least = (self.windows.counted as f64 * LEAST_TIMED).max(1.0);
        let [off, host] = [false, true].map(|sums| {
            let mut times: Vec<f64> = (self.timed.iter().zip(ROUND.iter().cycle()))
                .filter(|((_, batches), way)| **way == sums && *batches as f64 >= least)
                .map(|((seconds, batches), _)| seconds / *batches as f64)
                .collect();
            times.sort_by(f64::total_cmp);
            times
        });
        match judge(&off, &host) {
            Some(judged) if last || judged.is_clear => {
                let [off, host] = judged.seconds.map(f64::recip);
                choice(judged.sums(), judged.reason(), Some([off, host]))
            }
            None if last => choice(false, "too few batches followed each other to be timed".to_owned(), None),
            _ => None,
        }
    }
}

/// The comparison of windows.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Judged {
    /// Seconds per batch without sums of the producer and with them: medians.
    seconds: [f64; 2],
    /// Whether the ways differ by more than the windows of one way.
    is_clear: bool,
}

/// Compares seconds per batch of windows, in ascending order. `None` unless each way has at least two windows.
fn judge(off: &[f64], host: &[f64]) -> Option<Judged> {
    let [_, .., _] = off else { return None };
    let [_, .., _] = host else { return None };
    let spread = |times: &[f64]| times[times.len() - 1] - times[0];
    let apart = (host[0] - off[off.len() - 1]).max(off[0] - host[host.len() - 1]);
    let seconds = [off, host].map(|times| (times[(times.len() - 1) / 2] + times[times.len() / 2]) / 2.0);
    let [least, most] = [seconds[0].min(seconds[1]), seconds[0].max(seconds[1])];
    let is_clear = apart > spread(off).max(spread(host)) && least <= (1.0 - LEAST_GAIN) * most;
    Some(Judged { seconds, is_clear })
}

impl Judged {
    fn sums(&self) -> bool {
        let [off, host] = self.seconds;
        host <= (1.0 - LEAST_GAIN) * off
    }

    fn reason(&self) -> String {
        let [off, host] = self.seconds.map(|seconds| speed(seconds.recip()));
        let choice = match self.seconds {
            _ if self.sums() => "the producer sums",
            [off, host] if host < off => "the consumer sums, since that gains less than 5 %",
            _ => "the consumer sums",
        };
        format!("{host} batches/s where the producer sums, {off} where the consumer does: {choice}")
    }
}

/// A speed with at least two significant digits.
pub(crate) fn speed(rate: f64) -> String {
    if rate >= 100.0 {
        format!("{rate:.0}")
    } else if rate >= 10.0 {
        format!("{rate:.1}")
    } else {
        format!("{rate:.2}")
    }
}

#[cfg(test)]
mod tests {
    use uva_graph::Split;
    use uva_sample::BatchKey;

    use super::*;
    use crate::options::part::Part;
    use crate::options::{Cursor, Passes};

    /// Ten slots, so windows of 30 batches, of which 20 count.
    const WINDOWS: Windows = Windows { settling: 10, counted: 20, whole_epochs: false };

    /// A run with epochs of `epoch` batches. `seconds` returns the time of a batch, by its number and by whether the
    /// producer sums it. Pauses at the end of each epoch take 1000 seconds. Returns the choice, and the number of the
    /// batch at which it was made.
    fn run(epoch: u64, seconds: &dyn Fn(u64, bool) -> f64) -> Option<(TrialResult, u64)> {
        let mut trial = SumsTrial::new(WINDOWS);
        let mut now = 0.0;
        (0..1000).find_map(|number| {
            let summed = WINDOWS.tries_sums(number);
            let at = Duration::from_secs_f64(now);
            let choice =
                trial.taken(TrialBatch { sequence: number, number, in_epoch: number % epoch, summed, at });
            now += seconds(number, summed) + if (number + 1) % epoch == 0 { 1000.0 } else { 0.0 };
            choice.map(|choice| (choice, number))
        })
    }

    /// Noise between −1 and 1, the same for each run of the tests.
    fn noise(number: u64) -> f64 {
        (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as f64 / f64::from(1 << 23) - 1.0
    }

    #[test]
    fn a_clear_difference_decides_after_one_round_by_the_pace_of_the_run() {
        for (host, sums) in [(0.5, true), (2.0, false), (0.9, true), (1.1, false)] {
            let (choice, number) = run(10_000, &|_, summed| if summed { host } else { 1.0 }).unwrap();
            assert_eq!((choice.sums, number), (sums, 30 + 4 * 30), "{choice:?}");
            let [off, with_sums] = choice.batches_per_second.unwrap();
            assert!((off - 1.0).abs() < 1e-9 && (with_sums - 1.0 / host).abs() < 1e-9, "{choice:?}");
            // Each of the four windows has 20 batches that count, and the last of them is not timed.
            assert_eq!(choice.batches, 4 * 19);
            assert!(choice.reason.contains(if sums { "the producer sums" } else { "the consumer sums" }));
        }
    }

    #[test]
    fn ways_within_a_twentieth_stay_with_the_consumer_after_the_last_round() {
        for (host, part) in
            [(1.0, "the consumer sums"), (0.96, "gains less than 5 %"), (1.04, "the consumer")]
        {
            let (choice, number) = run(10_000, &|_, summed| if summed { host } else { 1.0 }).unwrap();
            assert_eq!((choice.sums, number), (false, 30 + 3 * 4 * 30));
            assert!(choice.reason.contains(part), "{}", choice.reason);
        }
    }

    #[test]
    fn noise_requires_further_rounds_and_does_not_change_the_choice() {
        // Windows are slower by up to a half, by chance; and the ways differ by a quarter.
        for (host, sums) in [(0.75, true), (1.25, false)] {
            let seconds = |number: u64, summed: bool| {
                let window = number.checked_sub(30).map_or(0, |tried| tried / 30);
                (1.0 + 0.25 * noise(window)) * if summed { host } else { 1.0 }
            };
            let (choice, number) = run(10_000, &seconds).unwrap();
            assert_eq!(choice.sums, sums, "{choice:?}");
            assert!(number > 30 + 4 * 30, "{number}");
        }
        // Single batches show no difference.
        let (choice, _) =
            run(10_000, &|number, summed| (1.0 + 0.5 * noise(number)) * if summed { 0.8 } else { 1.0 })
                .unwrap();
        assert!(choice.sums, "{choice:?}");
    }

    #[test]
    fn a_steady_drift_counts_for_both_ways() {
        // Each batch is faster than the one before. Sums, in the middle of a round, must not gain by that.
        for drift in [0.001, -0.001] {
            let seconds =
                |number: u64, summed: bool| (1.0 + drift * number as f64) * if summed { 0.97 } else { 1.0 };
            let (choice, _) = run(10_000, &seconds).unwrap();
            assert!(!choice.sums, "{choice:?}");
        }
    }

    #[test]
    fn batches_in_flight_at_a_change_and_pauses_between_epochs_do_not_count() {
        // After a change of the way the slots still contain batches of the other way.
        let seconds = |number: u64, summed: bool| {
            let settled = number < 30 || number % 30 >= 10;
            match (settled, summed) {
                (false, _) => 100.0,
                (true, true) => 0.5,
                (true, false) => 1.0,
            }
        };
        for epoch in [10_000, 45, 20] {
            let (choice, _) = run(epoch, &seconds).unwrap();
            let [off, host] = choice.batches_per_second.unwrap();
            assert!((off - 1.0).abs() < 1e-9 && (host - 2.0).abs() < 1e-9, "{epoch}: {choice:?}");
        }
    }

    #[test]
    fn a_run_over_before_anything_is_timed_stays_with_the_consumer() {
        let (choice, number) = run(10, &|_, summed| if summed { 0.5 } else { 1.0 }).unwrap();
        assert_eq!((choice.sums, choice.batches, choice.batches_per_second), (false, 0, None));
        assert_eq!(number, 30 + 3 * 4 * 30);
        assert!(choice.reason.contains("too few"), "{}", choice.reason);
    }

    #[test]
    fn epochs_of_at_most_twice_as_many_batches_as_slots_are_timed_whole() {
        let of_long = Windows { settling: 10, counted: 20, whole_epochs: false };
        assert_eq!([Windows::with(10, 21), Windows::with(10, 0)], [of_long; 2]);
        for (epoch, settling, counted) in [(20, 20, 20), (19, 19, 38), (7, 14, 21), (1, 10, 20)] {
            assert_eq!(Windows::with(10, epoch), Windows { settling, counted, whole_epochs: true });
        }
        // Epochs of seven batches, with a pause of three seconds after each. A run that was resumed begins within one.
        for (host, sums, first) in [(0.5, true, 0), (2.0, false, 0), (0.5, true, 3)] {
            let windows = Windows::with(10, 7);
            let mut trial = SumsTrial::new(windows);
            let mut now = 0.0;
            let choice = (0..1000_u64).find_map(|number| {
                let (summed, in_epoch) = (windows.tries_sums(number), (first + number) % 7);
                let at = Duration::from_secs_f64(now);
                let choice = trial.taken(TrialBatch { sequence: number, number, in_epoch, summed, at });
                now += if summed { host } else { 1.0 } + if in_epoch == 6 { 3.0 } else { 0.0 };
                choice
            });
            let choice = choice.unwrap();
            assert_eq!(choice.sums, sums, "{choice:?}");
            // 21 batches of a window of 35 are timed, which are three epochs with the pause after each.
            let expected = [1.0, host].map(|batch| 21.0 / (21.0 * batch + 3.0 * 3.0));
            for (found, expected) in choice.batches_per_second.unwrap().into_iter().zip(expected) {
                assert!((found - expected).abs() < 1e-9, "{first}: {found} {expected}");
            }
        }
    }

    #[test]
    fn where_no_batch_may_be_summed_the_first_round_says_so() {
        let mut trial = SumsTrial::new(WINDOWS);
        let mut taken = |number: u64, summed| {
            let at = Duration::from_secs(number);
            trial.taken(TrialBatch { sequence: number, number, in_epoch: number, summed, at })
        };
        assert!((0..150).all(|number| taken(number, false).is_none()));
        let choice = taken(150, false).unwrap();
        assert_eq!((choice.sums, choice.batches_per_second), (false, None));
        assert!(choice.reason.contains("multiplies"), "{}", choice.reason);
    }

    #[test]
    fn windows_alternate_after_a_warm_up_and_end() {
        let summed: Vec<u64> = (0..1000).filter(|&number| WINDOWS.tries_sums(number)).collect();
        let expected = (0..3).flat_map(|round| (0..60).map(move |at| 30 + round * 120 + 30 + at));
        assert!(summed.into_iter().eq(expected));
    }

    #[test]
    fn runs_too_short_for_it_try_nothing_and_say_how_long_is_enough() {
        let schedule = |epochs, start: Cursor, train| {
            let passes = Passes { epochs, start, ..Passes::default() };
            Schedule::new(passes, Part::default(), [train, 3, 3])
        };
        let from = |epoch, batch| Cursor { epoch, batch };
        // A warm-up of 30 batches, and five rounds of 120.
        for (schedule, part) in [
            (schedule(1, from(0, 0), 629), Some("629 training batches, and from 630 on")),
            (schedule(1, from(0, 0), 630), None),
            (schedule(7, from(0, 0), 90), None),
            (schedule(7, from(0, 1), 90), Some("629 training")),
            (schedule(9, from(2, 0), 90), None),
            (schedule(9, from(3, 0), 90), Some("540 training")),
        ] {
            let obstacle = WINDOWS.obstacle(&schedule);
            assert_eq!(obstacle.is_some(), part.is_some(), "{obstacle:?}");
            assert!(obstacle.unwrap_or_default().contains(part.unwrap_or_default()));
        }
    }

    #[test]
    fn training_batches_are_numbered_from_where_the_run_starts_in_each_part() {
        let passes = Passes { epochs: 9, start: Cursor { epoch: 2, batch: 3 }, ..Passes::default() };
        let number = |part, epoch, batch| {
            let schedule = Schedule::new(passes, part, [40, 0, 0]);
            schedule.training_number(BatchKey { split: Split::Train, epoch, batch })
        };
        let whole = Part::default();
        assert_eq!([number(whole, 2, 3), number(whole, 2, 39), number(whole, 3, 0)], [0, 36, 37]);
        // Batches 1, 5, 9, … of each epoch.
        let part = Part { index: 1, of: 4 };
        assert_eq!([number(part, 2, 13), number(part, 2, 37), number(part, 3, 1)], [0, 6, 7]);
    }
}
