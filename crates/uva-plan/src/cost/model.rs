//! The cost model, which values a hit.
//!
//! A few timed runs, with caches of several sizes, give time against hit rate for sampling and for gathering. A
//! straight line fitted to each gives the saving of a batch if every read hit (DUCATI; Zhang et al., SIGMOD 2023).
//! Where no line fits, or the time does not fall with hits, both caches are valued by the bytes that they keep off the
//! link, so that the values are comparable.

use serde::{Deserialize, Serialize};

/// Bytes that one read of a list moves over the link, which is one sector. A visit reads the list's place and one entry
/// per pick; these are too far apart to share sectors.
pub const LIST_READ_BYTES: u64 = 32;

/// Bytes of a cache line, the unit in which feature rows are read.
const LINE_BYTES: u64 = 128;

/// Minimum R² of an accepted line.
const LEAST_R2: f64 = 0.8;

/// Minimum number of points for a line; two points always fit.
const LEAST_POINTS: usize = 3;

/// Bytes that a row of `row_bytes` moves over the link: the cache lines that it touches, averaged over the rows of a
/// table that starts on a cache line. Rows start at multiples of g = gcd(`row_bytes`, 128) from a line's start, each
/// equally often, so a row touches (`row_bytes` + 128 − g) / 128 lines.
#[must_use]
pub fn row_link_bytes(row_bytes: u64) -> u64 {
    if row_bytes == 0 {
        return 0;
    }
    // The greatest power of two that divides it, at most a cache line.
    let common = 1 << row_bytes.trailing_zeros().min(LINE_BYTES.trailing_zeros());
    row_bytes + LINE_BYTES - common
}

/// Time against hit rate: `intercept_ms + slope_ms · hit rate`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// Milliseconds per batch when nothing hits.
    pub intercept_ms: f64,
    /// Additional milliseconds when everything hits; negative if hits save time.
    pub slope_ms: f64,
    /// The share of the times' variance that the line explains, 0 to 1.
    pub r2: f64,
}

impl Line {
    /// Fits a line to (hit rate, milliseconds) by least squares. `None` for fewer than three points, points of a single
    /// hit rate, and numbers that are not finite. If all times are equal, R² is 0.
    #[must_use]
    pub fn fit(points: &[(f64, f64)]) -> Option<Self> {
        if points.len() < LEAST_POINTS || points.iter().any(|(x, y)| !x.is_finite() || !y.is_finite()) {
            return None;
        }
        let count = points.len() as f64;
        let mean_x = points.iter().map(|(x, _)| x).sum::<f64>() / count;
        let mean_y = points.iter().map(|(_, y)| y).sum::<f64>() / count;
        // Relative to the means, so that close hit rates do not cancel.
        let (mut xx, mut xy, mut yy) = (0.0, 0.0, 0.0);
        for (x, y) in points {
            let (dx, dy) = (x - mean_x, y - mean_y);
            xx += dx * dx;
            xy += dx * dy;
            yy += dy * dy;
        }
        if xx <= 0.0 {
            return None;
        }
        let slope_ms = xy / xx;
        let r2 = if yy > 0.0 { (xy * xy / (xx * yy)).min(1.0) } else { 0.0 };
        Some(Self { intercept_ms: mean_y - slope_ms * mean_x, slope_ms, r2 })
    }

    /// Milliseconds per batch at `hit_rate`.
    #[must_use]
    pub fn at(&self, hit_rate: f64) -> f64 {
        self.intercept_ms + self.slope_ms * hit_rate
    }
}

/// The basis on which one cache's hits are valued.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Basis {
    /// A line that fits and falls.
    Measured {
        /// The line.
        line: Line,
    },
    /// Bytes kept off the link.
    Bytes {
        /// The reason for the fallback, for people.
        reason: String,
        /// The mean of the timed runs, the best estimate of the time without a line.
        mean_ms: Option<f64>,
    },
}

