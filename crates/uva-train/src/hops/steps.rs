//! The steps after the front of a model over a hop set.

use crate::TrainError;
use crate::nn::rowwise::Prelu;
use crate::step::{Builder, Named, Step};
use uva_model::{ActivationKind, ModelKind, TrainerOptions};

/// The steps after the front of a model over a hop set, from rows of `input_dim` columns to `classes` logits.
pub(crate) fn steps(
    builder: &mut Builder<'_>,
    (input_dim, classes): (usize, usize),
) -> Result<Vec<Named>, TrainError> {
    let TrainerOptions { model, hidden, layers, hops, .. } = *builder.options;
    match model {
        ModelKind::Sign => {}
        // The front makes the logits.
        ModelKind::Hoga => return Ok(Vec::new()),
        _ => return Ok(vec![builder.linear("output.".to_owned(), input_dim, classes)?]),
    }
    let mut steps = Vec::new();
    for layer in 1..layers {
        match builder.options.activation {
            ActivationKind::Relu => steps.push(Named::without_parameters(Step::Activate)),
            ActivationKind::Prelu => {
                let step = Step::Prelu(Prelu::new(builder.place)?);
                steps.push(Named { name: format!("layers.{}.", layer - 1), step });
                steps.push(Named::without_parameters(Step::Drop));
            }
        }
        let inputs = if layer == 1 { (1 + hops) * hidden } else { hidden };
        let outputs = if layer + 1 == layers { classes } else { hidden };
        steps.push(builder.linear(format!("layers.{layer}."), inputs, outputs)?);
    }
    Ok(steps)
}
