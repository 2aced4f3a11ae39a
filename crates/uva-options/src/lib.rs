//! Options, each declared once. The declarations generate command line, configuration file, Python keywords, checkpoint
//! fingerprints, messages to roles and the reference in the documentation.
//!
//! [`options!`] declares a struct of options. Each of its fields has its help (the doc comment), its default and a
//! [`Field`]: the values it accepts and what depends on it ([`OptionPurpose`]). [`PartialOptions`] holds values that
//! were given by name, and builds the struct from them. [`named!`] declares the values of an option that takes one of
//! a few names.
//!
//! This crate must not depend on a particular option, a command line or Python. `uva_runtime::options` declares the
//! loader's options.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod assignment;
mod declare;
mod error;
mod field;
mod named;
mod real;
mod size;
mod suggestion;
mod value;
mod whole_number;

pub use assignment::PartialOptions;
pub use declare::Options;
pub use error::{OptionError, Spelling};
pub use field::{Choice, Field, OptionPurpose, ValueKind};
pub use named::Named;
pub use real::Real;
pub use size::{ByteSize, SizeError};
pub use suggestion::nearest;
pub use value::OptionValue;
pub use whole_number::{WholeRange, whole};

/// What the macros' expansions name.
#[doc(hidden)]
pub use {serde, serde_json};
