//! Shared code of commands that start the pipeline, or a program of it.
//!
//! | module | content |
//! |---|---|
//! | `pipeline` | checks of paths and outputs, a run's options, its watcher |
//! | `data_kinds` | the kinds of data: what options mean for each, and how they are opened |
//! | `dry_run` | what a run would start and take |
//! | `trainer`, `trained_model` | the program that trains, and models that it has trained |
//! | `resume` | the command that resumes an interrupted run |
//! | `stage_times`, `roles_found` | times of stages in earlier runs, and roles of GPUs chosen by them |

pub mod data_kinds;
pub mod dry_run;
pub mod pipeline;
pub mod resume;
pub mod roles_found;
pub mod stage_times;
pub mod trained_model;
pub mod trainer;
