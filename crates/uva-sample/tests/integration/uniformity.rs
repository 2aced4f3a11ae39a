//! Uniformity of picks. Keys are fixed, so these tests either always pass or always fail.
//!
//! The bound on χ² is its mean plus five standard deviations: a fair sampler exceeds it once in some hundred thousand
//! choices of the seed. Biases found in other samplers exceed it a hundredfold.

use std::collections::{HashMap, HashSet};

use crate::common::{Graph, assert_uniform, key};
use uva_graph::Split;
use uva_sample::{BatchKey, BatchSampler, SeedOrder};

/// The positions picked in the list of a node of `degree` neighbours, batch by batch.
fn picks(degree: usize, fanout: i32, replace: bool, batches: u32, mut each: impl FnMut(&[usize])) {
    let mut lists = vec![Vec::new(); degree + 1];
    lists[0] = (1..=degree as i64).collect();
    let graph = Graph::from_lists(&lists).narrow();
    let mut sampler = graph.sampler(&[fanout], replace, 3);
    let mut batch = graph.room(1, [fanout]);
    let mut positions = Vec::new();
    for number in 0..batches {
        sampler.sample_into(key(number), &[0], &mut batch).unwrap();
        positions.clear();
        let locals = batch.block(0).unwrap().indices;
        positions.extend(locals.iter().map(|&local| batch.nodes()[local as usize] as usize - 1));
        each(&positions);
    }
}

/// Number of picks of each position.
fn frequencies(degree: usize, fanout: i32, replace: bool, batches: u32) -> Vec<u64> {
    let mut counts = vec![0; degree];
    picks(degree, fanout, replace, batches, |positions| {
        assert_eq!(positions.len(), fanout as usize);
        for &position in positions {
            counts[position] += 1;
        }
    });
    counts
}

/// Variance of a cell, when `fanout` of `degree` are drawn at once, over that of independent draws.
fn shrink(degree: usize, fanout: i32) -> f64 {
    (degree as f64 - f64::from(fanout)) / (degree as f64 - 1.0)
}

#[test]
fn every_position_is_picked_equally_often() {
    // Near the lengths at which the sampler changes its method of remembering taken positions.
    for (degree, fanout) in [
        (2, 1),
        (3, 1),
        (3, 2),
        (10, 3),
        (16, 15),
        (63, 15),
        (64, 15),
        (65, 15),
        (66, 65),
        (200, 25),
        (1000, 5),
    ] {
        let batches = (100 * degree / fanout as usize).max(4000) as u32;
        let counts = frequencies(degree, fanout, false, batches);
        assert_uniform(&counts, shrink(degree, fanout), &format!("{fanout} of {degree}"));
    }
}

#[test]
fn every_position_is_drawn_equally_often_with_replacement() {
    // Out of short lists more than they have, also by the way of large fanouts.
    for (degree, fanout) in
        [(2, 1), (3, 2), (10, 3), (64, 15), (1000, 5), (2, 2), (3, 15), (7, 10), (16, 16), (5, 17), (20, 100)]
    {
        let batches = (100 * degree / fanout as usize).max(4000) as u32;
        assert_uniform(&frequencies(degree, fanout, true, batches), 1.0, &format!("{fanout} of {degree}"));
    }
}

#[test]
fn a_hubs_neighbours_are_picked_equally_often() {
    // 16 random bits modulo the range would give the first 31 % of 50,000 positions 47 % of the picks.
    for (degree, replace) in [(50_000, false), (50_000, true), (65_536, false), (70_000, false)] {
        let counts = frequencies(degree, 25, replace, 60_000);
        let parts: Vec<u64> = counts.chunks(degree / 100).map(|part| part.iter().sum()).collect();
        assert_uniform(&parts[..100], 1.0, &format!("25 of {degree} by hundredths, replace {replace}"));
        assert_uniform(&counts, 1.0, &format!("25 of {degree} by position, replace {replace}"));
    }
}

#[test]
fn every_set_of_picks_is_equally_likely() {
    for (degree, fanout, sets) in [(4, 2, 6), (5, 3, 10), (6, 3, 20), (8, 4, 70)] {
        let mut counts: HashMap<u64, u64> = HashMap::new();
        picks(degree, fanout, false, 20_000, |positions| {
            *counts.entry(positions.iter().map(|position| 1 << position).sum()).or_default() += 1;
        });
        assert_eq!(counts.len(), sets);
        let counts: Vec<u64> = counts.into_values().collect();
        assert_uniform(&counts, 1.0, &format!("sets of {fanout} out of {degree}"));
    }
}

