//! Evaluation on full neighbourhoods: the logits of some nodes compared with their labels.

use crate::TrainError;
use crate::graph::full_table::Tables;
use crate::graph::whole_data::WholeData;
use crate::input::evaluation::Evaluation;
use crate::input::targets::Targets;
use crate::torch::borrowed::Borrowed;
use crate::train::trainer::Trainer;
use crate::whole::full_layer::Stream;
use crate::whole::full_pass::Wishes;
use crate::whole::wanted::Wanted;
use std::ops::Range;
use tch::{Device, Tensor};
use uva_graph::Labels;

/// Labels of some nodes, copied out of a dataset's.
enum LabelRows {
    Absent,
    Single(Vec<i64>),
    Multi { classes: usize, values: Vec<u8> },
    Regression { columns: Option<usize>, values: Vec<f32> },
}

impl LabelRows {
    /// The labels of the nodes `ids`; each has a row.
    fn of(labels: Labels<'_>, ids: &[i64]) -> Self {
        match labels {
            Labels::Absent => Self::Absent,
            Labels::Single(labels) => Self::Single(ids.iter().map(|&id| labels[id as usize]).collect()),
            Labels::Multi { classes, values } => {
                let row = |&id: &i64| &values[id as usize * classes..][..classes];
                Self::Multi { classes, values: ids.iter().flat_map(row).copied().collect() }
            }
            Labels::Regression { columns, values } => {
                let width = columns.unwrap_or(1);
                let row = |&id: &i64| &values[id as usize * width..][..width];
                Self::Regression { columns, values: ids.iter().flat_map(row).copied().collect() }
            }
        }
    }

    fn labels(&self) -> Labels<'_> {
        match self {
            Self::Absent => Labels::Absent,
            Self::Single(labels) => Labels::Single(labels),
            Self::Multi { classes, values } => Labels::Multi { classes: *classes, values },
            Self::Regression { columns, values } => Labels::Regression { columns: *columns, values },
        }
    }
}

/// The logits of the requested nodes, in the order of the request.
struct Picked<'w> {
    wanted: &'w Wanted,
    /// The table exists once there is a row.
    logits: Option<Tensor>,
}

impl Stream for Picked<'_> {
    fn wants(&self, chunk: &Range<usize>) -> bool {
        self.wanted.any_in(chunk)
    }

    fn take(&mut self, chunk: &Range<usize>, rows: Tensor) -> Result<(), TrainError> {
        let (local, places) = self.wanted.within(chunk);
        let picked = rows.f_index_select(0, Borrowed::vector(&local)?.tensor())?;
        let mut table = match self.logits.take() {
            Some(table) => table,
            None => {
                let size = [self.wanted.len() as i64, rows.size2()?.1];
                Tensor::f_zeros(size, (rows.f_kind()?, Device::Cpu))?
            }
        };
        let _ = table.f_index_copy_(0, Borrowed::vector(&places)?.tensor(), &picked)?;
        self.logits = Some(table);
        Ok(())
    }
}

impl Trainer {
    /// Loss and hits on the nodes `ids`, with every node's whole neighbourhood at every layer.
    ///
    /// # Errors
    /// As [`Trainer::evaluate_full_each`].
    pub fn evaluate_full<'g>(
        &self,
        data: impl Into<WholeData<'g>>,
        labels: Labels<'_>,
        ids: &[i64],
    ) -> Result<Evaluation, TrainError> {
        Ok(self.evaluate_full_each(data, labels, &[ids])?.swap_remove(0))
    }

    /// Loss and hits on each of these sets of nodes, with every node's whole neighbourhood at every layer.
    ///
    /// `data` and `labels` are those of a whole dataset; the sets are of its node ids, of a typed graph of those of the
    /// target. Each layer is computed for all nodes before the next, so the cost is layers × edges for any number of ids.
    /// Memory: two to three tables of nodes × hidden f32, and the logits of the sets. The feature table is read front to
    /// back, in chunks; those of a typed graph by neighbour, in the order of ids within a piece of nodes.
    ///
    /// It runs on the CPU, even for a trainer on a CUDA device (with copies of its parameters). These tables are as
    /// large as the graph and need not fit in device memory.
    ///
    /// # Errors
    /// [`TrainError::Input`] for tables that contradict each other, the model or its task, or an id or neighbour out of
    /// range.
    pub fn evaluate_full_each<'g>(
        &self,
        data: impl Into<WholeData<'g>>,
        labels: Labels<'_>,
        sets: &[&[i64]],
    ) -> Result<Vec<Evaluation>, TrainError> {
        self.use_threads();
        let _no_grad = tch::no_grad_guard();
        let data = data.into();
        self.check_data(&data)?;
        let nodes = self.answered_nodes(&data);
        let label_rows = labels.bytes().len() / labels.row_bytes().max(1);
        if label_rows != nodes {
            return Err(TrainError::Input(format!("{nodes} nodes with {label_rows} labels")));
        }
        let all = sets.concat();
        let wanted = Wanted::new(&all, nodes)?;
        let label_rows: Vec<LabelRows> = sets.iter().map(|ids| LabelRows::of(labels, ids)).collect();
        let targets: Result<Vec<Option<Targets<'_>>>, TrainError> = label_rows
            .iter()
            .zip(sets)
            .map(|(rows, ids)| Targets::on_host(rows.labels(), self.task(), ids.len()))
            .collect();
        let targets = targets?;
        if targets.iter().all(Option::is_none) {
            return Ok(vec![Evaluation::default(); sets.len()]);
        }
        let mut picked = Picked { wanted: &wanted, logits: None };
        let wishes = Wishes { hidden: None, logits: Some(&mut picked) };
        self.full_pass((&data, Tables::Memory), wishes, &mut || Ok(()))?;
        let Some(logits) = picked.logits else { return Ok(vec![Evaluation::default(); sets.len()]) };
        let mut first = 0;
        let mut evaluations = Vec::with_capacity(sets.len());
        for (ids, targets) in sets.iter().zip(&targets) {
            let logits = logits.f_narrow(0, first, ids.len() as i64)?;
            first += ids.len() as i64;
            evaluations.push(match targets {
                Some(targets) => {
                    targets.evaluate(&logits, self.task()).map_err(|error| error.of_seeds(ids))?
                }
                None => Evaluation::default(),
            });
        }
        Ok(evaluations)
    }
}
