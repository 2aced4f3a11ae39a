//! Which destinations of a batch are summed before a link, and which are left to be summed behind it.
//!
//! A sum crosses in place of its list's rows. A row that several lists name crosses once, for all destinations that are
//! left. So whether a sum pays depends on what becomes of the other destinations. [`MissedLists::divide`] finds a
//! division that a change of one destination makes no better, from several starts, and takes the best. It moves no more
//! than all rows do, and no more than all sums do.

use std::ops::AddAssign;

use serde::{Deserialize, Serialize};

/// What a row, a sum and the work for it cost, in bytes over the link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SumCosts {
    /// Of a row.
    pub row_bytes: u64,
    /// Of a sum.
    pub sum_bytes: u64,
    /// Of each byte of rows that the CPU sums: its seconds a byte over the link's, times how busy the CPU is. 0 where the
    /// link is the bottleneck.
    pub cpu: f64,
}

/// Whether the sums have the destinations' own rows in them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnRows {
    /// They cross beside the sums, whoever sums.
    Beside,
    /// They are summed with the list, or cross with its rows.
    Within,
}

/// The lists of a batch's outermost block, without the rows that are cached behind the link.
#[derive(Clone, Debug, Default)]
pub struct MissedLists {
    /// Where each list begins in `rows`, and where the last ends.
    offsets: Vec<usize>,
    /// Rows that cross only if a list that names them is left. Each once a list.
    rows: Vec<u32>,
    /// Rows of each list that the CPU would read for its sum, each as often as the list names it.
    read: Vec<u64>,
    /// As many rows may be named.
    nodes: usize,
}

impl MissedLists {
    /// Of the block that [`SumCounts::of`](crate::SumCounts::of) describes.
    ///
    /// # Panics
    /// Where the offsets are not of these indices, or an index is not below the number of nodes.
    #[must_use]
    pub fn of(
        nodes: &[i64],
        indptr: &[i32],
        indices: &[i32],
        own_rows: OwnRows,
        is_cached: impl Fn(i64) -> bool,
    ) -> Self {
        let misses: Vec<bool> = nodes.iter().map(|&node| !is_cached(node)).collect();
        let destinations = indptr.len().saturating_sub(1);
        let mut lists = Self { offsets: vec![0], nodes: nodes.len(), ..Self::default() };
        for (v, ends) in indptr.windows(2).enumerate() {
            let listed = indices[ends[0] as usize..ends[1] as usize].iter().map(|&index| index as u32);
            let own = (own_rows == OwnRows::Within).then_some(v as u32);
            let missed: Vec<u32> = listed.chain(own).filter(|&row| misses[row as usize]).collect();
            lists.read.push(missed.len() as u64);
            let crosses_anyway = |row: u32| own_rows == OwnRows::Beside && (row as usize) < destinations;
            let mut crossing: Vec<u32> = missed.into_iter().filter(|&row| !crosses_anyway(row)).collect();
            crossing.sort_unstable();
            crossing.dedup();
            lists.rows.extend(crossing);
            lists.offsets.push(lists.rows.len());
        }
        lists
    }

    /// How many destinations there are.
    fn len(&self) -> usize {
        self.offsets.len().saturating_sub(1)
    }

    fn list(&self, v: usize) -> &[u32] {
        &self.rows[self.offsets[v]..self.offsets[v + 1]]
    }

    /// What destination `v` costs if it is summed.
    fn cost_of_sum(&self, v: usize, costs: SumCosts) -> f64 {
        costs.sum_bytes as f64 + costs.cpu * (self.read[v] * costs.row_bytes) as f64
    }

    /// What a division costs: true for each destination that is summed. Rows that cross in any case are left out.
    ///
    /// # Panics
    /// Where it has not one entry a destination.
    #[must_use]
    pub fn cost(&self, summed: &[bool], costs: SumCosts) -> f64 {
        assert_eq!(summed.len(), self.len(), "one entry a destination");
        let sums: f64 = (0..self.len()).filter(|&v| summed[v]).map(|v| self.cost_of_sum(v, costs)).sum();
        let rows = self.named_by_left(summed).iter().filter(|&&left| left > 0).count();
        sums + (rows as u64 * costs.row_bytes) as f64
    }

