//! The search for the best share of batches that the producer sums, by the times of windows, one step after another.
//!
//! The stages run concurrently, so a batch takes as long as the slowest of them. Each stage's time is linear in the
//! share that the producer sums, so their maximum is a convex curve. On such a curve a step without a gain ends the
//! search in its direction. The search therefore begins at the faster pure way and goes inwards.
//!
//! [`Climb`] is a function of its state and of measured windows. It depends neither on clocks nor on batches.

/// Whether a window has the second of two ways that are compared, in the order of a *round* of windows. A steady drift
/// affects both equally.
pub(crate) const ROUND: [bool; 4] = [false, true, true, false];

/// Maximum number of windows of a step. A step without a clear result takes more than one round.
const MOST_WINDOWS: usize = 3 * ROUND.len();

/// Minimum saving of a step, as a share of a batch's time. Windows of equal shares differ by less, unless something
/// disturbs them. On a convex curve a search that stops for this reason loses less than this for each step that it did
/// not make.
const LEAST_GAIN: f64 = 0.02;

/// The ratio of a step's first window to the window before above which the step is given up at once.
const TOO_SLOW: f64 = 1.1;

/// Maximum cost of a step without a gain, as a share of the remaining time, and of the time since the last search.
const MOST_COST: f64 = 0.02;

/// Windows at the settled share before the steps to both sides are tried again, equal to sixteen rounds.
const FIRST_WAIT: u64 = 64;

/// Maximum number of these windows. The wait doubles each time that no gain was found, so that a settled run stays
/// settled.
const LONGEST_WAIT: u64 = 512;

/// A step that gained and is kept.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ClimbStep {
    /// Numbers of summed parts before and after the step.
    pub parts: [u32; 2],
    /// Seconds per batch with either number: medians of the windows.
    pub seconds: [f64; 2],
    /// Number of windows that were measured for it.
    pub windows: usize,
}

/// The search for the best share.
#[derive(Clone, Debug)]
pub(crate) struct Climb {
    /// Number of parts of the batches.
    of: u32,
    /// Seconds per batch of the pure ways: without sums of the producer, and with them.
    pure: [f64; 2],
    /// Number of parts that the producer sums, except in the windows that try a step.
    kept: u32,
    /// Seconds per batch with this number, as last measured.
    seconds: f64,
    /// Steps to try before the search rests. The last one is tried first.
    ahead: Vec<Direction>,
    doing: ClimbPhase,
    /// Windows to wait when the search rests next.
    wait: u64,
    /// Windows that a losing step may slow down, in addition to those that the run has left: as many as the search has
    /// rested, so that a new trial costs at most its share of them.
    rested: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    /// To one part less.
    Down,
    /// To one part more.
    Up,
}

#[derive(Clone, Debug)]
enum ClimbPhase {
    /// No step is tried for this many windows.
    Resting { windows: u64 },
    /// A step is tried. `times` are the seconds per batch of its windows so far, of the kept share and of the next.
    Trying { direction: Direction, times: [Vec<f64>; 2] },
}

impl Climb {
    /// Creates a search among shares of `of` parts from a pure way, with the seconds per batch of both pure ways:
    /// without sums of the producer, and with them. The run has `left` windows left.
    pub fn new(of: u32, from_all: bool, pure: [f64; 2], left: f64) -> Self {
        let (kept, inwards) = if from_all { (of, Direction::Down) } else { (0, Direction::Up) };
        let mut climb = Self {
            of,
            pure,
            kept,
            seconds: pure[usize::from(from_all)],
            ahead: Vec::new(),
            doing: ClimbPhase::Resting { windows: 0 },
            wait: FIRST_WAIT,
            rested: f64::INFINITY,
        };
        if of > 1 {
            climb.ahead.push(inwards);
        }
        climb.go_on(left);
        climb
    }

    /// Number of parts that are summed in the next window.
    pub fn next_window(&self) -> u32 {
        match &self.doing {
            ClimbPhase::Trying { direction, times } if ROUND[windows(times) % ROUND.len()] => {
                self.beside(*direction).unwrap_or(self.kept)
            }
            _ => self.kept,
        }
    }

