//! Options of a sampler other than plain neighbours: the GPU gives the same result as the CPU.

use super::gpu::{Gpu, options, rough, same};
use crate::common::Graph;
use uva_sample::{Expand, SamplerKind, SamplerOptions};

/// A graph in another order, whose positions map back to all places of the original.
fn reordered(graph: &Graph) -> Graph {
    let nodes = graph.csc().nodes() as i64;
    graph.reordered(&(0..nodes).map(|place| (place * 7 + 3) % nodes).collect::<Vec<_>>())
}

#[test]
fn edge_ids_say_which_edge_of_the_dataset_each_pick_is() {
    if !cuda_sim::in_process("cuda::kinds::edge_ids_say_which_edge_of_the_dataset_each_pick_is") {
        return;
    }
    let gpu = Gpu::new();
    let plain = rough(60).narrow();
    let with_edge_ids = |fanouts: &[i32]| SamplerOptions { edge_ids: true, ..options(fanouts) };
    for graph in [&plain, &reordered(&plain), &reordered(&rough(60))] {
        for cached_lists in [0, 20, 60] {
            same(&gpu, graph, &with_edge_ids(&[4, 3]), cached_lists, 3, 5);
            same(
                &gpu,
                graph,
                &SamplerOptions { replace: true, ..with_edge_ids(&[2, 40]) },
                cached_lists,
                2,
                5,
            );
            same(&gpu, graph, &with_edge_ids(&[-1, 2]), cached_lists, 1, 5);
        }
    }
}

/// A graph whose first node has a list of this many entries, more than a warp processes; the others have few.
fn hub(entries: usize) -> Graph {
    let nodes = 300_i64;
    let entry = |place: usize| (place as i64).wrapping_mul(2_654_435_761).rem_euclid(nodes);
    let mut lists: Vec<Vec<i64>> = (0..nodes)
        .map(|node| (0..node as usize % 40).map(|at| entry(at + node as usize)).collect())
        .collect();
    lists[0] = (0..entries).map(|place| entry(place * place + 1)).collect();
    Graph::from_lists(&lists)
}

#[test]
fn labor_picks_what_the_nodes_of_a_hop_share() {
    if !cuda_sim::in_process("cuda::kinds::labor_picks_what_the_nodes_of_a_hop_share") {
        return;
    }
    let gpu = Gpu::new();
    let plain = rough(90);
    for graph in [&plain, &plain.clone().narrow(), &reordered(&plain), &reordered(&plain.clone().narrow())] {
        // Up to 32 picks are processed by a warp; so is a list no longer than the fanout. 270 is the longest length.
        for fanouts in
            [&[1][..], &[2, 1], &[31], &[32, 3], &[33], &[100, 2], &[269], &[270], &[-1, 2], &[3, -1]]
        {
            let sampler = SamplerOptions { kind: SamplerKind::LABOR, ..options(fanouts) };
            same(&gpu, graph, &sampler, 30, 1, 9);
        }
        for (batch_dependency, edge_ids) in [(1, true), (4, false), (4, true)] {
            let kept = SamplerOptions { batch_dependency, edge_ids, ..options([4, 3, 2]) };
            same(&gpu, graph, &SamplerOptions { kind: SamplerKind::LABOR, ..kept }, 0, 6, 7);
        }
    }
}

#[test]
fn labor_takes_hubs_by_blocks() {
    if !cuda_sim::in_process("cuda::kinds::labor_takes_hubs_by_blocks") {
        return;
    }
    let gpu = Gpu::new();
    // 4,096 entries are the maximum of a warp.
    for graph in [hub(4096).narrow(), hub(4097), reordered(&hub(20_000).narrow())] {
        for fanouts in [&[5, 5][..], &[40, 3], &[2000], &[-1]] {
            let sampler = SamplerOptions { kind: SamplerKind::LABOR, edge_ids: true, ..options(fanouts) };
            same(&gpu, &graph, &sampler, 100, 2, 20);
        }
    }
}

