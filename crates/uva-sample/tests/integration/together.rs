//! Kinds of sampler that draw for all destinations of a hop together: probabilities of draws, and the results of
//! weighted sums. Keys are fixed, so these tests either always pass or always fail.

use std::collections::HashMap;

use crate::common::{Graph, assert_distributed, chances_of_sets, key};
use uva_sample::{BlockRef, SamplerKind, SamplerOptions};

/// The contribution of a list of this many entries to the importance of each.
fn importance(degree: usize) -> f64 {
    ((1_u64 << 32) / (degree * degree) as u64).max(1) as f64
}

/// The batches of some seeds, one after the other.
fn batches(
    graph: &Graph,
    options: &SamplerOptions,
    seeds: &[i64],
    count: u32,
    mut each: impl FnMut(&[i64], BlockRef<'_>),
) {
    let (mut sampler, mut batch) = (graph.sampler_for(options), graph.room_for(seeds.len(), options));
    for number in 0..count {
        sampler.sample_into(key(number), seeds, &mut batch).unwrap();
        let last = batch.block(options.fanouts.hops() - 1).unwrap();
        each(batch.nodes(), last);
    }
}

fn options(kind: SamplerKind, fanouts: &[i32]) -> SamplerOptions {
    SamplerOptions { kind, fanouts: fanouts.into(), seed: 11, ..SamplerOptions::default() }
}

/// 60 nodes with lists of 0 to 11 entries, some of them twice; node 0 has all others as neighbours.
fn graph() -> Graph {
    let list = |node: i64| match node {
        0 => (1..60).collect(),
        _ => (0..node % 12).map(|i| (node * 7 + i * i * 5 + i) % 60).collect(),
    };
    Graph::from_lists(&(0..60).map(list).collect::<Vec<Vec<i64>>>())
}

/// The importance of each node over these lists.
fn sums(graph: &Graph, nodes: impl Iterator<Item = i64>) -> Vec<f64> {
    let mut sums = vec![0.0; 60];
    for list in nodes.map(|node| graph.list(node)) {
        list.iter().for_each(|&node| sums[node as usize] += importance(list.len()));
    }
    sums
}

#[test]
fn fastgcn_draws_nodes_by_their_importance_in_the_whole_graph() {
    let graph = graph();
    let sums = sums(&graph, 0..60);
    let total: f64 = sums.iter().sum();
    let draws = 20.0;
    let mut counts = vec![0; 60];
    batches(&graph, &options(SamplerKind::FASTGCN, &[20]), &[0], 5000, |nodes, block| {
        for (&local, &weight) in block.indices.iter().zip(block.weights) {
            let node = nodes[local as usize] as usize;
            // The weight says how often it was drawn.
            let count = f64::from(weight) * draws * sums[node] * 59.0 / total;
            assert!((count - count.round()).abs() < 1e-4 && count > 0.5, "{count}");
            counts[node] += count.round() as u64;
        }
    });
    // Every node except 0 itself is in the list of 0.
    assert!(counts[1..].iter().sum::<u64>() < 100_000, "0 is drawn as well");
    assert_distributed(&counts[1..], &sums[1..], 1.0, "nodes drawn by FastGCN");
}

#[test]
fn sums_weighed_by_fastgcn_are_right_in_expectation() {
    let graph = graph();
    let sums = sums(&graph, 0..60);
    let total: f64 = sums.iter().sum();
    let value = |node: i64| f64::from((node * node % 17) as i32) - 3.0;
    let seeds: Vec<i64> = (0..60).filter(|&node| !graph.list(node).is_empty()).collect();
    let (draws, count) = (16, 4000);
    let mut means: HashMap<i64, f64> = HashMap::new();
    batches(&graph, &options(SamplerKind::FASTGCN, &[draws]), &seeds, count, |nodes, block| {
        for (destination, ends) in block.indptr.windows(2).enumerate() {
            let edges = ends[0] as usize..ends[1] as usize;
            let weighed = block.indices[edges.clone()].iter().zip(&block.weights[edges]);
            let sum: f64 = weighed.map(|(&local, &w)| f64::from(w) * value(nodes[local as usize])).sum();
            *means.entry(nodes[destination]).or_default() += sum / f64::from(count);
        }
    });
    for &seed in &seeds {
        let list = graph.list(seed);
        let degree = list.len() as f64;
        let mean = list.iter().map(|&node| value(node)).sum::<f64>() / degree;
        // A draw adds (entries of the list that name it) · value / (q · d): its variance is known.
        let mut second = 0.0;
        for node in 0..60_i64 {
            let entries = list.iter().filter(|&&entry| entry == node).count() as f64;
            let q = sums[node as usize] / total;
            second += if entries > 0.0 { (entries * value(node) / degree).powi(2) / q } else { 0.0 };
        }
        let deviation = ((second - mean * mean) / f64::from(draws) / f64::from(count)).sqrt();
        let distance = (means[&seed] - mean) / deviation.max(1e-12);
        assert!(
            distance.abs() < 4.5,
            "node {seed}: {} is {distance:.1} deviations from {mean}",
            means[&seed]
        );
    }
}

/// Two destinations with six neighbours, of different importance, between them.
fn two_lists() -> (Graph, Vec<f64>) {
    let lists = [vec![2, 3, 4], vec![4, 5, 6, 7, 7], vec![], vec![], vec![], vec![], vec![], vec![]];
    let mut sums = [0.0; 8];
    for list in &lists {
        list.iter().for_each(|&node| sums[node as usize] += importance(list.len()));
    }
    (Graph::from_lists(&lists), sums[2..].to_vec())
}

#[test]
fn ladies_draws_sets_of_neighbours_as_one_draw_after_the_other_makes_them() {
    let (graph, importance) = two_lists();
    for count in [1, 2, 3, 5] {
        let mut counts = vec![0_u64; 1 << 6];
        batches(&graph, &options(SamplerKind::LADIES, &[count]), &[0, 1], 40_000, |nodes, block| {
            assert_eq!(block.sources, 2 + count as usize, "each drawn node is a source once");
            let drawn = block.indices.iter().map(|&local| nodes[local as usize] - 2);
            counts[drawn.fold(0, |set, node| set | 1 << node)] += 1;
        });
        let chances = chances_of_sets(&importance, count as usize);
        let sets: Vec<usize> = (0..counts.len()).filter(|&set| chances[set] * 40_000.0 >= 20.0).collect();
        assert!(sets.len() >= 5 && sets.iter().map(|&set| counts[set]).sum::<u64>() > 39_500);
        let of = |set: &usize| (counts[*set], chances[*set]);
        let (counts, chances): (Vec<_>, Vec<_>) = sets.iter().map(of).unzip();
        assert_distributed(&counts, &chances, 1.0, &format!("sets of {count}"));
    }
}

#[test]
fn weights_that_ladies_gives_a_list_sum_to_one_and_fall_with_importance() {
    let graph = graph();
    let seeds: Vec<i64> = (0..30).collect();
    let sums = sums(&graph, 0..30);
    let (mut empty, mut partial) = (0, 0);
    batches(&graph, &options(SamplerKind::LADIES, &[12]), &seeds, 200, |nodes, block| {
        assert!(block.sources <= 30 + 12);
        for ends in block.indptr.windows(2) {
            let edges = ends[0] as usize..ends[1] as usize;
            if edges.is_empty() {
                empty += 1;
                continue;
            }
            partial += 1;
            let weights = &block.weights[edges.clone()];
            assert!((weights.iter().map(|&weight| f64::from(weight)).sum::<f64>() - 1.0).abs() < 1e-6);
            let weighed = weights.iter().zip(&block.indices[edges]);
            let products: Vec<f64> =
                weighed.map(|(&w, &local)| f64::from(w) * sums[nodes[local as usize] as usize]).collect();
            let same = products.iter().all(|product| (product / products[0] - 1.0).abs() < 1e-6);
            assert!(same, "weight times importance is one number within a list: {products:?}");
        }
    });
    assert!(empty > 0 && partial > 1000);
}

/// For each node the share of the sum over all edges that draws it, and that sum, by GraphSAINT's probabilities of
/// edges.
fn parts_of_edges(graph: &Graph) -> (Vec<(i64, i64, f64)>, f64) {
    let length = |node: i64| graph.list(node).len().max(1) as f64;
    let edges: Vec<(i64, i64, f64)> = (0..60)
        .flat_map(|node| graph.list(node).into_iter().map(move |other| (node, other)))
        .map(|(node, other)| (node, other, 1.0 / length(node) + 1.0 / length(other)))
        .collect();
    let total = edges.iter().map(|edge| edge.2).sum();
    (edges, total)
}

#[test]
fn saint_edge_draws_edges_by_the_reciprocals_of_both_list_lengths() {
    let graph = graph();
    let (edges, total) = parts_of_edges(&graph);
    // A draw is visible as the nodes, other than the seed 0, at both ends of its edge: all of them are in the list of
    // 0.
    let mut chances: HashMap<Vec<i64>, f64> = HashMap::new();
    for (node, other, chance) in edges {
        let mut ends: Vec<i64> = [node, other].into_iter().filter(|&end| end != 0).collect();
        ends.sort_unstable();
        ends.dedup();
        *chances.entry(ends).or_default() += chance;
    }
    let mut counts: HashMap<Vec<i64>, u64> = HashMap::new();
    let batches_drawn = 40_000;
    batches(&graph, &options(SamplerKind::SAINT_EDGE, &[1]), &[0], batches_drawn, |nodes, block| {
        let mut ends: Vec<i64> = block.indices.iter().map(|&local| nodes[local as usize]).collect();
        ends.sort_unstable();
        *counts.entry(ends).or_default() += 1;
    });
    let often = |chance: &f64| chance / total * f64::from(batches_drawn) >= 20.0;
    let sets: Vec<&Vec<i64>> =
        chances.iter().filter(|(_, chance)| often(chance)).map(|(set, _)| set).collect();
    assert!(sets.len() > 100, "{}", sets.len());
    let found: Vec<u64> = sets.iter().map(|set| counts.get(*set).copied().unwrap_or(0)).collect();
    let expected: Vec<f64> = sets.iter().map(|set| chances[*set]).collect();
    assert_distributed(&found, &expected, 1.0, "edges drawn");
    assert!(counts.keys().all(|set| chances.contains_key(set)), "what is drawn is an edge's ends");
}

#[test]
fn a_node_is_in_a_subgraph_as_often_as_its_weight_says() {
    let graph = graph();
    let (edges, total_of_edges) = parts_of_edges(&graph);
    let mut of_edges = vec![0.0; 60];
    for (node, other, part) in edges {
        of_edges[node as usize] += part;
        of_edges[other as usize] += if other == node { 0.0 } else { part };
    }
    let of_nodes = sums(&graph, 0..60);
    let total_of_nodes = of_nodes.iter().sum();
    let (draws, count) = (12, 20_000);
    for (kind, parts, total) in [
        (SamplerKind::SAINT_NODE, of_nodes, total_of_nodes),
        (SamplerKind::SAINT_EDGE, of_edges, total_of_edges),
    ] {
        let chance = |node: i64| 1.0 - (1.0_f64 - parts[node as usize] / total).powi(draws);
        let mut counts = vec![0_u64; 60];
        batches(&graph, &options(kind, &[draws]), &[0], count, |nodes, block| {
            let members: Vec<i64> = block.indices.iter().map(|&local| nodes[local as usize]).collect();
            members.iter().for_each(|&node| counts[node as usize] += 1);
            // Weights fall with the chance, and a list's sum up to one.
            let sum: f64 = members.iter().map(|&node| 1.0 / chance(node)).sum();
            for (&node, &weight) in members.iter().zip(block.weights) {
                let expected = 1.0 / chance(node) / sum;
                assert!((f64::from(weight) / expected - 1.0).abs() < 1e-5, "{kind}: {node} weighs {weight}");
            }
        });
        for node in 1..60 {
            let (chance, count) = (chance(node), f64::from(count));
            let deviation = (count * chance * (1.0 - chance)).sqrt();
            let distance = (counts[node as usize] as f64 - count * chance) / deviation.max(1e-9);
            assert!(distance.abs() < 4.5, "{kind}: node {node} is {distance:.1} deviations off");
        }
    }
}

#[test]
fn every_layer_of_a_subgraph_has_all_edges_between_its_nodes() {
    let graph = graph();
    let seeds = [0, 7, 31];
    for kind in [SamplerKind::SAINT_NODE, SamplerKind::SAINT_EDGE] {
        let options = options(kind, &[9, 9, 9, 9]);
        let (mut sampler, mut batch) = (graph.sampler_for(&options), graph.room_for(3, &options));
        for number in 0..50 {
            sampler.sample_into(key(number), &seeds, &mut batch).unwrap();
            let nodes = batch.nodes();
            // The list of 0 has every node but 0, and 0 is a seed: all members are in the batch after one hop.
            assert_eq!(batch.block(0).unwrap().sources, nodes.len());
            for layer in 0..4 {
                let block = batch.block(layer).unwrap();
                assert_eq!(block.destinations, if layer == 0 { 3 } else { nodes.len() });
                for (&node, ends) in nodes.iter().zip(block.indptr.windows(2)) {
                    let picked = &block.indices[ends[0] as usize..ends[1] as usize];
                    let picked: Vec<i64> = picked.iter().map(|&local| nodes[local as usize]).collect();
                    let mut inside = graph.list(node);
                    inside.retain(|neighbor| nodes.contains(neighbor));
                    assert_eq!(picked, inside, "{kind}: layer {layer}, node {node}");
                }
            }
            assert!(nodes.len() > 5 && nodes.len() <= 3 + 9 * kind.nodes_a_draw(), "{kind}: {nodes:?}");
        }
    }
}

#[test]
fn where_all_are_taken_the_weights_are_those_of_the_mean() {
    let graph = graph();
    let seeds: Vec<i64> = (0..60).collect();
    let all = SamplerKind::ALL.into_iter().filter(|kind| kind.draws_together()).map(|kind| (kind, -1));
    for (kind, fanout) in all.chain([(SamplerKind::LADIES, 60)]) {
        batches(&graph, &options(kind, &[fanout]), &seeds, 2, |nodes, block| {
            for (&node, ends) in nodes.iter().zip(block.indptr.windows(2)) {
                let edges = ends[0] as usize..ends[1] as usize;
                let ids: Vec<i64> =
                    block.indices[edges.clone()].iter().map(|&at| nodes[at as usize]).collect();
                let list = graph.list(node);
                assert!(block.weights[edges].iter().all(|&weight| weight == 1.0 / list.len() as f32));
                assert_eq!(ids, list);
            }
        });
    }
}

#[test]
fn a_graph_without_edges_has_nothing_to_draw() {
    let graph = Graph::from_lists(&vec![Vec::new(); 5]);
    for kind in SamplerKind::ALL.into_iter().filter(|kind| kind.draws_together()) {
        batches(
            &graph,
            &options(kind, &crate::common::fanouts_for(kind, &[3, 2])),
            &[4, 1],
            3,
            |nodes, block| {
                assert_eq!((nodes, block.indptr, block.indices.len()), (&[4, 1][..], &[0, 0, 0][..], 0));
            },
        );
    }
}

#[test]
fn importance_beyond_what_a_double_holds_exactly_stays_at_the_top() {
    // Lists of one entry, 2^21 + 8 of one node and twice as many of another, and one that names both: both sums end at
    // 2^53 - 1, so that this list gives them the same weight. A third node makes them too many to be all taken.
    let (once, twice) = ((1_usize << 21) + 8, 1_usize << 22);
    let seeds = once + twice + 2;
    let [first, second, third] = [0, 1, 2].map(|more| (seeds + more) as i64);
    let mut indices = vec![first; once];
    indices.resize(once + twice, second);
    let mut indptr: Vec<i64> = (0..=indices.len() as i64).collect();
    for list in [&[first, second][..], &[third], &[], &[], &[]] {
        indices.extend(list);
        indptr.push(indices.len() as i64);
    }
    let graph = Graph {
        indptr,
        indices: crate::common::Ids::I64(indices),
        original_ids: None,
        home: None,
        weights: None,
    };
    let seeds: Vec<i64> = (0..seeds as i64).collect();
    batches(&graph, &options(SamplerKind::LADIES, &[2]), &seeds, 2, |_, block| {
        assert_eq!(block.indices.len(), once + twice + 2, "the third is a million times less likely");
        assert_eq!(block.weights[once + twice..], [0.5, 0.5]);
    });
}
