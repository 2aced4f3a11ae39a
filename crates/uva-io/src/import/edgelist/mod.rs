//! Edge lists: lines of text with a source, a destination and an optional weight, plain, `.gz` or `.zst`.
//!
//! Columns are separated by commas, tabs or blanks, as in the first edge's line. Empty lines and lines that begin with
//! `#` or `%` are comments. The caller says what the ids are: node numbers, any integers, or names; see [`numbering`].

mod lines;

use std::path::{Path, PathBuf};

use uva_graph::csc::Changes;
use uva_graph::{GraphError, Meta};

use self::lines::{Edge, LineReader};
use super::importer::{Importer, SourceKind};
use super::npy::Arrays;
use super::numbering::{self, Numbering, Survey};
use super::options::{Extra, ThirdColumn};
use super::output::{Output, Sizes};
use super::read_speed;
use super::request::Request;
use super::text::{LineError, each_line};

/// File names searched in a source directory.
const STEMS: [&str; 3] = ["edges.tsv", "edges.csv", "edges.txt"];
const ENDINGS: [&str; 3] = ["", ".gz", ".zst"];

/// The row in the table.
pub(super) const IMPORTER: Importer = Importer {
    name: "edgelist",
    help: "Lines of text with an edge each, plain, .gz or .zst",
    source: SourceKind::Either(
        "a file with a line an edge, or a directory with edges.tsv, edges.csv or edges.txt",
    ),
    takes: &[Extra::Lines, Extra::Regression],
    import,
};

/// Imports an edge list. If arrays come with it, the features have a row for each node. Otherwise every node has one
/// feature, 1, and is in no split; there are no labels.
fn import(request: &Request<'_>) -> Result<(), GraphError> {
    let options = &request.options.edge_list;
    let (file, directory) = found(request.source)?;
    if let Some(arrays) = options.arrays.as_deref().filter(|arrays| !arrays.is_dir()) {
        let message = format!(
            "{} is no directory; it has to be one with feat.npy, train_idx.npy, valid_idx.npy and test_idx.npy, and \
             label.npy to train",
            arrays.display()
        );
        return Err(GraphError::usage("--arrays", message));
    }
    let directory = options.arrays.as_deref().or(directory);
    let arrays = directory.map(|directory| Arrays::open(directory, request)).transpose()?;
    let changes = request.options.changes(Changes::NONE);
    let weighted = options.third_column == Some(ThirdColumn::Weight);
    if weighted && !changes.is_none() {
        let message = "weights cannot follow edges that are symmetrised, deduplicated or given self-loops: leave the \
                       edges as they are, or say --third-column ignore";
        return Err(GraphError::usage("--third-column weight", message));
    }

    let known = numbering::known(options, arrays.as_ref(), directory)?;
    // If the nodes are known, one pass is enough, and the edges are not counted first.
    let (numbering, edges) = match known {
        Some(numbering) => (numbering, None),
        None => {
            let (numbering, edges) = survey(&file, request)?;
            (numbering, Some(edges))
        }
    };
    let nodes = numbering.nodes();
    let mut sizes = match &arrays {
        Some(arrays) => arrays.sizes(),
        None => Sizes { feature_row_bytes: 4, ..Sizes::default() },
    };
    sizes.nodes = Some(nodes);
    sizes.edges = edges;
    sizes.weighted = weighted;
    sizes.seconds = read_speed::of_text(&file)?;
    let output = Output::begin(request, sizes, changes)?;

    let mut lists = output.lists(nodes, weighted)?;
    let mut reader = LineReader::new(options);
    each_line(&file, &|position| request.watch.at("edges", position), |line, text| {
        if let Some(Edge { source, destination, weight }) = reader.edge(line, text)? {
            lists.push(
                numbering.place(source, "source")?,
                numbering.place(destination, "destination")?,
                weight,
            )?;
        }
        Ok::<(), LineError>(())
    })?;
    output.finish_lists(lists)?;
    numbering.write(&output)?;
    let mut meta = match arrays {
        Some(arrays) => arrays.write(&output)?,
        None => {
            let element = output.constant_features(nodes)?;
            output.splits(&[[]; 3])?;
            Meta { feat_dtype: Some(element.name().to_owned()), ..Meta::default() }
        }
    };
    meta.name = request.name(meta.name);
    output.finish(meta)
}

/// The file with the edges, and the directory to search for arrays, if any.
fn found(source: &Path) -> Result<(PathBuf, Option<&Path>), GraphError> {
    if !source.is_dir() {
        return Ok((source.to_owned(), None));
    }
    let names = STEMS.iter().flat_map(|stem| ENDINGS.map(|ending| format!("{stem}{ending}")));
    let mut there = names.map(|name| source.join(name)).filter(|path| path.exists());
    match (there.next(), there.next()) {
        (Some(file), None) => Ok((file, Some(source))),
        (None, _) => {
            let message = format!(
                "{} has no edges.tsv, edges.csv or edges.txt, nor any of them with .gz or .zst: name the file itself",
                source.display()
            );
            Err(GraphError::usage("SRC", message))
        }
        (Some(first), Some(second)) => {
            let message =
                format!("there are {} and {}: name the one that is meant", first.display(), second.display());
            Err(GraphError::usage("SRC", message))
        }
    }
}

/// The nodes, and the number of edges.
fn survey(file: &Path, request: &Request<'_>) -> Result<(Numbering, u64), GraphError> {
    let options = &request.options.edge_list;
    let mut reader = LineReader::new(options);
    let mut survey = Survey::new(options.ids);
    let mut edges = 0;
    each_line(file, &|position| request.watch.at("nodes", position), |line, text| {
        if let Some(edge) = reader.edge(line, text)? {
            survey.see(edge.source)?;
            survey.see(edge.destination)?;
            edges += 1;
        }
        Ok::<(), LineError>(())
    })?;
    Ok((survey.finish(), edges))
}
