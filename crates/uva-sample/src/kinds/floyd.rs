//! The positions picked from a list, given its random words.
//!
//! Two paths give the same picks. The fast one assumes that no draw is rejected, and reads words generated for many
//! nodes side by side. If it detects a possible rejection, the exact path starts over and draws from the stream word by
//! word. A draw below `n` is rejected with probability below `n / 2³²`, so the exact path is rare.

use crate::philox::StreamKey;

/// Bits of the map of taken positions. The map is exact for lists up to this length.
const MAP_BITS: usize = 1 << 16;

pub(crate) struct Picker {
    /// One bit per position (modulo [`MAP_BITS`]); all zero between calls.
    taken: Box<[u64; MAP_BITS / 64]>,
    exact: PositionSet,
}

impl Picker {
    /// Allocates memory for up to `max_picks` picks from one list.
    pub(crate) fn new(max_picks: usize) -> Self {
        Self { taken: Box::new([0; MAP_BITS / 64]), exact: PositionSet::new(max_picks) }
    }

    /// Fills `picks` with positions drawn without replacement from the list `begin..begin + degree`. It uses Floyd's
    /// method (Bentley and Floyd, "A sample of brilliance", 1987), which reads only what it picks.
    ///
    /// `words` are the first words of the stream of `key`, at least one per pick; `picks` is shorter than `degree`.
    #[inline]
    pub(crate) fn without_replacement(
        &mut self,
        key: &StreamKey,
        words: &[u32],
        begin: usize,
        degree: u32,
        picks: &mut [usize],
    ) {
        let first = degree - picks.len() as u32;
        let sure = if degree <= 64 {
            floyd_in_a_word(words, begin, first, picks)
        } else {
            self.floyd_in_a_map(words, begin, first, picks)
        };
        if !sure {
            self.floyd_exactly(key, begin, first, picks);
        }
    }

    /// The counterpart of [`floyd_in_a_word`] for lists of any length.
    #[inline]
    fn floyd_in_a_map(&mut self, words: &[u32], begin: usize, first: u32, picks: &mut [usize]) -> bool {
        let beyond_map = first as usize + picks.len() > MAP_BITS;
        let mut doubt = false;
        for ((&word, j), pick) in words.iter().zip(first..).zip(picks.iter_mut()) {
            let (drawn, may_be_rejected) = draw(word, j + 1);
            let (cell, bit) = place(drawn);
            let taken = self.taken[cell] >> bit & 1 == 1;
            doubt |= may_be_rejected | (taken & beyond_map);
            let position = if taken { j } else { drawn };
            let (cell, bit) = place(position);
            self.taken[cell] |= 1 << bit;
            *pick = begin + position as usize;
        }
        for pick in picks.iter() {
            self.taken[place((*pick - begin) as u32).0] = 0;
        }
        !doubt
    }

    /// Fills `picks` with positions of the list `begin..begin + degree`, drawn exactly as the contract says, with or
    /// without replacement, word by word from the stream of `key`.
    #[cold]
    pub(crate) fn exactly(
        &mut self,
        key: &StreamKey,
        begin: usize,
        degree: u32,
        replace: bool,
        picks: &mut [usize],
    ) {
        if replace {
            let mut stream = key.stream();
            picks.fill_with(|| begin + stream.bounded(degree) as usize);
        } else {
            self.floyd_exactly(key, begin, degree - picks.len() as u32, picks);
        }
    }

    /// Floyd's method, exact.
    #[cold]
    fn floyd_exactly(&mut self, key: &StreamKey, begin: usize, first: u32, picks: &mut [usize]) {
        let mut stream = key.stream();
        self.exact.clear();
        for (j, pick) in (first..).zip(picks) {
            let drawn = stream.bounded(j + 1);
            let position = if self.exact.insert(drawn) {
                drawn
            } else {
                self.exact.insert(j);
                j
            };
            *pick = begin + position as usize;
        }
    }
}

/// Fills `picks` with draws with replacement from the list `begin..begin + degree`.
///
/// `words` are the first words of the stream of `key`, at least one per pick.
#[inline]
pub(crate) fn with_replacement(
    key: &StreamKey,
    words: &[u32],
    begin: usize,
    degree: u32,
    picks: &mut [usize],
) {
    let mut doubt = false;
    for (&word, pick) in words.iter().zip(picks.iter_mut()) {
        let (drawn, may_be_rejected) = draw(word, degree);
        doubt |= may_be_rejected;
        *pick = begin + drawn as usize;
    }
    if doubt {
        let mut stream = key.stream();
        picks.fill_with(|| begin + stream.bounded(degree) as usize);
    }
}

/// Lemire's draw below `bound`, and whether the word may have to be rejected.
#[inline]
fn draw(word: u32, bound: u32) -> (u32, bool) {
    let product = u64::from(word) * u64::from(bound);
    ((product >> 32) as u32, (product as u32) < bound)
}

/// The cell and bit of a position in the map.
#[inline]
fn place(position: u32) -> (usize, u32) {
    ((position / 64) as usize % (MAP_BITS / 64), position % 64)
}

