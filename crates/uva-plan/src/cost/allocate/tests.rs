use proptest::prelude::*;
use proptest::test_runner::Config;

use super::*;

/// A knapsack of lists and rows, sorted as the allocator wants them.
#[derive(Clone, Debug)]
struct Case {
    budget: u64,
    lists: Vec<Item>,
    list_map: u64,
    row_values: Vec<u64>,
    row_bytes: u64,
    row_map: u64,
}

impl Case {
    fn sorted(mut self) -> Self {
        self.lists.sort_by(|a, b| (b.value * a.bytes).cmp(&(a.value * b.bytes)));
        self.row_values.sort_unstable_by(|a, b| b.cmp(a));
        self
    }

    fn solve(&self) -> Allocation {
        let value = |rank: usize| self.row_values[rank];
        let rows = RowItems { bytes: self.row_bytes, count: self.row_values.len(), value: &value };
        allocate(self.budget, self.lists.len(), &|rank| self.lists[rank], self.list_map, &rows, self.row_map)
    }

    /// The best value of any set of lists and rows, by dynamic programming over bytes: a knapsack in which lists need
    /// not be a prefix of their order.
    fn optimum(&self) -> u64 {
        let rows: Vec<Item> =
            self.row_values.iter().map(|&value| Item { bytes: self.row_bytes, value }).collect();
        let both: Vec<Item> = self.lists.iter().chain(&rows).copied().collect();
        [(&self.lists, self.list_map), (&rows, self.row_map), (&both, self.list_map + self.row_map)]
            .into_iter()
            .filter_map(|(items, maps)| Some(knapsack(items, self.budget.checked_sub(maps)?)))
            .max()
            .unwrap_or(0)
    }

    /// The best value where lists are a prefix of their order, by trying all prefixes.
    fn optimum_of_prefixes(&self) -> u64 {
        let mut best = 0;
        for lists in 0..=self.lists.len() {
            for rows in 0..=self.row_values.len() {
                let bytes = self.lists[..lists].iter().map(|list| list.bytes).sum::<u64>()
                    + if lists > 0 { self.list_map } else { 0 }
                    + rows as u64 * self.row_bytes
                    + if rows > 0 { self.row_map } else { 0 };
                if bytes <= self.budget {
                    let value = self.lists[..lists].iter().map(|list| list.value).sum::<u64>()
                        + self.row_values[..rows].iter().sum::<u64>();
                    best = best.max(value);
                }
            }
        }
        best
    }
}

fn knapsack(items: &[Item], budget: u64) -> u64 {
    let mut best = vec![0; budget as usize + 1];
    for item in items {
        for bytes in (item.bytes as usize..best.len()).rev() {
            best[bytes] = best[bytes].max(best[bytes - item.bytes as usize] + item.value);
        }
    }
    best[budget as usize]
}

fn case() -> impl Strategy<Value = Case> {
    let list = (1_u64..60, 0_u64..100).prop_map(|(bytes, value)| Item { bytes, value });
    (
        0_u64..300,
        proptest::collection::vec(list, 0..14),
        0_u64..80,
        proptest::collection::vec(0_u64..100, 0..14),
        1_u64..40,
        0_u64..80,
    )
        .prop_map(|(budget, lists, list_map, row_values, row_bytes, row_map)| {
            Case { budget, lists, list_map, row_values, row_bytes, row_map }.sorted()
        })
}

proptest! {
    #![proptest_config(Config::with_cases(1000))]

    #[test]
    fn no_more_is_lost_to_the_exact_optimum_than_the_largest_single_value(case in case()) {
        let found = case.solve();
        let optimum = u128::from(case.optimum());
        let largest = case.lists.iter().map(|list| list.value).chain(case.row_values.iter().copied()).max();
        prop_assert!(found.value <= u128::from(case.optimum_of_prefixes()));
        prop_assert!(
            found.value + u128::from(largest.unwrap_or(0)) >= optimum,
            "{} of {optimum}, the largest value being {largest:?}", found.value
        );
    }

    #[test]
    fn what_is_stated_is_what_is_taken_and_it_fits(case in case()) {
        let found = case.solve();
        prop_assert!(found.bytes() <= case.budget);
        let lists = &case.lists[..found.lists];
        prop_assert_eq!(found.list_bytes, lists.iter().map(|list| list.bytes).sum::<u64>());
        prop_assert_eq!(found.row_bytes, found.rows as u64 * case.row_bytes);
        prop_assert_eq!(found.list_map_bytes, if found.lists > 0 { case.list_map } else { 0 });
        prop_assert_eq!(found.row_map_bytes, if found.rows > 0 { case.row_map } else { 0 });
        let value = lists.iter().map(|list| list.value).sum::<u64>()
            + case.row_values[..found.rows].iter().sum::<u64>();
        prop_assert_eq!(found.value, u128::from(value));
    }
}

/// Lists of 10 bytes and value 10, rows of 10 bytes and value 9.
fn even(budget: u64, list_map: u64, row_map: u64) -> Case {
    let lists = vec![Item { bytes: 10, value: 10 }; 5];
    Case { budget, lists, list_map, row_values: vec![9; 5], row_bytes: 10, row_map }
}

#[test]
fn a_budget_that_holds_all_lists_to_the_byte_holds_the_last_one_too() {
    let found = Case { row_values: vec![], ..even(50, 0, 0) }.solve();
    assert_eq!((found.lists, found.list_bytes), (5, 50));
    let found = Case { row_values: vec![], ..even(49, 0, 0) }.solve();
    assert_eq!((found.lists, found.list_bytes), (4, 40));
}

