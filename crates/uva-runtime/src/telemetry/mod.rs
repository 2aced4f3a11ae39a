//! What a run reports: [`metrics`] as lines, a [`trace`] of each batch, [`gauges`] of the moment.

pub mod gauges;
pub mod metrics;
pub mod trace;
