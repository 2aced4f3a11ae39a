//! Division of CPU cores among the stages of a run, by timed points of each stage (BGL, Liu et al. 2023, section 3.4).
//!
//! A stage with `a` ms per batch of divisible work and `d` ms of indivisible work takes `a/c + d` on `c` cores. Stages
//! work on different batches at the same time, so a batch takes as long as the slowest. There are few divisions, so all
//! are evaluated.

use serde::{Deserialize, Serialize};

/// Minimum saving of a division over the usual one. A smaller difference may be noise.
const LEAST_SAVING: f64 = 0.05;

/// Minimum saving if all stages share all cores, and the model may use all of them or the usual number.
const LEAST_SAVING_SHARED: f64 = 0.1;

/// Maximum time of the other stages, as a share of the model's time on one thread, at which the model may use all
/// cores. Threads of one operation wait for each other, so the whole model waits whenever another stage occupies a
/// core, and that wait is predicted only coarsely. Measured on two cores of an AMD EPYC, in ms per batch with one and
/// with two training threads (scripts/measure/cores.py, docs/results/cores.json):
///
/// | graph, fanouts, batch | others over training | one: predicted, came | two: predicted, came |
/// |---|---|---|---|
/// | citation, 10,10, 512 | 0.09 | 13.0, 10.4 | 8.1, 9.5 |
/// | dense, 10,10, 1000 | 0.08 | 29.3, 27.2 | 23.0, 21.0 |
/// | products, 15,10,5, 256 | 0.14 | 92.2, 81.2 | 73.7, 73.3 |
/// | power law, 10,10, 1000 | 0.35 | 28.1, 22.6 | 26.5, 25.1 |
const MOST_BESIDE: f64 = 0.2;

/// With fewer cores than stages, all stages share all cores.
const STAGES: usize = 3;

/// The time of a stage's batch on a number of threads.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct TimedThreads {
    /// Number of threads, each with its own core.
    pub threads: usize,
    /// Milliseconds per batch.
    pub ms: f64,
}

/// Milliseconds per batch of one stage, as a line in 1/threads.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct StageFit {
    /// The part that threads divide among themselves.
    pub divided_ms: f64,
    /// The part that does not depend on the number of threads.
    pub fixed_ms: f64,
    /// The share of the points' variance that the line explains, 0 to 1; 1 if all points have the same time.
    pub r2: f64,
}

impl StageFit {
    /// Fits the line by least squares, with neither part negative. Without points a stage takes no time.
    #[must_use]
    pub fn fit(points: &[TimedThreads]) -> Self {
        let count = points.len().max(1) as f64;
        let x = |point: &TimedThreads| 1.0 / point.threads.max(1) as f64;
        let mean = |of: &dyn Fn(&TimedThreads) -> f64| points.iter().map(of).sum::<f64>() / count;
        let (mean_x, mean_ms) = (mean(&x), mean(&|point| point.ms));
        let spread = mean(&|point| (x(point) - mean_x).powi(2));
        let slope = match spread > 0.0 {
            true => mean(&|point| (x(point) - mean_x) * (point.ms - mean_ms)) / spread,
            // With a single number of threads, all of the time is divisible.
            false => mean_ms / mean_x.max(f64::MIN_POSITIVE),
        };
        let fixed = mean_ms - slope * mean_x;
        let (divided_ms, fixed_ms) = if slope < 0.0 {
            (0.0, mean_ms)
        } else if fixed < 0.0 {
            // The best line through the origin.
            (mean(&|point| x(point) * point.ms) / mean(&|point| x(point).powi(2)), 0.0)
        } else {
            (slope, fixed)
        };
        let line = Self { divided_ms, fixed_ms, r2: 1.0 };
        let all = mean(&|point| (point.ms - mean_ms).powi(2));
        let left = mean(&|point| (point.ms - line.at(point.threads)).powi(2));
        Self { r2: if all > 0.0 { (1.0 - left / all).clamp(0.0, 1.0) } else { 1.0 }, ..line }
    }

