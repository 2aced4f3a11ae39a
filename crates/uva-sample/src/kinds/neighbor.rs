//! Uniform picks, independent for each node.

use uva_cuda::kernels::sample::PickKind;
use uva_ops::Vectors;

use super::floyd::{Picker, with_replacement};
use super::lanes::{MOST_PICKS, SideBySide};
use crate::hops::{Hop, KindSetup, List, NodeId, PickResult, PickSink, Picks};
use crate::kind::KindRow;
use crate::options::{GROUP, draws, picks_of_list};
use crate::philox::{BlockBatch, StreamKey};
use crate::{SampleError, SamplerKind};

impl SamplerKind {
    /// All entries of a list are equally likely, independently of other nodes' picks (GraphSAGE).
    pub const NEIGHBOR: Self = Self::of(&KindRow {
        name: "neighbor",
        help: "Random neighbours, independently for each node",
        replaces: true,
        grows_trees: true,
        kernels: Some(PickKind::Neighbor),
        ..KindRow::LIST_BY_LIST
    });
}

/// Floyd's method, or draws with replacement.
pub struct Uniform {
    replace: bool,
    picker: Picker,
    /// For fanouts of at most [`MOST_PICKS`].
    side_by_side: SideBySide,
    /// For larger ones: words of the group's lists that are drawn from, concatenated.
    blocks: BlockBatch,
    /// The number of used words.
    used: usize,
}

impl Picks<'_> for Uniform {
    const KIND: SamplerKind = SamplerKind::NEIGHBOR;

    fn new(setup: &KindSetup<'_, '_>) -> Result<Self, SampleError> {
        let replace = setup.options.replace;
        Ok(Self {
            replace,
            picker: Picker::new(setup.most),
            side_by_side: SideBySide::new(replace, Vectors::widest()),
            // Words come in blocks of four: each destination leaves up to three over.
            blocks: BlockBatch::with_capacity(setup.group_picks / 4 + GROUP),
            used: 0,
        })
    }

    #[inline]
    fn prepare<I: NodeId>(&mut self, hop: &Hop<'_, I>, _: &[i64], lists: &mut [List]) -> PickResult {
        for list in lists.iter_mut() {
            list.picks = picks_of_list(list.degree, hop.fanout, self.replace);
        }
        if hop.fanout <= MOST_PICKS {
            return Ok(());
        }
        self.blocks.clear();
        self.used = 0;
        for list in lists.iter() {
            if draws(list.degree, hop.fanout, self.replace) {
                self.blocks.push(&hop.like, list.key, list.batch, hop.fanout.div_ceil(4));
            }
        }
        self.blocks.generate(&hop.like);
        Ok(())
    }

    #[inline]
    fn pick_group<I: NodeId>(
        &mut self,
        hop: &Hop<'_, I>,
        lists: &[List],
        sink: &mut PickSink<'_>,
    ) -> PickResult {
        if hop.fanout > MOST_PICKS {
            return lists.iter().try_for_each(|list| self.pick(hop, list, sink));
        }
        let positions = sink.room(hop, lists.iter().map(|list| list.picks).sum())?;
        self.side_by_side.clear();
        let mut next = 0;
        for list in lists {
            if draws(list.degree, hop.fanout, self.replace) {
                self.side_by_side.push(&hop.like, list, next);
            } else {
                for (place, position) in positions[next..next + list.degree].iter_mut().zip(list.begin..) {
                    *place = position;
                }
            }
            next += list.picks;
        }
        self.side_by_side.pick(hop, &mut self.picker, positions);
        Ok(())
    }

    #[inline]
    fn pick<I: NodeId>(&mut self, hop: &Hop<'_, I>, list: &List, sink: &mut PickSink<'_>) -> PickResult {
        if !draws(list.degree, hop.fanout, self.replace) {
            return sink.whole(hop, list);
        }
        let picks = sink.room(hop, hop.fanout)?;
        let words = &self.blocks.words()[self.used..self.used + 4 * hop.fanout.div_ceil(4)];
        self.used += words.len();
        let key = StreamKey { node: list.key, batch: list.batch, ..hop.like };
        // Longer lists are rejected when the sampler is made.
        let degree = u32::try_from(list.degree).unwrap_or(u32::MAX);
        if self.replace {
            with_replacement(&key, words, list.begin, degree, picks);
        } else {
            self.picker.without_replacement(&key, words, list.begin, degree, picks);
        }
        Ok(())
    }
}
