//! An epoch over several sequences, which give one seed each alternately.

use uva_graph::Split;

use super::sequences::SeedSequences;
use crate::philox::{RandomPurpose, StreamKey};

/// The state of such an epoch. Scratch memory is reused in later epochs.
pub(super) struct InTurns {
    sequences: SeedSequences,
    /// Number of sequences in use, from the first on.
    count: usize,
    seed: u64,
    /// A mark for each position that has been given.
    out: Vec<u64>,
    /// The next place of each sequence.
    places: Vec<usize>,
}

impl InTurns {
    /// Creates the state for the first `count` sequences.
    ///
    /// # Panics
    /// If there are fewer sequences, or `count` is 0.
    pub fn new(sequences: SeedSequences, count: usize, seed: u64) -> Self {
        assert!((1..=sequences.count()).contains(&count), "{count} of {sequences:?}");
        let out = vec![0; sequences.positions().div_ceil(64)];
        Self { count, seed, out, places: vec![0; count], sequences }
    }

    /// The start of a sequence of `len` positions in an epoch.
    fn rotation(&self, sequence: usize, epoch: u32) -> usize {
        let key = StreamKey {
            seed: self.seed,
            node: sequence as u64,
            purpose: RandomPurpose::Proximity,
            layer: 1,
            batch: 0,
            epoch,
            split: Split::Train,
        };
        // Not truncated: positions are of 32 bits.
        key.stream().bounded(self.sequences.positions() as u32) as usize
    }

    /// Writes the order of an epoch, which does not depend on earlier epochs.
    pub fn write(&mut self, epoch: u32, order: &mut [u32]) {
        self.out.fill(0);
        for sequence in 0..self.count {
            self.places[sequence] = self.rotation(sequence, epoch);
        }
        for (turn, given) in order.iter_mut().enumerate() {
            let sequence = self.sequences.sequence(turn % self.count);
            let place = &mut self.places[turn % self.count];
            // The loop ends: fewer positions have been given than the sequence has, and it has each of them.
            *given = loop {
                let position = sequence[*place];
                *place = if *place + 1 == sequence.len() { 0 } else { *place + 1 };
                let (word, bit) = (&mut self.out[position as usize / 64], 1 << (position % 64));
                if *word & bit == 0 {
                    *word |= bit;
                    break position;
                }
            };
        }
    }
}
