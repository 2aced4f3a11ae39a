//! What a sampler works with: the graph, the engine and its cached lists, the order of seeds.
//!
//! | file | holds |
//! |---|---|
//! | [`cache`] | cached lists and rows, as the roles use them; the sampler's graph and engine |
//! | `lane` | the multiprocessors and streams of a role on a GPU |
//! | [`order_making`] | the order of the training seeds, where that follows the graph |
//! | `presample` | the room that sampled batches need |
//! | `sampler_turns` | which sampler makes which batch |

pub mod cache;
pub(crate) mod lane;
pub mod order_making;
pub(crate) mod presample;
pub(crate) mod sampler_turns;
