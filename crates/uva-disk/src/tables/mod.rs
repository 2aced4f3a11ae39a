//! Planning and execution of reads: rows of one table, runs of rows of several tables, and read-ahead.

mod plan;
pub(crate) mod read_ahead;
pub(crate) mod row_file;
pub(crate) mod run_files;
mod run_plan;
