//! Verifies a batch: compares its blocks with the graph, edge by edge.

use std::collections::HashSet;

use anyhow::{Context, bail, ensure};
use serde::Serialize;
use uva_graph::{Csc, Relation};
use uva_sample::{BlockRef, FanoutPer, SamplerOptions, TypedView};

/// Counts of the comparisons with the graph. A difference is an error.
#[derive(Serialize, Debug, PartialEq, Eq)]
pub struct Verified {
    pub hops: usize,
    pub edges: usize,
    pub input_nodes: usize,
}

/// Refuses a batch with a duplicate node, a local id out of range, an edge that the graph lacks, or a list entry picked
/// twice without replacement. For kinds with a fixed number of picks per list, that number must match.
///
/// `nodes` are those of each type, `blocks` those of each layer and in it of each relation. Edges are compared where the
/// blocks have edge ids, as with every kind that picks in lists.
pub fn verify(
    graph: &TypedView<'_>,
    options: &SamplerOptions,
    nodes: &[&[i64]],
    blocks: &[BlockRef<'_>],
) -> anyhow::Result<Verified> {
    // Trees may have a node each.
    let once_each = nodes.iter().filter(|_| options.trees.is_none());
    for nodes in once_each {
        let mut seen = HashSet::with_capacity(nodes.len());
        if let Some(twice) = nodes.iter().find(|&&node| !seen.insert(node)) {
            bail!("node {twice} stands twice in a batch");
        }
    }
    let relations = graph.relations.len();
    for (hop, of_hop) in blocks.chunks(relations).enumerate() {
        for ((block, view), relation) in of_hop.iter().zip(&graph.relations).zip((0..).map(Relation)) {
            let ends = [view.ends.destination, view.ends.source].map(|end| nodes[end.index()]);
            let fanout = options.fanouts.of(hop, relation);
            verify_block(view.lists.csc, options, ends, block, fanout).with_context(|| {
                let of_relation =
                    if relations > 1 { format!(", relation {}", relation.0) } else { String::new() };
                format!("hop {hop}{of_relation}")
            })?;
        }
    }
    let edges = blocks.iter().map(|block| block.indices.len()).sum();
    let input_nodes = nodes.iter().map(|nodes| nodes.len()).sum();
    Ok(Verified { hops: blocks.len() / relations, edges, input_nodes })
}

fn verify_block(
    csc: Csc<'_>,
    options: &SamplerOptions,
    [of_lists, of_entries]: [&[i64]; 2],
    block: &BlockRef<'_>,
    fanout: i32,
) -> anyhow::Result<()> {
    let &BlockRef { destinations, sources, indptr, indices, edge_ids, .. } = block;
    ensure!(
        destinations <= of_lists.len() && sources <= of_entries.len(),
        "{destinations} destinations of {} nodes, and {sources} sources of {}",
        of_lists.len(),
        of_entries.len()
    );
    let ascends = indptr.windows(2).all(|ends| ends[0] <= ends[1]);
    let ends = (indptr.first().copied(), indptr.last().copied());
    ensure!(
        indptr.len() == destinations + 1 && ascends && ends == (Some(0), i32::try_from(indices.len()).ok()),
        "the offsets are not those of {destinations} lists with {} picks",
        indices.len()
    );
    if let Some(local) =
        indices.iter().find(|&&local| usize::try_from(local).map_or(true, |id| id >= sources))
    {
        bail!("local id {local} of {sources} sources");
    }
    if !options.kind.picks_in_lists() {
        return Ok(());
    }
    ensure!(edge_ids.len() == indices.len(), "{} edge ids of {} edges", edge_ids.len(), indices.len());
    for (&node, ends) in of_lists.iter().zip(indptr.windows(2)) {
        let picks = ends[0] as usize..ends[1] as usize;
        let list = csc.indptr[node as usize]..csc.indptr[node as usize + 1];
        for (&edge, &local) in edge_ids[picks.clone()].iter().zip(&indices[picks.clone()]) {
            ensure!(list.contains(&edge), "edge {edge} is not one of node {node}");
            let (found, told) = (csc.indices.get(edge as usize), of_entries[local as usize]);
            ensure!(found == told, "edge {edge} of node {node} leads from {found}, not from {told}");
        }
        let mut distinct = edge_ids[picks].to_vec();
        let count = distinct.len();
        distinct.sort_unstable();
        distinct.dedup();
        ensure!(options.replace || distinct.len() == count, "a neighbour of node {node} is picked twice");
        let of_list = (list.end - list.start) as usize;
        let wanted = options.picks_of_list(of_list, fanout);
        // Edges of weight 0 are not picked. Draws for a whole hop bring any number of a list's entries.
        let few = count < wanted && !options.kind.needs_weights();
        // Nor do draws from the lists of all relations together, or from the visible part of a list.
        let is_timed = options.trees.is_some_and(|trees| trees.time.is_some());
        let is_exact =
            !options.kind.draws_together() && options.fanout_per == FanoutPer::Relation && !is_timed;
        let (few, many) = if is_exact { (few, count > wanted) } else { (false, false) };
        ensure!(
            !few && !many,
            "{count} picks of the {of_list} neighbours of node {node} with fanout {fanout}"
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use uva_graph::Indices;

    use super::*;

    // Node 0 has the neighbours 1, 2, 3; node 1 has 0; node 2 has 0 and 1; node 3 none.
    const INDPTR: [i64; 5] = [0, 3, 4, 6, 6];
    const INDICES: [i32; 6] = [1, 2, 3, 0, 0, 1];

    /// Around the seeds 0 and 2: two of the three neighbours of 0, both of 2.
    struct Batch {
        nodes: Vec<i64>,
        indptr: Vec<i32>,
        indices: Vec<i32>,
        edge_ids: Vec<i64>,
    }

    fn batch() -> Batch {
        Batch {
            nodes: vec![0, 2, 1],
            indptr: vec![0, 2, 4],
            indices: vec![2, 1, 0, 2],
            edge_ids: vec![0, 1, 4, 5],
        }
    }

    fn said(batch: &Batch) -> String {
        said_of(batch, &SamplerOptions { fanouts: [2].into(), ..SamplerOptions::default() })
    }

    fn said_of(batch: &Batch, options: &SamplerOptions) -> String {
        let csc = Csc { indptr: &INDPTR, indices: Indices::I32(&INDICES), original_ids: None, degrees: None };
        let Batch { nodes, indptr, indices, edge_ids } = batch;
        let block = BlockRef { destinations: 2, sources: 3, indptr, indices, edge_ids, weights: &[] };
        match verify(&csc.into(), options, &[nodes], &[block]) {
            Ok(verified) => format!("{verified:?}"),
            Err(error) => format!("{error:#}"),
        }
    }

    #[test]
    fn a_batch_that_is_one_of_the_graph_passes() {
        assert_eq!(said(&batch()), "Verified { hops: 1, edges: 4, input_nodes: 3 }");
    }

    #[test]
    fn with_replacement_a_short_list_has_as_many_picks_as_a_long_one() {
        let options = SamplerOptions { fanouts: [3].into(), replace: true, ..SamplerOptions::default() };
        let short = said_of(&batch(), &options);
        assert!(short.contains("2 picks of the 3 neighbours of node 0 with fanout 3"), "{short}");
        let drawn = Batch {
            indptr: vec![0, 3, 6],
            indices: vec![2, 2, 1, 2, 0, 2],
            edge_ids: vec![0, 0, 1, 5, 4, 5],
            ..batch()
        };
        assert_eq!(said_of(&drawn, &options), "Verified { hops: 1, edges: 6, input_nodes: 3 }");
    }

    #[test]
    fn each_fault_that_a_batch_can_have_is_reported() {
        type Broken = (fn(&mut Batch), &'static str);
        let broken: [Broken; 8] = [
            (|batch| batch.nodes[2] = 0, "node 0 stands twice"),
            (|batch| batch.indices[0] = 3, "hop 0: local id 3 of 3 sources"),
            (|batch| batch.indices[0] = -1, "local id -1"),
            (|batch| batch.indptr[1] = 5, "the offsets are not those"),
            (|batch| batch.edge_ids[0] = 4, "edge 4 is not one of node 0"),
            (|batch| batch.edge_ids[0] = 2, "edge 2 of node 0 leads from 3, not from 1"),
            (|batch| (batch.edge_ids[1], batch.indices[1]) = (0, 2), "a neighbour of node 0 is picked twice"),
            (
                |batch| {
                    batch.indptr = vec![0, 1, 3];
                    batch.indices.remove(0);
                    batch.edge_ids.remove(0);
                },
                "1 picks of the 3 neighbours of node 0 with fanout 2",
            ),
        ];
        for (break_it, told) in broken {
            let mut batch = batch();
            break_it(&mut batch);
            assert!(said(&batch).contains(told), "{told}: {}", said(&batch));
        }
    }
}
