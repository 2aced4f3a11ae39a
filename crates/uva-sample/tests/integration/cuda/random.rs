//! Random graphs, options and faults: both samplers give the same result in every case.

use super::gpu::{Gpu, key, on_cpu, on_gpu};
use crate::common::{Graph, Ids};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::subsequence;
use proptest::test_runner::{Config, TestRunner};
use uva_cuda::kernels::gather::GridBound;
use uva_sample::cuda::CudaSamplerOptions;
use uva_sample::{BatchBounds, Expand, GraphView, SamplerKind, SamplerOptions};

/// Random cases per test: a launch under the simulator is slow.
const CASES: u32 = 100;

const KINDS: [SamplerKind; 3] = [SamplerKind::NEIGHBOR, SamplerKind::LABOR, SamplerKind::WEIGHTED];

/// A graph, options and seeds of any kind, small.
#[derive(Clone, Debug)]
struct Case {
    graph: Graph,
    sampler: SamplerOptions,
    cached_lists: usize,
    /// Whether the weights of cached lists are cached, and their places in the dataset.
    cached_arrays: (bool, bool),
    seeds: Vec<i64>,
    batch: u32,
    blocks: u32,
}

prop_compose! {
    fn cases()(nodes in 1_usize..40)(
        lists in vec(prop_oneof![
            3 => vec(0..nodes as i64, 0..8),
            1 => vec(0..nodes as i64, 0..120),
        ], nodes),
        fanouts in vec(prop_oneof![4 => 1..8_i32, 1 => 28..36_i32, 1 => 60..70_i32, 1 => Just(-1)], 1..4),
        replace in any::<bool>(),
        seed in any::<u64>(),
        batch_dependency in 1..4_u32,
        (cached_lists, cached_arrays) in (0..nodes + 2, any::<(bool, bool)>()),
        (seeds, original) in (subsequence((0..nodes as i64).collect::<Vec<_>>(), 0..=nodes).prop_shuffle(),
            prop_oneof![Just(None), Just((0..nodes as i64).map(|node| node * 3 + 1).collect()).prop_shuffle().prop_map(Some)]),
        (narrow, batch, blocks) in (any::<bool>(), any::<u32>(), 1..4_u32),
        (kind, edge_ids, expand) in
            (proptest::sample::select(&KINDS[..]), any::<bool>(), proptest::sample::select(&Expand::ALL[..])),
        order in prop_oneof![Just(None), Just((0..nodes as i64).collect::<Vec<_>>()).prop_shuffle().prop_map(Some)],
    ) -> Case {
        let graph = Graph { original_ids: original, ..Graph::from_lists(&lists).unevenly_weighted() };
        let graph = if narrow { graph.narrow() } else { graph };
        let replace = replace && kind != SamplerKind::LABOR;
        Case {
            graph: order.map_or(graph.clone(), |order| graph.reordered(&order)),
            sampler: SamplerOptions {
                expand,
                edge_ids,
                ..SamplerOptions {
                    kind, fanouts: fanouts.into(), replace, seed, batch_dependency, ..SamplerOptions::default()
                }
            },
            cached_lists, cached_arrays, seeds, batch, blocks,
        }
    }
}

fn check(gpu: &Gpu, case: &Case, bounds: &BatchBounds) {
    let Case { graph, sampler, .. } = case;
    let (cached_weights, cached_edge_ids) = case.cached_arrays;
    let view = GraphView { cached_weights, ..graph.view_cached(case.cached_lists) };
    let mut cpu = uva_sample::sampler(view, sampler).unwrap();
    let of_gpu = CudaSamplerOptions {
        cached_lists: case.cached_lists,
        cached_weights,
        cached_edge_ids,
        grid: GridBound::Blocks(case.blocks),
        ..graph.on_gpu(sampler, bounds)
    };
    let mut device = gpu.sampler(graph, &of_gpu).unwrap();
    for batch in [case.batch, case.batch.wrapping_add(1)] {
        let mut expected = on_cpu(cpu.as_mut(), bounds, key(batch), &case.seeds);
        graph.in_dataset_ids(&mut expected);
        let found = on_gpu(&mut device, bounds, key(batch), &case.seeds, &mut []);
        assert_eq!(found, expected, "{case:?} within {bounds:?}");
    }
}

#[test]
fn batches_of_any_graph_are_those_of_the_cpu() {
    if !cuda_sim::in_process("cuda::random::batches_of_any_graph_are_those_of_the_cpu") {
        return;
    }
    let gpu = Gpu::new();
    let config = Config { failure_persistence: None, ..Config::with_cases(CASES) };
    TestRunner::new(config)
        .run(&cases(), |case| {
            let bounds = case.graph.bounds_of(case.seeds.len(), &case.sampler);
            check(&gpu, &case, &bounds);
            Ok(())
        })
        .unwrap();
}

