//! The files of a table: one, or those in a directory, as Spark and Dask write them.

use std::fs;
use std::path::{Path, PathBuf};

use uva_graph::GraphError;

use crate::import::reading::unread_parts;
use crate::import::request::ImportRequest;

const ENDING: &str = ".parquet";

/// The table of edges in the source, and that of nodes, if there is one.
pub(super) fn of_source(request: &ImportRequest<'_>) -> Result<(PathBuf, Option<PathBuf>), GraphError> {
    let source = request.source;
    let (edges, nodes) = (request.file("edges.parquet"), request.file("nodes.parquet"));
    if !source.is_dir() || !edges.exists() && is_table(source)? {
        return Ok((source.to_owned(), None));
    }
    if edges.exists() {
        let is_read = |name: &str| ["edges.parquet", "nodes.parquet"].contains(&name);
        unread_parts::say(request.watch.note, source, &unread_parts::files(source, ENDING, is_read)?);
    }
    Ok((edges, Some(nodes).filter(|path| path.exists())))
}

/// Whether a directory is one table in several files.
fn is_table(directory: &Path) -> Result<bool, GraphError> {
    Ok(names_in(directory)?
        .iter()
        .any(|name| name == "_SUCCESS" || name.starts_with("part-") || name.starts_with("part.")))
}

/// The files of the table at `path`, in the order of their names. Names that begin with `.` or `_` are the writer's own.
pub(super) fn of_table(path: &Path, note: &dyn Fn(&str)) -> Result<Vec<PathBuf>, GraphError> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let (mut files, mut others) = (Vec::new(), Vec::new());
    for name in names_in(path)?.into_iter().filter(|name| !name.starts_with(['.', '_'])) {
        let file = path.join(&name);
        if file.is_dir() {
            let message = format!(
                "{} is a directory: a table is one directory of files, not divided by columns (partitionBy)",
                file.display()
            );
            return Err(GraphError::usage("SRC", message));
        }
        if name.ends_with(ENDING) { files.push(file) } else { others.push(name) }
    }
    unread_parts::say(note, path, &others);
    match files.is_empty() {
        true => Err(GraphError::usage("SRC", format!("{} has no {ENDING} files", path.display()))),
        false => Ok(files),
    }
}

/// Returns the sorted names in a directory.
fn names_in(directory: &Path) -> Result<Vec<String>, GraphError> {
    let read = || -> std::io::Result<Vec<String>> {
        fs::read_dir(directory)?
            .map(|entry| {
                let name = entry?.file_name().into_string();
                name.map_err(|_| std::io::Error::other("a name in it is not UTF-8"))
            })
            .collect()
    };
    let mut names = read().map_err(GraphError::io(directory, "read"))?;
    names.sort_unstable();
    Ok(names)
}
