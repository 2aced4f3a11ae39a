//! The options of a run, and what follows from them alone: which batch has which number and belongs to which rank.
//!
//! | file | holds |
//! |---|---|
//! | `loader` | the options of the loader, and the passes of a run |
//! | [`schedule`], `steps` | sequence numbers of batches |
//! | [`part`] | ranks that divide an epoch |
//! | [`seed_order`], [`input_nodes`] | the order of the training seeds; nodes in place of a split |
//! | [`hop_options`], [`hop_run`] | in which order epochs visit the rows of a hop set, and where these lie |
//! | `reader`, `look_ahead` | how rows are read from disk, and how far ahead |
//! | `checked_files`, [`first_layer`] | what another process of the run opens again |

pub(crate) mod checked_files;
pub mod first_layer;
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
