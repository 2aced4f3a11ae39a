//! Production of batches and their rows in the roles.
//!
//! | file | holds |
//! |---|---|
//! | [`batch`] | a batch and its slot; columns and layout are `uva-batch`'s |
//! | [`rows`] | the sources of rows: the tree of a run, and its sources on the CPU |
//! | `pages` | the pages of files that the CPU reads in random order |
//! | [`device`] | feature slots on a GPU, and the sources of rows for them |
//! | `sampling`, `hop_rows` | columns of a sampled batch, and of a batch of a hop set |
//! | [`ranks`] | the other ranks, if the feature table is divided among them |

pub mod batch;
pub mod device;
pub(crate) mod hop_rows;
mod pages;
pub mod ranks;
pub mod rows;
pub(crate) mod sampling;
