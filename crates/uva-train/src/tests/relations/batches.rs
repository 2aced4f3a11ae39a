//! A small typed graph, a batch of it, and a trainer for it.

use crate::nn::random::SplitMix64;
use crate::tests::support::{below, f32_rows, i32s, options};
use crate::torch::device::TrainDevice;
use crate::train::trainer::Trainer;
use tch::Kind;
use uva_batch::{BatchColumns, BlockSize, Column, ColumnKey};
use uva_graph::Labels;
use uva_model::{ModelGraph, ModelKind, ModelType, TrainerOptions};

pub(super) const CLASSES: usize = 4;

/// The node types and their feature columns. No relation leads into tags, and the model does not read the last one.
pub(super) const TYPES: [(&str, usize); 4] = [("paper", 3), ("author", 7), ("tag", 2), ("venue", 0)];

pub(super) const RELATIONS: [[&str; 3]; 5] = [
    ["paper", "cites", "paper"],
    ["author", "writes", "paper"],
    ["paper", "by", "author"],
    ["tag", "of", "paper"],
    ["paper", "in", "venue"],
];

/// Nodes of each type that are destinations of each hop, and all nodes. The second relation into papers has no author in
/// the first hop of the third case.
pub(super) const COUNTS: [[usize; 4]; 3] = [[4, 0, 0, 0], [7, 5, 1, 2], [11, 8, 3, 2]];

/// Columns of the types in a graph whose features are equally wide.
pub(super) const EVEN: [usize; 4] = [4, 4, 4, 0];

pub(super) fn graph(widths: [usize; 4]) -> ModelGraph {
    let of_type = |((name, _), columns): ((&str, usize), usize)| ModelType {
        name: name.to_owned(),
        columns: (columns > 0).then_some(columns),
        nodes: None,
    };
    ModelGraph {
        types: TYPES.into_iter().zip(widths).map(of_type).collect(),
        relations: RELATIONS.map(|names| names.map(str::to_owned)).into(),
        target: "paper".to_owned(),
    }
}

pub(super) fn of_type(name: &str) -> usize {
    TYPES.iter().position(|(known, _)| *known == name).unwrap()
}

/// Options of two layers without dropout.
pub(super) fn options_of(model: ModelKind) -> TrainerOptions {
    let widths = TYPES.map(|(_, columns)| columns);
    TrainerOptions { graph: Some(graph(widths)), output_heads: None, ..options(model, 6, 2) }
}

pub(super) fn trainer(options: &TrainerOptions, kind: Kind) -> Trainer {
    Trainer::with_kind(options, 3, CLASSES, kind, TrainDevice::Cpu).unwrap()
}

/// The owned memory of a batch.
pub(super) struct TypedBatch {
    /// Offsets and sources of each relation in each hop, from the seeds.
    pub(super) lists: Vec<Vec<(Vec<i32>, Vec<i32>)>>,
    /// Rows of each type, and their columns.
    pub(super) rows: Vec<(Vec<f32>, usize)>,
    labels: Vec<i64>,
}

impl TypedBatch {
    /// Random lists of up to three sources, many of them empty.
    pub(super) fn random(seed: u64) -> Self {
        Self::of(&options_of(ModelKind::Rsage), seed)
    }

    /// The same for the types of a model.
    pub(super) fn of(options: &TrainerOptions, seed: u64) -> Self {
        let mut random = SplitMix64::new(seed);
        let mut lists = Vec::new();
        for level in 0..COUNTS.len() - 1 {
            let mut of_level = Vec::new();
            for [from, _, to] in RELATIONS {
                let (sources, destinations) = (COUNTS[level + 1][of_type(from)], COUNTS[level][of_type(to)]);
                let (mut indptr, mut indices) = (vec![0], Vec::new());
                for _ in 0..destinations {
                    for _ in 0..below(&mut random, 4) {
                        indices.push(below(&mut random, sources) as i32);
                    }
                    indptr.push(indices.len() as i32);
                }
                of_level.push((indptr, indices));
            }
            lists.push(of_level);
        }
        let nodes = COUNTS[COUNTS.len() - 1];
        let widths = options.graph.as_ref().unwrap().types.iter().map(|of_type| of_type.columns.unwrap_or(0));
        let mut row = |count: usize| (0..count).map(|_| random.symmetric() as f32).collect();
        let rows = nodes.iter().zip(widths).map(|(nodes, columns)| (row(nodes * columns), columns)).collect();
        Self { lists, rows, labels: vec![0, 2, -1, 1] }
    }

    pub(super) fn columns(&self) -> BatchColumns<'_> {
        let sizes = COUNTS.windows(2).map(|counts| BlockSize {
            destinations: counts[0][0],
            sources: counts[1][0],
            edges: 0,
        });
        let batch = BatchColumns::new(COUNTS[0][0], sizes.collect());
        let mut batch = batch.with_labels(Labels::Single(&self.labels));
        for (level, of_level) in self.lists.iter().enumerate() {
            for (part, (indptr, indices)) in of_level.iter().enumerate() {
                let at = |column: Column| ColumnKey { part, ..column.at(level) };
                batch = batch.with(at(Column::Indptr), i32s(indptr)).with(at(Column::Indices), i32s(indices));
            }
        }
        for (part, &(ref rows, columns)) in self.rows.iter().enumerate() {
            if columns > 0 {
                batch = batch.with(Column::X.part(part), f32_rows(rows, columns));
            }
        }
        batch
    }
}
