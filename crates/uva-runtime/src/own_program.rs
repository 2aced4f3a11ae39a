//! The file of this program, for starting it again.

use std::path::PathBuf;

/// This program, as it was started. If the file has been replaced, for example by a build, its old path is gone, and
/// the running image must be started again.
pub(crate) fn own_program() -> PathBuf {
    match std::env::current_exe() {
        Ok(path) if path.exists() => path,
        _ => PathBuf::from("/proc/self/exe"),
    }
}
