//! Philox 4x32-10, the counter-based generator of all random choices.
//!
//! A word is a function of a key and a counter. "The third draw for node 17 in hop 1 of batch 4" can therefore be
//! computed in any order, without earlier draws. The generator is that of Salmon, Moraes, Dror and Shaw, "Parallel
//! random numbers: as easy as 1, 2, 3" (SC'11). `docs/spec/reproducible-batches.md` defines the layout of counter and
//! key.

use uva_graph::{Relation, Split, mix};

const MULTIPLIERS: [u32; 2] = [0xD251_1F53, 0xCD9E_8D57];
const KEY_STEPS: [u32; 2] = [0x9E37_79B9, 0xBB67_AE85];
const ROUNDS: usize = 10;

/// Words of one stream before its 16-bit block number wraps and the words repeat.
pub const STREAM_WORDS: usize = 4 << 16;

/// The purpose of random words: a part of the counter, so streams of different purposes never meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum RandomPurpose {
    /// Picks of neighbours.
    Neighbors = 0,
    /// The order of an epoch's seeds.
    SeedShuffle = 1,
    /// Random walks.
    Walks = 2,
    /// Subgraph sampling.
    Subgraphs = 3,
    /// Negative samples.
    Negatives = 4,
    /// Picks by edge weight.
    Weights = 5,
    /// The order of the rows of a hop set.
    HopRows = 6,
    /// Orders of seeds that follow the graph, and partitions.
    Proximity = 7,
}

/// Philox 4x32-10: the four words that `counter` has under `key`.
#[inline]
#[must_use]
pub fn philox4x32(key: [u32; 2], counter: [u32; 4]) -> [u32; 4] {
    let [w0, w1, w2, w3] = lanes(key, [counter[0]], [counter[1]], [counter[2]], counter[3]);
    [w0[0], w1[0], w2[0], w3[0]]
}

/// `L` counters at once that share their last word. Result `[w][lane]` is word `w` of `lane`.
///
/// A round is a chain of multiplications; several counters side by side keep the multiplier busy.
#[inline(always)]
pub(crate) fn lanes<const L: usize>(
    key: [u32; 2],
    mut c0: [u32; L],
    mut c1: [u32; L],
    mut c2: [u32; L],
    epoch_and_split: u32,
) -> [[u32; L]; 4] {
    let mut c3 = [epoch_and_split; L];
    let [mut k0, mut k1] = key;
    for _ in 0..ROUNDS {
        for lane in 0..L {
            let product0 = u64::from(c0[lane]) * u64::from(MULTIPLIERS[0]);
            let product1 = u64::from(c2[lane]) * u64::from(MULTIPLIERS[1]);
            c0[lane] = (product1 >> 32) as u32 ^ c1[lane] ^ k0;
            c1[lane] = product1 as u32;
            c2[lane] = (product0 >> 32) as u32 ^ c3[lane] ^ k1;
            c3[lane] = product0 as u32;
        }
        k0 = k0.wrapping_add(KEY_STEPS[0]);
        k1 = k1.wrapping_add(KEY_STEPS[1]);
    }
    [c0, c1, c2, c3]
}

/// Identifies a stream of random words. The fields are the bits of the Philox key and counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StreamKey {
    /// The run's seed: the Philox key, low word first.
    pub seed: u64,
    /// Original id of the node (or the position, for [`RandomPurpose::SeedShuffle`]). The low 40 bits count.
    pub node: u64,
    /// The purpose of the words.
    pub purpose: RandomPurpose,
    /// The hop, 0 at the seeds. The low 5 bits count.
    pub layer: u32,
    /// The batch within its epoch.
    pub batch: u32,
    /// The epoch. The low 30 bits count.
    pub epoch: u32,
    /// The split of the seeds.
    pub split: Split,
}

impl StreamKey {
    /// The Philox key: the seed's low and high word.
    #[inline]
    #[must_use]
    pub fn key(&self) -> [u32; 2] {
        [self.seed as u32, (self.seed >> 32) as u32]
    }

    /// The Philox counter of one block of four words.
    #[inline]
    #[must_use]
    pub fn counter(&self, block: u16) -> [u32; 4] {
        [
            self.node as u32,
            u32::from(block)
                | (self.layer & 0x1F) << 16
                | (self.purpose as u32) << 21
                | ((self.node >> 32) as u32 & 0xFF) << 24,
            self.batch,
            (self.epoch & 0x3FFF_FFFF) | (self.split as u32) << 30,
        ]
    }

    /// The words of this key, from the first one.
    #[inline]
    #[must_use]
    pub fn stream(self) -> PhiloxStream {
        PhiloxStream { key: self, block: 0, words: [0; 4], used: 4 }
    }
}

