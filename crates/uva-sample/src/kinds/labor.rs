//! Picks shared by the nodes of a hop: LABOR-0 ("Layer-Neighbor Sampling", Balın and Çatalyürek, NeurIPS 2023), with
//! exactly as many picks as the fanout (its sequential form: the smallest variates, instead of all below a threshold).
//!
//! Every neighbour has one random variate in a hop, and each list picks the neighbours with the smallest. So lists with
//! a common neighbour are likely to agree on it, and a batch has fewer nodes. Still, all entries of a list are equally
//! likely.

use super::smallest_keys::Smallest;
use crate::hops::{Hop, KindSetup, List, NodeId, PickResult, PickSink, Picks, WordsOf};
use crate::kind::KindRow;
use crate::philox::first_longs;
use crate::{SampleError, SamplerKind};
use uva_cuda::kernels::sample::PickKind;

impl SamplerKind {
    /// All entries are equally likely, but the nodes of a hop prefer the same neighbours. So a batch has fewer nodes
    /// (LABOR-0 of Balın and Çatalyürek, "Layer-Neighbor Sampling", NeurIPS 2023).
    pub const LABOR: Self = Self::of(&KindRow {
        name: "labor",
        help: "Neighbours that the nodes of a hop share, so that a batch has fewer nodes (LABOR)",
        reads_whole_lists: true,
        kernels: Some(PickKind::Labor),
        ..KindRow::LIST_BY_LIST
    });
}

/// Entries of a list processed together.
const CHUNK: usize = 128;

/// The entries with the smallest variates.
pub struct Labor {
    smallest: Smallest,
    /// Original ids of a chunk's neighbours, and their variates.
    names: Box<[u64; CHUNK]>,
    variates: Box<[u64; CHUNK]>,
}

impl Picks<'_> for Labor {
    const KIND: SamplerKind = SamplerKind::LABOR;
    const WORDS_OF: WordsOf = WordsOf::SourceType;

    fn new(setup: &KindSetup<'_, '_>) -> Result<Self, SampleError> {
        let (names, variates) = (Box::new([0; CHUNK]), Box::new([0; CHUNK]));
        Ok(Self { smallest: Smallest::new(setup.most), names, variates })
    }

    fn pick<I: NodeId>(&mut self, hop: &Hop<'_, I>, list: &List, sink: &mut PickSink<'_>) -> PickResult {
        if list.degree <= hop.fanout {
            return sink.whole(hop, list);
        }
        self.smallest.begin(hop.fanout);
        let entries = &hop.indices[list.begin..list.begin + list.degree];
        let mut place = 0;
        for chunk in entries.chunks(CHUNK) {
            let names = &mut self.names[..chunk.len()];
            match hop.sources.original_ids {
                None => {
                    for (name, id) in names.iter_mut().zip(chunk) {
                        *name = id.widen() as u64;
                    }
                }
                Some(original) => {
                    for ((name, id), at) in names.iter_mut().zip(chunk).zip(list.begin + place as usize..) {
                        let id = original.get(id.widen() as usize);
                        *name = *id.ok_or_else(|| hop.no_node(at))? as u64;
                    }
                }
            }
            let variates = &mut self.variates[..chunk.len()];
            if hop.batch_dependency > 1 {
                first_longs(&hop.like, names, |name| hop.batch_of(name), variates);
            } else {
                first_longs(&hop.like, names, |_| hop.batch.batch, variates);
            }
            for &variate in variates.iter() {
                self.smallest.offer(variate, place);
                // A list has fewer than 2^32 entries, so this wraps at most after the last.
                place = place.wrapping_add(1);
            }
        }
        let picks = sink.room(hop, hop.fanout)?;
        for (pick, &(_, place)) in picks.iter_mut().zip(self.smallest.finish()) {
            *pick = list.begin + place as usize;
        }
        Ok(())
    }
}
