//! Who makes the sums that the first layer begins with: the consumer from gathered rows, or the producer.

use serde_json::{Value, json};
use uva_graph::Dataset;
use uva_model::Weighting;
use uva_options::OptionError;
use uva_runtime::backend::Backend;
use uva_runtime::{Aggregation, is_summed};

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
                let Obstacle { option, why, remedy } = obstacle;
                let reason = format!("with {option}: {why}. Use `aggregate=off`{remedy}");
                Err(OptionError::new("aggregate", Aggregate::Host, reason))
            }
            (Aggregate::Auto, Some(Obstacle { option, why, .. })) => Ok(off(format!("{option}: {why}"))),
            (Aggregate::Auto, None) => {
                Ok(off("no rates of gathering and summing have been measured here, so a gain is not shown; \
                 --aggregate host tries it"
                    .to_owned()))
            }
        }
    }

    /// As the metrics' first line has it.
    pub fn in_force(&self) -> Value {
        let way = match self.aggregation {
            Aggregation::None => Aggregate::Off,
            Aggregation::Mean | Aggregation::Degrees => Aggregate::Host,
        };
        json!({ "way": way.name(), "sums": self.aggregation.name(), "reason": self.reason })
    }
}

/// What forbids sums of the producer.
struct Obstacle {
    /// The option or the dataset's part.
    option: String,
    why: String,
    /// Another way, behind `aggregate=off`.
    remedy: &'static str,
}

fn obstacle(options: &TrainingOptions, dataset: &Dataset, backend: &Backend) -> Option<Obstacle> {
    if let Some((option, why)) = options.trainer().refuses_sums() {
        let remedy = if option.contains("model") {
            ", or `model=sage` or `model=gcn`"
        } else {
            ", or leave that option out"
        };
        return Some(Obstacle { option, why: why.to_owned(), remedy });
    }
    let element = dataset.features().element;
    if !is_summed(element) {
        let (option, why) = (format!("features of {element}"), "only floats are summed".to_owned());
        return Some(Obstacle { option, why, remedy: ", or import the features as float16 or float32" });
    }
    backend.device_slots().map(|_| Obstacle {
        option: format!("`gather={}`", backend.gather_name()),
        why: "feature slots are on a GPU, and the CPU's sums do not go there yet".to_owned(),
        remedy: ", or `gather=cpu`",
    })
}
