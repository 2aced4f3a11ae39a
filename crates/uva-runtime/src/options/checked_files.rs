//! The files of feature rows, as the process that checked them found them.

use std::fmt;
use std::str::FromStr;

use uva_disk::DiskError;
use uva_graph::Dataset;
use uva_mem::FileState;

use crate::RuntimeError;

/// The states of the files that hold a dataset's feature rows, for every other process of the run to compare.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckedFiles(Vec<FileState>);

impl CheckedFiles {
    /// As this process opened them.
    #[must_use]
    pub fn of(dataset: &Dataset) -> Self {
        Self(dataset.row_files().into_iter().map(|(_, state)| state).collect())
    }

    /// Checks that another process has opened them unchanged.
    ///
    /// # Errors
    /// [`RuntimeError::Failed`] with the name of a file that changed in between.
    pub fn check(&self, dataset: &Dataset) -> Result<(), RuntimeError> {
        for (checked, (path, opened)) in self.0.iter().zip(dataset.row_files()) {
            if let Some(what) = checked.change(&opened) {
                let changed = DiskError::Changed { file: path.to_owned(), what };
                return Err(RuntimeError::failed(changed.to_string()));
            }
        }
        Ok(())
    }
}

/// The states, separated by spaces.
impl fmt::Display for CheckedFiles {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let states: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        formatter.write_str(&states.join(" "))
    }
}

impl FromStr for CheckedFiles {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        text.split_whitespace().map(str::parse).collect::<Result<_, _>>().map(Self)
    }
}

uva_options::text_values!(CheckedFiles);
