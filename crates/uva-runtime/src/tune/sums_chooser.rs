//! The consumer's choice of the share of batches that the producer sums: first the trial of both pure ways, then the
//! search among the shares between them, by the times of windows in the run.
//!
//! The windows of the search are not known beforehand. The consumer therefore writes each change of the share, like the
//! trial's choice, to the control page with the first sequence number to which it applies. The slot of that batch is
//! free only after the store, so the role that fills it reads the change in time. The page also has the share before
//! the change, for batches of smaller numbers. The next change follows only after a batch beyond the last change has
//! been taken, so older shares are not needed.

use uva_batch::BatchHeader;
use uva_graph::Split;
use uva_ops::lists::projects_first;
use uva_sample::{BatchKey, BlockSize};

use crate::control::Control;
use crate::options::{LoaderOptions, Prepare};
use crate::plan::RunPlan;
use crate::tune::sums_climb::{Climb, ClimbStep};
use crate::tune::sums_share::SumsShare;
use crate::tune::sums_trial::{SumsTrial, TrialBatch, TrialResult, Windows, speed};

/// Whether a producer that chooses batch by batch sums the batch of this header and sequence number. It does not sum if
/// the trainer would multiply before it sums, since losses would differ in their last digits.
pub(crate) fn sums_batch(plan: &RunPlan, control: &Control, sequence: u64, header: &BatchHeader) -> bool {
    let Some(outputs) = plan.options.sums_chosen_for else { return false };
    let block = header.outermost();
    let inputs = plan.layout.dim();
    if projects_first(block.destinations, block.sources, block.edges, inputs, outputs, false) {
        return false;
    }
    if plan.options.sums_by_counts {
        return sums_take_less(block);
    }
    let key = header.key();
    let number = (key.split == Split::Train).then(|| plan.schedule.training_number(key));
    way_of(control, Windows::of(plan), &plan.options, sequence, number)
}

/// Whether it is likely less work for the CPU to sum while rows are read than to gather the rows of all nodes and sum
/// those. That is so if at most one and a half times as many rows are read. Measured time of sage's sums while reading
/// over that of both steps, by rows read over nodes, on power-law and citation graphs of a million nodes with 100
/// float32 features: 1.1: 0.93, 1.3: 0.79 and 0.85, 1.7: 0.99, 2.7: 1.07, 4.2: 1.11.
fn sums_take_less(block: BlockSize) -> bool {
    2 * (block.edges + block.destinations) <= 3 * block.sources
}

/// Whether the batch of this sequence number is to be summed; for a training batch, with its number among the training
/// batches.
fn way_of(
    control: &Control,
    windows: Windows,
    options: &LoaderOptions,
    sequence: u64,
    number: Option<u64>,
) -> bool {
    match control.parts_summed(sequence) {
        Some(summed) => {
            // Workers are the parts themselves. Those of a producer are parts of the training batches, independent of
            // other batches between them.
            let place = match options.prepare {
                Prepare::Roles => number.unwrap_or(sequence),
                Prepare::Whole => sequence,
            };
            SumsShare::new(summed, SumsShare::parts(options)).has(place)
        }
        None => number.is_some_and(|number| windows.tries_sums(number)),
    }
}

/// The choice of a run, with its reason.
#[derive(Clone, Debug, PartialEq)]
pub struct SumsChoice {
    /// The share of the batches that the producer sums from now on, except for batches that try another share.
    pub share: SumsShare,
    /// The reason, with both speeds.
    pub reason: String,
    /// Batches per second with the two compared shares: medians of the windows. `None` if no batch was timed.
    pub batches_per_second: Option<[(SumsShare, f64); 2]>,
    /// Number of timed batches.
    pub batches: u64,
    /// The first training batch to which it applies; `None` if none is left.
    pub from: Option<BatchKey>,
}

/// The consumer's action after it has taken a batch.
#[derive(Debug)]
pub(crate) struct SumsDecision {
    /// The share that takes effect as soon as possible.
    pub share: SumsShare,
    /// The result to report, if any. The choice then applies from the same batch on.
    pub choice: Option<SumsChoice>,
}

