//! The built-in consumer (feature `train`): a model trained on the batches as they come.
//!
//! [`session`] is what happens to the batches; [`run`] is a whole run around it, from the dataset to the last line of
//! the metrics, in processes or in this one.

mod arrays;
mod existing;
mod gpu;
mod job;
mod preflight;
mod run;
pub mod session;
mod task;
mod trial;

pub use gpu::torch_on_gpu;
pub use run::{TrainingRun, consume};
pub use session::{EvaluateBy, TrainingOptions, TrainingOutcome};
pub use task::task;
pub use uva_train::{FeatureNorm, Metric, ModelKind, NormKind, Task, TrainerOptions};
