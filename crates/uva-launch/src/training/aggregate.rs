//! Who makes the sums that the first layer begins with: the consumer from gathered rows, or the producer.

use serde_json::{Value, json};
use uva_graph::Dataset;
use uva_model::Weighting;
use uva_options::OptionError;
use uva_runtime::backend::Backend;
use uva_runtime::{Aggregation, SumObstacle, obstacle_in_table};

use super::job::{Aggregate, TrainingOptions};

/// Who makes them in a run, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AggregateVerdict {
    /// What the producer sums up.
    pub aggregation: Aggregation,
    reason: String,
}

impl AggregateVerdict {
    /// By what was asked for. `auto` chooses the producer only where measured rates show a gain. Nothing measures them
    /// yet, so it leaves the sums to the consumer and says so.
    ///
    /// # Errors
    /// Sums of the producer that were asked for and cannot be: the reason, and another way.
    pub fn new(options: &TrainingOptions, dataset: &Dataset, backend: &Backend) -> Result<Self, OptionError> {
        let off = |reason: String| Self { aggregation: Aggregation::None, reason };
        let sums = match options.model.row().weighting {
            Weighting::Degrees => Aggregation::Degrees,
            _ => Aggregation::Mean,
        };
        match (options.aggregate, obstacle(options, dataset, backend)) {
            (Aggregate::Device, _) => Err(OptionError::new(
                "aggregate",
                Aggregate::Device,
                "there is no kernel yet that sums: use `aggregate=host` or `aggregate=off`",
            )),
            (Aggregate::Off, _) => Ok(off("asked for".to_owned())),
            (Aggregate::Host, None) => Ok(Self { aggregation: sums, reason: "asked for".to_owned() }),
            (Aggregate::Host, Some(obstacle)) => {
                let SumObstacle { option, why, remedy } = obstacle;
                let reason = format!("with {option}: {why}. Use `aggregate=off`, or {remedy}");
                Err(OptionError::new("aggregate", Aggregate::Host, reason))
            }
            (Aggregate::Auto, Some(SumObstacle { option, why, .. })) => Ok(off(format!("{option}: {why}"))),
            (Aggregate::Auto, None) => {
                Ok(off("no rates of gathering and summing have been measured here, so a gain is not shown; \
                 --aggregate host tries it"
                    .to_owned()))
            }
        }
    }

    /// As the metrics' first line has it.
    pub fn in_force(&self) -> Value {
        let way = if self.aggregation == Aggregation::None { Aggregate::Off } else { Aggregate::Host };
        json!({ "way": way.name(), "sums": self.aggregation.name(), "reason": self.reason })
    }
}

fn obstacle(options: &TrainingOptions, dataset: &Dataset, backend: &Backend) -> Option<SumObstacle> {
    if let Some((option, why)) = options.trainer().refuses_sums() {
        let remedy =
            if option.contains("model") { "`model=sage` or `model=gcn`" } else { "leave that option out" };
        return Some(SumObstacle { option, why: why.to_owned(), remedy });
    }
    obstacle_in_table(dataset.features().element).or_else(|| backend.sum_obstacle())
}
