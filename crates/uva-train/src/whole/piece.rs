//! Some nodes of a type of a whole typed graph, with all their neighbours, as the blocks of a batch.

use crate::TrainError;
use crate::graph::whole_data::WholeData;
use crate::torch::host;
use rayon::prelude::*;
use std::ops::Range;
use uva_graph::Csc;
use uva_model::{LayerWiring, ModelGraph, RelationUse};

/// The rows that a layer makes.
#[derive(Clone, Copy)]
pub(crate) struct HopDestinations<'w> {
    pub(crate) wiring: &'w LayerWiring,
    /// The hop whose neighbours it reads, from 0 at the seeds.
    pub(crate) hop: usize,
    /// The type of its destinations.
    pub(crate) of_type: usize,
}

/// Nodes and lists with local ids.
pub(crate) struct Piece {
    /// The nodes of each type whose rows are read: those of the piece first, then the neighbours, each once and in order.
    pub(crate) nodes: Vec<Vec<i64>>,
    /// Offsets and sources of each relation of the layer; empty for relations into other types.
    pub(crate) lists: Vec<(Vec<i32>, Vec<i32>)>,
}

impl Piece {
    /// The piece of the nodes `own` of a type.
    pub(crate) fn new(
        HopDestinations { wiring, hop, of_type }: HopDestinations<'_>,
        data: &WholeData<'_>,
        own: &Range<usize>,
        named: &ModelGraph,
    ) -> Result<Self, TrainError> {
        let (first, behind) = (own.start as i64, own.end as i64);
        let is_own = |source: usize, id: i64| source == of_type && (first..behind).contains(&id);
        let mut others: Vec<Vec<i64>> = data.types.iter().map(|_| Vec::new()).collect();
        let is_read = |of: &RelationUse| !data.unread.contains(&(hop, of.relation));
        for (_, of) in wiring.leading_into(of_type).filter(|(_, of)| is_read(of)) {
            let (csc, nodes) = (&data.relations[of.relation].csc, data.types[of.source].nodes as i64);
            for edge in edges(csc, own) {
                let id = csc.indices.get(edge);
                if id < 0 || id >= nodes {
                    return Err(TrainError::Input(format!(
                        "neighbour {id} at edge {edge} of {}, which has {nodes} {} nodes",
                        named.full_name(of.relation),
                        named.types[of.source].name
                    )));
                }
                if !is_own(of.source, id) {
                    others[of.source].push(id);
                }
            }
        }
        let pool = host::threads();
        for others in &mut others {
            match &pool {
                Some(pool) => pool.install(|| others.par_sort_unstable()),
                None => others.sort_unstable(),
            }
            others.dedup();
        }
        let mut lists: Vec<_> = wiring.relations.iter().map(|_| (vec![0], Vec::new())).collect();
        for (place, of) in wiring.leading_into(of_type) {
            if !is_read(of) {
                lists[place].0.resize(own.len() + 1, 0);
                continue;
            }
            let csc = &data.relations[of.relation].csc;
            let (edges, others) = (edges(csc, own), &others[of.source]);
            let before = if of.source == of_type { own.len() } else { 0 };
            if i32::try_from(edges.len()).is_err() || i32::try_from(before + others.len()).is_err() {
                return Err(TrainError::Input(format!("node {first} has more than 2³¹ − 1 neighbours")));
            }
            let local = |edge: usize| {
                let id = csc.indices.get(edge);
                let id = match is_own(of.source, id) {
                    true => (id - first) as usize,
                    false => before + others.partition_point(|&other| other < id),
                };
                id as i32
            };
            let begin = edges.start as i64;
            let offsets = csc.indptr[own.start..=own.end].iter().map(|&offset| (offset - begin) as i32);
            let indices = match &pool {
                Some(pool) => pool.install(|| edges.into_par_iter().map(local).collect()),
                None => edges.map(local).collect(),
            };
            lists[place] = (offsets.collect(), indices);
        }
        let mut nodes = others;
        nodes[of_type].splice(0..0, first..behind);
        Ok(Self { nodes, lists })
    }
}

/// The places of the edges in the lists of some nodes.
fn edges(csc: &Csc<'_>, nodes: &Range<usize>) -> Range<usize> {
    csc.indptr[nodes.start] as usize..csc.indptr[nodes.end] as usize
}

/// A chunk of nodes in pieces of at most `rows` nodes and entries of their lists together, or of one node.
pub(crate) fn cut(chunk: &Range<usize>, lists: &[&Csc<'_>], rows: usize) -> Vec<Range<usize>> {
    let (mut pieces, mut start, mut count) = (Vec::new(), chunk.start, 0);
    for node in chunk.clone() {
        let own = 1 + lists.iter().map(|csc| csc.degree(node)).sum::<usize>();
        if node > start && count + own > rows {
            pieces.push(start..node);
            (start, count) = (node, 0);
        }
        count += own;
    }
    pieces.push(start..chunk.end);
    pieces
}