/// The words of one [`StreamKey`] in order: blocks 0, 1, 2, …, four words a block.
///
/// After [`STREAM_WORDS`] words it repeats.
#[derive(Clone, Debug)]
pub struct PhiloxStream {
    key: StreamKey,
    /// The block that is generated next.
    block: u16,
    words: [u32; 4],
    used: usize,
}

impl PhiloxStream {
    /// The next word.
    #[inline]
    pub fn next_u32(&mut self) -> u32 {
        if self.used == 4 {
            self.words = philox4x32(self.key.key(), self.key.counter(self.block));
            self.block = self.block.wrapping_add(1);
            self.used = 0;
        }
        self.used += 1;
        self.words[self.used - 1]
    }

    /// A uniform integer in `0..bound`, without bias; 0 when `bound` is 0.
    ///
    /// Lemire's multiplication with rejection ("Fast random integer generation in an interval", 2019): words are
    /// consumed in order, rejected ones included.
    #[inline]
    pub fn bounded(&mut self, bound: u32) -> u32 {
        let mut product = u64::from(self.next_u32()) * u64::from(bound);
        if (product as u32) < bound {
            // 2^32 mod bound: products below it would favour some results.
            let threshold = bound.wrapping_neg() % bound;
            while (product as u32) < threshold {
                product = u64::from(self.next_u32()) * u64::from(bound);
            }
        }
        (product >> 32) as u32
    }

    /// A uniform integer in `0..bound`, for bounds of 64 bits, from pairs of words, the low one first.
    #[inline]
    pub fn bounded_u64(&mut self, bound: u64) -> u64 {
        let mut draw = || {
            let low = u64::from(self.next_u32());
            u128::from(low | u64::from(self.next_u32()) << 32) * u128::from(bound)
        };
        let mut product = draw();
        if (product as u64) < bound {
            let threshold = bound.wrapping_neg() % bound;
            while (product as u64) < threshold {
                product = draw();
            }
        }
        (product >> 64) as u64
    }
}

/// The first two words (low, high) of the streams of many nodes; `batch` returns the batch number that keys each. The
/// other fields are those of `like`.
#[inline]
pub(crate) fn first_longs(like: &StreamKey, nodes: &[u64], batch: impl Fn(u64) -> u32, out: &mut [u64]) {
    let [_, c1, _, c3] = StreamKey { node: 0, ..*like }.counter(0);
    for (nodes, out) in nodes.chunks(LANES).zip(out.chunks_mut(LANES)) {
        let mut lane_nodes = [0; LANES];
        lane_nodes[..nodes.len()].copy_from_slice(nodes);
        let high = lane_nodes.map(|node| c1 | ((node >> 32) as u32 & 0xFF) << 24);
        let [low_words, high_words, ..] =
            lanes(like.key(), lane_nodes.map(|node| node as u32), high, lane_nodes.map(&batch), c3);
        for ((long, low), high) in out.iter_mut().zip(low_words).zip(high_words) {
            *long = u64::from(low) | u64::from(high) << 32;
        }
    }
}

/// The words of one node from position `first` on, a multiple of 4, for lists of any length, in a relation whose words
/// have the seed `key.seed` = `seed xor mix(relation)`. Word `p` is word `p mod 2¹⁸` of a stream. The stream of segment
/// `j = ⌊p / 2¹⁸⌋` has the seed `seed xor mix(relation + 2³²·j)`; in relation 0 it is `seed xor mix(j)`. So the words
/// begin with the node's ordinary stream. A request does not cross the end of a stream.
#[inline]
pub(crate) fn words_from(key: &StreamKey, relation: Relation, first: u64, out: &mut [u32]) {
    let streams = STREAM_WORDS as u64;
    let (segment, relation) = (first / streams, u64::from(relation.0));
    // mix(0) is 0.
    let salt = match relation {
        0 => mix(segment),
        _ => mix(relation) ^ mix(relation + (segment << 32)),
    };
    let key = StreamKey { seed: key.seed ^ salt, ..*key };
    let [c0, c1, c2, c3] = key.counter(0);
    let mut block = (first % streams / 4) as u32;
    for out in out.chunks_mut(4 * LANES) {
        let mut counters = [c1; LANES];
        for counter in &mut counters {
            *counter |= block & 0xFFFF;
            block += 1;
        }
        let words = lanes(key.key(), [c0; LANES], counters, [c2; LANES], c3);
        for (at, word) in out.iter_mut().enumerate() {
            *word = words[at % 4][at / 4];
        }
    }
}

