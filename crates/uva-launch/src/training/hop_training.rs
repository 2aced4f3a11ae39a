//! Training options for a hop set.

use uva_model::{FeatureNorm, ModelKind, ModelRow, NormKind};
use uva_options::{OptionError, Options as _};

use super::job::{Aggregate, EvaluateBy, TrainingOptions};

impl TrainingOptions {
    /// Checks the options for a hop set of so many hops of each of so many operators, and keeps both. What sampling takes
    /// part in is the caller's to check.
    ///
    /// # Errors
    /// An option that is out of range, that contradicts another, or that models over hop sets do not have.
    pub fn check_for_hops(&mut self, stored_hops: usize, operators: usize) -> Result<(), OptionError> {
        self.check_ranges()?;
        let model = self.model.row();
        let Some(hops) = model.hops else {
            let models = ModelKind::names_of(ModelRow::reads_hops);
            let reason =
                format!("it trains on sampled neighbours, and a hop set has none: use `model={models}`");
            return Err(OptionError::new("model", model.name, reason));
        };
        self.check_model()?;
        let summed = matches!(self.aggregate, Aggregate::Host | Aggregate::Device);
        for (option, given, reason) in [
            (
                "residual",
                self.residual,
                "only models over sampled neighbours have layers that add to their rows",
            ),
            (
                "norm",
                self.norm != NormKind::None,
                "only models over sampled neighbours take it; hoga always has layer \
                normalisation",
            ),
            (
                "feature_norm",
                self.feature_norm != FeatureNorm::None,
                "features are normalised before they are \
                multiplied: give it to `uvatrain propagate`",
            ),
            ("aggregate", summed, "the sums of a hop set have been made"),
            (
                "eval",
                self.evaluate_by == EvaluateBy::Full,
                "rows of a hop set hold all neighbours, so that every \
                evaluation is full",
            ),
        ] {
            if given {
                return Err(OptionError::of(option, reason.to_owned()));
            }
        }
        if operators > 1 && !hops.several_operators {
            let several = |row: &ModelRow| row.hops.is_some_and(|hops| hops.several_operators);
            let reason = format!(
                "it takes hops of one operator, and this hop set has {operators}: use `model={}`",
                ModelKind::names_of(several)
            );
            return Err(OptionError::new("model", model.name, reason));
        }
        if let Some(more) = self.use_hops.filter(|&hops| hops > stored_hops) {
            let reason = format!("the hop set has {stored_hops}: `uvatrain propagate` makes more");
            return Err(OptionError::new("use_hops", more, reason));
        }
        (self.stored_hops, self.operators) = (stored_hops, operators);
        Ok(())
    }
}

/// The loader's options that a hop set has a use for. The others are about sampling, or about roles that it has not.
pub const OF_HOP_SETS: [&str; 8] =
    ["batch_size", "drop_last", "seed", "samplers", "slots", "gather_threads", "features", "reader"];

/// Refuses an option of sampling or gathering.
#[must_use]
pub fn of_no_use_with_a_hop_set(name: &str) -> OptionError {
    let reason =
        "DATA is a hop set, whose rows are copied without sampling or gathering: leave the option out";
    OptionError::of(name, reason)
}

/// Refuses an option of hop sets.
#[must_use]
pub fn of_no_use_without_a_hop_set(name: &str) -> OptionError {
    let reason = "DATA is no hop set, whose rows it is about: `uvatrain propagate` makes one";
    OptionError::of(name, reason)
}
