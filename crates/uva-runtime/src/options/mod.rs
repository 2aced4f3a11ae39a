//! The options of a run, and their direct consequences: the number and the rank of each batch.
//!
//! | file | holds |
//! |---|---|
//! | `loader` | the options of the loader, and the passes of a run |
//! | `batch_kind` | the kinds of batches: their data, the rows that they read, what the options mean for each |
//! | [`schedule`], `steps` | sequence numbers of batches |
//! | [`part`] | ranks that divide an epoch |
//! | [`seed_order`], [`input_nodes`] | the order of the training seeds; nodes in place of a split |
//! | [`hop_options`], [`hop_run`] | the order in which epochs visit the rows of a hop set, and the places of the rows |
//! | `reader`, `hop_files`, `look_ahead` | the pages of rows in memory, the reader of rows on disk, and its look-ahead |
//! | `checked_files`, [`first_layer`] | files that another process of the run opens again |

pub(crate) mod batch_kind;
pub(crate) mod checked_files;
pub mod first_layer;
pub(crate) mod hop_files;
pub mod hop_options;
pub mod hop_run;
pub mod input_nodes;
mod loader;
pub(crate) mod look_ahead;
pub mod part;
pub(crate) mod reader;
pub mod schedule;
pub mod seed_order;
mod steps;

pub use loader::{Cursor, LoaderOptions, MAX_SAMPLERS, Pad, Passes, Prepare, Shuffled, cut_around};
