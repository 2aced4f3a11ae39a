//! Reports of a run: [`metrics`] as lines, a [`trace`] of each batch, and [`gauges`] with live counts.

pub mod gauges;
pub mod metrics;
pub mod trace;
