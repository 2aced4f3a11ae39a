//! Rows of a table, and runs of rows of several: which bytes to read, and reading them, also ahead of their use.

mod plan;
pub(crate) mod read_ahead;
pub(crate) mod row_file;
pub(crate) mod run_files;
mod run_plan;
