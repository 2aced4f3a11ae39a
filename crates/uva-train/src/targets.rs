//! The targets of a batch's logits: the loss, the correct predictions, and the answers themselves.

use crate::TrainError;
use crate::borrowed::Borrowed;
use crate::evaluation::{Evaluation, Scores};
use tch::{Device, Kind, Reduction, Tensor};
use uva_cuda::DeviceSlice;
use uva_graph::{ElementType, Labels};
use uva_model::{Metric, Task};

/// Marks a node without a label, for libtorch's loss.
const UNLABELLED: i64 = -1;

/// Labels as tensors, one row a row of logits.
pub(crate) enum Targets<'a> {
    /// One class a node: i64 [rows], [`UNLABELLED`] where there is none.
    One(Borrowed<'a>),
    /// Several a node: u8 [rows, classes], zeros and ones.
    Several(Borrowed<'a>),
}

impl<'a> Targets<'a> {
    /// Those of `rows` rows in host memory, checked; `None` if none of them has a label.
    pub(crate) fn on_host(labels: Labels<'a>, task: Task, rows: usize) -> Result<Option<Self>, TrainError> {
        let refuse = |problem: String| Err(TrainError::Input(problem));
        match labels {
            Labels::Single(_) if task.multi_label => {
                refuse("labels of one class a node for a multi-label model".to_owned())
            }
            Labels::Multi { classes, .. } if !task.multi_label => {
                refuse(format!("multi-label labels (uint8 [N, {classes}]) for a model of one class a node"))
            }
            Labels::Single(values) => {
                if values.len() != rows {
                    return refuse(format!("{} labels for {rows} seeds", values.len()));
                }
                let labelled = count_labelled(values, task.classes)?;
                if labelled > 0 { Ok(Some(Self::One(Borrowed::vector(values)?))) } else { Ok(None) }
            }
            Labels::Multi { classes, values } => {
                if classes != task.classes {
                    return refuse(format!("labels of {classes} classes for a model of {}", task.classes));
                }
                if rows.checked_mul(classes) != Some(values.len()) {
                    return refuse(format!("{} labels for {rows} seeds of {classes} each", values.len()));
                }
                if let Some(position) = values.iter().position(|&value| value > 1) {
                    return refuse(format!(
                        "label {} at position {position} is neither 0 nor 1",
                        values[position]
                    ));
                }
                if rows == 0 {
                    return Ok(None);
                }
                Ok(Some(Self::Several(Borrowed::table(values, ElementType::U8, rows, classes)?)))
            }
        }
    }

    /// Those of `rows` rows in the memory of a CUDA device, unchecked: see [`Targets::within_range`].
    pub(crate) fn on_device(
        labels: DeviceSlice<'a>,
        task: Task,
        rows: usize,
        device: usize,
    ) -> Result<Self, TrainError> {
        Ok(if task.multi_label {
            let element = ElementType::U8;
            Self::Several(Borrowed::device_table(labels, element, rows, task.classes, "labels", device)?)
        } else {
            Self::One(Borrowed::device_vector::<i64>(labels, rows, "labels", device)?)
        })
    }

    /// A copy on `device`; on the host of the same storage. The copy has been made when this returns.
    pub(crate) fn to(&self, device: Device) -> Result<Targets<'a>, TrainError> {
        let copy = |tensor: &Tensor| -> Result<Borrowed<'a>, TrainError> {
            Ok(Borrowed::owned(tensor.f_to_device(device)?))
        };
        Ok(match self {
            Self::One(classes) => Targets::One(copy(classes.tensor())?),
            Self::Several(labels) => Targets::Several(copy(labels.tensor())?),
        })
    }

    /// Labels clamped into the range, by tensor operations: an invalid class in the loss kernel stops a device.
    /// Datasets are checked when they are opened.
    pub(crate) fn within_range(&self, task: Task) -> Result<Targets<'a>, TrainError> {
        Ok(match self {
            Self::One(classes) => {
                Targets::One(Borrowed::owned(classes.tensor().f_clamp(UNLABELLED, task.classes as i64 - 1)?))
            }
            Self::Several(labels) => Targets::Several(Borrowed::owned(labels.tensor().f_clamp(0, 1)?)),
        })
    }

    /// The labels as they lie, to read one number of.
    pub(crate) fn tensor(&self) -> &Tensor {
        let (Self::One(labels) | Self::Several(labels)) = self;
        labels.tensor()
    }

    /// The loss of `logits`, one row a label; the mean over nothing is NaN, the sum 0.
    pub(crate) fn loss(&self, logits: &Tensor, reduction: Reduction) -> Result<Tensor, TrainError> {
        Ok(match self {
            Self::One(classes) => {
                logits.f_cross_entropy_loss::<Tensor>(classes.tensor(), None, reduction, UNLABELLED, 0.0)?
            }
            Self::Several(labels) => {
                let labels = labels.tensor().f_to_kind(logits.f_kind()?)?;
                logits.f_binary_cross_entropy_with_logits::<Tensor>(&labels, None, None, reduction)?
            }
        })
    }

    /// The number of correct predictions and the number of labels: i64 tensors of one number.
    fn hits(&self, logits: &Tensor) -> Result<(Tensor, Tensor), TrainError> {
        let (told_right, labelled) = match self {
            // No logit has index −1, so unlabelled rows never count as correct.
            Self::One(classes) => {
                let classes = classes.tensor();
                (logits.f_argmax(1, false)?.f_eq_tensor(classes)?, classes.f_ne(UNLABELLED)?)
            }
            Self::Several(labels) => {
                let labels = labels.tensor();
                (logits.f_gt(0.0)?.f_eq_tensor(&labels.f_gt(0)?)?, labels.f_ge(0)?)
            }
        };
        Ok((told_right.f_sum(Kind::Int64)?, labelled.f_sum(Kind::Int64)?))
    }

    /// The loss and the number of correct predictions, on the host.
    pub(crate) fn tally(&self, loss: &Tensor, logits: &Tensor) -> Result<Tally, TrainError> {
        let _no_grad = tch::no_grad_guard();
        let (correct, labelled) = self.hits(&logits.f_detach()?)?;
        // All three in one copy: on a device, each copy waits for all work enqueued before it. f64 holds an f32 loss
        // and any count of rows exactly.
        let numbers = [&loss.f_detach()?, &correct, &labelled];
        let numbers: Result<Vec<Tensor>, _> = numbers.iter().map(|n| n.f_to_kind(Kind::Double)).collect();
        let numbers = Tensor::f_stack(&numbers?, 0)?.f_to_device(Device::Cpu)?;
        Ok(Tally {
            loss: numbers.f_double_value(&[0])?,
            correct: numbers.f_double_value(&[1])? as usize,
            labelled: numbers.f_double_value(&[2])? as usize,
        })
    }

    /// Summed loss, hits and, where `task` is judged by them, every answer.
    pub(crate) fn evaluate(&self, logits: &Tensor, task: Task) -> Result<Evaluation, TrainError> {
        let loss = self.loss(logits, Reduction::Sum)?;
        let Tally { loss: loss_sum, correct, labelled } = self.tally(&loss, logits)?;
        let scores = match task.metric {
            Metric::Accuracy => Scores::default(),
            Metric::RocAuc => self.scores(logits)?,
        };
        Ok(Evaluation { loss_sum, correct, labelled, scores })
    }

    /// The answers on the host: the logits of several labels, and of two classes the second's lead over the first.
    fn scores(&self, logits: &Tensor) -> Result<Scores, TrainError> {
        let logits = logits.f_detach()?.f_to_device(Device::Cpu)?.f_to_kind(Kind::Float)?;
        let labels = self.tensor().f_to_device(Device::Cpu)?.f_flatten(0, -1)?;
        let flat = |tensor: &Tensor| Ok::<_, TrainError>(Vec::<f32>::try_from(tensor.f_flatten(0, -1)?)?);
        Ok(match self {
            Self::One(_) => {
                let lead = flat(&logits.f_select(1, 1)?.f_sub(&logits.f_select(1, 0)?)?)?;
                let labels = Vec::<i64>::try_from(labels)?;
                let labelled = lead.into_iter().zip(labels).filter(|answer| answer.1 != UNLABELLED);
                let (values, positive) = labelled.map(|(value, label)| (value, label == 1)).unzip();
                Scores::new(1, values, positive)
            }
            Self::Several(_) => {
                let (_, classes) = logits.size2()?;
                let positive = Vec::<u8>::try_from(labels)?.into_iter().map(|label| label > 0).collect();
                Scores::new(classes as usize, flat(&logits)?, positive)
            }
        })
    }
}

/// The totals of a batch, on the host.
pub(crate) struct Tally {
    pub(crate) loss: f64,
    /// Rows whose largest logit is their label; or, with several labels, correct labels.
    pub(crate) correct: usize,
    /// Rows with a label; or labels.
    pub(crate) labelled: usize,
}

/// How many of `labels` are not −1. Refuses one that is no class.
fn count_labelled(labels: &[i64], classes: usize) -> Result<usize, TrainError> {
    let mut labelled = 0;
    for (position, &label) in labels.iter().enumerate() {
        if label < UNLABELLED || label >= classes as i64 {
            return Err(TrainError::Input(format!(
                "label {label} at position {position} is neither −1 nor one of {classes} classes"
            )));
        }
        labelled += usize::from(label != UNLABELLED);
    }
    Ok(labelled)
}