    /// How many lists of destinations that are left name each row.
    fn named_by_left(&self, summed: &[bool]) -> Vec<u32> {
        let mut named = vec![0; self.nodes];
        for v in (0..self.len()).filter(|&v| !summed[v]) {
            self.list(v).iter().for_each(|&row| named[row as usize] += 1);
        }
        named
    }

    /// Which destinations to sum. At the least cost of all divisions it is rarely, and above it by a tenth at most, in
    /// all blocks that were compared.
    #[must_use]
    pub fn divide(&self, costs: SumCosts) -> Vec<bool> {
        let nothing = vec![false; self.len()];
        let all = (0..self.len()).map(|v| !self.list(v).is_empty()).collect();
        let mut by_shares = nothing.clone();
        self.sum_by_shares(&mut by_shares, costs);
        let mut by_later_shares = by_shares.clone();
        while self.sum_by_shares(&mut by_later_shares, costs) {}
        let mut best: Option<(f64, Vec<bool>)> = None;
        for mut summed in [by_shares, by_later_shares, nothing, all] {
            self.improve(&mut summed, costs);
            let cost = self.cost(&summed, costs);
            if best.as_ref().is_none_or(|(least, _)| cost < *least) {
                best = Some((cost, summed));
            }
        }
        best.map(|(_, summed)| summed).unwrap_or_default()
    }

    /// Sums each destination that is left and costs more than its sum, if all that are left and name a row share its cost.
    /// Returns whether there was any.
    fn sum_by_shares(&self, summed: &mut [bool], costs: SumCosts) -> bool {
        let named = self.named_by_left(summed);
        let mut any = false;
        for (v, summed) in summed.iter_mut().enumerate().filter(|(_, summed)| !**summed) {
            let share = |&row: &u32| costs.row_bytes as f64 / f64::from(named[row as usize]);
            if self.list(v).iter().map(share).sum::<f64>() > self.cost_of_sum(v, costs) {
                (*summed, any) = (true, true);
            }
        }
        any
    }

    /// Changes single destinations as long as that saves something. It ends, since each change does.
    fn improve(&self, summed: &mut [bool], costs: SumCosts) {
        let mut named = self.named_by_left(summed);
        let mut changed = true;
        while changed {
            changed = false;
            for (v, summed) in summed.iter_mut().enumerate() {
                let alone = if *summed { 0 } else { 1 };
                let rows = self.list(v).iter().filter(|&&row| named[row as usize] == alone).count();
                let of_rows = (rows as u64 * costs.row_bytes) as f64;
                let of_sum = self.cost_of_sum(v, costs);
                let saves = if *summed { of_rows < of_sum } else { of_rows > of_sum };
                if saves {
                    for &row in self.list(v) {
                        let named = &mut named[row as usize];
                        *named = if *summed { *named + 1 } else { *named - 1 };
                    }
                    (*summed, changed) = (!*summed, true);
                }
            }
        }
    }
}

/// What a divided block moves, or several in total.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DividedCounts {
    /// Destinations that are summed.
    pub summed: u64,
    /// Rows over the link: of the lists of destinations that are left, and own rows as they are needed.
    pub link_rows: u64,
    /// Rows in a slot: the same, and those that are cached.
    pub slot_rows: u64,
}

impl DividedCounts {
    /// Of the block that [`SumCounts::of`](crate::SumCounts::of) describes, divided by [`MissedLists::divide`].
    ///
    /// # Panics
    /// As there.
    #[must_use]
    pub fn of(
        nodes: &[i64],
        indptr: &[i32],
        indices: &[i32],
        own_rows: OwnRows,
        is_cached: impl Fn(i64) -> bool,
        costs: SumCosts,
    ) -> Self {
        let summed = MissedLists::of(nodes, indptr, indices, own_rows, &is_cached).divide(costs);
        let mut needed = vec![false; nodes.len()];
        for (v, ends) in indptr.windows(2).enumerate() {
            if own_rows == OwnRows::Beside || !summed[v] {
                needed[v] = true;
            }
            if !summed[v] {
                let list = &indices[ends[0] as usize..ends[1] as usize];
                list.iter().for_each(|&row| needed[row as usize] = true);
            }
        }
        let rows = || nodes.iter().zip(&needed).filter(|(_, needed)| **needed);
        Self {
            summed: summed.iter().filter(|&&summed| summed).count() as u64,
            link_rows: rows().filter(|(node, _)| !is_cached(**node)).count() as u64,
            slot_rows: rows().count() as u64,
        }
    }

