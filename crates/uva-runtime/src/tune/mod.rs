//! Measurements that determine choices of a run: caches, gathers, the place of sampling, the place of sums.
//!
//! | file | holds |
//! |---|---|
//! | [`measurement`] | gathers timed at the first start on a GPU, for `auto` options |
//! | [`planning`] | caches and the place of sampling, measured before a run |
//! | `sums_chooser`, `sums_trial`, `sums_climb`, `sums_share` | the batches whose sums the producer makes, tried during a run |

pub mod measurement;
pub mod planning;
pub(crate) mod sums_chooser;
mod sums_climb;
pub(crate) mod sums_share;
pub(crate) mod sums_trial;
