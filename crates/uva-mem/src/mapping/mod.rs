//! Mapped files, and the handling of truncation.

pub(crate) mod file_pages;
pub(crate) mod file_state;
pub(crate) mod mapped_fault;
pub mod mapped_file;
