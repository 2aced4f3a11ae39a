//! The edges of a node, summed by what they lead to.

/// Places of a table that has few labels.
const FEW: usize = 64;

/// Sums by label: a table of hashes that a node's edges fit in, so that it stays in the first caches however many labels
/// there are.
pub(crate) struct Tally {
    /// A sum of 0 is an empty place. The first `places` are in use, a power of two.
    table: Vec<(u32, u64)>,
    places: usize,
    /// The places that are taken, in the order in which they were: at most half of them.
    taken: Vec<u32>,
}

impl Tally {
    pub(crate) fn new() -> Tally {
        Tally { table: vec![(0, 0); FEW], places: FEW, taken: Vec::new() }
    }

    /// Adds edges to a label's sum, one at least.
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

    /// The labels that have edges with their sums, in the order in which they came.
    pub(crate) fn sums(&self) -> impl Iterator<Item = (u32, u64)> + '_ {
        self.taken.iter().map(|&place| self.table[place as usize])
    }

    pub(crate) fn clear(&mut self) {
        for place in self.taken.drain(..) {
            self.table[place as usize].1 = 0;
        }
        self.places = FEW;
    }

    /// Where a label is, or would be.
    fn place(&self, label: u32) -> usize {
        // Fibonacci hashing: the upper bits of the product depend on all of the label's.
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
