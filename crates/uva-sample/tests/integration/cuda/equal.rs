//! The sampler on the GPU gives the same result as the sampler on the CPU, array by array and number by number: under
//! the simulator, or, with `UVATRAIN_REQUIRE_GPU=1`, on the machine's own GPU.

use super::gpu::{FEW_BLOCKS, Gpu, key, on_cpu, on_gpu, options, rough, same};
use crate::common::Graph;
use uva_cuda::kernels::gather::GridBound;
use uva_sample::cuda::CudaSamplerOptions;
use uva_sample::{Capacity, NeighborSampler, SampleError, SamplerOptions};

#[test]
fn every_fanout_draws_as_the_cpu_does() {
    if !cuda_sim::in_process("cuda::equal::every_fanout_draws_as_the_cpu_does") {
        return;
    }
    let gpu = Gpu::new();
    let graph = rough(120);
    // 32 is the last that a warp keeps in registers; 300 is longer than every list.
    for fanouts in
        [&[1][..], &[2, 1], &[31], &[32, 2], &[33], &[64, 3], &[100], &[299], &[300], &[-1, 2], &[3, -1]]
    {
        for replace in [false, true] {
            let sampler = SamplerOptions { replace, ..options(fanouts) };
            same(&gpu, &graph, &sampler, 40, 1, 9);
        }
    }
}

#[test]
fn any_part_of_the_lists_may_be_cached() {
    if !cuda_sim::in_process("cuda::equal::any_part_of_the_lists_may_be_cached") {
        return;
    }
    let gpu = Gpu::new();
    for graph in [rough(60), rough(60).narrow()] {
        for cached_lists in [0, 1, 2, 3, 30, 59, 60, 1000] {
            same(&gpu, &graph, &options([4, 3]), cached_lists, 2, 5);
        }
    }
}

#[test]
fn many_batches_in_a_row_do_not_affect_each_other() {
    if !cuda_sim::in_process("cuda::equal::many_batches_in_a_row_do_not_affect_each_other") {
        return;
    }
    let gpu = Gpu::new();
    let graph = rough(200).narrow();
    for batch_dependency in [1, 3] {
        same(&gpu, &graph, &SamplerOptions { batch_dependency, ..options([3, 2, 2]) }, 50, 12, 8);
    }
}

#[test]
fn a_launch_may_have_any_grid_and_more_work_than_threads() {
    if !cuda_sim::in_process("cuda::equal::a_launch_may_have_any_grid_and_more_work_than_threads") {
        return;
    }
    let gpu = Gpu::new();
    let graph = rough(4000).narrow();
    let sampler = options([5, 5]);
    let bounds = graph.bounds(1200, &sampler.fanouts);
    let seeds: Vec<i64> = (0..1200).map(|at| at * 3).collect();
    let mut cpu = NeighborSampler::new(graph.csc(), sampler.clone()).unwrap();
    let expected = on_cpu(&mut cpu, &bounds, key(7), &seeds);
    for blocks in [1, 2, 7, 40] {
        let of_gpu = CudaSamplerOptions {
            grid: GridBound::Blocks(blocks),
            ..CudaSamplerOptions::new(sampler.clone(), bounds.clone())
        };
        let mut device = gpu.sampler(&graph, &of_gpu).unwrap();
        assert_eq!(on_gpu(&mut device, &bounds, key(7), &seeds, &mut []), expected, "{blocks} blocks");
    }
}

#[test]
fn work_that_comes_late_changes_nothing() {
    if !cuda_sim::in_process_with(
        "cuda::equal::work_that_comes_late_changes_nothing",
        &[("CUDA_SIM_DELAY_US", "200")],
    ) {
        return;
    }
    let gpu = Gpu::new();
    same(&gpu, &rough(150), &options([4, 3, 2]), 20, 6, 10);
}