    /// Milliseconds per batch on this many threads.
    #[must_use]
    pub fn at(&self, threads: usize) -> f64 {
        self.divided_ms / threads.max(1) as f64 + self.fixed_ms
    }

    /// Milliseconds of all threads, added up.
    fn of_all(&self, threads: usize) -> f64 {
        self.divided_ms + self.fixed_ms * threads as f64
    }
}

/// One value for each of the three stages on the CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct OfStages<T> {
    /// Sampling, by samplers.
    pub sampling: T,
    /// Gathering rows, by threads of the producer.
    pub gathering: T,
    /// Training, by threads of the model's arithmetic.
    pub training: T,
}

impl<T> OfStages<T> {
    /// Applies `of` to the value of each stage.
    pub fn map<U>(self, of: impl Fn(T) -> U) -> OfStages<U> {
        let Self { sampling, gathering, training } = self;
        OfStages { sampling: of(sampling), gathering: of(gathering), training: of(training) }
    }
}

impl OfStages<StageFit> {
    /// Milliseconds per batch of one core for the work other than training. Each sampler works on its own batch, so the
    /// indivisible work does not grow with the number of samplers.
    fn beside_training(&self, gather_threads: usize) -> f64 {
        self.sampling.of_all(1) + self.gathering.of_all(gather_threads)
    }

    /// Milliseconds per batch with these threads, on `cores` cores that the stages share or divide among themselves.
    #[must_use]
    pub fn batch_ms(&self, threads: OfStages<usize>, cores: usize, shared: bool) -> f64 {
        let slowest = self
            .sampling
            .at(threads.sampling)
            .max(self.gathering.at(threads.gathering))
            .max(self.training.at(threads.training));
        if !shared {
            return slowest;
        }
        let others = self.beside_training(threads.gathering);
        if threads.training >= cores {
            // Threads of one operation wait for each other, so the model waits for any core that another stage
            // occupies.
            return slowest.max(self.training.at(threads.training) + others);
        }
        let work = others + self.training.of_all(threads.training);
        slowest.max(work / cores.max(1) as f64)
    }
}

/// A division of the cores of a run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct CoreDivision {
    /// Threads of each stage.
    pub threads: OfStages<usize>,
    /// Predicted milliseconds per batch.
    pub batch_ms: f64,
    /// The usual threads.
    pub usual: OfStages<usize>,
    /// Predicted milliseconds per batch with the usual threads, which share all cores.
    pub usual_ms: f64,
    /// Whether all stages share all cores: there are fewer than three cores, or the usual threads are as fast.
    pub shared: bool,
}

