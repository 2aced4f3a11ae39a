//! Passes over a whole typed graph, compared with one batch that has all nodes and all their neighbours at every hop.

use super::batches::{CLASSES, RELATIONS, TYPES, of_type, options_of};
use super::formulas::{every_kind, name};
use crate::TrainError;
use crate::block::aggregate::{Block, HostLists};
use crate::graph::full_table::Tables;
use crate::graph::whole_data::{WholeData, WholeType};
use crate::hops::inputs::Inputs;
use crate::nn::random::SplitMix64;
use crate::tests::support::{below, fill_biases};
use crate::torch::device::TrainDevice;
use crate::train::trainer::Trainer;
use crate::whole::full_layer::Stream;
use crate::whole::relation_pass::{PIECE_VALUES, RelationPass};
use std::ops::Range;
use tch::{Kind, Tensor};
use uva_graph::{Csc, ElementType, FeatureTable, Indices, Labels};
use uva_model::{Footprint, ModelKind, RootKind, Shapes, TrainerOptions};

/// Nodes of each type.
const NODES: [usize; 4] = [31, 17, 6, 0];

/// A graph with lists of up to six neighbours, some with repetitions and some empty; the first node of a type has many.
struct Graph {
    lists: Vec<(Vec<i64>, Vec<i32>)>,
    rows: Vec<Vec<f32>>,
    columns: Vec<usize>,
    labels: Vec<i64>,
}

impl Graph {
    fn random(options: &TrainerOptions, seed: u64) -> Self {
        let mut random = SplitMix64::new(seed);
        let mut lists = Vec::new();
        for [from, _, to] in RELATIONS {
            let (sources, destinations) = (NODES[of_type(from)], NODES[of_type(to)]);
            let (mut indptr, mut indices) = (vec![0], Vec::new());
            for v in 0..destinations {
                for _ in 0..below(&mut random, if v == 0 { 40 } else { 7 }) {
                    indices.push(below(&mut random, sources) as i32);
                }
                indptr.push(indices.len() as i64);
            }
            lists.push((indptr, indices));
        }
        let types = &options.graph.as_ref().unwrap().types;
        let columns: Vec<usize> = types.iter().map(|of_type| of_type.columns.unwrap_or(0)).collect();
        let mut row = |count: usize| (0..count).map(|_| random.symmetric() as f32).collect();
        let rows = NODES.iter().zip(&columns).map(|(nodes, columns)| row(nodes * columns)).collect();
        let labels = (0..NODES[0] as i64).map(|v| if v % 5 == 3 { -1 } else { v % CLASSES as i64 }).collect();
        Self { lists, rows, columns, labels }
    }

    fn data(&self) -> WholeData<'_> {
        let of_type = |of: usize| {
            let (nodes, dim) = (NODES[of], self.columns[of]);
            let bytes = bytemuck::cast_slice(&self.rows[of]);
            let table = FeatureTable { bytes, rows: nodes, dim, element: ElementType::F32 };
            WholeType { nodes, features: (dim > 0).then_some(table) }
        };
        let relations = self.lists.iter().map(|(indptr, indices)| {
            let indices = Indices::I32(indices);
            Csc { indptr, indices, original_ids: None, degrees: None }.into()
        });
        WholeData {
            types: (0..TYPES.len()).map(of_type).collect(),
            relations: relations.collect(),
            unread: Vec::new(),
        }
    }
}

/// The logits of all papers as one batch in which every node is a seed. Lists are empty of the relations in hops that
/// are `unread`.
fn expected(trainer: &Trainer, graph: &Graph, unread: &[(usize, usize)]) -> Tensor {
    let network = trainer.model.relations().unwrap();
    let offsets: Vec<Vec<i32>> =
        graph.lists.iter().map(|(indptr, _)| indptr.iter().map(|&offset| offset as i32).collect()).collect();
    let empty = vec![0i32; NODES[0] + 1];
    let (mut blocks, layers) = (Vec::new(), &network.wiring().layers);
    for (number, layer) in layers.iter().enumerate() {
        for of in &layer.relations {
            let (destinations, sources) = (NODES[of.destination], NODES[of.source]);
            let is_read = !unread.contains(&(layers.len() - 1 - number, of.relation));
            let (indptr, indices) = match is_read {
                true => (&offsets[of.relation][..], &graph.lists[of.relation].1[..]),
                false => (&empty[..=destinations], &[][..]),
            };
            let lists = HostLists { destinations, sources, indptr, indices, weights: &[] };
            blocks.push(Block::new(trainer.options().model, &lists, &[], trainer.kind()).unwrap());
        }
    }
    let mut trained = 0..;
    let rows = network.wiring().inputs.iter().map(|&of| match graph.columns[of] {
        0 => {
            let all: Vec<i64> = (0..NODES[of] as i64).collect();
            trainer.embeddings.rows(trained.next().unwrap(), &all).unwrap().to_kind(trainer.kind())
        }
        columns => Tensor::from_slice(&graph.rows[of]).view([-1, columns as i64]).to_kind(trainer.kind()),
    });
    let inputs = Inputs(rows.collect());
    trainer.model.forward(inputs, &blocks, None).unwrap().logits
}

