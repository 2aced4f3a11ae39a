//! The contents of `checkpoint.json`, and the names of a checkpoint's files.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use uva_graph::mix;
use uva_options::named;

/// Name of the state in its folder.
pub(super) const STATE_FILE: &str = "checkpoint.json";
pub(super) const TENSORS_PREFIX: &str = "tensors-";
pub(super) const TENSORS_SUFFIX: &str = ".safetensors";
/// The marker in the header of a tensor file: who wrote it.
pub const MARKER: (&str, &str) = ("written_by", "uvatrain");
/// The state is a few kilobytes: options, sums, and what the caller keeps. Read, it takes up to 40 times its text.
pub(super) const MOST_STATE: u64 = 1 << 20;
/// Counts up when the layout of the two files changes.
pub(super) const VERSION: u32 = 1;

/// The contents of `checkpoint.json`.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct StateFile {
    pub(super) version: u32,
    pub(super) tensors: StoredFile,
    /// The tables of node types without features.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) embeddings: Vec<EmbeddingFiles>,
    pub(super) trainer: TrainerState,
    pub(super) fingerprint: Value,
    pub(super) state: Value,
}

/// A file next to `checkpoint.json`.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct StoredFile {
    pub(super) file: String,
    pub(super) bytes: u64,
    /// [`checksum`] of the file, 16 hex digits.
    pub(super) checksum: String,
}

/// The files of a node type's table.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct EmbeddingFiles {
    #[serde(rename = "type")]
    pub(super) name: String,
    pub(super) rows: usize,
    pub(super) columns: usize,
    pub(super) values: StoredFile,
    pub(super) first: StoredFile,
    pub(super) second: StoredFile,
    /// The rows of the best epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) best: Option<StoredFile>,
}

impl EmbeddingFiles {
    /// The files that it names.
    pub(super) fn files(&self) -> impl Iterator<Item = &StoredFile> {
        [&self.values, &self.first, &self.second].into_iter().chain(&self.best)
    }
}

impl StateFile {
    /// The names of all files that it needs.
    pub(super) fn names(&self) -> Vec<String> {
        let of_tables = self.embeddings.iter().flat_map(EmbeddingFiles::files);
        std::iter::once(&self.tensors).chain(of_tables).map(|stored| stored.file.clone()).collect()
    }
}

/// A trainer's part of `checkpoint.json`.
#[derive(Debug, Serialize, Deserialize)]
pub struct TrainerState {
    /// The options and shapes that must match for the tensors to fit.
    pub model: Value,
    /// Optimiser steps done.
    pub adam_steps: u64,
    /// Whether the tensors of the best epoch are kept too.
    pub best: bool,
    /// Which of the two is the model.
    pub keep: Keep,
}

impl TrainerState {
    /// Which tensors are the model's. A checkpoint without a best epoch has the last parameters only.
    #[must_use]
    pub fn kept(&self) -> Keep {
        if self.best { self.keep } else { Keep::Last }
    }
}

named! {
    /// Which parameters of a training are its model: those that are tested and used for predictions. A resumed training
    /// continues from the last parameters in either case.
    pub enum Keep = Best {
        /// The model of the best epoch by validation.
        Best = "best",
        /// The model after the last batch.
        Last = "last",
    }
}

impl Keep {
    /// What the names of these parameters begin with in a checkpoint's tensors.
    #[must_use]
    pub fn group(self) -> &'static str {
        match self {
            Self::Best => "best",
            Self::Last => "model",
        }
    }
}

/// A checksum against damage, not against forgery: the sum of mixed (position, 8 bytes), so that every word counts
/// with its place, and the length.
pub fn checksum(bytes: &[u8]) -> u64 {
    checksum_of(&[bytes])
}

/// [`checksum`] of these bytes one after another. Each part but the last has whole words of 8 bytes.
pub(super) fn checksum_of(parts: &[&[u8]]) -> u64 {
    let mut sum = 0u64;
    let words = parts.iter().flat_map(|part| part.chunks(8));
    for (position, chunk) in words.enumerate() {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        sum = sum.wrapping_add(mix(mix(position as u64) ^ u64::from_le_bytes(word)));
    }
    mix(sum ^ parts.iter().map(|part| part.len() as u64).sum::<u64>())
}
