//! A small hop set in memory, and options of the models that train on one.

use crate::hops::inputs::Inputs;
use crate::nn::random::SplitMix64;
use crate::tests::support;
use crate::torch::host;
use crate::train::trainer::Trainer;
use tch::{Kind, Tensor};
use uva_batch::{BatchColumns, Column, ColumnArray, Element};
use uva_graph::Labels;
use uva_model::{ModelKind, TrainerOptions};

/// Every model over a hop set.
pub(crate) const HOP_MODELS: [ModelKind; 4] =
    [ModelKind::Sgc, ModelKind::S2gc, ModelKind::Sign, ModelKind::Hoga];

/// Classes of the labels.
pub(crate) const CLASSES: usize = 3;

/// Rows of some nodes in the tables of a hop set.
pub(crate) struct HopSet {
    /// x, hops 1 to R of the first operator, of the second, and so on: f32 [seeds, dim], on 64-byte boundaries.
    pub(crate) tables: Vec<Tensor>,
    pub(crate) labels: Vec<i64>,
    pub(crate) seeds: usize,
    /// Hops of each operator.
    pub(crate) hops: usize,
}

impl HopSet {
    /// Values are multiples of 1/64 within ±2, which every element type of hop sets except bfloat16 represents. The
    /// label is planted in every table; some are missing.
    pub(crate) fn random((seeds, dim): (usize, usize), (hops, operators): (usize, usize), seed: u64) -> Self {
        let mut random = SplitMix64::new(seed);
        let labels: Vec<i64> = (0..seeds).map(|_| support::below(&mut random, CLASSES) as i64).collect();
        let mut table = || {
            let mut values: Vec<f32> =
                (0..seeds * dim).map(|_| (random.symmetric() * 64.0).round() as f32 / 64.0).collect();
            for (node, &label) in labels.iter().enumerate() {
                values[node * dim + label as usize % dim] += 1.0;
            }
            Tensor::from_slice(&values).view([seeds as i64, dim as i64])
        };
        let tables = (0..1 + hops * operators).map(|_| table()).collect();
        let labels = labels.into_iter().zip(0..).map(|(label, node)| if node % 5 == 4 { -1 } else { label });
        Self { tables, labels: labels.collect(), seeds, hops }
    }

    /// The tables that a model of `options` reads.
    pub(crate) fn read(&self, options: &TrainerOptions) -> Vec<&Tensor> {
        options.tables_read(self.hops).into_iter().map(|table| &self.tables[table]).collect()
    }

    /// The tables in f64, as the network reads them.
    pub(crate) fn inputs(&self, options: &TrainerOptions) -> Inputs {
        Inputs(self.read(options).into_iter().map(|table| table.to_kind(Kind::Double)).collect())
    }

    /// A batch of all nodes with these tables.
    pub(crate) fn batch<'a>(&'a self, tables: &[ColumnArray<'a>]) -> BatchColumns<'a> {
        let batch = BatchColumns::new(self.seeds, Vec::new()).with_labels(Labels::Single(&self.labels));
        (0..).zip(tables).fold(batch, |batch, (part, table)| batch.with(Column::X.part(part), *table))
    }

    /// A batch of all nodes with the tables that a model of `options` reads.
    pub(crate) fn batch_for<'a>(&'a self, options: &TrainerOptions) -> BatchColumns<'a> {
        self.batch(&arrays(&self.read(options)))
    }
}

/// The bytes of a table.
fn bytes(table: &Tensor) -> &[u8] {
    match table.kind() {
        Kind::Float => bytemuck::cast_slice(host::values::<f32>(table).unwrap()),
        kind => panic!("{kind:?}"),
    }
}

/// Tables of float32 in host memory.
pub(crate) fn arrays<'a>(tables: &[&'a Tensor]) -> Vec<ColumnArray<'a>> {
    let array = |table: &&'a Tensor| {
        let size = table.size();
        ColumnArray::table(bytes(table), Element::F32, size[0] as usize, size[1] as usize)
    };
    tables.iter().map(array).collect()
}

/// Options without dropout or weight decay, one thread, of the fewest layers that have all kinds of parameters.
pub(crate) fn options(model: ModelKind, hidden: usize, hops: usize) -> TrainerOptions {
    let layers = match model {
        ModelKind::Sign => 3,
        ModelKind::Hoga => 2,
        _ => 1,
    };
    TrainerOptions { hops, operators: 1, ..support::options(model, hidden, layers) }
}

/// A training step on a batch.
pub(crate) fn step(trainer: &mut Trainer, number: u32, batch: &BatchColumns<'_>) -> u32 {
    let step = trainer.train_batch(number / 4, number % 4, batch, &mut || Ok(())).unwrap();
    assert!(step.labelled > 0);
    step.loss.to_bits()
}
