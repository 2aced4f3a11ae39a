//! Blocks in tensors, as on a device, compared with blocks on the host: both on the CPU here, so that libtorch's own
//! kernels are the only difference on a device.

use crate::block::aggregate::{Block, transposed};
use crate::block::block_kernel::{BlockPreparer, RawBlock};
use crate::block::tensor_block::TensorBlock;
use crate::input::prepared::Prepared;
use crate::tests::support::{Batch, Graph, MODELS, OwnedBlock, draws, fill_biases, options};
use crate::torch::device::TrainDevice;
use crate::train::trainer::Trainer;
use proptest::prelude::*;
use tch::{Device, Kind, Tensor};
use uva_model::{FeatureNorm, ModelKind, TrainerOptions};
use uva_ops::lists::Weights;

/// Any block: lists of 0 to 5 edges, sources without picks or with several, possibly empty; with degrees of its
/// sources.
fn any_block() -> impl Strategy<Value = (OwnedBlock, Vec<i32>)> {
    (0usize..9, 0usize..9)
        .prop_flat_map(|(destinations, more)| {
            let sources = destinations + more;
            let list = proptest::collection::vec(0..sources.max(1) as i32, 0..6);
            let degrees = proptest::collection::vec(0i32..1000, sources);
            (proptest::collection::vec(list, destinations), degrees, Just(sources), any::<bool>())
        })
        .prop_map(|(lists, degrees, sources, weighed)| {
            let mut indptr = vec![0];
            indptr.extend(lists.iter().scan(0, |sum, list| {
                *sum += list.len() as i32;
                Some(*sum)
            }));
            let indices = lists.concat();
            let weight = |edge: usize| (edge * 7 % 13) as f32 / 9.0;
            let weights = if weighed { (0..indices.len()).map(weight).collect() } else { Vec::new() };
            let block = OwnedBlock {
                destinations: lists.len(),
                sources,
                indptr,
                indices,
                weights,
                edge_attr: Vec::new(),
            };
            (block, degrees)
        })
}

/// Whether two tensors are equal except for the last places of sums of terms up to `largest`: libtorch's square root is
/// not always the host's.
fn close(found: &Tensor, expected: &Tensor, largest: f64) -> bool {
    let epsilon = if expected.kind() == Kind::Double { f64::EPSILON } else { f64::from(f32::EPSILON) };
    let values = |tensor: &Tensor| Vec::<f64>::try_from(tensor.to_kind(Kind::Double).flatten(0, -1)).unwrap();
    (found.size(), found.kind()) == (expected.size(), expected.kind())
        && values(found).iter().zip(values(expected)).all(|(a, b)| (a - b).abs() <= 64.0 * epsilon * largest)
}

fn numbers(tensor: &Tensor) -> Vec<i32> {
    assert_eq!(tensor.kind(), Kind::Int);
    Vec::try_from(tensor).unwrap()
}

/// Bounds any sum over edges of weight times an element of [`rows`].
fn edges_sum(weights: &Tensor) -> f64 {
    weights.abs().sum(Kind::Double).double_value(&[])
}

/// Rows that are all different, of elements between −1 and 1.
fn rows(count: usize, width: usize, kind: Kind) -> Tensor {
    let size = [count as i64, width as i64];
    Tensor::arange((count * width) as i64, (Kind::Double, Device::Cpu)).sin().view(size).to_kind(kind)
}

