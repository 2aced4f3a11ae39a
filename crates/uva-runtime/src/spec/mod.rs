//! Options, each declared once: command line, configuration file, Python keywords, checkpoint fingerprints, messages to
//! roles and the reference in the documentation are derived from the declarations.
//!
//! [`options!`] declares a struct of options. Each of its fields comes with its help (the doc comment), its default and a
//! [`Field`]: what values it takes and what depends on it ([`Purpose`]). [`Given`] holds values that somebody gave by
//! name, and makes the struct of them.
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
