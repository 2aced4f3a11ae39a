//! Sums of a node's edges by label.

/// Places in a table for few labels.
const FEW: usize = 64;

/// Sums by label, in a hash table sized for one node's edges, so that it stays in the first caches for any number of
/// labels.
pub(crate) struct LabelTally {
    /// A sum of 0 is an empty place. The first `places` are in use, a power of two.
    table: Vec<(u32, u64)>,
    places: usize,
    /// The occupied places in the order of insertion: at most half of all.
    taken: Vec<u32>,
}

impl LabelTally {
    pub(crate) fn new() -> LabelTally {
        LabelTally { table: vec![(0, 0); FEW], places: FEW, taken: Vec::new() }
    }

    /// Adds one or more edges to a label's sum.
    pub(crate) fn add(&mut self, label: u32, edges: u64) {
        let mut place = self.place(label);
        if self.table[place].1 == 0 {
            if 2 * self.taken.len() >= self.places {
                self.grow();
                place = self.place(label);
            }
            self.taken.push(place as u32);
            self.table[place].0 = label;
        }
        self.table[place].1 += edges;
    }

    pub(crate) fn sum(&self, label: u32) -> u64 {
        self.table[self.place(label)].1
    }

    /// The labels that have edges with their sums, in the order of insertion.
    pub(crate) fn sums(&self) -> impl Iterator<Item = (u32, u64)> + '_ {
        self.taken.iter().map(|&place| self.table[place as usize])
    }

    pub(crate) fn clear(&mut self) {
        for place in self.taken.drain(..) {
            self.table[place as usize].1 = 0;
        }
        self.places = FEW;
    }

    /// The place of a label, or the place where it would be inserted.
    fn place(&self, label: u32) -> usize {
        // Fibonacci hashing: the upper bits of the product depend on all bits of the label.
        let shift = 64 - self.places.trailing_zeros();
        let mut place = (u64::from(label).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> shift) as usize;
        while self.table[place].1 != 0 && self.table[place].0 != label {
            place = (place + 1) & (self.places - 1);
        }
        place
    }

    fn grow(&mut self) {
        let sums: Vec<(u32, u64)> = self.sums().collect();
        let places = 2 * self.places;
        self.clear();
        self.places = places;
        if self.table.len() < places {
            self.table.resize(places, (0, 0));
        }
        for (label, sum) in sums {
            let place = self.place(label);
            self.taken.push(place as u32);
            self.table[place] = (label, sum);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn sums_are_those_of_a_map_for_any_number_of_labels_and_none_remains() {
        let mut tally = LabelTally::new();
        for labels in [1, 31, 32, 33, 5000, 2] {
            let mut expected = HashMap::new();
            let mut first = Vec::new();
            for edge in 0..3 * labels {
                // Labels far apart, and some next to each other.
                let label =
                    (edge % labels) * if edge % 2 == 0 { 1 } else { 858_993_459 % (u32::MAX / labels) };
                tally.add(label, u64::from(edge % 7) + 1);
                let sum: &mut u64 = expected.entry(label).or_default();
                if *sum == 0 {
                    first.push(label);
                }
                *sum += u64::from(edge % 7) + 1;
            }
            let found: Vec<(u32, u64)> = tally.sums().collect();
            let expected: Vec<(u32, u64)> = first.iter().map(|label| (*label, expected[label])).collect();
            assert_eq!(found, expected);
            assert!(found.iter().all(|(label, sum)| tally.sum(*label) == *sum));
            assert_eq!(tally.sum(u32::MAX), 0);
            tally.clear();
            assert_eq!((tally.sums().count(), tally.sum(first[0])), (0, 0));
        }
    }
}