impl Basis {
    /// Fits a line to timed points (hit rate, milliseconds per batch), or falls back to bytes.
    #[must_use]
    pub fn of(points: &[(f64, f64)]) -> Self {
        let count = points.len();
        let mean_ms = (count > 0)
            .then(|| points.iter().map(|(_, ms)| ms).sum::<f64>() / count as f64)
            .filter(|mean| mean.is_finite());
        let bytes = |reason| Self::Bytes { reason, mean_ms };
        match Line::fit(points) {
            None if count == 0 => bytes("nothing was timed".to_owned()),
            None => {
                bytes(format!("{count} timed points do not make a line: three of different hit rates do"))
            }
            Some(line) if line.slope_ms >= 0.0 => bytes(format!(
                "hits save no time: {:+.3} ms a batch from no hit to all (R² {:.2})",
                line.slope_ms, line.r2
            )),
            Some(line) if line.r2 < LEAST_R2 => bytes(format!(
                "no line fits the timed runs: R² is {:.2}, below {LEAST_R2} (slope {:+.3} ms)",
                line.r2, line.slope_ms
            )),
            Some(line) => Self::Measured { line },
        }
    }

    fn ms(&self, hit_rate: f64) -> Option<f64> {
        match self {
            Self::Measured { line } => Some(line.at(hit_rate)),
            Self::Bytes { mean_ms, .. } => *mean_ms,
        }
    }

    /// The reason for the fallback, if there was one.
    #[must_use]
    pub fn fallback(&self) -> Option<&str> {
        match self {
            Self::Measured { .. } => None,
            Self::Bytes { reason, .. } => Some(reason),
        }
    }
}

/// All reads of a batch, hits and misses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ReadsPerBatch {
    /// Reads of lists.
    pub lists: f64,
    /// Rows gathered.
    pub rows: f64,
}

/// How the times of sampling and gathering, each timed alone, combine to the time of a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Objective {
    /// The stages alternate on the same hardware, so their times add up.
    #[default]
    Sum,
    /// The stages run concurrently and share the link. The slowest of sampling, gathering, and the link's time for the
    /// reads of both determines the time.
    Pipeline,
}

/// The savings of hits in both caches.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CostModel {
    /// How the two times combine.
    pub objective: Objective,
    /// The basis for the list cache.
    pub sampling: Basis,
    /// The basis for the row cache.
    pub gathering: Basis,
    /// Reads of a batch.
    pub reads: ReadsPerBatch,
    /// Bytes that a missing row moves over the link.
    pub row_link_bytes: u64,
}

/// The savings of a batch if all reads of a kind hit, either both in milliseconds or both in bytes over the link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Benefits {
    /// The saving if all reads of lists hit.
    pub lists: f64,
    /// The saving if all rows hit.
    pub rows: f64,
    /// Whether the savings are in milliseconds.
    pub milliseconds: bool,
}

/// The prediction for a batch, for each stage alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Prediction {
    /// Share of list reads that hit.
    pub list_hit_rate: f64,
    /// Share of rows that hit.
    pub row_hit_rate: f64,
    /// Milliseconds to sample a batch; `None` if sampling was not timed.
    pub sampling_ms: Option<f64>,
    /// Milliseconds to gather the rows of a batch; `None` if gathering was not timed.
    pub gathering_ms: Option<f64>,
    /// Bytes of lists and rows that cross the link.
    pub link_bytes: f64,
}

impl CostModel {
    /// Fits the model to timed points (hit rate, milliseconds per batch) of each kind, combined by [`Objective::Sum`].
    #[must_use]
    pub fn new(
        sampling: &[(f64, f64)],
        gathering: &[(f64, f64)],
        reads: ReadsPerBatch,
        row_bytes: u64,
    ) -> Self {
        Self {
            objective: Objective::Sum,
            sampling: Basis::of(sampling),
            gathering: Basis::of(gathering),
            reads,
            row_link_bytes: row_link_bytes(row_bytes),
        }
    }

    /// Replaces the objective.
    #[must_use]
    pub fn by(self, objective: Objective) -> Self {
        Self { objective, ..self }
    }

    /// Whether the cost is a sum over lists and rows. Bytes always add up, since one link carries them.
    #[must_use]
    pub fn is_sum(&self) -> bool {
        self.objective == Objective::Sum || !self.benefits().milliseconds
    }

