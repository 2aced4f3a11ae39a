//! Rows of a table, and runs of rows of several: which bytes to read, and reading them, also ahead of their use.

pub(crate) mod ahead;
mod plan;
pub(crate) mod row_file;
pub(crate) mod run_files;
mod run_plan;
