//! The batch of each epoch at which standby trainers should join, if it is fixed beforehand. Epochs of such a run are
//! simulated.
//!
//! Unlike in GNNLab's design, a sampler does not stop at the end of an epoch: it works ahead into the next one as far
//! as the queue has room. So its GPU is never free for training alone. The gain comes from the queue: filled while the
//! sampler was alone on its GPU, it lets the sampler fall behind while a standby trainer uses part of the GPU's time.

use crate::placement::roles::{AS_FAST, GpuCounts, GpuStageTimes, SimulatedTrainer};

/// Number of simulated epochs. The result excludes the time in which the first ones fill the queue.
const EPOCHS: usize = 5;
const FIRST_COUNTED: usize = 2;
/// Number of candidate batches for the join, spread over an epoch.
const CANDIDATES: usize = 48;

/// A run whose trainers step together, and whose standby trainers join at a batch of each epoch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SwitchedRun {
    /// The GPUs.
    pub counts: GpuCounts,
    /// Times of the stages.
    pub times: GpuStageTimes,
    /// Batches of an epoch.
    pub batches: usize,
    /// Maximum number of batches that are sampled ahead.
    pub queue: usize,
}

impl SwitchedRun {
    /// The batch at which standby trainers should join, with the milliseconds of an epoch. `None` if the saving is
    /// below 2 % of an epoch.
    #[must_use]
    pub fn best(&self) -> Option<(usize, f64)> {
        let step = self.batches.div_ceil(CANDIDATES).max(1);
        let timed = (0..self.batches).step_by(step).map(|from| (from, self.epoch_ms(Some(from))));
        let best = timed.min_by(|one, other| one.1.total_cmp(&other.1))?;
        (best.1 * (1.0 + AS_FAST) < self.epoch_ms(None)).then_some(best)
    }

    /// Milliseconds of an epoch with standby trainers from this batch on, or without any. All batches count, even if
    /// the last ones do not fill a step.
    ///
    /// # Panics
    /// If there is no sampler or no trainer.
    #[must_use]
    pub fn epoch_ms(&self, from: Option<usize>) -> f64 {
        let GpuCounts { samplers, trainers } = self.counts;
        assert!(samplers > 0 && trainers > 0, "every role is needed: {self:?}");
        let mut run = Simulation {
            run: *self,
            queue: self.queue.max(samplers + trainers),
            gpus: vec![0.0; samplers],
            sampled: Vec::new(),
            taken: Vec::new(),
            trainers: vec![SimulatedTrainer::default(); trainers],
            end: 0.0,
        };
        let (mut counted_from, mut counted) = (0.0, 0);
        for epoch in 0..EPOCHS {
            if epoch == FIRST_COUNTED {
                (counted_from, counted) = (run.end, run.taken.len());
            }
            let mut left = self.batches;
            while left >= trainers {
                let joined =
                    from.is_some_and(|from| self.batches - left >= from) && left >= trainers + samplers;
                run.step(joined);
                left -= if joined { trainers + samplers } else { trainers };
            }
        }
        let trained = run.taken.len() - counted;
        if trained == 0 { 0.0 } else { (run.end - counted_from) * self.batches as f64 / trained as f64 }
    }
}

struct Simulation {
    run: SwitchedRun,
    queue: usize,
    /// The time until which each sampler's GPU is in use, by the sampler or by the standby trainer.
    gpus: Vec<f64>,
    /// The times at which each batch so far was sampled and taken.
    sampled: Vec<f64>,
    taken: Vec<f64>,
    trainers: Vec<SimulatedTrainer>,
    /// The end of the last step.
    end: f64,
}

impl Simulation {
    /// Samples the batches that samplers begin before the next step, and those that the step needs. Sampler `i` makes
    /// the batches with `number mod samplers = i`.
    fn sample(&mut self, needed: usize) {
        while self.sampled.len() < self.taken.len() + self.queue {
            let number = self.sampled.len();
            let room = number.checked_sub(self.queue).map_or(0.0, |before| self.taken[before]);
            let samplers = self.gpus.len();
            let gpu = &mut self.gpus[number % samplers];
            let start = gpu.max(room);
            if start >= self.end && number >= needed {
                return;
            }
            *gpu = start + self.run.times.sampling_ms;
            self.sampled.push(*gpu);
        }
    }

