//! The trainer as a whole: tasks, steps, checkpoints, late results.

mod checkpoints;
mod class_weights;
mod confirmation;
mod footprint;
pub(crate) mod late_results;
mod regression;
mod rehearsal;
mod tasks;
mod training;