/// Blocks of words for many nodes of one (seed, epoch, split, layer, purpose), generated side by side.
///
/// Request blocks with [`push`](Self::push), then call [`generate`](Self::generate), then read [`words`](Self::words):
/// the words lie in the order of the requests.
pub(crate) struct BlockBatch {
    /// First counter word of each requested block: the node's low word.
    c0: Vec<u32>,
    /// Second counter word of each.
    c1: Vec<u32>,
    /// Third counter word of each: the batch.
    c2: Vec<u32>,
    words: Vec<u32>,
    asked: usize,
}

/// Counters computed together. Four chains fill the multiplier and nearly fit the registers. 8 are not faster, and 32
/// in vectors of two (x86-64 without extensions) are slower.
const LANES: usize = 4;

impl BlockBatch {
    /// Allocates memory for `blocks` blocks, the maximum number of requests between two calls of
    /// [`clear`](Self::clear).
    pub(crate) fn with_capacity(blocks: usize) -> Self {
        let blocks = blocks.next_multiple_of(LANES);
        let words = || vec![0; blocks];
        Self { c0: words(), c1: words(), c2: words(), words: vec![0; 4 * blocks], asked: 0 }
    }

    pub(crate) fn clear(&mut self) {
        self.asked = 0;
    }

    /// Requests the first `blocks` blocks of `node` in `batch`; the other fields are those of `like`.
    #[inline]
    pub(crate) fn push(&mut self, like: &StreamKey, node: u64, batch: u32, blocks: usize) {
        let [c0, c1, c2, _] = StreamKey { node, batch, ..*like }.counter(0);
        let range = self.asked..self.asked + blocks;
        self.c0[range.clone()].fill(c0);
        self.c2[range.clone()].fill(c2);
        for (block, word) in self.c1[range].iter_mut().enumerate() {
            *word = c1 | block as u32;
        }
        self.asked += blocks;
    }

    /// Computes the words of every requested block.
    pub(crate) fn generate(&mut self, like: &StreamKey) {
        let [_, _, _, c3] = like.counter(0);
        let groups = self.asked.div_ceil(LANES);
        let words = self.words.chunks_exact_mut(4 * LANES);
        let c0 = self.c0.as_chunks::<LANES>().0;
        let c1 = self.c1.as_chunks::<LANES>().0;
        let c2 = self.c2.as_chunks::<LANES>().0;
        for (((words, c0), c1), c2) in words.zip(c0).zip(c1).zip(c2).take(groups) {
            let result = lanes(like.key(), *c0, *c1, *c2, c3);
            for lane in 0..LANES {
                for word in 0..4 {
                    words[4 * lane + word] = result[word][lane];
                }
            }
        }
    }

