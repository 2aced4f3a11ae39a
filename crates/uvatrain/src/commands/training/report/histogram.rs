//! A histogram of numbers in bounded memory.

use std::collections::BTreeMap;

/// Distinct places before neighbouring pairs are merged.
const MOST: usize = 2048;

/// A histogram of whole numbers whose range is not known beforehand. It is exact while there are few distinct ones.
#[derive(Clone, Debug, Default)]
pub struct Histogram {
    /// Numbers are counted by `number >> shift`.
    shift: u32,
    counts: BTreeMap<u64, u64>,
    all: u64,
    sum: f64,
    least: u64,
    most: u64,
}

/// A bar: a half-open range of numbers and their count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bar {
    pub from: u64,
    pub to: u64,
    pub count: u64,
}

impl Histogram {
    /// Adds a number.
    pub fn add(&mut self, number: u64) {
        (self.least, self.most) = match self.all {
            0 => (number, number),
            _ => (self.least.min(number), self.most.max(number)),
        };
        self.all += 1;
        self.sum += number as f64;
        *self.counts.entry(number >> self.shift).or_default() += 1;
        while self.counts.len() > MOST {
            self.shift += 1;
            for (place, count) in std::mem::take(&mut self.counts) {
                *self.counts.entry(place >> 1).or_default() += count;
            }
        }
    }

    /// How many numbers were added.
    pub fn count(&self) -> u64 {
        self.all
    }

    /// The least and the largest number; `None` if empty.
    pub fn range(&self) -> Option<(u64, u64)> {
        (self.all > 0).then_some((self.least, self.most))
    }

    /// The mean; `None` if empty.
    pub fn mean(&self) -> Option<f64> {
        (self.all > 0).then(|| self.sum / self.all as f64)
    }

    /// The least number that this share of the numbers does not exceed, as exact as the histogram.
    pub fn quantile(&self, share: f64) -> Option<u64> {
        let rank = ((share * self.all as f64).ceil() as u64).clamp(1, self.all.max(1));
        let mut below = 0;
        self.counts.iter().find_map(|(&place, &count)| {
            below += count;
            (below >= rank).then(|| (place << self.shift).clamp(self.least, self.most))
        })
    }

    /// About `wanted` bars of equal width, or fewer, from the least number to the largest, with round ends.
    pub fn bars(&self, wanted: u64) -> Vec<Bar> {
        let Some((least, most)) = self.range() else { return Vec::new() };
        let width = round_width((most - least) / wanted.max(1) + 1).max(1 << self.shift);
        let first = least / width;
        let bar = |index: u64| {
            let from = (first + index) * width;
            Bar { from, to: from.saturating_add(width), count: 0 }
        };
        let mut bars: Vec<Bar> = (0..=most / width - first).map(bar).collect();
        for (&place, &count) in &self.counts {
            let number = (place << self.shift).clamp(least, most);
            bars[(number / width - first) as usize].count += count;
        }
        bars
    }
}

/// The next of 1, 2, 5, 10, 20, 50, …
fn round_width(at_least: u64) -> u64 {
    let ten = 10u64.pow(at_least.ilog10());
    let widths = [1, 2, 5, 10].into_iter().filter_map(|factor| ten.checked_mul(factor));
    widths.into_iter().find(|width| *width >= at_least).unwrap_or(at_least)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(numbers: impl IntoIterator<Item = u64>) -> Histogram {
        let mut histogram = Histogram::default();
        numbers.into_iter().for_each(|number| histogram.add(number));
        histogram
    }

    #[test]
    fn few_numbers_are_counted_exactly_in_bars_with_round_ends() {
        let histogram = of([1003, 1001, 1024, 1024, 1049, 566]);
        assert_eq!((histogram.count(), histogram.range()), (6, Some((566, 1049))));
        // 483 / 5 + 1 = 97: bars of 100.
        let bars = histogram.bars(5);
        let counts: Vec<(u64, u64)> = bars.iter().map(|bar| (bar.from, bar.count)).collect();
        assert_eq!(counts, [(500, 1), (600, 0), (700, 0), (800, 0), (900, 0), (1000, 5)]);
        assert_eq!(histogram.quantile(0.5), Some(1003));
        assert_eq!(histogram.quantile(0.0), Some(566));
        assert_eq!(histogram.quantile(1.0), Some(1049));
        assert_eq!(histogram.mean(), Some(5667.0 / 6.0));
    }

    #[test]
    fn one_number_alone_is_one_bar_and_none_is_none() {
        assert_eq!(of([7, 7]).bars(20), [Bar { from: 7, to: 8, count: 2 }]);
        assert!(of([]).bars(20).is_empty());
        assert_eq!((of([]).quantile(0.5), of([]).mean(), of([]).range()), (None, None, None));
    }

    #[test]
    fn many_distinct_numbers_take_no_more_room_and_keep_their_sum() {
        let histogram = of((0..100_000).map(|number| number * 3));
        assert!(histogram.counts.len() <= MOST && histogram.shift > 0);
        let bars = histogram.bars(10);
        assert_eq!(bars.iter().map(|bar| bar.count).sum::<u64>(), 100_000);
        // Bars of 50,000: each holds a sixth, as near as a place of the histogram is wide.
        assert!(bars.iter().all(|bar| bar.count.abs_diff(16_667) < 200), "{bars:?}");
        let median = histogram.quantile(0.5).unwrap();
        assert!(median.abs_diff(150_000) < 600, "{median}");
        assert_eq!(of([0, u64::MAX, 3]).bars(4).iter().map(|bar| bar.count).sum::<u64>(), 3);
    }
}