proptest! {
    #[test]
    fn weights_sums_and_transposed_lists_equal_those_of_the_host(
        (block, degrees) in any_block(), gcn: bool, double: bool,
    ) {
        let model = if gcn { ModelKind::Gcn } else { ModelKind::Sage };
        let kind = if double { Kind::Double } else { Kind::Float };
        let input = block.lists();
        let host = Block::new(model, &input, &degrees, kind).unwrap();
        let (indptr, indices) = (Tensor::from_slice(&block.indptr), Tensor::from_slice(&block.indices));
        let of_sources = Tensor::from_slice(&degrees);
        let weights = (!block.weights.is_empty()).then(|| Tensor::from_slice(&block.weights));
        let (weights, of_sources) = (weights.as_ref(), Some(&of_sources));
        // By libtorch's operations, and by the kernel.
        for preparer in [None, Some(&BlockPreparer::Host)] {
            let raw = RawBlock { sources: block.sources, lists: (&indptr, &indices), sampled: weights };
            let found = Block::from_tensors(preparer, model, &[raw], of_sources, kind).unwrap().swap_remove(0);

            let counts = |block: &Block<'_>| (block.destinations, block.sources, block.edges);
            prop_assert_eq!(counts(&found), counts(&host));
            let [found_weights, host_weights] = [&found, &host].map(|block| Tensor::from_slice(&block.edge_weights()));
            let largest = edges_sum(&host_weights).max(1.0);
            let kind_of = |weights: &Tensor| weights.to_kind(kind);
            prop_assert!(
                close(&kind_of(&found_weights), &kind_of(&host_weights), largest),
                "{:?} {:?}",
                found.edge_weights(),
                host.edge_weights()
            );
            prop_assert_eq!(found.own.is_some(), host.own.is_some());
            if let (Some(found), Some(host)) = (&found.own, &host.own) {
                prop_assert!(close(found, host, 1.0), "{:?} {:?}", found, host);
            }
            let x = rows(block.sources, 3, kind);
            prop_assert!(close(&found.aggregate(&x).unwrap(), &host.aggregate(&x).unwrap(), largest));
            let y = rows(block.destinations, 3, kind);
            prop_assert!(close(&found.spread(&y).unwrap(), &host.spread(&y).unwrap(), largest));
        }

        if !block.indices.is_empty() {
            let edge_weights: Vec<f64> = (0..block.indices.len()).map(|edge| edge as f64).collect();
            let (offsets, picked_by, weights) = transposed(&input, Weights::Each(&edge_weights)).unwrap();
            let lists = TensorBlock::new(&indptr, &indices, block.sources).unwrap();
            let lists = lists.transposed().unwrap();
            prop_assert_eq!(numbers(&lists.offsets), offsets);
            prop_assert_eq!(numbers(&lists.indices), picked_by);
            let order: Vec<f64> = weights;
            prop_assert_eq!(Vec::<f64>::try_from(lists.order.to_kind(Kind::Double)).unwrap(), order);
        }
    }

    #[test]
    fn lists_with_each_destination_at_their_ends_equal_those_made_by_loops((block, _) in any_block()) {
        let (indptr, indices) = (Tensor::from_slice(&block.indptr), Tensor::from_slice(&block.indices));
        let found = TensorBlock::new(&indptr, &indices, block.sources).unwrap().with_own().unwrap();
        let (mut offsets, mut sources, mut destinations) = (vec![0], Vec::new(), Vec::new());
        for v in 0..block.destinations {
            sources.extend(&block.indices[block.indptr[v] as usize..block.indptr[v + 1] as usize]);
            sources.push(v as i32);
            destinations.resize(sources.len(), v as i32);
            offsets.push(sources.len() as i32);
        }
        prop_assert_eq!(numbers(&found.offsets), offsets);
        prop_assert_eq!(numbers(&found.indices), sources);
        prop_assert_eq!(numbers(&found.destination_of_edge), destinations);
    }

    /// Possible leftovers of a producer that died halfway.
    #[test]
    fn numbers_out_of_range_never_leave_the_block(
        indptr in proptest::collection::vec(any::<i32>(), 2..9),
        indices in proptest::collection::vec(any::<i32>(), 1..30),
        sources in 8usize..20,
    ) {
        let (destinations, edges) = (indptr.len() - 1, indices.len());
        let block =
            TensorBlock::new(&Tensor::from_slice(&indptr), &Tensor::from_slice(&indices), sources).unwrap();
        let offsets = numbers(&block.offsets);
        prop_assert!(offsets.windows(2).all(|pair| pair[0] <= pair[1]), "{:?}", offsets);
        prop_assert!(offsets.iter().all(|&offset| 0 <= offset && offset as usize <= edges), "{:?}", offsets);
        let in_range = |found: &[i32], end: usize| found.iter().all(|&n| 0 <= n && (n as usize) < end);
        prop_assert!(in_range(&numbers(&block.indices), sources));
        let lists = (&Tensor::from_slice(&indptr), &Tensor::from_slice(&indices));
        let raw = RawBlock { sources, lists, sampled: None };
        let mut prepared = BlockPreparer::Host.prepare(ModelKind::Sage, &[raw], None, Kind::Float).unwrap();
        let (by_kernel, weights, _) = prepared.swap_remove(0);
        for (found, expected) in [
            (&by_kernel.offsets, &block.offsets),
            (&by_kernel.indices, &block.indices),
            (&by_kernel.destination_of_edge, &block.destination_of_edge),
            (&weights, &block.weights(ModelKind::Sage, None, None, Kind::Float).unwrap().0),
        ] {
            prop_assert!(found.equal(expected), "{:?} instead of {:?}", found, expected);
        }
        let own = block.with_own().unwrap();
        let (offsets, all) = (numbers(&own.offsets), (edges + destinations) as i32);
        prop_assert_eq!((offsets[0], offsets[destinations]), (0, all));
        prop_assert!(offsets.windows(2).all(|pair| pair[0] < pair[1]), "{:?}", offsets);
        prop_assert!(in_range(&numbers(&own.indices), sources));
        prop_assert!(in_range(&numbers(&own.destination_of_edge), destinations));
        let lists = block.transposed().unwrap();
        prop_assert!(in_range(&numbers(&lists.indices), destinations));
        let offsets = numbers(&lists.offsets);
        prop_assert_eq!((offsets[0], offsets[sources] as usize), (0, edges));
    }
}

