//! Small graphs, their blocks, and a network in plain Rust to compare with.

use crate::TrainDevice;
use crate::block::aggregate::{Block, HostLists};
use crate::graph::whole_graph::WholeGraph;
use crate::nn::dropout::Draws;
use crate::nn::random::SplitMix64;
use crate::torch::borrowed::Borrowed;
use crate::train::trainer::Trainer;
use std::collections::HashMap;
use tch::Kind;
use uva_batch::{BatchColumns, BlockSize, Column, ColumnArray, Element};
use uva_graph::{Csc, ElementType, FeatureTable, Indices, Labels};
use uva_model::{FeatureNorm, ModelKind, NormKind, TrainerOptions};

/// A graph with everything a batch is made from.
pub(crate) struct Graph {
    pub(crate) indptr: Vec<i64>,
    pub(crate) indices: Vec<i32>,
    pub(crate) features: Vec<f32>,
    pub(crate) dim: usize,
    pub(crate) labels: Vec<i64>,
    /// [`EDGE_DIM`] features of each edge, in the order of `indices`.
    pub(crate) edge_features: Vec<f32>,
}

/// Features of an edge.
pub(crate) const EDGE_DIM: usize = 3;

/// An integer below `bound`, for tests.
pub(crate) fn below(random: &mut SplitMix64, bound: usize) -> usize {
    (((random.symmetric() + 1.0) / 2.0) * bound as f64) as usize
}

impl Graph {
    /// An undirected graph in which each node has a few random neighbours, some none; node 0 is a hub. The label is
    /// planted in the features, and in most edges but the hub's; some labels are missing.
    pub(crate) fn random(nodes: usize, dim: usize, classes: usize, seed: u64) -> Self {
        let mut random = SplitMix64::new(seed);
        let mut labels: Vec<i64> = (0..nodes).map(|_| below(&mut random, classes) as i64).collect();
        let mut lists = vec![Vec::new(); nodes];
        for v in 1..nodes {
            if v % 7 == 3 {
                continue;
            }
            for _ in 0..below(&mut random, 8) + 4 {
                let u = if below(&mut random, 8) == 0 { 0 } else { below(&mut random, nodes) };
                let planted = u == 0 || labels[u] == labels[v] || below(&mut random, 6) == 0;
                if planted && u != v && u % 7 != 3 && !lists[v].contains(&(u as i32)) {
                    lists[v].push(u as i32);
                    lists[u].push(v as i32);
                }
            }
        }
        let mut indptr = vec![0];
        for list in &lists {
            indptr.push(indptr[indptr.len() - 1] + list.len() as i64);
        }
        let mut features: Vec<f32> = (0..nodes * dim).map(|_| random.symmetric() as f32).collect();
        for v in 0..nodes {
            features[v * dim + labels[v] as usize % dim] += 1.0;
            if v % 5 == 4 {
                labels[v] = -1;
            }
        }
        let indices = lists.concat();
        // From a separate generator, so that the rest of the graph does not change.
        let mut random = SplitMix64::new(seed + 1000);
        let edge_features = (0..indices.len() * EDGE_DIM).map(|_| random.symmetric() as f32).collect();
        Self { indptr, indices, features, dim, labels, edge_features }
    }

    pub(crate) fn nodes(&self) -> usize {
        self.indptr.len() - 1
    }

    pub(crate) fn list(&self, v: usize) -> &[i32] {
        &self.indices[self.indptr[v] as usize..self.indptr[v + 1] as usize]
    }