#[test]
fn keys_and_hashes_see_original_ids_and_nodes_come_out_under_the_datasets() {
    const TEST: &str = "cuda::equal::keys_and_hashes_see_original_ids_and_nodes_come_out_under_the_datasets";
    if !cuda_sim::in_process(TEST) {
        return;
    }
    let gpu = Gpu::new();
    let nodes = 150;
    let reversed: Vec<i64> = (0..nodes).rev().collect();
    // Original ids may have up to 40 bits.
    let far: Vec<i64> = (0..nodes).map(|node| (node * 7 % nodes) << 33 | 5).collect();
    for original in [&reversed, &far] {
        let graph = Graph { original_ids: Some(original.clone()), ..rough(nodes).narrow() };
        let sampler = options([4, 3]);
        same(&gpu, &graph, &sampler, 20, 2, 9);

        let bounds = graph.bounds(9, &sampler.fanouts);
        let seeds: Vec<i64> = (20..29).collect();
        let mut cpu = NeighborSampler::new(graph.csc(), sampler.clone()).unwrap();
        let (counts, places, blocks) = on_cpu(&mut cpu, &bounds, key(1), &seeds).unwrap();
        // With names equal to the original ids, and with others.
        let others: Vec<i64> = (0..nodes).map(|node| node * 2 + 1).collect();
        for names in [original.as_slice(), others.as_slice()] {
            let of_gpu = CudaSamplerOptions {
                original_ids: graph.original_ids.as_deref(),
                dataset_ids: Some(if std::ptr::eq(names, original.as_slice()) {
                    graph.original_ids.as_deref().unwrap()
                } else {
                    names
                }),
                degrees: true,
                grid: FEW_BLOCKS,
                ..CudaSamplerOptions::new(sampler.clone(), bounds.clone())
            };
            let mut device = gpu.sampler(&graph, &of_gpu).unwrap();
            let mut degrees = vec![-1; places.len()];
            let found = on_gpu(&mut device, &bounds, key(1), &seeds, &mut degrees).unwrap();
            let named: Vec<i64> = places.iter().map(|place| names[*place as usize]).collect();
            assert_eq!(found, (counts.clone(), named, blocks.clone()));
            let expected: Vec<i32> =
                places.iter().map(|place| graph.csc().degree(*place as usize) as i32).collect();
            assert_eq!(degrees, expected);
            let shared = std::ptr::eq(of_gpu.dataset_ids.unwrap(), of_gpu.original_ids.unwrap());
            let wide = if std::ptr::eq(original, &far) { 8 } else { 4 };
            let of_names = nodes as usize * if shared { wide } else { wide + 4 };
            assert_eq!(device.device_bytes().names, of_names);
            if names.iter().any(|&name| name >= nodes) {
                continue;
            }
            // In-degrees of the whole graph, of which this is a part, are found by the dataset's ids.
            let whole: Vec<i32> = (0..nodes as i32).map(|id| 1000 + id).collect();
            let of_part = CudaSamplerOptions { whole_degrees: Some(&whole), ..of_gpu.clone() };
            let mut device = gpu.sampler(&graph, &of_part).unwrap();
            let again = on_gpu(&mut device, &bounds, key(1), &seeds, &mut degrees).unwrap();
            assert_eq!(again, found);
            let expected: Vec<i32> = found.1.iter().map(|&name| whole[name as usize]).collect();
            assert_eq!(degrees, expected);
            assert_eq!(device.device_bytes().names, of_names + 4 * nodes as usize);
        }
    }
}

#[test]
fn graphs_without_edges_nodes_or_seeds_have_batches_too() {
    if !cuda_sim::in_process("cuda::equal::graphs_without_edges_nodes_or_seeds_have_batches_too") {
        return;
    }
    let gpu = Gpu::new();
    for (lists, seeds) in
        [(vec![], 0), (vec![vec![]], 1), (vec![vec![]], 0), (vec![vec![0, 0]], 1), (vec![vec![1], vec![]], 2)]
    {
        let graph = Graph::from_lists(&lists);
        let sampler = options([2, -1]);
        let bounds = graph.bounds(seeds, &sampler.fanouts);
        let seeds: Vec<i64> = (0..seeds as i64).collect();
        let mut cpu = NeighborSampler::new(graph.csc(), sampler.clone()).unwrap();
        let of_gpu =
            CudaSamplerOptions { cached_lists: 1, ..CudaSamplerOptions::new(sampler, bounds.clone()) };
        let mut device = gpu.sampler(&graph, &of_gpu).unwrap();
        let mut counted = on_gpu(&mut device, &bounds, key(0), &seeds, &mut []).unwrap();
        counted.0.list_reads.cached = 0;
        assert_eq!(Ok(counted), on_cpu(&mut cpu, &bounds, key(0), &seeds), "{lists:?}");
    }
}

#[test]
fn more_destinations_than_room_are_reported_with_the_layer() {
    if !cuda_sim::in_process("cuda::equal::more_destinations_than_room_are_reported_with_the_layer") {
        return;
    }
    let gpu = Gpu::new();
    let graph = rough(100);
    let sampler = options([4, 3]);
    let mut bounds = graph.bounds(5, &sampler.fanouts);
    bounds.blocks[1].destinations = 6;
    let mut device = gpu.sampler(&graph, &CudaSamplerOptions::new(sampler.clone(), bounds.clone())).unwrap();
    let mut cpu = NeighborSampler::new(graph.csc(), sampler).unwrap();
    let seeds = [2, 9, 16, 23, 30];
    let found = on_gpu(&mut device, &bounds, key(0), &seeds, &mut []);
    assert_eq!(found, on_cpu(&mut cpu, &bounds, key(0), &seeds));
    let told = Capacity::Destinations { layer: 1 };
    assert_eq!(found, Err(SampleError::BatchTooLarge { key: key(0), what: told, capacity: 6 }));
    // The sampler remains usable: with one seed the second layer has room for all.
    assert_eq!(
        on_gpu(&mut device, &bounds, key(1), &seeds[..1], &mut []),
        on_cpu(&mut cpu, &bounds, key(1), &seeds[..1])
    );
}
