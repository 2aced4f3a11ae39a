//! The control page that the processes of a run share, and the counts on it.
//!
//! | file | holds |
//! |---|---|
//! | `page` | the words of the page: turns, positions, stops, failures, counters |
//! | `aggregate_counts`, `cache_counts`, `disk_counts`, `role_times` | counts of batches and of a run |
//! | `peer` | the other side of a ring: a thread or a process, which may end |
//! | `stage` | working and waiting times of a stage |

pub(crate) mod aggregate_counts;
pub(crate) mod cache_counts;
pub(crate) mod disk_counts;
mod page;
pub(crate) mod peer;
pub(crate) mod role_times;
pub(crate) mod stage;

pub use page::{
    CONSUMER, COUNTERS_USED, ConsumerTally, Control, Counter, FIRST_SAMPLER, PRODUCER, Stop, peak_rss_bytes,
    words,
};
