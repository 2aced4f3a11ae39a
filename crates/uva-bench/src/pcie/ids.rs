//! The ids of the rows in a measured gather.
//!
//! The exact definition, since other programs draw the same ids: `mix` is splitmix64's step and finaliser. The `i`-th
//! number of the draw with seed `s` is `x = mix(s · 2³² + i)`, and the random id is `⌊x · rows / 2⁶⁴⌋`. Sorted ids are
//! these, sorted.

use serde::Serialize;

/// The order and the distribution of the requested rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum IdOrder {
    /// The random ids, ascending.
    Sorted,
    /// All rows with equal probability.
    Random,
    /// The random ids, read region by region of the table. The time includes ordering the visits.
    ByRegion,
    /// Like the input nodes of a batch on a power-law graph. A few rows are in nearly every draw, most in hardly any.
    /// No row occurs twice in a draw, and popular rows lie anywhere in the table.
    Trace,
}

impl IdOrder {
    /// Every order.
    pub const ALL: [Self; 4] = [Self::Random, Self::Sorted, Self::ByRegion, Self::Trace];

    /// The name in options and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sorted => "sorted",
            Self::Random => "random",
            Self::ByRegion => "by-region",
            Self::Trace => "trace",
        }
    }

    /// `count` ids of a table of `rows` rows, at least 1; the same for the same seed. With [`IdOrder::Trace`] there may
    /// be fewer, if the table has too few rows or the unpopular ones are rarely drawn.
    pub fn draw(self, rows: u64, count: usize, seed: u32) -> Vec<i64> {
        match self {
            Self::Random | Self::ByRegion => {
                (0..count as u64).map(|i| bounded(number(seed, i), rows)).collect()
            }
            Self::Sorted => {
                let mut ids = Self::Random.draw(rows, count, seed);
                ids.sort_unstable();
                ids
            }
            Self::Trace => trace(rows, count, seed),
        }
    }
}

/// splitmix64: its step, then its finaliser.
pub(super) fn mix(x: u64) -> u64 {
    let x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

fn number(seed: u32, index: u64) -> u64 {
    mix((u64::from(seed) << 32).wrapping_add(index))
}

fn bounded(number: u64, rows: u64) -> i64 {
    ((u128::from(number) * u128::from(rows)) >> 64) as i64
}

/// Shows whether two programs drew the same ids: Σ (id + 1)·(position + 1), modulo 2⁶⁴.
pub fn check_sum(ids: &[i64]) -> u64 {
    let term = |(position, &id): (usize, &i64)| (id as u64).wrapping_add(1).wrapping_mul(position as u64 + 1);
    ids.iter().enumerate().map(term).fold(0, u64::wrapping_add)
}

/// Ranks with probability about rank^(-2/3), each once, mapped to rows by a bijection.
fn trace(rows: u64, count: usize, seed: u32) -> Vec<i64> {
    let step = coprime(rows);
    let wanted = count.min(usize::try_from(rows).unwrap_or(usize::MAX));
    let mut seen = vec![0u64; usize::try_from(rows.div_ceil(64)).unwrap_or(usize::MAX)];
    let mut ids = Vec::with_capacity(wanted);
    // The rarest ranks may never be drawn, so the draws are bounded.
    for index in 0..8 * count as u64 {
        if ids.len() == wanted {
            break;
        }
        let even = (number(seed, index) >> 11) as f64 / (1u64 << 53) as f64;
        let rank = ((even * even * even * rows as f64) as u64).min(rows - 1);
        let row = (u128::from(rank) * u128::from(step) % u128::from(rows)) as u64;
        let (word, bit) = ((row / 64) as usize, 1 << (row % 64));
        if seen[word] & bit == 0 {
            seen[word] |= bit;
            ids.push(row as i64);
        }
    }
    ids
}

/// A large number that has no divisor in common with `rows`.
fn coprime(rows: u64) -> u64 {
    let divisor = |mut a: u64, mut b: u64| {
        while b != 0 {
            (a, b) = (b, a % b);
        }
        a
    };
    (0x9e37_79b9_7f4a_7c15 % rows.max(2)..).find(|&step| divisor(step, rows) == 1).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_rows_and_the_same_for_the_same_seed() {
        for order in IdOrder::ALL {
            for rows in [1, 2, 63, 64, 1000, 1 << 20] {
                let ids = order.draw(rows, 500, 3);
                assert!(!ids.is_empty() && ids.iter().all(|&id| (0..rows as i64).contains(&id)), "{order:?}");
                assert_eq!(ids, order.draw(rows, 500, 3), "{order:?} of {rows}");
                assert!(rows < 64 || ids != order.draw(rows, 500, 4), "{order:?} of {rows}");
            }
        }
    }

    #[test]
    fn sorted_ids_are_the_random_ones() {
        let (mut random, sorted) = (IdOrder::Random.draw(999, 400, 7), IdOrder::Sorted.draw(999, 400, 7));
        assert!(sorted.is_sorted() && random != sorted);
        random.sort_unstable();
        assert_eq!(random, sorted);
    }

    #[test]
    fn a_trace_has_no_row_twice_and_some_rows_in_most_draws() {
        let rows = 100_000;
        let mut drawn = vec![0; rows as usize];
        for seed in 0..40 {
            let ids = IdOrder::Trace.draw(rows, 2000, seed);
            let mut distinct = ids.clone();
            distinct.sort_unstable();
            distinct.dedup();
            assert_eq!((distinct.len(), ids.len()), (2000, 2000));
            ids.iter().for_each(|&id| drawn[id as usize] += 1);
        }
        let often = drawn.iter().filter(|&&times| times > 20).count();
        let never = drawn.iter().filter(|&&times| times == 0).count();
        assert!(often > 20 && never > 50_000, "{often} rows in more than half of the draws, {never} in none");
    }

    #[test]
    fn every_row_of_a_small_table_can_be_in_a_trace() {
        let mut ids = IdOrder::Trace.draw(50, 10_000, 1);
        ids.sort_unstable();
        assert_eq!(ids, (0..50).collect::<Vec<_>>());
    }

    #[test]
    fn the_numbers_are_those_passed_to_the_other_programs() {
        // splitmix64 from state 0, published: its first output.
        assert_eq!(mix(0), 0xe220_a839_7b1d_cdaf);
        assert_eq!(IdOrder::Random.draw(1000, 3, 0)[0], ((0xe220_a839_u64 * 1000) >> 32) as i64);
        assert_eq!(check_sum(&[0, 5, 2]), 1 + 12 + 9);
    }
}
