//! A training step before there is a batch.

use crate::TrainError;
use crate::batch::Batch;
use crate::hop_batch::{HopBatch, HopRows};
use crate::input::{BatchInput, BlockInput, EdgeRows};
use crate::late::LateResults;
use crate::trainer::Trainer;
use uva_graph::{ElementType, Labels};
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

    fn bytes(&self, rows: usize, columns: usize) -> &[u8] {
        bytemuck::cast_slice(&self.values[..rows * columns])
    }

    /// Block `hop`, of the sampled ones.
    fn block(&self, hop: usize, edge_dim: usize) -> BlockInput<'_> {
        let (destinations, sources) = (self.rows[hop], self.rows[hop + 1]);
        let edge_attr = || EdgeRows {
            bytes: self.bytes(destinations, edge_dim),
            element: ElementType::F32,
            rows: destinations,
            dim: edge_dim,
        };
        BlockInput {
            destinations,
            sources,
            indptr: &self.offsets[..=destinations],
            indices: &self.offsets[..destinations],
            weights: &[],
            edge_attr: (edge_dim > 0).then(edge_attr),
        }
    }
}

impl Trainer {
    /// Does a training step on rows of zeros, with another network of the same options. libtorch loads its kernels and
    /// starts its libraries when they are first used, which a program on a GPU can have done while the first batch is
    /// still on its way. Nothing of this trainer changes.
    ///
    /// # Errors
    /// As [`Trainer::new`] and [`Trainer::train_batch`].
    pub fn rehearse(&self) -> Result<(), TrainError> {
        let mut other =
            Self::with_kind(self.options(), self.input_dim(), self.task(), self.kind, self.device())?;
        if let Some((kernels, stream)) = self.late.as_ref().map(LateResults::driven_by) {
            other.run_ahead(kernels, stream)?;
        }
        let options = self.options();
        let zeros = Zeros::new(self);
        let (dim, element, labels) = (self.input_dim(), ElementType::F32, zeros.labels(self));
        if options.model.row().hops.is_some() {
            let tables = vec![zeros.bytes(SEEDS, dim); options.tables_read(options.hops).len()];
            let rows = HopRows::Tables(&tables);
            return other.one_step(&HopBatch { rows, element, seeds: SEEDS, dim, padding: 0, labels });
        }
        let blocks: Vec<_> = (0..options.blocks()).map(|hop| zeros.block(hop, options.edge_dim)).collect();
        let rows = zeros.rows[blocks.len()];
        other.one_step(&BatchInput {
            features: zeros.bytes(rows, dim),
            aggregated: None,
            element,
            rows,
            dim,
            padding: 0,
            labels,
            degrees: &zeros.degrees,
            blocks: &blocks,
        })
    }

    /// A step in the way that all others take, and its result.
    fn one_step<'a>(&mut self, input: impl Into<Batch<'a>>) -> Result<(), TrainError> {
        if self.runs_ahead() {
            self.enqueue_batch(0, 0, input, true)?;
            self.reading(true).map(drop)
        } else {
            self.train_batch(0, 0, input, &mut || Ok(())).map(drop)
        }
    }
}
