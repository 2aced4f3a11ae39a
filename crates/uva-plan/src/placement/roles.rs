//! Number of GPUs that sample and that train, if each GPU has one of the two roles (GNNLab, Yang et al., EuroSys 2022,
//! section 5).
//!
//! Samplers put batches into one queue, in the order of their numbers. A trainer takes a batch, gathers its rows, and
//! trains while it gathers the rows of the next batch. After the last batch of an epoch is sampled on a GPU, a standby
//! trainer on it can take batches too.

use serde::Serialize;

/// Of divisions within this share of the fastest, the one with the fewest samplers is chosen. More GPUs then remain for
/// training, whose full cost the model of the stages does not include.
pub(crate) const AS_FAST: f64 = 0.02;

/// Milliseconds per batch of each stage on one GPU.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct GpuStageTimes {
    /// Sampling, including the time to put the batch into the queue.
    pub sampling_ms: f64,
    /// Gathering the rows of a batch.
    pub gathering_ms: f64,
    /// Training on a batch. Gathering continues concurrently.
    pub training_ms: f64,
    /// All work of a standby trainer on a batch. Its cache is smaller.
    pub standby_ms: f64,
}

impl GpuStageTimes {
    /// Milliseconds per batch of a trainer that never waits for a batch.
    #[must_use]
    pub fn trainer_ms(&self) -> f64 {
        self.gathering_ms.max(self.training_ms)
    }
}

/// Numbers of GPUs that sample and that train.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct GpuCounts {
    /// GPUs that sample.
    pub samplers: usize,
    /// GPUs that train.
    pub trainers: usize,
}

/// The order in which trainers take batches from the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueOrder {
    /// Each step takes as many consecutive batches as there are trainers, one for each; gradients are averaged in each
    /// step.
    InSteps,
    /// A trainer with a free slot takes the next batch, and waits for no other trainer.
    WhenFree,
}

/// An epoch to simulate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RolesEpoch {
    /// The GPUs.
    pub counts: GpuCounts,
    /// Times of the stages.
    pub times: GpuStageTimes,
    /// Batches of the epoch.
    pub batches: usize,
    /// Maximum number of batches in the queue; `None` if it is unbounded.
    pub queue: Option<usize>,
    /// The order in which trainers take batches.
    pub taking: QueueOrder,
    /// Whether GPUs train after they have sampled their last batch.
    pub switches: bool,
}

/// The result of a simulated epoch.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct RolesOutcome {
    /// Milliseconds from the start to the end of the last batch's training.
    pub epoch_ms: f64,
    /// The share of time in which sampling GPUs are idle.
    pub samplers_idle: f64,
    /// The share of time in which training GPUs do not train. They may gather in that time.
    pub trainers_idle: f64,
    /// Batches of standby trainers.
    pub standby_batches: usize,
}

/// The fewest sampling GPUs, out of `gpus`, for which this time is within 2 % of the least. With one GPU, which has
/// both roles, the result is 0.
pub fn samplers_by(gpus: usize, ms: impl Fn(GpuCounts) -> f64) -> usize {
    let ms = |samplers: usize| ms(GpuCounts { samplers, trainers: gpus - samplers });
    let least = (1..gpus).map(ms).fold(f64::INFINITY, f64::min);
    (1..gpus).find(|&samplers| ms(samplers) <= least * (1.0 + AS_FAST)).unwrap_or(0)
}

/// Milliseconds per batch of the slower side, without the effects of the queue and of the end of an epoch.
#[must_use]
pub fn slower_side_ms(counts: GpuCounts, times: &GpuStageTimes) -> f64 {
    (times.sampling_ms / counts.samplers as f64).max(times.trainer_ms() / counts.trainers as f64)
}

/// The number of sampling GPUs by GNNLab's rule: one sampler for every `trainer / sampling` trainers, rounded up.
#[must_use]
pub fn samplers_by_ratio(gpus: usize, times: &GpuStageTimes) -> usize {
    if gpus < 2 {
        return 0;
    }
    let trainers_a_sampler = times.trainer_ms() / times.sampling_ms;
    ((gpus as f64 / (trainers_a_sampler + 1.0)).ceil() as usize).clamp(1, gpus - 1)
}

