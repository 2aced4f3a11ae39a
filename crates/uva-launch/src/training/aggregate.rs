//! Where the neighbours of the first layer are aggregated: in the consumer, from gathered rows, or in the producer.

use serde_json::{Value, json};
use uva_graph::Dataset;
use uva_model::checkpoint::StoredModel;
use uva_model::{TrainerOptions, Weighting};
use uva_options::{ByteSize, OptionError, named};
use uva_runtime::backend::Backend;
use uva_runtime::plan::RunPlan;
use uva_runtime::{Aggregation, LoaderOptions, Obstacle, RowTree, SumsMade, Windows, obstacle_in_table};

use super::job::{Aggregate, TrainingOptions};

/// The reason if an option specifies the place.
const REQUESTED: &str = "requested";

named! {
    /// Where the neighbours of the first layer are aggregated for a trained model.
    pub enum AggregateInUse = Auto {
        /// In the producer for batches that this likely takes less work for, in the consumer for all others.
        Auto = "auto",
        /// In the consumer, from the rows of all nodes.
        Off = "off",
        /// In the producer's CPU threads, as they read the table.
        Host = "host",
    }
}

/// Where a run aggregates them, and the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AggregateVerdict {
    /// What the producer sums up, in all batches or in some.
    pub(super) aggregation: Aggregation,
    /// Columns of the first layer's output if the place may differ between batches; `None` if it is fixed.
    pub(super) chosen_for: Option<usize>,
    /// Where the sums are made.
    way: Aggregate,
    reason: String,
}

impl AggregateVerdict {
    /// No aggregation in the producer.
    pub(super) fn off(reason: &str) -> Self {
        let reason = reason.to_owned();
        Self { aggregation: Aggregation::None, chosen_for: None, way: Aggregate::Off, reason }
    }

    /// The place for these options. `auto` leaves the choice to the run if both places are possible and the run is long
    /// enough. The model's last layer has `outputs` columns.
    ///
    /// # Errors
    /// The options require the producer, which cannot aggregate: the reason and an alternative.
    pub(super) fn new(
        options: &TrainingOptions,
        dataset: &Dataset,
        backend: &Backend,
        plan: &RunPlan,
        outputs: usize,
    ) -> Result<Self, OptionError> {
        let sums = sums_of(&options.trainer());
        match (options.aggregate, obstacle(options, dataset, backend)) {
            (Aggregate::Off, _) => Ok(Self::off(REQUESTED)),
            (way @ (Aggregate::Host | Aggregate::Device), None) => {
                Ok(Self { aggregation: sums, chosen_for: None, way, reason: REQUESTED.to_owned() })
            }
            (way @ (Aggregate::Host | Aggregate::Device), Some(obstacle)) => {
                let Obstacle { option, why, remedy } = obstacle;
                let reason = format!("not supported with {option}: {why}. Use `aggregate=off`, or {remedy}");
                Err(OptionError::new("aggregate", way, reason))
            }
            (Aggregate::Auto, Some(Obstacle { option, why, .. })) => {
                Ok(Self::off(&format!("{option}: {why}")))
            }
            (Aggregate::Auto, None) => Ok(match not_tried(plan) {
                Some(reason) => Self::off(&reason),
                None => Self {
                    aggregation: sums,
                    chosen_for: Some(if options.blocks > 1 { options.hidden } else { outputs }),
                    way: Aggregate::Auto,
                    reason: "chosen by speed: the first training batches try both places, and later ones shares between them"
                        .to_owned(),
                },
            }),
        }
    }

