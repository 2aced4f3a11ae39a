//! `.npy` arrays: headers, mapped reading, streamed writing.

mod array;
mod header;

pub use array::NpyArray;
pub(crate) use array::TypedArray;
pub use header::{Header, NpyType};