/// Collects all logits.
struct All(Vec<Tensor>);

impl Stream for All {
    fn wants(&self, _: &Range<usize>) -> bool {
        true
    }

    fn take(&mut self, chunk: &Range<usize>, rows: Tensor) -> Result<(), TrainError> {
        assert_eq!(chunk.len() as i64, rows.size2()?.0);
        self.0.push(rows);
        Ok(())
    }
}

fn found(trainer: &Trainer, data: &WholeData<'_>, tables: Tables<'_>, piece_values: usize) -> Tensor {
    let network = trainer.model.relations().unwrap();
    let pass = RelationPass { trainer, network, data, tables, piece_values };
    pass.check().unwrap();
    let (mut all, mut ticks) = (All(Vec::new()), 0);
    let _no_grad = tch::no_grad_guard();
    pass.run(&mut all, &mut || {
        ticks += 1;
        Ok(())
    })
    .unwrap();
    assert_eq!(ticks, pass.ticks());
    Tensor::cat(&all.0, 0)
}

fn trainer(options: &TrainerOptions) -> Trainer {
    let trainer = Trainer::with_kind(options, 3, CLASSES, Kind::Double, TrainDevice::Cpu).unwrap();
    fill_biases(&trainer);
    trainer
}

/// Papers and authors have no features.
fn without_features(options: TrainerOptions) -> TrainerOptions {
    let mut graph = options.graph.clone().unwrap();
    for name in ["paper", "author"] {
        let of_type = of_type(name);
        (graph.types[of_type].columns, graph.types[of_type].nodes) = (None, Some(NODES[of_type]));
    }
    TrainerOptions { graph: Some(graph), embedding_dim: Some(5), ..options }
}

#[test]
fn a_whole_graph_in_pieces_of_any_size_equals_one_batch_of_all_nodes() {
    let directory = tempfile::tempdir().unwrap();
    let bare = every_kind().into_iter().filter(|options| options.relation_weights == Default::default());
    let bare: Vec<_> = bare.map(without_features).collect();
    for options in every_kind().into_iter().chain(bare) {
        for layers in [1, 3] {
            let options = TrainerOptions { layers, ..options.clone() };
            let (trainer, graph) = (trainer(&options), Graph::random(&options, 7));
            let (data, expected) = (graph.data(), expected(&trainer, &graph, &[]));
            assert_eq!(expected.size(), [NODES[0] as i64, CLASSES as i64]);
            let files = Tables::Files(directory.path());
            // Pieces of one node, of some, and of all.
            for (tables, piece_values) in [(Tables::Memory, 1), (files, 60), (Tables::Memory, PIECE_VALUES)] {
                let found = found(&trainer, &data, tables, piece_values);
                let difference = (found - &expected).abs().max().double_value(&[]);
                let name = format!("{} {layers} {tables:?} {piece_values}", name(&options));
                assert!(difference < 1e-12, "{name}: {difference}");
            }
        }
    }
}

#[test]
fn relations_without_picks_in_a_hop_are_not_read_in_its_layer() {
    for options in every_kind() {
        let (trainer, graph) = (trainer(&options), Graph::random(&options, 7));
        let whole = expected(&trainer, &graph, &[]);
        for unread in [vec![(0, 0)], vec![(1, 0)], vec![(0, 1), (1, 1), (1, 2)]] {
            let data = WholeData { unread: unread.clone(), ..graph.data() };
            let (found, expected) =
                (found(&trainer, &data, Tables::Memory, 60), expected(&trainer, &graph, &unread));
            let difference = (found - &expected).abs().max().double_value(&[]);
            assert!(difference < 1e-12, "{} {unread:?}: {difference}", name(&options));
            assert!(
                (expected - &whole).abs().max().double_value(&[]) > 1e-3,
                "{} {unread:?}",
                name(&options)
            );
        }
    }
}

#[test]
fn evaluation_of_a_typed_graph_counts_the_labels_of_the_target() {
    for model in [ModelKind::Rsage, ModelKind::Rgcn, ModelKind::Rgat, ModelKind::Hgt] {
        let root = if model == ModelKind::Rgcn { RootKind::Type } else { RootKind::Relation };
        let options = TrainerOptions { root, ..options_of(model) };
        let (trainer, graph) = (trainer(&options), Graph::random(&options, 3));
        let sets: [&[i64]; 3] = [&[5, 0, 30, 3], &[], &[8]];
        let evaluations =
            trainer.evaluate_full_each(graph.data(), Labels::Single(&graph.labels), &sets).unwrap();
        let logits = expected(&trainer, &graph, &[]);
        let losses = logits.log_softmax(1, Kind::Double);
        for (ids, found) in sets.into_iter().zip(evaluations) {
            let labelled = ids.iter().filter(|&&id| graph.labels[id as usize] >= 0);
            let (mut loss, mut correct, mut count) = (0.0, 0, 0);
            for &id in labelled {
                let label = graph.labels[id as usize];
                loss -= losses.double_value(&[id, label]);
                correct += usize::from(logits.get(id).argmax(0, false).int64_value(&[]) == label);
                count += 1;
            }
            assert_eq!((found.labelled, found.correct), (count, correct), "{model:?} {ids:?}");
            assert!((found.loss_sum - loss).abs() < 1e-9, "{model:?} {ids:?}: {} {loss}", found.loss_sum);
        }
    }
}

