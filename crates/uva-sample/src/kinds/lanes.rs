//! Uniform picks from many lists at once: their random words and Floyd's method in the lanes of a vector.
//!
//! A single list is a dependency chain: a word is ten multiplications in sequence, and a pick depends on those before
//! it. Lists are independent of each other, so each lane of a vector takes one. A draw is compared with all picks
//! before it. For usual fanouts this is less work than a set in memory, and the path is the same for lists of any
//! length.

use bytemuck::cast_slice;
use uva_ops::{Vectors, prefetch, vectorized};

use super::floyd::Picker;
use crate::hops::{Hop, List, NodeId};
use crate::options::GROUP;
use crate::philox::{StreamKey, lanes};

/// The maximum number of picks from a list that is drawn in lanes. The comparisons grow with the square of the picks,
/// so beyond this number they cost more than drawing list by list.
///
/// Nanoseconds of CPU time per pick, hash and local ids included: one hop from 1000 seeds in a graph of 2.4 M nodes and
/// 124 M edges, the minimum of three interleaved runs of 200 batches. (Two cores of a Xeon with AVX-512.)
///
/// | fanout | 8 | 16 | 24 | 32 | 48 | 64 |
/// |---|---|---|---|---|---|---|
/// | in lanes | 15.0 | **13.1** | 16.0 | 14.9 | 14.2 | 18.1 |
/// | list by list | 18.8 | 16.9 | **14.3** | 13.5 | 12.6 | 12.5 |
pub(super) const MOST_PICKS: usize = 16;

/// The lists of a group that are drawn from, in arrays that vectors load from.
pub(super) struct SideBySide {
    vectors: Vectors,
    replace: bool,
    /// The first three counter words of each list's stream. The lengths are padded to a multiple of the maximum lane
    /// count.
    counters: Box<[[u32; GROUP]; 3]>,
    degrees: Box<[u32; GROUP]>,
    /// The position of each list in its group, and the place of its picks.
    places: Box<[Place; GROUP]>,
    used: usize,
}

#[derive(Clone, Copy, Default)]
struct Place {
    /// The start of the list in the graph's `indices`.
    begin: usize,
    /// The place of its first pick.
    pick: usize,
}

/// Picks of one list per lane: `picks[p][lane]` is pick `p` of a list, a position within it.
type LanePicks<const LANES: usize> = [[u32; LANES]; MOST_PICKS];

const _: () = assert!(GROUP.is_multiple_of(16));

impl SideBySide {
    pub(super) fn new(replace: bool, vectors: Vectors) -> Self {
        Self {
            vectors,
            replace,
            counters: Box::new([[0; GROUP]; 3]),
            degrees: Box::new([0; GROUP]),
            places: Box::new([Place::default(); GROUP]),
            used: 0,
        }
    }

    /// Begins a group.
    pub(super) fn clear(&mut self) {
        self.used = 0;
    }

    /// Adds a list, whose picks are written from `pick` on. There are at most [`GROUP`] lists.
    #[inline(always)]
    pub(super) fn push(&mut self, like: &StreamKey, list: &List, pick: usize) {
        let [c0, c1, c2, _] = StreamKey { node: list.key, batch: list.batch, ..*like }.counter(0);
        let [words0, words1, words2] = &mut *self.counters;
        let at = self.used;
        (words0[at], words1[at], words2[at]) = (c0, c1, c2);
        // Longer lists are rejected when the sampler is made.
        self.degrees[at] = u32::try_from(list.degree).unwrap_or(u32::MAX);
        self.places[at] = Place { begin: list.begin, pick };
        self.used += 1;
    }

    /// Writes the picks of all lists: `fanout` positions in `indices` each, at most [`MOST_PICKS`].
    pub(super) fn pick<I: NodeId>(&self, hop: &Hop<'_, I>, picker: &mut Picker, picks: &mut [usize]) {
        let drawing = Drawing {
            like: &hop.like,
            fanout: hop.fanout,
            entries: cast_slice(hop.indices),
            entry_bytes: size_of::<I>(),
        };
        pick_all(self.vectors, self, &drawing, picker, picks);
    }
}

