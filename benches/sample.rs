//! Sampled edges per second on one core: 100,000 nodes, 2 million edges, fanouts 15,10,5, batches of 1000.
//!
//! `cargo bench -p uva-sample`. The rate that criterion prints ("thrpt") is edges of all three blocks; each batch
//! is complete, its hash included.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use uva_graph::{Csc, Indices, Split};
use uva_sample::philox::{PhiloxStream, RandomPurpose, StreamKey};
use uva_sample::{
    BatchBounds, BatchKey, BatchSampler, MiniBatch, NeighborSampler, SamplerOptions, SeedOrder,
};

const NODES: usize = 100_000;
const EDGES: usize = 2_000_000;
const BATCH_SIZE: usize = 1000;
const FANOUTS: [i32; 3] = [15, 10, 5];
/// Different batches are sampled, so that the branch predictor does not adapt to one.
const BATCHES: usize = 50;

/// A graph whose in-degrees follow a power law from 2 upward, its neighbours uniform.
struct Graph {
    indptr: Vec<i64>,
    indices: Vec<i32>,
}

impl Graph {
    fn power_law(nodes: usize, edges: usize) -> Self {
        let mut random = words(1);
        // Pareto with exponent 2.1 above a floor of 2, scaled to the requested number of edges.
        let weights: Vec<f64> = (0..nodes)
            .map(|_| {
                let uniform = (f64::from(random.next_u32()) + 1.0) / f64::from(u32::MAX);
                uniform.powf(-1.0 / 1.1).min(nodes as f64 / 20.0)
            })
            .collect();
        let left = (edges - 2 * nodes) as f64 / weights.iter().sum::<f64>();
        let mut indptr = vec![0_i64];
        let mut end = 0.0;
        for weight in weights {
            end += 2.0 + weight * left;
            indptr.push((end as i64).min(edges as i64));
        }
        indptr[nodes] = edges as i64;
        let indices = (0..edges).map(|_| random.bounded(nodes as u32) as i32).collect();
        Self { indptr, indices }
    }

    fn csc(&self) -> Csc<'_> {
        Csc { indptr: &self.indptr, indices: Indices::I32(&self.indices), original_ids: None, degrees: None }
    }
}

fn words(seed: u64) -> PhiloxStream {
    let purpose = RandomPurpose::Subgraphs;
    StreamKey { seed, node: 0, purpose, layer: 0, batch: 0, epoch: 0, split: Split::Train }.stream()
}

fn neighbor_sampling(criterion: &mut Criterion) {
    let graph = Graph::power_law(NODES, EDGES);
    let mut order =
        SeedOrder::new(1, Split::Train, NODES, true, BATCH_SIZE, false).expect("the options fit the graph");
    order.prepare(0).expect("epoch 0 exists");
    let seeds: Vec<Vec<i64>> =
        (0..BATCHES).map(|batch| order.batch(batch).iter().map(|&seed| i64::from(seed)).collect()).collect();

    let mut group = criterion.benchmark_group("neighbors");
    for (name, replace) in [("without replacement", false), ("with replacement", true)] {
        let options =
            SamplerOptions { fanouts: FANOUTS.into(), replace, seed: 1, ..SamplerOptions::default() };
        let bounds = BatchBounds::for_options(&options, BATCH_SIZE, NODES, EDGES, None);
        let mut batch = MiniBatch::with_bounds(&bounds.expect("the options fit the graph"));
        let mut sampler = NeighborSampler::new(graph.csc(), options).expect("the options fit the graph");
        let mut sample = |number: usize| {
            let key = BatchKey { split: Split::Train, epoch: 0, batch: number as u32 };
            sampler.sample_into(key, &seeds[number], &mut batch).expect("the batch fits its bounds")
        };
        let edges: usize = (0..BATCHES).map(|number| sample(number).edges()).sum();
        group.throughput(Throughput::Elements(edges as u64));
        group.bench_function(name, |bencher| {
            bencher.iter(|| (0..BATCHES).fold(0, |sum, number| black_box(sample(number)).hash ^ sum));
        });
    }
    group.finish();
}

fn seed_order(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("seeds");
    let seeds = 1_000_000;
    let mut order =
        SeedOrder::new(1, Split::Train, seeds, true, BATCH_SIZE, false).expect("the split is ordered");
    group.throughput(Throughput::Elements(seeds as u64));
    let mut epoch = 0;
    group.bench_function("shuffle of a million", |bencher| {
        bencher.iter(|| {
            epoch += 1;
            order.prepare(epoch).expect("the epoch exists");
            black_box(order.batch(0)[0])
        });
    });
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(20).measurement_time(std::time::Duration::from_secs(5));
    targets = neighbor_sampling, seed_order
}
criterion_main!(benches);
