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
    /// Where.
    way: Aggregate,
    reason: String,
}

impl AggregateVerdict {
    /// By what was asked for. `auto` chooses the producer only where measured rates show a gain. Nothing measures them
    /// yet, so it leaves the sums to the consumer and says so.
    ///
    /// # Errors
    /// Sums of the producer that were asked for and cannot be: the reason, and another way.
    pub fn new(options: &TrainingOptions, dataset: &Dataset, backend: &Backend) -> Result<Self, OptionError> {
        let off = |reason: String| Self { aggregation: Aggregation::None, way: Aggregate::Off, reason };
        let sums = match options.model.row().weighting {
            Weighting::Degrees => Aggregation::Degrees,
            _ => Aggregation::Mean,
        };
        match (options.aggregate, obstacle(options, dataset, backend)) {
            (Aggregate::Off, _) => Ok(off("asked for".to_owned())),
            (way @ (Aggregate::Host | Aggregate::Device), None) => {
                Ok(Self { aggregation: sums, way, reason: "asked for".to_owned() })
            }
            (way @ (Aggregate::Host | Aggregate::Device), Some(obstacle)) => {
                let Obstacle { option, why, remedy } = obstacle;
                let reason = format!("with {option}: {why}. Use `aggregate=off`{remedy}");
                Err(OptionError::new("aggregate", way, reason))
            }
            (Aggregate::Auto, Some(Obstacle { option, why, .. })) => Ok(off(format!("{option}: {why}"))),
            (Aggregate::Auto, None) => {
                Ok(off("no rates of gathering and summing have been measured here, so a gain is not shown; \
                 --aggregate host tries it"
                    .to_owned()))
            }
        }
    }

    /// Whether the producer gathers the rows first, into memory of its own beside the slots.
    pub fn gathers_before_sums(&self) -> bool {
        self.way == Aggregate::Device
    }

    /// As the metrics' first line has it.
    pub fn in_force(&self) -> Value {
        json!({ "way": self.way.name(), "sums": self.aggregation.name(), "reason": self.reason })
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
    let option = || format!("`gather={}`", backend.gather_name());
    match (options.aggregate, backend.device_slots()) {
        (Aggregate::Host, Some(_)) => Some(Obstacle {
            option: option(),
            why: "feature slots are on a GPU, and the CPU's sums do not go there".to_owned(),
            remedy: ", or `aggregate=device`, or `gather=cpu`",
        }),
        (Aggregate::Device, None) => Some(Obstacle {
            option: option(),
            why: "feature slots are in host memory, where no kernel sums".to_owned(),
            remedy: ", or `aggregate=host`",
        }),
        (Aggregate::Auto, Some(_)) => Some(Obstacle {
            option: option(),
            why: "feature slots are on a GPU, where no rates of summing have been measured; --aggregate device tries it"
                .to_owned(),
            remedy: "",
        }),
        _ => None,
    }
}
