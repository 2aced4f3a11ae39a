//! A file that is complete but not yet renamed to its final name.

use std::os::unix::fs::FileExt;
use std::path::Path;

use uva_mem::files::{Replacement, open_regular};

use crate::exit;

/// A file that is renamed before the unfinished arrays that belong to it are renamed or removed: a process that is
/// killed in between leaves both, and the same command then recognises its own file.
pub(super) struct WrittenFile {
    option: &'static str,
    file: Replacement,
    overwrite: bool,
}

impl WrittenFile {
    /// A complete file for `option` that is not yet renamed.
    ///
    /// # Errors
    /// Bad usage if another file has the name, unless `overwrite`.
    pub(super) fn new(option: &'static str, file: Replacement, overwrite: bool) -> anyhow::Result<Self> {
        let written = Self { option, file, overwrite };
        if !overwrite && written.target().symlink_metadata().is_ok() && !written.is_there()? {
            return Err(written.taken().into());
        }
        Ok(written)
    }

    fn target(&self) -> &Path {
        self.file.target()
    }

    /// Whether a file with exactly this content has the name.
    fn is_there(&self) -> anyhow::Result<bool> {
        let failed = |error: std::io::Error| exit::of_output(self.option, self.target(), error);
        let Ok(found) = open_regular(self.target()) else { return Ok(false) };
        let (ours, mut at) = (self.file.written().map_err(failed)?, 0);
        let length = ours.metadata().map_err(failed)?.len();
        if found.metadata().map_err(failed)?.len() != length {
            return Ok(false);
        }
        let mut pieces = [vec![0; 1 << 20], vec![0; 1 << 20]];
        while at < length {
            let bytes = usize::try_from(length - at).unwrap_or(usize::MAX).min(1 << 20);
            let [first, second] = &mut pieces;
            let read = ours.read_exact_at(&mut first[..bytes], at);
            read.and_then(|()| found.read_exact_at(&mut second[..bytes], at)).map_err(failed)?;
            if first[..bytes] != second[..bytes] {
                return Ok(false);
            }
            at += bytes as u64;
        }
        Ok(true)
    }

    /// Renames the file to its final name.
    pub(super) fn commit(mut self) -> anyhow::Result<()> {
        if self.overwrite {
            return self.file.commit().map_err(|error| exit::of_output(self.option, self.target(), error));
        }
        match self.file.commit_new() {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
                if self.is_there()? {
                    Ok(())
                } else {
                    Err(self.taken().into())
                }
            }
            result => result.map_err(|error| exit::of_output(self.option, self.target(), error)),
        }
    }

    fn taken(&self) -> exit::CommandError {
        exit::usage(format!(
            "{} {}: it is there already: name another file, or replace it with --overwrite",
            self.option,
            self.target().display()
        ))
    }
}
