//! The measurements for `auto` options: gathers of the run's own rows, timed at the first start on a GPU, and stored.
//!
//! | file | |
//! |---|---|
//! | `figures` | the measured cases, and the result |
//! | `timetable` | the gathers and their durations, within the budget, by any clock |
//! | `gathers` | the gathers on the GPU |
//! | `verdict` | from figures to choices: a pure function |
//! | `stored` | the file of a GPU |
//! | `settle` | all steps, for a decision that leaves choices open |
//!
//! This module is above `device`, whose sources it times. The process that has the GPU before the run measures: the
//! planner, or the caller's process if the roles are threads.

pub mod figures;
mod gathers;
pub mod settle;
pub mod stored;
pub mod timetable;
pub mod verdict;

pub use figures::{Case, Figure, Figures, MeasurementShape};
pub use gathers::measure;
pub use settle::{TargetRun, settle};
