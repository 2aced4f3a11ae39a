//! Further checks for a source with a cache: the bytes don't depend on what is cached, and every hit is counted.

use std::collections::HashSet;

use super::check::{Extent, check, plain_loop, table_bytes};
use super::plain::refusal;
use crate::cache::eviction::Eviction;
use crate::error::GatherError;
use crate::host::{HostPlace, HostSource};
use crate::source::RowSource;

/// Creates the source under test over a table, for rows of the given size, with the given rows cached.
pub type MakeCached<'f> = dyn for<'t> Fn(&'t [u8], usize, &[i64]) -> Box<dyn HostSource + 't> + 'f;

/// Creates the source under test over a table, for rows of the given size, with an evicting cache of the given capacity
/// in rows.
pub type MakeEvicting<'f> =
    dyn for<'t> Fn(&'static Eviction, &'t [u8], usize, usize) -> Box<dyn HostSource + 't> + 'f;

/// splitmix64's last steps: ids and subsets without a pattern.
fn scatter(x: u64) -> u64 {
    let x = x.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Checks the bytes, and that a fill counts exactly the expected hits.
fn check_hits(
    source: &mut dyn HostSource,
    table: &[u8],
    row_bytes: usize,
    ids: &[i64],
    hits: u64,
    case: &dyn Fn() -> String,
) {
    let read = check(source, table, row_bytes, ids, case);
    assert_eq!((read.total(), read.hits()), (ids.len() as u64, hits), "{}", case());
}

/// Checks a source whose cached rows are chosen when it is created.
///
/// # Panics
/// If it breaks the contract of [`RowSource`], or miscounts hits.
pub fn static_cache(extent: Extent, make: &MakeCached<'_>) {
    subsets(extent, make);
    offsets(extent, make);
    many_rows_cached(make);
    bad_ids(make);
}

/// Subsets of a table's rows, scrambled: a slot is seldom its row's number.
fn some_subsets(rows: usize) -> Vec<(&'static str, Vec<i64>)> {
    let all = || {
        let mut all: Vec<i64> = (0..rows as i64).collect();
        all.sort_by_key(|&id| scatter(id as u64 ^ 0x51));
        all
    };
    let those = |wanted: &dyn Fn(i64) -> bool| all().into_iter().filter(|&id| wanted(id)).collect();
    vec![
        ("none", Vec::new()),
        ("all", all()),
        ("the last", those(&|id| id as usize + 1 == rows)),
        ("every other", those(&|id| id % 2 == 1)),
        ("the upper half", those(&|id| id as usize >= rows / 2)),
        ("a third, at random", those(&|id| scatter(id as u64).is_multiple_of(3))),
    ]
}

fn is_cached(rows: usize, cached: &[i64]) -> Vec<bool> {
    let mut flags = vec![false; rows];
    cached.iter().for_each(|&id| flags[id as usize] = true);
    flags
}

fn count_hits(flags: &[bool], ids: &[i64]) -> u64 {
    ids.iter().filter(|&&id| flags[id as usize]).count() as u64
}

fn subsets(extent: Extent, make: &MakeCached<'_>) {
    for &row_bytes in extent.row_sizes() {
        for rows in [1, 2, 7, 33, 100] {
            let table = table_bytes(rows * row_bytes);
            for (name, cached) in some_subsets(rows) {
                let mut source = make(&table, row_bytes, &cached);
                let flags = is_cached(rows, &cached);
                // Hits and misses alternate without a pattern, and every row occurs, most of them more than once.
                let mut ids: Vec<i64> = (0..rows as i64).collect();
                ids.extend((0..3 * rows as u64).map(|i| (scatter(i) % rows as u64) as i64));
                let case = || format!("{name} of {rows} rows of {row_bytes} bytes cached");
                check_hits(&mut *source, &table, row_bytes, &ids, count_hits(&flags, &ids), &case);
                check_hits(&mut *source, &table, row_bytes, &[], 0, &case);
            }
        }
    }
}

/// Cached rows have other offsets within cache lines than the table's rows.
fn offsets(extent: Extent, make: &MakeCached<'_>) {
    const ROWS: usize = 9;
    let ids = [4, 0, 3, 3, 8, 1, 2, 7, 5, 6];
    let cached = [8, 3, 0, 5];
    for row_bytes in [1, 3, 16, 100, 188, 480] {
        let memory = table_bytes(ROWS * row_bytes + 512);
        let line = memory.as_ptr().align_offset(128);
        for offset in extent.offsets(128) {
            let table = &memory[line + offset..][..ROWS * row_bytes];
            let mut source = make(table, row_bytes, &cached);
            check_hits(&mut *source, table, row_bytes, &ids, 5, &|| {
                format!("rows of {row_bytes} bytes at offset {offset}, some of them cached")
            });
        }
    }
}

fn many_rows_cached(make: &MakeCached<'_>) {
    for (row_bytes, rows) in [(3, 60_000), (400, 3000), (512, 3001)] {
        let table = table_bytes(rows * row_bytes);
        // All rows, and two alternating subsets.
        for (name, cached) in some_subsets(rows).into_iter().skip(1).step_by(2) {
            let mut source = make(&table, row_bytes, &cached);
            let flags = is_cached(rows, &cached);
            let ids: Vec<i64> = (0..2 * rows as u64 + 1).map(|i| (scatter(i) % rows as u64) as i64).collect();
            check_hits(&mut *source, &table, row_bytes, &ids, count_hits(&flags, &ids), &|| {
                format!("{name} of {rows} rows of {row_bytes} bytes cached")
            });
        }
    }
}

fn bad_ids(make: &MakeCached<'_>) {
    const ROWS: usize = 100;
    for (row_bytes, count) in [(1, 3), (8, 64), (400, 1000)] {
        let table = table_bytes(ROWS * row_bytes);
        for (name, cached) in some_subsets(ROWS) {
            let mut source = make(&table, row_bytes, &cached);
            let good: Vec<i64> = (0..count as u64).map(|i| (scatter(i) % ROWS as u64) as i64).collect();
            let mut out = vec![0x5a; count * row_bytes];
            for id in [-1, ROWS as i64, i64::MIN, i64::MAX, 1 << 32] {
                for position in [0, count / 2, count - 1] {
                    let mut ids = good.clone();
                    ids[count - 1] = -77;
                    ids[position] = id;
                    let expected = GatherError::IdOutOfRange { position, id, rows: ROWS };
                    assert_eq!(refusal(&mut *source, &ids, &mut out), expected, "{name} cached");
                }
            }
            assert!(
                out.iter().all(|&byte| byte == 0x5a),
                "an output was written although the ids were refused"
            );
            // The refused fill had no effect.
            let hits = count_hits(&is_cached(ROWS, &cached), &good);
            check_hits(&mut *source, &table, row_bytes, &good, hits, &|| {
                format!("{name} of {ROWS} rows cached, after bad ids")
            });
        }
    }
}

/// A reference implementation of a policy without slots.
pub trait Reference {
    /// Looks up a batch: returns its hits, and inserts its misses in order.
    fn batch(&mut self, ids: &[i64]) -> u64;
}

/// Checks a source whose cache inserts the misses of each batch by `policy`. `reference` creates the policy's reference
/// implementation for a given capacity in rows.
///
/// # Panics
/// If it breaks the contract of [`RowSource`], or its hits differ from those of the policy.
pub fn evicting_cache(
    extent: Extent,
    policy: &'static Eviction,
    reference: &dyn Fn(usize) -> Box<dyn Reference>,
    make: &MakeEvicting<'_>,
) {
    const ROWS: usize = 500;
    let sizes = [1, 16, 100, 400, 1025, 3, 64, 188, 512, 4096];
    for &row_bytes in if extent == Extent::All { &sizes[..] } else { &sizes[..5] } {
        let table = table_bytes(ROWS * row_bytes);
        for capacity in [0, 1, 7, 64, 100, ROWS] {
            let mut source = make(policy, &table, row_bytes, capacity);
            let mut model = reference(capacity);
            for batch in 0..12_u64 {
                let count = [40, 0, 1, 130, 300, 5][batch as usize % 6];
                // A few rows are requested often, like hubs, and some more than once in a batch.
                let ids: Vec<i64> = (0..count)
                    .map(|i| {
                        let x = scatter(batch << 32 | i);
                        (x % if x >> 60 < 8 { 50 } else { ROWS as u64 }) as i64
                    })
                    .collect();
                let case =
                    format!("{policy:?}: batch {batch} of a cache of {capacity} rows of {row_bytes} bytes");
                let mut out = vec![0; ids.len() * row_bytes];
                let read = source.fill(&ids, HostPlace::new(&mut out)).unwrap();
                assert!(out == plain_loop(&table, row_bytes, &ids), "{case}: other bytes");
                assert_eq!((read.total(), read.hits()), (count, model.batch(&ids)), "{case}: hits");
                if batch == 5 {
                    // A rejected batch does not change the cache.
                    let refused = refusal(&mut *source, &[499, -1, 498], &mut vec![0; 3 * row_bytes]);
                    assert_eq!(refused, GatherError::IdOutOfRange { position: 1, id: -1, rows: ROWS });
                }
            }
        }
    }
}

/// Reference implementation of first in, first out: misses take slots round-robin.
pub struct FifoReference {
    slots: Vec<Option<i64>>,
    next: usize,
}

impl FifoReference {
    /// Creates the reference for `capacity` rows.
    pub fn boxed(capacity: usize) -> Box<dyn Reference> {
        Box::new(Self { slots: vec![None; capacity], next: 0 })
    }
}

impl Reference for FifoReference {
    fn batch(&mut self, ids: &[i64]) -> u64 {
        let held: HashSet<i64> = self.slots.iter().flatten().copied().collect();
        for id in ids.iter().filter(|id| !held.contains(id)) {
            if self.slots.is_empty() || self.slots.contains(&Some(*id)) {
                continue;
            }
            self.slots[self.next] = Some(*id);
            self.next = (self.next + 1) % self.slots.len();
        }
        ids.iter().filter(|id| held.contains(id)).count() as u64
    }
}

/// Reference implementation of SIEVE: a list of rows, the oldest first, each with its mark, and a hand.
pub struct SieveReference {
    capacity: usize,
    rows: Vec<(i64, bool)>,
    hand: usize,
}

impl SieveReference {
    /// Creates the reference for `capacity` rows.
    pub fn boxed(capacity: usize) -> Box<dyn Reference> {
        Box::new(Self { capacity, rows: Vec::new(), hand: 0 })
    }
}

impl Reference for SieveReference {
    fn batch(&mut self, ids: &[i64]) -> u64 {
        let held: HashSet<i64> = self.rows.iter().map(|&(id, _)| id).collect();
        for (id, visited) in &mut self.rows {
            *visited |= ids.contains(id);
        }
        for &id in ids.iter().filter(|id| !held.contains(id)) {
            if self.capacity == 0 || self.rows.iter().any(|&(row, _)| row == id) {
                continue;
            }
            if self.rows.len() == self.capacity {
                while self.rows[self.hand].1 {
                    self.rows[self.hand].1 = false;
                    self.hand = (self.hand + 1) % self.capacity;
                }
                // The next row moves up to the hand.
                self.rows.remove(self.hand);
                self.hand %= self.capacity;
                if self.hand == self.rows.len() {
                    self.hand = 0;
                }
            }
            self.rows.push((id, false));
        }
        ids.iter().filter(|id| held.contains(id)).count() as u64
    }
}
