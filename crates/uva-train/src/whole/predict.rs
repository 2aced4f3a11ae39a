//! Predictions: classes, probabilities and hidden rows, from whole neighbourhoods or from batches.

use crate::TrainError;
use crate::graph::full_table::Tables;
use crate::graph::whole_data::WholeData;
use crate::input::prepared::Prepared;
use crate::input::targets::check_finite;
use crate::train::trainer::{Confirm, Trainer};
use crate::whole::full_layer::Stream;
use crate::whole::full_pass::Wishes;
use crate::whole::wanted::Wanted;
use std::cell::RefCell;
use std::ops::{ControlFlow, Range};
use tch::{Device, Kind, Tensor};
use uva_batch::BatchColumns;
use uva_graph::npy::NpyType;
use uva_model::{Answer, TableRow, Task, TaskKind};

/// The requested answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Questions {
    /// [`Answer::Classes`]; for regression the numbers.
    pub classes: bool,
    /// [`Answer::Probabilities`].
    pub probabilities: bool,
    /// [`Answer::Table`].
    pub table: bool,
    /// [`Answer::Hidden`] of this layer, counted from 1.
    pub hidden: Option<usize>,
}

/// Answers about some nodes.
#[derive(Clone, Copy, Debug)]
pub struct Answered<'a> {
    /// The kind of answer.
    pub answer: Answer,
    /// The positions of their rows.
    pub places: &'a [i64],
    /// The rows, little-endian.
    pub rows: &'a [u8],
    /// In a pass over the whole graph: the node after the last of the chunk. All nodes before it are done.
    pub behind: usize,
}

/// Receives answers. `Break` ends the pass.
pub type Take<'t> = &'t mut dyn FnMut(Answered<'_>) -> ControlFlow<()>;

impl Questions {
    fn logits(&self) -> bool {
        self.classes || self.probabilities || self.table
    }
}

impl Trainer {
    /// The last layer whose rows are not the logits, if there is one, otherwise the first.
    pub fn last_hidden_layer(&self) -> usize {
        let layers = self.options().layers;
        if self.options().residual { layers } else { layers.saturating_sub(1).max(1) }
    }

    /// Element type and shape of a row of this answer; `layer` is that of hidden rows.
    pub fn row_of(&self, answer: Answer, layer: usize) -> (NpyType, Vec<usize>) {
        let Task { outputs, kind, .. } = self.task();
        match (answer, kind) {
            (Answer::Classes, TaskKind::SingleLabel) => (NpyType::I64, Vec::new()),
            (Answer::Classes, TaskKind::MultiLabel) => (NpyType::U8, vec![outputs]),
            (Answer::Classes, TaskKind::Regression(_)) | (Answer::Probabilities, _) => {
                (NpyType::F32, vec![outputs])
            }
            (Answer::Table, _) => (NpyType::U8, vec![TableRow { kind, outputs }.bytes()]),
            (Answer::Hidden, _) => {
                let logits = layer >= self.options().layers && !self.options().residual;
                (NpyType::F32, vec![if logits { outputs } else { self.options().hidden }])
            }
        }
    }

    /// Answers about the wanted nodes, with every node's whole neighbourhood at every layer, in the order of node ids.
    ///
    /// Nodes whose rows are not `wanted` from `begin` on are skipped. `progress` receives the progress of the pass and
    /// the total. The cost is that of [`Trainer::evaluate_full`]. So is the memory, without a table of logits, if
    /// `tables` are in memory. In files they use [`Trainer::bytes_of_tables`] on the disk, and memory is that of a
    /// chunk.
    ///
    /// # Errors
    /// [`TrainError::Stopped`] if `take` or `progress` stops the pass. [`TrainError::NotFinite`] for a node whose
    /// answer is NaN or infinite. [`TrainError::Table`] for a full disk. [`TrainError::Input`] for tables that
    /// contradict each other or the model, or a neighbour out of range.
    pub fn predict_full<'g>(
        &self,
        data: impl Into<WholeData<'g>>,
        tables: Tables<'_>,
        (wanted, begin): (&Wanted, usize),
        questions: Questions,
        take: Take<'_>,
        progress: &mut dyn FnMut(u64, u64) -> ControlFlow<()>,
    ) -> Result<(), TrainError> {
        self.use_threads();
        let _no_grad = tch::no_grad_guard();
        let data = data.into();
        self.check_data(&data)?;
        if questions.hidden.is_some() {
            self.model.input.check_hidden(self.options().model)?;
        }
        let (of_pass, take) = (self.ticks_of_a_pass(&data), RefCell::new(take));
        let mut done = 0;
        let mut tick = || {
            done += 1;
            stopped(progress(done, of_pass.max(done)))
        };
        let answers = |questions| Answers { trainer: self, wanted, begin, questions, take: &take };
        let mut hidden = answers(Questions { hidden: questions.hidden, ..Questions::default() });
        let mut logits = answers(Questions { hidden: None, ..questions });
        let wishes = Wishes {
            hidden: questions.hidden.map(|layer| (layer, &mut hidden as &mut dyn Stream)),
            logits: questions.logits().then_some(&mut logits as &mut dyn Stream),
        };
        self.full_pass((&data, tables), wishes, &mut tick)
    }

    /// Answers about the seeds of a batch, whose rows have these positions. Its labels are not read.
    ///
    /// # Errors
    /// As [`Trainer::evaluate_batch`], and [`TrainError::Stopped`] if `take` stops the pass.
    pub fn predict_batch(
        &self,
        batch: &BatchColumns<'_>,
        places: &[i64],
        questions: Questions,
        confirm: Confirm<'_>,
        take: Take<'_>,
    ) -> Result<(), TrainError> {
        self.use_threads();
        let _no_grad = tch::no_grad_guard();
        if questions.hidden.is_some() {
            self.model.input.check_hidden(self.options().model)?;
        }
        let Some(Prepared { tables, blocks }) = Prepared::without_targets(&self.answers(), batch)? else {
            self.wait_for_device()?;
            return confirm().map_err(TrainError::Unconfirmed);
        };
        let steps = self.model.behind(questions.hidden.unwrap_or(self.options().layers));
        let (hidden, logits) = self.model.forward_by(self.inputs(&tables)?, &blocks, steps)?;
        let hidden = questions
            .hidden
            .map(|_| hidden.f_narrow(0, 0, places.len() as i64)?.f_to_device(Device::Cpu))
            .transpose()?;
        // Padding seeds are the last ones.
        let logits = logits.f_narrow(0, 0, places.len() as i64)?.f_to_device(Device::Cpu)?;
        confirm().map_err(TrainError::Unconfirmed)?;
        if let Some(rows) = hidden {
            check_finite(&rows)?;
            let (answer, rows) = (Answer::Hidden, &bytes_of(&rows, Kind::Float)?[..]);
            stopped(take(Answered { answer, places, rows, behind: 0 }))?;
        }
        self.answer_by(&logits, (places, 0), questions, take)
    }

    fn answer_by(
        &self,
        logits: &Tensor,
        (places, behind): (&[i64], usize),
        questions: Questions,
        take: Take<'_>,
    ) -> Result<(), TrainError> {
        let Task { outputs, kind: task, .. } = self.task();
        if questions.logits() {
            check_finite(logits)?;
        }
        let mut hand_on = |answer, rows: &[u8]| stopped(take(Answered { answer, places, rows, behind }));
        let classes = if questions.classes || questions.table {
            let (classes, kind) = match task {
                TaskKind::SingleLabel => (logits.f_argmax(1, false)?, Kind::Int64),
                TaskKind::MultiLabel => (logits.f_gt(0.0)?, Kind::Uint8),
                TaskKind::Regression(_) => (logits.f_detach()?, Kind::Float),
            };
            bytes_of(&classes, kind)?
        } else {
            Vec::new()
        };
        if questions.classes {
            hand_on(Answer::Classes, &classes)?;
        }
        let probabilities = match task {
            TaskKind::Regression(_) if questions.probabilities => {
                return Err(TrainError::Input("a model of regression has no probabilities".to_owned()));
            }
            TaskKind::SingleLabel if questions.probabilities || questions.table => {
                bytes_of(&logits.f_softmax(1, Kind::Float)?, Kind::Float)?
            }
            TaskKind::MultiLabel if questions.probabilities || questions.table => {
                bytes_of(&logits.f_sigmoid()?, Kind::Float)?
            }
            _ => Vec::new(),
        };
        if questions.probabilities {
            hand_on(Answer::Probabilities, &probabilities)?;
        }
        if questions.table {
            let rows = match task {
                TaskKind::Regression(_) => classes,
                kind => TableRow { kind, outputs }.join(&classes, &probabilities),
            };
            hand_on(Answer::Table, &rows)?;
        }
        Ok(())
    }
}

