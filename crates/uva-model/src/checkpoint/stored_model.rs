//! The model that a checkpoint describes.

use serde::Deserialize;
use serde_json::Value;

use uva_files::quote;

use super::checkpoint_error::CheckpointError;
use super::embedding_files::StoredEmbedding;
use super::stored::Checkpoint;
use crate::footprint::{Footprint, Shapes};
use crate::options::TrainerOptions;
use crate::options_error::OptionsError;
use crate::task::{RegressionLoss, TaskKind};

/// A checkpoint's model, without its parameters.
#[derive(Clone, Debug)]
pub struct StoredModel {
    /// The options of the training, except the number of threads.
    pub options: TrainerOptions,
    /// Feature columns.
    pub input_dim: usize,
    /// Columns of its output: classes, or numbers to predict.
    pub outputs: usize,
    /// The meaning of the outputs.
    pub kind: TaskKind,
}

impl Checkpoint {
    /// The model that the checkpoint describes. Its options are within their ranges, and the file of tensors is large
    /// enough for its parameters, so the model needs no allocation larger than the checkpoint.
    ///
    /// # Errors
    /// [`CheckpointError::Damaged`] with the field, if it is not a model of this program.
    pub fn model(&self) -> Result<StoredModel, CheckpointError> {
        let model = StoredModel::of(&self.trainer().model)
            .map_err(|problem| self.damaged(format!("trainer.model: {problem}")))?;
        let parameters = model.parameters();
        // A group has each parameter once. The groups are the model, the model of the best epoch, and the two moments
        // of Adam.
        let groups = if self.trainer().best { 4 } else { 3 };
        let (least, found) =
            (parameters.saturating_mul(groups * PARAMETER_BYTES), self.tensors().len() as u64);
        if least > found {
            return Err(self.damaged(format!(
                "trainer.model: it has {parameters} parameters, which take {least} bytes in {groups} groups of tensors, and \
                 its file of tensors has {found}"
            )));
        }
        // Their files have been found large enough.
        for table in model.options.embeddings() {
            let is_it = |stored: &&StoredEmbedding| stored.name == table.name;
            let found = self.embeddings().iter().find(is_it).map(|stored| (stored.rows, stored.columns));
            if found != Some((table.rows, table.columns)) {
                return Err(self.damaged(format!(
                    "trainer.model: its table of {} has {} rows of {} elements, and embeddings has {found:?}",
                    table.name, table.rows, table.columns
                )));
            }
        }
        Ok(model)
    }
}

/// Minimum bytes of a parameter.
const PARAMETER_BYTES: u64 = 4;

/// The field of `trainer.model` that holds an option.
fn field_of(option: &str) -> String {
    match option {
        "fanouts" => "layers".to_owned(),
        "use_hops" => "hops".to_owned(),
        "lr" => "learning_rate".to_owned(),
        "train_threads" => "threads".to_owned(),
        "first_layer" => "first_layer_given".to_owned(),
        option => option.to_owned(),
    }
}

impl StoredModel {
    /// The same network with a first layer that sums neighbours' rows, like the other layers. The parameters do not
    /// change.
    #[must_use]
    pub fn over_neighbours(self) -> Self {
        let input_dim = self.options.first_inputs(self.input_dim);
        Self { options: self.options.over_neighbours(), input_dim, ..self }
    }

    /// Number of trained parameters.
    fn parameters(&self) -> u64 {
        let Self { options, input_dim, outputs, .. } = self;
        let shapes = Shapes { input_dim: *input_dim, classes: *outputs, seeds: 0, nodes_evaluated: None };
        Footprint::new(options, &shapes).parameters
    }

