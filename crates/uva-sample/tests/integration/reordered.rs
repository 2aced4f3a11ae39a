//! Batches of a dataset, of its copy in another order, and of the graph reordered in memory: all values are the same.

use uva_graph::npy::{NpyType, write_array};
use uva_graph::reorder::{NodeOrder, ReorderedLayout, write_reordered};
use uva_graph::{Csc, Dataset, Indices, Split};
use uva_io::generate;
use uva_sample::{
    BatchBounds, BatchKey, BatchSampler, Expand, MiniBatch, NeighborSampler, OrderEdges, Proximity,
    SamplerOptions, SeedOrder,
};

const BATCH: usize = 64;

/// The content of a batch, independent of the order of nodes.
#[derive(Debug, PartialEq)]
struct Content {
    hash: u64,
    /// By original ids.
    nodes: Vec<i64>,
    /// Both arrays of every block.
    blocks: Vec<(Vec<i32>, Vec<i32>)>,
    list_reads: u64,
}

/// Two epochs of batches over `csc`, seeds in `order_of` the split, whose nodes are ids of `csc`.
fn batches(csc: Csc<'_>, split: Split, seeds: &[i64], options: &SamplerOptions) -> Vec<Content> {
    let bounds = BatchBounds::for_options(options, BATCH, csc.nodes(), csc.edges(), None).unwrap();
    let mut batch = MiniBatch::with_bounds(&bounds);
    let mut sampler = NeighborSampler::new(csc, options.clone()).unwrap();
    let mut order =
        SeedOrder::new(options.seed, split, seeds.len(), split == Split::Train, BATCH, false).unwrap();
    let mut contents = Vec::new();
    for epoch in 0..2 {
        order.prepare(epoch).unwrap();
        for number in 0..order.batches() {
            let nodes: Vec<i64> =
                order.batch(number).iter().map(|&position| seeds[position as usize]).collect();
            let key = BatchKey { split, epoch, batch: number as u32 };
            let counts = sampler.sample_into(key, &nodes, &mut batch).unwrap();
            let original = |&node: &i64| csc.original_ids.map_or(node, |ids| ids[node as usize]);
            contents.push(Content {
                hash: batch.hash(),
                nodes: batch.nodes().iter().map(original).collect(),
                blocks: batch.blocks().map(|block| (block.indptr.into(), block.indices.into())).collect(),
                list_reads: counts.list_reads.all,
            });
        }
    }
    contents
}

fn check(dataset: &Dataset, order: &NodeOrder, directory: &std::path::Path) -> Dataset {
    write_reordered(dataset, order, directory, &|_| ()).unwrap();
    let copy = Dataset::open(directory).unwrap();
    let layout = ReorderedLayout::new(dataset);
    let mut memory = vec![0_u64; layout.bytes() / 8];
    layout.fill(dataset, order, bytemuck::cast_slice_mut(&mut memory)).unwrap();
    let view = layout.view(bytemuck::cast_slice(&memory)).unwrap();
    for (replace, batch_dependency, expand) in
        [(false, 1, Expand::All), (true, 1, Expand::All), (false, 5, Expand::All), (false, 1, Expand::New)]
    {
        let options = SamplerOptions {
            fanouts: [5, 3].into(),
            replace,
            seed: 11,
            batch_dependency,
            expand,
            ..SamplerOptions::default()
        };
        for split in [Split::Train, Split::Test] {
            let expected = batches(dataset.csc(), split, dataset.split(split), &options);
            assert!(!expected.is_empty() && expected.iter().any(|batch| batch.nodes.len() > 2 * BATCH));
            assert_eq!(batches(copy.csc(), split, copy.split(split), &options), expected);
            assert_eq!(batches(view.csc, split, view.split(split), &options), expected);
            // What a run translates places to is the dataset's own ids, whatever the original ones are.
            let at_home = Csc { original_ids: Some(view.to_dataset), ..view.csc };
            let own = Csc { original_ids: None, ..dataset.csc() };
            let own = batches(own, split, dataset.split(split), &options);
            assert_eq!(batches(at_home, split, view.split(split), &options), own);
        }
    }
    for edges in OrderEdges::ALL {
        let sequences = |dataset: &Dataset| {
            Proximity::new(dataset.csc(), dataset.split(Split::Train), edges, 11).unwrap().sequences(0..3)
        };
        assert_eq!(sequences(&copy), sequences(dataset), "{edges:?}");
    }
    copy
}

#[test]
fn a_dataset_and_its_reordered_forms_have_the_same_batches() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    let common = generate::Common { nodes: 3000, feature_dim: 2, classes: 3, ..Default::default() };
    generate::write(&at("narrow"), &generate::PowerLaw::of(common), &|_| ()).unwrap();
    let narrow = Dataset::open(&at("narrow")).unwrap();

    // The same graph with 64-bit ids.
    let Indices::I32(ids) = narrow.csc().indices else { panic!("3000 nodes fit 32 bits") };
    std::fs::create_dir(at("wide")).unwrap();
    for entry in std::fs::read_dir(at("narrow")).unwrap() {
        let path = entry.unwrap().path();
        std::fs::copy(&path, at("wide").join(path.file_name().unwrap())).unwrap();
    }
    std::fs::remove_file(at("wide").join("indices.npy")).unwrap();
    let ids: Vec<i64> = ids.iter().map(|&id| id.into()).collect();
    write_array(&at("wide").join("indices.npy"), NpyType::I64, &[], &ids).unwrap();
    let wide = Dataset::open(&at("wide")).unwrap();

    let first: Vec<i64> = (0..2000).map(|i| (i * 1_000_003 + 17) % 3000).collect();
    let order = NodeOrder::from_first(3000, &first).unwrap();
    let copy = check(&narrow, &order, &at("copy"));
    let wide_copy = check(&wide, &order, &at("wide-copy"));
    assert_eq!(wide_copy.csc().indices.id_bytes(), 8);
    // A copy can be reordered again, and back.
    check(&copy, &NodeOrder::from_first(3000, &first[500..900]).unwrap(), &at("twice"));
    let back: Vec<i64> = (0..3000).map(|node| order.places().of(node) as i64).collect();
    let back = check(&copy, &NodeOrder::from_first(3000, &back).unwrap(), &at("back"));
    assert!(back.original_ids().unwrap().iter().copied().eq(0..3000));
}
