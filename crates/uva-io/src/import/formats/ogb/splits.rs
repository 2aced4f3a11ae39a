//! The splits of a dataset, in one of several schemes.

use std::path::{Path, PathBuf};

use uva_files::quote::listed;
use uva_graph::GraphError;

use super::raw::{OgbProblem, ids_of};
use crate::import::reading::text::{LineError, each_line, integer};
use crate::import::request::ImportRequest;

/// The directory of the scheme that the options choose, and its name.
pub(super) fn scheme(request: &ImportRequest<'_>) -> Result<(String, PathBuf), GraphError> {
    let directory = request.file("split");
    let mut schemes = Vec::new();
    for entry in std::fs::read_dir(&directory).map_err(GraphError::io(&directory, "open"))? {
        let entry = entry.map_err(GraphError::io(&directory, "read"))?;
        if entry.path().is_dir() {
            schemes.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    schemes.sort_unstable();
    let chosen = match (&request.options.variant, schemes.as_slice()) {
        (Some(name), _) => schemes.iter().find(|scheme| *scheme == name),
        (None, [only]) => Some(only),
        (None, _) => None,
    };
    let Some(scheme) = chosen else {
        let message = format!("{} has {}: give one of them", directory.display(), listed(&schemes));
        return Err(GraphError::usage("variant", message));
    };
    Ok((scheme.clone(), directory.join(scheme)))
}

/// The ids in the file of a split, of this many nodes.
pub(super) fn split_ids(path: &Path, nodes: u64) -> Result<Vec<i64>, GraphError> {
    let all = ids_of(nodes);
    let mut ids = Vec::new();
    each_line(path, &|_| {}, |_, text| {
        if text.is_empty() {
            return Ok(());
        }
        let id = integer(text).ok_or_else(|| LineError::Line("expected a node id".to_owned()))?;
        if !all.has(id) {
            return Err(LineError::Line(format!("it is {all}")));
        }
        ids.push(id);
        Ok(())
    })?;
    let mut sorted = ids.clone();
    sorted.sort_unstable();
    if let Some(twice) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(GraphError::invalid(path, OgbProblem::Twice { id: twice[0] }));
    }
    Ok(ids)
}
