//! The data of a sampler: the graph, the engine and its cached lists, the order of seeds.
//!
//! | file | holds |
//! |---|---|
//! | [`cache`] | cached lists and rows; the sampler's graph and engine |
//! | `lane` | the multiprocessors and streams of a role on a GPU |
//! | [`order_making`] | the order of the training seeds, if it follows the graph |
//! | `presample` | the sizes of sampled batches |
//! | `seed_lists` | the seeds of a batch by node type |
//! | `sampler_turns` | the assignment of batches to samplers |

pub mod cache;
pub(crate) mod lane;
pub mod order_making;
pub(crate) mod presample;
pub(crate) mod sampler_turns;
pub(crate) mod seed_lists;
