//! Batches and their rows, as the roles make them.
//!
//! | file | holds |
//! |---|---|
//! | [`batch`] | a batch and its slot; columns and layout are `uva-batch`'s |
//! | [`rows`] | where the rows of batches come from: the tree of a run, and its sources on the CPU |
//! | [`device`] | feature slots on a GPU, and the sources of rows for them |
//! | `sampling`, `hop_rows` | columns of a sampled batch, and of a batch of a hop set |
//! | [`ranks`] | the other ranks, where the feature table is divided among them |

pub mod batch;
pub mod device;
pub(crate) mod hop_rows;
pub mod ranks;
pub mod rows;
pub(crate) mod sampling;
