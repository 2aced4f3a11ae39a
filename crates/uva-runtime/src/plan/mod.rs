//! The plan of a run: schedule, layout, rings, stages.
//!
//! | file | holds |
//! |---|---|
//! | `run_plan` | options made concrete for a dataset |
//! | [`topology`] | the stages of a run, their processes, and their resources |
//! | `page_choice` | the choice between the pages of the mapped file and a copy |
//! | `feature_choice` | the choice between rows in memory and on disk, and the reader |

pub(crate) mod feature_choice;
pub(crate) mod page_choice;
mod run_plan;
pub mod topology;

pub(crate) use run_plan::batches;
pub use run_plan::{RingName, RunPlan, SlotsInForce, evaluating};
