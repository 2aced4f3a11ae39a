//! Blocks and their sums, compared with finite differences, plain loops and each other.

mod batch_sums;
mod edge_weights;
pub(crate) mod gradients;
mod padding;
mod partial_sums;
mod sums;
mod tensor_blocks;
