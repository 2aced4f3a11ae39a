//! Batches of typed graphs: nodes, blocks and rows by type and relation, with samplers and with workers.

use std::sync::Arc;

use serde_json::json;
use uva_batch::SlotRoom;
use uva_graph::npy::NpyType;
use uva_graph::{EdgeRows, Labels, NodeType, Relation, Split, TypedDataset};
use uva_options::OptionValue;
use uva_runtime::backend::{Backend, GatherChoice, SamplerChoice};
use uva_runtime::options::Prepare;
use uva_runtime::plan::RunPlan;
use uva_runtime::{
    Batch, FanoutSpec, InputNodes, InputSeeds, LoaderOptions, Passes, RowTree, Runtime, RuntimeError,
    SamplerKind,
};
use uva_sample::{
    BatchBounds, BatchKey, Expand, FanoutPer, GraphSize, MiniBatch, SampleError, SeedOrder, Seeds, TypedView,
    sampler,
};

use crate::stand_in;

#[path = "../../../uva-graph/tests/common/typed.rs"]
#[allow(dead_code, reason = "other tests use the rest")]
pub(super) mod fixture;

/// The place of each edge of rev_writes among those of writes.
const REV_WRITES: [i64; 12] = [1, 3, 5, 10, 11, 2, 6, 8, 0, 4, 7, 9];

const PAPER: NodeType = NodeType(0);
const AUTHOR: NodeType = NodeType(1);
const TOPIC: NodeType = NodeType(2);

pub(super) fn options() -> LoaderOptions {
    LoaderOptions {
        fanouts: FanoutSpec::of_text("2,2;paper__cites__paper=-1,0;covers=1,1").unwrap(),
        batch_size: 2,
        seed: 7,
        slot_bytes: Some(1 << 20),
        edge_ids: true,
        input_id: true,
        ..LoaderOptions::default()
    }
}

pub(super) fn runtime(library: &fixture::Library, options: LoaderOptions) -> Result<Runtime, RuntimeError> {
    Runtime::builder(&library.path).options(options).epochs(2).validate(true).build()
}

/// Values for the seeds of one type, and none for the others.
fn of_types<'s>(dataset: &TypedDataset, target: NodeType, values: &'s [i64]) -> Vec<&'s [i64]> {
    dataset.metagraph().types().map(|of| if of == target { values } else { &[] }).collect()
}

/// The batch of this key, sampled without a runtime.
fn sampled(dataset: &TypedDataset, options: &LoaderOptions, key: BatchKey) -> Result<MiniBatch, SampleError> {
    let sampling = options.sampling_in(dataset.metagraph()).unwrap();
    let target = dataset.target().unwrap();
    let ids = dataset.split_of(target, key.split);
    let mut order = SeedOrder::new(
        options.seed,
        key.split,
        ids.len(),
        key.split == Split::Train,
        options.batch_size,
        false,
    )?;
    order.prepare(key.epoch)?;
    let positions = order.batch(key.batch as usize);
    let seeds: Vec<i64> = positions.iter().map(|position| ids[*position as usize]).collect();
    let times = options.seed_times_of(dataset, target, key.split).unwrap();
    let of_position =
        |position: &u32| times.map(|times| times.of(*position as usize, ids[*position as usize]));
    let times: Vec<i64> = positions.iter().filter_map(of_position).collect();
    let [of_types, times] = [&seeds, &times].map(|of_target| of_types(dataset, target, of_target));
    let most: Vec<usize> = of_types.iter().map(|seeds| seeds.len()).collect();
    let bounds = BatchBounds::for_graph(&sampling, &most, &GraphSize::of(dataset), Some(1 << 20))?;
    let mut batch = MiniBatch::with_bounds(&bounds);
    let mut sampler = sampler(TypedView::of(dataset), &sampling)?;
    batch.fill(|out| sampler.sample_types(key, Seeds { ids: &of_types, times: &times }, out))?;
    Ok(batch)
}

