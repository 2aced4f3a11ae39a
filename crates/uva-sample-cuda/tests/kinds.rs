//! What a sampler may be asked for beside plain neighbours: the GPU does as the CPU does.

mod common;

use common::{Gpu, Graph, options, rough, same};
use uva_sample::SamplerOptions;

/// A graph in another order: the way home leads back from everywhere to elsewhere.
fn reordered(graph: &Graph) -> Graph {
    let nodes = graph.csc().nodes() as i64;
    graph.reordered(&(0..nodes).map(|place| (place * 7 + 3) % nodes).collect::<Vec<_>>())
}

#[test]
fn edge_ids_say_where_each_pick_stands_in_the_dataset() {
    if !cuda_sim::in_process("edge_ids_say_where_each_pick_stands_in_the_dataset") {
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