    fn step(&mut self, joined: bool) {
        let times = self.run.times;
        let others = if joined { self.gpus.len() } else { 0 };
        self.sample(self.taken.len() + self.trainers.len() + others);
        let before = self.end;
        let mut start = before;
        for trainer in &mut self.trainers {
            self.taken.push(trainer.gather(self.sampled[self.taken.len()], times.gathering_ms));
            start = start.max(trainer.is_ready());
        }
        self.end = start + times.training_ms;
        for gpu in &mut self.gpus[..others] {
            let taken = self.sampled[self.taken.len()].max(before).max(*gpu);
            self.taken.push(taken);
            *gpu = taken + times.standby_ms;
            self.end = self.end.max(*gpu);
        }
        self.trainers.iter_mut().for_each(|trainer| trainer.train_until(self.end));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn run(
        samplers: usize,
        trainers: usize,
        [sampling_ms, gathering_ms, training_ms]: [f64; 3],
    ) -> SwitchedRun {
        let times =
            GpuStageTimes { sampling_ms, gathering_ms, training_ms, standby_ms: gathering_ms + training_ms };
        SwitchedRun { counts: GpuCounts { samplers, trainers }, times, batches: 120, queue: 60 }
    }

    fn is_near(found: f64, expected: f64) {
        assert!((found / expected - 1.0).abs() < 0.02, "{found} instead of {expected}");
    }

    #[test]
    fn an_epoch_without_them_takes_what_its_slower_side_does() {
        is_near(run(1, 2, [1.0, 0.0, 10.0]).epoch_ms(None), 60.0 * 10.0);
        is_near(run(1, 2, [9.0, 0.0, 10.0]).epoch_ms(None), 120.0 * 9.0);
    }

    #[test]
    fn where_sampling_takes_no_time_they_train_throughout() {
        let run = run(2, 1, [0.0, 0.0, 10.0]);
        let (from, epoch_ms) = run.best().unwrap();
        assert_eq!(from, 0);
        is_near(epoch_ms, 120.0 / 3.0 * 10.0);
    }

    #[test]
    fn where_sampling_takes_all_the_time_they_do_not_train() {
        assert_eq!(run(1, 2, [5.0, 0.0, 10.0]).best(), None);
    }

    #[test]
    fn a_gpus_time_is_divided_between_sampling_and_training() {
        // Per epoch a GPU samples 120 times 2 ms, and trains b times 10 ms, while the other trains 120 - b times. With steps of
        // 10 ms both are equally busy at b = 48: an epoch of 720 ms.
        let run = SwitchedRun { queue: 100, ..run(1, 1, [2.0, 0.0, 10.0]) };
        let (from, epoch_ms) = run.best().unwrap();
        is_near(epoch_ms, 720.0);
        // 48 batches are trained two at a time, after 24 others.
        assert!((20..=28).contains(&from), "{from}");
        // Without a queue, a step waits for the batches that are sampled during its training.
        let short = SwitchedRun { queue: 1, ..run };
        assert!(short.best().is_none_or(|(_, ms)| ms > 750.0), "{:?}", short.best());
    }

    proptest! {
        #[test]
        fn switching_never_lengthens_an_epoch_nor_beats_all_work_divided_evenly(
            samplers in 1_usize..4, trainers in 1_usize..5, batches in 1_usize..90, queue in 1_usize..100,
            sampling in 0.1_f64..9.0, gathering in 0.0_f64..9.0, training in 0.1_f64..20.0,
        ) {
            let run = SwitchedRun { batches, queue, ..run(samplers, trainers, [sampling, gathering, training]) };
            let alone = run.epoch_ms(None);
            if let Some((from, both)) = run.best() {
                prop_assert!(from < batches && both < alone);
                let least = batches as f64 * training / (samplers + trainers) as f64;
                prop_assert!(both >= least * 0.999, "{both} {least}");
            }
        }
    }
}
