//! Random walks: the visited nodes, and the weights of visits. Keys are fixed, so these tests either always pass or
//! always fail.

use std::collections::HashMap;

use crate::common::{Graph, assert_distributed, key};
use uva_sample::{Expand, InvalidOption, SampleError, SamplerKind, SamplerOptions, Walks, sampler};

fn options(fanout: i32, walks: Walks) -> SamplerOptions {
    SamplerOptions {
        kind: SamplerKind::WALK,
        fanouts: [fanout].into(),
        seed: 5,
        walks,
        ..SamplerOptions::default()
    }
}

/// Picks and weights of seed 0 in this many batches.
fn from_node_0(graph: &Graph, options: &SamplerOptions, batches: u32, mut each: impl FnMut(&[i64], &[f32])) {
    let (mut sampler, mut batch) = (graph.sampler_for(options), graph.room_for(1, options));
    for number in 0..batches {
        sampler.sample_into(key(number), &[0], &mut batch).unwrap();
        let block = batch.block(0).unwrap();
        let picked: Vec<i64> = block.indices.iter().map(|&local| batch.nodes()[local as usize]).collect();
        each(&picked, block.weights);
    }
}

/// 0 leads to 1, 2 (twice) and 5; some of those lead on, also back to 0; 5 leads nowhere.
fn graph() -> Graph {
    Graph::from_lists(&[
        vec![1, 2, 2, 5],
        vec![0, 3, 4, 4, 4],
        vec![1, 2, 3],
        vec![0],
        vec![6, 7],
        vec![],
        vec![4],
        vec![0],
    ])
}

/// The probability of each set of nodes that one walk from 0 visits, without 0 itself.
fn chances_of_visits(graph: &Graph, length: u32, stop: f64) -> HashMap<Vec<i64>, f64> {
    let mut ended: HashMap<Vec<i64>, f64> = HashMap::new();
    let mut under_way: HashMap<(i64, Vec<i64>), f64> = HashMap::from([((0, Vec::new()), 1.0)]);
    for step in 0..length {
        for ((at, visited), chance) in std::mem::take(&mut under_way) {
            let stop = if step == 0 { 0.0 } else { stop };
            let list = graph.list(at);
            let ends = if list.is_empty() { 1.0 } else { stop };
            *ended.entry(visited.clone()).or_default() += chance * ends;
            for &next in &list {
                let mut visited = visited.clone();
                visited.extend((next != 0 && !visited.contains(&next)).then_some(next));
                visited.sort_unstable();
                *under_way.entry((next, visited)).or_default() += chance * (1.0 - ends) / list.len() as f64;
            }
        }
    }
    for ((_, visited), chance) in under_way {
        *ended.entry(visited).or_default() += chance;
    }
    ended
}

#[test]
fn a_walk_visits_each_set_of_nodes_as_often_as_its_steps_make_likely() {
    let graph = graph();
    for (length, stop) in [(1, 0), (2, 0), (3, 40), (5, 25), (4, 100)] {
        let chances = chances_of_visits(&graph, length, f64::from(stop) / 100.0);
        let mut counts: HashMap<Vec<i64>, u64> = HashMap::new();
        from_node_0(&graph, &options(50, Walks { count: 1, length, stop }), 30_000, |picked, _| {
            let mut visited = picked.to_vec();
            visited.sort_unstable();
            *counts.entry(visited).or_default() += 1;
        });
        assert!(counts.keys().all(|set| chances.contains_key(set)), "{counts:?}");
        let often: Vec<&Vec<i64>> =
            chances.iter().filter(|(_, chance)| **chance * 30_000.0 >= 20.0).map(|(set, _)| set).collect();
        assert!(often.len() >= 3, "{length} {stop}");
        let found: Vec<u64> = often.iter().map(|set| counts.get(*set).copied().unwrap_or(0)).collect();
        let expected: Vec<f64> = often.iter().map(|set| chances[*set]).collect();
        assert_distributed(&found, &expected, 1.0, &format!("walks of {length} steps, {stop} %"));
    }
}

