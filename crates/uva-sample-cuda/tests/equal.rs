//! The sampler on the GPU makes what the sampler on the CPU makes, array by array and number by number: under the
//! simulator, or, with `UVATRAIN_REQUIRE_GPU=1`, on the machine's own GPU.

mod common;

use common::{FEW_BLOCKS, Gpu, Graph, key, on_cpu, on_gpu, options};
use uva_sample::{NeighborSampler, SamplerOptions};
use uva_sample_cuda::CudaSamplerOptions;

/// A graph of `nodes` nodes that has what samplers trip over: hubs, empty lists, repeated edges, self-loops.
fn rough(nodes: i64) -> Graph {
    let mut state = 1_u64;
    let mut random = move |bound: i64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as i64 % bound
    };
    let lists: Vec<Vec<i64>> = (0..nodes)
        .map(|node| {
            let degree = match node % 7 {
                0 => 0,
                1 => 1,
                2 => 3 * nodes.min(100),
                _ => random(30),
            };
            (0..degree).map(|place| if place % 5 == 0 { node } else { random(nodes) }).collect()
        })
        .collect();
    Graph::from_lists(&lists)
}

fn same(gpu: &Gpu, graph: &Graph, sampler: &SamplerOptions, cached_lists: usize, batches: u32, seeds: usize) {
    let bounds = graph.bounds(seeds, &sampler.fanouts);
    let csc = graph.csc();
    let mut cpu = NeighborSampler::new(csc, sampler.clone()).unwrap().with_cached_lists(cached_lists);
    let of_gpu = CudaSamplerOptions {
        cached_lists,
        original_ids: graph.original_ids.as_deref(),
        degrees: true,
        grid: FEW_BLOCKS,
        ..CudaSamplerOptions::new(sampler.clone(), bounds.clone())
    };
    let mut device = gpu.sampler(graph, &of_gpu).unwrap();
    let mut degrees = vec![-1; bounds.nodes];
    for batch in 0..batches {
        let first = (u64::from(batch) * 13) as usize % csc.nodes();
        let seeds: Vec<i64> =
            (0..seeds.min(csc.nodes())).map(|at| ((first + at) % csc.nodes()) as i64).collect();
        let expected = on_cpu(&mut cpu, &bounds, key(batch), &seeds);
        let found = on_gpu(&mut device, &bounds, key(batch), &seeds, &mut degrees);
        assert_eq!(found, expected, "batch {batch} of {sampler:?}, {cached_lists} lists cached");
        let (_, nodes, _) = expected.unwrap();
        for (degree, node) in degrees.iter().zip(nodes) {
            assert_eq!(*degree as usize, csc.degree(node as usize));
        }
    }
}

#[test]
fn batches_are_those_of_the_cpu() {
    if !cuda_sim::in_process("batches_are_those_of_the_cpu") {
        return;
    }
    let gpu = Gpu::new();
    let graph = rough(300);
    same(&gpu, &graph, &options(&[4, 3, 2]), 0, 3, 10);
}
