//! Link traffic of a batch's first aggregation: as rows that are summed after the link, or as sums that are computed
//! before it.

use std::ops::AddAssign;

use serde::{Deserialize, Serialize};

/// Counts of a batch's outermost block, or their totals over several. A row misses if it is not cached on the near side
/// of the link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SumCounts {
    /// The nodes that aggregate.
    pub destinations: u64,
    /// All nodes of the batch, including the destinations.
    pub sources: u64,
    /// Entries of the destinations' lists.
    pub entries: u64,
    /// Sources that miss.
    pub misses: u64,
    /// Sources that miss and are in a list.
    pub listed_misses: u64,
    /// Entries whose source misses.
    pub missed_entries: u64,
    /// Destinations with an entry whose source misses.
    pub missing_sums: u64,
    /// Destinations whose own row misses.
    pub own_misses: u64,
    /// Destinations whose own row misses, or that have an entry whose source misses.
    pub missing_sums_with_own: u64,
}

impl SumCounts {
    /// Counts the block whose sources are `nodes` and whose destination `v`, the `v`-th source, has the list
    /// `indices[indptr[v]..indptr[v + 1]]` of positions in `nodes`. `is_cached` returns whether a node is cached.
    ///
    /// # Panics
    /// If the offsets do not match the indices, or an index is not below the number of nodes.
    #[must_use]
    pub fn of(nodes: &[i64], indptr: &[i32], indices: &[i32], is_cached: impl Fn(i64) -> bool) -> Self {
        let misses: Vec<bool> = nodes.iter().map(|&node| !is_cached(node)).collect();
        let mut listed = vec![false; nodes.len()];
        let destinations = indptr.len().saturating_sub(1);
        let mut counts = Self {
            destinations: destinations as u64,
            sources: nodes.len() as u64,
            entries: indices.len() as u64,
            misses: count(&misses),
            own_misses: count(&misses[..destinations]),
            ..Self::default()
        };
        for (ends, own_misses) in indptr.windows(2).zip(&misses) {
            let list = &indices[ends[0] as usize..ends[1] as usize];
            let mut missed = 0;
            for &source in list {
                listed[source as usize] = true;
                missed += u64::from(misses[source as usize]);
            }
            counts.missed_entries += missed;
            counts.missing_sums += u64::from(missed > 0);
            counts.missing_sums_with_own += u64::from(missed > 0 || *own_misses);
        }
        counts.listed_misses =
            misses.iter().zip(&listed).filter(|(misses, listed)| **misses && **listed).count() as u64;
        counts
    }

    /// Bytes over the link if every missing row crosses it once. For reads over the link, `row_bytes` is the
    /// [`row_link_bytes`](crate::row_link_bytes) of a row.
    #[must_use]
    pub fn raw_bytes(&self, row_bytes: u64) -> u64 {
        self.misses * row_bytes
    }

    /// Bytes if sums of `sum_bytes` cross it in place of the rows that are only listed. These are one sum for each
    /// destination with a missing entry, and the destinations' own rows that miss.
    #[must_use]
    pub fn mean_bytes(&self, row_bytes: u64, sum_bytes: u64) -> u64 {
        self.missing_sums * sum_bytes + self.own_misses * row_bytes
    }

    /// Bytes if the sums include the destinations' own rows.
    #[must_use]
    pub fn gcn_bytes(&self, sum_bytes: u64) -> u64 {
        self.missing_sums_with_own * sum_bytes
    }

    /// Ratio of the bytes of rows to those of sums, without own rows in either.
    #[must_use]
    pub fn listed_ratio(&self, row_bytes: u64, sum_bytes: u64) -> Option<f64> {
        ratio(self.listed_misses * row_bytes, self.missing_sums * sum_bytes)
    }

    /// Ratio of the bytes of rows to [`mean_bytes`](Self::mean_bytes).
    #[must_use]
    pub fn mean_ratio(&self, row_bytes: u64, sum_bytes: u64) -> Option<f64> {
        ratio(self.raw_bytes(row_bytes), self.mean_bytes(row_bytes, sum_bytes))
    }

