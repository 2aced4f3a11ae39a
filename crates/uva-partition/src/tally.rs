//! The edges of a node, summed by what they lead to.

/// Sums by label, of which there is a known number. All are 0 between two nodes.
pub(crate) struct Tally {
    sums: Vec<u64>,
    touched: Vec<u32>,
}

impl Tally {
    pub(crate) fn of(labels: usize) -> Tally {
        Tally { sums: vec![0; labels], touched: Vec::new() }
    }

    pub(crate) fn add(&mut self, label: u32, edges: u64) {
        let sum = &mut self.sums[label as usize];
        if *sum == 0 {
            self.touched.push(label);
        }
        *sum += edges;
    }

    pub(crate) fn sum(&self, label: u32) -> u64 {
        self.sums[label as usize]
    }

    /// The labels that have edges, in the order in which they came.
    pub(crate) fn labels(&self) -> impl Iterator<Item = u32> + '_ {
        self.touched.iter().copied()
    }

    pub(crate) fn clear(&mut self) {
        for label in self.touched.drain(..) {
            self.sums[label as usize] = 0;
        }
    }
}
