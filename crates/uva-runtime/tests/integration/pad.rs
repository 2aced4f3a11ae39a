//! Padded batches: the batches of a run without padding, with padding in between.

use crate::common;
use std::path::Path;
use std::sync::Arc;

use uva_batch::StaticShapes;
use uva_graph::npy::{NpyType, write_array};
use uva_graph::{Dataset, NodeType, Relation};
use uva_io::generate::{self, Common, TwoRelations};
use uva_runtime::backend::Backend;
use uva_runtime::options::Pad;
use uva_runtime::plan::RunPlan;
use uva_runtime::sampler::cache::{CacheContents, CachePolicy};
use uva_runtime::tune::planning;
use uva_runtime::{Batch, Cursor, Expand, Labels, LoaderOptions, Passes, Runtime, SamplerKind, Split};
use uva_sample::RelationEnds;

fn options() -> LoaderOptions {
    LoaderOptions {
        fanouts: [4, 3].into(),
        batch_size: 64,
        seed: 5,
        degrees: true,
        input_id: true,
        pad: Pad::Auto,
        ..LoaderOptions::default()
    }
}

/// With weights of edges, and features of two values an edge.
fn dataset(directory: &Path) -> Arc<Dataset> {
    let path = common::graph(directory, 2000, 8.0);
    let edges = Dataset::open(&path).unwrap().edges();
    let weights: Vec<f32> = (0..edges).map(|edge| (1 + edge * 31 % 17) as f32).collect();
    write_array(&path.join("weight.npy"), NpyType::F32, &[], &weights).unwrap();
    let rows: Vec<f32> = (0..2 * edges).map(|value| value as f32).collect();
    let mut writer =
        uva_graph::npy::NpyWriter::create(&path.join("edge_feat.npy"), NpyType::F32, &[2]).unwrap();
    writer.write_bytes(bytemuck::cast_slice(&rows)).unwrap();
    writer.finish().unwrap();
    Arc::new(Dataset::open(&path).unwrap())
}

const PASSES: Passes =
    Passes { epochs: 2, validate: true, test: true, start: Cursor { epoch: 0, batch: 0 }, steered: false };

fn plan(dataset: &Dataset, options: &LoaderOptions) -> RunPlan {
    RunPlan::new(dataset, options, PASSES).unwrap()
}

fn started(dataset: &Arc<Dataset>, options: &LoaderOptions) -> Runtime {
    Runtime::start(Arc::clone(dataset), plan(dataset, options)).unwrap()
}

/// Shapes with these numbers, instead of estimated ones.
fn shapes(nodes: &[usize], edges: &[usize], keeps: bool) -> StaticShapes {
    use uva_runtime::spec::OptionValue;
    let text = serde_json::json!({ "nodes": nodes, "edges": edges, "keeps": keeps, "mean": [1, 1], "relations": [RelationEnds::ONLY] });
    StaticShapes::of_json(&text).unwrap()
}

