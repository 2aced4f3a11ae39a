//! The targets of a batch's logits: loss, correct predictions, and single predictions.

use crate::TrainError;
use crate::input::evaluation::{Errors, Evaluation, Scores};
use crate::torch::borrowed::Borrowed;
use crate::torch::device::TrainDevice;
use tch::{Device, Kind, Reduction, Tensor};
use uva_batch::{ColumnArray, Element};
use uva_graph::{ElementType, Labels};
use uva_model::{ClassCounts, Metric, RegressionLoss, Task, TaskKind};

/// Marks a node without a label, for libtorch's loss.
const UNLABELLED: i64 = -1;

/// Labels as tensors, with a row per row of logits.
pub(crate) enum Targets<'a> {
    /// One class per node: i64 [rows], [`UNLABELLED`] if there is none.
    One(Borrowed<'a>),
    /// Several labels per node: u8 [rows, classes], zeros and ones.
    Several(Borrowed<'a>),
    /// Numbers: f32 [rows, columns], and the loss to minimise.
    Numbers(Borrowed<'a>, RegressionLoss),
}

impl<'a> Targets<'a> {
    /// The targets of `rows` rows in host memory, checked; `None` if no row has a label.
    pub(crate) fn on_host(labels: Labels<'a>, task: Task, rows: usize) -> Result<Option<Self>, TrainError> {
        let refuse = |problem: String| Err(TrainError::Input(problem));
        let model = match task.kind {
            TaskKind::SingleLabel => "a model of one class a node",
            TaskKind::MultiLabel => "a multi-label model",
            TaskKind::Regression(_) => "a model of regression",
        };
        match (labels, task.kind) {
            (Labels::Absent, _) => refuse(format!("a batch without labels for {model}")),
            (Labels::Single(values), TaskKind::SingleLabel) => {
                if values.len() != rows {
                    return refuse(format!("{} labels for {rows} seeds", values.len()));
                }
                let labelled = count_labelled(values, task.outputs)?;
                if labelled > 0 { Ok(Some(Self::One(Borrowed::vector(values)?))) } else { Ok(None) }
            }
            (Labels::Single(_), _) => refuse(format!("labels of one class a node for {model}")),
            (Labels::Multi { classes, values }, TaskKind::MultiLabel) => {
                if classes != task.outputs {
                    return refuse(format!("labels of {classes} classes for a model of {}", task.outputs));
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
            (Labels::Multi { classes, .. }, _) => {
                refuse(format!("multi-label labels (uint8 [N, {classes}]) for {model}"))
            }
            (Labels::Regression { columns, values }, TaskKind::Regression(loss)) => {
                let columns = columns.unwrap_or(1);
                if columns != task.outputs {
                    return refuse(format!("targets of {columns} columns for a model of {}", task.outputs));
                }
                if rows.checked_mul(columns) != Some(values.len()) {
                    return refuse(format!("{} targets for {rows} seeds of {columns} each", values.len()));
                }
                if let Some(position) = values.iter().position(|value| !value.is_finite()) {
                    return refuse(format!(
                        "target {} at position {position} is not finite",
                        values[position]
                    ));
                }
                if rows == 0 {
                    return Ok(None);
                }
                let bytes = bytemuck::cast_slice(values);
                Ok(Some(Self::Numbers(Borrowed::table(bytes, ElementType::F32, rows, columns)?, loss)))
            }
            (Labels::Regression { .. }, _) => refuse(format!("float32 targets for {model}")),
        }
    }

    /// The targets of `rows` rows in the memory of a CUDA device, unchecked: see [`Targets::within_range`].
    pub(crate) fn on_device(
        labels: &ColumnArray<'a>,
        task: Task,
        rows: usize,
        device: TrainDevice,
    ) -> Result<Self, TrainError> {
        let of = |element, width| {
            Borrowed::array(&ColumnArray { element, rows, width, ..*labels }, "labels", device)
        };
        Ok(match task.kind {
            TaskKind::SingleLabel => Self::One(of(Element::I64, None)?),
            TaskKind::MultiLabel => Self::Several(of(Element::U8, Some(task.outputs))?),
            TaskKind::Regression(loss) => Self::Numbers(of(Element::F32, Some(task.outputs))?, loss),
        })
    }

    /// A copy on `device`; on the host with the same storage. The copy is complete on return.
    pub(crate) fn to(&self, device: Device) -> Result<Targets<'a>, TrainError> {
        let copy = |tensor: &Tensor| -> Result<Borrowed<'a>, TrainError> {
            Ok(Borrowed::owned(tensor.f_to_device(device)?))
        };
        Ok(match self {
            Self::One(classes) => Targets::One(copy(classes.tensor())?),
            Self::Several(labels) => Targets::Several(copy(labels.tensor())?),
            Self::Numbers(numbers, loss) => Targets::Numbers(copy(numbers.tensor())?, *loss),
        })
    }

    /// Labels clamped into the range, by tensor operations: an invalid class in the loss kernel stops a device.
    /// Datasets are checked when they are opened. Numbers are not changed, as any number has a loss.
    pub(crate) fn within_range(&self, task: Task) -> Result<Targets<'a>, TrainError> {
        Ok(match self {
            Self::One(classes) => {
                Targets::One(Borrowed::owned(classes.tensor().f_clamp(UNLABELLED, task.outputs as i64 - 1)?))
            }
            Self::Several(labels) => Targets::Several(Borrowed::owned(labels.tensor().f_clamp(0, 1)?)),
            Self::Numbers(numbers, loss) => {
                Targets::Numbers(Borrowed::owned(numbers.tensor().shallow_clone()), *loss)
            }
        })
    }

    /// The targets of the first rows.
    pub(crate) fn first(self, rows: usize) -> Result<Self, TrainError> {
        // A view of the same memory, which `'a` still borrows.
        let first = |labels: Borrowed<'a>| -> Result<Borrowed<'a>, TrainError> {
            Ok(Borrowed::owned(labels.tensor().f_narrow(0, 0, rows as i64)?))
        };
        Ok(match self {
            Self::One(classes) => Self::One(first(classes)?),
            Self::Several(labels) => Self::Several(first(labels)?),
            Self::Numbers(numbers, loss) => Self::Numbers(first(numbers)?, loss),
        })
    }

    /// The rows of `logits` that have a target: all, or the first ones if padding seeds follow.
    pub(crate) fn rows_of(&self, logits: &Tensor) -> Result<Tensor, TrainError> {
        let rows = self.tensor().size()[0];
        Ok(if logits.size()[0] == rows { logits.shallow_clone() } else { logits.f_narrow(0, 0, rows)? })
    }

    /// The labels as a tensor, from which single numbers are read.
    pub(crate) fn tensor(&self) -> &Tensor {
        let (Self::One(labels) | Self::Several(labels) | Self::Numbers(labels, _)) = self;
        labels.tensor()
    }

    /// The loss of `logits`, with a row per label. The mean over no rows is NaN, the sum 0. For one class per node,
    /// `weights` has the weight of each class; a mean is divided by the sum of its rows' weights.
    pub(crate) fn loss(
        &self,
        logits: &Tensor,
        weights: Option<&Tensor>,
        reduction: Reduction,
    ) -> Result<Tensor, TrainError> {
        Ok(match self {
            Self::One(classes) => {
                logits.f_cross_entropy_loss(classes.tensor(), weights, reduction, UNLABELLED, 0.0)?
            }
            Self::Several(labels) => {
                let labels = labels.tensor().f_to_kind(logits.f_kind()?)?;
                logits.f_binary_cross_entropy_with_logits::<Tensor>(&labels, None, None, reduction)?
            }
            Self::Numbers(numbers, loss) => {
                let numbers = numbers.tensor().f_to_kind(logits.f_kind()?)?;
                match loss {
                    RegressionLoss::Mse => logits.f_mse_loss(&numbers, reduction)?,
                    RegressionLoss::Mae => logits.f_l1_loss(&numbers, reduction)?,
                }
            }
        })
    }

    /// The number of correct predictions and the number of labels: i64 tensors of one number.
    pub(crate) fn hits(&self, logits: &Tensor) -> Result<(Tensor, Tensor), TrainError> {
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
            // For numbers there are no correct predictions.
            Self::Numbers(numbers, _) => {
                let numbers = numbers.tensor();
                let kind = (Kind::Bool, numbers.device());
                (Tensor::f_zeros([1], kind)?, Tensor::f_ones(numbers.size(), kind)?)
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

    /// Refuses NaN or infinite outputs of labelled rows: their largest would count as a prediction. Only a loss that is
    /// not finite indicates that there may be any.
    fn check_finite(&self, loss_sum: f64, logits: &Tensor) -> Result<(), TrainError> {
        if loss_sum.is_finite() {
            return Ok(());
        }
        let finite = finite_rows(logits)?;
        let finite = match self {
            Self::One(classes) => {
                let unlabelled = classes.tensor().f_eq(UNLABELLED)?.f_to_device(Device::Cpu)?;
                finite.f_logical_or(&unlabelled)?
            }
            Self::Several(_) | Self::Numbers(..) => finite,
        };
        first_not_finite(&finite)
    }

    /// Summed loss, hits and, if the metric of `task` requires them, every prediction.
    ///
    /// # Errors
    /// [`TrainError::NotFinite`] for outputs that are NaN or infinite.
    pub(crate) fn evaluate(&self, logits: &Tensor, task: Task) -> Result<Evaluation, TrainError> {
        if let Self::Numbers(numbers, loss) = self {
            let errors = errors(logits, numbers.tensor())?;
            let loss_sum = match loss {
                RegressionLoss::Mse => errors.squared,
                RegressionLoss::Mae => errors.absolute,
            };
            self.check_finite(loss_sum, logits)?;
            let labelled = numbers.tensor().numel();
            return Ok(Evaluation { loss_sum, labelled, errors: Some(errors), ..Evaluation::default() });
        }
        let loss = self.loss(logits, None, Reduction::Sum)?;
        let Tally { loss: loss_sum, correct, labelled } = self.tally(&loss, logits)?;
        self.check_finite(loss_sum, logits)?;
        let scores = match task.metric {
            Metric::RocAuc => self.scores(logits)?,
            Metric::Accuracy | Metric::Mse | Metric::Mae => Scores::default(),
        };
        let classes = self.class_counts(logits)?;
        Ok(Evaluation { loss_sum, correct, labelled, classes, scores, errors: None })
    }

    /// Labels and predictions by class, for one class per node.
    fn class_counts(&self, logits: &Tensor) -> Result<ClassCounts, TrainError> {
        let Self::One(classes) = self else { return Ok(ClassCounts::default()) };
        let (_, outputs) = logits.size2()?;
        let on_host =
            |tensor: &Tensor| Ok::<_, TrainError>(Vec::<i64>::try_from(tensor.f_to_device(Device::Cpu)?)?);
        let predicted = on_host(&logits.f_detach()?.f_argmax(1, false)?)?;
        Ok(ClassCounts::of(outputs as usize, on_host(classes.tensor())?.into_iter().zip(predicted)))
    }

    /// The scores on the host: the logits for several labels, and for two classes the second logit minus the first.
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
            Self::Numbers(..) => Scores::default(),
        })
    }
}

