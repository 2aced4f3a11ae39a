//! Mapped files, and what happens where one is made shorter.

pub(crate) mod file_state;
pub(crate) mod mapped_fault;
pub mod mapped_file;