/// Compares nodes, blocks and rows of a batch with those of the dataset.
pub(super) fn check(dataset: &TypedDataset, options: &LoaderOptions, batch: &Batch) {
    let key = BatchKey { split: batch.split(), epoch: batch.epoch(), batch: batch.index() };
    let plain = sampled(dataset, options, key).unwrap();
    assert_eq!(batch.hash(), plain.hash(), "{key}");
    let metagraph = dataset.metagraph();
    for of in metagraph.types() {
        let nodes = batch.nodes_of(of);
        assert_eq!(nodes, plain.nodes_of(of));
        let trees = batch.column_of(uva_batch::Column::Tree.of(of));
        assert_eq!(trees.map_or(&[][..], |trees| trees.i32().unwrap()), plain.trees_of(of));
        let Some(table) = dataset.rows(of) else {
            assert!(batch.rows_of(of).is_none());
            continue;
        };
        let rows = batch.rows_of(of).unwrap();
        assert_eq!((rows.rows, rows.dim, rows.element), (nodes.len(), table.dim, table.element));
        for (row, &node) in rows.bytes.chunks_exact(table.row_bytes()).zip(nodes) {
            let begin = node as usize * table.row_bytes();
            assert_eq!(row, &table.bytes[begin..begin + table.row_bytes()], "{key}, node {node}");
        }
    }
    for layer in 0..batch.layers() {
        for relation in metagraph.relations() {
            assert_eq!(Some(batch.block_of(layer, relation)), plain.block_of(layer, relation));
            let found = batch.edge_attr_of(layer, relation);
            let table = dataset.edge_rows(relation).filter(|_| options.edge_attr);
            assert_eq!(found.is_some(), table.is_some());
            let Some((found, EdgeRows { table, row_of, .. })) = found.zip(table) else { continue };
            let edges = batch.block_of(layer, relation).edge_ids;
            assert_eq!((found.rows, found.dim, found.element), (edges.len(), table.dim, table.element));
            for (row, &edge) in found.bytes.chunks_exact(table.row_bytes()).zip(edges) {
                let begin = row_of.map_or(edge, |row_of| row_of[edge as usize]) as usize * table.row_bytes();
                assert_eq!(row, &table.bytes[begin..begin + table.row_bytes()], "{key}, edge {edge}");
            }
        }
    }
    let (Labels::Single(labels), Labels::Single(all)) = (batch.labels_of(PAPER), dataset.labels_of(PAPER))
    else {
        panic!("papers have classes");
    };
    assert!(labels.iter().eq(batch.seeds_of(PAPER).iter().map(|&seed| &all[seed as usize])), "{key}");
    let split = dataset.split_of(PAPER, key.split);
    let input_id = batch.column("input_id").unwrap().i64().unwrap();
    assert!(input_id.iter().map(|&at| &split[at as usize]).eq(batch.seeds_of(PAPER)));
    assert_eq!(batch.column("x.topic").unwrap().name(), "x.topic");
}

#[test]
fn batches_have_the_rows_and_blocks_of_every_type_and_relation() {
    let library = fixture::library();
    let dataset = library.open();
    for (samplers, prepare) in [(1, Prepare::Roles), (3, Prepare::Roles), (2, Prepare::Whole)] {
        for expand in [Expand::All, Expand::New] {
            let options = LoaderOptions { samplers, prepare, expand, ..options() };
            let mut runtime = runtime(&library, options.clone()).unwrap();
            let mut batches = 0;
            while let Some(batch) = runtime.next_batch().unwrap() {
                check(&dataset, &options, &batch);
                batches += 1;
            }
            // Two epochs of two training batches and one of validation.
            assert_eq!(batches, 6, "{samplers} {prepare}");
        }
    }
}

/// The plan of two epochs with validation on this backend, and its dataset.
pub(super) fn planned(
    library: &fixture::Library,
    options: &LoaderOptions,
    backend: Backend,
) -> (Arc<uva_graph::Dataset>, RunPlan) {
    let dataset = library.open();
    let target = dataset.target().unwrap();
    let dataset = Arc::new(dataset.for_batches(target).unwrap());
    let passes = Passes { epochs: 2, validate: true, ..Passes::default() };
    let plan = RunPlan::new(&dataset, options, passes).unwrap().on(backend);
    (dataset, plan)
}