    pub(crate) fn csc(&self) -> Csc<'_> {
        Csc { indptr: &self.indptr, indices: Indices::I32(&self.indices), original_ids: None, degrees: None }
    }

    /// The graph with the edge features.
    pub(crate) fn whole(&self) -> WholeGraph<'_> {
        let (bytes, rows) = (bytemuck::cast_slice(&self.edge_features), self.indices.len());
        let table = FeatureTable { bytes, rows, dim: EDGE_DIM, element: ElementType::F32 };
        WholeGraph { csc: self.csc(), edge_features: Some(table) }
    }

    pub(crate) fn table(&self) -> FeatureTable<'_> {
        let bytes = bytemuck::cast_slice(&self.features);
        FeatureTable { bytes, rows: self.nodes(), dim: self.dim, element: ElementType::F32 }
    }

    /// A batch of `seeds` with at most `fanouts[l]` neighbours picked at hop l: those at rotating places of the list,
    /// which is not random but is a pick.
    pub(crate) fn batch(&self, seeds: &[usize], fanouts: &[usize]) -> Batch {
        let mut nodes: Vec<usize> = seeds.to_vec();
        let mut local: HashMap<usize, i32> = nodes.iter().enumerate().map(|(i, &v)| (v, i as i32)).collect();
        let mut blocks = Vec::new();
        for (hop, &fanout) in fanouts.iter().enumerate() {
            let destinations = nodes.len();
            let (mut indptr, mut indices) = (vec![0], Vec::new());
            let mut edge_attr = Vec::new();
            for v in 0..destinations {
                let list = self.list(nodes[v]);
                for pick in 0..fanout.min(list.len()) {
                    let picked = (pick + nodes[v] + hop) % list.len();
                    let u = list[picked] as usize;
                    let edge = self.indptr[nodes[v]] as usize + picked;
                    edge_attr.extend_from_slice(&self.edge_features[edge * EDGE_DIM..][..EDGE_DIM]);
                    indices.push(*local.entry(u).or_insert_with(|| {
                        nodes.push(u);
                        nodes.len() as i32 - 1
                    }));
                }
                indptr.push(indices.len() as i32);
            }
            let weights = Vec::new();
            let sources = nodes.len();
            blocks.push(OwnedBlock { destinations, sources, indptr, indices, weights, edge_attr });
        }
        let features =
            nodes.iter().flat_map(|&v| self.features[v * self.dim..][..self.dim].to_vec()).collect();
        let degrees = nodes.iter().map(|&v| self.list(v).len() as i32).collect();
        let labels = seeds.iter().map(|&v| self.labels[v]).collect();
        Batch { nodes, features, degrees, labels, blocks, dim: self.dim }
    }
}

/// Owned memory of one block.
#[derive(Debug)]
pub(crate) struct OwnedBlock {
    pub(crate) destinations: usize,
    pub(crate) sources: usize,
    pub(crate) indptr: Vec<i32>,
    pub(crate) indices: Vec<i32>,
    pub(crate) weights: Vec<f32>,
    pub(crate) edge_attr: Vec<f32>,
}

/// Owned memory of one batch.
pub(crate) struct Batch {
    pub(crate) nodes: Vec<usize>,
    pub(crate) features: Vec<f32>,
    pub(crate) degrees: Vec<i32>,
    pub(crate) labels: Vec<i64>,
    pub(crate) blocks: Vec<OwnedBlock>,
    pub(crate) dim: usize,
}

impl OwnedBlock {
    pub(crate) fn lists(&self) -> HostLists<'_> {
        let Self { destinations, sources, ref indptr, ref indices, ref weights, .. } = *self;
        HostLists { destinations, sources, indptr, indices, weights }
    }

    /// The block as a model reads it, in float64.
    pub(crate) fn block(&self, model: ModelKind, degrees: &[i32]) -> Block<'_> {
        let mut block = Block::new(model, &self.lists(), degrees, Kind::Double).unwrap();
        if !self.edge_attr.is_empty() || self.indices.is_empty() {
            let rows = f32_rows(&self.edge_attr, EDGE_DIM);
            block.edge_attr = Some(Borrowed::array(&rows, "edges", TrainDevice::Cpu).unwrap());
        }
        block
    }

    pub(crate) fn counts(&self) -> BlockSize {
        BlockSize { destinations: self.destinations, sources: self.sources, edges: self.indices.len() }
    }
}

/// int32 in host memory.
pub(crate) fn i32s(values: &[i32]) -> ColumnArray<'_> {
    ColumnArray::vector(values, Element::I32)
}

/// Rows of float32 in host memory.
pub(crate) fn f32_rows(values: &[f32], width: usize) -> ColumnArray<'_> {
    ColumnArray::table(bytemuck::cast_slice(values), Element::F32, values.len() / width, width)
}