#[test]
fn maps_are_paid_for_by_those_who_need_them() {
    // Both maps would leave room for one item; that of rows alone for all five rows.
    let found = even(58, 40, 8).solve();
    assert_eq!((found.lists, found.rows, found.bytes()), (0, 5, 58));
    // With one byte less the last row does not fit.
    assert_eq!(even(57, 40, 8).solve().rows, 4);
    // The same for lists.
    let found = even(58, 8, 40).solve();
    assert_eq!((found.lists, found.rows, found.bytes()), (5, 0, 58));
    // With room for all, both maps are paid for.
    let found = even(148, 8, 40).solve();
    assert_eq!((found.lists, found.rows, found.bytes()), (5, 5, 148));
}

#[test]
fn a_budget_below_either_map_holds_nothing_and_costs_nothing() {
    for budget in 0..=30 {
        assert_eq!(even(budget, 30, 30).solve(), Allocation::default());
    }
}

#[test]
fn lists_end_at_the_first_that_does_not_fit_and_rows_continue() {
    let lists = vec![
        Item { bytes: 10, value: 100 },
        Item { bytes: 50, value: 400 },
        // Would fit, but would not be a prefix of the order.
        Item { bytes: 10, value: 79 },
    ];
    let case = Case { budget: 45, lists, list_map: 0, row_values: vec![5; 9], row_bytes: 10, row_map: 0 };
    let found = case.solve();
    assert_eq!((found.lists, found.rows, found.bytes()), (1, 3, 40));
    assert_eq!(found.misfit, Some((Item { bytes: 50, value: 400 }, 35)));
}

#[test]
fn what_saves_nothing_is_not_taken() {
    let mut case = even(1000, 0, 0);
    case.row_values = vec![9, 0, 0];
    case.lists.push(Item { bytes: 10, value: 0 });
    let found = case.solve();
    assert_eq!((found.lists, found.rows), (5, 1));
    assert_eq!(
        Case { lists: vec![], row_values: vec![0; 5], ..even(1000, 0, 0) }.solve(),
        Allocation::default()
    );
}

#[test]
fn sums_are_exact_beyond_what_a_float_counts_to() {
    // Single precision stops counting ones at 2^24.
    let (count, ones) = ((1 << 24) + 3, |_| Item { bytes: 1, value: 1 });
    let none = RowItems { bytes: 1, count: 0, value: &|_| 0 };
    let found = allocate(count + 7, count as usize, &ones, 0, &none, 0);
    assert_eq!((found.lists as u64, found.list_bytes, found.value), (count, count, u128::from(count)));
    let found = allocate(count - 1, count as usize, &ones, 0, &none, 0);
    assert_eq!(found.lists as u64, count - 1);
    // Double precision, at 2^53.
    let found = allocate(u64::MAX, 3, &|_| Item { bytes: (1 << 53) + 1, value: 1 }, 0, &none, 0);
    assert_eq!(found.list_bytes, 3 * ((1 << 53) + 1));
}

#[test]
fn sizes_beyond_32_bits_and_up_to_all_64_do_not_overflow() {
    // Rows beyond 4 GiB together.
    let rows = RowItems { bytes: 1 << 20, count: 1 << 13, value: &|_| 1 };
    let found = allocate(u64::MAX, 0, &|_| unreachable!(), 0, &rows, 1 << 40);
    assert_eq!((found.rows, found.row_bytes), (1 << 13, 1 << 33));
    // Values and sizes at the top, compared and added.
    let top = |_| Item { bytes: u64::MAX / 2, value: u64::MAX };
    let rows = RowItems { bytes: u64::MAX / 4, count: 3, value: &|_| u64::MAX };
    let found = allocate(u64::MAX, 3, &top, 0, &rows, 0);
    assert_eq!((found.lists, found.rows), (0, 3));
    assert_eq!(found.value, 3 * u128::from(u64::MAX));
    let found = allocate(u64::MAX, 3, &top, u64::MAX, &rows, u64::MAX);
    assert_eq!((found.lists, found.rows), (0, 0), "both maps together overflow, and either leaves no room");
}

#[test]
fn weights_spread_each_benefit_over_its_reads_in_one_scale() {
    let hotness = Hotness { feature_reads: vec![30, 10], list_reads: vec![0, 20], ..Hotness::default() };
    let benefits = Benefits { lists: 10.0, rows: 5.0, milliseconds: true };
    let weights = ReadWeights::new(&benefits, &hotness);
    // A list read saves 0.5, a row read 0.125.
    assert_eq!(weights, ReadWeights { list_read: 1 << 31, row_read: 1 << 29 });
    let none = ReadWeights::new(&Benefits { lists: 0.0, rows: 0.0, milliseconds: true }, &hotness);
    assert_eq!(none, ReadWeights { list_read: 0, row_read: 0 });
    let one = ReadWeights::new(&Benefits { lists: 1e-30, rows: 5.0, milliseconds: true }, &hotness);
    assert_eq!(one, ReadWeights { list_read: 1, row_read: 1 << 31 });
    let no_reads = Hotness { list_reads: vec![0, 0], ..hotness };
    assert_eq!(ReadWeights::new(&benefits, &no_reads).list_read, 0);
}
