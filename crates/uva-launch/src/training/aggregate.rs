//! Who makes the sums that the first layer begins with: the consumer from gathered rows, or the producer.

use serde_json::{Value, json};
use uva_graph::Dataset;
use uva_model::Weighting;
use uva_options::OptionError;
use uva_runtime::backend::Backend;
use uva_runtime::plan::RunPlan;
use uva_runtime::{Aggregation, SumObstacle, obstacle_in_table};

use super::job::{Aggregate, TrainingOptions};
use crate::sums_choice::{FirstLayer, SumsChoice};

/// The fewest training batches for which `auto` measures. It makes the sums of eight batches both ways, twice: the
/// work of some thirty batches. Saving a sixth pays for that in 200.
const MEASURED_FROM: u64 = 200;

/// Who makes them in a run, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AggregateVerdict {
    /// What the producer sums up, as far as that is known before anything is measured.
    pub aggregation: Aggregation,
    /// Where.
    way: Aggregate,
    /// The layer whose sums it makes if that is measured to be faster; `None` where nothing has to be measured.
    pub to_time: Option<FirstLayer>,
    reason: String,
}

impl AggregateVerdict {
    /// By what was asked for. `auto` leaves the choice to a measurement, where there is one to make and the run is long
    /// enough for it. The model's last layer has `outputs` columns.
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
        let off = |reason: String| Self {
            aggregation: Aggregation::None,
            way: Aggregate::Off,
            to_time: None,
            reason,
        };
        let sums = match options.model.row().weighting {
            Weighting::Degrees => Aggregation::Degrees,
            _ => Aggregation::Mean,
        };
        match (options.aggregate, obstacle(options, dataset, backend)) {
            (Aggregate::Off, _) => Ok(off("asked for".to_owned())),
            (way @ (Aggregate::Host | Aggregate::Device), None) => {
                Ok(Self { aggregation: sums, way, to_time: None, reason: "asked for".to_owned() })
            }
            (way @ (Aggregate::Host | Aggregate::Device), Some(obstacle)) => {
                let SumObstacle { option, why, remedy } = obstacle;
                let reason = format!("with {option}: {why}. Use `aggregate=off`, or {remedy}");
                Err(OptionError::new("aggregate", way, reason))
            }
            (Aggregate::Auto, Some(SumObstacle { option, why, .. })) => Ok(off(format!("{option}: {why}"))),
            (Aggregate::Auto, None) => Ok(match not_measured(plan) {
                Some(reason) => off(reason),
                None => {
                    let outputs = if options.layers > 1 { options.hidden } else { outputs };
                    let layer = FirstLayer { aggregation: sums, inputs: dataset.features().dim, outputs };
                    Self { to_time: Some(layer), ..off(String::new()) }
                }
            }),
        }
    }

    /// Whether the producer gathers the rows first, into memory of its own beside the slots.
    pub fn gathers_before_sums(&self) -> bool {
        self.way == Aggregate::Device
    }

    /// As the metrics' first line has it. `measured` is the choice of a run that measured.
    pub fn in_force(&self, measured: Option<&SumsChoice>) -> Value {
        let (way, sums, reason) = match measured {
            Some(choice) if choice.aggregation == Aggregation::None => {
                (Aggregate::Off, choice.aggregation, &choice.reason)
            }
            Some(choice) => (Aggregate::Host, choice.aggregation, &choice.reason),
            None => (self.way, self.aggregation, &self.reason),
        };
        let mut value = json!({ "way": way.name(), "sums": sums.name(), "reason": reason });
        if let Some(choice) = measured {
            value["times"] = json!(choice.times);
        }
        value
    }
}

/// Why `auto` measures nothing in a run where the producer could sum.
fn not_measured(plan: &RunPlan) -> Option<String> {
    if let Some(bytes) = plan.options.slot_bytes {
        return Some(format!(
            "with --slot-bytes {bytes}, a batch might fit into a slot as rows and not as sums"
        ));
    }
    let passes = plan.schedule.passes();
    let epochs = u64::from(passes.epochs.saturating_sub(passes.start.epoch));
    let batches = (epochs * plan.schedule.train_batches()).saturating_sub(u64::from(passes.start.batch));
    (batches < MEASURED_FROM).then(|| {
        format!(
            "the run has {batches} training batches, and from {MEASURED_FROM} on it pays to measure whether the \
             producer should sum; --aggregate host lets it"
        )
    })
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
        (Aggregate::Host, Some(_)) => Some(SumObstacle {
            option: option(),
            why: "feature slots are on a GPU, and the CPU's sums do not go there".to_owned(),
            remedy: "`aggregate=device`, or `gather=cpu`",
        }),
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