    /// Bytes over the link.
    #[must_use]
    pub fn link_bytes(&self, row_bytes: u64, sum_bytes: u64) -> u64 {
        self.link_rows * row_bytes + self.summed * sum_bytes
    }

    /// Bytes of rows and sums in a slot.
    #[must_use]
    pub fn slot_bytes(&self, row_bytes: u64, sum_bytes: u64) -> u64 {
        self.slot_rows * row_bytes + self.summed * sum_bytes
    }
}

impl AddAssign for DividedCounts {
    fn add_assign(&mut self, other: Self) {
        self.summed += other.summed;
        self.link_rows += other.link_rows;
        self.slot_rows += other.slot_rows;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SumCounts;

    /// Numbers that repeat, below a bound.
    struct Numbers(u64);

    impl Numbers {
        fn below(&mut self, bound: usize) -> usize {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 33) as usize % bound
        }
    }

    /// A block, whose sources are numbered from 0.
    #[derive(Debug)]
    struct Random {
        nodes: Vec<i64>,
        indptr: Vec<i32>,
        indices: Vec<i32>,
        cached: Vec<bool>,
    }

    impl Random {
        /// With at most 16 destinations. In some, few sources are in most lists; in some, many are cached.
        fn new(numbers: &mut Numbers) -> Self {
            let destinations = 1 + numbers.below(16);
            let nodes = destinations + 1 + numbers.below(40);
            let (longest, skewed) = (1 + numbers.below(10), numbers.below(3));
            let (mut indptr, mut indices) = (vec![0], Vec::new());
            for _ in 0..destinations {
                for _ in 0..numbers.below(longest + 1) {
                    // The least of several numbers is small.
                    let place = (0..=skewed).map(|_| numbers.below(nodes)).min().unwrap_or(0);
                    indices.push((nodes - 1 - place) as i32);
                }
                indptr.push(indices.len() as i32);
            }
            let every = [usize::MAX, 10, 2][numbers.below(3)];
            let cached = (0..nodes).map(|_| numbers.below(every) == 0).collect();
            Self { nodes: (0..nodes as i64).collect(), indptr, indices, cached }
        }

        fn is_cached(&self) -> impl Fn(i64) -> bool {
            |node| self.cached[node as usize]
        }

        fn lists(&self, own_rows: OwnRows) -> MissedLists {
            MissedLists::of(&self.nodes, &self.indptr, &self.indices, own_rows, self.is_cached())
        }
    }

    /// The least cost of all divisions, from the rows that each set of destinations needs.
    fn least(lists: &MissedLists, costs: SumCosts) -> f64 {
        let destinations = lists.len();
        let sums: Vec<f64> = (0..destinations).map(|v| lists.cost_of_sum(v, costs)).collect();
        let all: f64 = sums.iter().sum();
        let (mut rows, mut saved) = (vec![0_u64; 1 << destinations], vec![0.0; 1 << destinations]);
        let mut least = all;
        for left in 1..1_usize << destinations {
            let (v, others) = (left.trailing_zeros() as usize, left & (left - 1));
            rows[left] = lists.list(v).iter().fold(rows[others], |rows, &row| rows | 1 << row);
            saved[left] = saved[others] + sums[v];
            let cost = f64::from(rows[left].count_ones()) * costs.row_bytes as f64 + all - saved[left];
            least = least.min(cost);
        }
        least
    }

    fn every_cost() -> impl Iterator<Item = SumCosts> {
        [(400, 400), (200, 400), (100, 400)].into_iter().flat_map(|(row_bytes, sum_bytes)| {
            [0.0, 0.1, 1.0].map(|cpu| SumCosts { row_bytes, sum_bytes, cpu })
        })
    }

