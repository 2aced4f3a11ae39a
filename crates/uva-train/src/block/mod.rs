//! The blocks of a batch: their lists, and the sums of rows over them.

pub(crate) mod aggregate;
pub(crate) mod block_kernel;
pub mod measured;
pub(crate) mod sums;
pub(crate) mod tensor_block;
