//! What a run measures to choose by: caches, gathers, where to sample, who sums.
//!
//! | file | holds |
//! |---|---|
//! | [`measurement`] | gathers timed at the first start on a GPU: what `auto` options choose by |
//! | [`planning`] | what to cache and where to sample, measured before a run |
//! | `sums_chooser`, `sums_trial`, `sums_climb`, `sums_share` | the batches whose sums the producer makes, tried during a run |

pub mod measurement;
pub mod planning;
pub(crate) mod sums_chooser;
mod sums_climb;
pub(crate) mod sums_share;
pub(crate) mod sums_trial;
