//! One operator on one panel of columns, all hops. Columns do not depend on each other, so only the kept rows are ever
//! stored.

use std::ops::{Deref, DerefMut, Range};
use std::path::Path;

use rayon::ThreadPool;
use rayon::prelude::*;
use uva_graph::GraphError;
use uva_mem::ZeroedPages;
use uva_mem::files::OwnDirectory;
use uva_ops::Vectors;
use uva_ops::lists::{ListsError, add_scaled};

use crate::operator::Operator;
use crate::options::HopType;
use crate::product::features::FloatFeatures;
use crate::product::sums::Matrix;
use crate::resumption::part::{self, FinishedPart};
use crate::row_nodes::RowNodes;

/// Rows between two checks for a stop.
const BLOCK_ROWS: usize = 1 << 16;

/// Values that a thread adds at once.
const TASK_VALUES: usize = 1 << 14;

/// An operator whose hops are requested.
pub(crate) struct OperatorTask<'a> {
    /// Its position among the requested operators.
    pub(crate) place: usize,
    pub(crate) operator: Operator,
    pub(crate) matrix: Matrix<'a>,
    pub(crate) hops: u32,
    pub(crate) features: &'a FloatFeatures<'a>,
    pub(crate) nodes: usize,
    pub(crate) kept: &'a RowNodes,
    pub(crate) element: HopType,
    /// The file named in the error about a wrong entry.
    pub(crate) lists: &'a Path,
}

/// Receives the progress of a panel.
pub(crate) trait PanelProgress {
    /// Reports rows summed in this hop since the last call. Returns true to stop the work.
    fn rows(&mut self, hop: u32, rows: usize) -> bool;

    /// Reports a finished part.
    fn part(&mut self, part: FinishedPart) -> Result<(), GraphError>;
}

/// The tables of a panel, with a row per node.
struct Tables {
    width: usize,
    /// The operand of the operator.
    x: Values,
    /// The last sum, or the buffer of the next; empty if the very last sum is the only one.
    sums: Values,
    /// The sum before the last (`ppr`), or that of the series (`heat`); otherwise empty.
    other: Values,
}

/// Values of a table, initially zeros. Sums read its rows at random, so it uses large pages if the system has them.
struct Values(ZeroedPages);

impl Values {
    /// A table of this many zeros; the error names `folder` if memory is insufficient.
    fn zeros(values: usize, folder: &Path) -> Result<Self, GraphError> {
        let pages = ZeroedPages::new(values * size_of::<f32>());
        pages.map(Self).map_err(GraphError::io(folder, "get memory for the tables of"))
    }
}

impl Deref for Values {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        // Pages begin at a multiple of the type's size.
        bytemuck::cast_slice(self.0.bytes())
    }
}

impl DerefMut for Values {
    fn deref_mut(&mut self) -> &mut [f32] {
        bytemuck::cast_slice_mut(self.0.bytes_mut())
    }
}

/// Stores all hops of the operator for these columns. Returns false if it was stopped.
pub(crate) fn run(
    task: &OperatorTask<'_>,
    columns: &Range<usize>,
    folder: &OwnDirectory,
    pool: &ThreadPool,
    follow: &mut dyn PanelProgress,
) -> Result<bool, GraphError> {
    let width = columns.len();
    let size = task.nodes * width;
    let count = task.operator.tables(task.hops);
    let table = |number| Values::zeros(if number <= count { size } else { 0 }, folder.path());
    let mut tables = Tables { width, x: table(1)?, sums: table(2)?, other: table(3)? };
    pool.install(|| task.features.write(&(0..task.nodes), columns, &mut tables.x));
    for hop in 1..=task.hops {
        let (last, sums) = (hop == task.hops, task.operator.sums());
        tables.begin(task.operator, pool);
        // The very last sum is only made for the kept rows.
        for step in 1..=if last { sums - 1 } else { sums } {
            if !tables.sum_all(task, step, pool, &mut |rows| follow.rows(hop, rows))? {
                return Ok(false);
            }
        }
        if !last {
            tables.end(task.operator);
        }
        let mut rows = |nodes: &[i64], out: &mut [f32]| match last {
            true => tables.last_rows(task, nodes, out).map_err(|error| wrong(task, error)),
            false => {
                for (&node, out) in nodes.iter().zip(out.chunks_exact_mut(width)) {
                    out.copy_from_slice(&tables.x[node as usize * width..][..width]);
                }
                Ok(())
            }
        };
        let part = (Some(task.place), hop, columns);
        let mut stops = |rows| follow.rows(hop, if last { rows } else { 0 });
        match part::write(folder, part, (task.element, &task.kept.nodes), pool, &mut rows, &mut stops)? {
            Some(part) => follow.part(part)?,
            None => return Ok(false),
        }
    }
    Ok(true)
}

