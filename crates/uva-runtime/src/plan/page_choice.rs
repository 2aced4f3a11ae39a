//! The pages of the files that CPU threads read in random order.

use serde_json::{Value, json};
use uva_graph::RandomValues;
use uva_options::Spelling;

use crate::options::reader::CopiedFiles;

/// How a file comes onto 2 MiB pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PageMethod {
    /// It keeps the pages of its mapping.
    Mapped,
    /// The system moves its pages in the page cache.
    Collapse,
    /// It is dropped from the page cache and read from disk again.
    ReadAgain,
    /// Processes that read it copy it.
    Copy,
}

impl PageMethod {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Mapped => "mapped",
            Self::Collapse => "collapsed",
            Self::ReadAgain => "read again",
            Self::Copy => "copied",
        }
    }
}

/// The pages of one file, and the reason.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FilePages {
    /// Its name.
    pub file: String,
    pub values: RandomValues,
    pub method: PageMethod,
    pub reason: String,
    /// The fraction of the file that was found on 2 MiB pages.
    pub huge_share: Option<f64>,
    pub rates: Option<Rates>,
    /// The seconds that the method saves and those that it takes, if both kinds of pages were measured.
    pub saved_and_cost: Option<(f64, f64)>,
    /// The fraction on 2 MiB pages after the method, once it was applied.
    pub placed_share: Option<f64>,
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

/// The pages of each file that CPU threads read in random order, with reasons and measurements.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PageChoice {
    pub(crate) files: Vec<FilePages>,
}

impl PageChoice {
    /// The files that are copied.
    pub(crate) fn copied(&self) -> CopiedFiles {
        let is_copied =
            |values| self.files.iter().any(|file| file.values == values && file.method == PageMethod::Copy);
        CopiedFiles {
            rows: is_copied(RandomValues::Rows),
            indptr: is_copied(RandomValues::Indptr),
            indices: is_copied(RandomValues::Indices),
        }
    }

    /// The form in the metrics' first line: an object for each file.
    #[must_use]
    pub fn in_force(&self) -> Value {
        let gb = |rate: f64| rate / 1e9;
        let one = |file: &FilePages| {
            let mut shown = json!({
                "file": file.file,
                "pages": file.method.name(),
                "reason": Spelling::CommandLine.sentence(&file.reason),
                "huge_share": file.huge_share,
            });
            if let Some(share) = file.placed_share {
                shown["placed_huge_share"] = share.into();
            }
            if let Some(Rates { mapped, huge, copy }) = file.rates {
                shown["mapped_gb_per_second"] = gb(mapped).into();
                shown["huge_gb_per_second"] = gb(huge).into();
                shown["copy_gb_per_second"] = gb(copy).into();
            }
            shown
        };
        self.files.iter().map(one).collect()
    }

    /// A line for people for each file that changes its pages.
    #[must_use]
    pub fn notes(&self) -> Vec<String> {
        let what = |method| match method {
            PageMethod::Mapped => None,
            PageMethod::Collapse => Some("moved to 2 MiB pages"),
            PageMethod::ReadAgain => Some("read again onto 2 MiB pages"),
            PageMethod::Copy => Some("copied to 2 MiB pages"),
        };
        let line = |file: &FilePages| {
            let gain =
                file.saved_and_cost.map(|(saved, cost)| format!(": saves {saved:.1} s, takes {cost:.1} s"));
            Some(format!("{} is {}{}", file.file, what(file.method)?, gain.unwrap_or_default()))
        };
        self.files.iter().filter_map(line).collect()
    }
}
