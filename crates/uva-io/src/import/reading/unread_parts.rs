//! Lines about the parts of a source that an import does not read.

use std::fs;
use std::path::Path;

use uva_files::quote::shown;
use uva_graph::GraphError;

/// The maximum number of parts with a line each.
const LINES: usize = 16;

/// Reports that these parts of `place` are not read.
pub(crate) fn say(note: &dyn Fn(&str), place: &Path, parts: &[String]) {
    let place = place.display();
    for part in parts.iter().take(LINES) {
        note(&format!("{place}: {} is not read", shown(part)));
    }
    if let Some(more) = parts.len().checked_sub(LINES).filter(|more| *more > 0) {
        note(&format!("{place}: {more} more are not read"));
    }
}

/// The sorted names of the files in `directory` that `ends` and that `is_read` does not know.
pub(crate) fn files(
    directory: &Path,
    ends: &str,
    is_read: impl Fn(&str) -> bool,
) -> Result<Vec<String>, GraphError> {
    let mut left = Vec::new();
    for entry in fs::read_dir(directory).map_err(GraphError::io(directory, "read"))? {
        let name = entry.map_err(GraphError::io(directory, "read"))?.file_name();
        let name = name.to_string_lossy();
        if name.ends_with(ends) && !name.starts_with('.') && !is_read(&name) {
            left.push(name.into_owned());
        }
    }
    left.sort_unstable();
    Ok(left)
}