    /// The words of all requested blocks, block after block.
    #[inline]
    pub(crate) fn words(&self) -> &[u32] {
        &self.words[..4 * self.asked]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: StreamKey = StreamKey {
        seed: 0x0123_4567_89AB_CDEF,
        node: 0xAB_1234_5678,
        purpose: RandomPurpose::Weights,
        layer: 31,
        batch: 7,
        epoch: 0x3FFF_FFFF,
        split: Split::Test,
    };

    #[test]
    fn the_generator_gives_the_known_answers_of_random123() {
        // Random123, tests/kat_vectors, "philox4x32 10".
        let cases = [
            ([0; 4], [0; 2], [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]),
            ([u32::MAX; 4], [u32::MAX; 2], [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]),
            (
                [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344],
                [0xa409_3822, 0x299f_31d0],
                [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1],
            ),
        ];
        for (counter, key, expected) in cases {
            assert_eq!(philox4x32(key, counter), expected);
        }
    }

    #[test]
    fn the_counter_has_every_field_at_its_bits() {
        assert_eq!(KEY.key(), [0x89AB_CDEF, 0x0123_4567]);
        assert_eq!(
            KEY.counter(0x4321),
            [0x1234_5678, 0x4321 | 31 << 16 | 5 << 21 | 0xAB << 24, 7, 0x3FFF_FFFF | 2 << 30]
        );
    }

    #[test]
    fn fields_too_wide_do_not_spill_into_their_neighbours() {
        let wide = StreamKey { node: KEY.node | 1 << 40, layer: 31 | 1 << 5, epoch: u32::MAX, ..KEY };
        assert_eq!(wide.counter(3), KEY.counter(3));
    }

    #[test]
    fn a_stream_is_the_words_of_its_blocks_in_order() {
        let mut stream = KEY.stream();
        for block in 0..5 {
            for word in philox4x32(KEY.key(), KEY.counter(block)) {
                assert_eq!(stream.next_u32(), word);
            }
        }
    }

    #[test]
    fn blocks_generated_side_by_side_are_those_of_the_streams() {
        let mut batch = BlockBatch::with_capacity(64);
        for _ in 0..2 {
            batch.clear();
            let asked = [(1_u64, 7, 1), (u64::from(u32::MAX) + 5, 8, 4), (9, 7, 2), (1, 0, 11)];
            for (node, of_batch, blocks) in asked {
                batch.push(&KEY, node, of_batch, blocks);
            }
            batch.generate(&KEY);
            let mut words = batch.words().iter().copied();
            for (node, of_batch, blocks) in asked {
                let mut stream = StreamKey { node, batch: of_batch, ..KEY }.stream();
                for _ in 0..4 * blocks {
                    assert_eq!(words.next(), Some(stream.next_u32()));
                }
            }
            assert_eq!(words.next(), None);
        }
    }

    #[test]
    fn first_longs_are_the_first_two_words_of_the_streams() {
        let nodes: Vec<u64> = (0..11).map(|node| node * 0x12_3456_789A).collect();
        let mut longs = [0; 11];
        first_longs(&KEY, &nodes, |node| node as u32 % 3, &mut longs);
        for (&node, long) in nodes.iter().zip(longs) {
            let mut stream = StreamKey { node, batch: node as u32 % 3, ..KEY }.stream();
            let (low, high) = (stream.next_u32(), stream.next_u32());
            assert_eq!(long, u64::from(low) | u64::from(high) << 32);
        }
    }

    #[test]
    fn words_of_long_lists_continue_in_another_stream_after_the_first() {
        let mut words = [0; 50];
        words_from(&KEY, Relation::ONLY, 0, &mut words);
        let mut stream = KEY.stream();
        assert_eq!(words, std::array::from_fn(|_| stream.next_u32()));
        words_from(&KEY, Relation::ONLY, 20, &mut words[..30]);
        let stream = &mut KEY.stream();
        let behind = std::iter::repeat_with(|| stream.next_u32()).skip(20);
        assert!(words[..30].iter().copied().eq(behind.take(30)));
        let end = STREAM_WORDS as u64;
        words_from(&KEY, Relation::ONLY, end - 4, &mut words[..4]);
        assert_eq!(words[..4], philox4x32(KEY.key(), KEY.counter(0xFFFF)));
        words_from(&KEY, Relation::ONLY, 3 * end + 8, &mut words[..4]);
        let other = StreamKey { seed: KEY.seed ^ mix(3), ..KEY };
        assert_eq!(words[..4], philox4x32(other.key(), other.counter(2)));
    }

    #[test]
    fn a_wide_draw_takes_two_words_and_rejects_as_a_narrow_one_does() {
        // 2^64 mod (2^63 + 1) = 2^63 - 1: nearly half of all pairs of words are rejected.
        for (bound, most) in [((1_u64 << 63) + 1, 300), (10, 0), (1, 0), (u64::MAX, 1)] {
            let (mut words, mut draws, mut rejected) = (KEY.stream(), KEY.stream(), 0);
            let threshold = ((1_u128 << 64) % u128::from(bound)) as u64;
            for _ in 0..200 {
                let expected = loop {
                    let low = u128::from(words.next_u32());
                    let product = (low | u128::from(words.next_u32()) << 32) * u128::from(bound);
                    if product as u64 >= threshold {
                        break (product >> 64) as u64;
                    }
                    rejected += 1;
                };
                assert_eq!(draws.bounded_u64(bound), expected);
                assert!(expected < bound);
            }
            assert!(rejected <= most && (most < 300 || rejected > 100), "{rejected} pairs were rejected");
        }
    }

    #[test]
    fn a_rejected_word_is_consumed() {
        // 2^32 mod (2^31 + 1) = 2^31 - 1: nearly half of all words are rejected.
        let bound = (1 << 31) + 1;
        let mut words = KEY.stream();
        let mut draws = KEY.stream();
        let mut rejected = 0;
        for _ in 0..200 {
            let expected = loop {
                let product = u64::from(words.next_u32()) * u64::from(bound);
                if product as u32 >= (1 << 31) - 1 {
                    break (product >> 32) as u32;
                }
                rejected += 1;
            };
            assert_eq!(draws.bounded(bound), expected);
        }
        assert!(rejected > 100, "{rejected} words were rejected");
    }

    #[test]
    fn a_draw_below_one_is_zero_and_takes_a_word() {
        let mut draws = KEY.stream();
        assert_eq!(draws.bounded(1), 0);
        assert_eq!(draws.next_u32(), philox4x32(KEY.key(), KEY.counter(0))[1]);
        assert_eq!(draws.bounded(0), 0);
    }
}