/// Compares a batch of a run with padding with the batch of a run without. Returns whether it is padded.
fn compare(padded: &Batch, plain: &Batch, shapes: &StaticShapes, dataset: &Dataset) -> bool {
    assert_eq!((padded.hash(), padded.split(), padded.index()), (plain.hash(), plain.split(), plain.index()));
    assert_eq!(
        (padded.real_seed_count(), padded.real_node_count()),
        (plain.seed_count(), plain.node_count())
    );
    let layers = plain.layers();
    for layer in 0..layers {
        assert_eq!(padded.real_counts(layer), plain.counts(layer));
        assert_eq!(plain.real_counts(layer), plain.counts(layer));
    }
    assert!(!plain.is_padded());
    // The first node of each level, before and after.
    let mut ends = vec![plain.seed_count()];
    ends.extend((0..layers).map(|layer| plain.counts(layer).sources));
    let sizes: Vec<usize> = if padded.is_padded() {
        shapes.nodes()
    } else {
        std::iter::once(ends[0]).chain(ends.windows(2).map(|pair| pair[1] - pair[0])).collect()
    };
    let place = |id: usize| {
        let level = ends.iter().position(|end| id < *end).unwrap();
        let begin = if level == 0 { 0 } else { ends[level - 1] };
        sizes[..level].iter().sum::<usize>() + id - begin
    };
    assert_eq!(padded.node_count(), sizes.iter().sum::<usize>());
    assert_eq!((padded.seed_count(), padded.seeds().len()), (sizes[0], sizes[0]));
    let mut is_real = vec![false; padded.node_count()];
    let (features, own) = (padded.features(), plain.features());
    let row = own.row_bytes();
    for (id, node) in plain.input_nodes().iter().enumerate() {
        let at = place(id);
        is_real[at] = true;
        assert_eq!(padded.input_nodes()[at], *node);
        assert_eq!(padded.degrees()[at], plain.degrees()[id]);
        assert_eq!(features.bytes[at * row..][..row], own.bytes[id * row..][..row]);
    }
    for (at, _) in is_real.iter().enumerate().filter(|(_, real)| !**real) {
        assert_eq!(padded.input_nodes()[at], plain.seeds()[0]);
        assert_eq!(padded.degrees()[at], plain.degrees()[0]);
        assert_eq!(features.bytes[at * row..][..row], own.bytes[..row]);
    }
    let seeds = plain.seed_count();
    assert_eq!(padded.input_id()[..seeds], *plain.input_id());
    assert!(padded.input_id()[seeds..].iter().all(|id| *id == plain.input_id()[0]));
    let mask = padded.column("seed_mask").unwrap().u8().unwrap();
    assert!((0..).zip(mask).all(|(at, one)| (*one == 1) == (at < seeds)), "{mask:?}");
    let (Labels::Single(labels), Labels::Single(own)) = (padded.labels(), plain.labels()) else { panic!() };
    assert_eq!(labels[..seeds], *own);
    assert!(labels.len() == sizes[0] && labels[seeds..].iter().all(|label| *label == -1));
    for layer in 0..layers {
        let (block, own) = (padded.block(layer), plain.block(layer));
        assert_eq!(
            padded.counts(layer),
            if padded.is_padded() { shapes.layer(layer) } else { plain.counts(layer) }
        );
        assert_eq!((block.indptr[0], *block.indptr.last().unwrap() as usize), (0, block.indices.len()));
        let rows = padded.edge_attr(layer).zip(plain.edge_attr(layer));
        for destination in 0..own.destinations {
            let at = place(destination);
            let from = own.indptr[destination] as usize..own.indptr[destination + 1] as usize;
            let to = block.indptr[at] as usize..block.indptr[at + 1] as usize;
            let moved: Vec<i32> =
                own.indices[from.clone()].iter().map(|id| place(*id as usize) as i32).collect();
            assert_eq!(block.indices[to.clone()], moved);
            if !own.edge_ids.is_empty() {
                assert_eq!(block.edge_ids[to.clone()], own.edge_ids[from.clone()]);
            }
            if !own.weights.is_empty() {
                assert_eq!(block.weights[to.clone()], own.weights[from.clone()]);
            }
            if let Some((rows, own)) = rows {
                let bytes = |range: std::ops::Range<usize>| 8 * range.start..8 * range.end;
                assert_eq!(rows.bytes[bytes(to)], own.bytes[bytes(from)]);
            }
        }
        let mut lengths = Vec::new();
        for (destination, pair) in block.indptr.windows(2).enumerate() {
            if is_real[destination] {
                continue;
            }
            let list = pair[0] as usize..pair[1] as usize;
            lengths.push(list.len());
            let sources = &block.indices[list.clone()];
            assert!(
                sources.iter().all(|source| (*source as usize) < block.sources && !is_real[*source as usize])
            );
            assert!(
                block.weights.is_empty() || block.weights[list.clone()].iter().all(|weight| *weight == 0.0)
            );
            let ids = block.edge_ids.get(list).unwrap_or_default();
            assert!(ids.iter().all(|id| (*id as usize) < dataset.edges()));
        }
        if padded.is_padded() && options().expand == Expand::All && layer == 0 {
            let (least, most) = (lengths.iter().min().unwrap(), lengths.iter().max().unwrap());
            assert!(most - least <= 1, "spread evenly: {lengths:?}");
        }
    }
    padded.is_padded()
}

