//! Utilities for writing files of any content.
//!
//! | module | holds |
//! |---|---|
//! | [`staging`] | directories that appear atomically |
//! | [`disk_space`] | checks for free disk space |
//! | [`progress`] | work in bounded steps, and its progress |
//! | [`quote`] | short quotes of a file's content for messages |
//! | [`escape`] | text that is safe for a terminal |
//!
//! This crate must not depend on the content of files. Next: `uva-mem` opens and replaces single files.
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