    /// The place for a trained model. `auto` leaves the choice to each batch's counts.
    ///
    /// # Errors
    /// The options require the producer, which cannot aggregate: the reason and an alternative.
    pub(super) fn in_use(
        asked: AggregateInUse,
        model: &StoredModel,
        dataset: &Dataset,
        backend: &Backend,
        loader: &LoaderOptions,
    ) -> Result<Self, OptionError> {
        let options = &model.options;
        let device = || Obstacle {
            option: format!("`device={}`", backend.device_name()),
            why: "feature slots are on a GPU, and kernels gather into them".to_owned(),
            remedy: "`device=cpu`",
        };
        let remedies =
            ["a model trained with `model=sage` or `model=gcn`", "a model trained without that option"];
        let obstacle = of_model_and_table(options.refuses_sums_in_use(), remedies, dataset)
            .or_else(|| backend.device_slots().map(|_| device()));
        let slots = || {
            let reason = "a batch might fit into a slot as rows, but not as sums";
            loader
                .slot_bytes
                .map(|bytes| format!("with `slot_bytes={}`, {reason}", ByteSize::from_bytes(bytes).value()))
        };
        let sums = sums_of(options);
        match (asked, obstacle) {
            (AggregateInUse::Off, _) => Ok(Self::off(REQUESTED)),
            (AggregateInUse::Host, None) => Ok(Self {
                aggregation: sums,
                chosen_for: None,
                way: Aggregate::Host,
                reason: REQUESTED.to_owned(),
            }),
            (AggregateInUse::Host, Some(Obstacle { option, why, remedy })) => {
                let reason = format!("not supported with {option}: {why}. Use `aggregate=off`, or {remedy}");
                Err(OptionError::new("aggregate", asked, reason))
            }
            (AggregateInUse::Auto, Some(Obstacle { option, why, .. })) => {
                Ok(Self::off(&format!("{option}: {why}")))
            }
            (AggregateInUse::Auto, None) => Ok(match slots() {
                Some(reason) => Self::off(&reason),
                None => Self {
                    aggregation: sums,
                    chosen_for: Some(if options.layers > 1 { options.hidden } else { model.outputs }),
                    way: Aggregate::Auto,
                    reason: "the producer aggregates batches whose lists have at most 1.5 rows for each node"
                        .to_owned(),
                },
            }),
        }
    }

    /// Whether the producer first gathers the rows, into memory separate from the slots.
    pub(super) fn gathers_before_sums(&self) -> bool {
        self.way == Aggregate::Device
    }

    /// As the metrics' first line has it, of a run with this plan.
    pub fn in_force(&self, plan: &RunPlan) -> Value {
        let way = match self.way {
            Aggregate::Host => RowTree::of(plan).sums().map_or(self.way.name(), SumsMade::way),
            way => way.name(),
        };
        self.in_json(way)
    }

    /// As a prediction has it, which no cache on a GPU takes part in.
    pub fn of_prediction(&self) -> Value {
        self.in_json(self.way.name())
    }

    fn in_json(&self, way: &str) -> Value {
        json!({ "way": way, "sums": self.aggregation.name(), "reason": self.reason })
    }
}

/// Why `auto` tries nothing in a run where the producer could sum.
fn not_tried(plan: &RunPlan) -> Option<String> {
    if let Some(bytes) = plan.options.slot_bytes {
        return Some(format!(
            "with `slot_bytes={}`, a batch might fit into a slot as rows, but not as sums",
            ByteSize::from_bytes(bytes).value()
        ));
    }
    Windows::of(plan).obstacle(&plan.schedule)
}

/// The aggregation of the first layer of this model.
fn sums_of(options: &TrainerOptions) -> Aggregation {
    match options.model.row().weighting {
        Weighting::Degrees => Aggregation::Degrees,
        _ => Aggregation::Mean,
    }
}

/// What prevents aggregation in the producer on any device: an option of the model, or the table. The remedies are for
/// the kind of model, and for any other option.
fn of_model_and_table(
    refused: Option<(String, &'static str)>,
    [for_model, for_option]: [&'static str; 2],
    dataset: &Dataset,
) -> Option<Obstacle> {
    let of_model = refused.map(|(option, why)| {
        let remedy = if option.contains("model") { for_model } else { for_option };
        Obstacle { option, why: why.to_owned(), remedy }
    });
    of_model.or_else(|| obstacle_in_table(dataset.table().element))
}

fn obstacle(options: &TrainingOptions, dataset: &Dataset, backend: &Backend) -> Option<Obstacle> {
    let remedies = ["`model=sage` or `model=gcn`", "omit that option"];
    if let Some(obstacle) = of_model_and_table(options.trainer().refuses_sums(), remedies, dataset) {
        return Some(obstacle);
    }
    let option = || format!("`gather={}`", backend.gather_name());
    match (options.aggregate, backend.device_slots()) {
        (Aggregate::Host, Some(_)) => backend.host_obstacle(),
        (Aggregate::Device, None) => Some(Obstacle {
            option: option(),
            why: "feature slots are in host memory, which kernels do not aggregate into".to_owned(),
            remedy: "`aggregate=host`",
        }),
        (Aggregate::Auto, Some(_)) => Some(Obstacle {
            option: option(),
            why: "feature slots are on a GPU, where the speed of aggregation is not known; try `aggregate=device`"
                .to_owned(),
            remedy: "`aggregate=device`",
        }),
        _ => None,
    }
}
