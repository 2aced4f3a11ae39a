//! Sums along an axis whose end is not known beforehand, in memory that does not grow with it.

use serde::{Serialize, Serializer};

/// Values that can be summed, field by field.
pub trait Sum: Clone + Default {
    /// Adds another.
    fn add(&mut self, other: &Self);
}

impl Sum for f64 {
    fn add(&mut self, other: &f64) {
        *self += other;
    }
}

impl<T: Sum, const N: usize> Sum for [T; N]
where
    [T; N]: Default,
{
    fn add(&mut self, other: &Self) {
        self.iter_mut().zip(other).for_each(|(mine, other)| mine.add(other));
    }
}

/// Sums over equal stretches of an axis. When there are too many, neighbouring pairs merge into one of twice the width.
#[derive(Clone, Debug)]
pub struct Stretches<T> {
    width: u64,
    most: usize,
    sums: Vec<T>,
}

impl<T: Sum> Stretches<T> {
    /// An empty sum with at most `most` (two or more) stretches, of width 1 at first.
    pub fn new(most: usize) -> Self {
        Self { width: 1, most, sums: Vec::new() }
    }

    /// The stretch that this position lies in.
    pub fn at(&mut self, position: u64) -> &mut T {
        while position / self.width >= self.most as u64 {
            self.sums = joined(&self.sums, 2);
            self.width *= 2;
        }
        let place = (position / self.width) as usize;
        if self.sums.len() <= place {
            self.sums.resize_with(place + 1, T::default);
        }
        &mut self.sums[place]
    }

    /// Gives each stretch between these positions its share, from 0 to 1. If the positions are equal, their stretch
    /// gets the whole share.
    pub fn spread(&mut self, from: u64, to: u64, mut give: impl FnMut(&mut T, f64)) {
        if to <= from {
            return give(self.at(from), 1.0);
        }
        // The last stretch first, because it determines the width.
        self.at(to - 1);
        let (width, whole) = (self.width, (to - from) as f64);
        for place in from / width..=(to - 1) / width {
            let begin = from.max(place * width);
            let end = to.min((place + 1).saturating_mul(width));
            give(self.at(place * width), (end - begin) as f64 / whole);
        }
    }

    /// Removes the stretches from this position on. A stretch that contains the position stays.
    pub fn cut(&mut self, position: u64) {
        self.sums.truncate(usize::try_from(position.div_ceil(self.width)).unwrap_or(usize::MAX));
    }

    /// At most `wanted` stretches with their width; if there are more, they are merged into wider ones.
    pub fn at_most(&self, wanted: usize) -> (u64, Vec<T>) {
        let together = self.sums.len().div_ceil(wanted.max(1)).max(1);
        (self.width * together as u64, joined(&self.sums, together))
    }
}

fn joined<T: Sum>(sums: &[T], together: usize) -> Vec<T> {
    let join = |chunk: &[T]| {
        let mut sum = T::default();
        chunk.iter().for_each(|part| sum.add(part));
        sum
    };
    sums.chunks(together).map(join).collect()
}

/// Statistics of numbers: count, sum, least and largest.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SeriesSummary {
    pub count: u64,
    pub sum: f64,
    pub least: f64,
    pub most: f64,
}

impl SeriesSummary {
    /// The statistics of one number.
    pub fn one(value: f64) -> Self {
        Self { count: 1, sum: value, least: value, most: value }
    }

    /// The mean; `None` if empty.
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum / self.count as f64)
    }
}

/// Serialized as the mean.
impl Serialize for SeriesSummary {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.mean().serialize(serializer)
    }
}

impl Sum for SeriesSummary {
    fn add(&mut self, other: &Self) {
        *self = match (self.count, other.count) {
            (_, 0) => *self,
            (0, _) => *other,
            _ => Self {
                count: self.count + other.count,
                sum: self.sum + other.sum,
                least: self.least.min(other.least),
                most: self.most.max(other.most),
            },
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_many_stretches_become_half_as_many_of_twice_the_width() {
        let mut sums = Stretches::<f64>::new(4);
        for position in 0..4 {
            *sums.at(position) += 1.0;
        }
        assert_eq!(sums.at_most(9), (1, vec![1.0; 4]));
        *sums.at(4) += 1.0;
        assert_eq!(sums.at_most(9), (2, vec![2.0, 2.0, 1.0]));
        *sums.at(15) += 1.0;
        assert_eq!(sums.at_most(9), (4, vec![4.0, 1.0, 0.0, 1.0]));
        assert_eq!(sums.at_most(2), (8, vec![5.0, 1.0]));
        *sums.at(u64::MAX) += 1.0;
        let (width, all) = sums.at_most(9);
        assert_eq!((width, all.len(), all.iter().sum::<f64>()), (1 << 62, 4, 7.0));
    }

    #[test]
    fn what_is_spread_is_shared_by_the_stretches_that_it_covers() {
        let mut sums = Stretches::<f64>::new(4);
        *sums.at(39) += 0.0; // Four of sixteen.
        sums.spread(8, 40, |sum, share| *sum += 100.0 * share);
        // 8 of the 32 lie in the first, 16 in the second, 8 in the third.
        assert_eq!(sums.at_most(9), (16, vec![25.0, 50.0, 25.0]));
        sums.spread(20, 20, |sum, share| *sum += share);
        assert_eq!(sums.at_most(9).1, [25.0, 51.0, 25.0]);
    }

    #[test]
    fn what_is_cut_is_forgotten() {
        let mut sums = Stretches::<f64>::new(4);
        for position in 0..8 {
            *sums.at(position) += 1.0;
        }
        sums.cut(6);
        assert_eq!(sums.at_most(9), (2, vec![2.0; 3]));
        sums.cut(3);
        assert_eq!(sums.at_most(9).1, [2.0, 2.0]);
        sums.cut(0);
        assert!(sums.at_most(9).1.is_empty());
    }

    #[test]
    fn numbers_seen_add_up_and_nothing_changes_nothing() {
        let mut seen = SeriesSummary::default();
        assert_eq!(seen.mean(), None);
        for value in [3.0, -1.0, 4.0] {
            seen.add(&SeriesSummary::one(value));
            seen.add(&SeriesSummary::default());
        }
        assert_eq!(seen, SeriesSummary { count: 3, sum: 6.0, least: -1.0, most: 4.0 });
        assert_eq!(seen.mean(), Some(2.0));
    }
}