/// Compares both runs. Returns the numbers of padded and other batches.
fn compared(dataset: &Arc<Dataset>, options: &LoaderOptions) -> (usize, usize) {
    let mut padded = started(dataset, options);
    let shapes = plan(dataset, options).options.shapes.unwrap();
    let mut plain = started(dataset, &LoaderOptions { pad: Pad::Off, ..options.clone() });
    let mut counts = (0, 0);
    while let Some(own) = plain.next_batch().unwrap() {
        let batch = padded.next_batch().unwrap().unwrap();
        if compare(&batch, &own, &shapes, dataset) {
            counts.0 += 1
        } else {
            counts.1 += 1
        }
        if batch.is_padded() && options.expand == Expand::New {
            for layer in 1..batch.layers() {
                let (before, block) = (batch.block(layer - 1), batch.block(layer));
                assert_eq!(block.indptr[..before.indptr.len()], *before.indptr);
                assert_eq!(block.indices[..before.indices.len()], *before.indices);
            }
        }
    }
    assert!(padded.next_batch().unwrap().is_none());
    counts
}

#[test]
fn without_its_padding_a_batch_of_any_kind_is_that_of_an_unpadded_run() {
    let temp = tempfile::tempdir().unwrap();
    let dataset = dataset(temp.path());
    for sampler_kind in SamplerKind::ALL {
        for expand in [Expand::All, Expand::New] {
            for replace in [false, true] {
                let mut options = LoaderOptions { sampler_kind, expand, replace, ..options() };
                options.edge_ids = true;
                options.edge_attr = sampler_kind.picks_in_lists();
                options.samplers = 2;
                if sampler_kind.draws_one_subgraph() {
                    options.fanouts = vec![20; options.fanouts.hops()].into();
                }
                if options.check().is_err() {
                    continue;
                }
                let (padded, others) = compared(&dataset, &options);
                assert!(padded > 10 * others, "{sampler_kind} {expand}: {padded} and {others}");
            }
        }
    }
}

#[test]
fn every_training_batch_including_the_last_has_the_static_shapes() {
    let temp = tempfile::tempdir().unwrap();
    let dataset = dataset(temp.path());
    for fanouts in [vec![5], vec![2, 2, 2, 2], vec![-1, 3]] {
        let slot_bytes = fanouts.contains(&-1).then_some(64 << 20);
        let options = LoaderOptions { fanouts: fanouts.into(), slot_bytes, ..options() };
        assert_ne!(dataset.split(Split::Train).len() % options.batch_size, 0, "the last one is smaller");
        let plan = plan(&dataset, &options);
        let shapes = plan.options.shapes.clone().unwrap();
        let mut runtime = Runtime::start(Arc::clone(&dataset), plan).unwrap();
        let mut batches = 0;
        while let Some(batch) = runtime.next_batch().unwrap() {
            if batch.split() != Split::Train {
                continue;
            }
            batches += 1;
            assert!(batch.is_padded());
            assert_eq!((batch.seed_count(), batch.node_count()), (shapes.seeds(), shapes.all_nodes()));
            for layer in 0..batch.layers() {
                assert_eq!(batch.counts(layer), shapes.layer(layer));
            }
        }
        assert!(batches > 20, "{batches}");
        assert_eq!(compared(&dataset, &options).1, 0);
    }
}

