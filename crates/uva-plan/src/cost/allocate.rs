//! The knapsack allocator: divides a budget of bytes between lists and rows.
//!
//! Every list and every row has a value (the saving if it is cached) and a size. Both kinds are in descending order of
//! value per byte, so the allocator merges the two orders and takes items while they fit. Cached lists are a prefix of
//! their order, so they end at the first one that does not fit. All rows have one size, so they end when no further row
//! fits. A cache that is not empty also pays for its map. The allocator therefore solves all four combinations and
//! keeps the best.
//!
//! The result for each combination is at least the optimum less the largest single value. Up to the first misfit the
//! merged order is that of the fractional knapsack, and no choice of whole items beats the fractional optimum.

use crate::access::hotness::sum;
use crate::{Benefits, Hotness};

/// A list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item {
    /// Its bytes in the cache.
    pub bytes: u64,
    /// The saving if it is cached, in the same unit as for rows.
    pub value: u64,
}

/// The rows, all of one size.
#[derive(Clone, Copy)]
pub struct RowItems<'a> {
    /// Bytes of one row.
    pub bytes: u64,
    /// Number of rows.
    pub count: usize,
    /// The value of the row at a rank below `count`; it never increases with the rank.
    pub value: &'a dyn Fn(usize) -> u64,
}

/// The cached lists and rows, and their sizes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Allocation {
    /// Cached lists: the first of their order.
    pub lists: usize,
    /// Cached rows: the first of their order.
    pub rows: usize,
    /// Bytes of the lists.
    pub list_bytes: u64,
    /// Bytes of the map for the lists; 0 without lists.
    pub list_map_bytes: u64,
    /// Bytes of the rows.
    pub row_bytes: u64,
    /// Bytes of the map for the rows; 0 without rows.
    pub row_map_bytes: u64,
    /// The total value of the cached items.
    pub value: u128,
    /// The first list that did not fit, if it ended the lists, with the bytes that were free then.
    pub misfit: Option<(Item, u64)>,
}

impl Allocation {
    /// All bytes, maps included.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.list_bytes + self.list_map_bytes + self.row_bytes + self.row_map_bytes
    }
}

/// Divides `budget` bytes. `list(rank)` is the list at a rank below `lists`, in descending order of value per byte. A
/// cache of lists pays `list_map_bytes` once, a cache of rows `row_map_bytes`. Items without value are not taken.
#[must_use]
pub fn allocate(
    budget: u64,
    lists: usize,
    list: &dyn Fn(usize) -> Item,
    list_map_bytes: u64,
    rows: &RowItems<'_>,
    row_map_bytes: u64,
) -> Allocation {
    let mut best = Allocation::default();
    for (with_lists, with_rows) in [(true, false), (false, true), (true, true)] {
        let list_map = if with_lists { list_map_bytes } else { 0 };
        let row_map = if with_rows { row_map_bytes } else { 0 };
        let Some(left) = list_map.checked_add(row_map).and_then(|maps| budget.checked_sub(maps)) else {
            continue;
        };
        let list_count = if with_lists { lists } else { 0 };
        // Rows of zero bytes need no cache.
        let row_count = if with_rows && rows.bytes > 0 { rows.count } else { 0 };
        let mut filled = fill(left, list_count, list, row_count, rows);
        // An empty cache is not created, so it needs no map. (More might fit without that map; another combination
        // covers this.)
        filled.list_map_bytes = if filled.lists > 0 { list_map } else { 0 };
        filled.row_map_bytes = if filled.rows > 0 { row_map } else { 0 };
        if filled.value > best.value {
            best = filled;
        }
    }
    best
}

/// Merges both orders once.
fn fill(
    mut left: u64,
    lists: usize,
    list: &dyn Fn(usize) -> Item,
    rows: usize,
    row: &RowItems<'_>,
) -> Allocation {
    let mut taken = Allocation::default();
    let worth = |item: Item| (item.value > 0).then_some(item);
    let list_at = |rank: usize| (rank < lists).then(|| list(rank)).and_then(worth);
    let row_at = |rank: usize| {
        (rank < rows).then(|| Item { bytes: row.bytes, value: (row.value)(rank) }).and_then(worth)
    };
    let (mut next_list, mut next_row) = (list_at(0), row_at(0));
    loop {
        let (item, is_list) = match (next_list, next_row) {
            (None, None) => return taken,
            (Some(list), None) => (list, true),
            (None, Some(row)) => (row, false),
            (Some(list), Some(row)) if is_denser(list, row) => (list, true),
            (Some(_), Some(row)) => (row, false),
        };
        if item.bytes > left {
            if is_list {
                taken.misfit = Some((item, left));
                next_list = None;
            } else {
                next_row = None;
            }
            continue;
        }
        left -= item.bytes;
        taken.value += u128::from(item.value);
        if is_list {
            taken.lists += 1;
            taken.list_bytes += item.bytes;
            next_list = list_at(taken.lists);
        } else {
            taken.rows += 1;
            taken.row_bytes += item.bytes;
            next_row = row_at(taken.rows);
        }
    }
}

/// Whether `list` has at least the value per byte of `row`.
fn is_denser(list: Item, row: Item) -> bool {
    u128::from(list.value) * u128::from(row.bytes) >= u128::from(row.value) * u128::from(list.bytes)
}

/// The value of one counted read, for lists and rows in the same unit. The values are integers, so that sums are exact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadWeights {
    /// A counted read of a list.
    pub list_read: u32,
    /// A counted read of a row.
    pub row_read: u32,
}

/// The larger of the two weights, which determines the precision of the other.
const LARGEST_WEIGHT: f64 = (1_u32 << 31) as f64;

impl ReadWeights {
    /// Derives the weights from the savings of full caches: the benefit of a kind is divided by its counted reads.
    #[must_use]
    pub fn new(benefits: &Benefits, hotness: &Hotness) -> Self {
        let each = |benefit: f64, reads: u64| if reads == 0 { 0.0 } else { benefit.max(0.0) / reads as f64 };
        let list = each(benefits.lists, sum(&hotness.list_reads));
        let row = each(benefits.rows, sum(&hotness.feature_reads));
        let scale = LARGEST_WEIGHT / list.max(row);
        // The smallest weight is still one: it breaks ties, and any item with a benefit is cached if it fits.
        let weight = |each: f64| if each > 0.0 { ((each * scale).round() as u32).max(1) } else { 0 };
        Self { list_read: weight(list), row_read: weight(row) }
    }

    /// The value of a list or row that was read `reads` times.
    #[must_use]
    pub fn value(weight: u32, reads: u32) -> u64 {
        u64::from(weight) * u64::from(reads)
    }
}

#[cfg(test)]
mod tests;
