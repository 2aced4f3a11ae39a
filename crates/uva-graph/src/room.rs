//! Whether a disk has the room for what is to be written, asked before anything is.

use std::path::Path;

use rustix::fs::statvfs;

use crate::GraphError;

/// Refuses where the file system that `out` will be on has less than `needs` bytes for us. A file system that does not
/// say, or a parent that cannot be looked at, is no reason to refuse: writing will tell.
pub(crate) fn check(out: &Path, needs: u64) -> Result<(), GraphError> {
    // `out` does not exist yet, and parents of it may be missing.
    let there = out.ancestors().skip(1).find(|parent| parent.as_os_str().is_empty() || parent.exists());
    let there = match there {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let Ok(found) = statvfs(there) else { return Ok(()) };
    let free = found.f_bavail.saturating_mul(found.f_frsize);
    if found.f_blocks == 0 || needs <= free {
        return Ok(());
    }
    Err(GraphError::NoRoom { path: out.to_owned(), needs, free })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fits_is_let_through_and_what_does_not_is_refused_with_both_numbers() {
        let directory = tempfile::tempdir().unwrap();
        let out = directory.path().join("not/there/yet");
        check(&out, 1).unwrap();
        check(Path::new("here"), 1).unwrap();
        let error = check(&out, u64::MAX).unwrap_err();
        let GraphError::NoRoom { needs, free, .. } = &error else { panic!("{error}") };
        assert!(*needs == u64::MAX && *free > 0);
        assert!(error.to_string().contains("not/there/yet") && !error.is_bad_input(), "{error}");
    }
}
