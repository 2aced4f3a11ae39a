//! Obstacles to sums by the producer, for any model.

use uva_batch::Aggregation;
use uva_graph::ElementType;
use uva_options::OptionError;

use crate::RuntimeError;
use crate::backend::widening::narrow_float;

/// The reason why the producer's CPU threads cannot make sums, or read rows, with a remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Obstacle {
    /// The option, or the part of the dataset.
    pub option: String,
    /// The reason.
    pub why: String,
    /// A remedy other than leaving the sums to the consumer.
    pub remedy: &'static str,
}

/// Whether rows of this type can be summed.
#[must_use]
pub fn is_summed(element: ElementType) -> bool {
    element == ElementType::F32 || narrow_float(Some(element)).is_some()
}

/// The obstacle in a table of this type, if any.
#[must_use]
pub fn obstacle_in_table(element: ElementType) -> Option<Obstacle> {
    (!is_summed(element)).then(|| Obstacle {
        option: format!("features of {element}"),
        why: "only floats are summed".to_owned(),
        remedy: "features imported as float16 or float32",
    })
}

/// Rejects the loader's option if there is an obstacle.
pub(crate) fn check_sums(aggregation: Aggregation, obstacle: Option<Obstacle>) -> Result<(), RuntimeError> {
    match obstacle {
        Some(Obstacle { option, why, remedy }) if aggregation != Aggregation::None => {
            let reason = format!("not supported with {option}: {why}. Omit `aggregate`, or use {remedy}");
            Err(OptionError::new("aggregate", aggregation, reason).into())
        }
        _ => Ok(()),
    }
}