/// The trial, followed by the search.
#[derive(Debug)]
pub(crate) struct SumsChooser {
    windows: Windows,
    /// Number of parts of the batches.
    parts: u32,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    Trying(SumsTrial),
    Searching(Climb, Window),
    /// Ended: no batch could be timed, or summed.
    Over,
}

impl SumsChooser {
    /// Creates the chooser at the beginning of a run whose batches have `parts` parts.
    pub fn new(windows: Windows, parts: u32) -> Self {
        Self { windows, parts, stage: Stage::Trying(SumsTrial::new(windows)) }
    }

    /// Notes that the consumer takes this training batch now. The run has `left` training batches after it. A share
    /// that is decided now takes effect with the sequence number `from`.
    pub fn taken(&mut self, batch: TrialBatch, left: u64, from: u64) -> Option<SumsDecision> {
        let (windows, parts) = (self.windows, self.parts);
        let left = windows.windows_in(left);
        match &mut self.stage {
            Stage::Over => None,
            Stage::Trying(trial) => {
                let TrialResult { sums, reason, batches_per_second, batches } = trial.taken(batch)?;
                let pure = [0, parts].map(|summed| SumsShare::new(summed, parts));
                self.stage = match batches_per_second {
                    None => Stage::Over,
                    Some(speeds) => {
                        let climb = Climb::new(parts, sums, speeds.map(f64::recip), left);
                        Stage::Searching(climb, Window::new(windows, parts, from))
                    }
                };
                let batches_per_second =
                    batches_per_second.map(|[off, host]| [(pure[0], off), (pure[1], host)]);
                let share = pure[usize::from(sums)];
                let choice = SumsChoice { share, reason, batches_per_second, batches, from: None };
                Some(SumsDecision { share, choice: Some(choice) })
            }
            Stage::Searching(climb, window) => {
                let seconds = window.taken(batch)?;
                let of_window = climb.next_window();
                let choice = climb.measured(seconds, left).map(|step| told(step, parts, window.wanted));
                let next = climb.next_window();
                if next == of_window {
                    window.measure_again();
                    return None;
                }
                *window = Window::new(windows, parts, from);
                Some(SumsDecision { share: SumsShare::new(next, parts), choice })
            }
        }
    }
}

/// The report of a step of the search, from windows of `batches` batches.
fn told(step: ClimbStep, parts: u32, batches: u64) -> SumsChoice {
    let ClimbStep { parts: summed, seconds, windows } = step;
    let [before, share] = summed.map(|summed| SumsShare::new(summed, parts));
    let [slower, faster] = seconds.map(f64::recip);
    let reason = format!(
        "{} batches/s where {}, {} where {}: {}",
        speed(faster),
        share.sentence(),
        speed(slower),
        before.sentence(),
        share.sentence()
    );
    let batches_per_second = Some([(before, slower), (share, faster)]);
    SumsChoice { share, reason, batches_per_second, batches: batches * windows as u64, from: None }
}

/// The timing of a share's batches, by the times at which the consumer takes them. Each counted batch follows as many
/// batches of the share and of its epoch as there are slots, and batches of all parts count equally often. Otherwise
/// whole epochs are timed.
#[derive(Debug)]
struct Window {
    settling: u64,
    whole_epochs: bool,
    /// Batches of a period.
    parts: u64,
    /// Number of batches to time, in whole periods.
    wanted: u64,
    /// The first sequence number of the share.
    from: u64,
    /// Training batches of the share that have been taken.
    taken: u64,
    last: Option<TrialBatch>,
    /// Seconds and batches, of whole periods and of the incomplete one.
    timed: (f64, u64),
    period: (f64, u64),
}

