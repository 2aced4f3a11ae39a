//! Options of commands that start the pipeline, and of commands that use trained models.

mod evaluate;
mod plan;
mod predict;
mod run;
mod train;

pub use evaluate::EvaluateFlags;
pub use plan::PlanFlags;
pub use predict::{ModelFlags, PredictFlags};
pub use run::RunFlags;
pub use train::TrainFlags;
