//! Hit rate as a function of cache size.

use serde::{Deserialize, Serialize};

use crate::access::hotness::sum;

/// Size and hit rate of a cache of the first `count` nodes of an order.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct CurvePoint {
    /// Lists or rows in the cache.
    pub count: u64,
    /// Their bytes, without the map.
    pub bytes: u64,
    /// Share of the reads that hit, 0 to 1.
    pub hit_rate: f64,
}

/// The hit rate of a cache of `bytes` bytes, interpolated linearly between the points of a curve.
pub(crate) fn hit_rate_at(curve: &[CurvePoint], bytes: u64) -> f64 {
    let mut before = (0, 0.0);
    for point in curve {
        if point.bytes >= bytes {
            let width = (point.bytes - before.0).max(1) as f64;
            return before.1 + (bytes - before.0) as f64 / width * (point.hit_rate - before.1);
        }
        before = (point.bytes, point.hit_rate);
    }
    before.1
}

/// The hit rate of a cache that holds `cached`, where node `v` is read `reads[v]` times; 0 without reads.
///
/// # Panics
/// If a node of `cached` is beyond `reads`.
#[must_use]
pub fn hit_rate(cached: &[u32], reads: &[u32]) -> f64 {
    use rayon::prelude::*;
    let hits = cached.par_iter().map(|&node| u64::from(reads[node as usize])).sum();
    share(hits, sum(reads))
}

/// The longest prefix of `order` that fits into each of the ascending `targets` (bytes), with its hit rate under
/// `reads`. Count `reads` over other batches than those that determined `order`.
///
/// # Panics
/// If a node of `order` is beyond `reads`.
pub fn curve(
    order: &[u32],
    reads: &[u32],
    bytes_of: impl Fn(u32) -> u64,
    targets: &[u64],
) -> Vec<CurvePoint> {
    debug_assert!(targets.is_sorted(), "targets ascend");
    let total = sum(reads);
    let (mut count, mut bytes, mut hits) = (0, 0, 0);
    let point = |&target: &u64| {
        while let Some(&node) = order.get(count) {
            let more = bytes_of(node);
            if bytes + more > target {
                break;
            }
            count += 1;
            bytes += more;
            hits += u64::from(reads[node as usize]);
        }
        CurvePoint { count: count as u64, bytes, hit_rate: share(hits, total) }
    };
    targets.iter().map(point).collect()
}

/// The usual shares of all reads for [`bytes_for_shares`], in per cent.
pub const READ_SHARES: [u32; 5] = [50, 90, 95, 98, 99];

/// The cache size that serves a share of all reads.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ShareBytes {
    /// The share of the reads, in per cent.
    pub reads_percent: u32,
    /// Lists or rows.
    pub count: u64,
    /// Their bytes, without the map.
    pub bytes: u64,
    /// Share of all bytes, 0 to 1.
    pub of_all_bytes: f64,
}

/// The shortest prefix of `order` that serves each of the ascending `percents` of all `reads`, and its bytes. With an
/// order by reads per byte this is the minimum, except for a part of the last list. Without reads the prefix is empty.
///
/// # Panics
/// If a node of `order` is beyond `reads`, or `order` lacks a node that is read.
pub fn bytes_for_shares(
    order: &[u32],
    reads: &[u32],
    bytes_of: impl Fn(u32) -> u64,
    percents: &[u32],
) -> Vec<ShareBytes> {
    debug_assert!(percents.is_sorted(), "shares ascend");
    let total = sum(reads);
    let all_bytes: u64 = (0..reads.len() as u32).map(&bytes_of).sum();
    let (mut count, mut bytes, mut taken) = (0, 0, 0);
    let share_bytes = |&percent: &u32| {
        // Integer arithmetic: a share that is reached exactly needs no further node.
        while u128::from(taken) * 100 < u128::from(total) * u128::from(percent) {
            let node = order[count];
            count += 1;
            bytes += bytes_of(node);
            taken += u64::from(reads[node as usize]);
        }
        ShareBytes {
            reads_percent: percent,
            count: count as u64,
            bytes,
            of_all_bytes: share(bytes, all_bytes),
        }
    };
    percents.iter().map(share_bytes).collect()
}

pub(crate) fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn between_two_points_of_a_curve_the_rate_is_on_a_straight_line() {
        let point = |bytes, hit_rate| CurvePoint { count: 1, bytes, hit_rate };
        let curve = [point(10, 0.5), point(30, 0.75)];
        assert_eq!(
            [5, 10, 20, 30, 99].map(|bytes| hit_rate_at(&curve, bytes)),
            [0.25, 0.5, 0.625, 0.75, 0.75]
        );
        assert_eq!(hit_rate_at(&[], 5), 0.0);
    }

    #[test]
    fn a_curve_takes_the_longest_beginning_that_fits_each_target() {
        let (order, reads) = ([2, 0, 1], [30, 10, 40, 20]);
        let bytes = |node: u32| [5, 1, 10, 99][node as usize];
        let points = curve(&order, &reads, bytes, &[0, 9, 10, 14, 15, 1000]);
        let counts: Vec<u64> = points.iter().map(|point| point.count).collect();
        assert_eq!(counts, [0, 0, 1, 1, 2, 3]);
        assert_eq!(points[5], CurvePoint { count: 3, bytes: 16, hit_rate: 0.8 });
        assert_eq!(points[4].hit_rate, hit_rate(&order[..2], &reads));
    }

    #[test]
    fn a_share_of_the_reads_takes_the_shortest_beginning_that_has_it() {
        let (order, reads) = ([2, 0, 1, 3], [30, 10, 60, 0]);
        let bytes = |node: u32| [5, 1, 10, 84][node as usize];
        let needs = bytes_for_shares(&order, &reads, bytes, &[0, 1, 60, 61, 90, 100]);
        let found: Vec<(u64, u64)> = needs.iter().map(|need| (need.count, need.bytes)).collect();
        assert_eq!(found, [(0, 0), (1, 10), (1, 10), (2, 15), (2, 15), (3, 16)]);
        assert_eq!(needs[5].of_all_bytes, 0.16);
        assert_eq!(bytes_for_shares(&[0], &[0], |_| 1, &[99])[0].count, 0);
    }

    #[test]
    fn where_nothing_is_read_nothing_hits() {
        assert_eq!(hit_rate(&[0], &[0, 0]), 0.0);
        assert_eq!(curve(&[0], &[0], |_| 1, &[5])[0].hit_rate, 0.0);
    }
}
