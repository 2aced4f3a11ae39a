//! Personalised PageRank: the picks and their weights.

use std::cmp::Reverse;

use crate::common::{Graph, key};
use uva_sample::{Expand, InvalidOption, SampleError, SamplerKind, SamplerOptions, sampler};

fn options(fanouts: &[i32]) -> SamplerOptions {
    SamplerOptions { kind: SamplerKind::PPR, fanouts: fanouts.into(), ..SamplerOptions::default() }
}

/// Picks of the only hop, and their weights.
fn picked(graph: &Graph, options: &SamplerOptions, batch: u32, seed: i64) -> Vec<(i64, f32)> {
    let (mut sampler, mut memory) = (graph.sampler_for(options), graph.room_for(1, options));
    sampler.sample_into(key(batch), &[seed], &mut memory).unwrap();
    let block = memory.block(0).unwrap();
    let nodes = block.indices.iter().map(|&local| memory.nodes()[local as usize]);
    nodes.zip(block.weights.iter().copied()).collect()
}

/// 300 nodes with lists of 0 to 12 entries, some of them repeated, some of them the node itself.
fn graph() -> Graph {
    let entry = |node: u64, at: u64| ((node * 2_654_435_761 + at * at * 40_503 + at * 97) % 300) as i64;
    let list = |node: u64| (0..node * 7 % 13).map(|at| entry(node, at)).collect();
    Graph::from_lists(&(0..300).map(list).collect::<Vec<Vec<i64>>>())
}

/// The probability that a walk from `start` ends at each node. It ends before each step with probability 1/4, and
/// always at an empty list. Computed by powers, until less than 10⁻¹² of it remains.
fn exactly(graph: &Graph, start: i64) -> Vec<f64> {
    let nodes = graph.csc().nodes();
    let (mut ended, mut under_way) = (vec![0.0; nodes], vec![0.0; nodes]);
    under_way[start as usize] = 1.0;
    while under_way.iter().sum::<f64>() > 1e-12 {
        let mut next = vec![0.0; nodes];
        for (node, mass) in under_way.into_iter().enumerate() {
            let list = graph.list(node as i64);
            let stays = if list.is_empty() { mass } else { mass / 4.0 };
            ended[node] += stays;
            for neighbor in &list {
                next[*neighbor as usize] += (mass - stays) / list.len() as f64;
            }
        }
        under_way = next;
    }
    ended
}

#[test]
fn the_nodes_picked_are_those_of_highest_pagerank_and_weigh_their_shares() {
    let graph = graph();
    for start in 0..60 {
        let exact = exactly(&graph, start);
        let mut ranks: Vec<(Reverse<u64>, usize)> = (0..300)
            .filter(|&node| node != start as usize && exact[node] > 0.0)
            .map(|node| (Reverse((exact[node] * 1e12) as u64), node))
            .collect();
        ranks.sort_unstable();
        let found = picked(&graph, &options(&[10]), 0, start);
        assert_eq!(found.len(), ranks.len().min(10), "from {start}");
        assert!(found.iter().all(|&(node, _)| node != start));
        assert!(found.is_sorted_by(|one, other| one.1 >= other.1), "{found:?}");
        if found.is_empty() {
            continue;
        }
        assert!((found.iter().map(|(_, weight)| weight).sum::<f32>() - 1.0).abs() < 1e-6);
        // Forward push leaves less than ε of the mass waiting at a node for each entry of its list, 12 at most here.
        let near = 2.0_f64.powi(-10) * 12.0;
        let least = exact[ranks[found.len() - 1].1];
        let all: f64 = found.iter().map(|&(node, _)| exact[node as usize]).sum();
        for &(node, weight) in &found {
            let exact = exact[node as usize];
            assert!(exact > least - near, "node {node} from {start} has {exact}, the tenth {least}");
            assert!((f64::from(weight) * all - exact).abs() < near, "{weight} of {all} for {exact}");
        }
    }
}

