//! What every writer of files needs, whatever the files hold.
//!
//! | module | holds |
//! |---|---|
//! | [`staging`] | directories that appear whole or not at all |
//! | [`disk_space`] | whether there is room for them |
//! | [`progress`] | work in bounded steps, and its progress |
//! | [`quote`] | short quotes of a file's content for messages |
//! | [`escape`] | text that is safe for a terminal |
//!
//! This crate must not know what a file holds. Next: `uva-mem` opens and replaces single files.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

pub mod disk_space;
mod error;
pub mod escape;
pub mod progress;
pub mod quote;
pub mod staging;

pub use error::FileError;
pub use progress::Progress;