/// Turns the rows of a pass into answers.
struct Answers<'p, 't> {
    trainer: &'p Trainer,
    wanted: &'p Wanted,
    /// Rows of nodes below this one are skipped.
    begin: usize,
    questions: Questions,
    take: &'p RefCell<Take<'t>>,
}

impl Stream for Answers<'_, '_> {
    fn wants(&self, chunk: &Range<usize>) -> bool {
        chunk.end > self.begin && self.wanted.any_in(chunk)
    }

    fn take(&mut self, chunk: &Range<usize>, rows: Tensor) -> Result<(), TrainError> {
        let (local, places) = self.wanted.within(chunk);
        let rows = if local.len() == chunk.len() && self.wanted.is_all() {
            rows
        } else {
            rows.f_index_select(0, &Tensor::f_from_slice(&local)?)?
        };
        let (mut take, behind) = (self.take.borrow_mut(), chunk.end);
        let named = |error: TrainError| {
            let nodes: Vec<i64> = local.iter().map(|row| chunk.start as i64 + row).collect();
            error.of_seeds(&nodes)
        };
        if self.questions.hidden.is_some() {
            check_finite(&rows).map_err(named)?;
            let (answer, rows) = (Answer::Hidden, &bytes_of(&rows, Kind::Float)?[..]);
            return stopped(take(Answered { answer, places: &places, rows, behind }));
        }
        self.trainer.answer_by(&rows, (&places, behind), self.questions, &mut **take).map_err(named)
    }
}

fn stopped(flow: ControlFlow<()>) -> Result<(), TrainError> {
    if flow.is_break() { Err(TrainError::Stopped) } else { Ok(()) }
}

/// The numbers of a tensor on the host, as this kind.
fn bytes_of(rows: &Tensor, kind: Kind) -> Result<Vec<u8>, TrainError> {
    let rows = rows.f_to_kind(kind)?.f_contiguous()?;
    let mut bytes = vec![0; rows.numel() * kind.elt_size_in_bytes()];
    rows.f_copy_data_u8(&mut bytes, rows.numel())?;
    Ok(bytes)
}
