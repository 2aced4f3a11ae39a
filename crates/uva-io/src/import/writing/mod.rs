//! The dataset that an import writes: its files, and the numbers of its nodes.

pub(crate) mod array_target;
pub(crate) mod numbering;
pub(crate) mod output;
pub(crate) mod read_speed;
pub(crate) mod type_names;
pub(crate) mod typed_changes;
pub(crate) mod typed_output;