    fn of(model: &Value) -> Result<Self, String> {
        let Value::Object(fields) = model else { return Err("it is not an object".to_owned()) };
        let mut fields = fields.clone();
        let (regression, has_types) = (fields.contains_key("targets"), fields.contains_key("graph"));
        let mut width = |name: &str, least: usize| {
            let value = fields.shift_remove(name).unwrap_or(Value::Null);
            let width = value.as_u64().and_then(|width| usize::try_from(width).ok());
            width.filter(|width| (least..=TrainerOptions::MAX_WIDTH).contains(width)).ok_or_else(|| {
                format!(
                    "{name} is {}, not a number from {least} to {}",
                    quote::shown(value.to_string()),
                    TrainerOptions::MAX_WIDTH
                )
            })
        };
        // The seeds of a model over relations may have no features: the options decide.
        let input_dim = width("input_dim", usize::from(!has_types))?;
        let outputs = width(if regression { "targets" } else { "classes" }, 1)?;
        let multi_label =
            fields.shift_remove("multi_label").and_then(|value| value.as_bool()).unwrap_or(false);
        let loss = fields.shift_remove("loss");
        let kind = match (regression, multi_label) {
            (true, _) => {
                let loss = loss.as_ref().and_then(Value::as_str).and_then(RegressionLoss::from_name);
                TaskKind::Regression(loss.ok_or("loss is not one of this program's")?)
            }
            (false, true) => TaskKind::MultiLabel,
            (false, false) => TaskKind::SingleLabel,
        };
        fields.insert("threads".to_owned(), Value::Null);
        let options = TrainerOptions::deserialize(Value::Object(fields))
            .map_err(|error| quote::message(&error.to_string()))?;
        options.check(input_dim, outputs).map_err(|error| match error {
            OptionsError::Option { option, problem } => format!("{}: {problem}", field_of(option)),
            OptionsError::Unsupported(problem) => problem,
        })?;
        Ok(Self { options, input_dim, outputs, kind })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn usual() -> Value {
        let mut model = serde_json::to_value(TrainerOptions::default()).unwrap();
        let fields = model.as_object_mut().unwrap();
        fields.shift_remove("threads");
        fields.insert("input_dim".to_owned(), json!(5));
        fields.insert("classes".to_owned(), json!(3));
        model
    }

    #[test]
    fn numbers_that_no_model_has_are_refused_by_their_field() {
        StoredModel::of(&usual()).unwrap();
        for (field, values) in [
            ("layers", vec![json!(0), json!(33), json!(40_000_000), json!(1_u64 << 31)]),
            ("hidden", vec![json!(0), json!(1 << 25), json!(u64::MAX)]),
            ("input_dim", vec![json!(0), json!(1_u64 << 31), json!(-1), json!("5"), json!(1.5)]),
            ("classes", vec![json!(0), json!(1_u64 << 31), Value::Null]),
            ("targets", vec![json!(0), json!(1_u64 << 31)]),
            ("heads", vec![json!(0), json!(u64::MAX)]),
            ("output_heads", vec![json!(0), json!(1 << 20)]),
            ("edge_dim", vec![json!(1_u64 << 31)]),
            ("hops", vec![json!(1_u64 << 31)]),
            ("operators", vec![json!(1_u64 << 31)]),
            ("dropout", vec![json!(1.0), json!(-1.0)]),
            ("learning_rate", vec![json!(0.0), json!(-1.0)]),
        ] {
            for value in values {
                let mut model = usual();
                model[field] = value.clone();
                let problem = StoredModel::of(&model).expect_err(field);
                let name = field.replace("edge_dim", "features per edge");
                assert!(problem.contains(&name), "{field} {value}: {problem}");
            }
        }
    }

    proptest! {
        #[test]
        fn no_model_of_any_numbers_makes_more_than_32_layers(
            field in 0_usize..40, value in any::<u64>(), model in 0_usize..9,
        ) {
            let mut changed = usual();
            let models = ["sage", "gcn", "gat", "gin", "gine", "sgc", "s2gc", "sign", "hoga"];
            changed["model"] = json!(models[model]);
            for (name, number) in [("hops", 2), ("operators", 1)] {
                changed[name] = json!(number);
            }
            let names: Vec<String> = changed.as_object().unwrap().keys().cloned().collect();
            changed[&names[field % names.len()]] = json!(value);
            if let Ok(model) = StoredModel::of(&changed) {
                prop_assert!(model.options.layers <= 32 && model.options.hops <= 64);
                let _ = model.parameters();
            }
        }
    }
}
