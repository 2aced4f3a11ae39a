//! Checks for free disk space before anything is written.

use std::fmt;
use std::path::Path;

use crate::FileError;
use rustix::fs::statvfs;

/// Checks that the file system of `out` has at least `needs` available bytes. `what` names the consumer of the space,
/// and alternatives. The check passes if the free space is unknown or a parent cannot be examined; writing then reports
/// the error.
///
/// # Errors
/// [`FileError::Lacking`].
pub fn check(out: &Path, needs: u64, what: impl fmt::Display) -> Result<(), FileError> {
    // `out` need not exist yet, and its parents may be missing.
    let there = out.ancestors().find(|parent| parent.as_os_str().is_empty() || parent.exists());
    let there = match there {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let Ok(found) = statvfs(there) else { return Ok(()) };
    let free = found.f_bavail.saturating_mul(found.f_frsize);
    if found.f_blocks == 0 || needs <= free {
        return Ok(());
    }
    let message = format!("there is room for {}, but {what}", BytesOnDisk(free));
    Err(FileError::Lacking { path: out.to_owned(), message })
}

/// A byte count in the units customary for disks.
pub struct BytesOnDisk(pub u64);

impl fmt::Display for BytesOnDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [(1_u64 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
        // Sizes below the smallest unit use that unit.
        let (size, unit) = units.into_iter().find(|(size, _)| self.0 >= *size).unwrap_or(units[2]);
        write!(f, "{:.1} {unit}", self.0 as f64 / size as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fits_passes_and_what_does_not_is_refused_with_its_size() {
        let directory = tempfile::tempdir().unwrap();
        let out = directory.path().join("not/there/yet");
        check(&out, 1, "").unwrap();
        check(Path::new("here"), 1, "").unwrap();
        let error = check(&out, u64::MAX, "this takes more").unwrap_err();
        assert!(matches!(error, FileError::Lacking { .. }), "{error}");
        let message = error.to_string();
        assert!(
            message.contains("not/there/yet: there is room for ") && message.contains("this takes more"),
            "{message}"
        );
    }
}