    /// Records the seconds per batch of the window that [`Climb::next_window`] requested. `left` is the number of
    /// windows that the run has left. Returns the step that was made, if any.
    pub fn measured(&mut self, seconds: f64, left: f64) -> Option<ClimbStep> {
        let (direction, times) = match &mut self.doing {
            ClimbPhase::Resting { windows } => {
                self.seconds = seconds;
                *windows = windows.saturating_sub(1);
                if *windows == 0 {
                    self.ahead = vec![Direction::Down, Direction::Up];
                    self.go_on(left);
                }
                return None;
            }
            ClimbPhase::Trying { direction, times } => (*direction, times),
        };
        let tried = ROUND[windows(times) % ROUND.len()];
        times[usize::from(tried)].push(seconds);
        let gains = judge(times)?;
        let windows = windows(times);
        let seconds = times.each_ref().map(|times| median(times));
        let before = self.kept;
        let step = self.beside(direction).filter(|_| gains).map(|next| {
            (self.kept, self.ahead) = (next, vec![direction]);
            (self.wait, self.rested) = (FIRST_WAIT, f64::INFINITY);
            ClimbStep { parts: [before, next], seconds, windows }
        });
        self.seconds = seconds[usize::from(step.is_some())];
        self.go_on(left);
        step
    }

    /// Begins the next worthwhile step, or rests.
    fn go_on(&mut self, left: f64) {
        while let Some(direction) = self.ahead.pop() {
            if self.pays(direction, left) {
                self.doing = ClimbPhase::Trying { direction, times: Default::default() };
                return;
            }
        }
        self.doing = ClimbPhase::Resting { windows: self.wait };
        self.rested = self.wait as f64;
        self.wait = (2 * self.wait).min(LONGEST_WAIT);
    }

    /// The share next to the kept one in this direction.
    fn beside(&self, direction: Direction) -> Option<u32> {
        match direction {
            Direction::Down => self.kept.checked_sub(1),
            Direction::Up => (self.kept < self.of).then_some(self.kept + 1),
        }
    }

    /// Whether a step can be tried in the rest of the run at an acceptable cost even if it loses.
    fn pays(&self, direction: Direction, left: f64) -> bool {
        if self.beside(direction).is_none() {
            return false;
        }
        let (pure, steps) = match direction {
            Direction::Down => (self.pure[0], self.kept),
            Direction::Up => (self.pure[1], self.of - self.kept),
        };
        // The curve is convex, so the first of these steps takes at most its part of the time of all of them. It is
        // either given up after one window, or takes two windows below `TOO_SLOW`.
        let slower = (pure / self.seconds - 1.0) / f64::from(steps);
        let cost = slower.max(2.0 * (TOO_SLOW - 1.0));
        left >= MOST_WINDOWS as f64 && cost <= MOST_COST * left.min(self.rested)
    }
}

fn windows(times: &[Vec<f64>; 2]) -> usize {
    times.iter().map(Vec::len).sum()
}

/// Whether the step gains, by the windows so far; `None` if further windows must decide.
fn judge(times: &[Vec<f64>; 2]) -> Option<bool> {
    let [kept, next] = times;
    if let ([kept], [next]) = (&kept[..], &next[..])
        && *next > TOO_SLOW * kept
    {
        return Some(false);
    }
    let in_all = windows(times);
    if !in_all.is_multiple_of(ROUND.len()) {
        return None;
    }
    let gain = 1.0 - median(next) / median(kept);
    let of = |pick: fn(f64, f64) -> f64| {
        times.each_ref().map(|times| times.iter().copied().reduce(pick).unwrap_or_default())
    };
    let [least, most] = [of(f64::min), of(f64::max)];
    let spread = (most[0] - least[0]).max(most[1] - least[1]);
    let is_clear = least[0] - most[1] > spread;
    (gain <= 0.0 || is_clear || in_all >= MOST_WINDOWS).then_some(gain >= LEAST_GAIN)
}

