//! Evaluation on full neighbourhoods: layer by layer over all nodes, in chunks.

use crate::TrainError;
use crate::borrowed::Borrowed;
use crate::evaluation::Evaluation;
use crate::full_layer::{chunks, full_layer, slice};
use crate::model::{Named, Step};
use crate::targets::Targets;
use crate::trainer::Trainer;
use std::ops::Range;
use tch::{Device, Tensor};
use uva_graph::{Csc, FeatureTable, Labels};

/// Labels of some nodes, copied out of a dataset's.
enum LabelRows {
    Single(Vec<i64>),
    Multi { classes: usize, values: Vec<u8> },
}

impl LabelRows {
    /// Those of the nodes `ids`; each has a row.
    fn of(labels: Labels<'_>, ids: &[i64]) -> Self {
        match labels {
            Labels::Single(labels) => Self::Single(ids.iter().map(|&id| labels[id as usize]).collect()),
            Labels::Multi { classes, values } => {
                let row = |&id: &i64| &values[id as usize * classes..][..classes];
                Self::Multi { classes, values: ids.iter().flat_map(row).copied().collect() }
            }
        }
    }

    fn labels(&self) -> Labels<'_> {
        match self {
            Self::Single(labels) => Labels::Single(labels),
            Self::Multi { classes, values } => Labels::Multi { classes: *classes, values },
        }
    }
}

/// The input of a layer: the dataset's table, or the layer before.
enum Rows<'a> {
    Table(FeatureTable<'a>),
    Hidden(Tensor),
}

impl Trainer {
    /// Loss and hits on the nodes `ids`, with every node's whole neighbourhood at every layer.
    ///
    /// `csc`, `features` and `labels` are those of a whole dataset; `ids` are its node ids. Each layer is computed for
    /// all nodes before the next, so the cost is layers × edges for any number of ids. Memory: two to three tables of
    /// nodes × hidden f32, with residuals one more. The feature table is read once, front to back, in chunks.
    ///
    /// It runs on the CPU, even for a trainer on a CUDA device (with copies of its parameters). These tables are as
    /// large as the graph and need not fit in device memory.
    ///
    /// # Errors
    /// [`TrainError::Input`] for tables that contradict each other, the model or its task, or an id or neighbour out of
    /// range.
    pub fn evaluate_full(
        &self,
        csc: Csc<'_>,
        features: FeatureTable<'_>,
        labels: Labels<'_>,
        ids: &[i64],
    ) -> Result<Evaluation, TrainError> {
        self.use_threads();
        let _no_grad = tch::no_grad_guard();
        let nodes = csc.nodes();
        let label_rows = labels.bytes().len() / labels.row_bytes().max(1);
        if features.rows != nodes || label_rows != nodes {
            return Err(TrainError::Input(format!(
                "{nodes} nodes with {} feature rows and {label_rows} labels",
                features.rows
            )));
        }
        if features.dim != self.input_dim() {
            return Err(TrainError::Input(format!(
                "{} feature columns for a model of {}",
                features.dim,
                self.input_dim()
            )));
        }
        check_offsets(&csc)?;
        if let Some(id) = ids.iter().find(|&&id| id < 0 || id >= nodes as i64) {
            return Err(TrainError::Input(format!("node id {id} in a graph of {nodes} nodes")));
        }
        let wanted = LabelRows::of(labels, ids);
        let Some(targets) = Targets::on_host(wanted.labels(), self.task(), ids.len())? else {
            return Ok(Evaluation::default());
        };
        let rows = self.full_steps(&self.model.steps, Rows::Table(features), &csc)?;
        let Rows::Hidden(logits) = rows else { return Ok(Evaluation::default()) };
        targets.evaluate(&logits.f_index_select(0, Borrowed::vector(ids)?.tensor())?, self.task())
    }

    /// The steps one after the other, each for all nodes.
    fn full_steps<'a>(
        &self,
        steps: &[Named],
        mut rows: Rows<'a>,
        csc: &Csc<'_>,
    ) -> Result<Rows<'a>, TrainError> {
        for named in steps {
            let of_chunk = |chunk: &Range<usize>| self.full_rows(&rows, chunk);
            rows = Rows::Hidden(match (&named.step, &rows) {
                (Step::Hop(layer), _) => full_layer(&layer.on(Device::Cpu)?, &of_chunk, csc, self.kind())?,
                (Step::Linear(linear), _) => {
                    let linear = linear.on(Device::Cpu)?;
                    let size = [csc.nodes() as i64, linear.outputs()];
                    let out = Tensor::f_zeros(size, (self.kind(), Device::Cpu))?;
                    for chunk in chunks(csc.nodes()) {
                        slice(&out, &chunk)?.f_copy_(&linear.forward(&of_chunk(&chunk)?)?)?;
                    }
                    out
                }
                (Step::Drop, _) => continue,
                // These stand behind a step of the above.
                (_, Rows::Table(_)) => return Err(TrainError::Input("a model without a layer".to_owned())),
                (Step::Norm(norm), Rows::Hidden(x)) => norm.on(Device::Cpu)?.forward(x.shallow_clone())?.0,
                (Step::Activate, Rows::Hidden(x)) => self.model.activation.apply(x.shallow_clone())?,
                (Step::Residual(branch), Rows::Hidden(x)) => {
                    match self.full_steps(branch, Rows::Hidden(x.shallow_clone()), csc)? {
                        Rows::Hidden(added) => x.f_add(&added)?,
                        Rows::Table(_) => continue,
                    }
                }
            });
        }
        Ok(rows)
    }

    fn full_rows(&self, rows: &Rows<'_>, chunk: &Range<usize>) -> Result<Tensor, TrainError> {
        match rows {
            Rows::Hidden(hidden) => slice(hidden, chunk),
            Rows::Table(table) => {
                let row_bytes = table.row_bytes();
                let bytes =
                    table.bytes.get(chunk.start * row_bytes..chunk.end * row_bytes).ok_or_else(|| {
                        TrainError::Input(format!(
                            "feature table of {} bytes ends before row {}",
                            table.bytes.len(),
                            chunk.end
                        ))
                    })?;
                let borrowed = Borrowed::table(bytes, table.element, chunk.len(), table.dim)?;
                self.features(&borrowed)
            }
        }
    }
}

/// Refuses offsets that don't form lists: views of a dataset are checked, but callers can build their own.
fn check_offsets(csc: &Csc<'_>) -> Result<(), TrainError> {
    let ends_fit =
        csc.indptr.first() == Some(&0) && csc.indptr.last().copied() == i64::try_from(csc.edges()).ok();
    match csc.indptr.windows(2).position(|pair| pair[0] > pair[1]) {
        Some(v) => Err(TrainError::Input(format!("the graph's offsets fall at node {v}"))),
        None if !ends_fit => Err(TrainError::Input(format!(
            "the graph's offsets do not go from 0 to its {} edges",
            csc.edges()
        ))),
        None => Ok(()),
    }
}
