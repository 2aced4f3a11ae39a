//! `.npy` arrays: headers, mapped reading, streamed writing.
//!
//! Versions 1 and 2, little-endian, C order. Everything else is rejected with an error that has the value found and the
//! accepted values.

mod array;
mod header;
mod rows;
mod writer;

pub use array::NpyArray;
pub(crate) use array::TypedArray;
pub use header::{Header, HeaderProblem, NpyType};
pub use rows::{Done, FoundRows, NpyRows};
pub(crate) use writer::HEADER_BYTES;
pub use writer::{NpyWriter, array_header, write_array};

#[cfg(target_endian = "big")]
compile_error!("arrays are little-endian and used in place, so only little-endian machines are supported");

#[cfg(test)]
mod tests;
