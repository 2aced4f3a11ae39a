//! Training options for a hop set.

use uva_model::{FeatureNorm, ModelKind, ModelRow, NormKind};
use uva_options::{OptionError, Options as _};

use super::job::{Aggregate, EvaluateBy, TrainingOptions};

impl TrainingOptions {
    /// Checks the options for a hop set with this number of hops of each operator and this number of operators, and keeps
    /// both numbers. The caller checks the options of sampling.
    ///
    /// # Errors
    /// An option that is out of range, that contradicts another, or that models over hop sets do not have.
    pub fn check_for_hops(&mut self, stored_hops: usize, operators: usize) -> Result<(), OptionError> {
        self.check_ranges()?;
        let model = self.model.row();
        let Some(hops) = model.hops else {
            let models = ModelKind::names_of(ModelRow::reads_hops);
            let reason =
                format!("requires sampled neighbours, which a hop set does not have: use `model={models}`");
            return Err(OptionError::new("model", model.name, reason));
        };
        self.check_model()?;
        let summed = matches!(self.aggregate, Aggregate::Host | Aggregate::Device);
        for (option, given, reason) in [
            ("residual", self.residual, "only valid with models over sampled neighbours"),
            (
                "norm",
                self.norm != NormKind::None,
                "only valid with models over sampled neighbours; hoga always has layer \
                normalisation",
            ),
            (
                "feature_norm",
                self.feature_norm != FeatureNorm::None,
                "the features of a hop set are normalised before propagation: give the \
                option to `uvatrain propagate`",
            ),
            ("aggregate", summed, "not supported with a hop set, which contains its sums"),
            (
                "eval",
                self.evaluate_by == EvaluateBy::Full,
                "not supported with a hop set: its rows include all neighbours, so that every \
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
                "requires hops of one operator, but this hop set has {operators}: use `model={}`",
                ModelKind::names_of(several)
            );
            return Err(OptionError::new("model", model.name, reason));
        }
        if let Some(more) = self.use_hops.filter(|&hops| hops > stored_hops) {
            let reason = format!("the hop set has only {stored_hops}; make more with `uvatrain propagate`");
            return Err(OptionError::new("use_hops", more, reason));
        }
        (self.stored_hops, self.operators) = (stored_hops, operators);
        Ok(())
    }
}

/// The loader's options that are valid for a hop set. The others concern sampling, or roles that a hop set does not have.
pub const OF_HOP_SETS: [&str; 8] =
    ["batch_size", "drop_last", "seed", "samplers", "slots", "gather_threads", "features", "reader"];

/// Refuses an option of sampling or gathering.
#[must_use]
pub fn of_no_use_with_a_hop_set(name: &str) -> OptionError {
    let reason = "not supported with a hop set, whose rows are copied without sampling or gathering";
    OptionError::of(name, reason)
}

/// Refuses an option of hop sets.
#[must_use]
pub fn of_no_use_without_a_hop_set(name: &str) -> OptionError {
    let reason = "only valid with a hop set, and DATA is a dataset; make a hop set with `uvatrain propagate`";
    OptionError::of(name, reason)
}