impl Window {
    fn new(windows: Windows, parts: u32, from: u64) -> Self {
        let whole_epochs = windows.whole_epochs();
        let parts = u64::from(parts);
        let (parts, wanted) = if whole_epochs {
            // Counted batch by batch, so that each window has the same number of pauses, and of batches of each part.
            let counted = windows.counted();
            (1, (1..=parts).map(|times| times * counted).find(|all| all % parts == 0).unwrap_or(counted))
        } else {
            (parts, windows.counted().next_multiple_of(parts))
        };
        let nothing = (0.0, 0);
        Self {
            settling: windows.settling(),
            whole_epochs,
            parts,
            wanted,
            from,
            taken: 0,
            last: None,
            timed: nothing,
            period: nothing,
        }
    }

    /// Begins another window of the same share. Batches of other shares are no longer in flight.
    fn measure_again(&mut self) {
        (self.timed, self.period) = ((0.0, 0), (0.0, 0));
    }

    /// Notes that a training batch is taken now. Returns seconds per batch once enough are timed.
    fn taken(&mut self, batch: TrialBatch) -> Option<f64> {
        if batch.sequence < self.from {
            return None;
        }
        self.taken += 1;
        let before = self.last.replace(batch)?;
        // At least `settling` batches were taken before the batch whose time ends now.
        let within = |in_epoch: u64| self.whole_epochs || in_epoch >= self.settling;
        let settled = self.taken - 2 >= self.settling && within(before.in_epoch);
        let follows =
            batch.number == before.number + 1 && (self.whole_epochs || batch.in_epoch == before.in_epoch + 1);
        if !(settled && follows) {
            self.period = (0.0, 0);
            return None;
        }
        self.period.0 += batch.at.saturating_sub(before.at).as_secs_f64();
        self.period.1 += 1;
        if self.period.1 == self.parts {
            let (seconds, batches) = std::mem::take(&mut self.period);
            self.timed = (self.timed.0 + seconds, self.timed.1 + batches);
        }
        let (seconds, batches) = self.timed;
        (batches >= self.wanted).then(|| seconds / batches as f64)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    /// A simulated run: seconds of a batch in each stage, by its number and by whether it is summed.
    struct Simulated<'a> {
        prepare: Prepare,
        makers: u64,
        slots: u64,
        epoch: u64,
        length: u64,
        producer: &'a dyn Fn(u64, bool) -> f64,
        consumer: &'a dyn Fn(u64, bool) -> f64,
    }

    /// The result of a simulated run.
    struct SimulatedRun {
        /// The time at which the consumer took each batch, and whether it was summed.
        taken: Vec<(f64, bool)>,
        /// Each share, with the first batch to which it applies.
        shares: Vec<(u64, SumsShare)>,
        choices: Vec<SumsChoice>,
    }

    impl SimulatedRun {
        /// The share that was reported last.
        fn last(&self) -> SumsShare {
            self.choices.last().expect("the trial's choice").share
        }

        /// Seconds per batch of the last `batches` batches.
        fn pace(&self, batches: usize) -> f64 {
            let behind = self.taken.len() - 1;
            (self.taken[behind].0 - self.taken[behind - batches].0) / batches as f64
        }
    }

    const OFF: f64 = 1000.0;

    impl Simulated<'_> {
        fn windows(&self) -> Windows {
            Windows::with(self.slots, self.epoch)
        }

