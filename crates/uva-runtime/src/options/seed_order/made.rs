//! The order of a run's training seeds, ready for the processes of the run.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use uva_mem::{FrozenBytes, RegionError};
use uva_options::OptionValue;
use uva_sample::{Follow, SeedSequences, Sequenced};

use crate::RuntimeError;

/// The name of the shared memory of sequences.
const SEQUENCES: &str = "uvatrain-seed-sequences";

fn no_memory(error: RegionError) -> RuntimeError {
    RuntimeError::failed(error.to_string())
}

/// The deviation of the labels in batches from those of all seeds: means over the batches of eight epochs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LabelErrors {
    /// The deviation in this order, or, if no order is acceptable, in the one with the most sequences.
    pub order: f64,
    /// The deviation in the shuffle.
    pub shuffle: f64,
    /// The allowed excess over the shuffle's deviation, if the number of sequences is chosen.
    pub allowed: f64,
}

/// The way in which epochs follow the sequences.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum SequenceRule {
    /// Epochs do not follow sequences: no number of sequences is acceptable.
    Shuffle,
    InTurns(usize),
    Segments(usize),
}

/// The description of an order, without its sequences.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Described {
    way: SequenceRule,
    /// Sequences in memory.
    sequences: usize,
    /// Positions in each sequence.
    seeds: usize,
    /// The identity of sequences from a file, in a saved state.
    file: Option<String>,
    errors: Option<LabelErrors>,
    seconds: f64,
}

/// An order of the training seeds that follows sequences. The first process with the options makes it, and passes the
/// sequences to the others. As an option's value it is described without the sequences.
#[derive(Clone, Debug)]
pub struct MadeOrder {
    described: Described,
    /// Absent without sequences, and in a process that has not received them.
    sequences: Option<SeedSequences>,
}

impl MadeOrder {
    /// Creates the order over these sequences, which it copies to shared memory. `file` identifies sequences from a
    /// file.
    pub(crate) fn new(
        follow: Follow,
        (sequences, seeds): (&[u32], usize),
        file: Option<String>,
        errors: Option<LabelErrors>,
        seconds: f64,
    ) -> Result<Self, RuntimeError> {
        let bytes: &[u8] = bytemuck::cast_slice(sequences);
        let memory = FrozenBytes::create(SEQUENCES, bytes.len(), |to| to.copy_from_slice(bytes));
        let memory = Arc::new(memory.map_err(no_memory)?);
        let way = match follow {
            Follow::InTurns(count) => SequenceRule::InTurns(count),
            Follow::Segments(length) => SequenceRule::Segments(length),
        };
        let count = sequences.len() / seeds.max(1);
        let described = Described { way, sequences: count, seeds, file, errors, seconds };
        Ok(Self { described, sequences: Some(SeedSequences::shared(memory, count, seeds)) })
    }

    /// The shuffle, in place of sequences whose batches have labels too far from those of all seeds.
    pub(crate) fn shuffled(seeds: usize, file: Option<String>, errors: LabelErrors, seconds: f64) -> Self {
        let errors = Some(errors);
        let described = Described { way: SequenceRule::Shuffle, sequences: 0, seeds, file, errors, seconds };
        Self { described, sequences: None }
    }

    /// Whether there are sequences, which a process that samples must receive.
    #[must_use]
    pub fn has_sequences(&self) -> bool {
        self.described.sequences > 0
    }

    /// Whether this process lacks existing sequences.
    #[must_use]
    pub fn lacks_sequences(&self) -> bool {
        self.has_sequences() && self.sequences.is_none()
    }

    /// The sequences that epochs follow; `None` if epochs are shuffled.
    ///
    /// # Errors
    /// [`RuntimeError::Failed`] in a process that has not received the sequences.
    pub fn sequenced(&self) -> Result<Option<Sequenced>, RuntimeError> {
        let follow = match self.described.way {
            SequenceRule::Shuffle => return Ok(None),
            SequenceRule::InTurns(count) => Follow::InTurns(count),
            SequenceRule::Segments(length) => Follow::Segments(length),
        };
        let sequences = self.sequences.clone().ok_or_else(|| {
            RuntimeError::failed("the sequences of the seed order were not handed to this process")
        })?;
        Ok(Some(Sequenced { sequences, follow }))
    }

