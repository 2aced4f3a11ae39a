//! What `auto` options choose by: gathers of the run's own rows, measured at the first start on a GPU, and kept.
//!
//! | file | |
//! |---|---|
//! | `figures` | what is measured, and the result |
//! | `timetable` | which gathers for how long, within the budget, by any clock |
//! | `gathers` | the gathers on the GPU |
//! | `verdict` | from figures to choices: a pure function |
//! | `stored` | the file of a GPU |
//! | `settle` | all of it, for a decision that leaves choices open |
//!
//! This module is above `device`, whose sources it times. The process that measures is whichever has the GPU before the
//! run: the planner, or the caller's where the roles are threads.

pub mod figures;
mod gathers;
pub mod settle;
pub mod stored;
pub mod timetable;
pub mod verdict;

pub use figures::{Case, Figure, Figures, MeasurementShape};
pub use gathers::measure;
pub use settle::{TargetRun, settle};
