//! Compares retention with the optimum, by trying every choice.

use std::collections::HashSet;

use proptest::prelude::*;

use super::retention::{PASSED_AT_MOST, ResidentRows, RowLocation};

const ROWS: usize = 6;

/// Rows of a table of [`ROWS`], as bits.
type Rows = u8;

fn ids(rows: Rows) -> impl Iterator<Item = i64> + Clone {
    (0..ROWS as i64).filter(move |id| rows >> id & 1 == 1)
}

fn bits(ids: &[i64]) -> Rows {
    ids.iter().fold(0, |rows, id| rows | 1 << id)
}

/// The minimum number of reads of these batches over all choices of at most `capacity` kept rows. Rows of the batch
/// itself do not take frames.
fn fewest_reads(held: Rows, batches: &[Rows], capacity: usize) -> usize {
    let mut ways = std::collections::HashMap::from([(held, 0)]);
    for &batch in batches {
        let mut next = std::collections::HashMap::new();
        for (held, reads) in ways {
            let reads = reads + (batch & !held).count_ones() as usize;
            let there = held | batch;
            for kept in (0..1 << ROWS).filter(|kept| kept & !there == 0) {
                if kept.count_ones() as usize <= capacity {
                    let best = next.entry(kept).or_insert(usize::MAX);
                    *best = reads.min(*best);
                }
            }
        }
        ways = next;
    }
    ways.into_values().min().unwrap_or(0)
}

/// A table of two-byte rows, with batches processed like in a source.
struct Turns {
    kept: ResidentRows,
    under_way: Vec<uva_disk::AheadRow>,
    reads: usize,
}

fn bytes_of(id: i64) -> [u8; 2] {
    [id as u8, !id as u8]
}

impl Turns {
    fn new(capacity: usize) -> Self {
        Self { kept: ResidentRows::new(ROWS, 2, capacity).unwrap(), under_way: Vec::new(), reads: 0 }
    }

    fn read_ahead(&mut self) {
        let (rows, of_first) = self.kept.claim_reads();
        assert!(of_first <= rows.len());
        self.reads += rows.len();
        self.under_way.extend(rows);
    }

    /// Completes the reads in flight, with or without success.
    fn arrive(&mut self, is_read: bool) {
        for mut row in self.under_way.drain(..) {
            row.bytes.copy_from_slice(&bytes_of(row.row as i64));
            self.kept.arrived(row, is_read);
        }
    }

    fn turn(&mut self, batch: Rows) {
        self.kept.begin(ids(batch));
        if ids(batch).any(|id| self.kept.find(id) == RowLocation::UnderWay) {
            self.arrive(true);
        }
        for id in ids(batch) {
            match self.kept.find(id) {
                RowLocation::Here { bytes, .. } => assert_eq!(bytes, bytes_of(id)),
                RowLocation::UnderWay => panic!("all has arrived"),
                RowLocation::Nowhere => self.reads += 1,
            }
        }
        let bytes: Vec<_> = ids(batch).map(bytes_of).collect();
        self.kept.pass(ids(batch).enumerate(), |place| &bytes[place]);
        self.check();
    }

    fn check(&self) {
        let held = self.kept.ids();
        assert!(held.len() <= self.kept.capacity(), "{held:?} of {}", self.kept.capacity());
        assert_eq!(held.iter().collect::<HashSet<_>>().len(), held.len());
    }

