//! Tables of comma-separated values (RFC 4180, UTF-8): `edges.csv`, and an optional `nodes.csv`, plain or compressed by
//! gzip or Zstandard. The first line names the columns.
//!
//! [`tables`](super::tables) says which columns are read. A column is of numbers if all of its values are.

mod records;
mod table;

use std::path::{Path, PathBuf};

use uva_graph::GraphError;

use self::table::CsvTable;
use super::tables::{self, SourceTable};
use crate::import::importer::{Importer, SourceKind};
use crate::import::options::Extra;
use crate::import::reading::unread_parts;
use crate::import::request::ImportRequest;

const ENDINGS: [&str; 3] = ["csv", "csv.gz", "csv.zst"];

/// The row in the table.
pub(crate) const IMPORTER: Importer = Importer {
    name: "csv",
    help: "Tables of edges and nodes as comma-separated values with a header, plain, .gz or .zst",
    source: SourceKind::Either(
        "a .csv file of edges, or a directory with edges.csv and perhaps nodes.csv, or with edges/S__R__D.csv and nodes/T.csv",
    ),
    takes: &[Extra::Regression, Extra::Reverse, Extra::Tables],
    import,
};

/// Imports one graph.
fn import(request: &ImportRequest<'_>) -> Result<(), GraphError> {
    let open = |path: &PathBuf, stage: &'static str| {
        let table = CsvTable::open(path, &|position| request.watch.at(stage, position))?;
        Ok::<_, GraphError>(Box::new(table) as Box<dyn SourceTable>)
    };
    if tables::is_typed(request, &ENDINGS) {
        return tables::import_typed(request, "csv", &ENDINGS, &|path| open(path, "tables"));
    }
    let (edges, nodes) = match request.source.is_dir() {
        true => {
            let (edges, nodes) = (found(request, "edges")?, found(request, "nodes")?);
            let edges = edges.ok_or_else(|| {
                let message = format!(
                    "{} has no edges.csv, nor one with .gz or .zst: give the file itself",
                    request.source.display()
                );
                GraphError::usage("SRC", message)
            })?;
            say_other_files(request, [Some(&edges), nodes.as_ref()])?;
            (edges, nodes)
        }
        false => (request.source.to_owned(), None),
    };
    let edges = open(&edges, "edges")?;
    let nodes = nodes.map(|path| open(&path, "nodes")).transpose()?;
    tables::import(request, "csv", edges, nodes)
}

/// The table of that name in the source directory.
fn found(request: &ImportRequest<'_>, stem: &str) -> Result<Option<PathBuf>, GraphError> {
    let mut there = ENDINGS
        .map(|ending| request.file(format!("{stem}.{ending}")))
        .into_iter()
        .filter(|path| path.exists());
    match (there.next(), there.next()) {
        (Some(first), Some(second)) => {
            let message = format!("there are {} and {}: remove one", first.display(), second.display());
            Err(GraphError::usage("SRC", message))
        }
        (found, _) => Ok(found),
    }
}

/// Reports the other tables in the source directory, which are not read.
fn say_other_files(request: &ImportRequest<'_>, read: [Option<&PathBuf>; 2]) -> Result<(), GraphError> {
    let is_read =
        |name: &str| read.iter().flatten().any(|path| path.file_name() == Path::new(name).file_name());
    let mut left = Vec::new();
    for ending in ENDINGS {
        left.extend(unread_parts::files(request.source, &format!(".{ending}"), is_read)?);
    }
    unread_parts::say(request.watch.note, request.source, &left);
    Ok(())
}
