//! The plan of a run: schedule, layout, rings, stages.
//!
//! | file | holds |
//! |---|---|
//! | `run_plan` | options made concrete for a dataset |
//! | [`topology`] | which stages a run has, where they are, and what each is handed |
//! | `feature_choice`, `hop_files` | whether rows are read from memory or disk, and by which reader |

pub(crate) mod feature_choice;
pub(crate) mod hop_files;
mod run_plan;
pub mod topology;

pub(crate) use run_plan::batches;
pub use run_plan::{RingName, RunPlan, SlotsInForce, evaluating};