    /// The savings of full caches. They are in milliseconds only if both lines fit, since values of different units are
    /// not comparable.
    #[must_use]
    pub fn benefits(&self) -> Benefits {
        match (&self.sampling, &self.gathering) {
            (Basis::Measured { line: sampling }, Basis::Measured { line: gathering }) => {
                Benefits { lists: -sampling.slope_ms, rows: -gathering.slope_ms, milliseconds: true }
            }
            _ => Benefits {
                lists: self.reads.lists * LIST_READ_BYTES as f64,
                rows: self.reads.rows * self.row_link_bytes as f64,
                milliseconds: false,
            },
        }
    }

    /// The cost of a batch at these hit rates by the objective, in the unit of [`benefits`](Self::benefits): the value
    /// that the allocator minimises.
    #[must_use]
    pub fn cost(&self, list_hit_rate: f64, row_hit_rate: f64) -> f64 {
        match self.batch_ms(list_hit_rate, row_hit_rate) {
            Some(ms) if self.benefits().milliseconds => ms,
            _ => self.predict(list_hit_rate, row_hit_rate).link_bytes,
        }
    }

    /// Milliseconds per batch at these hit rates, by the objective; `None` if a stage was not timed.
    #[must_use]
    pub fn batch_ms(&self, list_hit_rate: f64, row_hit_rate: f64) -> Option<f64> {
        let Prediction { sampling_ms, gathering_ms, link_bytes, .. } =
            self.predict(list_hit_rate, row_hit_rate);
        let (sampling, gathering) = (sampling_ms?, gathering_ms?);
        Some(match self.objective {
            Objective::Sum => sampling + gathering,
            Objective::Pipeline => sampling.max(gathering).max(link_bytes * self.link_ms_per_byte()),
        })
    }

    /// Milliseconds of the link per byte: the additional time of gathering for each byte of a missed row. 0 if no line
    /// fits.
    fn link_ms_per_byte(&self) -> f64 {
        let bytes = self.reads.rows * self.row_link_bytes as f64;
        match &self.gathering {
            Basis::Measured { line } if bytes > 0.0 => -line.slope_ms / bytes,
            _ => 0.0,
        }
    }