impl Batch {
    /// The blocks as a model reads them, in float64.
    pub(crate) fn blocks(&self, model: ModelKind) -> Vec<Block<'_>> {
        self.blocks.iter().map(|block| block.block(model, &self.degrees)).collect()
    }

    /// The first `count` blocks, and all other arrays.
    pub(crate) fn of_blocks(&self, count: usize) -> BatchColumns<'_> {
        let blocks = &self.blocks[..count];
        let layers = blocks.iter().map(OwnedBlock::counts).collect();
        let mut columns = BatchColumns::new(self.labels.len(), layers)
            .with_labels(Labels::Single(&self.labels))
            .with(Column::X, f32_rows(&self.features, self.dim))
            .with(Column::Degrees, i32s(&self.degrees));
        for (layer, block) in blocks.iter().enumerate() {
            columns = columns
                .with(Column::Indptr.at(layer), i32s(&block.indptr))
                .with(Column::Indices.at(layer), i32s(&block.indices))
                .with(Column::EdgeAttr.at(layer), f32_rows(&block.edge_attr, EDGE_DIM));
            if !block.weights.is_empty() {
                let weights = ColumnArray::vector(&block.weights, Element::F32);
                columns = columns.with(Column::Weights.at(layer), weights);
            }
        }
        columns
    }

    pub(crate) fn columns(&self) -> BatchColumns<'_> {
        self.of_blocks(self.blocks.len())
    }
}

/// Every network over sampled blocks.
pub(crate) const MODELS: [ModelKind; 5] =
    [ModelKind::Sage, ModelKind::Gcn, ModelKind::Gat, ModelKind::Gin, ModelKind::Gine];

/// All combinations of residuals and normalisation.
pub(crate) const SHAPES_OF_NETS: [(bool, NormKind); 4] =
    [(false, NormKind::None), (false, NormKind::Layer), (true, NormKind::None), (true, NormKind::Layer)];

/// Options without dropout or weight decay, one thread.
pub(crate) fn options(model: ModelKind, hidden: usize, layers: usize) -> TrainerOptions {
    TrainerOptions {
        model,
        hidden,
        heads: if hidden.is_multiple_of(2) { 2 } else { 1 },
        output_heads: hidden.is_multiple_of(4).then_some(3),
        attention_dropout: 0.0,
        edge_dim: if model.row().needs_edge_features() { EDGE_DIM } else { 0 },
        residual: false,
        norm: NormKind::None,
        layers,
        dropout: 0.0,
        input_dropout: 0.0,
        learning_rate: 0.01,
        weight_decay: 0.0,
        feature_norm: FeatureNorm::None,
        seed: 17,
        threads: Some(1),
        ..TrainerOptions::default()
    }
}

/// Gives the biases and GIN's ε, which start as zeros, the scales of norms, which start as ones, and the slopes of
/// PReLUs values that show where they are used.
pub(crate) fn fill_biases(trainer: &Trainer) {
    let mut random = SplitMix64::new(3);
    let start_alike = |name: &String| {
        let ends = ["bias", "norm.weight", "eps", "slope"];
        let parts = [".bias.", ".skip.", ".p_rel."];
        ends.iter().any(|end| name.ends_with(end)) || parts.iter().any(|part| name.contains(part))
    };
    for (_, tensor) in trainer.model.parameters().into_iter().filter(|(name, _)| start_alike(name)) {
        let values: Vec<f64> = (0..tensor.numel()).map(|_| 0.5 * random.symmetric()).collect();
        tch::no_grad(|| tensor.shallow_clone().copy_(&tch::Tensor::from_slice(&values)));
    }
}

/// Every parameter of a trainer as f64, by name, with its shape.
pub(crate) fn parameters(trainer: &Trainer) -> Vec<(String, Vec<i64>, Vec<f64>)> {
    let flat =
        |t: &tch::Tensor| Vec::<f64>::try_from(t.detach().to_kind(tch::Kind::Double).flatten(0, -1)).unwrap();
    trainer.model.parameters().iter().map(|(name, t)| (name.clone(), t.size(), flat(t))).collect()
}

/// Bits of every parameter, for comparisons that round nothing.
pub(crate) fn parameter_bits(trainer: &Trainer) -> Vec<u64> {
    parameters(trainer).iter().flat_map(|(_, _, values)| values.iter().map(|v| v.to_bits())).collect()
}

/// The random numbers of a training pass, the same for every call.
pub(crate) fn draws() -> Draws {
    Draws::new(crate::TrainDevice::Cpu, 5)
}