        /// Simulates the producer, or workers that take batches alternately, and a consumer that takes them in order.
        /// There is a pause between epochs.
        fn run(&self) -> SimulatedRun {
            let options = LoaderOptions {
                prepare: self.prepare,
                samplers: self.makers as usize,
                ..LoaderOptions::default()
            };
            let (control, parts) = (Control::create(&options).unwrap(), SumsShare::parts(&options));
            let mut chooser = SumsChooser::new(self.windows(), parts);
            let mut found = SimulatedRun { taken: Vec::new(), shares: Vec::new(), choices: Vec::new() };
            let (mut made, mut released): (Vec<(f64, bool)>, Vec<f64>) = (Vec::new(), Vec::new());
            for sequence in 0..self.length {
                // Batches begin as soon as possible, with the content of the control page at that time.
                loop {
                    let next = made.len() as u64;
                    let slot = next
                        .checked_sub(self.slots)
                        .map_or(Some(0.0), |of| released.get(of as usize).copied());
                    let Some(slot) = slot.filter(|_| next < self.length) else { break };
                    let maker = next.checked_sub(self.makers).map_or(0.0, |last| made[last as usize].0);
                    let summed = way_of(&control, self.windows(), &options, next, Some(next));
                    made.push((slot.max(maker) + (self.producer)(next, summed), summed));
                }
                let (ready, summed) = made[sequence as usize];
                let free = released.last().copied().unwrap_or(0.0);
                let at = ready.max(free) + if sequence % self.epoch == 0 { OFF } else { 0.0 };
                found.taken.push((at, summed));
                let taken = TrialBatch {
                    sequence,
                    number: sequence,
                    in_epoch: sequence % self.epoch,
                    summed,
                    at: Duration::from_secs_f64(at),
                };
                let from = sequence + self.slots;
                if let Some(SumsDecision { share, choice }) =
                    chooser.taken(taken, self.length - sequence - 1, from)
                {
                    control.sum_parts(from, share.summed());
                    found.shares.push((from, share));
                    found.choices.extend(choice);
                }
                released.push(at + (self.consumer)(sequence, summed));
            }
            found
        }
    }

    /// The share in force at a batch; `None` in the trial.
    fn share_at(found: &SimulatedRun, sequence: u64) -> Option<SumsShare> {
        found.shares.iter().rev().find(|(from, _)| *from <= sequence).map(|(_, share)| *share)
    }

    fn of_ways([off, host]: [f64; 2]) -> impl Fn(u64, bool) -> f64 {
        move |_, summed| if summed { host } else { off }
    }

    #[test]
    fn crossing_stages_are_balanced_and_the_run_beats_either_way_alone() {
        let (producer, consumer) = (of_ways([0.4, 1.0]), of_ways([1.0, 0.4]));
        let run = Simulated {
            prepare: Prepare::Roles,
            makers: 1,
            slots: 4,
            epoch: 10_000,
            length: 4000,
            producer: &producer,
            consumer: &consumer,
        };
        let found = run.run();
        assert_eq!((found.last().summed(), found.last().of()), (2, 4));
        // Slots even out the pattern. The pure ways take one second.
        assert!((found.pace(1000) - 0.7).abs() < 0.01, "{}", found.pace(1000));
        let told: Vec<String> = found.choices.iter().map(|choice| choice.share.name()).collect();
        assert_eq!(told, ["off", "1/4", "2/4"]);
        let [(before, slower), (after, faster)] = found.choices[2].batches_per_second.unwrap();
        assert_eq!((before.name(), after.name()), ("1/4".to_owned(), "2/4".to_owned()));
        assert!((slower - 1.0 / 0.85).abs() < 0.02 && (faster - 1.0 / 0.7).abs() < 0.02, "{slower} {faster}");
        assert!(found.choices[2].reason.contains("the producer sums 2 of 4 batches"), "{:?}", found.choices);
    }

    #[test]
    fn a_window_times_whole_periods_of_its_share_alone() {
        // Batches of the four parts take 1, 2, 3 and 10 seconds, and before the share a thousand.
        let (settling, from) = (4, 30);
        let mut window = Window::new(Windows::with(settling, 0), 4, from);
        let (mut at, mut found, mut first) = (0.0, None, None);
        for sequence in 0..200_u64 {
            let batch = TrialBatch {
                sequence,
                number: sequence,
                in_epoch: sequence % 23,
                summed: false,
                at: Duration::from_secs_f64(at),
            };
            let measured = window.taken(batch);
            assert!(measured.is_none() || sequence > from + settling + window.wanted, "{sequence}");
            first = first.or(measured.map(|_| sequence));
            found = found.or(measured);
            at += if sequence < from + settling {
                1000.0
            } else {
                [1.0, 2.0, 3.0, 10.0][sequence as usize % 4]
            };
            at += if (sequence + 1) % 23 == 0 { OFF } else { 0.0 };
        }
        assert_eq!(found, Some(4.0));
        // Two periods in the rest of the epoch in which the share begins, and two after the first batches of the next.
        assert_eq!(first, Some(46 + 4 + 8));
    }

    #[test]
    fn epochs_and_their_pauses_are_not_timed() {
        let (producer, consumer) = (of_ways([0.4, 1.0]), of_ways([1.0, 0.4]));
        for epoch in [25, 50, 333] {
            let run = Simulated {
                prepare: Prepare::Roles,
                makers: 1,
                slots: 4,
                epoch,
                length: 8000,
                producer: &producer,
                consumer: &consumer,
            };
            let found = run.run();
            assert_eq!(found.last().summed(), 2, "epochs of {epoch}: {:?}", found.choices);
            for (_, speed) in found.choices.iter().flat_map(|choice| choice.batches_per_second).flatten() {
                assert!(speed > 0.9, "{speed}");
            }
        }
    }

    #[test]
    fn a_run_just_long_enough_for_a_trial_is_hardly_slower_than_without() {
        for (producer, consumer) in [
            ([0.4, 1.0], [1.0, 0.4]),
            ([0.5, 1.0], [0.5, 0.5]),
            ([0.5, 4.0], [1.0, 0.9]),
            ([1.0, 0.9], [1.0, 0.9]),
        ] {
            let (producer, consumer) = (of_ways(producer), of_ways(consumer));
            let run = Simulated {
                prepare: Prepare::Roles,
                makers: 1,
                slots: 10,
                epoch: 10_000,
                length: 630,
                producer: &producer,
                consumer: &consumer,
            };
            let found = run.run();
            // A run without a search has the same batches up to this one, and continues with the pure way.
            let (from, _) = found.shares[0];
            let ended = found.taken[from as usize].0;
            let pure = if found.choices[0].share.is_all() {
                producer(0, true).max(consumer(0, true))
            } else {
                producer(0, false).max(consumer(0, false))
            };
            let without = ended + pure * (630 - 1 - from) as f64;
            let with = found.taken.last().unwrap().0;
            assert!(with <= OFF + 1.03 * (without - OFF), "{with} against {without}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn every_batch_has_the_way_of_the_share_in_force_for_all_makers_and_times(
            whole: bool, makers in 1..6_u64, more in 1..5_u64, times: [f64; 4], seed: u64,
        ) {
            let prepare = if whole { Prepare::Whole } else { Prepare::Roles };
            let makers = if whole { makers } else { 1 };
            let [p0, p1, c0, c1] = times.map(|time| 0.1 + (time.abs() % 1.0));
            let noisy = |number: u64, seconds: f64| {
                let mixed = (number ^ seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
                seconds * (1.0 + 0.1 * mixed as f64 / f64::from(1 << 24))
            };
            let producer = |number, summed| noisy(number, if summed { p1 } else { p0 } * makers as f64);
            let consumer = |number, summed| noisy(number + 1, if summed { c1 } else { c0 });
            let run = Simulated {
                prepare, makers, slots: makers + more, epoch: 300, length: 3000, producer: &producer, consumer: &consumer,
            };
            let found = run.run();
            for (sequence, (_, summed)) in found.taken.iter().enumerate() {
                let sequence = sequence as u64;
                let expected = match share_at(&found, sequence) {
                    Some(share) => share.has(sequence),
                    None => run.windows().tries_sums(sequence),
                };
                prop_assert_eq!(*summed, expected, "batch {}", sequence);
            }
            prop_assert!(!found.choices.is_empty());
            // A share is replaced by an adjacent one, and lasts for a window.
            for pair in found.shares.windows(2) {
                let [(from, before), (next, after)] = [pair[0], pair[1]];
                prop_assert_eq!(before.summed().abs_diff(after.summed()), 1);
                prop_assert!(next - from > run.slots + run.windows().counted());
            }
        }
    }
}
