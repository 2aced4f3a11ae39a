//! An export of a typed graph in progress.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use uva_graph::{GraphError, Progress, TypedDataset, names};
use uva_mem::files::open_regular;

/// An export in progress. The directories of types and relations have the names of the dataset's.
pub(super) struct TypedExport<'e> {
    pub(super) dataset: &'e TypedDataset,
    /// The output directory.
    pub(super) to: &'e Path,
    pub(super) progress: &'e dyn Fn(Progress),
}

impl TypedExport<'_> {
    /// Creates the directory that has the place of `directory` of the dataset.
    pub(super) fn directory(&self, directory: &Path) -> Result<PathBuf, GraphError> {
        let relative = directory.strip_prefix(self.dataset.path()).unwrap_or(directory);
        let to = self.to.join(relative);
        fs::create_dir_all(&to).map_err(GraphError::io(&to, "create"))?;
        Ok(to)
    }

    /// Copies all arrays and the names of nodes in `directory` except some, and returns the sorted names of the files.
    pub(super) fn copy_all(
        &self,
        directory: &Path,
        to: &Path,
        except: &[&str],
    ) -> Result<Vec<String>, GraphError> {
        let mut copied = Vec::new();
        for entry in fs::read_dir(directory).map_err(GraphError::io(directory, "read"))? {
            let name = entry.map_err(GraphError::io(directory, "read"))?.file_name();
            let Some(text) = name.to_str() else { continue };
            let is_kept = text.ends_with(".npy") && !text.starts_with('.') || text == names::NODE_NAMES;
            if is_kept && !except.contains(&text) {
                self.copy(&directory.join(&name), &to.join(&name))?;
                copied.push(text.to_owned());
            }
        }
        copied.sort_unstable();
        Ok(copied)
    }

    /// Copies a file.
    pub(super) fn copy(&self, from: &Path, to: &Path) -> Result<(), GraphError> {
        let mut source = open_regular(from).map_err(GraphError::io(from, "open"))?;
        let mut copy = File::create_new(to).map_err(GraphError::io(to, "create"))?;
        io::copy(&mut source, &mut copy).map_err(GraphError::io(from, "copy"))?;
        Ok(())
    }
}