    #[test]
    fn a_division_costs_at_most_a_tenth_more_than_the_least_of_all_and_never_more_than_rows_or_sums_alone() {
        let mut numbers = Numbers(7);
        let (mut exact, mut compared, mut between) = (0, 0, 0);
        for _ in 0..150 {
            let block = Random::new(&mut numbers);
            for own_rows in [OwnRows::Beside, OwnRows::Within] {
                let lists = block.lists(own_rows);
                for costs in every_cost() {
                    let summed = lists.divide(costs);
                    let (cost, least) = (lists.cost(&summed, costs), least(&lists, costs));
                    assert!(cost >= least - 1e-6, "{cost} is less than the least of all, {least}");
                    assert!(cost <= 1.1 * least, "{cost} of {least}: {block:?} {own_rows:?} {costs:?}");
                    let of_all = |sum: bool| {
                        let way: Vec<bool> =
                            (0..lists.len()).map(|v| sum && !lists.list(v).is_empty()).collect();
                        lists.cost(&way, costs)
                    };
                    assert!(cost <= of_all(true) && cost <= of_all(false), "{block:?} {costs:?}");
                    exact += usize::from(cost <= least + 1e-6);
                    between += usize::from(cost < of_all(true).min(of_all(false)));
                    compared += 1;
                }
            }
        }
        // Many blocks have a division that is better than both pure ways, or this test would show little.
        assert!(10 * exact > 9 * compared && 10 * between > compared, "{exact}, {between} of {compared}");
    }

    #[test]
    fn a_row_that_many_lists_name_crosses_once_and_a_list_of_its_own_rows_becomes_a_sum() {
        // Destinations 0 to 2 list node 4 alone; destination 3 lists 5 to 8.
        let nodes: Vec<i64> = (0..9).collect();
        let (indptr, indices) = ([0, 1, 2, 3, 7], [4, 4, 4, 5, 6, 7, 8]);
        let costs = SumCosts { row_bytes: 10, sum_bytes: 15, cpu: 0.0 };
        let count = |own_rows, cached: &[i64], costs| {
            DividedCounts::of(&nodes, &indptr, &indices, own_rows, |node| cached.contains(&node), costs)
        };
        let found = count(OwnRows::Beside, &[], costs);
        assert_eq!(found, DividedCounts { summed: 1, link_rows: 5, slot_rows: 5 });
        assert_eq!((found.link_bytes(10, 15), found.slot_bytes(10, 15)), (65, 65));
        let counts = SumCounts::of(&nodes, &indptr, &indices, |_| false);
        assert_eq!((counts.raw_bytes(10), counts.mean_bytes(10, 15)), (90, 100));
        // With own rows in the sums, a pair of rows is more than a sum, and three with one row between them are less.
        let found = count(OwnRows::Within, &[], costs);
        assert_eq!(found, DividedCounts { summed: 1, link_rows: 4, slot_rows: 4 });
        // What is cached does not cross, and the slot has it if it is not summed.
        let found = count(OwnRows::Beside, &[5, 6, 7, 0], costs);
        assert_eq!(found, DividedCounts { summed: 0, link_rows: 5, slot_rows: 9 });
        // A busy CPU sums nothing.
        let found = count(OwnRows::Beside, &[], SumCosts { cpu: 1.0, ..costs });
        assert_eq!(found, DividedCounts { summed: 0, link_rows: 9, slot_rows: 9 });
    }

    #[test]
    fn counts_of_a_division_are_its_cost_and_the_rows_that_cross_in_any_case() {
        let mut numbers = Numbers(11);
        for _ in 0..200 {
            let block = Random::new(&mut numbers);
            let Random { nodes, indptr, indices, .. } = &block;
            for own_rows in [OwnRows::Beside, OwnRows::Within] {
                let costs = SumCosts { row_bytes: 200, sum_bytes: 400, cpu: 0.0 };
                let found = DividedCounts::of(nodes, indptr, indices, own_rows, block.is_cached(), costs);
                let lists = block.lists(own_rows);
                let counts = SumCounts::of(nodes, indptr, indices, block.is_cached());
                let anyway = if own_rows == OwnRows::Beside { counts.own_misses * 200 } else { 0 };
                let cost = lists.cost(&lists.divide(costs), costs);
                assert_eq!(found.link_bytes(200, 400), cost as u64 + anyway, "{block:?} {own_rows:?}");
                let sums = match own_rows {
                    OwnRows::Beside => counts.mean_bytes(200, 400),
                    OwnRows::Within => counts.gcn_bytes(400),
                };
                assert!(found.link_bytes(200, 400) <= sums.min(counts.raw_bytes(200)), "{block:?}");
            }
        }
    }
}