#[test]
fn the_most_visited_are_picked_and_weigh_their_shares_of_the_visits() {
    let graph = graph();
    let walks = Walks { count: 12, length: 3, stop: 10 };
    let mut all = Vec::new();
    from_node_0(&graph, &options(50, walks), 500, |picked, weights| {
        assert!(!picked.contains(&0) && picked.len() == weights.len() && !picked.is_empty());
        assert!(weights.is_sorted_by(|one, other| one >= other), "{weights:?}");
        assert!((weights.iter().sum::<f32>() - 1.0).abs() < 1e-6);
        all.push((picked.to_vec(), weights.to_vec()));
    });
    let mut all = all.into_iter();
    let mut fewer = 0;
    from_node_0(&graph, &options(2, walks), 500, |picked, weights| {
        let (before, shares) = all.next().unwrap();
        assert_eq!(picked, &before[..picked.len()], "the first of all that were visited");
        assert_eq!(picked.len(), before.len().min(2));
        let sum: f32 = shares[..picked.len()].iter().sum();
        for (weight, share) in weights.iter().zip(&shares) {
            assert!((weight - share / sum).abs() < 1e-6, "{weights:?} of {shares:?}");
        }
        fewer += usize::from(picked.len() < before.len());
    });
    assert!(fewer > 100);
}

#[test]
fn walks_of_one_step_visit_neighbours_and_longer_ones_go_further() {
    let graph = graph();
    let mut seen = [false; 8];
    from_node_0(&graph, &options(50, Walks { count: 20, length: 1, stop: 0 }), 50, |picked, _| {
        assert!(picked.iter().all(|node| [1, 2, 5].contains(node)), "{picked:?}");
    });
    from_node_0(&graph, &options(50, Walks { count: 20, length: 4, stop: 0 }), 50, |picked, _| {
        picked.iter().for_each(|&node| seen[node as usize] = true);
    });
    assert_eq!(seen, [false, true, true, true, true, true, true, true]);
}

#[test]
fn walk_options_out_of_range_are_refused_by_name() {
    let graph = graph();
    let refused = |options: SamplerOptions| match sampler(graph.view(), &options).map(drop) {
        Err(SampleError::InvalidOption(refused)) => refused,
        other => panic!("{options:?}: {other:?}"),
    };
    let walks = Walks::default();
    for (walks, part) in [
        (Walks { count: 0, ..walks }, "`walks=0`: expected 1 to 1024"),
        (Walks { count: 1025, ..walks }, "`walks=1025`"),
        (Walks { length: 0, ..walks }, "`walk_length=0`: expected 1 to 32"),
        (Walks { length: 33, ..walks }, "`walk_length=33`"),
        (Walks { stop: 101, ..walks }, "`walk_stop=101`: expected 0 to 100"),
    ] {
        let refused = refused(options(3, walks)).to_string();
        assert!(refused.contains(part), "{refused}");
        // A kind that does not walk ignores it.
        let other = SamplerOptions { kind: SamplerKind::NEIGHBOR, ..options(3, walks) };
        assert!(sampler(graph.view(), &other).is_ok());
    }
    let kind = SamplerKind::WALK;
    for fanout in [-1, 65_537] {
        let layer = 0;
        assert_eq!(refused(options(fanout, walks)), InvalidOption::FoundFanout { kind, layer, fanout });
    }
    let asked = SamplerOptions { edge_ids: true, ..options(3, walks) };
    assert_eq!(refused(asked), InvalidOption::EdgeIds { kind });
    let asked = SamplerOptions { replace: true, ..options(3, walks) };
    assert!(matches!(refused(asked), InvalidOption::Replace { kind: of, .. } if of == kind));
    let largest = Walks { count: 1024, length: 32, stop: 100 };
    let asked = SamplerOptions { expand: Expand::New, ..options(65_536, largest) };
    assert!(sampler(graph.view(), &asked).is_ok());
}
