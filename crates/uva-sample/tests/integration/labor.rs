//! LABOR: the same number of picks as neighbour sampling, also uniform, but of fewer nodes.

use crate::common::{Graph, assert_uniform, key};
use uva_sample::{MiniBatch, SamplerKind, SamplerOptions};

fn options(kind: SamplerKind, fanouts: &[i32]) -> SamplerOptions {
    SamplerOptions { kind, fanouts: fanouts.into(), seed: 3, ..SamplerOptions::default() }
}

/// 20,000 nodes with 10 to 59 neighbours each, half of them out of the first 2000 nodes.
fn graph() -> Graph {
    let list = |node: i64| {
        let entry = |place: i64| {
            let mixed = uva_graph::mix((node * 1000 + place) as u64);
            (mixed >> 1) as i64 % if mixed.is_multiple_of(2) { 2000 } else { 20_000 }
        };
        (0..10 + node % 50).map(entry).collect()
    };
    Graph::from_lists(&(0..20_000).map(list).collect::<Vec<_>>()).narrow()
}

fn batch(graph: &Graph, options: &SamplerOptions, number: u32, seeds: &[i64]) -> MiniBatch {
    let mut batch = graph.room_for(seeds.len(), options);
    graph.sampler_for(options).sample_into(key(number), seeds, &mut batch).unwrap();
    batch
}

#[test]
fn every_list_gets_the_fanout_or_all_it_has_and_no_entry_twice() {
    let graph = graph();
    let options = SamplerOptions { edge_ids: true, ..options(SamplerKind::LABOR, &[12, 15]) };
    let batch = batch(&graph, &options, 5, &(0..200).map(|i| i * 97).collect::<Vec<_>>());
    for (block, fanout) in batch.blocks().zip([12, 15]) {
        for (&node, ends) in batch.nodes().iter().zip(block.indptr.windows(2)) {
            let picked = &block.edge_ids[ends[0] as usize..ends[1] as usize];
            assert_eq!(picked.len(), graph.list(node).len().min(fanout));
            assert!(picked.is_sorted_by(|a, b| a < b), "entries of a list, each once, in its order");
        }
    }
}

#[test]
fn every_neighbour_is_picked_equally_often() {
    for (degree, fanout) in [(2, 1), (10, 3), (16, 15), (64, 15), (130, 20), (1000, 5)] {
        let mut lists = vec![Vec::new(); degree + 1];
        lists[0] = (1..=degree as i64).collect();
        let graph = Graph::from_lists(&lists);
        let options = options(SamplerKind::LABOR, &[fanout]);
        let (mut sampler, mut batch) = (graph.sampler_for(&options), graph.room(1, [fanout]));
        let mut counts = vec![0; degree];
        for number in 0..(100 * degree / fanout as usize).max(4000) as u32 {
            sampler.sample_into(key(number), &[0], &mut batch).unwrap();
            batch.nodes()[1..].iter().for_each(|&node| counts[node as usize - 1] += 1);
        }
        let shrink = (degree as f64 - f64::from(fanout)) / (degree as f64 - 1.0);
        assert_uniform(&counts, shrink, &format!("{fanout} of {degree}"));
    }
}

#[test]
fn nodes_with_equal_neighbours_pick_the_same_in_one_hop_only() {
    let mut lists = vec![(4..40).collect::<Vec<i64>>(); 4];
    lists[3].reverse();
    lists.resize(40, vec![]);
    let graph = Graph::from_lists(&lists);
    let batch = batch(&graph, &options(SamplerKind::LABOR, &[9, 9]), 0, &[0, 1, 2, 3]);
    assert_eq!(batch.block(0).unwrap().sources, 4 + 9);
    let picks = |layer: usize, destination: usize| {
        let block = batch.block(layer).unwrap();
        let ends = block.indptr[destination] as usize..block.indptr[destination + 1] as usize;
        block.indices[ends].to_vec()
    };
    assert_eq!(picks(0, 0), picks(0, 1));
    let mut reversed = picks(0, 3);
    reversed.reverse();
    assert_eq!(picks(0, 0), reversed, "in the order of its own list");
    assert_eq!(picks(1, 0), picks(1, 2));
    assert_ne!(picks(0, 0), picks(1, 0));
}

#[test]
fn a_batch_has_fewer_nodes_than_by_neighbour_sampling() {
    let graph = graph();
    let seeds: Vec<i64> = (0..500).map(|i| i * 37).collect();
    let nodes = |kind| -> usize {
        (0..5).map(|number| batch(&graph, &options(kind, &[10, 10]), number, &seeds).nodes().len()).sum()
    };
    let (labor, neighbor) = (nodes(SamplerKind::LABOR), nodes(SamplerKind::NEIGHBOR));
    assert!(labor * 10 < neighbor * 9, "{labor} nodes, {neighbor} by neighbour sampling");
}

#[test]
fn picks_stay_for_as_many_batches_as_they_are_to() {
    let graph = graph();
    let seeds: Vec<i64> = (0..300).collect();
    let shared = |batch_dependency| {
        let options = SamplerOptions { batch_dependency, ..options(SamplerKind::LABOR, &[5]) };
        let [mut now, next] = [0, 1].map(|number| batch(&graph, &options, number, &seeds).nodes().to_vec());
        now.retain(|node| next.contains(node));
        now.len()
    };
    assert!(shared(20) > 2 * shared(1), "{} and {}", shared(20), shared(1));
}
