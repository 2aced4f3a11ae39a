//! The policies of eviction: one file and one row of [`POLICIES`] each.
//!
//! A policy is an [`Order`](slots::Order) of slots. It decides on the host, once a batch, wherever the rows lie.

mod fifo;
mod policy;
mod sieve;
mod slots;

use serde::{Deserialize, Deserializer};

pub use policy::Eviction;
pub use slots::EvictingSlots;

/// Every policy.
pub static POLICIES: [&Eviction; 2] = [&fifo::POLICY, &sieve::POLICY];

/// The policy of that name.
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
