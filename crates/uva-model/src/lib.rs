//! The built-in models without their arithmetic: options, tasks, memory needs and the files of a checkpoint.
//!
//! The launcher and the command line read these to reject a run before any process starts; the consumer trains by them.
//! This crate must not know libtorch, batches or processes. Models are computed in `uva-train`.
//!
//! Next: [`ModelKind`] for the table of models, [`TrainerOptions`] for a model's options, [`Footprint`] for its memory,
//! [`checkpoint`] for its files.

#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod answer;
pub mod checkpoint;
mod classes;
mod footprint;
mod hop_options;
mod hops;
mod layer_size;
mod model_kind;
mod network;
mod options;
mod options_error;
mod relation_options;
mod relations;
mod task;

pub use answer::{Answer, TableRow};
pub use classes::class_counts::{ClassCounts, ClassScore};
pub use classes::class_weights::ClassWeights;
pub use footprint::{Footprint, Shapes};
pub use hops::hop_model::{ActivationKind, HopModel, LayerCount};
pub use model_kind::{ModelKind, ModelRow, Nonlinearity, Weighting};
pub use options::{FeatureNorm, MatmulPrecision, NormKind, TrainerOptions};
pub use options_error::OptionsError;
pub use relations::embedding::{EmbeddingInit, EmbeddingShape};
pub use relations::model_graph::{ModelGraph, ModelType};
pub use relations::relation_model::{InputMaps, RelationModel, RelationSum, RelationWeights, RootKind};
pub use relations::wiring::{LayerWiring, RelationUse, Wiring};
pub use task::{Metric, RegressionLoss, Task, TaskKind};
