//! The smallest of many keys, in the order of their places.

/// Collects the `want` smallest of the offered keys; ties go to lower places. Places are offered in ascending order,
/// and come out so.
pub(super) struct Smallest {
    want: usize,
    /// Only keys up to this bound can be among the smallest; `None`: no further key can.
    limit: Option<u64>,
    /// Candidates for the smallest keys, places ascending.
    kept: Vec<(u64, u32)>,
    scratch: Vec<(u64, u32)>,
}

/// The minimum of candidates collected before the largest are discarded.
const LEAST: usize = 64;

impl Smallest {
    /// For up to `most` smallest keys.
    pub(super) fn new(most: usize) -> Self {
        let memory = || Vec::with_capacity((2 * most).max(LEAST));
        Self { want: 0, limit: None, kept: memory(), scratch: memory() }
    }

    /// Clears all keys and sets `want` for the next ones: at least 1, and no more than there is memory for.
    pub(super) fn begin(&mut self, want: usize) {
        self.want = want;
        self.limit = Some(u64::MAX);
        self.kept.clear();
    }

    /// Takes a key.
    #[inline]
    pub(super) fn offer(&mut self, key: u64, place: u32) {
        if self.limit.is_some_and(|limit| key <= limit) {
            self.kept.push((key, place));
            if self.kept.len() >= (2 * self.want).max(LEAST) {
                self.prune();
            }
        }
    }

    /// The smallest, places ascending: `want` of them, or all offered keys if those are fewer.
    pub(super) fn finish(&mut self) -> &[(u64, u32)] {
        if self.kept.len() > self.want {
            self.prune();
        }
        &self.kept
    }

    fn prune(&mut self) {
        self.scratch.clear();
        self.scratch.extend_from_slice(&self.kept);
        let (_, &mut worst, _) = self.scratch.select_nth_unstable(self.want - 1);
        // Later keys have later places, so an equal key is useless.
        self.limit = worst.0.checked_sub(1);
        self.kept.retain(|&entry| entry <= worst);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_smallest_are_those_that_sorting_finds(
            keys in proptest::collection::vec(prop_oneof![0..5_u64, any::<u64>(), Just(u64::MAX)], 0..400),
            want in 1_usize..100,
        ) {
            let mut sorted: Vec<(u64, u32)> = keys.iter().copied().zip(0..).collect();
            sorted.sort_unstable();
            sorted.truncate(want);
            sorted.sort_unstable_by_key(|&(_, place)| place);
            let mut smallest = Smallest::new(100);
            for _ in 0..2 {
                smallest.begin(want);
                keys.iter().zip(0..).for_each(|(&key, place)| smallest.offer(key, place));
                prop_assert_eq!(smallest.finish(), &sorted[..]);
            }
        }
    }
}
