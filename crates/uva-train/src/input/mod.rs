//! Conversion of a batch to checked tensors.

pub(crate) mod check;
pub(crate) mod evaluation;
pub(crate) mod model_input;
mod prepare;
pub(crate) mod prepared;
pub(crate) mod sampled_blocks;
pub(crate) mod targets;
pub(crate) mod typed_blocks;
pub(crate) mod zeros;
