//! Eviction policies: one file and one row of [`POLICIES`] each.
//!
//! A policy is a `SlotOrder` of slots. It decides on the host, once per batch, independent of the location of the rows.

mod fifo;
mod policy;
mod ranking;
mod sieve;
mod slots;

use serde::{Deserialize, Deserializer};

pub use policy::Eviction;
pub use slots::EvictingSlots;

/// The policies available to a run's cache.
pub static POLICIES: [&Eviction; 2] = [&fifo::POLICY, &sieve::POLICY];

/// Policies that are simulated only: they are too expensive for the cache of a run.
pub static SIMULATED: [&Eviction; 2] = [&ranking::LRU, &ranking::LFU];

/// The policy with this name, for a run's cache.
pub fn by_name(name: &str) -> Option<&'static Eviction> {
    POLICIES.into_iter().find(|policy| policy.name == name)
}

/// Deserializes a policy from its name.
impl<'de> Deserialize<'de> for &'static Eviction {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        by_name(&name)
            .ok_or_else(|| serde::de::Error::custom(format!("there is no eviction policy {name:?}")))
    }
}
