//! Divides the rows of a batch between two paths that work at the same time.
//!
//! Both paths end together when each gets rows in proportion to its rate. So the share moves towards that proportion
//! after every batch, by a part of the difference. Rates are measured while both paths compete for the same memory and
//! the same link, so a single batch is a noisy sample. A step that overshoots would make the next measurement worse.
//! The share is never 0 or 1: both rates stay measured, and a path that becomes faster is noticed.

/// The fraction of the difference by which one measurement moves the share.
const GAIN: f64 = 0.25;

/// The smallest share of either path.
const LEAST: f64 = 1.0 / 32.0;

/// The work of one path on its rows of a batch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PathWork {
    /// The number of rows.
    pub rows: usize,
    /// Wall-clock seconds from the common start to the end of this path.
    pub seconds: f64,
}

impl PathWork {
    /// Rows per second; `None` without a measurement.
    fn rate(self) -> Option<f64> {
        let rate = self.rows as f64 / self.seconds;
        (rate.is_finite() && rate > 0.0).then_some(rate)
    }
}

/// The share of the first of two paths.
#[derive(Clone, Debug, PartialEq)]
pub struct Balance {
    share: f64,
}

impl Default for Balance {
    fn default() -> Self {
        Self::new(0.5)
    }
}

impl Balance {
    /// Starts with `share` of the rows, 0…1, for the first path.
    pub fn new(share: f64) -> Self {
        let share = if share.is_finite() { share } else { 0.5 };
        Self { share: share.clamp(LEAST, 1.0 - LEAST) }
    }

    /// The share of the first path: between 1/32 and 31/32.
    pub fn share(&self) -> f64 {
        self.share
    }

    /// The number of `rows` rows that the first path gets; the second gets the others.
    pub fn first_of(&self, rows: usize) -> usize {
        // The share is below 1, so this is below `rows` up to rounding, and `min` bounds the rest.
        ((rows as f64 * self.share).round() as usize).min(rows)
    }

    /// Updates the share from both paths' measurements of a batch. Nothing changes if either had no rows or took no
    /// time.
    pub fn measured(&mut self, first: PathWork, second: PathWork) {
        let (Some(first), Some(second)) = (first.rate(), second.rate()) else { return };
        let wanted = first / (first + second);
        self.share = (self.share + GAIN * (wanted - self.share)).clamp(LEAST, 1.0 - LEAST);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Batches of `rows` rows by two paths of the given rows per second.
    fn settle(balance: &mut Balance, rows: usize, first_rate: f64, second_rate: f64, batches: usize) {
        for _ in 0..batches {
            let first = balance.first_of(rows);
            let part = |rows: usize, rate: f64| PathWork { rows, seconds: rows as f64 / rate };
            balance.measured(part(first, first_rate), part(rows - first, second_rate));
        }
    }

    #[test]
    fn any_first_share_converges_to_where_both_ways_end_together() {
        for start in [0.0, 0.1, 0.5, 1.0, f64::NAN] {
            for (first, second) in [(35e6, 20e6), (1e6, 1e6), (2e6, 14e6)] {
                let mut balance = Balance::new(start);
                settle(&mut balance, 100_000, first, second, 60);
                let fair = first / (first + second);
                assert!(
                    (balance.share() - fair).abs() < 1e-3,
                    "from {start}: {} for {fair}",
                    balance.share()
                );
            }
        }
    }

    #[test]
    fn a_way_that_becomes_faster_is_noticed_however_small_its_share_was() {
        let mut balance = Balance::default();
        settle(&mut balance, 100_000, 1e9, 1.0, 200);
        assert_eq!(balance.share(), 1.0 - LEAST);
        settle(&mut balance, 100_000, 1.0, 1e9, 200);
        assert_eq!(balance.share(), LEAST);
    }

    #[test]
    fn one_odd_measurement_moves_the_share_by_a_quarter_of_the_way_at_most() {
        let mut balance = Balance::new(0.5);
        balance.measured(PathWork { rows: 50, seconds: 1e-12 }, PathWork { rows: 50, seconds: 1e12 });
        assert!(balance.share() <= 0.5 + 0.5 * GAIN + 1e-12, "{}", balance.share());
    }

    #[test]
    fn what_was_not_measured_changes_nothing() {
        let mut balance = Balance::new(0.3);
        let good = PathWork { rows: 10, seconds: 1.0 };
        for bad in [
            PathWork { rows: 0, seconds: 1.0 },
            PathWork { rows: 10, seconds: 0.0 },
            PathWork { rows: 10, seconds: -1.0 },
            PathWork { rows: 10, seconds: f64::NAN },
        ] {
            balance.measured(bad, good);
            balance.measured(good, bad);
        }
        assert_eq!(balance, Balance::new(0.3));
    }

    #[test]
    fn every_row_has_an_owner() {
        for share in [0.0, 0.3, 0.5, 1.0] {
            let balance = Balance::new(share);
            for rows in [0, 1, 2, 3, 31, 32, 1_000_003] {
                assert!(balance.first_of(rows) <= rows);
            }
        }
        assert_eq!(Balance::new(1.0).first_of(1), 1);
        assert_eq!(Balance::new(0.0).first_of(1), 0);
    }
}