/// Floyd's method for lists of at most 64 entries. False if a draw may have to be rejected: the picks are then void.
#[inline]
fn floyd_in_a_word(words: &[u32], begin: usize, first: u32, picks: &mut [usize]) -> bool {
    let mut taken = 0_u64;
    let mut doubt = false;
    for ((&word, j), pick) in words.iter().zip(first..).zip(picks) {
        let (drawn, may_be_rejected) = draw(word, j + 1);
        doubt |= may_be_rejected;
        let position = if taken >> drawn & 1 == 1 { j } else { drawn };
        taken |= 1 << position;
        *pick = begin + position as usize;
    }
    !doubt
}

/// A set of positions: open addressing, cleared in constant time by a stamp.
struct PositionSet {
    /// `stamp << 32 | position`; a power of two, at most half full.
    entries: Vec<u64>,
    stamp: u32,
}

impl PositionSet {
    fn new(capacity: usize) -> Self {
        // Floyd's method does one insertion and one lookup per pick.
        Self { entries: vec![0; (2 * capacity.max(1)).next_power_of_two()], stamp: 0 }
    }

    fn clear(&mut self) {
        self.stamp = self.stamp.wrapping_add(1);
        if self.stamp == 0 {
            self.entries.fill(0);
            self.stamp = 1;
        }
    }

    /// Inserts a position. Returns false if it is already in the set.
    fn insert(&mut self, position: u32) -> bool {
        let entry = u64::from(self.stamp) << 32 | u64::from(position);
        let mask = self.entries.len() - 1;
        let mut at = (position.wrapping_mul(0x9E37_79B9) >> 7) as usize & mask;
        loop {
            match self.entries[at] {
                found if found == entry => return false,
                found if (found >> 32) as u32 != self.stamp => {
                    self.entries[at] = entry;
                    return true;
                }
                _ => at = (at + 1) & mask,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;
    use uva_graph::Split;

    use super::*;
    use crate::philox::RandomPurpose;

    fn key(node: u64) -> StreamKey {
        StreamKey {
            seed: 11,
            node,
            purpose: RandomPurpose::Neighbors,
            layer: 0,
            batch: 0,
            epoch: 0,
            split: Split::Train,
        }
    }

    fn words(key: &StreamKey, count: usize) -> Vec<u32> {
        let mut stream = key.stream();
        (0..count).map(|_| stream.next_u32()).collect()
    }

    /// Floyd's method in its textbook form.
    fn floyd(key: &StreamKey, begin: usize, degree: u32, count: usize) -> Vec<usize> {
        let mut stream = key.stream();
        let mut taken = HashSet::new();
        let mut picks = Vec::new();
        for j in degree - count as u32..degree {
            let drawn = stream.bounded(j + 1);
            let position = if taken.contains(&drawn) { j } else { drawn };
            taken.insert(position);
            picks.push(begin + position as usize);
        }
        picks
    }

    fn check(picker: &mut Picker, node: u64, degree: u32, count: usize) {
        let key = key(node);
        let mut picks = vec![0; count];
        picker.without_replacement(&key, &words(&key, count), 1000, degree, &mut picks);
        assert_eq!(picks, floyd(&key, 1000, degree, count), "node {node}, {count} of {degree}");
        assert!(picker.taken.iter().all(|&cell| cell == 0), "the map is not clean");
    }

    proptest! {
        #[test]
        fn picks_equal_those_of_the_plain_method(
            node in any::<u64>(),
            degree in prop_oneof![2_u32..70, 2_u32..5000, 60_000_u32..70_000, 2_u32..u32::MAX],
            share in 0.0..1.0_f64,
        ) {
            let count = ((f64::from(degree.min(300)) * share) as usize).clamp(1, degree as usize - 1);
            check(&mut Picker::new(300), node, degree, count);
        }

        #[test]
        fn draws_with_replacement_equal_the_streams(node in any::<u64>(), degree in 2..u32::MAX, count in 1_usize..40) {
            let key = key(node);
            let mut picks = vec![0; count];
            with_replacement(&key, &words(&key, count), 7, degree, &mut picks);
            let mut stream = key.stream();
            let expected: Vec<_> = (0..count).map(|_| 7 + stream.bounded(degree) as usize).collect();
            prop_assert_eq!(picks, expected);
        }
    }

    #[test]
    fn as_many_picks_as_allowed_out_of_a_list_beyond_the_map_are_exact() {
        let mut picker = Picker::new(1 << 16);
        check(&mut picker, 1, 1 << 20, 1 << 16);
        check(&mut picker, 2, (1 << 16) + 1, 1 << 16);
        check(&mut picker, 3, 1 << 16, (1 << 16) - 1);
    }

    #[test]
    fn positions_that_share_a_bit_of_the_map_are_distinguished() {
        // 300 picks from a list a little longer than the map hit such a pair for about half of all nodes.
        let mut picker = Picker::new(300);
        for node in 0..20 {
            check(&mut picker, node, 100_000, 300);
        }
    }

    #[test]
    fn a_draw_that_is_rejected_is_drawn_again() {
        // Three quarters of 2^32: one word in four is rejected, so nearly every node takes the exact path.
        let mut picker = Picker::new(15);
        for node in 0..50 {
            check(&mut picker, node, 3 << 30, 15);
        }
    }

    #[test]
    fn the_set_survives_the_wrap_of_its_stamp() {
        let mut set = PositionSet::new(4);
        set.clear();
        assert!(set.insert(3) && !set.insert(3));
        set.stamp = u32::MAX;
        set.clear();
        assert!(set.insert(3) && !set.insert(3));
    }
}
