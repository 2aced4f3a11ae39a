//! What a run is asked to load, and in which order.

use serde::{Deserialize, Serialize};
use uva_graph::Dataset;
use uva_sample::{Expand, SampleError, SamplerKind, SamplerOptions, Walks};

use crate::{FeatureType, RuntimeError};

/// The most samplers of a run: the producer's set-up carries a descriptor for each of them, beside its own six, and a
/// hand-over message holds [`MAX_FDS`](uva_mem::handover::MAX_FDS).
pub const MAX_SAMPLERS: usize = 120;

/// The most threads that gather rows on the CPU.
pub const MAX_GATHER_THREADS: usize = 1024;
/// The most feature slots, and the most batch slots: before its first batch, and when it turns elsewhere, a run goes
/// through all of them once.
pub const MAX_SLOTS: [usize; 2] = [64, 1024];

/// How batches are made. The same values reach every role, so that each computes the same schedule and the same
/// slot layout without asking another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoaderOptions {
    /// Which neighbours are picked.
    #[serde(default, with = "sampler_kind")]
    pub sampler_kind: SamplerKind,
    /// Neighbours per node and hop, from the seeds outward; −1 takes all of them.
    pub fanouts: Vec<i32>,
    /// Draw neighbours with replacement.
    pub replace: bool,
    /// Seeds a batch.
    pub batch_size: usize,
    /// Leave out an epoch's last batch when it is smaller than the others.
    pub drop_last: bool,
    /// Key of every random choice (docs/reproducible-batches.md).
    pub seed: u64,
    /// Sampler processes, or threads in process. Changes the speed, never a batch.
    pub samplers: usize,
    /// Feature slots between producer and consumer; 2 is ping-pong.
    pub feature_slots: usize,
    /// Batch slots between samplers and producer; `None` takes two more than there are samplers, the least there
    /// may be.
    pub batch_slots: Option<usize>,
    /// Upper bound in bytes of a batch's ids and blocks, and again of its feature rows. `None` sizes slots for the
    /// largest batch the fanouts allow.
    pub slot_bytes: Option<u64>,
    /// What the feature values of a batch are. It changes how large its rows are, never what they are worth.
    #[serde(default)]
    pub feature_type: FeatureType,
    /// Threads that gather rows on the CPU.
    pub gather_threads: usize,
    /// A node's picks change every so many batches only (κ, at least 1: [`uva_sample::batch_of_picks`]).
    pub batch_dependency: u32,
    /// Which nodes a hop draws picks for.
    #[serde(default, with = "expand")]
    pub expand: Expand,
    /// Whether batches carry the in-degree, in the whole graph, of each input node: GCN weighs by them.
    pub degrees: bool,
    /// Whether blocks say where each of their edges stands in the dataset's `indices.npy`.
    #[serde(default)]
    pub edge_ids: bool,
    /// The walks of the kind that walks.
    #[serde(default, with = "WalksFields")]
    pub walks: Walks,
    /// Which of an epoch's batches are this run's, where several processes divide them.
    #[serde(default)]
    pub part: Part,
}

/// [`Walks`], which knows no serde.
#[derive(Serialize, Deserialize)]
#[serde(remote = "Walks")]
struct WalksFields {
    count: u32,
    length: u32,
    stop: u32,
}

/// [`SamplerKind`] by its name.
mod sampler_kind {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};
    use uva_sample::SamplerKind;

    pub fn serialize<S: Serializer>(kind: &SamplerKind, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(kind.name())
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<SamplerKind, D::Error> {
        let name = String::deserialize(from)?;
        SamplerKind::from_name(&name)
            .ok_or_else(|| D::Error::custom(format!("`{name}` is no kind of sampler")))
    }
}

/// [`Expand`] by its name.
mod expand {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};
    use uva_sample::Expand;

    pub fn serialize<S: Serializer>(expand: &Expand, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(expand.name())
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Expand, D::Error> {
        let name = String::deserialize(from)?;
        Expand::from_name(&name).ok_or_else(|| D::Error::custom(format!("`{name}` is no way to expand")))
    }
}

/// One of the processes that divide an epoch's batches between them: batch `b` is of the one with index `b mod of`.
/// What is in a batch does not depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// Which one: 0 … `of` − 1. PyTorch calls it the rank.
    pub index: u32,
    /// How many there are, at least 1. PyTorch calls it the world size.
    pub of: u32,
}

impl Default for Part {
    fn default() -> Self {
        Self { index: 0, of: 1 }
    }
}

impl Default for LoaderOptions {
    fn default() -> Self {
        Self {
            sampler_kind: SamplerKind::default(),
            fanouts: vec![15, 10, 5],
            replace: false,
            batch_size: 1024,
            drop_last: false,
            seed: 0,
            samplers: 1,
            feature_slots: 2,
            batch_slots: None,
            slot_bytes: None,
            feature_type: FeatureType::Table,
            gather_threads: 1,
            batch_dependency: 1,
            expand: Expand::All,
            degrees: false,
            edge_ids: false,
            walks: Walks::default(),
            part: Part::default(),
        }
    }
}

