//! Checkpoints: a trainer's tensors as safetensors, and a small JSON state that names them. This module handles the
//! files; `uva-train` packs and unpacks the tensors.
//!
//! A folder holds `checkpoint.json` and the files that it names with their sizes and checksums: the tensors,
//! `tensors-<checksum>.safetensors`, and for each table of a node type without features its rows and moments,
//! `embedding-<type>-<checksum>.npy`. All are written under temporary names and renamed. Renaming `checkpoint.json`
//! makes a new checkpoint the current one; only then are the old files removed. No other file in the folder is removed.
//! A file is recognised by its exact name. A tensor file also needs its marker; a table's file must have been named by
//! the former `checkpoint.json`, or have the checksum in its name (`folder.rs`). A new file has an old one's name only if
//! the contents are equal. A crash at any point therefore leaves files that fit each other.
//!
//! The rest of the JSON belongs to the caller. The fingerprint is an object with everything that a resumed run must
//! share with this one. The state is returned to the caller.
//!
//! Only one run at a time may write to a folder.

mod checkpoint_error;
mod durable;
mod embedding_files;
mod folder;
mod state_file;
mod stored;
mod stored_model;

pub use checkpoint_error::CheckpointError;
pub use durable::StepObserver;
pub use embedding_files::{EmbeddingContent, EmbeddingRows, StoredEmbedding};
pub use folder::{CheckpointFacts, FoundContent, is_file_name, look, remove_leftovers};
pub use state_file::{Keep, MARKER, TrainerState, checksum};
pub use stored::{Checkpoint, read, store};
pub use stored_model::StoredModel;
