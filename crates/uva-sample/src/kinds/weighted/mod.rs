//! Picks in proportion to the weights of edges.
//!
//! Without replacement, it uses exponential keys (Efraimidis and Spirakis, "Weighted random sampling with a reservoir",
//! 2006). Each entry gets the key E / w, E being exponentially distributed, and the smallest are picked. The first pick
//! is proportional to the weights, the second proportional among the remaining entries, and so on. With replacement, it
//! draws below the sum of integer weights. Either way, every weight of a list that is drawn from is read.

mod integer;

use super::exponential;
use super::neighbor::Uniform;
use super::smallest_keys::Smallest;
use crate::hops::{Hop, KindSetup, List, NodeId, PickResult, PickSink, Picks};
use crate::kind::KindRow;
use crate::options::GROUP;
use crate::philox::{RandomPurpose, STREAM_WORDS, StreamKey, words_from};
use crate::{GraphView, InvalidOption, SampleError, SamplerKind};
use integer::exists;
use uva_cuda::kernels::sample::PickKind;
use uva_graph::Relation;

impl SamplerKind {
    /// An entry is picked in proportion to its weight (`weight.npy`).
    pub const WEIGHTED: Self = Self::of(&KindRow {
        name: "weighted",
        help: "Random neighbours, weighted by weight.npy",
        replaces: true,
        grows_trees: true,
        needs_weights: true,
        kernels: Some(PickKind::Weighted),
        ..KindRow::LIST_BY_LIST
    });
}

/// Entries of a list processed together: whole blocks of words, none of which crosses the end of a stream.
const CHUNK: usize = 128;
const _: () = assert!(STREAM_WORDS.is_multiple_of(CHUNK) && CHUNK.is_multiple_of(4));

/// Picks by weight. A relation without weights, of a graph with several relations, has uniform picks.
pub enum WeightedSampler<'g> {
    /// By weight.
    ByWeight(ByWeight<'g>),
    /// Uniform.
    Uniform(Uniform),
}

impl<'g> Picks<'g> for WeightedSampler<'g> {
    const KIND: SamplerKind = SamplerKind::WEIGHTED;
    const PURPOSE: RandomPurpose = RandomPurpose::Weights;

    fn purpose(&self) -> RandomPurpose {
        match self {
            Self::ByWeight(_) => Self::PURPOSE,
            Self::Uniform(_) => Uniform::PURPOSE,
        }
    }

    fn counts_as(&self) -> SamplerKind {
        match self {
            Self::ByWeight(_) => Self::KIND,
            Self::Uniform(_) => Uniform::KIND,
        }
    }

    fn new(setup: &KindSetup<'_, 'g>) -> Result<Self, SampleError> {
        match setup.graph.weights {
            Some(weights) => ByWeight::new(setup, weights).map(Self::ByWeight),
            None if setup.is_one_of_several => Uniform::new(setup).map(Self::Uniform),
            None => Err(InvalidOption::NoWeights { kind: Self::KIND }.into()),
        }
    }

    #[inline]
    fn prepare<I: NodeId>(&mut self, hop: &Hop<'_, I>, nodes: &[i64], lists: &mut [List]) -> PickResult {
        match self {
            Self::ByWeight(picks) => picks.prepare(hop, nodes, lists),
            Self::Uniform(picks) => picks.prepare(hop, nodes, lists),
        }
    }

    fn pick<I: NodeId>(&mut self, hop: &Hop<'_, I>, list: &List, sink: &mut PickSink<'_>) -> PickResult {
        match self {
            Self::ByWeight(picks) => picks.pick(hop, list, sink),
            Self::Uniform(picks) => picks.pick(hop, list, sink),
        }
    }

    #[inline]
    fn pick_group<I: NodeId>(
        &mut self,
        hop: &Hop<'_, I>,
        lists: &[List],
        sink: &mut PickSink<'_>,
    ) -> PickResult {
        match self {
            Self::ByWeight(picks) => lists.iter().try_for_each(|list| picks.pick(hop, list, sink)),
            Self::Uniform(picks) => picks.pick_group(hop, lists, sink),
        }
    }
}

/// Samples the entries that weights and words choose. An entry exists if its weight is positive.
pub struct ByWeight<'g> {
    relation: Relation,
    graph: GraphView<'g>,
    weights: &'g [f32],
    replace: bool,
    smallest: Smallest,
    draws: integer::DrawBuffers,
    words: Box<[u32; CHUNK]>,
    /// Positions of the group's picks in their lists, concatenated, if there is a limit to them.
    places: Vec<u32>,
    /// The start of each list of the group among the weights.
    begins: Vec<usize>,
    /// How many of the positions and of the lists the sink has received.
    used: (usize, usize),
}