/// Whether a standby trainer should take a batch: the trainers would take longer for all remaining batches than it
/// takes for one.
#[must_use]
pub fn standby_pays(batches_left: usize, trainers: usize, times: &GpuStageTimes) -> bool {
    batches_left as f64 * times.trainer_ms() / trainers as f64 > times.standby_ms
}

/// Milliseconds of an epoch in which one GPU has both roles: it samples all batches, and then trains on them.
#[must_use]
pub fn in_turns_ms(batches: usize, times: &GpuStageTimes) -> f64 {
    let first = times.gathering_ms.min(times.training_ms);
    batches as f64 * (times.sampling_ms + times.trainer_ms()) + first
}

/// The state of a trainer. It gathers the rows of one batch while it trains on the previous one.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SimulatedTrainer {
    gathered: f64,
    trained: f64,
    trained_before: f64,
}

impl SimulatedTrainer {
    /// The time at which it can begin to gather another batch: the last one is gathered, and the slot of the one before
    /// is free.
    fn has_room(&self) -> f64 {
        self.gathered.max(self.trained_before)
    }

    /// Takes a batch that is in the queue from `sampled` on, and returns the time at which it is taken.
    pub(crate) fn gather(&mut self, sampled: f64, gathering_ms: f64) -> f64 {
        let taken = sampled.max(self.has_room());
        self.gathered = taken + gathering_ms;
        taken
    }

    /// The time at which training on the gathered batch can begin.
    pub(crate) fn is_ready(&self) -> f64 {
        self.gathered.max(self.trained)
    }

    pub(crate) fn train_until(&mut self, end: f64) {
        (self.trained_before, self.trained) = (self.trained, end);
    }
}

/// The state of a simulated epoch's batches.
struct Simulation {
    epoch: RolesEpoch,
    /// The time at which each batch entered the queue, as far as simulated.
    sampled: Vec<f64>,
    /// The time at which each batch so far was taken from the queue.
    taken: Vec<f64>,
    trainers: Vec<SimulatedTrainer>,
    /// The time until which the standby trainer on each sampler's GPU works on its batch.
    standby: Vec<f64>,
    standby_batches: usize,
    /// The end of training so far.
    end: f64,
}

impl RolesEpoch {
    /// Simulates the epoch batch by batch.
    ///
    /// # Panics
    /// If there is no sampler, no trainer, or the queue has no capacity.
    #[must_use]
    pub fn simulate(self) -> RolesOutcome {
        let GpuCounts { samplers, trainers } = self.counts;
        assert!(samplers > 0 && trainers > 0 && self.queue != Some(0), "every role is needed: {self:?}");
        let mut simulation = Simulation {
            epoch: self,
            sampled: Vec::with_capacity(self.batches),
            taken: Vec::with_capacity(self.batches),
            trainers: vec![SimulatedTrainer::default(); trainers],
            standby: vec![0.0; samplers],
            standby_batches: 0,
            end: 0.0,
        };
        while simulation.left() > 0 {
            simulation.sample();
            match self.taking {
                QueueOrder::InSteps => simulation.step(),
                QueueOrder::WhenFree => simulation.next_batch(),
            }
        }
        simulation.outcome()
    }
}

impl Simulation {
    /// Batches that are not taken yet.
    fn left(&self) -> usize {
        self.epoch.batches - self.taken.len()
    }

    /// Samples until the queue is full. Sampler `i` makes the batches with `number mod samplers = i`.
    fn sample(&mut self) {
        let RolesEpoch { counts, times, batches, queue, .. } = self.epoch;
        let known = queue.map_or(batches, |queue| batches.min(self.taken.len().saturating_add(queue)));
        for number in self.sampled.len()..known {
            let free = number.checked_sub(counts.samplers).map_or(0.0, |before| self.sampled[before]);
            let room =
                queue.and_then(|queue| number.checked_sub(queue)).map_or(0.0, |before| self.taken[before]);
            self.sampled.push(free.max(room) + times.sampling_ms);
        }
    }

