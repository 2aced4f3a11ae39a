//! Predictions: classes, probabilities and hidden rows, of whole neighbourhoods or of batches.

use crate::TrainError;
use crate::batch::Batch;
use crate::full_layer::Stream;
use crate::full_pass::Wishes;
use crate::full_table::Tables;
use crate::prepared::Prepared;
use crate::trainer::{Confirm, Trainer};
use crate::wanted::Wanted;
use std::cell::RefCell;
use std::ops::{ControlFlow, Range};
use tch::{Device, Kind, Tensor};
use uva_graph::npy::NpyType;
use uva_graph::{Csc, FeatureTable, Labels};
use uva_model::Answer;

/// The answers that are asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Questions {
    /// [`Answer::Classes`].
    pub classes: bool,
    /// [`Answer::Probabilities`].
    pub probabilities: bool,
    /// [`Answer::Hidden`] of this layer, counted from 1.
    pub hidden: Option<usize>,
}

/// Answers about some nodes.
#[derive(Clone, Copy, Debug)]
pub struct Answered<'a> {
    /// Which answers.
    pub answer: Answer,
    /// The places of their rows.
    pub places: &'a [i64],
    /// The rows, little-endian.
    pub rows: &'a [u8],
    /// Of a pass over the whole graph: the node behind the last of the chunk. All nodes before it are done.
    pub behind: usize,
}

/// Takes answers. `Break` ends the pass.
pub type Take<'t> = &'t mut dyn FnMut(Answered<'_>) -> ControlFlow<()>;

impl Questions {
    fn logits(&self) -> bool {
        self.classes || self.probabilities
    }
}

impl Trainer {
    /// The last layer whose rows are not the logits, if there is one, else the first.
    pub fn last_hidden_layer(&self) -> usize {
        let layers = self.options().layers;
        if self.options().residual { layers } else { layers.saturating_sub(1).max(1) }
    }

    /// Element type and shape of a row of this answer, `layer` being that of hidden rows.
    pub fn row_of(&self, answer: Answer, layer: usize) -> (NpyType, Vec<usize>) {
        let classes = self.task().classes;
        match answer {
            Answer::Classes if self.task().multi_label => (NpyType::U8, vec![classes]),
            Answer::Classes => (NpyType::I64, Vec::new()),
            Answer::Probabilities => (NpyType::F32, vec![classes]),
            Answer::Hidden => {
                let logits = layer >= self.options().layers && !self.options().residual;
                (NpyType::F32, vec![if logits { classes } else { self.options().hidden }])
            }
        }
    }

    /// Answers about the wanted nodes, with every node's whole neighbourhood at every layer, in the order of node ids.
    ///
    /// Nodes whose rows are not `wanted` from `begin` on are passed over. `progress` gets how far the pass is, of how
    /// much. The cost is that of [`Trainer::evaluate_full`]. So is the memory, without a table of logits, if `tables` are
    /// in memory. In files they take [`Trainer::bytes_of_tables`] on the disk, and memory is that of a chunk.
    ///
    /// # Errors
    /// [`TrainError::Stopped`] if `take` or `progress` breaks off. [`TrainError::Table`] for a full disk. [`TrainError::Input`] for tables that contradict
    /// each other or the model, or a neighbour out of range.
    pub fn predict_full(
        &self,
        (csc, features): (Csc<'_>, FeatureTable<'_>),
        tables: Tables<'_>,
        (wanted, begin): (&Wanted, usize),
        questions: Questions,
        take: Take<'_>,
        progress: &mut dyn FnMut(u64, u64) -> ControlFlow<()>,
    ) -> Result<(), TrainError> {
        self.use_threads();
        let _no_grad = tch::no_grad_guard();
        self.check_tables(&csc, &features)?;
        let (of_pass, take) = (self.ticks_of_a_pass(csc.nodes()), RefCell::new(take));
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
        self.full_pass(features, (&csc, tables), wishes, &mut tick)
    }

    /// Answers about the seeds of a batch, whose rows have these `places`. Its labels play no part.
    ///
    /// # Errors
    /// As [`Trainer::evaluate_batch`], and [`TrainError::Stopped`] if `take` breaks off.
    pub fn predict_batch<'a>(
        &self,
        input: impl Into<Batch<'a>>,
        places: &[i64],
        questions: Questions,
        confirm: Confirm<'_>,
        take: Take<'_>,
    ) -> Result<(), TrainError> {
        self.use_threads();
        let _no_grad = tch::no_grad_guard();
        let input = input.into();
        // A batch in host memory without a label would pass as one without seeds.
        let task = self.task();
        let (single, several) = match task.multi_label {
            false => (vec![0; places.len()], Vec::new()),
            true => (Vec::new(), vec![0; places.len() * task.classes]),
        };
        let labels = match task.multi_label {
            false => Labels::Single(&single),
            true => Labels::Multi { classes: task.classes, values: &several },
        };
        let input = match input {
            Batch::Host(input) => Batch::Host(crate::BatchInput { labels, ..input }),
            device => device,
        };
        let Some(Prepared { rows, blocks, .. }) = Prepared::new(&self.trains(), &input)? else {
            return confirm().map_err(TrainError::Unconfirmed);
        };
        let steps = self.model.behind(questions.hidden.unwrap_or(self.options().layers));
        let (hidden, logits) = self.model.forward_by(self.features(&rows)?, &blocks, steps)?;
        let hidden = questions
            .hidden
            .map(|_| hidden.f_narrow(0, 0, places.len() as i64)?.f_to_device(Device::Cpu))
            .transpose()?;
        let logits = logits.f_to_device(Device::Cpu)?;
        confirm().map_err(TrainError::Unconfirmed)?;
        if let Some(rows) = hidden {
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
        let several = self.task().multi_label;
        if questions.classes {
            let (classes, kind) = match several {
                true => (logits.f_gt(0.0)?, Kind::Uint8),
                false => (logits.f_argmax(1, false)?, Kind::Int64),
            };
            let (answer, rows) = (Answer::Classes, &bytes_of(&classes, kind)?[..]);
            stopped(take(Answered { answer, places, rows, behind }))?;
        }
        if questions.probabilities {
            let shares = if several { logits.f_sigmoid()? } else { logits.f_softmax(1, Kind::Float)? };
            let (answer, rows) = (Answer::Probabilities, &bytes_of(&shares, Kind::Float)?[..]);
            stopped(take(Answered { answer, places, rows, behind }))?;
        }
        Ok(())
    }
}

/// Turns the rows of a pass into answers.
struct Answers<'p, 't> {
    trainer: &'p Trainer,
    wanted: &'p Wanted,
    /// Rows of nodes below this one are passed over.
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
        if self.questions.hidden.is_some() {
            let (answer, rows) = (Answer::Hidden, &bytes_of(&rows, Kind::Float)?[..]);
            return stopped(take(Answered { answer, places: &places, rows, behind }));
        }
        self.trainer.answer_by(&rows, (&places, behind), self.questions, &mut **take)
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
