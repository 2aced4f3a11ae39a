//! An epoch over several sequences, which give a seed each in turns.

use uva_graph::Split;

use super::sequences::SeedSequences;
use crate::philox::{RandomPurpose, StreamKey};

/// The state of it: scratch that is kept from epoch to epoch.
pub(super) struct InTurns {
    sequences: SeedSequences,
    /// Of the sequences the first ones.
    count: usize,
    seed: u64,
    /// A mark for each position that is out.
    out: Vec<u64>,
    /// Where each sequence goes on.
    places: Vec<usize>,
}

impl InTurns {
    /// Over the first `count` of these sequences.
    ///
    /// # Panics
    /// Where there are fewer, or none.
    pub fn new(sequences: SeedSequences, count: usize, seed: u64) -> Self {
        assert!((1..=sequences.count()).contains(&count), "{count} of {sequences:?}");
        let out = vec![0; sequences.positions().div_ceil(64)];
        Self { count, seed, out, places: vec![0; count], sequences }
    }

    /// Where a sequence of `len` positions begins in an epoch.
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

    /// Writes the order of an epoch, which depends on no earlier one.
    pub fn write(&mut self, epoch: u32, order: &mut [u32]) {
        self.out.fill(0);
        for sequence in 0..self.count {
            self.places[sequence] = self.rotation(sequence, epoch);
        }
        for (turn, given) in order.iter_mut().enumerate() {
            let sequence = self.sequences.sequence(turn % self.count);
            let place = &mut self.places[turn % self.count];
            // Ends: fewer positions are out than the sequence has, and it has each of them.
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