#[test]
fn batches_on_a_gpu_are_those_in_host_memory_by_every_gather() {
    if !cuda_sim::in_process("typed::batches_on_a_gpu_are_those_in_host_memory_by_every_gather") {
        return;
    }
    let library = fixture::library();
    // Rows of an odd size for authors, next to two others.
    let authors: Vec<u8> = (0..35).collect();
    library.write("nodes/author/feat", NpyType::U8, &[7], &authors);
    let dataset = library.open();
    for (gather, tree) in [
        (GatherChoice::ZeroCopy, "3 tables: page-locked table, read over the link by kernels"),
        (GatherChoice::Device, "3 tables: table in GPU memory"),
        (GatherChoice::Dma, "3 tables: mapped file, copied to the GPU"),
    ] {
        // Slots for the largest batch, and for few nodes: a larger batch comes through host memory.
        for room in [None, Some(SlotRoom { bytes: 16 << 10, nodes: 10 })] {
            let options = LoaderOptions { samplers: 2, slot_room: room, ..options() };
            let (shared, plan) = planned(&library, &options, stand_in::on_gpu(gather, SamplerChoice::Cpu));
            assert_eq!(RowTree::of(&plan).to_string(), tree);
            let mut runtime = Runtime::start(shared, plan).unwrap();
            let (mut batches, mut aside) = (0, 0);
            while let Some(batch) = runtime.next_batch().unwrap() {
                batch.confirm().unwrap();
                assert!(batch.is_in_slot_on_gpu());
                check(&dataset, &options, &batch);
                aside += usize::from(batch.is_oversized());
                batches += 1;
            }
            assert_eq!((batches, aside > 0), (6, room.is_some()), "{gather}, {aside} larger batches");
            assert!(aside < 6);
        }
    }
}

#[test]
fn on_a_gpu_types_and_edges_without_features_have_none() {
    if !cuda_sim::in_process("typed::on_a_gpu_types_and_edges_without_features_have_none") {
        return;
    }
    let mut library = fixture::library();
    let rows: Vec<f32> = (0..36_u8).map(f32::from).collect();
    library.write("edges/author__writes__paper/feat", NpyType::F32, &[3], &rows);
    library.change(|meta| meta["edges"][3]["feat_of"] = json!(fixture::LISTS[1].0));
    library.write("edges/paper__rev_writes__author/edge_id", NpyType::I64, &[], &REV_WRITES);
    let dataset = library.open();
    let options = LoaderOptions { edge_attr: true, ..options() };
    let on_gpu = stand_in::on_gpu(GatherChoice::ZeroCopy, SamplerChoice::Cpu);
    let (shared, plan) = planned(&library, &options, on_gpu);
    let mut runtime = Runtime::start(shared, plan).unwrap();
    while let Some(batch) = runtime.next_batch().unwrap() {
        batch.confirm().unwrap();
        check(&dataset, &options, &batch);
        // Authors have no rows that could cross the link.
        let rows = batch.nodes_of(PAPER).len() + batch.nodes_of(TOPIC).len();
        assert_eq!(batch.rows_over_link(), rows as u64);
    }
}

#[test]
fn backends_that_typed_graphs_do_not_support_are_refused() {
    let library = fixture::library();
    let refused = |gather, sampler| {
        let (dataset, plan) = planned(&library, &options(), stand_in::on_gpu(gather, sampler));
        Runtime::start(dataset, plan).map(drop).unwrap_err().to_string()
    };
    let said = refused(GatherChoice::Split, SamplerChoice::Cpu);
    assert!(said.contains("gather=split") && said.contains("gather=zero-copy"), "{said}");
    let said = refused(GatherChoice::ZeroCopy, SamplerChoice::Gpu);
    assert!(said.contains("sampler=gpu") && said.contains("sampler=cpu"), "{said}");
    let widened = LoaderOptions { feature_type: uva_runtime::FeatureType::Float32, ..options() };
    let on_gpu = stand_in::on_gpu(GatherChoice::ZeroCopy, SamplerChoice::Cpu);
    let (dataset, plan) = planned(&library, &widened, on_gpu);
    // Papers have float32 already, topics have not.
    let said = Runtime::start(dataset, plan).map(drop).unwrap_err().to_string();
    assert!(said.contains("feature_type=float32"), "{said}");
}

