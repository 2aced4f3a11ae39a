//! The CPU cores of a run, as requested.

use std::fmt;
use std::str::FromStr;

use crate::pin_cores::PinCores;
use crate::{RuntimeError, machine};

/// The CPU cores of a run, and who divides them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cores {
    /// All that the process may use. How many threads each stage gets is found by timing the stages.
    Auto,
    /// These. All stages share them.
    Of(PinCores),
}

impl Cores {
    /// Keeps the calling thread, and all threads and processes that it starts from now on, on the cores that are listed.
    ///
    /// # Errors
    /// A core that the process may not use; the system's refusal.
    pub fn keep(&self) -> Result<(), RuntimeError> {
        let Self::Of(cores @ PinCores::Listed(listed)) = self else { return Ok(()) };
        let refused = |error| {
            RuntimeError::option("cores", cores.to_string(), format!("the system does not allow it: {error}"))
        };
        cores.check_as("cores", &machine::allowed_cores().map_err(refused)?)?;
        machine::keep_on_cores(listed).map_err(refused)
    }
}

impl fmt::Display for Cores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Of(cores) => cores.fmt(f),
        }
    }
}

impl FromStr for Cores {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "auto" { Ok(Self::Auto) } else { text.parse().map(Self::Of) }
    }
}

uva_options::text_values!(Cores);

#[cfg(test)]
mod tests {
    use uva_options::OptionValue;

    use super::*;

    #[test]
    fn cores_are_read_and_written_alike() {
        for text in ["auto", "all", "0,2,4-6"] {
            assert_eq!(text.parse::<Cores>().unwrap().text(), text);
        }
        assert!("automatic".parse::<Cores>().is_err());
    }
}