    /// Ratio of the bytes of rows to [`gcn_bytes`](Self::gcn_bytes).
    #[must_use]
    pub fn gcn_ratio(&self, row_bytes: u64, sum_bytes: u64) -> Option<f64> {
        ratio(self.raw_bytes(row_bytes), self.gcn_bytes(sum_bytes))
    }
}

fn count(those: &[bool]) -> u64 {
    those.iter().filter(|is| **is).count() as u64
}

/// `None` if sums move no bytes over the link.
fn ratio(raw: u64, sums: u64) -> Option<f64> {
    (sums > 0).then(|| raw as f64 / sums as f64)
}

impl AddAssign for SumCounts {
    fn add_assign(&mut self, other: Self) {
        for (sum, more) in [
            (&mut self.destinations, other.destinations),
            (&mut self.sources, other.sources),
            (&mut self.entries, other.entries),
            (&mut self.misses, other.misses),
            (&mut self.listed_misses, other.listed_misses),
            (&mut self.missed_entries, other.missed_entries),
            (&mut self.missing_sums, other.missing_sums),
            (&mut self.own_misses, other.own_misses),
            (&mut self.missing_sums_with_own, other.missing_sums_with_own),
        ] {
            *sum += more;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three destinations, 10 to 12, and three other sources, 20 to 22. Lists: {20, 21, 20}, {}, {10, 22}.
    fn counted(cached: &[i64]) -> SumCounts {
        let nodes = [10, 11, 12, 20, 21, 22];
        SumCounts::of(&nodes, &[0, 3, 3, 5], &[3, 4, 3, 0, 5], |node| cached.contains(&node))
    }

    #[test]
    fn without_a_cache_all_rows_or_a_sum_for_each_nonempty_list_cross() {
        let counts = counted(&[]);
        let expected = SumCounts {
            destinations: 3,
            sources: 6,
            entries: 5,
            misses: 6,
            listed_misses: 4,
            missed_entries: 5,
            missing_sums: 2,
            own_misses: 3,
            missing_sums_with_own: 3,
        };
        assert_eq!(counts, expected);
        assert_eq!(counts.raw_bytes(10), 60);
        assert_eq!(counts.mean_bytes(10, 40), 2 * 40 + 3 * 10);
        assert_eq!(counts.gcn_bytes(40), 3 * 40);
        assert_eq!(counts.listed_ratio(10, 10), Some(2.0));
        assert_eq!(counts.mean_ratio(10, 10), Some(1.2));
        assert_eq!(counts.gcn_ratio(10, 10), Some(2.0));
    }

    #[test]
    fn what_is_cached_neither_crosses_nor_makes_a_sum_cross() {
        // All entries of the first list hit, and so do its destination and the second one.
        let counts = counted(&[20, 21, 10, 11]);
        assert_eq!((counts.misses, counts.listed_misses, counts.missed_entries), (2, 1, 1));
        assert_eq!((counts.missing_sums, counts.own_misses, counts.missing_sums_with_own), (1, 1, 1));
        // An own row that misses makes its sum cross the link, although its list hits.
        let counts = counted(&[20, 21, 22, 10, 11]);
        assert_eq!((counts.missing_sums, counts.own_misses, counts.missing_sums_with_own), (0, 1, 1));
        let none = counted(&[10, 11, 12, 20, 21, 22]);
        assert_eq!((none.raw_bytes(10), none.mean_bytes(10, 40), none.gcn_bytes(40)), (0, 0, 0));
        assert_eq!(none.mean_ratio(10, 10), None);
    }

    #[test]
    fn counts_of_several_batches_add_up_field_by_field() {
        let (one, other) = (counted(&[]), counted(&[20]));
        let mut both = one;
        both += other;
        let fields = |counts: &SumCounts| serde_json::to_value(counts).unwrap();
        for (name, value) in fields(&both).as_object().unwrap() {
            let sum = fields(&one)[name].as_u64().unwrap() + fields(&other)[name].as_u64().unwrap();
            assert_eq!(value.as_u64(), Some(sum), "{name}");
        }
    }
}
