//! Commands that start the pipeline, and those that use what it has trained.

pub mod evaluate;
pub mod plan;
pub mod predict;
pub mod run;
pub mod train;
