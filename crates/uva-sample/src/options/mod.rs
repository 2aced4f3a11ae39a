//! The options of a sampler. Fanouts are by name as users give them, and numbers as samplers read them.

mod fanout_spec;
mod fanouts;
mod sampling;
mod trees;

pub use fanout_spec::FanoutSpec;
pub use fanouts::Fanouts;
pub use sampling::{Expand, FanoutPer, HopShape, SamplerOptions, Walks, batch_of_picks};
pub(crate) use sampling::{GROUP, GROUP_PICKS, draws, picks_of_list};
pub use trees::{TimeLimit, TimePick, TimeRule, Trees};