#[test]
fn rows_of_each_element_type_are_gathered_as_they_are_converted() {
    let options = options_of(ModelKind::Rgat);
    let trainer = trainer(&options);
    let columns = 7;
    for (element, kind) in [
        (ElementType::F16, Kind::Half),
        (ElementType::Bf16, Kind::BFloat16),
        (ElementType::E4m3, Kind::Float8e4m3fn),
        (ElementType::U8, Kind::Uint8),
        (ElementType::I8, Kind::Int8),
    ] {
        let mut graph = Graph::random(&options, 5);
        let scaled = Tensor::from_slice(&graph.rows[1]) * 5.0;
        let stored = scaled.abs().to_kind(kind);
        let mut bytes = vec![0; stored.numel() * kind.elt_size_in_bytes()];
        stored.copy_data_u8(&mut bytes, stored.numel());
        graph.rows[1] = Vec::try_from(stored.to_kind(Kind::Float)).unwrap();
        let mut data = graph.data();
        let table = FeatureTable { bytes: &bytes, rows: NODES[1], dim: columns, element };
        data.types[1].features = Some(table);
        let difference = found(&trainer, &data, Tables::Memory, 60) - expected(&trainer, &graph, &[]);
        assert!(difference.abs().max().double_value(&[]) < 1e-12, "{element:?}");
    }
}

#[test]
fn whole_data_that_contradict_the_model_are_refused_by_name() {
    let options = options_of(ModelKind::Rsage);
    let (trainer, graph) = (trainer(&options), Graph::random(&options, 3));
    let labels = Labels::Single(&graph.labels);
    let refused = |data: WholeData<'_>, message: &str| {
        let error = trainer.evaluate_full(data, labels, &[0]).unwrap_err();
        assert!(error.is_usage() && error.to_string().contains(message), "{message}: {error}");
    };
    let mut data = graph.data();
    data.types.pop();
    refused(data, "3 node types and 5 relations for a model of 4 and 5");
    let mut data = graph.data();
    data.types[1].features = None;
    refused(data, "author: no features for a model of 7 columns");
    let mut data = graph.data();
    data.types[1].nodes += 1;
    refused(data, "author: 17 rows of 7 features, where 18 of 7 are needed");
    let mut data = graph.data();
    data.relations.swap(0, 2);
    refused(data, "paper__cites__paper: lists of 17 nodes, where there are 31");
    let mut indptr = graph.lists[1].0.clone();
    indptr[3] = indptr[4] + 1;
    let mut data = graph.data();
    data.relations[1].csc.indptr = &indptr;
    refused(data, "author__writes__paper: the graph's offsets fall at node 3");
    let mut indices = graph.lists[1].1.clone();
    indices[5] = 17;
    let mut data = graph.data();
    data.relations[1].csc.indices = Indices::I32(&indices);
    refused(data, "neighbour 17 at edge 5 of author__writes__paper, which has 17 author nodes");
    let error = trainer.evaluate_full(graph.data(), Labels::Single(&graph.labels[1..]), &[0]).unwrap_err();
    assert!(error.to_string().contains("31 nodes with 30 labels"), "{error}");
}

#[test]
fn memory_counts_the_rows_of_each_type_that_a_layer_reads_and_makes() {
    let [papers, authors, tags, _] = NODES.map(|nodes| nodes as u64);
    for (model, layers, rows) in [
        // A layer reads the table of the one before it. The first reads the dataset's rows, and the last makes chunks.
        (ModelKind::Rsage, 1, 0),
        (ModelKind::Rsage, 2, papers + authors),
        (ModelKind::Rsage, 3, 2 * (papers + authors)),
        // Mapped inputs are a table.
        (ModelKind::Hgt, 1, papers + authors + tags),
        (ModelKind::Hgt, 2, papers + authors + tags + papers + authors),
    ] {
        let options = TrainerOptions { layers, ..options_of(model) };
        let values = rows * options.hidden as u64;
        let nodes_evaluated = Some(NODES.to_vec());
        let shapes = Shapes { input_dim: 3, classes: CLASSES, seeds: 0, nodes_evaluated };
        let footprint = Footprint::new(&options, &shapes);
        assert_eq!(footprint.evaluation_bytes, 4 * values, "{model:?} {layers}");
        let on_disk = trainer(&options).bytes_of_tables(&NODES).unwrap();
        assert_eq!(on_disk, 8 * values, "{model:?} {layers}");
    }
}
