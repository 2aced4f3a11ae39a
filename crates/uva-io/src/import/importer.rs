//! The description of an importer.

use std::fmt;
use std::fs;
use std::io;
use std::path::Path;

use uva_graph::GraphError;

use super::options::{Extra, ImportOptions};
use super::request::{ImportRequest, ImportWatch};

/// A format that can be imported: a row of [`IMPORTERS`](super::IMPORTERS).
pub struct Importer {
    /// Its name, as on the command line.
    pub name: &'static str,
    /// One line of help, without a full stop.
    pub help: &'static str,
    /// The kind of source.
    pub(super) source: SourceKind,
    /// The options specific to this format.
    pub(super) takes: &'static [Extra],
    pub(super) import: fn(&ImportRequest<'_>) -> Result<(), GraphError>,
}

/// The kind of source, with its content as a message lists it after `reads`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SourceKind {
    Directory(&'static str),
    File(&'static str),
    Either(&'static str),
    /// The prefix of several files' names: the importer searches for them itself.
    Prefix,
}

impl Importer {
    /// Imports `source` into the directory `out`, which must not exist.
    ///
    /// # Errors
    /// If files are missing, malformed or inconsistent, an option is not valid for the format, the disk has too little
    /// space, or `out` exists. No files remain after an error.
    pub fn run(
        &self,
        source: &Path,
        out: &Path,
        options: &ImportOptions,
        watch: &ImportWatch<'_>,
    ) -> Result<(), GraphError> {
        self.check_source(source)?;
        // An ignored option would look as if it had taken effect.
        let unused =
            options.extras().into_iter().find(|(extra, given)| *given && !self.takes.contains(extra));
        if let Some((extra, _)) = unused {
            return Err(GraphError::usage(extra.name(), format!("not supported with `from={}`", self.name)));
        }
        (self.import)(&ImportRequest { source, out, options, watch })
    }

    /// Rejects a source that does not exist, or is a file for a format that expects a directory, or vice versa.
    fn check_source(&self, source: &Path) -> Result<(), GraphError> {
        let (SourceKind::Directory(reads) | SourceKind::File(reads) | SourceKind::Either(reads)) =
            self.source
        else {
            return Ok(());
        };
        let refuse = |found: &str| {
            let message = format!("{} {found}; `from={}` reads {reads}", source.display(), self.name);
            Err(GraphError::usage("SRC", message))
        };
        match (fs::metadata(source), self.source) {
            (Err(error), _) if error.kind() == io::ErrorKind::NotFound => refuse("does not exist"),
            (Err(error), _) => Err(GraphError::io(source, "open")(error)),
            (Ok(metadata), SourceKind::File(_)) if metadata.is_dir() => refuse("is a directory"),
            (Ok(metadata), SourceKind::Directory(_)) if !metadata.is_dir() => refuse("is not a directory"),
            (Ok(_), _) => Ok(()),
        }
    }
}

impl fmt::Debug for Importer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}