/// The parameters shared by all lists of a hop.
struct Drawing<'a> {
    like: &'a StreamKey,
    fanout: usize,
    /// The graph's `indices` as bytes, and the size of one entry.
    entries: &'a [u8],
    entry_bytes: usize,
}

vectorized! {
    fn pick_all<const LANES: usize>(lists: &SideBySide, drawing: &Drawing<'_>, picker: &mut Picker, picks: &mut [usize]) {
        pick_in_lanes::<LANES>(lists, drawing, picker, picks);
    }
}

#[inline(always)]
fn pick_in_lanes<const LANES: usize>(
    lists: &SideBySide,
    drawing: &Drawing<'_>,
    picker: &mut Picker,
    picks: &mut [usize],
) {
    let Drawing { like, fanout, entries, entry_bytes } = *drawing;
    let mut of_lanes: LanePicks<LANES> = [[0; LANES]; MOST_PICKS];
    let of_lanes = &mut of_lanes[..fanout.min(MOST_PICKS)];
    for first in (0..lists.used).step_by(LANES) {
        let doubts = if lists.replace {
            draw::<LANES, true>(lists, first, like, of_lanes)
        } else {
            draw::<LANES, false>(lists, first, like, of_lanes)
        };
        let places = &lists.places[first..lists.used.min(first + LANES)];
        for (lane, place) in places.iter().enumerate() {
            for (pick, of_lanes) in picks[place.pick..][..fanout].iter_mut().zip(&*of_lanes) {
                *pick = place.begin + of_lanes[lane] as usize;
                // The entry is read later, when all picks of the group are made: this prefetches it.
                prefetch(entries.as_ptr().wrapping_add(*pick * entry_bytes));
            }
        }
        if doubts.iter().any(|&doubt| doubt != 0) {
            redo(lists, first, &doubts, drawing, picker, picks);
        }
    }
}

/// Draws for the lists of the lanes from `first` on, one pick per row of `picks`. A lane of the result is nonzero if
/// one of its draws may have to be rejected; its picks are then invalid. Lanes after the last list are undefined.
#[inline(always)]
fn draw<const LANES: usize, const REPLACE: bool>(
    lists: &SideBySide,
    first: usize,
    like: &StreamKey,
    picks: &mut [[u32; LANES]],
) -> [u32; LANES] {
    let [words0, words1, words2] = &*lists.counters;
    let (c0, c1, c2) = (
        of_lanes::<LANES>(words0, first),
        of_lanes::<LANES>(words1, first),
        of_lanes::<LANES>(words2, first),
    );
    let degrees = of_lanes::<LANES>(&lists.degrees, first);
    let [_, _, _, c3] = like.counter(0);
    let fanout = picks.len();
    let mut doubts = [0; LANES];
    for block in 0..fanout.div_ceil(4) {
        let mut of_block = c1;
        for word in &mut of_block {
            *word |= block as u32;
        }
        let words = lanes(like.key(), c0, of_block, c2, c3);
        for (pick, words) in (4 * block..fanout).zip(words) {
            let mut drawn = [0; LANES];
            // The last position that may be drawn: the end of the list, or for Floyd's method one more with each pick.
            let mut last = [0; LANES];
            for lane in 0..LANES {
                let bound = if REPLACE {
                    degrees[lane]
                } else {
                    degrees[lane].wrapping_sub(fanout as u32).wrapping_add(pick as u32 + 1)
                };
                let product = u64::from(words[lane]) * u64::from(bound);
                drawn[lane] = (product >> 32) as u32;
                doubts[lane] |= u32::from((product as u32) < bound);
                last[lane] = bound.wrapping_sub(1);
            }
            if !REPLACE {
                // 0 if an earlier pick is the same.
                let mut differs = [u32::MAX; LANES];
                for earlier in &picks[..pick] {
                    for lane in 0..LANES {
                        differs[lane] = differs[lane].min(earlier[lane] ^ drawn[lane]);
                    }
                }
                for lane in 0..LANES {
                    drawn[lane] = if differs[lane] == 0 { last[lane] } else { drawn[lane] };
                }
            }
            picks[pick] = drawn;
        }
    }
    doubts
}

/// The entries of the lanes from `first` on.
#[inline(always)]
fn of_lanes<const LANES: usize>(array: &[u32; GROUP], first: usize) -> [u32; LANES] {
    let mut of_lanes = [0; LANES];
    of_lanes.copy_from_slice(&array[first..first + LANES]);
    of_lanes
}

