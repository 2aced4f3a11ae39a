//! Arrays that Python lends us, and that we lend.

pub mod array;
pub mod dlpack;
pub mod elements;
pub mod input;
pub mod table;
pub mod values;
pub mod zeros;
