//! Conversion of a batch to checked tensors.

pub(crate) mod check;
pub(crate) mod input_settings;
pub(crate) mod prepared;
pub(crate) mod targets;