#[test]
fn a_batch_that_does_not_fit_keeps_its_size() {
    let temp = tempfile::tempdir().unwrap();
    let dataset = dataset(temp.path());
    let estimated = plan(&dataset, &options()).options.shapes.unwrap();
    let edges = [estimated.layer(0).edges, estimated.layer(1).edges];
    // Slightly less than the mean of each count: some batches are larger, others are not.
    let small = |level: usize| {
        let mut nodes = estimated.nodes();
        nodes[level] = mean(&dataset, |batch| {
            let found = [batch.seed_count(), batch.counts(0).sources - batch.seed_count()];
            found.get(level).copied().unwrap_or(batch.counts(1).sources - batch.counts(1).destinations)
        });
        nodes
    };
    for level in [1, 2] {
        let shapes = Some(shapes(&small(level), &edges, false));
        let (padded, others) = compared(&dataset, &LoaderOptions { shapes, ..options() });
        assert!(padded > 5 && others > 5, "level {level}: {padded} and {others}");
    }
    for layer in [0, 1] {
        let mut edges = edges;
        edges[layer] = mean(&dataset, |batch| batch.counts(layer).edges);
        let shapes = Some(shapes(&estimated.nodes(), &edges, false));
        let (padded, others) = compared(&dataset, &LoaderOptions { shapes, ..options() });
        assert!(padded > 5 && others > 5, "layer {layer}: {padded} and {others}");
    }
}

/// The mean of a count over the complete batches of a run without padding.
fn mean(dataset: &Arc<Dataset>, count: impl Fn(&Batch) -> usize) -> usize {
    let mut runtime = started(dataset, &LoaderOptions { pad: Pad::Off, ..options() });
    let (mut sum, mut batches) = (0, 0);
    while let Some(batch) = runtime.next_batch().unwrap() {
        if batch.seed_count() == options().batch_size {
            (sum, batches) = (sum + count(&batch), batches + 1);
        }
    }
    sum / batches
}

#[test]
fn shapes_follow_the_batch_options_and_neither_samplers_nor_resume_place() {
    let temp = tempfile::tempdir().unwrap();
    let dataset = dataset(temp.path());
    let of = |options: &LoaderOptions, start: Cursor| {
        let passes = Passes { start, ..PASSES };
        RunPlan::new(&dataset, options, passes).unwrap().options.shapes.unwrap()
    };
    let usual = of(&options(), Cursor::default());
    let other = LoaderOptions { samplers: 3, edge_ids: true, gather_threads: 2, ..options() };
    assert_eq!(of(&other, Cursor { epoch: 1, batch: 7 }), usual);
    assert_ne!(of(&LoaderOptions { fanouts: [5, 3].into(), ..options() }, Cursor::default()), usual);
    assert_ne!(of(&LoaderOptions { expand: Expand::New, ..options() }, Cursor::default()), usual);
    // For a split that is shorter than a batch, they are those of the whole split.
    let whole = of(&LoaderOptions { batch_size: 5000, ..options() }, Cursor::default());
    assert_eq!(whole.seeds(), (dataset.split(Split::Train).len() + 1).next_multiple_of(8));
}

#[test]
fn with_caches_the_same_batches_are_padded_in_the_same_way() {
    let temp = tempfile::tempdir().unwrap();
    let dataset = dataset(temp.path());
    let options = options();
    let policy = CachePolicy::PRESAMPLE;
    let (cached, _) = planning::plan(&dataset, &options, &Backend::Cpu, 200_000, policy, &|_| {}).unwrap();
    let contents = CacheContents::of_plan(&dataset, &cached).unwrap();
    assert!(contents.caches().lists > 0 && contents.caches().rows > 0);
    let planned = plan(&dataset, &options);
    let shapes = planned.options.shapes.clone().unwrap();
    let mut padded = Runtime::start_with(Arc::clone(&dataset), planned, contents).unwrap();
    let mut plain = started(&dataset, &LoaderOptions { pad: Pad::Off, ..options });
    while let Some(own) = plain.next_batch().unwrap() {
        assert!(compare(&padded.next_batch().unwrap().unwrap(), &own, &shapes, &dataset));
    }
}

