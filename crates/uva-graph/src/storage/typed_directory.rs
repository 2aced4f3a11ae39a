//! The directory of a dataset of format 2: what lies in it that no entry of `meta.json` describes.

use std::path::Path;

use crate::GraphError;
use crate::description::metagraph::Metagraph;
use crate::description::{meta, names};

#[derive(Debug, thiserror::Error)]
enum DirectoryProblem {
    #[error("a file of format 1 in a dataset of version 2: remove it")]
    OfFormat1,
    #[error("meta.json has no such {what}: a file in it would be ignored; rename or remove it")]
    Unknown { what: &'static str },
}

/// Checks that the dataset in `directory` has no file of format 1, which would be ignored, and no directory of another
/// node type or relation.
pub(crate) fn check_directories(directory: &Path, metagraph: &Metagraph) -> Result<(), GraphError> {
    for name in names::of_a_dataset().filter(|name| ![meta::FILE_NAME, names::STAMP].contains(name)) {
        let path = directory.join(name);
        if path.is_file() {
            return Err(GraphError::invalid(&path, DirectoryProblem::OfFormat1));
        }
    }
    let types = metagraph.types().map(|node_type| metagraph.type_name(node_type));
    check_group(directory, names::NODE_TYPES, "node type", &types.collect::<Vec<_>>())?;
    let relations = metagraph.relations().map(|relation| metagraph.full_name(relation));
    check_group(directory, names::RELATIONS, "relation", &relations.collect::<Vec<_>>())
}

fn check_group(directory: &Path, group: &str, what: &'static str, known: &[&str]) -> Result<(), GraphError> {
    let group = directory.join(group);
    let entries = match std::fs::read_dir(&group) {
        Ok(entries) => entries,
        // Node types need no files.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(GraphError::io(&group, "read")(error)),
    };
    let known: std::collections::HashSet<&str> = known.iter().copied().collect();
    let mut unknown = Vec::new();
    for entry in entries {
        let entry = entry.map_err(GraphError::io(&group, "read"))?;
        let is_known = entry.file_name().to_str().is_some_and(|name| known.contains(name));
        if !is_known && entry.path().is_dir() {
            unknown.push(entry.path());
        }
    }
    // The order of a directory's entries is arbitrary.
    match unknown.iter().min() {
        Some(path) => Err(GraphError::invalid(path, DirectoryProblem::Unknown { what })),
        None => Ok(()),
    }
}
