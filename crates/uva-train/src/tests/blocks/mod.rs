//! Blocks and their sums: against finite differences, plain loops and each other.

mod batch_sums;
mod edge_weights;
pub(crate) mod gradients;
mod padding;
mod partial_sums;
mod sums;
mod tensor_blocks;
