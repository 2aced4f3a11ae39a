//! The gathers and their durations, within the budget.

use std::error::Error;
use std::time::Duration;

use uva_cuda::memory::PinPages;

use super::figures::{Case, Figure};
use crate::backend::GatherChoice;

/// Maximum duration of all gathers, except for the one in progress.
pub const BUDGET: Duration = Duration::from_secs(2);

/// Duration of the timing of each case.
pub const EACH: Duration = Duration::from_millis(100);

/// Minimum duration of a gather, so that its start is negligible and it has as many rows as a batch.
const LEAST: Duration = Duration::from_millis(4);

/// Rows of the first gather of a case. They are few, since the machine's speed is not yet known.
const FIRST_ROWS: usize = 64;

/// Numbers of multiprocessors for the kernel, in the order of measurement. Most links need 8 to 16.
const FEW: [u32; 4] = [8, 16, 4, 32];

/// The reason why a case cannot be measured.
pub type CaseFailure = Box<dyn Error + Send + Sync>;

/// The gathers of one case at a time.
pub trait Gathers {
    /// Prepares for a case. An error concerns only this case. `so_far` are the figures of the cases before it.
    ///
    /// # Errors
    /// The reason why this case cannot be measured.
    fn prepare(&mut self, case: &Case, so_far: &[Figure]) -> Result<(), CaseFailure>;

    /// Maximum number of rows of one gather.
    fn most_rows(&self) -> usize;

    /// Gathers this many random rows `times` times, waits for all, and returns the bytes.
    ///
    /// # Errors
    /// A failure of the GPU, after which no further case can be measured.
    fn gather(&mut self, rows: usize, times: u32) -> Result<u64, CaseFailure>;

    /// The share of the rows that kernels read, if rows are split.
    fn split_share(&self) -> Option<f64>;
}

/// The cases for a GPU with this many multiprocessors, the most important first.
pub fn cases(multiprocessors: u32) -> Vec<Case> {
    let ways = [GatherChoice::ZeroCopy, GatherChoice::Dma, GatherChoice::Split].map(Case::by);
    let few = FEW.into_iter().filter(|few| *few < multiprocessors).map(Case::within);
    let pages = [PinPages::Thp, PinPages::HostAlloc, PinPages::Hugetlb].map(Case::on);
    ways.into_iter().chain(few).chain(pages).collect()
}

/// Times the cases in order. `clock` may count from any start.
///
/// # Errors
/// A failure of the GPU.
pub fn run(
    cases: &[Case],
    gathers: &mut dyn Gathers,
    clock: &mut dyn FnMut() -> Duration,
) -> Result<Vec<Figure>, CaseFailure> {
    let end = clock() + BUDGET;
    let mut figures: Vec<Figure> = Vec::with_capacity(cases.len());
    for &case in cases {
        let figure = if clock() + EACH > end {
            left_out(case, format!("the {} s for all were over", BUDGET.as_secs()))
        } else {
            match gathers.prepare(&case, &figures) {
                Err(error) => left_out(case, error.to_string()),
                // The allocation of a copy's pages takes time too.
                Ok(()) if clock() + EACH > end => {
                    left_out(case, format!("the {} s for all were over", BUDGET.as_secs()))
                }
                Ok(()) => timed(case, gathers, clock, end)?,
            }
        };
        figures.push(figure);
    }
    Ok(figures)
}

fn left_out(case: Case, why: String) -> Figure {
    Figure { case, gb_per_second: None, gathers: 0, split_share: None, left_out: Some(why) }
}