#[test]
fn edges_have_the_rows_of_their_relation_by_place_or_by_edge_id() {
    let mut library = fixture::library();
    let refused = runtime(&library, LoaderOptions { edge_attr: true, ..options() }).map(drop).unwrap_err();
    assert!(refused.to_string().contains("no feat.npy of a relation"), "{refused}");
    let rows: Vec<f32> = (0..36_u8).map(f32::from).collect();
    library.write("edges/author__writes__paper/feat", NpyType::F32, &[3], &rows);
    // Both directions have the rows of one table, in other orders.
    library.write("edges/paper__rev_writes__author/edge_id", NpyType::I64, &[], &REV_WRITES);
    library.write("edges/paper__cites__paper/feat", NpyType::U8, &[2], &[1_u8, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
    library.write("edges/paper__cites__paper/edge_id", NpyType::I64, &[], &[4_i64, 0, 0, 2]);
    library.change(|meta| {
        meta["edges"][3]["feat_of"] = json!(fixture::LISTS[1].0);
        meta["edges"][0]["feat_rows"] = json!("edge_id");
    });
    let dataset = library.open();
    for (prepare, edge_ids) in [(Prepare::Roles, false), (Prepare::Roles, true), (Prepare::Whole, true)] {
        let options = LoaderOptions { edge_attr: true, edge_ids, prepare, samplers: 2, ..options() };
        let mut runtime = runtime(&library, options.clone()).unwrap();
        while let Some(batch) = runtime.next_batch().unwrap() {
            check(&dataset, &options, &batch);
        }
    }
}

#[test]
fn the_target_and_fanouts_per_node_are_those_of_the_options() {
    let library = fixture::library();
    library.write("nodes/topic/train_idx", NpyType::I64, &[], &[2_i64, 0]);
    let fanouts = FanoutSpec::of_text("*=2,2;author=1,1").unwrap();
    let target = OptionValue::of_text("topic");
    let options = LoaderOptions {
        fanouts,
        fanout_per: FanoutPer::Node,
        target: target.unwrap(),
        edge_ids: false,
        ..options()
    };
    let mut runtime = Runtime::builder(&library.path).options(options.clone()).build().unwrap();
    let batch = runtime.next_batch().unwrap().unwrap();
    assert_eq!((batch.seeds_of(TOPIC).len(), batch.seeds_of(PAPER).len()), (2, 0));
    let key = BatchKey { split: Split::Train, epoch: 0, batch: 0 };
    let dataset = library.open().with_target(TOPIC);
    assert_eq!(batch.hash(), sampled(&dataset, &options, key).unwrap().hash());
    assert!(batch.rows_of(AUTHOR).is_none() && !batch.nodes_of(PAPER).is_empty());
    assert!(batch.block_of(0, Relation(4)).indices.len() <= 4);
}

#[test]
fn seeds_of_several_types_follow_one_order_and_keep_it_in_each_type() {
    let library = fixture::library();
    library.write("nodes/topic/label", NpyType::F32, &[2], &[0.5_f32, 1.5, 2.5, 3.5, 4.5, 5.5]);
    let given = [(PAPER, vec![5_i64, 1, 1, 4]), (TOPIC, vec![2, 0]), (AUTHOR, vec![0, 4, 4])];
    let seeds = || {
        let names = given.iter().zip(["paper", "topic", "author"]);
        names.map(|((_, ids), name)| (name.parse().unwrap(), InputNodes::Ids(ids.clone())))
    };
    // Positions run through the types in their own order.
    let order = [(PAPER, 0), (PAPER, 1), (PAPER, 2), (PAPER, 3), (AUTHOR, 0), (AUTHOR, 1), (AUTHOR, 2)];
    let order: Vec<(NodeType, i64)> = order.into_iter().chain([(TOPIC, 0), (TOPIC, 1)]).collect();
    let options = LoaderOptions { batch_size: 4, samplers: 2, ..options() };
    let all: InputSeeds = seeds().collect();
    let builder = Runtime::builder(&library.path).options(options.clone()).input_nodes(all);
    let mut runtime = builder.shuffle(true).epochs(2).build().unwrap();
    let labels = [0_i64, 1, 2, -1, 0, 1];
    let mut epochs = SeedOrder::new(options.seed, Split::Train, 9, true, 4, false).unwrap();
    for epoch in 0..2 {
        epochs.prepare(epoch).unwrap();
        for index in 0..3 {
            let batch = runtime.next_batch().unwrap().unwrap();
            for (of, ids) in &given {
                let here = epochs.batch(index).iter().map(|&position| order[position as usize]);
                let places: Vec<i64> = here.filter(|(known, _)| known == of).map(|(_, at)| at).collect();
                let expected: Vec<i64> = places.iter().map(|&at| ids[at as usize]).collect();
                assert_eq!(batch.seeds_of(*of), expected, "{of:?} in batch {index} of epoch {epoch}");
                assert_eq!(&batch.nodes_of(*of)[..expected.len()], expected);
                let input_id = batch.column_of(uva_batch::Column::InputId.of(*of)).unwrap();
                assert_eq!(input_id.i64().unwrap(), places);
                match batch.labels_of(*of) {
                    Labels::Single(found) => {
                        assert!(found.iter().eq(expected.iter().map(|&id| &labels[id as usize])));
                    }
                    Labels::Regression { values, .. } => {
                        let rows =
                            expected.iter().flat_map(|&id| [id as f32 * 2.0 + 0.5, id as f32 * 2.0 + 1.5]);
                        assert!(values.iter().copied().eq(rows));
                    }
                    _ => assert_eq!(*of, AUTHOR),
                }
            }
        }
    }
    assert!(runtime.next_batch().unwrap().is_none());
    let refused = |seeds: InputSeeds| {
        let builder = Runtime::builder(&library.path).options(options.clone());
        builder.input_nodes(seeds).build().map(drop).unwrap_err().to_string()
    };
    let of = |name: &str, nodes: InputNodes| (name.parse().unwrap(), nodes);
    let wrong = refused(seeds().chain([of("topic", InputNodes::All)]).collect());
    assert!(wrong.contains("nodes of type topic are given twice"), "{wrong}");
    let wrong = refused([of("topic", InputNodes::Mask(vec![true; 4]))].into_iter().collect());
    assert!(wrong.contains("topic: the mask has 4 entries for 3 nodes"), "{wrong}");
    let wrong = refused([of("topic", InputNodes::Ids(vec![0, 3]))].into_iter().collect());
    assert!(wrong.contains("topic: entry 1 is 3, outside the ids 0 to 2"), "{wrong}");
    let wrong = refused([of("topi", InputNodes::All)].into_iter().collect());
    assert!(wrong.contains("did you mean \"topic\"?"), "{wrong}");
}

#[test]
fn what_typed_graphs_do_not_support_is_refused_by_name() {
    let library = fixture::library();
    let refusal = |change: &dyn Fn(&mut LoaderOptions)| {
        let mut options = options();
        change(&mut options);
        let refused = runtime(&library, options).map(drop).unwrap_err();
        assert_eq!(refused.exit_code(), 2, "{refused}");
        refused.to_string()
    };
    let of_text = |field: &str, text: &str| {
        refusal(&|options| {
            let mut given = uva_options::PartialOptions::<LoaderOptions>::default();
            given.give(field, text).unwrap();
            *options = LoaderOptions {
                fanouts: options.fanouts.clone(),
                slot_bytes: options.slot_bytes,
                ..given.options()
            };
        })
    };
    for (field, text) in [("seed_order", "proximity"), ("aggregate", "mean"), ("edge_type", "true")] {
        let said = of_text(field, text);
        assert!(said.contains(field) && said.contains("not supported for typed graphs"), "{field}: {said}");
    }
    let ladies = refusal(&|options| options.sampler_kind = SamplerKind::LADIES);
    assert!(
        ladies.contains("neighbor, labor or weighted sample it") || ladies.contains("`fanouts`"),
        "{ladies}"
    );
    let unknown = refusal(&|options| options.fanouts = FanoutSpec::of_text("2;rites=2").unwrap());
    assert!(unknown.contains("did you mean \"writes\"?"), "{unknown}");
}
