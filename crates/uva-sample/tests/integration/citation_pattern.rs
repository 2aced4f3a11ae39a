//! The access pattern of the citation graph: rows that a sampled epoch reads are the rows that later epochs read, and
//! those of nodes in many lists are not.

use uva_graph::{Dataset, Split};
use uva_io::generate;
use uva_sample::{
    BatchBounds, BatchKey, BatchSampler, MiniBatch, NeighborSampler, SamplerOptions, SeedOrder,
};

const BATCH: usize = 1000;

/// For each node, the number of batches of `epochs` that have it among their input nodes.
fn reads(dataset: &Dataset, epochs: std::ops::Range<u32>) -> Vec<u32> {
    let options = SamplerOptions { fanouts: [15, 10, 5].into(), seed: 1, ..SamplerOptions::default() };
    let seeds = dataset.split(Split::Train);
    let bounds = BatchBounds::new(BATCH, &options.fanouts, dataset.nodes(), dataset.edges()).unwrap();
    let mut batch = MiniBatch::with_bounds(&bounds);
    let mut order = SeedOrder::new(options.seed, Split::Train, seeds.len(), true, BATCH, false).unwrap();
    let mut sampler = NeighborSampler::new(dataset.csc(), options).unwrap();
    let mut reads = vec![0; dataset.nodes()];
    for epoch in epochs {
        order.prepare(epoch).unwrap();
        for number in 0..order.batches() {
            let nodes: Vec<i64> =
                order.batch(number).iter().map(|&position| seeds[position as usize]).collect();
            let key = BatchKey { split: Split::Train, epoch, batch: number as u32 };
            sampler.sample_into(key, &nodes, &mut batch).unwrap();
            batch.nodes().iter().for_each(|&node| reads[node as usize] += 1);
        }
    }
    reads
}

/// Percentage of `reads` of the tenth of the nodes with the largest `hotness`.
fn hits(reads: &[u32], hotness: &[u32]) -> f64 {
    let mut nodes: Vec<usize> = (0..reads.len()).collect();
    nodes.sort_by_key(|&node| (std::cmp::Reverse(hotness[node]), node));
    let count = |nodes: &[usize]| nodes.iter().map(|&node| u64::from(reads[node])).sum::<u64>() as f64;
    100.0 * count(&nodes[..nodes.len() / 10]) / count(&nodes)
}

#[test]
fn presampling_hits_98_per_cent_degrees_half_and_chance_a_tenth() {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("citation");
    let defaults = generate::Citation::default();
    let common = generate::Common { nodes: 1_000_000, feature_dim: 1, ..defaults.common };
    generate::write(&out, &generate::Citation { common, ..defaults }, &|_| ()).unwrap();
    let dataset = Dataset::open(&out).unwrap();

    let mut degrees = vec![0_u32; dataset.nodes()];
    let indices = dataset.csc().indices;
    (0..indices.len()).for_each(|edge| degrees[indices.get(edge) as usize] += 1);
    // An arbitrary order, independent of the graph.
    let chance: Vec<u32> = (0..1_000_000_u32).map(|node| node.wrapping_mul(2_654_435_761)).collect();
    let presampled = reads(&dataset, 0..1);
    let later = reads(&dataset, 1..3);
    let [presample, degree, random, optimal] =
        [&presampled, &degrees, &chance, &later].map(|hotness| hits(&later, hotness));
    println!(
        "presample {presample:.1} %, degree {degree:.1} %, random {random:.1} %, optimal {optimal:.1} %"
    );
    assert!(presample > 97.0, "presample {presample:.1} %");
    assert!(presample > optimal - 2.0, "presample {presample:.1} % of {optimal:.1} %");
    assert!((42.0..54.0).contains(&degree), "degree {degree:.1} %");
    assert!(presample >= 1.8 * degree);
    assert!((9.0..11.0).contains(&random), "random {random:.1} %");
}
