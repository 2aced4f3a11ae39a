//! The policies of eviction: one file and one row of [`POLICIES`] each.
//!
//! A policy is a `SlotOrder` of slots. It decides on the host, once a batch, wherever the rows lie.

mod fifo;
mod policy;
mod ranking;
mod sieve;
mod slots;

use serde::{Deserialize, Deserializer};

pub use policy::Eviction;
pub use slots::EvictingSlots;

/// Every policy that a run's cache may have.
pub static POLICIES: [&Eviction; 2] = [&fifo::POLICY, &sieve::POLICY];

/// Policies that are simulated only: they cost more than a run would spend on its cache.
pub static SIMULATED: [&Eviction; 2] = [&ranking::LRU, &ranking::LFU];

/// The policy of a run's cache of that name.
pub fn by_name(name: &str) -> Option<&'static Eviction> {
    POLICIES.into_iter().find(|policy| policy.name == name)
}

/// By its name.
impl<'de> Deserialize<'de> for &'static Eviction {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        by_name(&name)
            .ok_or_else(|| serde::de::Error::custom(format!("no eviction policy is called {name:?}")))
    }
}
