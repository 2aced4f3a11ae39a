//! The options of kinds of sampler that walk.

use clap::Args;
use uva_sample::{SamplerKind, Walks};

use super::loader::BATCHES;
use crate::exit;

/// Random walks, and how far they go.
#[derive(Args, Clone, Copy, Debug, Default, serde::Serialize)]
pub struct WalkFlags {
    /// Random walks from each node, with --sampler-kind walk [default: 10]
    #[arg(long, value_name = "WALKS", help_heading = BATCHES)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub walks: Option<u32>,

    /// The most steps of a walk [default: 4]
    #[arg(long, value_name = "STEPS", help_heading = BATCHES)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub walk_length: Option<u32>,

    /// The chance, in per cent, that a walk ends before each step but its first [default: 25]
    #[arg(long, value_name = "PERCENT", help_heading = BATCHES)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub walk_stop: Option<u32>,
}

impl WalkFlags {
    /// The same, as the sampler takes it. What they may be the sampler says.
    pub fn walks(self) -> Walks {
        let default = Walks::default();
        Walks {
            count: self.walks.unwrap_or(default.count),
            length: self.walk_length.unwrap_or(default.length),
            stop: self.walk_stop.unwrap_or(default.stop),
        }
    }

    /// Those that were given, by their names.
    pub fn given(self) -> impl Iterator<Item = (&'static str, u32)> {
        let all =
            [("--walks", self.walks), ("--walk-length", self.walk_length), ("--walk-stop", self.walk_stop)];
        all.into_iter().filter_map(|(option, value)| Some((option, value?)))
    }

    /// Checks that there is something for them to say.
    ///
    /// # Errors
    /// The option given that this kind of sampler has no use for.
    pub fn check(self, kind: SamplerKind) -> anyhow::Result<()> {
        match self.given().next() {
            Some((option, _)) if !kind.walks() => Err(exit::usage(format!(
                "{option}: the {kind} sampler does not walk; leave {option} out, or use --sampler-kind {}",
                SamplerKind::names_of(SamplerKind::walks)
            ))
            .into()),
            _ => Ok(()),
        }
    }
}