/// The median; 0 for an empty slice.
fn median(times: &[f64]) -> f64 {
    let mut times = times.to_vec();
    times.sort_by(f64::total_cmp);
    match times.len() {
        0 => 0.0,
        count => (times[(count - 1) / 2] + times[count / 2]) / 2.0,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Seconds per batch of two stages, without sums of the producer and with them.
    #[derive(Clone, Copy, Debug)]
    struct Stages {
        producer: [f64; 2],
        consumer: [f64; 2],
    }

    impl Stages {
        /// Seconds per batch if `summed` of `of` parts are summed.
        fn time(self, summed: u32, of: u32) -> f64 {
            let share = f64::from(summed) / f64::from(of);
            let mixed = |[off, host]: [f64; 2]| off + share * (host - off);
            mixed(self.producer).max(mixed(self.consumer))
        }

        fn pure(self) -> [f64; 2] {
            [self.time(0, 1), self.time(1, 1)]
        }

        /// A search from the faster pure way with `left` windows left.
        fn search(self, of: u32, left: f64) -> Climb {
            let pure = self.pure();
            Climb::new(of, pure[1] < pure[0], pure, left)
        }

        /// The share with the least time, nearest to `near`.
        fn best(self, of: u32, near: u32) -> u32 {
            let least = (0..=of).map(|summed| self.time(summed, of)).fold(f64::INFINITY, f64::min);
            let all = (0..=of).filter(|&summed| self.time(summed, of) <= least * (1.0 + 1e-12));
            all.min_by_key(|summed| summed.abs_diff(near)).unwrap()
        }

        /// Whether the share is within one step of the best, or no step towards it would gain enough.
        fn is_good(self, kept: u32, of: u32) -> bool {
            let best = self.best(of, kept);
            let steps = best.abs_diff(kept);
            let missed = 1.0 - self.time(best, of) / self.time(kept, of);
            steps <= 1 || missed <= LEAST_GAIN * f64::from(steps)
        }
    }

    fn stages() -> impl Strategy<Value = Stages> {
        let times = || [0.01..10.0_f64, 0.01..10.0_f64];
        (times(), times()).prop_map(|(producer, consumer)| Stages { producer, consumer })
    }

    /// Noise between −1 and 1.
    fn noise(seed: u64, number: u64) -> f64 {
        let mixed = (seed ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        ((mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 40) as f64 / f64::from(1 << 23) - 1.0
    }

    /// Measures this many windows. `seconds` returns the time of a batch with a number of summed parts. Returns the
    /// steps.
    fn run(climb: &mut Climb, windows: u64, seconds: &mut dyn FnMut(u32) -> f64) -> Vec<ClimbStep> {
        let mut steps = Vec::new();
        for _ in 0..windows {
            let (summed, before) = (climb.next_window(), climb.kept);
            assert!(summed <= climb.of && summed.abs_diff(before) <= 1, "{climb:?}");
            let step = climb.measured(seconds(summed), f64::INFINITY);
            match step {
                Some(ClimbStep { parts, .. }) => assert_eq!(parts, [before, climb.kept]),
                None => assert_eq!(before, climb.kept),
            }
            assert!(climb.kept.abs_diff(before) <= 1);
            steps.extend(step);
        }
        steps
    }

    /// More windows than a search takes from one end to the other.
    fn enough(of: u32) -> u64 {
        4 * u64::from(of) + 8
    }

    proptest! {
        #[test]
        fn the_search_ends_within_a_step_of_the_best_share_for_any_stage_times(
            stages in stages(), of in 1..=16_u32,
        ) {
            let mut climb = stages.search(of, f64::INFINITY);
            let steps = run(&mut climb, enough(of), &mut |summed| stages.time(summed, of));
            prop_assert!(stages.is_good(climb.kept, of), "{climb:?}");
            prop_assert!(steps.len() <= of as usize);
            for ClimbStep { parts, seconds, windows } in steps {
                prop_assert!(seconds[1] <= (1.0 - LEAST_GAIN) * seconds[0]);
                prop_assert_eq!(seconds, parts.map(|summed| stages.time(summed, of)));
                prop_assert_eq!(windows, ROUND.len());
            }
            let later = run(&mut climb, 5000, &mut |summed| stages.time(summed, of));
            prop_assert_eq!(later, Vec::new());
        }

        #[test]
        fn a_search_that_has_settled_follows_stages_that_change(
            before in stages(), after in stages(), of in 1..=16_u32,
        ) {
            let mut climb = before.search(of, f64::INFINITY);
            run(&mut climb, 3000, &mut |summed| before.time(summed, of));
            run(&mut climb, LONGEST_WAIT + 2 * enough(of), &mut |summed| after.time(summed, of));
            prop_assert!(after.is_good(climb.kept, of), "{climb:?}");
        }

        #[test]
        fn noise_never_makes_a_run_slower_than_the_way_that_it_began_with(
            stages in stages(), of in 1..=16_u32, seed: u64,
        ) {
            let mut climb = stages.search(of, f64::INFINITY);
            let began = stages.time(climb.kept, of);
            let mut number = 0;
            run(&mut climb, 2000, &mut |summed| {
                number += 1;
                stages.time(summed, of) * (1.0 + 0.009 * noise(seed, number))
            });
            prop_assert!(stages.time(climb.kept, of) <= began, "{climb:?}");
        }

        #[test]
        fn a_run_of_any_length_loses_little_by_the_search(
            stages in stages(), of in 1..=16_u32, length in 1..3000_u64,
        ) {
            let mut climb = stages.search(of, length as f64);
            let began = stages.time(climb.kept, of) * length as f64;
            let mut took = 0.0;
            for left in (0..length).rev() {
                let seconds = stages.time(climb.next_window(), of);
                took += seconds;
                climb.measured(seconds, left as f64);
            }
            prop_assert!(took <= 1.06 * began, "{} times as long: {:?}", took / began, climb);
        }
    }

    #[test]
    fn stages_that_cross_are_settled_between_the_pure_ways() {
        // The consumer limits the run without sums of the producer, and the producer with them.
        let stages = Stages { producer: [0.4, 1.0], consumer: [1.0, 0.4] };
        let mut climb = stages.search(4, f64::INFINITY);
        let steps = run(&mut climb, enough(4), &mut |summed| stages.time(summed, 4));
        assert_eq!(steps.iter().map(|step| step.parts).collect::<Vec<_>>(), [[0, 1], [1, 2]]);
        assert_eq!((climb.kept, climb.next_window()), (2, 2));
    }

    #[test]
    fn a_pure_way_that_is_best_empties_the_other_group() {
        for (stages, parts) in [
            (Stages { producer: [0.1, 0.2], consumer: [1.0, 0.5] }, 3),
            (Stages { producer: [0.5, 1.0], consumer: [0.4, 0.3] }, 0),
        ] {
            let mut climb = stages.search(3, f64::INFINITY);
            run(&mut climb, 1000, &mut |summed| stages.time(summed, 3));
            assert_eq!(climb.kept, parts, "{stages:?}");
        }
    }

    #[test]
    fn a_step_that_takes_much_longer_is_given_up_after_one_window() {
        let mut climb = Climb::new(4, false, [1.0, 1.4], f64::INFINITY);
        let mut asked = Vec::new();
        for _ in 0..4 {
            let summed = climb.next_window();
            asked.push(summed);
            climb.measured(1.0 + 0.11 * f64::from(summed), f64::INFINITY);
        }
        assert_eq!(asked, [0, 1, 0, 0]);
    }

    #[test]
    fn a_step_that_costs_more_than_its_part_of_the_rest_is_not_retried() {
        for (host, again) in [(1.4, true), (60.0, false)] {
            let mut climb = Climb::new(4, false, [1.0, host], f64::INFINITY);
            let mut asked = Vec::new();
            for window in 0..5000 {
                let summed = climb.next_window();
                if summed == 1 {
                    asked.push(window);
                }
                climb.measured([1.0, 2.0][summed as usize], f64::INFINITY);
            }
            assert_eq!(asked[0], 1);
            assert_eq!(asked.len() > 1, again, "{host}: {asked:?}");
        }
    }

    #[test]
    fn disturbed_windows_require_further_rounds() {
        let mut climb = Climb::new(4, false, [1.0, 1.0], f64::INFINITY);
        let mut number = 0;
        let mut asked = 0;
        while climb.kept == 0 && asked < 100 {
            let summed = climb.next_window();
            let step = climb.measured([1.0, 0.9][summed as usize] + 0.1 * noise(5, number), f64::INFINITY);
            (number, asked) = (number + 1, asked + 1);
            assert!(step.is_none() || asked > ROUND.len(), "{step:?}");
        }
        assert_eq!((climb.kept, asked % ROUND.len()), (1, 0), "{climb:?}");
    }

    #[test]
    fn no_trial_starts_with_too_few_batches_left_or_no_value_in_between() {
        for (of, pure, left, tries) in [
            (4, [1.0, 1.2], 12.0, true),
            (4, [1.0, 1.2], 11.9, false),
            // A step that may take half a batch's time more, in 24 windows and in 26.
            (4, [1.0, 3.0], 24.0, false),
            (4, [1.0, 3.0], 26.0, true),
            (1, [1.0, 1.2], 1e9, false),
        ] {
            let mut climb = Climb::new(of, false, pure, left);
            climb.measured(1.0, left);
            assert_eq!(climb.next_window() == 1, tries, "{of} {pure:?} {left}");
        }
    }
}
