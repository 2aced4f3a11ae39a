//! What launcher and janitor, which have no trainer, do to a checkpoint's directory.

use std::path::Path;

/// Removes what a consumer that was killed may have left half-written.
pub(crate) fn remove_leftovers(directory: &Path) {
    // It is the last thing a failed run does: what cannot be removed now is removed by the next run there.
    #[cfg(feature = "train")]
    let _ = uva_train::checkpoint::remove_leftovers(directory);
    // Without models nothing writes checkpoints.
    #[cfg(not(feature = "train"))]
    let _ = directory;
}
