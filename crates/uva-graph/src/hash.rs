//! Hashes that identify arrays.

use rayon::prelude::*;
use uva_mem::mix;

/// Bytes hashed by one task of [`of_array`]; a multiple of a word.
const TASK_BYTES: usize = 1 << 20;

/// The summand of `value` at `position` of array `tag` in a sum over all values. A sum has no order, so parts of it can
/// be computed in parallel. The position makes swapped values change the sum.
#[inline]
pub(crate) const fn term(tag: u8, position: u64, value: u64) -> u64 {
    mix(mix(((tag as u64) << 56).wrapping_add(position)) ^ value)
}

/// A hash of bytes, including their number.
pub(crate) fn of_bytes(bytes: &[u8]) -> u64 {
    let mut sum = term(0, u64::MAX >> 8, bytes.len() as u64);
    for (position, chunk) in bytes.chunks(8).enumerate() {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        sum = sum.wrapping_add(term(0, position as u64, u64::from_le_bytes(word)));
    }
    sum
}

/// The hash of an array's elements: the wrapping sum over all words of eight bytes, little-endian, of a value that
/// depends on `tag`, the word's position and the word itself. The last word is filled up with zeros. Parallel.
pub fn of_array(tag: u8, bytes: &[u8]) -> u64 {
    of_part(tag, 0, bytes)
}

/// The contribution to an array's hash of consecutive words, of which the first has position `first`. Uses the current
/// rayon pool.
pub fn of_part(tag: u8, first: u64, bytes: &[u8]) -> u64 {
    let of_task = |(task, bytes): (usize, &[u8])| {
        let mut hash = ArrayHash::from_word(tag, first + (task * (TASK_BYTES / 8)) as u64);
        hash.add(bytes);
        hash.finish()
    };
    bytes.par_chunks(TASK_BYTES).enumerate().map(of_task).reduce(|| 0, u64::wrapping_add)
}

/// Incremental version of [`of_array`].
#[derive(Debug, Clone)]
pub struct ArrayHash {
    tag: u8,
    /// Words in the sum.
    words: u64,
    sum: u64,
    /// The first bytes of the next word.
    rest: [u8; 8],
    held: usize,
}

impl ArrayHash {
    /// Creates the hash of an empty array.
    pub fn new(tag: u8) -> ArrayHash {
        ArrayHash::from_word(tag, 0)
    }

    fn from_word(tag: u8, words: u64) -> ArrayHash {
        ArrayHash { tag, words, sum: 0, rest: [0; 8], held: 0 }
    }

    /// Adds the next bytes.
    pub fn add(&mut self, mut bytes: &[u8]) {
        if self.held > 0 {
            let (fills, behind) = bytes.split_at(bytes.len().min(8 - self.held));
            self.rest[self.held..self.held + fills.len()].copy_from_slice(fills);
            self.held += fills.len();
            bytes = behind;
            if self.held < 8 {
                return;
            }
            self.word(self.rest);
        }
        let (words, rest) = bytes.as_chunks::<8>();
        words.iter().for_each(|word| self.word(*word));
        self.rest = [0; 8];
        self.rest[..rest.len()].copy_from_slice(rest);
        self.held = rest.len();
    }

    fn word(&mut self, word: [u8; 8]) {
        self.sum = self.sum.wrapping_add(term(self.tag, self.words, u64::from_le_bytes(word)));
        self.words += 1;
    }

    /// The hash of all bytes added.
    pub fn finish(mut self) -> u64 {
        if self.held > 0 {
            self.word(self.rest);
        }
        self.sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_array_has_one_hash_however_its_bytes_come() {
        let bytes: Vec<u8> = (0..3 * TASK_BYTES + 5).map(|at| (at % 251) as u8).collect();
        let whole = of_array(7, &bytes);
        for piece in [1000, 8, 4096 + 3] {
            let mut hash = ArrayHash::new(7);
            bytes.chunks(piece).for_each(|piece| hash.add(piece));
            assert_eq!(hash.finish(), whole, "in pieces of {piece}");
        }
        let parts = (0..).zip(bytes.chunks(TASK_BYTES + 8));
        let of_parts = parts.map(|(part, bytes)| of_part(7, part * (TASK_BYTES as u64 + 8) / 8, bytes));
        assert_eq!(of_parts.fold(0, u64::wrapping_add), whole, "in parts");
        assert_ne!(of_array(8, &bytes), whole, "the tag counts");
        let mut swapped = bytes.clone();
        swapped.swap(8, 17);
        assert_ne!(of_array(7, &swapped), whole, "places count");
        assert_eq!(of_array(7, &[]), 0);
    }
}