    /// The prediction at these hit rates.
    #[must_use]
    pub fn predict(&self, list_hit_rate: f64, row_hit_rate: f64) -> Prediction {
        let lists = self.reads.lists * LIST_READ_BYTES as f64 * (1.0 - list_hit_rate);
        let rows = self.reads.rows * self.row_link_bytes as f64 * (1.0 - row_hit_rate);
        Prediction {
            list_hit_rate,
            row_hit_rate,
            sampling_ms: self.sampling.ms(list_hit_rate),
            gathering_ms: self.gathering.ms(row_hit_rate),
            link_bytes: lists + rows,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const READS: ReadsPerBatch = ReadsPerBatch { lists: 1000.0, rows: 200.0 };
    const FALLING: [(f64, f64); 4] = [(0.0, 10.0), (0.2, 8.0), (0.5, 5.0), (1.0, 0.0)];

    #[test]
    fn a_line_through_points_on_a_line_is_that_line() {
        let line = Line::fit(&FALLING).unwrap();
        assert!((line.intercept_ms - 10.0).abs() < 1e-12 && (line.slope_ms + 10.0).abs() < 1e-12);
        assert!((line.r2 - 1.0).abs() < 1e-12);
        assert!((line.at(0.3) - 7.0).abs() < 1e-12);
    }

    #[test]
    fn a_line_through_scattered_points_is_that_of_least_squares() {
        // By hand: means 0.5 and 2; Σdxdy −1.5, Σdx² 0.5, Σdy² 6.
        let line = Line::fit(&[(0.0, 4.0), (0.5, 1.0), (1.0, 1.0)]).unwrap();
        assert!((line.slope_ms + 3.0).abs() < 1e-12 && (line.intercept_ms - 3.5).abs() < 1e-12);
        assert!((line.r2 - 0.75).abs() < 1e-12);
    }

    #[test]
    fn too_few_points_one_hit_rate_and_numbers_that_are_none_make_no_line() {
        assert_eq!(Line::fit(&FALLING[..2]), None);
        assert_eq!(Line::fit(&[(0.3, 1.0), (0.3, 2.0), (0.3, 3.0)]), None);
        assert_eq!(Line::fit(&[(0.0, 1.0), (0.5, f64::NAN), (1.0, 3.0)]), None);
        assert!(Basis::of(&[(0.0, 1.0), (0.5, f64::INFINITY), (1.0, 3.0)]).fallback().is_some());
    }

    #[test]
    fn hits_that_save_no_time_are_valued_by_bytes_with_a_reason() {
        let rising = [(0.0, 1.0), (0.5, 2.0), (1.0, 3.0)];
        let flat = [(0.0, 2.0), (0.5, 2.0), (1.0, 2.0)];
        let noisy = [(0.0, 5.0), (0.5, 1.0), (1.0, 3.0)];
        for (points, says) in [
            (&rising[..], "save no time"),
            (&flat, "save no time"),
            (&noisy, "R² is 0.25"),
            (&[], "nothing was timed"),
        ] {
            let basis = Basis::of(points);
            let reason = basis.fallback().expect("no line is to be trusted here");
            assert!(reason.contains(says), "{reason}");
            let Basis::Bytes { mean_ms, .. } = basis else { unreachable!() };
            assert_eq!(mean_ms.is_none(), points.is_empty());
        }
    }

    #[test]
    fn both_caches_are_valued_in_one_unit() {
        let both = CostModel::new(&FALLING, &FALLING, READS, 512);
        assert!(both.benefits().milliseconds);
        assert!((both.benefits().lists - 10.0).abs() < 1e-12);
        for (sampling, gathering) in [(&FALLING[..], &[][..]), (&[], &FALLING), (&[], &[])] {
            let benefits = CostModel::new(sampling, gathering, READS, 512).benefits();
            assert_eq!(benefits, Benefits { lists: 32_000.0, rows: 200.0 * 512.0, milliseconds: false });
        }
    }

    #[test]
    fn cost_falls_by_the_benefit_from_no_hit_to_all() {
        for model in [CostModel::new(&FALLING, &FALLING, READS, 512), CostModel::new(&[], &[], READS, 480)] {
            let benefits = model.benefits();
            assert!((model.cost(0.0, 0.0) - model.cost(1.0, 0.0) - benefits.lists).abs() < 1e-9);
            assert!((model.cost(0.0, 0.0) - model.cost(0.0, 1.0) - benefits.rows).abs() < 1e-9);
        }
    }

    #[test]
    fn in_a_pipeline_the_slowest_of_both_stages_and_of_their_link_counts() {
        // A row in 512 bytes, a list read in 32: 102,400 and 32,000 bytes. Gathering takes 10 ms, all of it the link's.
        let slow: Vec<(f64, f64)> = FALLING.iter().map(|(rate, ms)| (*rate, 20.0 + ms)).collect();
        let of =
            |sampling: &[(f64, f64)]| CostModel::new(sampling, &FALLING, READS, 512).by(Objective::Pipeline);
        let near =
            |found: f64, expected: f64| assert!((found - expected).abs() < 1e-9, "{found}, {expected}");
        // Both stages read over one link.
        near(of(&FALLING).cost(0.0, 0.0), 10.0 * (102_400.0 + 32_000.0) / 102_400.0);
        near(of(&FALLING).cost(1.0, 0.0), 10.0);
        near(of(&FALLING).cost(0.0, 1.0), 10.0);
        near(of(&slow).cost(0.0, 0.0), 30.0);
        near(of(&slow).cost(0.5, 1.0), 25.0);
        assert!(!of(&slow).is_sum() && of(&slow).by(Objective::Sum).is_sum());
        // Bytes over one link add up in either case.
        let bytes = CostModel::new(&[], &[], READS, 512);
        assert!(bytes.clone().by(Objective::Pipeline).is_sum());
        near(bytes.cost(0.5, 0.5), bytes.by(Objective::Pipeline).cost(0.5, 0.5));
    }

    #[test]
    fn a_row_moves_the_lines_it_touches() {
        for row_bytes in 1..=1025_u64 {
            // 128 rows cover every alignment that a row of this size can have.
            let lines: u64 = (0..128)
                .map(|row| {
                    let (first, end) = (row * row_bytes, (row + 1) * row_bytes);
                    end.div_ceil(128) - first / 128
                })
                .sum();
            assert_eq!(row_link_bytes(row_bytes), lines, "rows of {row_bytes} bytes");
        }
        assert_eq!(row_link_bytes(0), 0);
    }
}
