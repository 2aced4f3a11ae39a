//! Training a built-in model: a whole run around the consumer, from the dataset to the last line of the metrics.
//!
//! `run` plans the run and executes it, in processes or in this one. A separate program trains the model itself
//! ([`TrainerProgram`]); in process, the caller's [`Consume`](crate::launcher::Consume) does. This module does not link
//! libtorch.

mod aggregate;
mod arithmetic;
mod chosen_cores;
mod cores;
mod data;
mod existing;
mod hop_training;
mod inference;
mod job;
mod relation_training;
mod run;
mod state;
mod trainer_program;
mod trial;

pub use aggregate::{AggregateInUse, AggregateVerdict};
pub use chosen_cores::ChosenCores;
pub use data::{class_weights, feature_columns, feature_element, task};
pub use hop_training::{OF_HOP_SETS, of_no_use_with_a_hop_set, of_no_use_without_a_hop_set};
pub use inference::{
    Evaluate, InferenceNodes, InferenceOverrides, Predict, Predicted, PredictionFile, PredictionJob,
    PredictionWatch, SplitResult, TrainedModel, open_dataset,
};
pub use job::{
    Aggregate, EvaluateBy, Job, LossChoice, MetricChoice, StagesToTime, TrainingOptions, TrialOutcome,
    to_value,
};
pub use relation_training::{give_model_of_typed_graphs, of_one_relation};
pub use run::{TrainingRun, likely_environment};
pub use state::{
    Best, SavedState, TrainingOutcome, TrainingState, check_resumable, checkpoint_error, saved_state,
};
pub use trainer_program::{TrainerProgram, TrainingHost};
pub use uva_model::checkpoint::Keep;
pub use uva_model::{
    ClassWeights, FeatureNorm, Metric, ModelKind, NormKind, RegressionLoss, Task, TrainerOptions,
};
