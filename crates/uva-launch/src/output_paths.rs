//! Files that an output must not replace: inputs of the command, and files of datasets, hop sets, partitions and
//! checkpoints, under any path.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use uva_graph::names;
use uva_graph::partition_map::{PARTITION, PARTITION_SUMMARY};
use uva_model::checkpoint;
use uva_runtime::RuntimeError;

use crate::checkpoint_files;

/// Maximum number of consecutive links that are followed, the same as the system's.
const MOST_LINKS: usize = 40;
/// Maximum depth of a partition's files, which are in folders of its parts.
const DEPTH: usize = 2;

/// Rejects outputs that would replace or change an input, or a file of a dataset, a hop set, a partition or a
/// checkpoint. `reads` are files and directories; files are compared by device and inode. A missing file that such a
/// directory may have counts too.
///
/// # Errors
/// [`RuntimeError::Usage`] with the option and the file.
pub fn check(outputs: &[(&str, Option<&Path>)], reads: &[Option<&Path>]) -> Result<(), RuntimeError> {
    let mut read = HashMap::new();
    for path in reads.iter().flatten() {
        note_files(path, DEPTH, &mut read);
    }
    for (option, path) in outputs.iter().filter_map(|(option, path)| Some((option, (*path)?))) {
        let shown = path.display();
        if let Some(input) = identity(path).and_then(|identity| read.get(&identity)) {
            let input = input.display();
            return Err(RuntimeError::usage(format!(
                "{option} {shown}: this is {input}, which the command reads: name another file"
            )));
        }
        let target = target(path);
        let (Some(directory), Some(name)) = (target.parent(), target.file_name()) else { continue };
        if let Some(kind) = owner(directory, &name.to_string_lossy()) {
            let (name, directory) = (name.display(), directory.display());
            return Err(RuntimeError::usage(format!(
                "{option} {shown}: {name} is a file of the {kind} in {directory}: name another file"
            )));
        }
    }
    Ok(())
}

/// The kind of this directory, if it may have a file of this name.
fn owner(directory: &Path, name: &str) -> Option<&'static str> {
    let has = |name: &str| fs::symlink_metadata(directory.join(name)).is_ok();
    let is_dataset = || [names::INDPTR, names::INDICES, names::FEATURES].into_iter().any(has);
    if has(checkpoint_files::STATE) && (checkpoint::is_file_name(name) || name == checkpoint_files::LOCK) {
        return Some("checkpoint");
    }
    if has(names::HOP_SET) && names::is_of_hop_set(name) {
        return Some("hop set");
    }
    if has(PARTITION_SUMMARY) && [PARTITION_SUMMARY, PARTITION].contains(&name) {
        return Some("partition");
    }
    (names::of_a_dataset().any(|known| known == name) && is_dataset()).then_some("dataset")
}

/// The file that an output names, with all links resolved. It need not exist.
fn target(path: &Path) -> PathBuf {
    let mut target = path.to_owned();
    for _ in 0..MOST_LINKS {
        let Ok(to) = fs::read_link(&target) else { break };
        target = target.parent().unwrap_or(Path::new("")).join(to);
    }
    let parent = target.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match (fs::canonicalize(parent), target.file_name()) {
        (Ok(parent), Some(name)) => parent.join(name),
        _ => target,
    }
}

/// Device and inode of a regular file; `None` otherwise.
fn identity(path: &Path) -> Option<(u64, u64)> {
    let metadata = fs::metadata(path).ok().filter(fs::Metadata::is_file)?;
    Some((metadata.dev(), metadata.ino()))
}

/// Records a file, or the files of a directory that belong to its dataset, hop set, partition or checkpoint.
fn note_files(path: &Path, depth: usize, read: &mut HashMap<(u64, u64), PathBuf>) {
    if let Some(identity) = identity(path) {
        read.insert(identity, path.to_owned());
        return;
    }
    let Ok(entries) = fs::read_dir(path) else { return };
    for entry in entries.flatten() {
        let inner = entry.path();
        if inner.is_dir() {
            if depth > 0 {
                note_files(&inner, depth - 1, read);
            }
        } else if owner(path, &entry.file_name().to_string_lossy()).is_some() {
            note_files(&inner, 0, read);
        }
    }
}
