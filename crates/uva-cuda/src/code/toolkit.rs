//! Locations of CUDA toolkits.

use std::path::PathBuf;

/// Folders of toolkits, those of the environment first. They may not exist.
pub(crate) fn folders() -> Vec<PathBuf> {
    let named = ["CUDA_HOME", "CUDA_PATH"].into_iter().filter_map(std::env::var_os);
    let named = named.filter(|folder| !folder.is_empty()).map(PathBuf::from);
    named.chain([PathBuf::from("/usr/local/cuda")]).collect()
}
