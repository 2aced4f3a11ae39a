//! Options of generated graphs.

pub(crate) mod common;
pub(crate) mod shape_options;
pub(crate) mod train_by;