#[test]
fn mass_moves_along_lists_and_ends_where_they_end() {
    // 0 → 1 → 2, which leads nowhere; 3 stands alone.
    let chain = Graph::from_lists(&[vec![1], vec![2], vec![], vec![]]);
    let shares = picked(&chain, &options(&[5]), 0, 0);
    assert_eq!(shares.iter().map(|pick| pick.0).collect::<Vec<_>>(), [2, 1], "more ends at 2 than at 1");
    // Of what leaves 0, a quarter ends at 1 and all else at 2.
    assert!((shares[0].1 - 0.75).abs() < 1e-6 && (shares[1].1 - 0.25).abs() < 1e-6, "{shares:?}");
    assert_eq!(picked(&chain, &options(&[5]), 0, 3), []);
    // Only the node itself can be reached.
    let alone = Graph::from_lists(&[vec![0, 0, 0], vec![0]]);
    assert_eq!(picked(&alone, &options(&[5]), 0, 0), []);
}

#[test]
fn of_equals_those_reached_first_are_picked_and_repeated_entries_count() {
    let star = Graph::from_lists(&[vec![4, 2, 5, 1, 3], vec![], vec![], vec![], vec![], vec![]]);
    assert_eq!(picked(&star, &options(&[3]), 0, 0), [(4, 1.0 / 3.0), (2, 1.0 / 3.0), (5, 1.0 / 3.0)]);
    let twice = Graph::from_lists(&[vec![1, 2, 3, 2], vec![], vec![], vec![]]);
    assert_eq!(picked(&twice, &options(&[9]), 0, 0), [(2, 0.5), (1, 0.25), (3, 0.25)]);
}

#[test]
fn a_hub_that_gives_neighbours_less_than_it_passes_on_has_neighbours_too() {
    let many = 20_000_i64;
    let mut lists: Vec<Vec<i64>> = vec![(1..=many).rev().collect()];
    lists.extend((1..=many).map(|node| vec![0, node % many + 1]));
    let hub = Graph::from_lists(&lists);
    let found: Vec<i64> = picked(&hub, &options(&[4]), 0, 0).into_iter().map(|pick| pick.0).collect();
    assert_eq!(found, [many, many - 1, many - 2, many - 3], "all scores are equal, so the first in its list");
}

#[test]
fn neither_seed_nor_epoch_nor_batch_change_the_picks() {
    let graph = graph();
    for start in [5, 17, 200] {
        let first = picked(&graph, &options(&[7]), 0, start);
        let other = SamplerOptions { seed: 99, batch_dependency: 3, ..options(&[7]) };
        assert_eq!(picked(&graph, &other, 12, start), first);
        assert!(first.len() == 7, "{first:?}");
    }
}

#[test]
fn pagerank_options_out_of_range_are_refused_by_name() {
    let (graph, kind) = (graph(), SamplerKind::PPR);
    let refused = |options: SamplerOptions| match sampler(graph.view(), &options).map(drop) {
        Err(SampleError::InvalidOption(refused)) => refused,
        other => panic!("{options:?}: {other:?}"),
    };
    for fanout in [-1, 65_537] {
        let error = refused(options(&[3, fanout]));
        assert_eq!(error, InvalidOption::FoundFanout { kind, layer: 1, fanout });
        assert!(error.to_string().starts_with("`fanouts`: hop 1"), "{error}");
    }
    let error = refused(SamplerOptions { edge_ids: true, ..options(&[3]) });
    assert!(error.to_string().starts_with("`edge_ids`: not supported with `sampler_kind=ppr`"), "{error}");
    let error = refused(SamplerOptions { replace: true, ..options(&[3]) });
    assert!(error.to_string().starts_with("`replace`: not supported with `sampler_kind=ppr`"), "{error}");
    let asked = SamplerOptions { expand: Expand::New, ..options(&[65_536]) };
    assert!(sampler(graph.view(), &asked).is_ok());
}