/// Batches of a graph with a hub, lonely nodes and missing labels; the last one has no edges at all.
fn batches(graph: &Graph) -> Vec<Batch> {
    let mut batches: Vec<Batch> = (0..6)
        .map(|number| {
            let seeds: Vec<usize> = (0..8).map(|i| (number * 5 + i * 3) % graph.nodes()).collect();
            graph.batch(&seeds, &[3, 4])
        })
        .collect();
    batches.push(graph.batch(&[3, 10, 17], &[3, 3]));
    batches
}

#[test]
fn training_through_tensors_equals_training_through_the_host() {
    for model in MODELS {
        // Both orders of multiplying and aggregating.
        for (dim, hidden) in [(3, 8), (200, 2)] {
            let graph = Graph::random(50, dim, 3, 6);
            let options = TrainerOptions {
                dropout: 0.3,
                input_dropout: 0.1,
                weight_decay: 5e-4,
                feature_norm: FeatureNorm::Row,
                ..options(model, hidden, 2)
            };
            let new = || Trainer::new(&options, dim, 3, TrainDevice::Cpu).unwrap();
            let (mut host, mut tensors, mut kernel) = (new(), new(), new());
            kernel.preparer = Some(BlockPreparer::Host);
            for (number, batch) in batches(&graph).iter().enumerate() {
                let input = batch.columns();
                let expected = host.train_batch(1, number as u32, &input, &mut || Ok(())).unwrap();
                let prepared = Prepared::copied(&tensors.trains(), &input, Device::Cpu).unwrap();
                let found = tensors.train_prepared(1, number as u32, prepared, &mut || Ok(())).unwrap();
                let prepared = Prepared::copied(&kernel.trains(), &input, Device::Cpu).unwrap();
                let by_kernel = kernel.train_prepared(1, number as u32, prepared, &mut || Ok(())).unwrap();
                let close = (by_kernel.loss - found.loss).abs() <= 1e-6 * found.loss;
                assert!(close, "{model:?} {dim} batch {number}: {by_kernel:?} {found:?}");
                let far = (found.loss - expected.loss).abs() / expected.loss.max(f32::MIN_POSITIVE);
                assert!(far < 1e-5, "{model:?} {dim} batch {number}: {found:?} {expected:?}");
                assert_eq!((found.correct, found.labelled), (expected.correct, expected.labelled));
            }
            assert!(host.steps().unwrap() > 5);
        }
    }
}

#[test]
fn gradients_through_tensors_equal_those_through_the_host() {
    for model in MODELS {
        for (dim, hidden) in [(3, 8), (200, 2)] {
            let graph = Graph::random(50, dim, 3, 6);
            let trainer =
                Trainer::with_kind(&options(model, hidden, 2), dim, 3, Kind::Double, TrainDevice::Cpu)
                    .unwrap();
            fill_biases(&trainer);
            for batch in batches(&graph) {
                let input = batch.columns();
                let gradients = |blocks: &[Block<'_>]| {
                    let x = Tensor::from_slice(&batch.features).to_kind(Kind::Double).view([-1, dim as i64]);
                    let forward = trainer.model.forward(x, blocks, Some(&mut draws())).unwrap();
                    trainer.model.backward(&forward, blocks, forward.logits.sin()).unwrap().parameters
                };
                let host = batch.blocks(model);
                let prepared = Prepared::copied(&trainer.trains(), &input, Device::Cpu).unwrap().unwrap();
                for (found, expected) in gradients(&prepared.0.blocks).iter().zip(gradients(&host)) {
                    assert!((found - &expected).abs().max().double_value(&[]) < 1e-12, "{model:?} {dim}");
                    assert_eq!(found.size(), expected.size());
                }
            }
        }
    }
}