#[test]
fn a_batch_that_cannot_be_has_the_error_of_the_cpu() {
    if !cuda_sim::in_process("cuda::random::a_batch_that_cannot_be_has_the_error_of_the_cpu") {
        return;
    }
    let gpu = Gpu::new();
    let config = Config { failure_persistence: None, ..Config::with_cases(CASES) };
    // Entries to be damaged, by a number that selects one, and their new values.
    let spoilt = (
        cases(),
        vec((any::<usize>(), -3..200_i64), 0..3),
        vec((any::<usize>(), -3..200_i64), 0..3),
        0..40_usize,
        0..3_i64,
        vec((any::<usize>(), -3..200_i64), 0..2),
    );
    TestRunner::new(config)
        .run(&spoilt, |(mut case, ends, ids, room, seed, homes)| {
            let bounds = case.graph.bounds_of(case.seeds.len(), &case.sampler);
            let cached_end = case.cached_lists.min(case.graph.csc().nodes());
            // Lists whose weights are cached are checked when a sampler is made.
            case.cached_arrays.0 &= ends.is_empty() && homes.is_empty();
            for (at, value) in ends {
                // The end of the cached lists is checked when a sampler is made.
                let at = at % case.graph.indptr.len();
                if at != cached_end {
                    case.graph.indptr[at] = value;
                }
            }
            // The positions in the original may be wrong as well, as only a memory fault could cause.
            for (at, value) in homes {
                if let Some((indptr, nodes)) = &mut case.graph.home {
                    let (of_indptr, at) = (at % 2 == 0, at / 2);
                    let spoilt = if of_indptr { indptr } else { nodes };
                    let at = at % spoilt.len();
                    spoilt[at] = value;
                }
            }
            for (at, value) in ids {
                match &mut case.graph.indices {
                    Ids::I32(ids) if !ids.is_empty() => {
                        let at = at % ids.len();
                        ids[at] = value as i32
                    }
                    Ids::I64(ids) if !ids.is_empty() => {
                        let at = at % ids.len();
                        ids[at] = value
                    }
                    _ => {}
                }
            }
            if seed > 0 && !case.seeds.is_empty() {
                let first = case.seeds[0];
                case.seeds.push(first);
                // Before the repetition, after it, or not at all.
                let at = room % (case.seeds.len() + 2);
                if seed == 2 && at <= case.seeds.len() {
                    case.seeds.insert(at, -1);
                }
            }
            let mut bounds = bounds;
            bounds.types[0].nodes = bounds.nodes().min(case.seeds.len() + room);
            for (layer, of_layer) in bounds.blocks.iter_mut().enumerate() {
                // Growing or shrinking, so that the kept part of a block may not fit into the next.
                let edges = if room % 2 == 0 { room * (layer + 1) } else { 4 * room / (layer + 1) };
                of_layer.edges = of_layer.edges.min(edges);
            }
            check(&gpu, &case, &bounds);
            Ok(())
        })
        .unwrap();
}

/// Lists of as many nodes as the graph has, and the fault that both samplers must report.
#[test]
fn of_several_faults_both_samplers_report_the_same_one() {
    if !cuda_sim::in_process("cuda::random::of_several_faults_both_samplers_report_the_same_one") {
        return;
    }
    let gpu = Gpu::new();
    let nodes = 20_i64;
    // Node 3 has an id that is not a node, node 9 more new nodes than room, node 15 picks beyond the room for edges, or
    // an invalid list. Fanouts from 1,100 on process one destination at a time, small ones all of these.
    let lists: Vec<Vec<i64>> = (0..nodes)
        .map(|node| match node {
            3 => vec![0, 1, 99],
            9 => vec![16, 17, 18, 19],
            15 => vec![0; 30],
            _ => vec![0, 1],
        })
        .collect();
    let edges = lists.iter().map(Vec::len).sum();
    let sane = Graph { weights: Some(vec![1.0; edges]), ..Graph::from_lists(&lists) };
    let fanouts = [-1, 2, 3, 200, 1024, 1100, 2048];
    for (fanout, kind) in fanouts.into_iter().flat_map(|fanout| KINDS.map(|kind| (fanout, kind))) {
        for (bad_id, small_room, overflow, bad_list) in
            (0..16).map(|bits| (bits & 1, bits & 2, bits & 4, bits & 8))
        {
            // With names, LABOR reads entries that it does not pick.
            let original_ids = Some((0..nodes).collect());
            let mut graph = Graph { original_ids, ..sane.clone() };
            if let (0, Ids::I64(ids)) = (bad_id, &mut graph.indices) {
                ids.iter_mut().for_each(|id| *id = (*id).min(nodes - 1));
            }
            if bad_list != 0 {
                graph.indptr[16] = 1000;
            }
            let seeds: Vec<i64> = (0..16).collect();
            let mut bounds = sane.bounds(seeds.len(), [fanout]);
            bounds.types[0].nodes = if small_room == 0 { 20 } else { 17 };
            if overflow != 0 {
                bounds.blocks[0].edges = 36;
            }
            let sampler = SamplerOptions { kind, fanouts: [fanout].into(), ..SamplerOptions::default() };
            let cached_arrays = (false, false);
            let case = Case { graph, sampler, cached_lists: 0, cached_arrays, seeds, batch: 0, blocks: 2 };
            check(&gpu, &case, &bounds);
        }
    }
}