#[test]
fn without_padding_there_is_no_mask_and_no_field_of_padding() {
    let temp = tempfile::tempdir().unwrap();
    let dataset = dataset(temp.path());
    let mut plain = started(&dataset, &LoaderOptions { pad: Pad::Off, ..options() });
    let batch = plain.next_batch().unwrap().unwrap();
    let refused = batch.column("seed_mask").err().unwrap().to_string();
    assert!(refused.contains("does not pad"), "{refused}");
    assert!(batch.layout().shapes().is_none());
}

/// The generated graph of types with two relations into the target.
fn typed(directory: &Path) -> Arc<Dataset> {
    let path = directory.join("typed");
    let common = Common { nodes: 2000, average_degree: 8.0, classes: 4, seed: 3, ..Common::default() };
    generate::write(&path, &TwoRelations { common, ..TwoRelations::default() }, &|_| {}).unwrap();
    let dataset = uva_graph::TypedDataset::open(&path).unwrap();
    let target = dataset.target().unwrap();
    Arc::new(dataset.for_batches(target).unwrap())
}

/// Compares the nodes and edges of a padded batch with those of a batch without padding, by the dataset's ids.
fn compare_types(padded: &Batch, plain: &Batch, shapes: &StaticShapes) -> bool {
    assert_eq!((padded.hash(), padded.real_node_count()), (plain.hash(), plain.node_count()));
    let metagraph = plain.metagraph().clone();
    let header = (padded.header(), plain.header());
    // For each type, the place of each node of the plain batch.
    let mut places: Vec<Vec<usize>> = Vec::new();
    for of in metagraph.types() {
        let relation = metagraph.relations().find(|relation| metagraph.source(*relation) == of);
        let ends = |header: &uva_batch::BatchHeader| {
            let sources =
                (0..plain.layers()).filter_map(|layer| Some(header.block(layer, relation?).sources));
            std::iter::once(header.of_type(of).seeds).chain(sources).collect::<Vec<_>>()
        };
        let (to, from) = (ends(header.0), ends(header.1));
        let place = |id: usize| match from.iter().position(|end| id < *end).unwrap() {
            0 => id,
            level => id - from[level - 1] + to[level - 1],
        };
        let of_type: Vec<usize> = (0..plain.nodes_of(of).len()).map(place).collect();
        if padded.is_padded() {
            let (size, levels) = (header.0.of_type(of), shapes.nodes_of(of));
            assert_eq!((size.seeds, size.nodes), (levels[0], levels.iter().sum()));
        }
        let first = plain.nodes_of(of).first().copied().unwrap_or(0);
        let mut nodes = vec![first; padded.nodes_of(of).len()];
        for (node, place) in plain.nodes_of(of).iter().zip(&of_type) {
            nodes[*place] = *node;
        }
        assert_eq!(padded.nodes_of(of), nodes);
        if let (Some(rows), Some(own)) = (padded.rows_of(of), plain.rows_of(of)) {
            for (place, own) in of_type.iter().zip(own.bytes.chunks_exact(own.row_bytes())) {
                assert_eq!(&rows.bytes[place * own.len()..][..own.len()], own);
            }
        }
        places.push(of_type);
    }
    for layer in 0..plain.layers() {
        for relation in metagraph.relations() {
            let (block, own) = (padded.block_of(layer, relation), plain.block_of(layer, relation));
            if padded.is_padded() {
                assert_eq!(padded.header().block(layer, relation), shapes.block(layer, relation));
            }
            let [source, destination] =
                [metagraph.source(relation), metagraph.destination(relation)].map(|of| &places[of.index()]);
            let mut of_real = 0;
            for (at, pair) in own.indptr.windows(2).enumerate() {
                let list = pair[0] as usize..pair[1] as usize;
                let begin = block.indptr[destination[at]] as usize;
                let to = begin..block.indptr[destination[at] + 1] as usize;
                let moved: Vec<i32> =
                    own.indices[list.clone()].iter().map(|id| source[*id as usize] as i32).collect();
                assert_eq!(block.indices[to.clone()], moved);
                assert_eq!(block.edge_ids[to], own.edge_ids[list.clone()]);
                of_real += list.len();
            }
            let is_real = |id: i32| source.contains(&(id as usize));
            let to_real = block.indices.iter().filter(|id| is_real(**id)).count();
            assert_eq!((to_real, *block.indptr.last().unwrap() as usize), (of_real, block.indices.len()));
        }
    }
    padded.is_padded()
}