/// Divides `cores` cores among the stages, each with its own cores. Numbers of threads in `given` are fixed. Of equally
/// fast divisions the one with the fewest threads is chosen, and of those the smallest (samplers, gather threads,
/// training threads). The `usual` threads are kept unless another division is predicted to save 5 %. There are at most
/// `most_samplers` samplers.
///
/// With fewer than three cores all stages share them. Training gets a thread on each core if that saves 10 % and the
/// other stages have little work.
#[must_use]
pub fn divide_cores(
    cores: usize,
    lines: &OfStages<StageFit>,
    given: OfStages<Option<usize>>,
    usual: OfStages<usize>,
    most_samplers: usize,
) -> CoreDivision {
    let usual = OfStages {
        sampling: given.sampling.unwrap_or(usual.sampling),
        gathering: given.gathering.unwrap_or(usual.gathering),
        training: given.training.unwrap_or(usual.training),
    };
    let usual_ms = lines.batch_ms(usual, cores, true);
    if cores < STAGES {
        let all = OfStages { training: given.training.unwrap_or(cores), ..usual };
        let all_ms = lines.batch_ms(all, cores, true);
        let others = lines.beside_training(usual.gathering);
        let pays =
            all_ms < usual_ms * (1.0 - LEAST_SAVING_SHARED) && others <= lines.training.at(1) * MOST_BESIDE;
        let (threads, batch_ms) = if pays { (all, all_ms) } else { (usual, usual_ms) };
        return CoreDivision { threads, batch_ms, usual, usual_ms, shared: true };
    }
    let choices = |given: Option<usize>, most: usize| {
        given.map_or(1..=cores.clamp(1, most.max(1)), |threads| threads..=threads)
    };
    let mut best: Option<(f64, usize, OfStages<usize>)> = None;
    for sampling in choices(given.sampling, most_samplers) {
        for gathering in choices(given.gathering, cores) {
            for training in choices(given.training, cores) {
                let all = sampling + gathering + training;
                if all > cores {
                    continue;
                }
                let threads = OfStages { sampling, gathering, training };
                let found = (lines.batch_ms(threads, cores, false), all, threads);
                let better = best.is_none_or(|(ms, fewest, least)| {
                    found.0.total_cmp(&ms).then((all, threads).cmp(&(fewest, least))).is_lt()
                });
                if better {
                    best = Some(found);
                }
            }
        }
    }
    match best {
        Some((batch_ms, _, threads)) if batch_ms < usual_ms * (1.0 - LEAST_SAVING) => {
            CoreDivision { threads, batch_ms, usual, usual_ms, shared: false }
        }
        _ => CoreDivision { threads: usual, batch_ms: usual_ms, usual, usual_ms, shared: true },
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const OPEN: OfStages<Option<usize>> = OfStages { sampling: None, gathering: None, training: None };
    const MOST: usize = 120;
    const ONE: OfStages<usize> = OfStages { sampling: 1, gathering: 1, training: 1 };

    fn line(divided_ms: f64, fixed_ms: f64) -> StageFit {
        StageFit { divided_ms, fixed_ms, r2: 1.0 }
    }

    fn lines(sampling: f64, gathering: (f64, f64), training: (f64, f64)) -> OfStages<StageFit> {
        OfStages {
            sampling: line(sampling, 0.0),
            gathering: line(gathering.0, gathering.1),
            training: line(training.0, training.1),
        }
    }

    fn counts(threads: OfStages<usize>) -> [usize; 3] {
        [threads.sampling, threads.gathering, threads.training]
    }

    #[test]
    fn points_on_a_line_give_the_line_and_parts_are_never_negative() {
        let points = |ms: &[(usize, f64)]| -> Vec<TimedThreads> {
            ms.iter().map(|&(threads, ms)| TimedThreads { threads, ms }).collect()
        };
        let exact = StageFit::fit(&points(&[(1, 95.0), (3, 35.0), (6, 20.0)]));
        assert!((exact.divided_ms - 90.0).abs() < 1e-9 && (exact.fixed_ms - 5.0).abs() < 1e-9, "{exact:?}");
        assert!(exact.r2 > 1.0 - 1e-12);
        // Faster than an even division of the work by the threads, as with caches.
        let faster = StageFit::fit(&points(&[(1, 100.0), (2, 40.0)]));
        assert!(faster.fixed_ms == 0.0 && (faster.at(2) - 45.0).abs() < 10.0, "{faster:?}");
        // Slower with more threads.
        assert_eq!(StageFit::fit(&points(&[(1, 10.0), (2, 14.0)])).divided_ms, 0.0);
        assert_eq!(StageFit::fit(&points(&[(1, 10.0)])), line(10.0, 0.0));
        assert_eq!(StageFit::fit(&[]).at(3), 0.0);
    }

    #[test]
    fn each_stage_gets_cores_by_its_work_and_no_more_than_gain() {
        // Stages of BGL that compete for a machine's cores: 60 ms, and 90 ms divisible plus 5 ms fixed.
        let division = divide_cores(12, &lines(60.0, (90.0, 5.0), (20.0, 0.0)), OPEN, ONE, MOST);
        assert_eq!(counts(division.threads), [3, 6, 1]);
        assert_eq!((division.batch_ms, division.shared), (20.0, false));
        let given = OfStages { training: Some(4), ..OPEN };
        let division = divide_cores(12, &lines(60.0, (90.0, 5.0), (20.0, 0.0)), given, ONE, MOST);
        assert_eq!(counts(division.threads), [3, 5, 4]);
    }

    #[test]
    fn there_are_no_more_samplers_than_a_run_may_have() {
        let lines = lines(900.0, (1.0, 0.0), (1.0, 0.0));
        let division = |most| counts(divide_cores(12, &lines, OPEN, ONE, most).threads);
        assert_eq!((division(MOST), division(4)), ([10, 1, 1], [4, 1, 1]));
    }

    #[test]
    fn two_cores_are_shared_and_the_model_has_both_where_little_else_is_to_do() {
        // The other stages have a third of the work, although 15 + 5 + 5 would be less than 30.
        let busy = lines(5.0, (5.0, 0.0), (30.0, 0.0));
        let division = divide_cores(2, &busy, OPEN, ONE, MOST);
        assert_eq!((division.threads, division.batch_ms, division.shared), (ONE, 30.0, true));
        // Two threads are hardly faster: 19 + 1 + 1 in place of 22.
        let flat = lines(1.0, (1.0, 0.0), (6.0, 16.0));
        assert_eq!(divide_cores(2, &flat, OPEN, ONE, MOST).threads, ONE);
        // 17 + 1 + 2, in place of 32.
        let idle = lines(1.0, (2.0, 0.0), (30.0, 2.0));
        let division = divide_cores(2, &idle, OPEN, ONE, MOST);
        assert_eq!((counts(division.threads), division.batch_ms, division.shared), ([1, 1, 2], 20.0, true));
        assert_eq!((division.usual, division.usual_ms), (ONE, 32.0));
        let given = OfStages { training: Some(1), ..OPEN };
        assert_eq!(divide_cores(2, &idle, given, ONE, MOST).threads, ONE);
        // One core cannot be divided.
        assert_eq!(divide_cores(1, &idle, OPEN, ONE, MOST).threads, ONE);
    }

    #[test]
    fn stages_that_share_cores_take_at_least_all_their_work() {
        // (20 + 20 + 20) / 4, more than the slowest stage with its two threads.
        let shared = lines(20.0, (20.0, 0.0), (20.0, 0.0));
        let threads = OfStages { sampling: 4, gathering: 4, training: 2 };
        assert_eq!(shared.batch_ms(threads, 4, true), 15.0);
        assert_eq!(shared.batch_ms(threads, 4, false), 10.0);
    }

    #[test]
    fn the_usual_threads_stay_unless_another_division_saves_enough() {
        let usual = OfStages { sampling: 2, gathering: 2, training: 4 };
        let balanced = divide_cores(8, &lines(20.0, (20.0, 0.0), (40.0, 0.0)), OPEN, usual, MOST);
        assert_eq!((balanced.threads, balanced.shared), (usual, true));
        let skewed = divide_cores(8, &lines(2.0, (4.0, 0.0), (60.0, 0.0)), OPEN, usual, MOST);
        assert_eq!(counts(skewed.threads), [1, 1, 6]);
    }

    proptest! {
        #[test]
        fn no_division_is_faster_than_the_one_that_is_chosen_by_more_than_noise(
            cores in 1_usize..12,
            work in proptest::array::uniform3((0.1_f64..100.0, 0.0_f64..20.0)),
        ) {
            let [(sampling, _), gathering, training] = work;
            let lines = lines(sampling, gathering, training);
            let division = divide_cores(cores, &lines, OPEN, ONE, MOST);
            for sampling in 1..=cores {
                for gathering in 1..=cores {
                    for training in 1..=cores {
                        let threads = OfStages { sampling, gathering, training };
                        if cores >= STAGES && sampling + gathering + training <= cores {
                            let ms = lines.batch_ms(threads, cores, false);
                            prop_assert!(division.batch_ms <= ms / (1.0 - LEAST_SAVING) + 1e-9);
                        }
                    }
                }
            }
            prop_assert!(division.batch_ms <= division.usual_ms);
            prop_assert!(division.shared || counts(division.threads).iter().sum::<usize>() <= cores);
        }
    }
}