fn wrong(task: &OperatorTask<'_>, error: ListsError) -> GraphError {
    GraphError::invalid(task.lists, error)
}

impl Tables {
    /// Prepares the first sum of a hop.
    fn begin(&mut self, operator: Operator, pool: &ThreadPool) {
        if let Operator::Heat { time, .. } = operator {
            self.other.fill(0.0);
            add(&self.x, heat_weight(time, 0), &mut self.other, pool);
        }
    }

    /// Computes one sum over all lists. Returns false if it was stopped.
    fn sum_all(
        &mut self,
        task: &OperatorTask<'_>,
        step: u32,
        pool: &ThreadPool,
        stops: &mut dyn FnMut(usize) -> bool,
    ) -> Result<bool, GraphError> {
        let width = self.width;
        let is_ppr = matches!(task.operator, Operator::Ppr { .. });
        // The summed table, and the destination of the sums.
        let (from, to): (&[f32], &mut [f32]) = match is_ppr && step > 1 {
            true => (&self.sums, &mut self.other),
            false => (&self.x, &mut self.sums),
        };
        for (block, to) in to.chunks_mut(BLOCK_ROWS * width).enumerate() {
            let first = block * BLOCK_ROWS;
            let rows = first..first + to.len() / width;
            pool.install(|| task.matrix.rows(&rows, (from, width), to))
                .map_err(|error| wrong(task, error))?;
            if let Operator::Ppr { alpha, .. } = task.operator {
                add(&self.x[first * width..], alpha as f32, to, pool);
            }
            if stops(rows.len()) {
                return Ok(false);
            }
        }
        match task.operator {
            Operator::Ppr { .. } if step > 1 => std::mem::swap(&mut self.sums, &mut self.other),
            Operator::Heat { time, .. } => {
                add(&self.sums, heat_weight(time, step), &mut self.other, pool);
                // The next power is made from this one.
                std::mem::swap(&mut self.x, &mut self.sums);
            }
            _ => {}
        }
        Ok(true)
    }

    /// Completes a hop after its last sum: its table becomes the operand of the next.
    fn end(&mut self, operator: Operator) {
        match operator {
            Operator::Heat { .. } => std::mem::swap(&mut self.x, &mut self.other),
            _ => std::mem::swap(&mut self.x, &mut self.sums),
        }
    }

    /// The rows of these nodes after the last sum of a hop, all previous sums of which are done. Uses the current rayon
    /// pool.
    fn last_rows(&self, task: &OperatorTask<'_>, nodes: &[i64], out: &mut [f32]) -> Result<(), ListsError> {
        let width = self.width;
        let sums = task.operator.sums();
        let from = match task.operator {
            Operator::Ppr { .. } if sums > 1 => &self.sums,
            _ => &self.x,
        };
        task.matrix.rows(nodes, (from, width), out)?;
        let vectors = Vectors::widest();
        let row_of = |node: i64| node as usize * width..(node as usize + 1) * width;
        match task.operator {
            Operator::Ppr { alpha, .. } => {
                for (&node, out) in nodes.iter().zip(out.chunks_exact_mut(width)) {
                    add_scaled(vectors, &self.x[row_of(node)], alpha as f32, out);
                }
            }
            Operator::Heat { time, .. } => {
                let mut series = vec![0.0; width];
                for (&node, out) in nodes.iter().zip(out.chunks_exact_mut(width)) {
                    series.copy_from_slice(&self.other[row_of(node)]);
                    add_scaled(vectors, out, heat_weight(time, sums), &mut series);
                    out.copy_from_slice(&series);
                }
            }
            _ => {}
        }
        Ok(())
    }
}

/// e^−t t^k / k!
fn heat_weight(time: f64, power: u32) -> f32 {
    (1..=power).fold((-time).exp(), |weight, k| weight * time / f64::from(k)) as f32
}

/// Adds `factor` times the values to as many sums.
fn add(values: &[f32], factor: f32, sums: &mut [f32], pool: &ThreadPool) {
    let vectors = Vectors::widest();
    pool.install(|| {
        let tasks = sums.par_chunks_mut(TASK_VALUES).zip(values.par_chunks(TASK_VALUES));
        tasks.for_each(|(sums, values)| add_scaled(vectors, values, factor, sums));
    });
}
