//! One finding and its fix.

use serde::Serialize;

use crate::ui::out;

/// One thing looked at.
#[derive(Debug, Serialize)]
pub struct Check {
    /// The checked part.
    pub name: &'static str,
    /// How it stands.
    pub status: CheckStatus,
    /// The finding.
    pub finding: String,
    /// The command or step that fixes or improves it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

/// How a check came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CheckStatus {
    /// As it should be.
    Ok,
    /// Works, but could be better, or is of no use on this machine.
    Note,
    /// Something that the program needs is not there.
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

/// A file of the kernel's, without its last newline; `None` where it is not there or not ours to read.
pub fn read(path: &str) -> Option<String> {
    uva_mem::files::read_kernel_text(path).ok().map(|text| text.trim_end().to_owned())
}