    /// The standby trainer that is free first, and the time from which it is free. Its sampler has made its last batch
    /// by then.
    fn standby(&self) -> Option<(usize, f64)> {
        let RolesEpoch { counts, batches, switches, .. } = self.epoch;
        let free = |index: usize| {
            let rounds = batches.checked_sub(index + 1).map(|others| others / counts.samplers);
            let last = rounds.map(|rounds| rounds * counts.samplers + index);
            let sampled = last.map_or(Some(0.0), |last| self.sampled.get(last).copied())?;
            Some((index, sampled.max(self.standby[index])))
        };
        let free = (0..counts.samplers).filter(|_| switches).filter_map(free);
        free.min_by(|one, other| one.1.total_cmp(&other.1))
    }

    /// Assigns the next batch to a trainer, or to a standby trainer that is free earlier and worthwhile.
    fn next_batch(&mut self) {
        let (times, number) = (self.epoch.times, self.taken.len());
        let by_room = |one: &&mut SimulatedTrainer, other: &&mut SimulatedTrainer| {
            one.has_room().total_cmp(&other.has_room())
        };
        let standby = self.standby();
        let pays = standby_pays(self.left(), self.trainers.len(), &times);
        let Some(trainer) = self.trainers.iter_mut().min_by(by_room) else { return };
        let (taken, end) = match standby {
            Some((index, free)) if pays && free < trainer.has_room() => {
                let taken = self.sampled[number].max(free);
                self.standby[index] = taken + times.standby_ms;
                self.standby_batches += 1;
                (taken, self.standby[index])
            }
            _ => {
                let taken = trainer.gather(self.sampled[number], times.gathering_ms);
                trainer.train_until(trainer.is_ready() + times.training_ms);
                (taken, trainer.trained)
            }
        };
        self.taken.push(taken);
        self.end = self.end.max(end);
    }

    /// Assigns a batch to each trainer, and to each standby trainer that is free by then and worthwhile.
    fn step(&mut self) {
        let times = self.epoch.times;
        let (mut start, mut duration) = (self.end, times.training_ms);
        let before = self.end;
        for index in 0..self.trainers.len().min(self.left()) {
            self.sample();
            let trainer = &mut self.trainers[index];
            let taken = trainer.gather(self.sampled[self.taken.len()], times.gathering_ms);
            self.taken.push(taken);
            start = start.max(self.trainers[index].is_ready());
        }
        while self.left() > 0
            && let Some((index, free)) = self.standby()
            && free <= before
            && standby_pays(self.left(), self.trainers.len(), &times)
        {
            self.sample();
            let taken = self.sampled[self.taken.len()].max(free);
            self.taken.push(taken);
            self.standby_batches += 1;
            start = start.max(taken);
            duration = duration.max(times.standby_ms);
            // A standby trainer takes one batch per step.
            self.standby[index] = f64::INFINITY;
        }
        self.end = start + duration;
        self.trainers.iter_mut().for_each(|trainer| trainer.train_until(self.end));
        self.standby.iter_mut().filter(|free| free.is_infinite()).for_each(|free| *free = self.end);
    }

