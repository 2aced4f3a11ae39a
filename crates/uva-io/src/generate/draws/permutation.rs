//! A shuffle of 0..n without memory: position to id and back, each in a few steps.

use uva_graph::mix;

use super::random::{GeneratorPurpose, RandomStream};

const ROUNDS: usize = 4;

/// A keyed bijection of 0..`len`: a Feistel network over the next even number of bits, iterated until the result is in
/// range (Black and Rogaway 2002, "cycle walking"). A walk takes less than four steps on average.
#[derive(Debug, Clone)]
pub(crate) struct Permutation {
    len: u64,
    half_bits: u32,
    keys: [u64; ROUNDS],
}

impl Permutation {
    pub(crate) fn new(len: u64, seed: u64) -> Permutation {
        let bits = u64::BITS - len.saturating_sub(1).leading_zeros();
        let mut stream = RandomStream::new(seed, GeneratorPurpose::Permutation, 0);
        Permutation { len, half_bits: bits.div_ceil(2).max(1), keys: std::array::from_fn(|_| stream.next()) }
    }

    /// The id at `position`.
    pub(crate) fn forward(&self, position: u64) -> u64 {
        self.walk(position, |value| {
            let (mut left, mut right) = self.halves(value);
            for key in self.keys {
                (left, right) = (right, left ^ self.round(right, key));
            }
            (left << self.half_bits) | right
        })
    }

    /// The position of `id`.
    pub(crate) fn backward(&self, id: u64) -> u64 {
        self.walk(id, |value| {
            let (mut left, mut right) = self.halves(value);
            for key in self.keys.into_iter().rev() {
                (left, right) = (right ^ self.round(left, key), left);
            }
            (left << self.half_bits) | right
        })
    }

    /// In both directions the network is a bijection of a larger range, so a walk from inside the range returns to it.
    fn walk(&self, mut value: u64, step: impl Fn(u64) -> u64) -> u64 {
        debug_assert!(value < self.len);
        loop {
            value = step(value);
            if value < self.len {
                return value;
            }
        }
    }

    fn halves(&self, value: u64) -> (u64, u64) {
        (value >> self.half_bits, value & self.mask())
    }

    fn round(&self, half: u64, key: u64) -> u64 {
        mix(half ^ key) & self.mask()
    }

    fn mask(&self) -> u64 {
        (1 << self.half_bits) - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_position_has_an_id_of_its_own_and_finds_back() {
        for len in [1, 2, 3, 5, 16, 17, 1000, 4096, 4097] {
            let permutation = Permutation::new(len, 11);
            let mut ids: Vec<u64> = (0..len).map(|position| permutation.forward(position)).collect();
            for (position, &id) in ids.iter().enumerate() {
                assert_eq!(permutation.backward(id), position as u64, "of {len}");
            }
            ids.sort_unstable();
            assert!(ids.iter().copied().eq(0..len), "of {len}");
        }
    }
}
