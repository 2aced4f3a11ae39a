//! A training step before the first batch.

use crate::TrainError;
use crate::train::late::LateResults;
use crate::train::trainer::Trainer;
use uva_batch::{BatchColumns, Column, ColumnArray, Element, LayerCounts};
use uva_graph::Labels;
use uva_model::TaskKind;

/// Seeds of a rehearsed batch. The sources of each block are twice its destinations, up to [`MOST_ROWS`].
const SEEDS: usize = 256;
const MOST_ROWS: usize = 1 << 12;

/// The arrays of a batch of zeros. Every destination has one edge, from the source of its own number.
struct Zeros {
    /// Rows of each hop, from the seeds to the input nodes.
    rows: Vec<usize>,
    offsets: Vec<i32>,
    degrees: Vec<i32>,
    values: Vec<f32>,
    classes: Vec<i64>,
    marks: Vec<u8>,
}

impl Zeros {
    fn new(trainer: &Trainer) -> Self {
        let options = trainer.options();
        let mut rows = vec![SEEDS];
        for _ in 0..options.blocks() {
            rows.push((2 * rows[rows.len() - 1]).min(MOST_ROWS));
        }
        let most = rows[rows.len() - 1];
        let outputs = trainer.task().outputs;
        let widest = trainer.input_dim().max(options.edge_dim).max(outputs);
        Self {
            offsets: (0..=most as i32).collect(),
            degrees: vec![1; most],
            values: vec![0.0; most * widest],
            classes: vec![0; SEEDS],
            marks: vec![0; SEEDS * outputs],
            rows,
        }
    }

    fn labels(&self, trainer: &Trainer) -> Labels<'_> {
        let classes = trainer.task().outputs;
        match trainer.task().kind {
            TaskKind::SingleLabel => Labels::Single(&self.classes),
            TaskKind::MultiLabel => Labels::Multi { classes, values: &self.marks },
            TaskKind::Regression(_) => {
                Labels::Regression { columns: Some(classes), values: &self.values[..SEEDS * classes] }
            }
        }
    }

    fn table(&self, rows: usize, columns: usize) -> ColumnArray<'_> {
        let values = bytemuck::cast_slice(&self.values[..rows * columns]);
        ColumnArray::table(values, Element::F32, rows, columns)
    }

    /// A batch that fits a model of these options.
    fn batch(&self, trainer: &Trainer) -> BatchColumns<'_> {
        let (options, dim) = (trainer.options(), trainer.input_dim());
        if options.model.row().reads_hops() {
            let tables = 0..options.tables_read(options.hops).len();
            let batch = BatchColumns::new(SEEDS, Vec::new()).with_labels(self.labels(trainer));
            return tables
                .fold(batch, |batch, part| batch.with(Column::X.part(part), self.table(SEEDS, dim)));
        }
        let layers = self.rows.windows(2).map(|rows| LayerCounts {
            destinations: rows[0],
            sources: rows[1],
            edges: rows[0],
        });
        let mut batch = BatchColumns::new(SEEDS, layers.collect()).with_labels(self.labels(trainer));
        let nodes = batch.nodes;
        let numbers = |count: usize| ColumnArray::vector(&self.offsets[..count], Element::I32);
        for (layer, &destinations) in self.rows[..self.rows.len() - 1].iter().enumerate() {
            batch = batch
                .with(Column::Indptr.at(layer), numbers(destinations + 1))
                .with(Column::Indices.at(layer), numbers(destinations));
            if options.edge_dim > 0 {
                let rows = self.table(destinations, options.edge_dim);
                batch = batch.with(Column::EdgeAttr.at(layer), rows);
            }
        }
        let degrees = ColumnArray::vector(&self.degrees[..nodes], Element::I32);
        batch.with(Column::X, self.table(nodes, dim)).with(Column::Degrees, degrees)
    }
}

impl Trainer {
    /// Runs a training step on rows of zeros, with another network of the same options. libtorch loads its kernels and
    /// starts its libraries on first use, which a program on a GPU can do while it waits for the first batch. This
    /// trainer does not change.
    ///
    /// # Errors
    /// As [`Trainer::new`] and [`Trainer::train_batch`].
    pub fn rehearse(&self) -> Result<(), TrainError> {
        let mut other =
            Self::with_kind(self.options(), self.input_dim(), self.task(), self.kind, self.device())?;
        if let Some((kernels, stream)) = self.late.as_ref().map(LateResults::driven_by) {
            other.run_ahead(kernels, stream)?;
        }
        let zeros = Zeros::new(self);
        other.one_step(&zeros.batch(self))
    }

    /// A step like all others, and its result.
    fn one_step(&mut self, batch: &BatchColumns<'_>) -> Result<(), TrainError> {
        if self.runs_ahead() {
            self.enqueue_batch(0, 0, batch, true)?;
            self.reading(true).map(drop)
        } else {
            self.train_batch(0, 0, batch, &mut || Ok(())).map(drop)
        }
    }
}