/// Repeats the picks of the doubtful lanes word by word.
#[cold]
fn redo(
    lists: &SideBySide,
    first: usize,
    doubts: &[u32],
    &Drawing { like, fanout, .. }: &Drawing<'_>,
    picker: &mut Picker,
    picks: &mut [usize],
) {
    for (at, _) in (first..lists.used).zip(doubts).filter(|(_, doubt)| **doubt != 0) {
        let Place { begin, pick } = lists.places[at];
        let [c0, c1, c2] = [0, 1, 2].map(|word| lists.counters[word][at]);
        let key = StreamKey { node: u64::from(c0) | u64::from(c1 >> 24) << 32, batch: c2, ..*like };
        picker.exactly(&key, begin, lists.degrees[at], lists.replace, &mut picks[pick..pick + fanout]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::BatchKey;
    use crate::philox::RandomPurpose;
    use uva_graph::Split;

    /// Lists of these degrees, one after the other, keyed by nodes beyond 32 bits.
    fn lists(degrees: &[u32]) -> Vec<List> {
        let mut begin = 7;
        let list = |(at, &degree): (usize, &u32)| {
            begin += degree as usize;
            let key = (at as u64) << 31 | at as u64;
            List {
                key,
                batch: at as u32 % 3,
                begin: begin - degree as usize,
                degree: degree as usize,
                picks: 0,
            }
        };
        degrees.iter().enumerate().map(list).collect()
    }

    fn assert_picks_are_those_of_the_contract(degrees: &[u32], fanout: usize, replace: bool) {
        let split = Split::Train;
        let like = StreamKey {
            seed: 3,
            node: 0,
            purpose: RandomPurpose::Neighbors,
            layer: 2,
            batch: 0,
            epoch: 5,
            split,
        };
        let hop = Hop::<i32> {
            batch: BatchKey { split, epoch: 5, batch: 0 },
            layer: 2,
            fanout,
            like,
            indptr: &[],
            indices: &[],
            original_ids: None,
            sources: crate::TypeView { nodes: 0, original_ids: None },
            batch_dependency: 1,
        };
        let mut picker = Picker::new(MOST_PICKS);
        let lists = lists(degrees);
        let mut expected = vec![0; fanout * lists.len()];
        for (list, picks) in lists.iter().zip(expected.chunks_mut(fanout)) {
            let key = StreamKey { node: list.key, batch: list.batch, ..like };
            picker.exactly(&key, list.begin, list.degree as u32, replace, picks);
        }
        for vectors in Vectors::available() {
            let mut side_by_side = SideBySide::new(replace, vectors);
            // Leftovers of an earlier group change nothing.
            side_by_side.push(&like, &List { degree: 1 << 20, ..List::default() }, 99);
            side_by_side.clear();
            for (at, list) in lists.iter().enumerate() {
                side_by_side.push(&like, list, fanout * at);
            }
            let mut picks = vec![0; expected.len()];
            side_by_side.pick(&hop, &mut picker, &mut picks);
            assert_eq!(picks, expected, "{vectors:?}, fanout {fanout}, replacement {replace}");
        }
    }

    #[test]
    fn picks_are_those_of_the_contract_with_every_set_of_instructions() {
        for fanout in [1, 2, 3, 4, 5, 8, 10, 13, 15, MOST_PICKS] {
            for count in [0, 1, 3, 15, 16, 17, 100, GROUP] {
                // From lists one longer than the picks, where most draws are already taken, to long ones.
                let degrees: Vec<u32> = (0..count).map(|at| (fanout + 1 + at * at * 11) as u32).collect();
                for replace in [false, true] {
                    assert_picks_are_those_of_the_contract(&degrees, fanout, replace);
                }
            }
        }
    }

    #[test]
    fn draws_that_are_rejected_are_drawn_again() {
        // For lists of this length a quarter of all words is rejected.
        let degrees: Vec<u32> = (0..200).map(|at| (3 << 30) + at * 1000).collect();
        for replace in [false, true] {
            assert_picks_are_those_of_the_contract(&degrees, 10, replace);
        }
    }
}