fn timed(
    case: Case,
    gathers: &mut dyn Gathers,
    clock: &mut dyn FnMut() -> Duration,
    end: Duration,
) -> Result<Figure, CaseFailure> {
    let began = clock();
    let most = gathers.most_rows();
    let mut rows = FIRST_ROWS.min(most);
    // Warms up, and determines a number of rows that takes long enough.
    loop {
        let from = clock();
        gathers.gather(rows, 1)?;
        let now = clock();
        if now - from >= LEAST || rows == most || now - began >= EACH || now >= end {
            break;
        }
        rows = (rows * 4).min(most);
    }
    let (from, mut bytes, mut times) = (clock(), 0, 0);
    let seconds = loop {
        // Two at a time: one is in flight while the next is prepared, as in a run.
        bytes += gathers.gather(rows, 2)?;
        times += 2;
        let now = clock();
        if now - from >= EACH || now >= end {
            break (now - from).as_secs_f64();
        }
    };
    Ok(Figure {
        case,
        gb_per_second: (seconds > 0.0).then(|| bytes as f64 / seconds / 1e9),
        gathers: times,
        split_share: gathers.split_share(),
        left_out: None,
    })
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;

    use super::*;

    /// A machine with simulated time.
    struct Machine {
        now: Rc<Cell<Duration>>,
        /// Seconds to prepare a case.
        prepares: f64,
        /// Bytes per second of the prepared case.
        rate: f64,
        rates: fn(&Case) -> Result<f64, CaseFailure>,
        /// Bytes gathered in all.
        bytes: u64,
    }

    impl Machine {
        fn new(prepares: f64, rates: fn(&Case) -> Result<f64, CaseFailure>) -> Self {
            Self { now: Rc::default(), prepares, rate: 0.0, rates, bytes: 0 }
        }

        fn pass(&self, seconds: f64) {
            self.now.set(self.now.get() + Duration::from_secs_f64(seconds));
        }

        fn measure(&mut self) -> Result<Vec<Figure>, CaseFailure> {
            let now = Rc::clone(&self.now);
            run(&cases(132), self, &mut || now.get())
        }
    }

    impl Gathers for Machine {
        fn prepare(&mut self, case: &Case, _: &[Figure]) -> Result<(), CaseFailure> {
            self.pass(self.prepares);
            self.rate = (self.rates)(case)?;
            Ok(())
        }

        fn most_rows(&self) -> usize {
            32 << 10
        }

        fn gather(&mut self, rows: usize, times: u32) -> Result<u64, CaseFailure> {
            let bytes = rows as u64 * u64::from(times) * 512;
            self.pass(bytes as f64 / self.rate);
            self.bytes += bytes;
            Ok(bytes)
        }

        fn split_share(&self) -> Option<f64> {
            None
        }
    }

    #[test]
    fn every_case_is_measured_within_the_budget_at_the_rate_that_it_has() {
        let mut machine = Machine::new(0.05, |case| {
            Ok(match (case.gather, case.multiprocessors) {
                (GatherChoice::ZeroCopy, Some(few)) => 2e9 * f64::from(few),
                (GatherChoice::ZeroCopy, None) => 50e9,
                _ => 40e9,
            })
        });
        let figures = machine.measure().unwrap();
        assert_eq!(figures.iter().map(|figure| figure.case).collect::<Vec<_>>(), cases(132));
        for figure in &figures {
            let expected = (machine.rates)(&figure.case).unwrap() / 1e9;
            let rate = figure.gb_per_second.expect("a rate");
            assert!((rate / expected - 1.0).abs() < 1e-6, "{figure:?}");
        }
        assert!(machine.now.get() <= BUDGET, "{:?}", machine.now.get());
    }

    #[test]
    fn what_the_budget_does_not_suffice_for_is_left_out_and_says_so() {
        let mut machine = Machine::new(0.4, |_| Ok(50e9));
        let figures = machine.measure().unwrap();
        let measured = figures.iter().filter(|figure| figure.gb_per_second.is_some()).count();
        assert_eq!(measured, 3, "half a second each");
        for figure in &figures[measured..] {
            assert!(figure.left_out.as_ref().unwrap().contains("2 s for all"), "{figure:?}");
        }
        // The last case that was begun exceeds the budget by at most its preparation.
        assert!(machine.now.get() <= BUDGET + Duration::from_millis(500), "{:?}", machine.now.get());
    }

    /// For example under the simulator, which gathers a million times slower.
    #[test]
    fn a_machine_of_any_slowness_ends_soon_after_the_budget() {
        let mut machine = Machine::new(0.0, |_| Ok(1e5));
        let figures = machine.measure().unwrap();
        assert!(figures[0].gathers > 0 && figures.last().unwrap().left_out.is_some());
        // The gather in progress may end, here with 64 rows at a time.
        assert!(machine.now.get() <= BUDGET + Duration::from_secs(1), "{:?}", machine.now.get());
    }

    #[test]
    fn only_a_case_that_the_machine_lacks_is_skipped_and_a_gpu_fault_ends_all() {
        let mut machine = Machine::new(0.0, |case| match case.pages {
            PinPages::Hugetlb => Err("no pages are reserved".into()),
            _ => Ok(50e9),
        });
        let figures = machine.measure().unwrap();
        let (lacking, others): (Vec<_>, Vec<_>) =
            figures.into_iter().partition(|figure| figure.left_out.is_some());
        assert_eq!(lacking.len(), 1);
        assert_eq!(lacking[0].left_out.as_deref(), Some("no pages are reserved"));
        assert!(others.iter().all(|figure| figure.gb_per_second > Some(0.0)));

        struct Lost;
        impl Gathers for Lost {
            fn prepare(&mut self, _: &Case, _: &[Figure]) -> Result<(), CaseFailure> {
                Ok(())
            }
            fn most_rows(&self) -> usize {
                64
            }
            fn gather(&mut self, _: usize, _: u32) -> Result<u64, CaseFailure> {
                Err("the device is lost".into())
            }
            fn split_share(&self) -> Option<f64> {
                None
            }
        }
        let error = run(&cases(132), &mut Lost, &mut Duration::default).unwrap_err();
        assert_eq!(error.to_string(), "the device is lost");
    }

    #[test]
    fn a_small_gpu_is_kept_to_no_more_multiprocessors_than_it_has() {
        let few = |all| cases(all).iter().filter_map(|case| case.multiprocessors).max();
        assert_eq!((few(132), few(16), few(4)), (Some(32), Some(8), None));
    }
}