/// Numbers of padded and other batches of a run over a typed graph, each compared with that of a run without padding.
fn compared_types(dataset: &Arc<Dataset>, options: &LoaderOptions) -> (usize, usize) {
    let planned = plan(dataset, options);
    let shapes = planned.options.shapes.clone().unwrap();
    let mut padded = Runtime::start(Arc::clone(dataset), planned).unwrap();
    let mut plain = started(dataset, &LoaderOptions { pad: Pad::Off, shapes: None, ..options.clone() });
    let mut counts = (0, 0);
    while let Some(own) = plain.next_batch().unwrap() {
        match compare_types(&padded.next_batch().unwrap().unwrap(), &own, &shapes) {
            true => counts.0 += 1,
            false => counts.1 += 1,
        }
    }
    assert!(padded.next_batch().unwrap().is_none());
    counts
}

#[test]
fn batches_of_typed_graphs_are_padded_by_type_and_relation() {
    let temp = tempfile::tempdir().unwrap();
    let dataset = typed(temp.path());
    assert!(dataset.metagraph().relation_count() > 2);
    for sampler_kind in [SamplerKind::NEIGHBOR, SamplerKind::LABOR] {
        for expand in [Expand::All, Expand::New] {
            let options = LoaderOptions { sampler_kind, expand, ..typed_options() };
            let (padded, others) = compared_types(&dataset, &options);
            assert!(padded > 10 * others, "{sampler_kind} {expand}: {padded} and {others}");
        }
    }
}

fn typed_options() -> LoaderOptions {
    LoaderOptions { degrees: false, edge_ids: true, samplers: 2, ..options() }
}

#[test]
fn a_typed_batch_that_does_not_fit_in_one_type_or_relation_keeps_its_size() {
    use uva_runtime::spec::OptionValue;
    let temp = tempfile::tempdir().unwrap();
    let dataset = typed(temp.path());
    let estimated = plan(&dataset, &typed_options()).options.shapes.unwrap();
    let last = estimated.types() - 1;
    let levels = estimated.nodes_of(NodeType(last as u16));
    let level = (0..levels.len()).find(|level| levels[*level] > 0).expect("a level with nodes of the type");
    let edges = estimated.block(0, Relation(0)).edges;
    assert!(edges > 0);
    let mut means = [0; 2];
    let mut runtime = started(&dataset, &LoaderOptions { pad: Pad::Off, ..typed_options() });
    let mut batches = 0;
    while let Some(batch) = runtime.next_batch().unwrap() {
        if batch.seed_count() == options().batch_size {
            batches += 1;
            let relation = dataset
                .metagraph()
                .relations()
                .find(|relation| dataset.metagraph().source(*relation).index() == last)
                .unwrap();
            let before = if level < 2 { 0 } else { batch.header().block(level - 2, relation).sources };
            means[0] += batch.header().block(level - 1, relation).sources - before;
            means[1] += batch.header().block(0, Relation(0)).edges;
        }
    }
    drop(runtime);
    let text: serde_json::Value = serde_json::from_str(&estimated.text()).unwrap();
    for (key, at, mean) in [("nodes", level * (last + 1) + last, means[0]), ("edges", 0, means[1])] {
        let mut text = text.clone();
        text[key][at] = (mean / batches).into();
        let shapes = StaticShapes::of_json(&text);
        assert!(shapes.is_some());
        let (padded, others) = compared_types(&dataset, &LoaderOptions { shapes, ..typed_options() });
        assert!(padded > 3 && others > 3, "{key}: {padded} and {others}");
    }
}
