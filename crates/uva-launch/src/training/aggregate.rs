//! Who makes the sums that the first layer begins with: the consumer from gathered rows, or the producer.

use serde_json::{Value, json};
use uva_graph::Dataset;
use uva_model::Weighting;
use uva_options::OptionError;
use uva_runtime::backend::Backend;
use uva_runtime::plan::RunPlan;
use uva_runtime::{Aggregation, SumObstacle, Windows, obstacle_in_table};

use super::job::{Aggregate, TrainingOptions};

/// Who makes them in a run, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AggregateVerdict {
    /// What the producer sums up, in all batches or in some.
    pub aggregation: Aggregation,
    /// Columns of the first layer's output, where the run tries both ways; `None` where nothing is left to choose.
    pub chosen_for: Option<usize>,
    /// Where the sums are made.
    way: Aggregate,
    reason: String,
}

impl AggregateVerdict {
    /// The consumer, or nobody.
    pub fn off(reason: &str) -> Self {
        let reason = reason.to_owned();
        Self { aggregation: Aggregation::None, chosen_for: None, way: Aggregate::Off, reason }
    }

    /// By what was asked for. `auto` leaves the choice to the run, where there is one to make and the run is long enough
    /// for it. The model's last layer has `outputs` columns.
    ///
    /// # Errors
    /// Sums of the producer that were asked for and cannot be: the reason, and another way.
    pub fn new(
        options: &TrainingOptions,
        dataset: &Dataset,
        backend: &Backend,
        plan: &RunPlan,
        outputs: usize,
    ) -> Result<Self, OptionError> {
        let sums = match options.model.row().weighting {
            Weighting::Degrees => Aggregation::Degrees,
            _ => Aggregation::Mean,
        };
        match (options.aggregate, obstacle(options, dataset, backend)) {
            (Aggregate::Off, _) => Ok(Self::off("asked for")),
            (way @ (Aggregate::Host | Aggregate::Device), None) => {
                Ok(Self { aggregation: sums, chosen_for: None, way, reason: "asked for".to_owned() })
            }
            (way @ (Aggregate::Host | Aggregate::Device), Some(obstacle)) => {
                let SumObstacle { option, why, remedy } = obstacle;
                let reason = format!("with {option}: {why}. Use `aggregate=off`, or {remedy}");
                Err(OptionError::new("aggregate", way, reason))
            }
            (Aggregate::Auto, Some(SumObstacle { option, why, .. })) => {
                Ok(Self::off(&format!("{option}: {why}")))
            }
            (Aggregate::Auto, None) => Ok(match not_tried(plan) {
                Some(reason) => Self::off(&reason),
                None => Self {
                    aggregation: sums,
                    chosen_for: Some(if options.blocks > 1 { options.hidden } else { outputs }),
                    way: Aggregate::Auto,
                    reason: "the first training batches try both ways, and later ones shares between them; what is faster stays"
                        .to_owned(),
                },
            }),
        }
    }

    /// Whether the producer gathers the rows first, into memory of its own beside the slots.
    pub fn gathers_before_sums(&self) -> bool {
        self.way == Aggregate::Device
    }

    /// As the metrics' first line has it, of a run with this plan.
    pub fn in_force(&self, plan: &RunPlan) -> Value {
        let way = match self.way {
            Aggregate::Host => plan.sums_made().way(),
            way => way.name(),
        };
        json!({ "way": way, "sums": self.aggregation.name(), "reason": self.reason })
    }
}

/// Why `auto` tries nothing in a run where the producer could sum.
fn not_tried(plan: &RunPlan) -> Option<String> {
    if let Some(bytes) = plan.options.slot_bytes {
        return Some(format!(
            "with --slot-bytes {bytes}, a batch might fit into a slot as rows and not as sums"
        ));
    }
    Windows::of(plan).obstacle(&plan.schedule)
}

fn obstacle(options: &TrainingOptions, dataset: &Dataset, backend: &Backend) -> Option<SumObstacle> {
    if let Some((option, why)) = options.trainer().refuses_sums() {
        let remedy =
            if option.contains("model") { "`model=sage` or `model=gcn`" } else { "leave that option out" };
        return Some(SumObstacle { option, why: why.to_owned(), remedy });
    }
    if let Some(obstacle) = obstacle_in_table(dataset.features().element) {
        return Some(obstacle);
    }
    let option = || format!("`gather={}`", backend.gather_name());
    match (options.aggregate, backend.device_slots()) {
        (Aggregate::Host, Some(_)) => backend.sum_obstacle(),
        (Aggregate::Device, None) => Some(SumObstacle {
            option: option(),
            why: "feature slots are in host memory, where no kernel sums".to_owned(),
            remedy: "`aggregate=host`",
        }),
        (Aggregate::Auto, Some(_)) => Some(SumObstacle {
            option: option(),
            why: "feature slots are on a GPU, where no rates of summing have been measured; --aggregate device tries it"
                .to_owned(),
            remedy: "`aggregate=device`",
        }),
        _ => None,
    }
}
