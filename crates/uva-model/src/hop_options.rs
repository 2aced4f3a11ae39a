//! The options of a model over a hop set: their checks, and the tables that the model reads.

use crate::hops::hop_model::HopModel;
use crate::options::TrainerOptions;
use crate::options_error::OptionsError;

/// Maximum number of hops, and of operators, of a hop set.
const MOST_HOPS: usize = 64;

impl TrainerOptions {
    /// The tables of a hop set that the model reads, in the order of a batch. Table 0 holds the features, and table 1 +
    /// k · `stored_hops` + (r − 1) hop r of operator k.
    #[must_use]
    pub fn tables_read(&self, stored_hops: usize) -> Vec<usize> {
        let last_alone = self.model.row().hops.is_some_and(|hops| hops.last_alone);
        let of_operator = |operator: usize| {
            let hops = if last_alone { self.hops..=self.hops } else { 1..=self.hops };
            hops.map(move |hop| operator * stored_hops + hop)
        };
        let features = (!last_alone).then_some(0);
        features.into_iter().chain((0..self.operators).flat_map(of_operator)).collect()
    }

    /// Rejects hops and operators of a model without a hop set, and options that are invalid for one with it.
    pub(crate) fn check_hops(&self) -> Result<(), OptionsError> {
        match &self.model.row().hops {
            Some(model) => self.check_of_hop_set(model),
            None if self.hops > 0 || self.operators > 0 => Err(OptionsError::Unsupported(format!(
                "it has {} hops of {} operators, and `model={}` does not train on a hop set",
                self.hops,
                self.operators,
                self.model.name()
            ))),
            None => Ok(()),
        }
    }

    fn check_of_hop_set(&self, model: &HopModel) -> Result<(), OptionsError> {
        let refuse = |option, problem: String| Err(OptionsError::Option { option, problem });
        if self.hops == 0 || self.hops > MOST_HOPS {
            return refuse("use_hops", format!("{} is not between 1 and {MOST_HOPS}", self.hops));
        }
        if self.operators == 0
            || self.operators > MOST_HOPS
            || (self.operators > 1 && !model.several_operators)
        {
            return Err(OptionsError::Unsupported(format!(
                "it has hops of {} operators, which `model={}` does not support",
                self.operators,
                self.model.name()
            )));
        }
        let least = model.layers.map_or(1, |layers| layers.least);
        if self.layers < least {
            return refuse(
                "layers",
                format!("{} layers, and `model={}` has at least {least}", self.layers, self.model.name()),
            );
        }
        if !(0.0..=1.0).contains(&self.alpha) {
            return refuse("alpha", format!("{} is not between 0 and 1", self.alpha));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model_kind::ModelKind;

    fn options(model: ModelKind, hops: usize, operators: usize) -> TrainerOptions {
        TrainerOptions { model, hops, operators, ..TrainerOptions::default() }
    }

    #[test]
    fn a_model_reads_its_hops_of_each_operator_and_sgc_the_last_alone() {
        let read = |model, operators| options(model, 2, operators).tables_read(4);
        assert_eq!(read(ModelKind::Sgc, 1), [2]);
        assert_eq!(read(ModelKind::S2gc, 1), [0, 1, 2]);
        assert_eq!(read(ModelKind::Hoga, 1), [0, 1, 2]);
        assert_eq!(read(ModelKind::Sign, 3), [0, 1, 2, 5, 6, 9, 10]);
        assert_eq!(options(ModelKind::Sign, 4, 2).tables_read(4), (0..9).collect::<Vec<_>>());
    }

    #[test]
    fn options_that_make_no_model_over_a_hop_set_are_refused_by_name() {
        let refused = |options: TrainerOptions| options.check(5, 3).unwrap_err().to_string();
        assert!(options(ModelKind::Sign, 3, 2).check(5, 3).is_ok());
        assert!(refused(options(ModelKind::Sign, 0, 1)).starts_with("`use_hops`: 0 is not between 1 and 64"));
        assert!(refused(options(ModelKind::Hoga, 65, 1)).starts_with("`use_hops`: 65"));
        assert!(refused(options(ModelKind::Hoga, 3, 2)).contains("hops of 2 operators, which `model=hoga`"));
        assert!(refused(options(ModelKind::Sgc, 3, 0)).contains("hops of 0 operators"));
        let one = TrainerOptions { layers: 1, ..options(ModelKind::Sign, 3, 1) };
        assert_eq!(refused(one), "`layers`: 1 layers, and `model=sign` has at least 2");
        let none = TrainerOptions { layers: 0, ..options(ModelKind::Hoga, 3, 1) };
        assert!(refused(none).starts_with("`layers`: 0 layers: expected 1 to 32"));
        let alpha = TrainerOptions { alpha: f64::NAN, ..options(ModelKind::S2gc, 3, 1) };
        assert!(refused(alpha).starts_with("`alpha`: NaN"));
        let heads = TrainerOptions { heads: 3, ..options(ModelKind::Hoga, 3, 1) };
        assert!(refused(heads).starts_with("`heads`: 3 heads do not divide"));
    }
}
