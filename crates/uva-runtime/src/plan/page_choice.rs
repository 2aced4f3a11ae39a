//! The pages of feature rows in memory: those of the mapped file, or of a copy on 2 MiB pages.

use serde_json::{Value, json};
use uva_options::Spelling;

use crate::options::reader::HostPages;

/// The pages from which CPU threads read feature rows, and the reason.
#[derive(Clone, Debug, PartialEq)]
pub struct PageChoice {
    /// Never [`HostPages::Auto`].
    pub(crate) pages: HostPages,
    reason: String,
    measured: Measured,
}

/// The measurements on which a choice is based.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Measured {
    /// The fraction of the file on 2 MiB pages.
    pub huge_share: Option<f64>,
    pub rates: Option<Rates>,
}

/// Bytes per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Rates {
    /// Random rows of the mapped file.
    pub mapped: f64,
    /// Random rows of a copy on 2 MiB pages.
    pub huge: f64,
    /// The copy.
    pub copy: f64,
}

impl PageChoice {
    /// The choice, its reason, and its measurements.
    pub(crate) fn new(pages: HostPages, reason: String, measured: Measured) -> Self {
        Self { pages, reason, measured }
    }

    /// The form in the metrics' first line.
    #[must_use]
    pub fn in_force(&self) -> Value {
        let gb = |rate: f64| rate / 1e9;
        let mut shown = json!({
            "pages": self.pages.name(),
            "reason": Spelling::CommandLine.sentence(&self.reason),
            "file_huge_share": self.measured.huge_share,
        });
        if let Some(Rates { mapped, huge, copy }) = self.measured.rates {
            shown["mapped_gb_per_second"] = gb(mapped).into();
            shown["huge_gb_per_second"] = gb(huge).into();
            shown["copy_gb_per_second"] = gb(copy).into();
        }
        shown
    }

    /// A line for people if the table is copied.
    #[must_use]
    pub fn note(&self) -> Option<String> {
        (self.pages == HostPages::Huge)
            .then(|| format!("the feature table is copied to 2 MiB pages: {}", self.reason))
    }
}