#[test]
fn every_sequence_of_draws_with_replacement_is_equally_likely() {
    let mut counts = vec![0; 4 * 4 * 4];
    picks(4, 3, true, 20_000, |positions| {
        counts[positions.iter().fold(0, |code, position| 4 * code + position)] += 1;
    });
    assert_uniform(&counts, 1.0, "sequences of 3 draws out of 4");
    // As many draws as entries, and more: a list that was taken whole would give one sequence only.
    for (degree, fanout) in [(3, 3), (2, 5)] {
        let mut counts = vec![0; usize::pow(degree, fanout)];
        picks(degree, fanout as i32, true, 20_000, |positions| {
            counts[positions.iter().fold(0, |code, position| degree * code + position)] += 1;
        });
        assert_uniform(&counts, 1.0, &format!("sequences of {fanout} draws out of {degree}"));
    }
}

#[test]
fn with_replacement_a_list_of_one_repeats_it_and_an_empty_one_is_empty() {
    for fanout in [1, 4, 16, 17, 300] {
        picks(1, fanout, true, 20, |positions| assert_eq!(positions, vec![0; fanout as usize]));
        picks(0, fanout, true, 20, |positions| assert_eq!(positions, [0; 0]));
    }
    picks(5, -1, true, 20, |positions| assert_eq!(positions, [0, 1, 2, 3, 4]));
}

#[test]
fn no_neighbour_is_picked_twice() {
    for (degree, fanout) in [(2, 1), (16, 15), (20, 15), (65, 64), (300, 200), (5000, 3000), (70_000, 1000)] {
        picks(degree, fanout, false, 50, |positions| {
            let distinct: HashSet<_> = positions.iter().collect();
            assert_eq!((positions.len(), distinct.len()), (fanout as usize, fanout as usize));
        });
    }
}

#[test]
fn every_order_of_seeds_is_equally_likely() {
    let mut order = SeedOrder::new(3, Split::Train, 5, true, 5, false).unwrap();
    let mut counts: HashMap<Vec<u32>, u64> = HashMap::new();
    for epoch in 0..24_000 {
        order.prepare(epoch).unwrap();
        *counts.entry(order.batch(0).to_vec()).or_default() += 1;
    }
    assert_eq!(counts.len(), 120);
    let counts: Vec<u64> = counts.into_values().collect();
    assert_uniform(&counts, 1.0, "orders of five seeds");
}

#[test]
fn picks_are_independent_across_nodes_layers_batches_epochs_and_splits() {
    // Nodes that all have the same ten neighbours; the table of pairs (pick of one key, pick of another) is uniform.
    let nodes = 4000;
    let graph = Graph::from_lists(&vec![(0..10).collect(); nodes]);
    let mut sampler = graph.sampler(&[1, 1], false, 3);
    let mut batch = graph.room(nodes, [1, 1]);
    let seeds: Vec<i64> = (0..nodes as i64).collect();
    let mut pick = |split, epoch, number, layer: usize| -> Vec<usize> {
        sampler.sample_into(BatchKey { split, epoch, batch: number }, &seeds, &mut batch).unwrap();
        let locals = &batch.block(layer).unwrap().indices[..nodes];
        locals.iter().map(|&local| batch.nodes()[local as usize] as usize).collect()
    };
    let base = pick(Split::Train, 0, 0, 0);
    let mut next_node = base.clone();
    next_node.rotate_left(1);
    let others = [
        ("the next node's", next_node),
        ("the next layer's", pick(Split::Train, 0, 0, 1)),
        ("the next batch's", pick(Split::Train, 0, 1, 0)),
        ("the next epoch's", pick(Split::Train, 1, 0, 0)),
        ("another split's", pick(Split::Valid, 0, 0, 0)),
    ];
    for (whose, other) in others {
        let mut pairs = vec![0; 100];
        for (a, b) in base.iter().zip(&other) {
            pairs[10 * a + b] += 1;
        }
        assert_uniform(&pairs, 1.0, &format!("pairs of a pick and {whose}"));
    }
}
