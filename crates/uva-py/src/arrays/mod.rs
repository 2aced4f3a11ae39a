//! Arrays that Python lends to this module, and arrays that it lends to Python.

pub mod array;
pub mod dlpack;
pub mod elements;
pub mod input;
pub mod table;
pub mod values;
pub mod zeros;