impl<'g> ByWeight<'g> {
    fn new(setup: &KindSetup<'_, 'g>, weights: &'g [f32]) -> Result<Self, SampleError> {
        let KindSetup { graph, relation, options, group_picks, most, .. } = *setup;
        if !graph.fits_weights(weights.len()) {
            let (given, edges) = (weights.len(), graph.csc.edges());
            return Err(InvalidOption::Weights { given, edges }.into());
        }
        let (by_keys, by_draws) = if options.replace { (0, most) } else { (most, 0) };
        Ok(Self {
            relation,
            graph,
            weights,
            replace: options.replace,
            smallest: Smallest::new(by_keys),
            draws: integer::DrawBuffers::new(by_draws),
            words: Box::new([0; CHUNK]),
            places: Vec::with_capacity(group_picks),
            begins: Vec::with_capacity(GROUP),
            used: (0, 0),
        })
    }

    fn prepare<I: NodeId>(&mut self, hop: &Hop<'_, I>, nodes: &[i64], lists: &mut [List]) -> PickResult {
        self.places.clear();
        self.begins.clear();
        self.used = (0, 0);
        for (list, &node) in lists.iter_mut().zip(nodes) {
            let begin = self.begin_of(hop, list, node as usize);
            self.begins.push(begin);
            let end = begin.saturating_add(list.degree);
            let Some(weights) = self.weights.get(begin..end) else {
                let (begin, end, edges) = (begin as i64, end as i64, self.weights.len());
                return Err(SampleError::InvalidList { node, begin, end, edges });
            };
            if hop.fanout == usize::MAX {
                list.picks = weights.iter().filter(|&&weight| exists(weight)).count();
                continue;
            }
            let before = self.places.len();
            let key = StreamKey { node: list.key, batch: list.batch, ..hop.like };
            if self.replace {
                self.with_replacement(&key, weights, hop.fanout);
            } else if list.degree <= hop.fanout {
                self.all_that_exist(weights);
            } else {
                self.without_replacement(&key, weights, hop.fanout);
            }
            list.picks = self.places.len() - before;
        }
        Ok(())
    }

    fn pick<I: NodeId>(&mut self, hop: &Hop<'_, I>, list: &List, sink: &mut PickSink<'_>) -> PickResult {
        let (place, number) = self.used;
        if hop.fanout < usize::MAX {
            self.used.0 += list.picks;
            let places = &self.places[place..self.used.0];
            for (pick, &place) in sink.room(hop, list.picks)?.iter_mut().zip(places) {
                *pick = list.begin + place as usize;
            }
            return Ok(());
        }
        self.used.1 += 1;
        if list.picks == list.degree {
            return sink.whole(hop, list);
        }
        let begin = self.begins[number];
        for (&weight, position) in self.weights[begin..begin + list.degree].iter().zip(list.begin..) {
            if exists(weight) {
                sink.push(hop, position)?;
            }
        }
        Ok(())
    }

    /// The start among the weights of a list, or of the part of it that is there to draw from.
    #[inline]
    fn begin_of<I: NodeId>(&self, hop: &Hop<'_, I>, list: &List, node: usize) -> usize {
        if self.graph.home.is_none() {
            return list.begin;
        }
        let skipped = list.begin - hop.indptr[node] as usize;
        self.graph.begin_at_home(node).saturating_add(skipped)
    }

    /// Takes every entry that exists, in the order of the list.
    fn all_that_exist(&mut self, weights: &[f32]) {
        let places = (0..).zip(weights).filter(|(_, weight)| exists(**weight));
        self.places.extend(places.map(|(place, _)| place));
    }

    /// Takes the `fanout` entries with the smallest keys, or all that exist, in the order of the list.
    fn without_replacement(&mut self, key: &StreamKey, weights: &[f32], fanout: usize) {
        self.smallest.begin(fanout);
        let mut place = 0;
        for chunk in weights.chunks(CHUNK) {
            let words = &mut self.words[..chunk.len()];
            words_from(key, self.relation, u64::from(place), words);
            for (&weight, &mut word) in chunk.iter().zip(words) {
                if exists(weight) {
                    self.smallest.offer(exponential::key(word, weight.into()), place);
                }
                // A list has fewer than 2^32 entries, so this wraps at most after the last.
                place = place.wrapping_add(1);
            }
        }
        self.places.extend(self.smallest.finish().iter().map(|&(_, place)| place));
    }

    /// Takes `fanout` draws in the order of drawing; none if no entry exists.
    fn with_replacement(&mut self, key: &StreamKey, weights: &[f32], fanout: usize) {
        if weights.iter().any(|&weight| exists(weight)) {
            self.places.extend_from_slice(self.draws.draw(key.stream(), weights, fanout));
        }
    }
}