impl LoaderOptions {
    /// How neighbours are sampled.
    pub fn sampling(&self) -> SamplerOptions {
        SamplerOptions {
            kind: self.sampler_kind,
            fanouts: self.fanouts.clone(),
            replace: self.replace,
            seed: self.seed,
            batch_dependency: self.batch_dependency,
            expand: self.expand,
            edge_ids: self.edge_ids,
            walks: self.walks,
        }
    }

    /// The fewest batch slots that samplers do not wait for each other with: one each, one at the producer and one
    /// that lies ready.
    pub fn fewest_batch_slots(&self) -> usize {
        self.samplers + 2
    }

    /// Checks that batches of these options can be sampled from the dataset: that it has what they sample by, and no list
    /// that more is picked out of than random words are there for.
    ///
    /// # Errors
    /// [`RuntimeError::Input`] naming the file, and the place in it; [`RuntimeError::Usage`] naming the option and the
    /// node.
    pub fn check_dataset(&self, dataset: &Dataset) -> Result<(), RuntimeError> {
        self.sampling().check(&dataset.csc())?;
        let kind = self.sampler_kind;
        if kind.needs_weights()
            && let Err(error) = dataset.weights_to_pick_by()
        {
            return Err(RuntimeError::Input(format!("--sampler-kind {kind}: {error}")));
        }
        Ok(())
    }

    /// Checks what can be checked without a dataset.
    ///
    /// # Errors
    /// [`RuntimeError::Usage`] naming the option and what it may be.
    pub fn check(&self) -> Result<(), RuntimeError> {
        let usage = |message: String| Err(RuntimeError::Usage(message));
        if self.fanouts.is_empty() {
            return usage("--fanouts is empty: give one number a layer, as in --fanouts 15,10,5".into());
        }
        if let Some(fanout) = self.fanouts.iter().find(|fanout| **fanout == 0 || **fanout < -1) {
            return usage(format!("--fanouts {fanout}: a fanout is 1 or more, or -1 for all neighbours"));
        }
        self.sampling().check_kind().map_err(SampleError::from)?;
        if self.batch_size == 0 {
            return usage("--batch-size 0: a batch needs at least one seed".into());
        }
        if self.samplers == 0 {
            return usage("--samplers 0: at least one sampler is needed".into());
        }
        if self.samplers > MAX_SAMPLERS {
            return usage(format!(
                "--samplers {}: one producer takes from {MAX_SAMPLERS} samplers at most",
                self.samplers
            ));
        }
        if self.gather_threads > MAX_GATHER_THREADS {
            return usage(format!(
                "--gather-threads {}: more than {MAX_GATHER_THREADS} are of no use",
                self.gather_threads
            ));
        }
        for (name, slots, most) in [
            ("--slots", self.feature_slots, MAX_SLOTS[0]),
            ("--batch-slots", self.batch_slots.unwrap_or_else(|| self.fewest_batch_slots()), MAX_SLOTS[1]),
        ] {
            if slots > most {
                return usage(format!("{name} {slots}: there may be {most} at most"));
            }
        }
        if self.feature_slots == 0 {
            return usage(
                "--slots 0: at least one feature slot is needed; 2 overlap gather and training".into(),
            );
        }
        if self.batch_dependency == 0 {
            return usage(
                "--batch-dependency 0: picks are kept for 1 batch (the ordinary case) or more".into(),
            );
        }
        let Part { index, of } = self.part;
        if index >= of {
            return usage(format!("rank {index} of {of}: a rank is 0 or more and below the number of ranks"));
        }
        if self.gather_threads == 0 {
            return usage("--gather-threads 0: at least one thread is needed".into());
        }
        let fewest = self.fewest_batch_slots();
        if let Some(slots) = self.batch_slots.filter(|slots| *slots < fewest) {
            return usage(format!(
                "--batch-slots {slots}: with {} samplers at least {fewest} are needed, so that no sampler waits for \
                 another",
                self.samplers
            ));
        }
        Ok(())
    }
}

/// Which passes over which splits a run makes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Passes {
    /// Training epochs, counted from 0 also after a resume.
    pub epochs: u32,
    /// Send the validation split through the slots after each epoch.
    pub validate: bool,
    /// Send the test split through the slots at the end.
    pub test: bool,
    /// Where to begin.
    pub start: Cursor,
    /// Nothing of this: the consumer says where to go, pass by pass.
    #[serde(default)]
    pub steered: bool,
}

/// How far training has come: what a checkpoint remembers of the schedule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cursor {
    /// The epoch in which the next batch lies.
    pub epoch: u32,
    /// Batches of that epoch already trained.
    pub batch: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_samplers_than_one_message_can_name_are_refused() {
        const { assert!(MAX_SAMPLERS + 6 <= uva_mem::handover::MAX_FDS) };
        let with = |samplers| LoaderOptions { samplers, ..LoaderOptions::default() }.check();
        with(MAX_SAMPLERS).unwrap();
        let refused = with(MAX_SAMPLERS + 1).unwrap_err();
        assert!(refused.to_string().contains("--samplers 121"), "{refused}");
        assert_eq!(refused.exit_code(), 2);
    }
}
