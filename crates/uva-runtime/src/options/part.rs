//! The part of an epoch's batches that one of several processes has.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use uva_options::OptionValue;

/// One of the processes that divide an epoch's batches: batch `b` belongs to the one with index `b mod of`, unless
/// there are [standby](Standby) ranks. A batch's content does not depend on the part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// The index: 0 … `of` − 1. PyTorch calls it the rank.
    pub index: u32,
    /// Number of processes, at least 1. PyTorch calls it the world size.
    pub of: u32,
}

impl Default for Part {
    fn default() -> Self {
        Self { index: 0, of: 1 }
    }
}

impl OptionValue for Part {
    fn of_text(text: &str) -> Option<Self> {
        let (index, of) = text.split_once('/')?;
        Some(Self { index: index.parse().ok()?, of: of.parse().ok()? })
    }

    fn text(&self) -> String {
        format!("{}/{}", self.index, self.of)
    }

    fn json(&self) -> Value {
        json!({ "index": self.index, "of": self.of })
    }

    fn of_json(value: &Value) -> Option<Self> {
        Self::deserialize(value).ok()
    }
}

/// Standby processes, which train from a batch of each epoch on, and are idle before. They are the last ones of
/// [`Part::of`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Standby {
    /// Their number, which is below the number of processes.
    pub ranks: u32,
    /// The number in its epoch of the batch at which they join. If a step is in progress at that batch, they join at
    /// the next step.
    pub from: u32,
}

impl OptionValue for Standby {
    fn of_text(text: &str) -> Option<Self> {
        let (ranks, from) = text.split_once('@')?;
        Some(Self { ranks: ranks.parse().ok()?, from: from.parse().ok()? })
    }

    fn text(&self) -> String {
        format!("{}@{}", self.ranks, self.from)
    }

    fn json(&self) -> Value {
        json!(self)
    }

    fn of_json(value: &Value) -> Option<Self> {
        Self::deserialize(value).ok()
    }
}