#[test]
fn weights_pick_the_same_edges_whatever_they_are() {
    if !cuda_sim::in_process("cuda::kinds::weights_pick_the_same_edges_whatever_they_are") {
        return;
    }
    let gpu = Gpu::new();
    let plain = rough(90).unevenly_weighted();
    for graph in [&plain, &plain.clone().narrow(), &reordered(&plain), &reordered(&plain.clone().narrow())] {
        for fanouts in
            [&[1][..], &[2, 1], &[31], &[32, 3], &[33], &[100, 2], &[269], &[270], &[-1, 2], &[3, -1]]
        {
            for replace in [false, true] {
                let sampler = SamplerOptions { kind: SamplerKind::WEIGHTED, replace, ..options(fanouts) };
                same(&gpu, graph, &sampler, 30, 1, 9);
            }
        }
        for (batch_dependency, edge_ids, replace) in [(1, true, false), (4, false, true), (4, true, false)] {
            let kept = SamplerOptions { batch_dependency, edge_ids, replace, ..options([4, 3, 2]) };
            same(&gpu, graph, &SamplerOptions { kind: SamplerKind::WEIGHTED, ..kept }, 0, 6, 7);
        }
    }
}

#[test]
fn weights_of_hubs_are_taken_by_blocks() {
    if !cuda_sim::in_process("cuda::kinds::weights_of_hubs_are_taken_by_blocks") {
        return;
    }
    let gpu = Gpu::new();
    let kept = |graph: Graph| {
        // The hub's list has weights of every sort.
        let graph = graph.unevenly_weighted();
        let weights = graph.weights.unwrap();
        let hub = graph.indptr[1] as usize;
        let of_hub = (0..hub).map(|at| weights[weights.len() - 1 - at % 100] + (at % 11) as f32);
        Graph { weights: Some(of_hub.chain(weights[hub..].iter().copied()).collect()), ..graph }
    };
    for graph in [kept(hub(4096)).narrow(), kept(hub(4097)), reordered(&kept(hub(20_000)).narrow())] {
        for fanouts in [&[5, 5][..], &[40, 3], &[2000], &[-1]] {
            for replace in [false, true] {
                let kind = SamplerKind::WEIGHTED;
                let sampler = SamplerOptions { kind, edge_ids: true, replace, ..options(fanouts) };
                same(&gpu, &graph, &sampler, 100, 2, 20);
            }
        }
    }
}

#[test]
fn a_node_keeps_its_picks_where_only_new_ones_are_expanded() {
    if !cuda_sim::in_process("cuda::kinds::a_node_keeps_its_picks_where_only_new_ones_are_expanded") {
        return;
    }
    let gpu = Gpu::new();
    let plain = rough(120).unevenly_weighted();
    for graph in [&plain, &reordered(&plain.clone().narrow())] {
        for kind in [SamplerKind::NEIGHBOR, SamplerKind::LABOR, SamplerKind::WEIGHTED] {
            for (fanouts, edge_ids) in [
                (&[3, 2, 2][..], false),
                (&[2, 3, 1], true),
                (&[-1, 2], true),
                (&[40, 2], false),
                (&[3], true),
            ] {
                for replace in [false, kind != SamplerKind::LABOR] {
                    let sampler =
                        SamplerOptions { kind, expand: Expand::New, edge_ids, replace, ..options(fanouts) };
                    same(&gpu, graph, &sampler, 30, 3, 5);
                }
            }
        }
    }
}

#[test]
fn graphs_without_edges_or_weights_above_0_have_batches_of_every_kind() {
    if !cuda_sim::in_process(
        "cuda::kinds::graphs_without_edges_or_weights_above_0_have_batches_of_every_kind",
    ) {
        return;
    }
    let gpu = Gpu::new();
    for (lists, replace) in [vec![vec![], vec![]], vec![vec![1, 0], vec![0; 50]]]
        .into_iter()
        .flat_map(|lists| [(lists.clone(), false), (lists, true)])
    {
        let edges = lists.iter().map(Vec::len).sum();
        let plain = Graph { weights: Some(vec![0.0; edges]), ..Graph::from_lists(&lists) };
        for graph in [&plain, &plain.reordered(&[1, 0])] {
            for kind in [SamplerKind::NEIGHBOR, SamplerKind::LABOR, SamplerKind::WEIGHTED] {
                for expand in Expand::ALL {
                    let replace = replace && kind != SamplerKind::LABOR;
                    let sampler =
                        SamplerOptions { kind, expand, edge_ids: true, replace, ..options([1, -1]) };
                    same(&gpu, graph, &sampler, 1, 2, 2);
                }
            }
        }
    }
}
