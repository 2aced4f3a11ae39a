//! The error of an option, and how front ends spell it.

use std::fmt;

use serde::{Deserialize, Serialize};

/// An option has an unusable value. Programs match on [`field`](Self::field).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OptionError {
    /// The option's name, with underscores: `batch_size`.
    pub field: String,
    /// The refused value, as text. `None` if the reason contains it, or if the value is not at fault.
    pub value: Option<String>,
    /// What is wrong, and what to give instead. Other options appear in it as `` `slot_bytes` `` or ``
    /// `slot_bytes=64MiB` ``; [`Spelling::sentence`] writes them as a front end does.
    pub reason: String,
}

impl OptionError {
    /// Refuses an option and its value.
    pub fn new(field: impl Into<String>, value: impl fmt::Display, reason: impl Into<String>) -> Self {
        Self { field: field.into(), value: Some(value.to_string()), reason: reason.into() }
    }

    /// Refuses an option and its value; an empty value is not shown.
    pub(super) fn refused(field: &str, value: &str, reason: String) -> Self {
        if value.is_empty() { Self::of(field, reason) } else { Self::new(field, value, reason) }
    }

    /// Refuses an option regardless of its value.
    pub fn of(field: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { field: field.into(), value: None, reason: reason.into() }
    }

    /// Parses a message that begins with the option, as in `` `expand=new`: … ``, or contains it.
    #[must_use]
    pub fn in_front_of(message: &str, field: &str) -> Self {
        let begins = message.strip_prefix('`').and_then(|rest| rest.split_once("`: "));
        match begins.map(|(option, reason)| (option.split_once('='), option, reason)) {
            Some((Some((name, value)), _, reason)) if name == field => Self::new(field, value, reason),
            Some((None, name, reason)) if name == field => Self::of(field, reason),
            _ => Self::of(field, message),
        }
    }

    /// The whole message in a front end's words.
    #[must_use]
    pub fn spelled(&self, spelling: Spelling) -> String {
        let option = spelling.option(&self.field, self.value.as_deref());
        format!("{option}: {}", spelling.sentence(&self.reason))
    }
}

impl fmt::Display for OptionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.spelled(Spelling::Keyword))
    }
}

impl std::error::Error for OptionError {}

/// The notation of a front end for an option and its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spelling {
    /// `--batch-size 0`.
    CommandLine,
    /// `batch_size=0`, as Rust and Python name it.
    Keyword,
}

impl Spelling {
    /// An option, with its value if there is one.
    #[must_use]
    pub fn option(self, field: &str, value: Option<&str>) -> String {
        match (self, value) {
            (Self::CommandLine, Some(value)) => format!("--{} {value}", field.replace('_', "-")),
            (Self::CommandLine, None) => format!("--{}", field.replace('_', "-")),
            (Self::Keyword, Some(value)) => format!("{field}={value}"),
            (Self::Keyword, None) => field.to_owned(),
        }
    }

    /// A sentence with `` `options` `` in this front end's notation. Other text between backticks stays.
    #[must_use]
    pub fn sentence(self, text: &str) -> String {
        let mut spelled = String::with_capacity(text.len());
        let mut rest = text;
        while let Some((before, quoted)) = rest.split_once('`') {
            let Some((quoted, after)) = quoted.split_once('`') else { break };
            spelled.push_str(before);
            let (name, value) =
                quoted.split_once('=').map_or((quoted, None), |(name, value)| (name, Some(value)));
            if is_a_name(name) {
                spelled.push_str(&self.option(name, value));
            } else {
                spelled.extend(["`", quoted, "`"]);
            }
            rest = after;
        }
        spelled.push_str(rest);
        spelled
    }
}

/// Whether the text is spelled like an option. Commands and code have spaces or other letters.
fn is_a_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_lowercase())
        && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_front_end_spells_options_its_own_way() {
        let error = OptionError::new(
            "batch_slots",
            5,
            "lower `samplers`, or give `batch_slots=6`; see `uvatrain info`",
        );
        assert_eq!(
            error.spelled(Spelling::CommandLine),
            "--batch-slots 5: lower --samplers, or give --batch-slots 6; see `uvatrain info`"
        );
        assert_eq!(
            error.to_string(),
            "batch_slots=5: lower samplers, or give batch_slots=6; see `uvatrain info`"
        );
    }

    #[test]
    fn a_single_backtick_is_text() {
        assert_eq!(Spelling::CommandLine.sentence("it`s `seed`"), "it`s `seed`");
        assert_eq!(Spelling::CommandLine.sentence("`seed` it`s"), "--seed it`s");
    }
}
