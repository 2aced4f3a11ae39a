//! The producer's look-ahead beyond the batch that it fills.

use std::fmt;
use std::str::FromStr;

use serde_json::Value;
use uva_options::OptionValue;
use uva_rows::LOOK_AHEAD_MOST;

/// The number of batches that the producer looks ahead, if rows are read from disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LookAhead {
    /// [`AUTO`](Self::AUTO) batches, if the run's caches allow it.
    #[default]
    Auto,
    /// This many batches; 0 for none.
    Batches(usize),
}

impl LookAhead {
    /// The default number. The reads of two batches keep a disk busy while a third is handed over, and even the minimum
    /// number of batch slots has room for them.
    pub const AUTO: usize = 2;
}

impl FromStr for LookAhead {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "auto" {
            return Ok(Self::Auto);
        }
        match text.parse() {
            Ok(batches) if batches <= LOOK_AHEAD_MOST => Ok(Self::Batches(batches)),
            _ => Err(format!("expected a number of batches from 0 to {LOOK_AHEAD_MOST}, or auto")),
        }
    }
}

impl fmt::Display for LookAhead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Batches(batches) => write!(f, "{batches}"),
        }
    }
}

impl OptionValue for LookAhead {
    fn of_text(text: &str) -> Option<Self> {
        text.parse().ok()
    }

    fn text(&self) -> String {
        self.to_string()
    }

    fn json(&self) -> Value {
        match self {
            Self::Auto => "auto".into(),
            Self::Batches(batches) => (*batches).into(),
        }
    }

    fn of_json(value: &Value) -> Option<Self> {
        match value.as_u64() {
            Some(batches) => Self::of_text(&batches.to_string()),
            None => Self::of_text(value.as_str()?),
        }
    }
}
