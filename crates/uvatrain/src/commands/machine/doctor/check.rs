//! One finding and its fix.

use serde::Serialize;

use crate::ui::out;

/// One check of the machine.
#[derive(Debug, Serialize)]
pub struct Check {
    /// The checked part.
    pub name: &'static str,
    /// The status of the part.
    pub status: CheckStatus,
    /// The finding.
    pub finding: String,
    /// The command or step that fixes or improves it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CheckStatus {
    /// Works as expected.
    Ok,
    /// Works but could be better, or has no effect on this machine.
    Note,
    /// A required part is missing.
    Missing,
}

impl Check {
    pub fn ok(name: &'static str, finding: impl Into<String>) -> Check {
        Check { name, status: CheckStatus::Ok, finding: out::spelled(&finding.into()), remedy: None }
    }

    pub fn note(name: &'static str, finding: impl Into<String>, remedy: impl Into<String>) -> Check {
        Check {
            name,
            status: CheckStatus::Note,
            finding: out::spelled(&finding.into()),
            remedy: Some(out::spelled(&remedy.into())),
        }
    }

    pub fn missing(name: &'static str, finding: impl Into<String>, remedy: impl Into<String>) -> Check {
        Check {
            name,
            status: CheckStatus::Missing,
            finding: out::spelled(&finding.into()),
            remedy: Some(out::spelled(&remedy.into())),
        }
    }
}

/// The content of a kernel file, without its last newline; `None` if it does not exist or is not readable.
pub fn read(path: &str) -> Option<String> {
    uva_mem::files::read_kernel_text(path).ok().map(|text| text.trim_end().to_owned())
}
