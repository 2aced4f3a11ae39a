//! Arrays of zeros, for a training step before the first batch.

use uva_batch::{ColumnArray, Element};
use uva_graph::Labels;
use uva_model::{Task, TaskKind, TrainerOptions};

/// Most rows of a hop. The sources of each block are twice its destinations, up to this.
const MOST_ROWS: usize = 1 << 12;

/// The arrays of a batch of zeros. Every destination has one edge, from the source of its own number.
pub(crate) struct Zeros {
    /// Rows of each hop, from the seeds to the input nodes.
    pub(crate) rows: Vec<usize>,
    pub(crate) offsets: Vec<i32>,
    pub(crate) degrees: Vec<i32>,
    values: Vec<f32>,
    /// Ids, or classes.
    numbers: Vec<i64>,
    marks: Vec<u8>,
}

impl Zeros {
    /// Seeds of the batch.
    pub(crate) const SEEDS: usize = 256;

    pub(crate) fn new(options: &TrainerOptions, input_dim: usize, task: Task) -> Self {
        let mut rows = vec![Self::SEEDS];
        for _ in 0..options.blocks() {
            rows.push((2 * rows[rows.len() - 1]).min(MOST_ROWS));
        }
        let most = rows[rows.len() - 1];
        let outputs = task.outputs;
        let of_types = options.graph.iter().flat_map(|graph| graph.types.iter().filter_map(|of| of.columns));
        let widest = of_types.fold(input_dim.max(options.edge_dim).max(outputs), usize::max);
        Self {
            offsets: (0..=most as i32).collect(),
            degrees: vec![1; most],
            values: vec![0.0; most * widest],
            numbers: vec![0; most.max(Self::SEEDS)],
            marks: vec![0; Self::SEEDS * outputs],
            rows,
        }
    }

    pub(crate) fn labels(&self, task: Task) -> Labels<'_> {
        let classes = task.outputs;
        match task.kind {
            TaskKind::SingleLabel => Labels::Single(&self.numbers[..Self::SEEDS]),
            TaskKind::MultiLabel => Labels::Multi { classes, values: &self.marks },
            TaskKind::Regression(_) => {
                Labels::Regression { columns: Some(classes), values: &self.values[..Self::SEEDS * classes] }
            }
        }
    }

    pub(crate) fn ids(&self, rows: usize) -> ColumnArray<'_> {
        ColumnArray::vector(&self.numbers[..rows], Element::I64)
    }

    pub(crate) fn table(&self, rows: usize, columns: usize) -> ColumnArray<'_> {
        let values = bytemuck::cast_slice(&self.values[..rows * columns]);
        ColumnArray::table(values, Element::F32, rows, columns)
    }
}