    /// The memory of the sequences, for another process.
    #[must_use]
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.sequences.as_ref()?.memory().map(|memory| memory.fd())
    }

    /// Opens the sequences that another process made and passed on.
    ///
    /// # Errors
    /// [`RuntimeError::Failed`] if the memory has another size.
    pub fn take(&mut self, fd: OwnedFd) -> Result<(), RuntimeError> {
        let Described { sequences, seeds, .. } = self.described;
        let bytes = sequences * seeds * size_of::<u32>();
        let memory = Arc::new(FrozenBytes::from_fd(SEQUENCES, fd, bytes).map_err(no_memory)?);
        self.sequences = Some(SeedSequences::shared(memory, sequences, seeds));
        Ok(())
    }

    /// Bytes of the sequences.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        (self.described.sequences * self.described.seeds * size_of::<u32>()) as u64
    }

    /// The identity of sequences from a file, for a saved state; `None` if they were made.
    #[must_use]
    pub fn file(&self) -> Option<&str> {
        self.described.file.as_deref()
    }

    /// The deviation of its batches' labels from all labels, if it was measured.
    #[must_use]
    pub fn errors(&self) -> Option<LabelErrors> {
        self.described.errors
    }

    /// The form in the metrics.
    #[must_use]
    pub fn in_force(&self) -> Value {
        let Described { way, sequences, seconds, errors, .. } = &self.described;
        let order = match way {
            SequenceRule::Shuffle => "shuffle",
            SequenceRule::InTurns(_) => "proximity",
            SequenceRule::Segments(_) => "segments",
        };
        let mut said = json!({
            "order": order,
            "sequences": sequences,
            "bytes": self.bytes(),
            "seconds": seconds,
            "label_error": errors.map(|errors| errors.order),
            "label_error_shuffled": errors.map(|errors| errors.shuffle),
            "label_error_allowed": errors.map(|errors| errors.allowed),
        });
        if let SequenceRule::Segments(length) = way {
            said["segment"] = (*length).into();
        }
        said
    }

    /// The form for people.
    #[must_use]
    pub fn note(&self) -> String {
        let Described { way, errors, seconds, .. } = &self.described;
        let labels = |errors: &LabelErrors| {
            format!(
                "labels of batches are {:.3} from those of all seeds, {:.3} shuffled",
                errors.order, errors.shuffle
            )
        };
        let order = match way {
            SequenceRule::Shuffle => {
                let allowed = errors.map_or(0.0, |errors| errors.allowed);
                let labels = errors.as_ref().map(labels).unwrap_or_default();
                return format!(
                    "seed order: shuffled, since no number of sequences will do: with the most tried, {labels}, and \
                     {allowed:.3} more is allowed; `seed_order=proximity:K` follows K sequences regardless"
                );
            }
            SequenceRule::InTurns(1) => "by proximity, 1 sequence".to_owned(),
            SequenceRule::InTurns(count) => format!("by proximity, {count} sequences"),
            SequenceRule::Segments(length) => format!("shuffled segments of {length} seeds by proximity"),
        };
        let labels = errors.as_ref().map(|errors| format!("; {}", labels(errors))).unwrap_or_default();
        format!("seed order: {order}, ready in {seconds:.2} s{labels}")
    }
}

/// Orders are equal if their descriptions are.
impl PartialEq for MadeOrder {
    fn eq(&self, other: &Self) -> bool {
        self.described == other.described
    }
}

impl OptionValue for MadeOrder {
    fn of_text(text: &str) -> Option<Self> {
        Self::of_json(&serde_json::from_str(text).ok()?)
    }

    fn text(&self) -> String {
        self.json().to_string()
    }

    fn json(&self) -> Value {
        json!(self.described)
    }

    fn of_json(value: &Value) -> Option<Self> {
        Some(Self { described: Described::deserialize(value).ok()?, sequences: None })
    }
}