    fn fewest(&self, window: &[Rows]) -> usize {
        fewest_reads(bits(&self.kept.ids()), window, self.kept.capacity())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn batches_that_are_all_known_require_the_fewest_possible_reads(
        capacity in 0usize..=4,
        before in proptest::collection::vec(0u8..64, 0..3),
        batches in proptest::collection::vec(0u8..64, 1..8),
        ahead in any::<bool>(),
    ) {
        let mut turns = Turns::new(capacity);
        before.iter().for_each(|&batch| turns.turn(batch));
        turns.reads = 0;
        let fewest = turns.fewest(&batches);
        batches.iter().for_each(|&batch| turns.kept.expect(ids(batch)));
        for &batch in &batches {
            if ahead {
                turns.read_ahead();
            }
            turns.turn(batch);
        }
        prop_assert_eq!(turns.reads, fewest);
    }

    #[test]
    fn known_batches_never_take_more_reads_than_the_optimum(
        capacity in 0usize..=4,
        batches in proptest::collection::vec((0u8..64, 1usize..=4, 0u8..8), 1..14),
    ) {
        let mut turns = Turns::new(capacity);
        let all: Vec<Rows> = batches.iter().map(|&(batch, ..)| batch).collect();
        let mut known = 0;
        for (first, &(batch, more, what)) in batches.iter().enumerate() {
            // The number of sampled batches varies from turn to turn.
            while known < (first + more).min(all.len()) {
                turns.kept.expect(ids(all[known]));
                known += 1;
                let window = &all[first..known];
                prop_assert_eq!(turns.kept.unpromised(), turns.fewest(window), "{:?}", window);
            }
            if what & 1 == 0 {
                turns.read_ahead();
                let window = &all[first..known.max(first)];
                prop_assert_eq!(turns.kept.unpromised(), turns.fewest(window), "read ahead: {:?}", window);
            }
            if what & 6 != 0 {
                turns.arrive(what & 6 != 2);
            }
            turns.check();
            turns.turn(batch);
            known = known.max(first + 1);
        }
    }
}

#[test]
fn a_row_that_a_known_batch_needs_stays_and_the_last_needed_is_evicted() {
    let mut turns = Turns::new(2);
    for batch in [0b000_111, 0b001_000, 0b000_001, 0b000_010, 0b000_100] {
        turns.kept.expect(ids(batch));
    }
    turns.turn(0b000_111);
    assert_eq!((bits(&turns.kept.ids()), turns.reads), (0b000_011, 3));
    // Row 3 has no known use, and gets no frame.
    turns.turn(0b001_000);
    assert_eq!(bits(&turns.kept.ids()), 0b000_011);
    turns.turn(0b000_001);
    // The last row gets a frame now.
    turns.read_ahead();
    turns.turn(0b000_010);
    turns.turn(0b000_100);
    assert_eq!(turns.reads, 5);
}

#[test]
fn an_unexpected_batch_ends_the_window_and_rows_under_way_still_arrive() {
    let mut turns = Turns::new(3);
    for batch in [0b000_001, 0b000_010] {
        turns.kept.expect(ids(batch));
    }
    turns.read_ahead();
    turns.turn(0b100_000);
    assert_eq!(turns.kept.unpromised(), 0);
    turns.arrive(true);
    turns.check();
    assert_eq!(bits(&turns.kept.ids()), 0b100_011);
    turns.kept.expect(ids(0b000_011));
    let before = turns.reads;
    turns.turn(0b000_011);
    assert_eq!(turns.reads, before);
}

#[test]
fn beyond_the_window_rows_that_were_hit_stay_longer() {
    let mut turns = Turns::new(2);
    for batch in [0b000_001, 0b000_010, 0b000_001, 0b000_100] {
        turns.turn(batch);
    }
    assert_eq!(bits(&turns.kept.ids()), 0b000_101);
}

#[test]
fn a_row_without_a_known_use_passes_promised_frames_and_the_next_follows() {
    let (all, spare) = (200, PASSED_AT_MOST as i64 * 2 + 20);
    let mut kept = ResidentRows::new(300, 2, all as usize).unwrap();
    let turn = |kept: &mut ResidentRows, rows: &[i64]| {
        kept.pass(rows.iter().copied().enumerate(), |_| &[1, 2]);
    };
    turn(&mut kept, &(0..all).collect::<Vec<_>>());
    // A known batch needs all rows in memory except one, which is out of the hand's reach.
    for row in [200, 201, 202] {
        kept.expect(std::iter::once(row));
    }
    kept.expect((0..all).filter(|&row| row != spare));
    for (row, gives_way) in [(200, false), (201, false), (202, true)] {
        turn(&mut kept, &[row]);
        assert_eq!(kept.find(spare) == RowLocation::Nowhere, gives_way, "{row}");
        assert_eq!(kept.find(row) != RowLocation::Nowhere, gives_way, "{row}");
    }
    assert_eq!(kept.unpromised(), 0);
}
