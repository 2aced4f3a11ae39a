//! Options, each declared once. The declarations generate command line, configuration file, Python keywords, checkpoint
//! fingerprints, messages to roles and the reference in the documentation.
//!
//! `options!` declares a struct of options. Each of its fields has its help (the doc comment), its default and a
//! [`Field`]: the values it accepts and what depends on it ([`Purpose`]). [`Given`] holds values that were given by
//! name, and builds the struct from them.
//!
//! Nothing here knows a particular option, a command line or Python.

mod declare;
mod error;
mod field;
mod given;
mod nearest;
mod size;
mod value;
mod whole;

pub use declare::Options;
pub(crate) use declare::options;
pub use error::{OptionError, Spelling};
pub use field::{Choice, Field, Kind, Purpose};
pub use given::Given;
pub use nearest::nearest;
pub use size::{ByteSize, SizeError};
pub use value::OptionValue;
pub use whole::{Whole, whole};
