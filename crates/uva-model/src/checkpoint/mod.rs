//! Checkpoints: a trainer's tensors as safetensors, and a small JSON state that names them. Here are the files;
//! `uva-train` packs tensors into them and out of them.
//!
//! A folder holds `checkpoint.json` and the file of tensors that it names with its size and checksum,
//! `tensors-<checksum>.safetensors`. Both are written beside and renamed; renaming `checkpoint.json` is what makes a
//! new checkpoint the current one, and only then is the old file of tensors removed. Nothing else in the folder is: a
//! file counts as ours by its exact name, and one of tensors by its marker besides, or because the former
//! `checkpoint.json` named it (`folder.rs`). The new one never has the old one's name unless it has its content, so a crash
//! at any point leaves a pair that belongs together.
//!
//! What the JSON holds besides is the caller's: a fingerprint, an object of whatever a resumed run must have in
//! common with this one, and a state, which it gets back.
//!
//! One run at a time writes to a folder.

mod checkpoint_error;
mod durable;
mod folder;
mod state_file;
mod stored;

pub use checkpoint_error::CheckpointError;
pub use durable::Observer;
pub use folder::{Found, FoundContent, look, remove_leftovers};
pub use state_file::{MARKER, TrainerState, checksum};
pub use stored::{Checkpoint, read, store};
