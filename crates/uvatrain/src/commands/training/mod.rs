//! Commands that start the pipeline, and commands that use trained models.

pub mod evaluate;
pub mod plan;
pub mod predict;
pub mod run;
pub mod train;