    fn outcome(&self) -> RolesOutcome {
        let RolesEpoch { counts, times, batches, .. } = self.epoch;
        let idle =
            |busy: f64, gpus: usize| (1.0 - busy / (gpus as f64 * self.end.max(f64::MIN_POSITIVE))).max(0.0);
        let standby = self.standby_batches;
        RolesOutcome {
            epoch_ms: self.end,
            samplers_idle: idle(
                batches as f64 * times.sampling_ms + standby as f64 * times.standby_ms,
                counts.samplers,
            ),
            trainers_idle: idle((batches - standby) as f64 * times.training_ms, counts.trainers),
            standby_batches: standby,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn times(sampling_ms: f64, gathering_ms: f64, training_ms: f64) -> GpuStageTimes {
        GpuStageTimes { sampling_ms, gathering_ms, training_ms, standby_ms: gathering_ms.max(training_ms) }
    }

    fn epoch(samplers: usize, trainers: usize, times: GpuStageTimes, batches: usize) -> RolesEpoch {
        RolesEpoch {
            counts: GpuCounts { samplers, trainers },
            times,
            batches,
            queue: None,
            taking: QueueOrder::InSteps,
            switches: false,
        }
    }

    /// Batches of ogbn-papers100M, with 1,207,179 training nodes and 8,000 a batch.
    const PAPERS: usize = 151;

    /// Stage times from seconds of an epoch on one GPU.
    fn of_papers(sampling: f64, gathering: f64, training: f64) -> GpuStageTimes {
        let batch = |seconds: f64| seconds * 1e3 / PAPERS as f64;
        times(batch(sampling), batch(gathering), batch(training))
    }

    #[test]
    fn ten_of_twelve_published_counts_of_samplers_come_out_of_the_slower_side() {
        // GNNLab's artifact, exp/table5 (seconds an epoch to sample, gather, train) and exp/table4 (samplers of 8 GPUs).
        let published = [
            ("GCN", "products", [0.40, 0.16, 1.23], 3),
            ("GCN", "twitter", [0.38, 0.82, 1.55], 2),
            ("GCN", "papers", [1.00, 0.49, 3.93], 2),
            ("GCN", "uk", [0.57, 2.75, 3.09], 2),
            ("GraphSAGE", "products", [0.21, 0.10, 0.26], 4),
            ("GraphSAGE", "twitter", [0.16, 0.49, 0.44], 2),
            ("GraphSAGE", "papers", [0.46, 0.28, 1.14], 2),
            ("GraphSAGE", "uk", [0.26, 1.39, 1.04], 1),
            ("PinSAGE", "products", [0.21, 0.08, 1.79], 1),
            ("PinSAGE", "twitter", [0.28, 0.61, 2.57], 1),
            ("PinSAGE", "papers", [0.62, 0.33, 6.22], 1),
            ("PinSAGE", "uk", [0.67, 2.99, 7.12], 1),
        ];
        let others: Vec<_> = published
            .iter()
            .filter(|(_, _, [sampling, gathering, training], samplers)| {
                let times = times(*sampling, *gathering, *training);
                samplers_by(8, |counts| slower_side_ms(counts, &times)) != *samplers
            })
            .map(|(model, graph, ..)| (*model, *graph))
            .collect();
        assert_eq!(others, [("GCN", "products"), ("GraphSAGE", "uk")]);
    }

    #[test]
    fn epochs_of_every_division_are_within_15_per_cent_of_those_published() {
        // GCN on papers100M, 8 V100 (GNNLab's artifact, exp/fig15): seconds an epoch with 1 to 7 trainers.
        let published: [&[f64]; 3] = [
            &[4.11, 2.20, 1.47, 1.13, 1.08, 1.06, 1.06],
            &[4.12, 2.14, 1.48, 1.13, 0.94, 0.80],
            &[4.13, 2.15, 1.47, 1.11, 0.93],
        ];
        // Times of one sampler and one trainer.
        let times = of_papers(1.01, 0.50, 4.03);
        for (samplers, of_trainers) in (1..).zip(published) {
            for (trainers, seconds) in (1..).zip(of_trainers) {
                let found = epoch(samplers, trainers, times, PAPERS).simulate().epoch_ms / 1e3;
                let ratio = found / seconds;
                assert!(
                    (0.85..1.15).contains(&ratio),
                    "{samplers}:{trainers}: {found:.3} s, published {seconds}"
                );
            }
        }
    }

    #[test]
    fn epochs_with_a_switching_sampler_are_within_20_percent_of_the_paper() {
        // PinSAGE on papers100M (GNNLab's artifact, exp/fig17a; stages of exp/table5): without switching, and with it.
        let times = of_papers(0.62, 0.33, 6.22);
        for (trainers, without, with) in [(1, 6.48, 3.8678), (2, 3.29, 2.5552)] {
            let plain = RolesEpoch { taking: QueueOrder::WhenFree, ..epoch(1, trainers, times, PAPERS) };
            for taking in [QueueOrder::WhenFree, QueueOrder::InSteps] {
                for (switches, seconds) in [(false, without), (true, with)] {
                    let outcome = RolesEpoch { switches, taking, ..plain }.simulate();
                    let ratio = outcome.epoch_ms / 1e3 / seconds;
                    assert!((0.8..1.2).contains(&ratio), "{trainers}, {taking:?}, {switches}: {ratio:.3}");
                    assert_eq!(outcome.standby_batches > 0, switches);
                }
            }
        }
    }

    #[test]
    fn a_standby_trainer_takes_no_batch_that_the_others_would_finish_sooner() {
        let mut times = times(1.0, 0.5, 4.0);
        times.standby_ms = 20.0;
        // Two trainers take 20 ms for ten batches, which is not longer.
        assert!(standby_pays(11, 2, &times));
        assert!(!standby_pays(10, 2, &times));
        let base = RolesEpoch { switches: true, ..epoch(1, 2, times, 10) };
        for taking in [QueueOrder::WhenFree, QueueOrder::InSteps] {
            assert_eq!(RolesEpoch { taking, ..base }.simulate().standby_batches, 0);
        }
        let more = RolesEpoch { taking: QueueOrder::WhenFree, batches: 40, ..base }.simulate();
        assert!(more.standby_batches > 0, "{more:?}");
    }

    #[test]
    fn one_gpu_alternates_between_both_roles() {
        let times = times(1.0, 2.0, 3.0);
        assert_eq!((samplers_by(1, |_| 1.0), samplers_by_ratio(1, &times)), (0, 0));
        // Samples ten, gathers the first, and trains on ten.
        assert_eq!(in_turns_ms(10, &times), 10.0 + 2.0 + 30.0);
    }

    #[test]
    fn a_batch_passes_the_stages_in_turn_and_gathering_overlaps_training() {
        let times = times(2.0, 3.0, 5.0);
        assert_eq!(epoch(1, 1, times, 1).simulate().epoch_ms, 10.0);
        // The second is sampled at 4, gathered from 5 to 8, and trained from 10 on.
        assert_eq!(epoch(1, 1, times, 2).simulate().epoch_ms, 15.0);
        // With a queue of one, each batch is sampled once the previous one is taken.
        let slow = GpuStageTimes { sampling_ms: 9.0, ..times };
        let bounded = RolesEpoch { queue: Some(1), ..epoch(1, 1, slow, 3) };
        assert_eq!(bounded.simulate().epoch_ms, 3.0 * 9.0 + 8.0);
        // Two trainers: the second step's batches are sampled at 8, and gathered when a slot is free.
        assert_eq!(epoch(1, 2, times, 4).simulate().epoch_ms, 17.0);
    }

    proptest! {
        #[test]
        fn without_a_bound_an_epoch_takes_what_its_slower_side_takes(
            (samplers, trainers) in (1usize..6, 1usize..8),
            (sampling, gathering, training) in (0.1f64..10.0, 0.1f64..10.0, 0.1f64..10.0),
            batches in 1usize..300,
            when_free in any::<bool>(),
        ) {
            let times = times(sampling, gathering, training);
            let taking = if when_free { QueueOrder::WhenFree } else { QueueOrder::InSteps };
            let outcome = RolesEpoch { taking, ..epoch(samplers, trainers, times, batches) }.simulate();
            let sampled = sampling * batches.div_ceil(samplers) as f64;
            let trained = times.trainer_ms() * batches.div_ceil(trainers) as f64;
            let least = sampled.max(trained);
            // In steps no trainer begins before each has a batch, and samplers that end at the same time make several
            // trainers wait.
            let first = if when_free { 0.0 } else { sampling * trainers.div_ceil(samplers) as f64 };
            let one = sampling + gathering + training + first;
            prop_assert!(outcome.epoch_ms >= (sampled + gathering.min(training)).max(trained) - 1e-6, "{outcome:?}");
            prop_assert!(outcome.epoch_ms <= least + one + 1e-6, "{outcome:?}: {least} and {one}");
        }

        #[test]
        fn a_shorter_queue_is_never_faster_and_all_batches_are_taken(
            (samplers, trainers) in (1usize..5, 1usize..5),
            (sampling, gathering, training) in (0.1f64..10.0, 0.1f64..10.0, 0.1f64..10.0),
            batches in 1usize..100,
            queue in 1usize..10,
        ) {
            let times = times(sampling, gathering, training);
            let plain = epoch(samplers, trainers, times, batches);
            let bounded = |queue| RolesEpoch { queue, ..plain }.simulate().epoch_ms;
            prop_assert!(bounded(Some(queue)) >= bounded(Some(queue + 1)) - 1e-9);
            prop_assert!(bounded(Some(queue)) >= bounded(None) - 1e-9);
        }
    }
}
