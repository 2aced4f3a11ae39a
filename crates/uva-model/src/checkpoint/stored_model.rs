//! The model that a checkpoint describes.

use serde::Deserialize;
use serde_json::Value;

use super::checkpoint_error::CheckpointError;
use super::stored::Checkpoint;
use crate::options::TrainerOptions;
use crate::task::{RegressionLoss, TaskKind};

/// A checkpoint's model, without its parameters.
#[derive(Clone, Debug)]
pub struct StoredModel {
    /// The options it was trained with, except the number of threads.
    pub options: TrainerOptions,
    /// Feature columns.
    pub input_dim: usize,
    /// Columns of its output: classes, or numbers to predict.
    pub outputs: usize,
    /// What they mean.
    pub kind: TaskKind,
}

impl Checkpoint {
    /// The model that it describes.
    ///
    /// # Errors
    /// [`CheckpointError::Damaged`] if that is none of this program's.
    pub fn model(&self) -> Result<StoredModel, CheckpointError> {
        StoredModel::of(&self.trainer().model)
            .map_err(|problem| self.damaged(format!("its model cannot be read: {problem}")))
    }
}

impl StoredModel {
    /// The same network where its first layer sums neighbours' rows, as the others do: the parameters are the same.
    #[must_use]
    pub fn over_neighbours(self) -> Self {
        let input_dim = self.options.first_inputs(self.input_dim);
        Self { options: self.options.over_neighbours(), input_dim, ..self }
    }

    fn of(model: &Value) -> Result<Self, String> {
        let Value::Object(fields) = model else { return Err("it is no object".to_owned()) };
        let mut fields = fields.clone();
        let mut number = |name: &str| {
            let value = fields.shift_remove(name).as_ref().and_then(Value::as_u64);
            value.and_then(|value| usize::try_from(value).ok()).ok_or_else(|| format!("{name} is no number"))
        };
        let input_dim = number("input_dim")?;
        let regression = number("targets").ok();
        let outputs = regression.map_or_else(|| number("classes"), Ok)?;
        let multi_label =
            fields.shift_remove("multi_label").and_then(|value| value.as_bool()).unwrap_or(false);
        let loss = fields.shift_remove("loss");
        let kind = match (regression, multi_label) {
            (Some(_), _) => {
                let loss = loss.as_ref().and_then(Value::as_str).and_then(RegressionLoss::from_name);
                TaskKind::Regression(loss.ok_or("loss is none of this program's")?)
            }
            (None, true) => TaskKind::MultiLabel,
            (None, false) => TaskKind::SingleLabel,
        };
        fields.insert("threads".to_owned(), Value::Null);
        let options =
            TrainerOptions::deserialize(Value::Object(fields)).map_err(|error| error.to_string())?;
        Ok(Self { options, input_dim, outputs, kind })
    }
}