/// Whether each row has only finite numbers, on the host.
fn finite_rows(rows: &Tensor) -> Result<Tensor, TrainError> {
    let finite = rows.f_detach()?.f_isfinite()?.f_to_device(Device::Cpu)?;
    let (count, columns) = (rows.size()[0], rows.numel() as i64 / rows.size()[0].max(1));
    Ok(finite.f_reshape([count, columns])?.f_all_dim(1, false)?)
}

/// Refuses the first row that is not finite.
fn first_not_finite(finite: &Tensor) -> Result<(), TrainError> {
    let finite = Vec::<bool>::try_from(finite)?;
    match finite.iter().position(|finite| !finite) {
        Some(seed) => Err(TrainError::NotFinite { node: None, seed }),
        None => Ok(()),
    }
}

/// Refuses rows with a number that is NaN or infinite.
///
/// # Errors
/// [`TrainError::NotFinite`] with the first such row.
pub(crate) fn check_finite(rows: &Tensor) -> Result<(), TrainError> {
    first_not_finite(&finite_rows(rows)?)
}

/// Sums of squared and of absolute errors, in double precision: a test split may have many nodes.
fn errors(outputs: &Tensor, targets: &Tensor) -> Result<Errors, TrainError> {
    let off = outputs.f_detach()?.f_to_kind(Kind::Double)?.f_sub(&targets.f_to_kind(Kind::Double)?)?;
    let sums = [off.f_square()?.f_sum(Kind::Double)?, off.f_abs()?.f_sum(Kind::Double)?];
    let sums = Tensor::f_stack(&sums, 0)?.f_to_device(Device::Cpu)?;
    Ok(Errors { squared: sums.f_double_value(&[0])?, absolute: sums.f_double_value(&[1])? })
}

/// The totals of a batch, on the host.
pub(crate) struct Tally {
    pub(crate) loss: f64,
    /// Rows whose largest logit is their label; for several labels, correct labels. 0 for numbers.
    pub(crate) correct: usize,
    /// Number of rows with a label, of labels, or of numbers.
    pub(crate) labelled: usize,
}

/// The number of `labels` that are not −1. Refuses a label that is not a class.
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
