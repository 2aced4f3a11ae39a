//! Uniform picks of a node from its lists in all relations together ([`FanoutPer::Node`](crate::FanoutPer::Node)).

use super::floyd::Picker;
use crate::hops::{Hop, KindSetup, List, NodeId, PickResult, PickSink, Picks, WordsOf};
use crate::options::{GROUP, draws, picks_of_list};
use crate::philox::StreamKey;
use crate::{SampleError, SamplerKind};

/// One draw from the node's lists, one after the other in the order of relations, as from one list. A relation has the
/// picks in its own list, in the order drawn. Each relation repeats the draw: nothing is kept between them.
pub struct PerNode<'g> {
    replace: bool,
    picker: Picker,
    /// The bounds of the lists of each relation that leads to the node type, and which of them is this relation.
    into_type: Vec<&'g [i64]>,
    own: usize,
    /// A draw: positions in the lists one after the other.
    drawn: Vec<usize>,
    /// Whether each list of the group is taken whole.
    whole: Vec<bool>,
    /// Positions in the relation's `indices` of the picks from the other lists, concatenated.
    picked: Vec<usize>,
    /// How many of the lists and of the positions the sink has received.
    lists: usize,
    used: usize,
}

impl<'g> Picks<'g> for PerNode<'g> {
    const KIND: SamplerKind = SamplerKind::NEIGHBOR;
    const WORDS_OF: WordsOf = WordsOf::DestinationType;

    fn new(setup: &KindSetup<'_, 'g>) -> Result<Self, SampleError> {
        let own = setup.into_type.iter().position(|(relation, _)| *relation == setup.relation);
        Ok(Self {
            replace: setup.options.replace,
            picker: Picker::new(setup.most),
            into_type: setup.into_type.iter().map(|(_, lists)| lists.csc.indptr).collect(),
            own: own.unwrap_or_else(|| unreachable!("a relation leads to its own destination type")),
            drawn: vec![0; setup.most],
            whole: Vec::with_capacity(GROUP),
            picked: Vec::with_capacity(setup.group_picks),
            lists: 0,
            used: 0,
        })
    }

    fn prepare<I: NodeId>(&mut self, hop: &Hop<'_, I>, nodes: &[i64], lists: &mut [List]) -> PickResult {
        self.whole.clear();
        self.picked.clear();
        (self.lists, self.used) = (0, 0);
        for (list, &node) in lists.iter_mut().zip(nodes) {
            let degree = |indptr: &[i64]| {
                // An invalid list of another relation is an error when that relation is sampled.
                usize::try_from(indptr[node as usize + 1] - indptr[node as usize]).unwrap_or(0)
            };
            let before: usize = self.into_type[..self.own].iter().map(|indptr| degree(indptr)).sum();
            let after: usize = self.into_type[self.own + 1..].iter().map(|indptr| degree(indptr)).sum();
            let all = before + list.degree + after;
            let is_whole = !draws(all, hop.fanout, self.replace);
            self.whole.push(is_whole);
            if is_whole {
                list.picks = list.degree;
                continue;
            }
            let drawn = &mut self.drawn[..picks_of_list(all, hop.fanout, self.replace)];
            let key = StreamKey { node: list.key, batch: list.batch, ..hop.like };
            // Longer lists are rejected when the sampler is made.
            let degree = u32::try_from(all).unwrap_or(u32::MAX);
            self.picker.exactly(&key, 0, degree, self.replace, drawn);
            let begin = self.picked.len();
            let own = drawn.iter().filter_map(|drawn| drawn.checked_sub(before));
            self.picked.extend(own.filter(|at| *at < list.degree).map(|at| list.begin + at));
            list.picks = self.picked.len() - begin;
        }
        Ok(())
    }

    fn pick<I: NodeId>(&mut self, hop: &Hop<'_, I>, list: &List, sink: &mut PickSink<'_>) -> PickResult {
        self.lists += 1;
        if self.whole[self.lists - 1] {
            return sink.whole(hop, list);
        }
        let picked = &self.picked[self.used..self.used + list.picks];
        self.used += list.picks;
        sink.room(hop, list.picks)?.copy_from_slice(picked);
        Ok(())
    }
}
